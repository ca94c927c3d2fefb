"""Kinds whose module is not known: by vfio-pci, and by the class uacce; and recipes beside each other."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from device_plugin import cli, host_links
from device_plugin.kubelet import service
from device_plugin.kubelet.service import Refusal
from runtime import device_plugin_config as config
from runtime import shapes
from tests.device_plugin import machines, settings

PF, A, B = "0000:79:00.0", "0000:79:00.1", "0000:79:00.2"
VF, QUEUE = "example.com/vf", "example.com/queue"
PHYSICAL, VIRTUAL = settings.NIC.devices, settings.NIC.virtual
ONLOAD = config.Token(name="amd.com/onload", count=1)


def test_functions_of_one_group_are_one_device_where_all_are_of_the_kind_and_bound(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    host.set_vfs(PF, 3)
    host.lend(A, 41)
    host.lend(B, 41)
    node = settings.looked(host, settings.settings(config.Vfio(name=VF, kind="nic")))

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


def test_functions_are_of_a_kind_by_vendor_device_and_class(tmp_path: Path) -> None:
    host = machines.with_guests(tmp_path)
    resource = config.Vfio(name=VF, kind="nic")

    def offered(vendor: str = settings.NIC.vendor, **ids: Any) -> int:
        stated = settings.settings(resource, kinds=(shapes.Kind(name="nic", vendor=vendor, **ids),))
        return len(settings.told(settings.looked(host, stated), VF))

    assert offered(classes=("1000",)) == 2
    assert offered(classes=("0200",)) == 0
    assert offered(devices=VIRTUAL) == 2
    assert offered(devices=PHYSICAL) == 0
    assert offered(devices=PHYSICAL, virtual=VIRTUAL, classes=("1000",)) == 2
    assert offered(vendor="1924", classes=("1000",)) == 0


def test_a_function_with_an_entry_is_offered_by_uacce(tmp_path: Path) -> None:
    stated = settings.settings(config.Uacce(name=QUEUE, kind="nic", shares=2))
    node = settings.looked(machines.bare_metal(tmp_path), stated)

    assert settings.told(node, QUEUE) == {name: True for pf in (PF, "0000:b9:00.0") for name in (pf, f"{pf}::1")}
    answer = asyncio.run(node.allocate(QUEUE, [PF]))
    assert [each.container_path for each in answer.devices] == ["/dev/nic-30976"]
    assert {mount.container_path for mount in answer.mounts} == {"/sys/class/uacce", "/run/kae/uacce/given/nic-30976"}
    assert dict(answer.envs) == {}


def test_what_a_resource_requires_concerns_its_functions_too(tmp_path: Path) -> None:
    host = machines.with_guests(tmp_path)
    node = settings.looked(host, settings.settings(config.Vfio(name=VF, kind="nic", requires=("/opt/qat",))))

    assert settings.told(node, VF) == {A: False, B: False}
    with pytest.raises(Refusal, match=f"Device {A} of {VF} is unhealthy: /opt/qat of the host is not there"):
        asyncio.run(node.allocate(VF, [A]))

    (tmp_path / "opt/qat").mkdir(parents=True)
    asyncio.run(node.look())
    assert settings.told(node, VF) == {A: True, B: True}


def test_a_recipe_has_folders_sockets_and_a_lock_of_its_own(tmp_path: Path) -> None:
    home = msgspec.structs.replace(settings.HOME, run="/run/kae/recipes/onload")
    stated = settings.settings(ONLOAD, recipe="onload", home=home)
    options = cli._parser().parse_args([])

    own, kae = cli._paths(options, stated), cli._paths(options, settings.settings())

    assert (str(own.run), str(kae.run)) == ("/run/kae/recipes/onload", "/run/kae")
    assert own.sockets == Path("/var/lib/kubelet/plugins_registry/onload")
    assert kae.sockets == Path("/var/lib/kubelet/plugins_registry/kae")
    assert own.lock != kae.lock
    named = cli._parser().parse_args(["--run-dir", str(tmp_path)])
    assert cli._paths(named, stated).run == tmp_path


def test_without_openssl_none_of_its_files_is_on_the_host(tmp_path: Path) -> None:
    where = settings.where(machines.bare_metal(tmp_path))

    host_links.prepare(where, settings.settings(ONLOAD))

    assert not where.openssl.exists()


def test_sockets_have_short_names_of_the_resource() -> None:
    long = config.Token(name="example.com/A_very.long-name_of_a_Resource_indeed", count=1)

    assert service.socket_name(ONLOAD) == "onload"
    assert service.socket_name(long) == "a-very-long-name-of-a-re"
    assert service.socket_name(settings.vfio()) == "hpre"
