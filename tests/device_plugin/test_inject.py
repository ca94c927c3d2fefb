"""What containers get beside their devices of a recipe's resource."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from device_plugin import plugin
from device_plugin.api import deviceplugin_v1beta1_pb2 as api
from device_plugin.kubelet.service import Refusal
from runtime import device_plugin_config as config
from tests.device_plugin import hosts, machines, settings

ONLOAD = "amd.com/onload"
LIBRARIES = "/opt/onload/usr/lib64"


def token(inject: Mapping[str, Any], name: str = ONLOAD) -> config.Token:
    """A resource of two tokens that injects this."""
    return msgspec.convert({"class": "token", "name": name, "count": 2, "inject": inject}, config.Token)


def looked(host: hosts.Host, *resources: config.AnyResource) -> plugin.Plugin:
    return settings.looked(host, settings.settings(*resources))


def answered(node: plugin.Plugin, *ids: str) -> api.ContainerAllocateResponse:
    return asyncio.run(node.allocate(ONLOAD, ids or ("0",)))


def mounts(answer: api.ContainerAllocateResponse) -> dict[str, tuple[str, bool]]:
    """Host path of each mount, and whether it is read-only, by its path in the container."""
    return {mount.container_path: (mount.host_path, mount.read_only) for mount in answer.mounts}


def test_a_container_gets_nodes_mounts_variables_and_libraries_and_nothing_of_kae(tmp_path: Path) -> None:
    node = looked(
        machines.with_onload(tmp_path),
        token(
            {
                "nodes": [
                    {"path": "/dev/onload", "permissions": "rwm"},
                    {"path": "/dev/onload_epoll", "as": "/dev/onload/"},
                    {"path": "/dev/sfc_char", "optional": True},
                ],
                "mounts": [
                    {"path": f"{LIBRARIES}/libonload*.so*", "as": "/usr/lib64/"},
                    {"path": "/opt/onload", "readOnly": False},
                    {"path": "/opt/none/*", "optional": True},
                ],
                "env": {"EF_POLL_USEC": "100000"},
                "preload": ["/usr/lib64/libonload.so", "/usr/lib64/libonload_ext.so.2"],
            }
        ),
    )

    answer = answered(node, "0", "1")

    assert [(each.host_path, each.container_path, each.permissions) for each in answer.devices] == [
        ("/dev/onload", "/dev/onload", "rwm"),
        ("/dev/onload_epoll", "/dev/onload/onload_epoll", "rw"),
    ]
    assert mounts(answer) == {
        "/usr/lib64/libonload.so": (f"{LIBRARIES}/libonload.so", True),
        "/usr/lib64/libonload_ext.so.2": (f"{LIBRARIES}/libonload_ext.so.2", True),
        "/opt/onload": ("/opt/onload", False),
    }
    assert dict(answer.envs) == {
        "EF_POLL_USEC": "100000",
        "LD_PRELOAD": "/usr/lib64/libonload.so:/usr/lib64/libonload_ext.so.2",
    }


def test_globs_are_walked_for_each_container(tmp_path: Path) -> None:
    node = looked(
        machines.with_onload(tmp_path), token({"mounts": [{"path": f"{LIBRARIES}/libonload*", "as": "/lib/"}]})
    )
    assert set(mounts(answered(node))) == {"/lib/libonload.so", "/lib/libonload_ext.so.2"}

    (tmp_path / LIBRARIES.strip("/") / "libonload_zf.so").touch()

    assert set(mounts(answered(node))) == {"/lib/libonload.so", "/lib/libonload_ext.so.2", "/lib/libonload_zf.so"}


@pytest.mark.parametrize(
    ("inject", "sentence"),
    [
        ({"nodes": [{"path": "/dev/sfc_char"}]}, r"/dev/sfc_char of the host is not there\."),
        ({"mounts": [{"path": "/opt/none/*.so"}]}, r"/opt/none/\*\.so of the host is not there\."),
        ({"nodes": [{"path": "/dev/folder"}]}, r"/dev/folder of the host is no device node\."),
        (
            {"mounts": [{"path": f"{LIBRARIES}/libonload*", "as": "/lib/onload.so"}]},
            r"2 paths of the host would be /lib/onload\.so of a container: end 'as' with '/'",
        ),
        (
            {
                "mounts": [{"path": f"{LIBRARIES}/libonload.so", "as": "/etc/onload"}],
                "nodes": [{"path": "/dev/onload*", "as": "/etc/"}],
            },
            r"2 paths of the host would be /etc/onload of a container",
        ),
        (
            {
                "mounts": [{"path": f"{LIBRARIES}/libonload.so", "as": "/etc/onload.conf"}],
                "files": [{"name": "conf", "as": "/etc/onload.conf", "text": ""}],
            },
            r"2 paths of the host would be /etc/onload\.conf of a container",
        ),
    ],
)
def test_no_container_starts_without_its_files(tmp_path: Path, inject: Mapping[str, Any], sentence: str) -> None:
    node = looked(machines.with_onload(tmp_path), token(inject))

    assert {replica.healthy for replica in node.device_lists[ONLOAD].replicas} == {False}
    with pytest.raises(Refusal, match=f"Device 0 of amd.com/onload is unhealthy: {sentence}"):
        answered(node)


def test_a_file_that_goes_after_the_last_look_is_noticed_by_allocate(tmp_path: Path) -> None:
    node = looked(machines.with_onload(tmp_path), token({"mounts": [{"path": f"{LIBRARIES}/libonload.so"}]}))
    (tmp_path / LIBRARIES.strip("/") / "libonload.so").unlink()

    with pytest.raises(Refusal, match=r"libonload\.so of the host is not there\."):
        answered(node)


def test_files_of_a_recipe_lie_in_its_folder_and_come_back(tmp_path: Path) -> None:
    node = looked(
        machines.with_onload(tmp_path),
        token({"files": [{"name": "conf", "as": "/etc/onload.conf", "text": "fast = ü\n"}]}),
    )
    ((host_path, read_only),) = mounts(answered(node)).values()
    assert (host_path, read_only) == (str(node.where.run / "files/conf"), True)
    assert Path(host_path).read_text("utf-8") == "fast = ü\n"

    # A runtime makes a folder where an answer's path is missing.
    Path(host_path).unlink()
    Path(host_path).mkdir()
    asyncio.run(node.look())
    assert Path(host_path).read_text("utf-8") == "fast = ü\n"


def test_a_link_to_a_file_of_the_host_is_mounted_by_its_name(tmp_path: Path) -> None:
    host = machines.with_onload(tmp_path)
    libraries = tmp_path / LIBRARIES.strip("/")
    (libraries / "libonload.so").rename(libraries / "libonload.so.8")
    (libraries / "libonload.so").symlink_to(f"{LIBRARIES}/libonload.so.8")
    node = looked(host, token({"mounts": [{"path": f"{LIBRARIES}/libonload.so*"}]}))

    assert {inside: path for inside, (path, _) in mounts(answered(node)).items()} == {
        f"{LIBRARIES}/{name}": f"{LIBRARIES}/{name}" for name in ("libonload.so", "libonload.so.8")
    }
