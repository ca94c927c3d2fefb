"""Labels of what containers mount, on a file system that keeps them."""

import os
from pathlib import Path

import pytest

from device_plugin import host_links
from device_plugin.host import permissions
from tests.device_plugin import machines, settings

RUN, FILE = b"system_u:object_r:var_run_t:s0\0", b"system_u:object_r:container_file_t:s0\0"


@pytest.fixture
def labels(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The labels of paths, in place of a kernel with SELinux, which gives each file the label of its folder."""
    kept: dict[str, bytes] = {}

    def get(path: Path, name: str, *, follow_symlinks: bool) -> bytes:
        assert (name, follow_symlinks) == ("security.selinux", False)
        return kept.get(str(path), RUN)

    def put(path: Path, name: str, value: bytes, *, follow_symlinks: bool) -> None:
        assert (name, follow_symlinks) == ("security.selinux", False)
        kept[str(path)] = value

    monkeypatch.setattr(os, "getxattr", get)
    monkeypatch.setattr(os, "setxattr", put)
    return kept


def test_what_containers_mount_gets_a_label_that_they_may_read_and_nothing_else_does(
    tmp_path: Path, labels: dict[str, bytes]
) -> None:
    where = settings.where(machines.bare_metal(tmp_path))

    host_links.prepare(where, settings.settings())

    assert set(labels.values()) == {FILE}
    assert {str(where.shown), str(where.given), str(where.openssl / "3.0-host/openssl.cnf")} < labels.keys()
    assert not {str(where.run), str(where.links)} & labels.keys()


def test_a_label_that_is_right_is_left_alone(tmp_path: Path, labels: dict[str, bytes]) -> None:
    labels[str(tmp_path)] = mine = b"unconfined_u:object_r:container_file_t:s0:c1,c2\0"

    permissions.let_containers_read(tmp_path)

    assert labels == {str(tmp_path): mine}


@pytest.mark.usefixtures("labels")
def test_a_kernel_that_refuses_the_label_is_no_end_of_the_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "setxattr", refuse)

    permissions.let_containers_read(tmp_path)

    assert caplog.messages == [f"'{tmp_path}' keeps a label with which no container may read it: Permission denied."]


def test_without_selinux_nothing_is_labelled(tmp_path: Path) -> None:
    permissions.let_containers_read(tmp_path)

    assert os.listxattr(tmp_path) == []
