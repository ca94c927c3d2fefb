"""`kae rehearse` where no control plane is needed: what is refused, and what needs no rehearsal."""

from pathlib import Path

import pytest

from tests import in_process, project, revisions
from tests.cli import fleet


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = fleet.small(tmp_path / "project")
    revisions.commit(made)
    return made


@pytest.fixture
def programs(tmp_path: Path) -> str:
    """A folder of programs that fail."""
    found = tmp_path / "programs"
    for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        project.write(found, {name: "#!/bin/sh\necho no such flag\nexit 7\n"})
        (found / name).chmod(0o755)
    return str(found)


def test_a_missing_program_is_named_with_the_way_to_have_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = in_process.kae(folder, "rehearse")

    assert answer.code == 3
    assert "kube-apiserver, kube-controller-manager and kube-scheduler" in answer.err
    assert "by --programs" in answer.err


def test_a_program_that_ends_is_an_error_with_its_last_line(folder: Path, programs: str) -> None:
    path = folder / "policies/tls.yaml"
    path.write_text(path.read_text().replace("version: 2.2.0", "version: 2.3.0"))
    answer = in_process.kae(folder, "rehearse", "--programs", programs)

    assert answer.code == 3
    assert "etcd has ended: no such flag." in answer.err


def test_a_change_that_touches_no_object_starts_nothing(folder: Path, programs: str) -> None:
    answer = in_process.kae(folder, "rehearse", "--programs", programs)

    assert (answer.code, answer.err) == (0, "")
    assert "there is nothing to rehearse" in answer.out


def test_documents_that_do_not_compile_are_not_rehearsed(folder: Path, programs: str) -> None:
    (folder / "policies/tls.yaml").write_text(fleet.POLICY.replace("version: 2.2.0", "version: [2]"))
    answer = in_process.kae(folder, "rehearse", "--programs", programs)

    assert answer.code == 1
    assert "tls.yaml" in answer.out
