"""Document files are found below their folders, whatever else lies there."""

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from compiler import diagnostics, errors
from compiler.project import document_files, links
from tests import project


def write(root: Path, *names: str) -> None:
    """Files that hold their own name."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, "utf-8")


def found(root: Path, *folders: str | Path) -> tuple[list[document_files.Input], list[diagnostics.Diagnostic]]:
    with contextlib.chdir(root):
        return document_files.find(folders or ("policies",))


def names(root: Path, *folders: str) -> list[str]:
    files, notes = found(root, *folders)
    assert notes == []
    return [each.name for each in files]


def test_documents_are_found_at_any_depth_in_the_order_of_their_names(tmp_path: Path) -> None:
    write(tmp_path, "policies/b.yaml", "policies/a/z.json", "policies/a.yml", "policies/c/d/e.yaml", "inventory/a.json")
    write(tmp_path, "policies/readme.md", "policies/yaml", "other/x.yaml", "policies/.b.yaml.swp")

    assert names(tmp_path, "policies", "inventory") == [
        *["inventory/a.json", "policies/a.yml", "policies/a/z.json", "policies/b.yaml", "policies/c/d/e.yaml"]
    ]


def test_hidden_files_and_folders_with_documents_are_named_and_not_read(tmp_path: Path) -> None:
    write(tmp_path, "policies/.a.yaml", "policies/.git/b.yaml", "policies/.yaml", "policies/.c", "policies/c.yaml")
    write(tmp_path, "policies/.sub/deep/b.yaml", "policies/.vscode/settings.json", "policies/.notes/readme.md")
    write(tmp_path, "recipes/.schemas/recipe.json")
    (tmp_path / "policies/.linked").symlink_to(".sub")
    (tmp_path / "policies/.shut").mkdir(mode=0)

    files, findings = found(tmp_path, tmp_path / "policies", tmp_path / "recipes")

    assert [file.name for file in files] == ["policies/c.yaml"]
    assert [(finding.span.file, finding.hint) for finding in findings] == [
        ("policies/.a.yaml", "Rename it to a.yaml, or remove it."),
        ("policies/.sub", "Rename it to sub, or remove it."),
        ("policies/.yaml", "Rename it to policy.yaml, or remove it."),
    ]


def test_a_missing_folder_is_empty(tmp_path: Path) -> None:
    assert names(tmp_path, "policies", "inventory") == []


def test_a_file_is_read_as_it_is(tmp_path: Path) -> None:
    write(tmp_path, "policies/a.yaml")
    (file,), _ = found(tmp_path, tmp_path / "policies")

    assert document_files.read(file) == b"policies/a.yaml"


def test_a_folder_elsewhere_keeps_the_name_it_was_given(tmp_path: Path) -> None:
    write(tmp_path, "project/inventory/a.json", "elsewhere/b.json")
    root, elsewhere = tmp_path / "project", tmp_path / "elsewhere"

    assert names(root, str(elsewhere), str(root / "inventory")) == [
        f"{elsewhere.as_posix()}/b.json",
        "inventory/a.json",
    ]
    assert names(root, "../elsewhere") == ["../elsewhere/b.json"]
    assert names(root, ".") == ["inventory/a.json"]


def test_a_folder_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    write(tmp_path, "policies/team/a.yaml")

    assert names(tmp_path, "policies", "./policies", "policies/team") == ["policies/team/a.yaml"]


def test_linked_folders_are_followed_once_and_real_names_come_first(tmp_path: Path) -> None:
    write(tmp_path, "policies/team/a.yaml", "shared/b.yaml")
    (tmp_path / "policies/current").symlink_to("team")
    (tmp_path / "policies/shared").symlink_to(tmp_path / "shared")

    assert names(tmp_path) == ["policies/shared/b.yaml", "policies/team/a.yaml"]


def test_links_that_lead_in_circles_come_to_an_end(tmp_path: Path) -> None:
    write(tmp_path, "policies/a/x.yaml", "policies/b/y.yaml")
    (tmp_path / "policies/a/up").symlink_to("../..")
    (tmp_path / "policies/a/b").symlink_to("../b")
    (tmp_path / "policies/b/a").symlink_to("../a")
    (tmp_path / "policies/self").symlink_to("self")

    assert names(tmp_path) == ["policies/a/x.yaml", "policies/b/y.yaml"]


def test_a_linked_file_is_a_file(tmp_path: Path) -> None:
    write(tmp_path, "policies/..data/a.yaml")
    (tmp_path / "policies/a.yaml").symlink_to("..data/a.yaml")

    assert names(tmp_path) == ["policies/a.yaml"]


OUTSIDE = ("../../outside.yaml", "/proc/self/environ", "/dev/null", "/nowhere", "../.git/config")


@pytest.mark.parametrize("target", OUTSIDE)
def test_a_link_out_of_the_project_is_refused_whether_its_target_exists_or_not(tmp_path: Path, target: str) -> None:
    write(tmp_path, "outside.yaml", "project/policies/x.yaml", "project/.git/config")
    for name in ("a.yaml", "readme"):
        (tmp_path / "project/policies" / name).symlink_to(target)
    files, (finding,) = found(tmp_path / "project")

    assert [each.name for each in files] == ["policies/x.yaml"]
    assert (finding.code, finding.span.file) == ("link-outside", "policies/a.yaml")
    assert finding.message == "'policies/a.yaml' is a link that leads out of the project."
    assert target.strip("./") not in finding.hint


@pytest.mark.parametrize("target", ["/", "/proc", "../../other", "../../other/team"])
def test_a_linked_folder_outside_of_the_project_is_never_entered(tmp_path: Path, target: str) -> None:
    write(tmp_path, "project/policies/x.yaml", "other/team/y.yaml")
    (tmp_path / "project/policies/root").symlink_to(target)
    files, (finding,) = found(tmp_path / "project")

    assert [each.name for each in files] == ["policies/x.yaml"]
    assert (finding.code, finding.span.file) == ("link-outside", "policies/root")


def test_a_link_that_cannot_be_read_leads_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(path: Path) -> str:
        raise FileNotFoundError(path)

    write(tmp_path, "policies/x.yaml")
    (tmp_path / "policies/a.yaml").symlink_to("x.yaml")
    walk = links.folders((tmp_path / "policies",))
    monkeypatch.setattr(os.path, "realpath", gone)

    assert not links.is_inside(tmp_path / "policies/a.yaml", walk)


def test_a_link_in_a_named_folder_leads_anywhere_in_that_folder(tmp_path: Path) -> None:
    write(tmp_path, "mounted/..2026/east.json", "secret.json", "project/policies/x.yaml")
    (tmp_path / "mounted/..data").symlink_to("..2026")
    (tmp_path / "mounted/east.json").symlink_to("..data/east.json")
    (tmp_path / "mounted/west.json").symlink_to("../secret.json")
    files, findings = found(tmp_path / "project", "policies", tmp_path / "mounted")

    assert [each.path.name for each in files] == ["east.json", "x.yaml"]
    assert [each.span.file for each in findings] == [f"{tmp_path}/mounted/west.json"]


@pytest.mark.parametrize("target", ["..", "../other", "/", ".git"])
def test_a_folder_of_documents_is_no_link_out_of_the_project(tmp_path: Path, target: str) -> None:
    write(tmp_path, "other/a.yaml", "project/.git/b.yaml")
    (tmp_path / "project/policies").symlink_to(target)

    with pytest.raises(errors.WorldError, match="'policies' is a link that leads out of the project"):
        found(tmp_path / "project")


@pytest.mark.parametrize("name", ["a.yaml", "b.yml", "c.json"])
def test_what_only_looks_like_a_document_is_refused_and_never_opened(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "policies"
    write(folder, f"{name}/inside.yaml")
    os.mkfifo(folder / f"1{name}")
    (folder / f"2{name}").symlink_to("nowhere")
    (folder / f"3{name}").symlink_to(f"3{name}")

    assert sorted((each.code, each.span.file, each.message) for each in found(tmp_path)[1]) == [
        ("not-a-file", f"policies/1{name}", f"'policies/1{name}' is a named pipe."),
        ("not-a-file", f"policies/2{name}", f"'policies/2{name}' is a link that leads to no file."),
        ("not-a-file", f"policies/3{name}", f"'policies/3{name}' is a link that leads to no file."),
        ("not-a-file", f"policies/{name}", f"'policies/{name}' is a folder."),
    ]


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "policies").mkdir()
    monkeypatch.chdir(tmp_path / "policies")  # The name of a socket is short.
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("a.yaml")

    assert [each.message for each in found(tmp_path)[1]] == ["'policies/a.yaml' is a socket."]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"caf\xe9.yaml", "policies/caf\\xe9.yaml"),
        (b"a\nb.yaml", "policies/a\\nb.yaml"),
        (b"\x1b[2J.yaml", "policies/\\x1b[2J.yaml"),
        (b"d\xff/a.json", "policies/d\\xff/a.json"),
    ],
)
def test_a_name_that_cannot_be_printed_is_refused_in_printable_words(tmp_path: Path, name: bytes, shown: str) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path / "policies") + b"/" + name))
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    (finding,) = found(tmp_path)[1]

    assert (finding.code, finding.span.file, finding.message.isprintable()) == ("not-a-file", shown, True)


def test_a_name_of_any_script_is_fine(tmp_path: Path) -> None:
    write(tmp_path, "policies/前端 é.yaml")

    assert names(tmp_path) == ["policies/前端 é.yaml"]


def test_a_folder_that_is_a_file_is_a_failure(tmp_path: Path) -> None:
    write(tmp_path, "policies")

    with pytest.raises(errors.WorldError, match="'policies' is not a folder"):
        names(tmp_path)


def test_more_folders_than_any_fleet_has_are_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_files, "MOST_FOLDERS", 3)
    write(tmp_path, "policies/a/x.yaml", "policies/b/x.yaml")
    assert names(tmp_path) == ["policies/a/x.yaml", "policies/b/x.yaml"]
    write(tmp_path, "policies/c/x.yaml")

    with pytest.raises(errors.WorldError, match="there are more than 3 folders in those of the documents"):
        names(tmp_path)


def test_a_linked_folder_that_may_not_be_seen_is_not_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "policies/x.yaml")
    (tmp_path / "policies/cwd").symlink_to("/nowhere")
    stat = Path.stat

    def forbidden(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path.name == "cwd" and follow_symlinks:
            raise PermissionError(path)  # as for /proc/1/cwd
        return stat(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", forbidden)

    assert names(tmp_path) == ["policies/x.yaml"]


def test_a_folder_that_is_a_broken_link_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "policies").symlink_to("nowhere")

    with pytest.raises(errors.WorldError, match="'policies' is a link to nothing"):
        names(tmp_path)


def test_a_folder_that_was_asked_for_has_to_be_there(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    document_files.require_folder(tmp_path / "there")

    with pytest.raises(errors.WorldError, match="absent' is not a folder"):
        document_files.require_folder(tmp_path / "absent")


def test_a_file_that_is_gone_when_it_is_read_is_a_failure(tmp_path: Path) -> None:
    write(tmp_path, "policies/a.yaml")
    (file,), _ = found(tmp_path, tmp_path / "policies")
    file.path.unlink()

    with pytest.raises(errors.WorldError, match=r"'policies/a\.yaml' cannot be read") as raised:
        document_files.read(file)
    assert isinstance(raised.value.__cause__, FileNotFoundError)


def test_a_digest_that_cannot_be_made_is_a_failure(tmp_path: Path) -> None:
    def refuse(path: str) -> str:
        raise PermissionError(path)

    with pytest.raises(errors.WorldError, match=r"'a\.yaml' may not be read"):
        document_files.digest(document_files.Input("a.yaml", tmp_path / "a.yaml"), refuse)


def test_finding_files_needs_nothing_heavy() -> None:
    heavy = "{'yaml', 'pydantic', 'jinja2'} & sys.modules.keys()"
    program = f"import sys; from compiler.project import document_files; print({heavy})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "set()\n"


@pytest.mark.parametrize(
    ("content", "better"),
    [
        ("apiVersion: device.openfuyao.com/v1alpha1\nkind: KAEPolicy\n", "db.yaml"),
        ("# Ours.\n---\nkind: KAEPolicy\napiVersion: 'device.openfuyao.com/v1alpha1'\n", "db.yaml"),
        ('{"apiVersion": "device.openfuyao.com/v1alpha1"}', "db.json"),
        ('{"apiVersion": "v1", "items": [{"apiVersion": "v1", "kind": "Node"}], "kind": "List"}', "db.json"),
        ("apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata: {name: a}\nkind: List\n", "db.yaml"),
        ("items:\n  - kind: Node\n", "db.yaml"),
        ("kind: NodeList\nitems: []\n", "db.yaml"),
        ("apiVersion: v1\nkind: 'Node'  # one\n", "db.yaml"),
        ("{apiVersion: v1, kind: List, items: [{kind: Node}]}\n", "db.json"),
        ("%YAML 1.2\n---\napiVersion: device.openfuyao.com/v1alpha1\n", "db.yaml"),
        ("...\n---  # Ours.\napiVersion: device.openfuyao.com/v1alpha1\n", "db.yaml"),
        ("--- {apiVersion: device.openfuyao.com/v1alpha1, kind: KAEPolicy}\n", "db.json"),
        ("  apiVersion: device.openfuyao.com/v1alpha1\n  kind: KAEPolicy\n", "db.yaml"),
        ('{"apiVersion": "nfd.k8s-sigs.io/v1alpha1", "kind": "NodeFeatureRule"}', None),
        ('{"apiVersion": "karpenter.sh/v1", "kind": "NodePool"}', None),
        ("apiVersion: nfd.k8s-sigs.io/v1alpha1\nkind: NodeFeatureRule\n", None),
        (
            "apiVersion: v1\nitems:\n- kind: Pod\n  metadata:\n    ownerReferences:\n    - apiVersion: v1\n"
            "      kind: Node\n",
            None,
        ),
        ("# Policies\n\n    apiVersion: device.openfuyao.com/v1alpha1\n", None),
        ("Write `apiVersion: device.openfuyao.com/v1alpha1`.\n", None),
        ("kind words\napiVersion: device.openfuyao.com/v1alpha1\n", None),
        ("apiVersion: v1\nkind: ConfigMap\n", None),
        ("", None),
    ],
)
def test_a_document_under_another_name_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, better: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    project.write(tmp_path, {"policies/db.txt": content, "policies/db": content})

    files, findings = document_files.find(["policies"])

    assert files == []
    assert [finding.hint for finding in findings] == [f"Rename it to {better}, or remove it."] * (2 if better else 0)


@pytest.mark.parametrize("name", ["db.yaml.tmpl", "db.json.j2"])
def test_a_document_with_one_ending_too_many_loses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    project.write(tmp_path, {f"policies/{name}": "apiVersion: device.openfuyao.com/v1alpha1\n"})

    _, (finding,) = document_files.find(["policies"])

    assert finding.hint == f"Rename it to {name.rpartition('.')[0]}, or remove it."
