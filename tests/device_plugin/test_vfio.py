"""Kinds that are offered as IOMMU groups, to virtual machines and to Kata."""

from pathlib import Path

import pytest
from msgspec import structs

from compiler import kae
from device_plugin import plugin, report, served
from device_plugin.kubelet.service import Refusal
from runtime import device_plugin_config as config
from tests.device_plugin import hosts, machines, settings

PF, A, B, OTHER = "0000:79:00.0", "0000:79:00.1", "0000:79:00.2", "0000:b9:00.0"
STATED = settings.settings(settings.vfio())
(KIND,) = served.kinds(STATED)


async def looked(host: hosts.Host, stated: config.Config = STATED) -> plugin.Plugin:
    node = plugin.Plugin(settings.where(host), stated)
    await node.look()
    return node


def why(node: plugin.Plugin, address: str) -> list[str]:
    (device,) = (device for device in node.devices if device.function.address == address)
    return [reason.code for reason in device.reasons]


async def test_functions_that_are_bound_to_vfio_pci_are_offered_with_numa_nodes(tmp_path: Path) -> None:
    host = machines.with_guests(tmp_path)
    node = await looked(host)

    assert settings.told(node, KIND.resource) == {A: True, B: True}
    assert {replica.numa_node for replica in node.device_lists[KIND.resource].replicas} == {0}
    withheld = {row.function.address: row.why for row in (await report.current(node.where, STATED)).rows}
    assert withheld[PF] == ("Its 3 virtual functions are offered in its place.",)
    assert withheld[OTHER] == ("It is bound to hisi_hpre; vfio offers functions of vfio-pci alone.",)


USER_SPACE = settings.inject(libraries=config.Libraries(), openssl=config.OpenSsl(conf="3.0"))
MODE = config.Inject(env={"MODE": "fast"})


@pytest.mark.parametrize(
    ("resource", "stem", "variable", "more"),
    [
        (settings.vfio(inject=USER_SPACE), "hisi_hpre", "OPENFUYAO_COM_KAE_HPRE_VFIO", {}),
        (config.Vfio(name="example.com/vf", kind="nic", inject=MODE), "nic", "EXAMPLE_COM_VF", {"MODE": "fast"}),
    ],
)
async def test_a_virtual_machine_gets_groups_and_addresses_and_no_libraries_of_the_host(
    tmp_path: Path, resource: config.Vfio, stem: str, variable: str, more: dict[str, str]
) -> None:
    node = await looked(machines.with_guests(tmp_path), settings.settings(resource))

    answer = await node.allocate(resource.name, [B, A])

    links = {number: node.where.links / f"vfio-{stem}-{name}" for number, name in ((41, 30977), (42, 30978))}
    assert {device.container_path: device.host_path for device in answer.devices} == {
        "/dev/vfio/vfio": "/dev/vfio/vfio",
        **{f"/dev/vfio/{number}": str(link) for number, link in links.items()},
    }
    assert str(links[41].readlink()) == "/dev/vfio/41"
    addresses = {f"{beginning}_{variable}": f"{A},{B}" for beginning in ("PCIDEVICE", "PCI_RESOURCE")}
    assert dict(answer.envs) == addresses | more
    assert list(answer.mounts) == []


async def test_a_function_that_goes_back_to_its_driver_is_offered_no_more(tmp_path: Path) -> None:
    host = machines.with_guests(tmp_path)
    node = await looked(host)

    host.unbind(A)
    host.bind(A)

    with pytest.raises(Refusal, match="It is bound to hisi_hpre; vfio offers functions of vfio-pci alone"):
        await node.allocate(KIND.resource, [A])
    assert settings.told(node, KIND.resource) == {B: True}
    assert not node.where.link(KIND, A).is_symlink()


async def test_what_one_mode_gave_never_leads_to_the_device_of_the_other(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    where, uacce = settings.where(host), settings.settings(settings.uacce())
    node = plugin.Plugin(where, uacce)
    await node.look()
    (container,) = (await node.allocate(settings.kind("hpre").resource, [PF])).devices

    host.lend(PF, 7)
    node = await looked(host)
    group = (await node.allocate(KIND.resource, [PF])).devices[1]
    assert str(Path(group.host_path).readlink()) == "/dev/vfio/7"
    assert not Path(container.host_path).is_symlink()

    host.unbind(PF)
    host.bind(PF)
    await plugin.Plugin(where, uacce).look()
    assert str(Path(container.host_path).readlink()) == f"/dev/{host.states()[PF].entry}"
    assert not Path(group.host_path).is_symlink()


async def test_a_function_without_its_groups_node_is_unhealthy(tmp_path: Path) -> None:
    host = machines.with_guests(tmp_path)
    (host.dev / "vfio/41").unlink()
    node = await looked(host)
    assert (settings.told(node, KIND.resource), why(node, A)) == ({A: False, B: True}, ["NoDeviceNode"])

    (host.dev / "vfio/41").symlink_to("/dev/full")
    await node.look()
    assert why(node, A) == ["WrongDeviceNode"]


async def test_a_group_of_several_functions_is_nobodys(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    host.set_vfs(PF, 2)
    host.lend(A, 41)
    host.lend(B, 41)

    node = await looked(host)

    assert settings.told(node, KIND.resource) == {A: False, B: False}
    assert why(node, A) == ["SharedGroup"]


@pytest.mark.parametrize("resource", [settings.vfio(), config.Vfio(name="example.com/vf", kind="nic")])
async def test_a_bridge_in_a_group_is_no_other_function_of_it(tmp_path: Path, resource: config.Vfio) -> None:
    host = machines.with_guests(tmp_path)
    host.add_foreign("0000:7c:00.0", kae.VENDOR, "a121", "0x060400")
    host.share_group("0000:7c:00.0", 41)
    host.add_foreign("0000:7d:00.1", kae.VENDOR, "a222")
    host.share_group("0000:7d:00.1", 42)

    node = await looked(host, settings.settings(resource))

    assert settings.told(node, resource.name) == {A: True, B: False}
    assert why(node, B) == ["SharedGroup"]


async def test_a_group_without_iommu_is_nobodys(tmp_path: Path) -> None:
    host = machines.with_guests(tmp_path)
    # As of vfio's enable_unsafe_noiommu_mode.
    (host.sysfs / "class/vfio/41").rename(host.sysfs / "class/vfio/noiommu-41")
    (host.dev / "vfio/41").rename(host.dev / "vfio/noiommu-41")

    node = await looked(host)

    assert (settings.told(node, KIND.resource), why(node, A)) == ({A: False, B: True}, ["NoIommu"])


async def test_nobody_gets_a_function_where_vfio_cannot_be_opened(tmp_path: Path) -> None:
    host = machines.with_guests(tmp_path)
    (host.dev / "vfio/vfio").unlink()

    node = await looked(host)

    assert settings.told(node, KIND.resource) == {A: False, B: False}
    assert {reason.text for device in node.devices for reason in device.reasons} == {"/dev/vfio/vfio is not there."}


async def test_a_function_without_group_is_unhealthy(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    host.unbind(PF)
    host.bind(PF, "vfio-pci")

    node = await looked(host)

    assert (settings.told(node, KIND.resource), why(node, PF)) == ({PF: False}, ["NoGroup"])


async def test_nobody_gets_a_function_while_the_driver_is_changed(tmp_path: Path) -> None:
    host = machines.with_guests(tmp_path)
    node = await looked(host)

    host.set_driver_changing("upgrade")
    await node.look()

    assert settings.told(node, KIND.resource) == {A: False, B: False}
    assert list(node.where.links.iterdir()) == []


async def test_the_list_has_the_group(tmp_path: Path) -> None:
    node = await looked(machines.with_guests(tmp_path))

    made = await report.current(node.where, STATED)

    table = report.as_table(structs.replace(made, notes=()))
    assert "vfio/41" in table
    assert '"containerNode": "/dev/vfio/42"' in report.as_json(made)
