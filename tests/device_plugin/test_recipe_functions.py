"""PCI functions of a recipe's kinds: by vfio-pci, and by the class uacce; and recipes beside each other."""

import asyncio
from pathlib import Path

import pytest

from compiler import devices
from device_plugin import cli, config, host_links, plugin
from device_plugin.kubelet.service import Refusal
from runtime import shapes
from tests.device_plugin import hosts, machines, settings

PF, A, B = "0000:79:00.0", "0000:79:00.1", "0000:79:00.2"
VF, QUEUE = "example.com/vf", "example.com/queue"
TABLE = {kind.name: kind for kind in devices.KINDS}
KIND = shapes.Kind(name="nic", vendor=devices.VENDOR, devices=(TABLE["hpre"].pf,), virtual=(TABLE["hpre"].vf,))
INJECT = config.ResourceInject(env={"MODE": "fast"})


def looked(host: hosts.Host, *resources: config.AnyResource) -> plugin.Plugin:
    return settings.looked(host, settings.recipe(*resources, kinds=(KIND,)))


def test_virtual_functions_of_a_recipes_kind_are_offered_by_vfio(tmp_path: Path) -> None:
    node = looked(machines.with_guests(tmp_path), config.Vfio(name=VF, kind="nic", inject=INJECT))

    assert settings.told(node, VF) == {A: True, B: True}
    answer = asyncio.run(node.allocate(VF, [A]))
    assert [(each.container_path, each.host_path) for each in answer.devices] == [
        ("/dev/vfio/vfio", "/dev/vfio/vfio"),
        ("/dev/vfio/41", str(node.where.links / "vfio-nic-30977")),
    ]
    assert dict(answer.envs) == {"MODE": "fast", "PCIDEVICE_EXAMPLE_COM_VF": A, "PCI_RESOURCE_EXAMPLE_COM_VF": A}
    assert list(answer.mounts) == []


def test_functions_of_one_group_are_one_device_where_all_are_of_the_kind_and_bound(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    host.set_vfs(PF, 3)
    host.lend(A, 41)
    host.lend(B, 41)
    node = looked(host, config.Vfio(name=VF, kind="nic"))

    assert settings.told(node, VF) == {A: True}
    answer = asyncio.run(node.allocate(VF, [A]))
    assert [each.container_path for each in answer.devices] == ["/dev/vfio/vfio", "/dev/vfio/41"]
    assert answer.envs["PCIDEVICE_EXAMPLE_COM_VF"] == f"{A},{B}"
    assert str(node.where.link(node.devices[0].function.kind, A).readlink()) == "/dev/vfio/41"
    with pytest.raises(Refusal, match=f"Device {B} of {VF} is not offered: It comes with {A}, in one IOMMU group"):
        asyncio.run(node.allocate(VF, [B]))

    host.unbind(B)
    host.bind(B)
    with pytest.raises(Refusal, match=f"Device {A} of {VF} is unhealthy: Its IOMMU group 41 has {B}, too"):
        asyncio.run(node.allocate(VF, [A]))


def test_a_stranger_in_a_group_keeps_it_from_everybody(tmp_path: Path) -> None:
    host = machines.with_guests(tmp_path)
    host.add_foreign("0000:7d:00.1", "8086", "1572")
    host.share_group("0000:7d:00.1", 41)

    assert settings.told(looked(host, config.Vfio(name=VF, kind="nic")), VF) == {A: False, B: True}


def test_functions_are_of_a_kind_by_vendor_device_and_class(tmp_path: Path) -> None:
    host = machines.with_guests(tmp_path)
    resource = config.Vfio(name=VF, kind="nic")

    def offered(**changes: object) -> int:
        kind = shapes.Kind(**{"name": "nic", "vendor": devices.VENDOR} | changes)  # type: ignore[arg-type]
        node = plugin.Plugin(settings.where(host), settings.recipe(resource, kinds=(kind,)))
        asyncio.run(node.look())
        return len(settings.told(node, VF))

    assert offered(classes=("1000",)) == 2
    assert offered(classes=("0200",)) == 0
    assert offered(devices=(TABLE["hpre"].vf,)) == 2
    assert offered(devices=(TABLE["hpre"].pf,)) == 0
    assert offered(devices=(TABLE["hpre"].pf,), virtual=(TABLE["hpre"].vf,), classes=("1000",)) == 2
    assert offered(vendor="1924", classes=("1000",)) == 0


def test_a_function_with_an_entry_is_offered_by_uacce(tmp_path: Path) -> None:
    node = looked(machines.bare_metal(tmp_path), config.Uacce(name=QUEUE, kind="nic", shares=2, inject=INJECT))

    assert settings.told(node, QUEUE) == {name: True for pf in (PF, "0000:b9:00.0") for name in (pf, f"{pf}::1")}
    answer = asyncio.run(node.allocate(QUEUE, [PF]))
    assert [each.container_path for each in answer.devices] == ["/dev/nic-30976"]
    assert {mount.container_path for mount in answer.mounts} == {"/sys/class/uacce", "/run/kae/uacce/given/nic-30976"}
    assert dict(answer.envs) == {"MODE": "fast"}


def test_what_a_resource_requires_concerns_its_functions_too(tmp_path: Path) -> None:
    host = machines.with_guests(tmp_path)
    node = looked(host, config.Vfio(name=VF, kind="nic", requires=("/opt/qat",)))

    assert settings.told(node, VF) == {A: False, B: False}
    with pytest.raises(Refusal, match=f"Device {A} of {VF} is unhealthy: /opt/qat of the host is not there"):
        asyncio.run(node.allocate(VF, [A]))

    (tmp_path / "opt/qat").mkdir(parents=True)
    asyncio.run(node.look())
    assert settings.told(node, VF) == {A: True, B: True}


def test_a_recipe_has_folders_sockets_and_a_lock_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    stated = settings.recipe(config.Token(name="amd.com/onload", count=1))
    file.write_text(settings.text(stated))
    options = cli._parser().parse_args(["--config", str(file)])

    own, kae = cli._paths(options, stated), cli._paths(options, settings.settings())

    assert (str(own.run), str(kae.run)) == ("/run/kae/recipes/onload", "/run/kae")
    assert own.sockets == Path("/var/lib/kubelet/plugins_registry/onload")
    assert kae.sockets == Path("/var/lib/kubelet/plugins_registry/kae")
    assert own.lock != kae.lock
    named = cli._parser().parse_args(["--run-dir", str(tmp_path)])
    assert cli._paths(named, stated).run == tmp_path


def test_a_recipe_writes_nothing_of_kae(tmp_path: Path) -> None:
    where = settings.where(machines.bare_metal(tmp_path))

    host_links.prepare(where, settings.recipe(config.Token(name="amd.com/onload", count=1)))

    assert not where.openssl.exists()


def test_sockets_have_short_names_of_the_resource() -> None:
    stated = settings.recipe(
        config.Token(name="amd.com/onload", count=1),
        config.Token(name="example.com/A_very.long-name_of_a_Resource_indeed", count=1),
    )

    assert stated.sockets == {
        "amd.com/onload": "onload",
        "example.com/A_very.long-name_of_a_Resource_indeed": "a-very-long-name-of-a-re",
    }
