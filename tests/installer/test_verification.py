"""Each trap that an exit code would not show is a fault, and nothing else is."""

from types import MappingProxyType
from typing import Any

import pytest
from msgspec import structs

from installer.decide import desired, verification
from installer.host import host_state, kmod, pci, record
from runtime import shapes
from tests.installer import machines, modulefiles, settings

HPRE, SEC, ZIP = "0000:79:00.0", "0000:76:00.0", "0000:75:00.0"
Sort = verification.Sort
LOAD, FILES, VFS, NODES = Sort.LOAD, Sort.FILES, Sort.VFS, Sort.NODES


def faults(
    current: host_state.HostState, driver: record.Driver | None = None, served: tuple[str, ...] = (), **changes: Any
) -> list[tuple[verification.Sort, str]]:
    """Return the faults found for a config with these changes to the smallest one."""
    found = verification.faults(settings.config(**changes), current, driver or settings.driver(), served)
    return [(fault.sort, fault.text) for fault in found]


def but_for(name: str, **changes: Any) -> dict[str, Any]:
    """The modules as they should be, but for one that differs; without changes it is not loaded."""
    others = {other: settings.module(other) for other in modulefiles.DRIVER if other != name}
    return others | ({name: settings.module(name, **changes)} if changes else {})


def with_function(address: str, kind: str, **changes: Any) -> tuple[pci.Function, ...]:
    """The functions as they should be, but for one."""
    others = tuple(found for found in settings.functions() if found.address != address)
    return (*others, settings.function(address, kind, **changes))


def lying(folder: str = "updates/kae") -> dict[str, kmod.File]:
    """The module files in a folder."""
    return {name: settings.file(name, folder) for name in modulefiles.DRIVER}


def own() -> dict[str, Any]:
    """The kernel's own modules, as they are loaded."""
    builds = {name: modulefiles.identity(name, modulefiles.IN_TREE)[1] for name in modulefiles.DRIVER}
    return {name: settings.module(name, version=None, build=build) for name, build in builds.items()}


@pytest.mark.parametrize(
    ("changes", "driver"),
    [
        ({}, {}),
        ({}, {"digests": {}}),
        ({"files": lying("extra")}, {"source": "packages", "modules": {}}),
        ({"functions": settings.functions()[1:], "loaded": but_for("hisi_zip")}, {}),
        ({"functions": with_function(HPRE, "hpre", driver="vfio-pci", entry=None)}, {}),
        ({"loaded": but_for("hisi_hpre", version=None, build=None)}, {}),
        ({"loaded": but_for("hisi_hpre", parameters={"uacce_mode": "2", "pf_q_num": "256", "vfs_num": "4"})}, {}),
    ],
    ids=["right", "of-an-earlier-release", "packages-elsewhere", "no-device", "guest", "nameless", "not-asked-for"],
)
def test_a_host_that_is_right_has_no_fault(changes: dict[str, Any], driver: dict[str, Any]) -> None:
    current = settings.current(**changes)

    assert faults(current, settings.driver(**driver), tuple(item.address for item in current.functions)) == []


def test_a_module_without_a_file_for_the_running_kernel_is_a_fault_of_the_files() -> None:
    files = {name: settings.file(name) for name in modulefiles.DRIVER if name != "hisi_zip"}

    assert faults(settings.current(files=files)) == [
        (FILES, f"There is no module hisi_zip for the running kernel {machines.KERNEL}.")
    ]


def test_a_module_that_modprobe_takes_from_elsewhere_is_a_fault_of_the_files() -> None:
    files = lying() | {"hisi_qm": settings.file("hisi_qm", "extra")}

    assert faults(settings.current(files=files)) == [
        (
            FILES,
            f"modprobe takes hisi_qm from '/lib/modules/{machines.KERNEL}/extra/hisi_qm.ko', not from"
            f" '/lib/modules/{machines.KERNEL}/updates/kae'.",
        )
    ]


def test_a_module_before_the_kernels_own_is_a_fault_where_those_are_wanted() -> None:
    files = {name: settings.file(name, f"kernel/drivers/{name}", modulefiles.IN_TREE) for name in modulefiles.DRIVER}
    driver = settings.driver(source="inTree", modules={}, digests={})
    shadowed = files | {"uacce": settings.file("uacce", "extra", modulefiles.IN_TREE)}

    assert faults(settings.current(files=files, loaded=own()), driver) == []
    assert faults(settings.current(files=shadowed, loaded=own()), driver) == [
        (FILES, f"'/lib/modules/{machines.KERNEL}/extra/uacce.ko' stands before the kernel's own module uacce.")
    ]


@pytest.mark.parametrize("name", modulefiles.DRIVER)
def test_a_module_that_is_not_loaded_is_one_fault(name: str) -> None:
    functions = tuple(
        settings.function(found.address, found.kind.name, entry=None, driver=None)
        if found.kind.module == name
        else found
        for found in settings.functions()
    )

    found = faults(settings.current(loaded=but_for(name), functions=functions))

    assert found == [(LOAD, f"Module {name} is not loaded.")]


@pytest.mark.parametrize(
    ("changes", "version"),
    [({"version": "2.0.0"}, "2.0.0"), ({"version": "2.0.0", "build": None}, "2.0.0"), ({"build": "ANOTHER"}, "2.0.1")],
    ids=["version", "version-without-srcversion", "srcversion"],
)
def test_a_module_that_an_initramfs_loaded_is_told_by_version_or_sources(changes: dict[str, Any], version: str) -> None:
    assert faults(settings.current(loaded=but_for("hisi_hpre", **changes))) == [
        (
            LOAD,
            f"Module hisi_hpre was loaded from elsewhere (it is {version}), perhaps from the initramfs, not from"
            f" '/lib/modules/{machines.KERNEL}/updates/kae/hisi_hpre.ko' (2.0.1).",
        )
    ]


def test_a_module_without_version_is_named_by_the_digest_of_its_sources() -> None:
    files = {name: settings.file(name, version=modulefiles.IN_TREE) for name in modulefiles.DRIVER}
    build = modulefiles.identity("uacce", modulefiles.IN_TREE)[1]
    loaded = own() | {"uacce": settings.module("uacce", version=None, build="1234")}

    ((_, text),) = faults(settings.current(files=files, loaded=loaded), settings.driver(digests={}))

    assert "(it is 1234)" in text
    assert text.endswith(f"uacce.ko' ({build}).")


@pytest.mark.parametrize(
    ("in_force", "was"), [({"uacce_mode": "0", "pf_q_num": "256"}, "0"), ({"pf_q_num": "256"}, "unknown to it")]
)
def test_a_parameter_that_is_not_in_force_is_a_fault(in_force: dict[str, str], was: str) -> None:
    loaded = but_for("hisi_hpre", parameters=MappingProxyType(in_force))

    assert faults(settings.current(loaded=loaded)) == [
        (LOAD, f"Parameter uacce_mode of module hisi_hpre is {was}, not 2.")
    ]


def test_modules_that_are_loaded_and_give_no_entry_are_a_fault() -> None:
    functions = with_function(HPRE, "hpre", entry=None)

    assert faults(settings.current(functions=functions)) == [
        (LOAD, "Module hisi_hpre is loaded, but no hpre device has an entry in /sys/class/uacce.")
    ]


def test_one_of_two_devices_without_entry_is_no_fault_unless_it_had_one() -> None:
    lost = settings.function("0000:b9:00.0", entry=None, driver=None)
    current = settings.current(functions=(*settings.functions(), lost))

    assert faults(current) == []
    assert faults(current, served=(HPRE, lost.address)) == [
        (LOAD, "Device 0000:b9:00.0 had an entry in /sys/class/uacce, and has none now.")
    ]


def test_devices_that_serve_the_kernel_alone_need_no_entry() -> None:
    functions = with_function(HPRE, "hpre", entry=None)
    asked = settings.config().parameters | {"hisi_hpre": {"uacce_mode": 0}}
    loaded = but_for("hisi_hpre", parameters={"uacce_mode": "0"})
    options = desired.options(settings.config()) | {"hisi_hpre": "options hisi_hpre uacce_mode=0\n"}

    assert faults(settings.current(functions=functions, loaded=loaded, options=options), module_parameters=asked) == []


@pytest.mark.parametrize("text", [None, "options hisi_zip pf_q_num=64\n", "options hisi_zip pf_q_num=256 uacce_mode=2"])
def test_options_that_the_next_boot_would_not_find_are_a_fault_that_disturbs_nobody(text: str | None) -> None:
    others = {name: line for name, line in settings.current().options.items() if name != "hisi_zip"}
    options = others | ({"hisi_zip": text} if text is not None else {})

    assert faults(settings.current(options=options)) == [
        (NODES, "'/etc/modprobe.d/hisi_zip.conf' does not say 'options hisi_zip pf_q_num=256 uacce_mode=2'.")
    ]


@pytest.mark.parametrize(("asked", "vfs", "right"), [(4, 4, True), (4, 0, False), (0, 2, False), (None, 7, True)])
def test_virtual_functions_are_counted_where_a_number_was_asked_for(asked: int | None, vfs: int, right: bool) -> None:
    functions = with_function(HPRE, "hpre", vfs=vfs)
    expected = [] if right else [(VFS, f"Device {HPRE} has {vfs} virtual functions, not {asked}.")]

    sriov = {} if asked is None else {"hpre": asked}
    options = desired.options(settings.config(sriov=sriov))
    found = faults(settings.current(functions=functions, options=options), sriov=sriov)

    assert found == expected


@pytest.mark.parametrize("changes", [{"virtual": True}, {"driver": "vfio-pci", "entry": None}, {"driver": None}])
def test_virtual_functions_are_asked_only_of_what_can_have_some(changes: dict[str, Any]) -> None:
    functions = with_function(HPRE, "hpre", **changes)

    assert VFS not in {sort for sort, _ in faults(settings.current(functions=functions), sriov={"hpre": 4})}


@pytest.mark.parametrize(
    ("changes", "asked", "said"),
    [
        ({"total_vfs": 7}, 8, "can have 7 virtual functions, and 8 are asked for: lower driver.sriov.hpre of the "),
        ({"total_vfs": 0}, 1, "can have no virtual functions, and 1 are asked for: switch SR-IOV on in the BIOS, or "),
        ({"total_vfs": 7, "driver": None, "entry": None}, 8, "can have 7 virtual functions, and 8 are asked for: lo"),
        ({"total_vfs": 7}, 7, None),
        ({"total_vfs": 0}, 0, None),
        ({"total_vfs": 0}, None, None),
        ({"total_vfs": 0, "virtual": True}, 4, None),
        ({"total_vfs": 0, "driver": "vfio-pci", "entry": None}, 4, None),
    ],
    ids=["fewer", "none", "not-loaded", "as-many", "none-asked", "not-stated", "guest", "lent"],
)
def test_more_virtual_functions_than_a_device_can_have_are_impossible(
    changes: dict[str, Any], asked: int | None, said: str | None
) -> None:
    current = settings.current(functions=with_function(HPRE, "hpre", **changes))

    found = verification.impossible(settings.config(sriov={} if asked is None else {"hpre": asked}), current)

    assert [text[: len(f"Device {HPRE} {said}")] for text in found] == ([f"Device {HPRE} {said}"] if said else [])


def test_what_several_devices_cannot_have_is_one_sentence_for_each_kind_and_number() -> None:
    functions = (
        *(settings.function(address, "hpre", total_vfs=7) for address in (HPRE, "0000:b9:00.0")),
        settings.function("0000:7a:00.0", "hpre", total_vfs=3),
        settings.function(ZIP, "zip", total_vfs=0),
    )

    found = verification.impossible(settings.config(sriov={"hpre": 8, "zip": 2}), settings.current(functions=functions))

    assert found == (
        f"Each of the devices {HPRE}, 0000:b9:00.0 can have 7 virtual functions, and 8 are asked for: lower"
        " driver.sriov.hpre of the policy 'tls'.",
        "Device 0000:7a:00.0 can have 3 virtual functions, and 8 are asked for: lower driver.sriov.hpre of the policy"
        " 'tls'.",
        f"Device {ZIP} can have no virtual functions, and 2 are asked for: switch SR-IOV on in the BIOS, or set"
        " driver.sriov.zip of the policy 'tls' to 0.",
    )


def test_a_missing_udev_rule_is_a_fault_that_disturbs_nobody() -> None:
    assert faults(settings.current(rule=False)) == [(NODES, "There is no udev rule '/etc/udev/rules.d/70-kae.rules'.")]


@pytest.mark.parametrize(
    ("mode", "fault"),
    [
        (0o600, (NODES, "/dev/hisi_hpre-0 has mode 0600, not 0666.")),
        (0o664, (NODES, "/dev/hisi_hpre-0 has mode 0664, not 0666.")),
        (None, (LOAD, "The device node /dev/hisi_hpre-0 is missing.")),
        (0o666, None),
        (0o777, None),
    ],
)
def test_a_device_node_is_there_for_everybody(mode: int | None, fault: tuple[verification.Sort, str] | None) -> None:
    functions = with_function(HPRE, "hpre", entry=pci.Entry(name="hisi_hpre-0", numbers="1:3", mode=mode))

    assert faults(settings.current(functions=functions)) == ([fault] if fault is not None else [])


@pytest.mark.parametrize(
    ("mode", "group", "said"),
    [
        (0o666, 994, "mode 0666, not 0660"),
        (0o600, 994, "mode 0600, not 0660"),
        (0o660, 0, "group 0, not 994"),
        (0o660, 994, None),
    ],
)
def test_a_device_node_is_for_the_group_of_the_policy_alone(mode: int, group: int, said: str | None) -> None:
    functions = with_function(HPRE, "hpre", entry=pci.Entry(name="hisi_hpre-0", numbers="1:3", mode=mode, group=group))
    found = faults(
        settings.current(functions=(functions[-1],)), device_nodes=shapes.DeviceNodes(mode="0660", group=994)
    )

    assert found == ([(NODES, f"/dev/hisi_hpre-0 has {said}.")] if said else [])


def test_a_driver_that_comes_back_need_be_in_place_and_not_good_for_anything() -> None:
    current = settings.current(rule=False, options={}, functions=with_function(HPRE, "hpre", entry=None))
    loaded = but_for("hisi_zip", version="2.0.0", build=None)

    assert verification.in_place(modulefiles.DRIVER, current, settings.driver()) == ()
    assert [
        fault.sort
        for fault in verification.in_place(modulefiles.DRIVER, settings.current(loaded=loaded), settings.driver())
    ] == [LOAD]


def test_faults_are_told_with_the_gravest_first() -> None:
    files = lying("extra")
    current = settings.current(files=files, loaded=but_for("uacce"), rule=False)

    assert [sort for sort, _ in faults(current)] == [FILES] * 5 + [LOAD, NODES]


def test_a_module_file_whose_content_was_changed_is_a_fault_of_the_files() -> None:
    good = settings.file("hisi_zip")
    files = lying() | {"hisi_zip": structs.replace(good, digest="another")}

    assert faults(settings.current(files=files)) == [(FILES, f"'{good.path}' is not as it was installed.")]


@pytest.mark.parametrize("lies", [{}, {"lib/libwd.so.2": "another"}], ids=["missing", "changed"])
def test_a_library_that_is_not_as_it_was_installed_is_a_fault_that_disturbs_nobody(lies: dict[str, str]) -> None:
    driver = settings.driver(libraries={"lib/libwd.so.2": "its digest"})

    assert faults(settings.current(libraries=lies), driver) == [
        (verification.Sort.LIBRARIES, "'/opt/kae/lib/libwd.so.2' is not as it was installed.")
    ]
    assert faults(settings.current(libraries=driver.libraries), driver) == []
