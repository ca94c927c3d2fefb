"""The answer for a container: the same for the same devices, and free of conflicts with other answers."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from device_plugin.api import deviceplugin_v1beta1_pb2 as api
from device_plugin.kubelet import openssl
from runtime import device_plugin_config as config
from tests.device_plugin import containers, hosts, machines, settings

A, B, ZIP = "0000:79:00.0", "0000:b9:00.0", "0000:75:00.0"
LIBRARIES = config.Libraries()


def answer(
    host: hosts.Host, *ids: str, kind: str = "hpre", mask_sysfs: bool = True, **inject: Any
) -> api.ContainerAllocateResponse:
    resource = settings.uacce(kind, mask_sysfs=mask_sysfs, inject=settings.inject(**inject))
    return asyncio.run(settings.looked(host, settings.settings(resource)).allocate(resource.name, ids))


def nodes(found: api.ContainerAllocateResponse) -> dict[str, str]:
    """Device nodes: in the container, on the host."""
    return {device.container_path: device.host_path for device in found.devices}


def mounts(found: api.ContainerAllocateResponse) -> dict[str, str]:
    """Mounts: in the container, on the host."""
    return {mount.container_path: mount.host_path for mount in found.mounts}


def test_a_container_gets_the_node_of_its_device_and_sees_no_other(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)

    found = answer(host, A)

    assert nodes(found) == {"/dev/hisi_hpre-30976": f"{host.run}/dev/hisi_hpre-30976"}
    assert mounts(found) == {
        "/sys/class/uacce": f"{host.run}/uacce/class",
        "/run/kae/uacce/given/hisi_hpre-30976": f"{host.run}/uacce/given/hisi_hpre-30976",
    }
    assert dict(found.envs) == {}


def test_nothing_in_an_answer_depends_on_the_number_of_the_entry(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    before = answer(host, A, B)

    host.renumber()

    assert answer(host, A, B) == before


def test_devices_may_be_read_and_written_and_mounts_be_read(tmp_path: Path) -> None:
    found = answer(machines.bare_metal(tmp_path), A, B, libraries=LIBRARIES, openssl=config.OpenSsl(conf="3.0"))

    assert {device.permissions for device in found.devices} == {"rw"}
    assert all(mount.read_only for mount in found.mounts)
    assert len(found.mounts) == 5


def test_the_order_and_the_number_of_shares_are_nothing_to_the_answer(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)

    assert answer(host, B, A, B, A) == answer(host, A, B)
    assert len(answer(host, A, A, A).devices) == 1


def test_answers_of_several_resources_fit_into_one_container(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    inject: dict[str, Any] = {"libraries": LIBRARIES, "openssl": config.OpenSsl(conf="1.1")}

    merged = containers.merged([answer(host, A, B, **inject), answer(host, ZIP, kind="zip", **inject)])

    assert merged.conflicts == ()
    assert sorted(merged.devices) == ["/dev/hisi_hpre-30976", "/dev/hisi_hpre-47360", "/dev/hisi_zip-29952"]


def test_without_masks_a_container_gets_the_kernels_own_name(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)

    found = answer(host, A, mask_sysfs=False)

    assert nodes(found) == {"/dev/hisi_hpre-2": f"{host.run}/dev/hisi_hpre-30976"}
    assert mounts(found) == {}


def test_libraries_bring_their_folder_and_where_to_look(tmp_path: Path) -> None:
    found = answer(machines.bare_metal(tmp_path), A, libraries=LIBRARIES, mask_sysfs=False)

    assert mounts(found) == {"/opt/kae": "/opt/kae"}
    assert dict(found.envs) == {"LD_LIBRARY_PATH": "/opt/kae/lib"}


@pytest.mark.parametrize("generation", ["1.1", "3.0"])
@pytest.mark.parametrize("libraries", [False, True])
def test_openssl_is_told_where_its_file_is(generation: openssl.Generation, libraries: bool, tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)

    conf = config.OpenSsl(conf=generation)
    found = answer(host, A, openssl=conf, libraries=LIBRARIES if libraries else None)

    variant = f"{generation}-{'host' if libraries else 'image'}"
    assert mounts(found)["/run/kae/openssl"] == f"{host.run}/openssl/{variant}"
    assert found.envs["OPENSSL_CONF"] == "/run/kae/openssl/openssl.cnf"
    # The image's other engines are found where its OpenSSL looks for them.
    assert "OPENSSL_ENGINES" not in found.envs


def test_libraries_of_a_preinstalled_driver_come_from_their_folder(tmp_path: Path) -> None:
    found = answer(
        machines.bare_metal(tmp_path),
        A,
        libraries=config.Libraries(path="/usr/lib64"),
        openssl=config.OpenSsl(conf="3.0"),
        mask_sysfs=False,
    )

    assert mounts(found)["/opt/kae/lib"] == "/usr/lib64"
    assert "/opt/kae" not in mounts(found)
    assert found.envs["LD_LIBRARY_PATH"] == "/opt/kae/lib"


def test_a_policy_adds_variables_and_mounts_and_its_variables_hold(tmp_path: Path) -> None:
    found = answer(
        machines.bare_metal(tmp_path),
        A,
        libraries=LIBRARIES,
        env={"KAE_LOG_LEVEL": "debug", "LD_LIBRARY_PATH": "/opt/kae/lib:/opt/more"},
        mounts=(config.InjectedMount(path="/etc/kae-of-the-host", as_="/etc/kae", checked=False),),
    )

    assert dict(found.envs) == {"KAE_LOG_LEVEL": "debug", "LD_LIBRARY_PATH": "/opt/kae/lib:/opt/more"}
    assert mounts(found)["/etc/kae"] == "/etc/kae-of-the-host"
    assert all(mount.read_only for mount in found.mounts)
