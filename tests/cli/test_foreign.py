"""What lies in output/ and is not the compiler's, as `kae` sees it."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler.output import foreign
from tests import in_process, project, revisions
from tests.cli import fleet
from tests.cli.answers import answered, refused

SOURCE = "kustomize:\n  images: [cr.openfuyao.cn/openfuyao/kae-driver-installer=registry.test/evil:1]\n"
READING = (
    ("compile",),
    ("compile", "--check"),
    ("plan",),
    ("explain", "kp920-01"),
    ("preflight", "--kernel", "6.6.0"),
    ("report", "--html", "../page.html"),
    ("report", "--html", "../page.html", "HEAD"),
    ("status", "--cluster", "east"),
)
"""Commands that read the documents; `diff` is apart, as it says on standard output what does not compile."""


@pytest.fixture(scope="module")
def committed(compiled_small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that was compiled and committed; nobody changes it."""
    folder = shutil.copytree(compiled_small, tmp_path_factory.mktemp("committed") / "fleet")
    revisions.commit(folder)
    return folder


@pytest.fixture
def small(committed: Path, tmp_path: Path) -> Path:
    """A project that was compiled and committed."""
    return shutil.copytree(committed, tmp_path / "fleet")


@pytest.mark.parametrize("is_link", [False, True])
def test_a_file_that_an_engine_reads_by_itself_stops_every_command(is_link: bool, small: Path) -> None:
    file = small / "output/east/.argocd-source.yaml"
    file.symlink_to("../../policies/tls.yaml") if is_link else file.write_text(SOURCE)
    before = project.tree(small / "output")

    said = "output/east/.argocd-source.yaml: error[engine-file]: 'output/east/.argocd-source.yaml' was not written by"
    for words in READING:
        assert said in refused(1, small, *words)
    assert in_process.kae(small, "diff").code == 1
    assert project.tree(small / "output") == before
    assert not (small / "../page.html").exists()


def test_every_file_that_an_engine_reads_by_itself_is_named(small: Path) -> None:
    paths = (
        "east/.argocd-source-kae-east.yaml",
        "east/driver/.ArgoCD-Allow-Concurrency",
        "east/Kustomization",
        "east/kustomization.yml",
        "east/Kustomization.yaml",
        "east/driver/kustomization.yaml",
        "east/.sourceignore",
        "east/driver/.krmignore",
        "east/Chart.yaml",
        "east/OldChart.yaml",
        "west/CHART.YAML",
        "north/kustomization.yaml",
        "north/deep/down/.sourceignore",
        "kustomization.yaml",
        ".argocd-source.yaml",
    )
    project.write(small / "output", dict.fromkeys(paths, SOURCE))

    for answer in (in_process.kae(small, "compile", "--check"), in_process.kae(small, "plan")):
        assert answer.code == 1
        named = re.findall(r"^output/(\S+): error\[engine-file\]", answer.err, re.MULTILINE)
        assert sorted(named) == sorted(paths)


@pytest.mark.parametrize("path", ["east/.argocd-source.yaml", "kustomization.yaml"])
def test_with_such_a_file_nothing_is_known_of_the_effect_of_a_change(path: str, small: Path) -> None:
    edited = fleet.POLICY.replace("version: 2.2.0", "version: 2.3.0")
    project.write(small, {f"output/{path}": SOURCE, "policies/tls.yaml": edited})

    answer = in_process.kae(small, "diff")
    read = json.loads(in_process.kae(small, "diff", "-o", "json").out)

    assert answer.code == 1
    assert "the working tree: 1 error, so nothing is known of the effect\n" in answer.out
    assert f"output/{path}: error[engine-file]: 'output/{path}' was not written by the compiler" in answer.out
    assert [error["code"] for side in read["doesNotCompile"] for error in side["errors"]] == ["engine-file"]
    assert read["effects"] == []


def test_such_a_file_does_not_disturb_a_difference_of_two_commits(small: Path) -> None:
    project.write(small, {"output/east/.argocd-source.yaml": SOURCE})

    assert in_process.kae(small, "diff", "HEAD", "--to", "HEAD").code == 0


def test_such_a_file_of_another_cluster_stops_a_compile_of_one(small: Path) -> None:
    project.write(small, {"output/west/.argocd-source.yaml": SOURCE})

    assert "engine-file" in refused(1, small, "compile", "--cluster", "east")


def test_nobody_can_accept_or_lower_it(small: Path) -> None:
    project.write(small, {"output/east/.argocd-source.yaml": SOURCE, "kae.yaml": "findings: {engine-file: ignore}\n"})

    lowered, accepted = in_process.kae(small, "compile"), in_process.kae(small, "compile", "--accept", "engine-file")

    assert "'engine-file' is always an error" in lowered.err
    assert (lowered.code, accepted.code) == (1, 2)


@pytest.mark.parametrize("policy", ["chart", "kustomization"])
def test_the_compilers_own_files_are_none_of_them(policy: str, small: Path) -> None:
    project.write(small, {"policies/tls.yaml": fleet.POLICY.replace("name: tls", f"name: {policy}")})
    accepted = ("--accept", "removes-drivers", "--accept", "removes-device-plugins")

    answers = [in_process.kae(small, "compile", *accepted), in_process.kae(small, "compile", "--check")]

    assert [answer.code for answer in answers] == [0, 0]
    assert not foreign.is_engine_file("daemonset-kae-driver-chart.yaml")


def test_a_check_takes_every_file_of_others_for_a_difference(small: Path) -> None:
    paths = (
        "east/notes.md",
        "east/.hidden",
        "east/driver/patch.yaml",
        "east/empty/empty/x",
        "east/.gitattributes",
        "north/a.yaml",
        "south/down/.hidden",
        ".hidden/a.yaml",
        ".gitignore",
        ".gitattributes",
        ".DS_Store",
        "README.md/a.yaml",
    )
    project.write(small / "output", dict.fromkeys(paths, "a: b\n"))

    checks = [in_process.kae(small, "compile", "--check") for _ in range(2)]
    answer = json.loads(in_process.kae(small, "compile", "--check", "-o", "json").out)
    compiled = in_process.kae(small, "compile")

    for check in checks:
        assert check.code == 4
        assert check.out.startswith("east: output holds files that are not the compiler's\n")
        assert check.out.endswith(
            "\noutput/.DS_Store, output/.gitattributes, output/.gitignore, output/.hidden/, "
            "output/README.md/ and 2 more: not written by the compiler\n"
        )
        assert check.err.count("warning[foreign-file]") == len(paths)
    assert len(answer["foreign"]) == len(paths)
    assert all(
        path.startswith(name)
        for path, name in zip(sorted(f"output/{path}" for path in paths), sorted(answer["foreign"]), strict=True)
    )
    assert compiled.code == 0
    assert all((small / "output" / path).read_text() == "a: b\n" for path in paths)


@pytest.mark.parametrize("path", ["east/.gitattributes", ".gitignore", "README.md/a.yaml"])
def test_one_file_of_others_is_a_difference_by_itself(path: str, small: Path) -> None:
    project.write(small / "output", {path: "a: b\n"})

    assert in_process.kae(small, "compile", "--check").code == 4


def discarded(folder: Path) -> Path:
    """Compile a policy by a new name, have git take back what it tracks, and return a file that is left."""
    policy = folder / "policies/tls.yaml"
    before = policy.read_text()
    policy.write_text(before.replace("name: tls\n", "name: tls2\n"))
    assert in_process.kae(folder, "compile", "--accept", "removes-drivers", "--accept", "thaws-nodes").code == 0
    revisions.git(folder, "checkout", "--quiet", ".")
    assert policy.read_text() == before
    return folder / "output/east/driver/daemonset-kae-driver-tls2.yaml"


def test_a_new_file_whose_record_git_took_back_is_still_the_compilers(small: Path) -> None:
    file = discarded(small)
    assert file.exists()

    assert "foreign-file" not in in_process.kae(small, "compile", "--check").err
    assert "foreign-file" not in in_process.kae(small, "compile").err
    assert not file.exists()
    assert in_process.kae(small, "compile", "--check").code == 0


TAKES_BACK = {
    "checkout .": ("checkout", "."),
    "checkout of output": ("checkout", "--", "policies", "output"),
    "checkout of a folder": ("checkout", "--", "output/east/driver"),
    "reset": ("reset", "--hard"),
    "stash": ("stash",),
    "another branch": ("checkout", "--force", "other"),
}


@pytest.mark.parametrize("flags", [(), ("--no-cache",)])
@pytest.mark.parametrize("command", TAKES_BACK.values(), ids=TAKES_BACK)
def test_no_file_of_the_compiler_is_foreign_after_git_took_some_back(
    command: tuple[str, ...], flags: tuple[str, ...], small: Path
) -> None:
    revisions.git(small, "branch", "other")
    policy = small / "policies/tls.yaml"
    policy.write_text(policy.read_text().replace("name: tls\n", "name: tls2\n"))
    accepted = ("--accept", "removes-drivers", "--accept", "thaws-nodes")
    assert in_process.kae(small, "compile", *accepted, *flags).code == 0
    revisions.git(small, *command)

    answers = [in_process.kae(small, "compile", *words, *flags) for words in (("--check",), (), ("--check",))]

    assert [answer.code for answer in answers] == [4, 0, 0]
    assert not any("foreign-file" in answer.err for answer in answers)


@pytest.mark.parametrize("change", [None, "# mine\n"])
def test_a_file_that_git_restores_is_the_compilers_as_it_is_alone(change: str | None, small: Path) -> None:
    """The commit's index.json lists it, and that of the disk does not."""
    policy = small / "policies/tls.yaml"
    policy.write_text(policy.read_text().replace("name: tls\n", "name: tls2\n"))
    assert in_process.kae(small, "compile", "--accept", "removes-drivers", "--accept", "thaws-nodes").code == 0
    file = small / "output/east/driver/daemonset-kae-driver-tls.yaml"
    revisions.git(small, "checkout", "--quiet", "--", str(file))
    shutil.rmtree(small / ".kae_cache")
    file.write_text(file.read_text() + (change or ""))

    answer = in_process.kae(small, "compile")

    assert ("foreign-file" in answer.err, file.exists()) == (change is not None, change is not None)


def test_a_new_file_whose_record_git_took_back_is_in_nobodys_way(small: Path) -> None:
    file = discarded(small)
    text = (small / "policies/tls.yaml").read_text().replace("name: tls\n", "name: tls2\n")
    (small / "policies/tls.yaml").write_text(text.replace("version: 2.2.0", "version: 2.9.0"))

    answer = in_process.kae(small, "compile", "--accept", "removes-drivers", "--accept", "thaws-nodes")

    assert (answer.code, "2.9.0" in file.read_text()) == (0, True), answer.err


def edit(folder: Path, file: Path) -> None:
    file.write_text(file.read_text().replace("2.2.0", "2.2.1"))


def track(folder: Path, file: Path) -> None:
    revisions.git(folder, "add", "--intent-to-add", str(file))


def forget(folder: Path, file: Path) -> None:
    shutil.rmtree(folder / ".kae_cache")


@pytest.mark.parametrize("happens", [edit, track, forget])
def test_a_file_that_somebody_edited_tracks_or_brought_is_kept(
    happens: Callable[[Path, Path], None], small: Path
) -> None:
    file = discarded(small)
    happens(small, file)

    answer = in_process.kae(small, "compile")

    assert "is none of the compiler's files, which index.json lists" in answer.err
    assert file.exists()


def test_a_link_in_output_is_a_difference_and_not_followed(small: Path) -> None:
    (small / "output/north").symlink_to(small / "policies")

    answer = in_process.kae(small, "compile", "--check")

    assert (answer.code, answer.out.splitlines()[-1]) == (4, "output/north: not written by the compiler")


def test_a_project_that_ignores_the_finding_still_has_the_difference(small: Path) -> None:
    project.write(small, {"kae.yaml": "findings: {foreign-file: ignore}\n", "output/east/notes.md": "x"})

    assert in_process.kae(small, "compile", "--check").code == 4


def test_files_for_people_directly_in_output_and_empty_folders_are_no_difference(small: Path) -> None:
    project.write(small / "output", dict.fromkeys(("README.md", ".gitkeep"), "x\n"))
    for folder in ("east/notes/empty", "notes/empty"):
        (small / "output" / folder).mkdir(parents=True)

    assert answered(small, "compile", "--check") == "east: fine\nwest: fine\n"


def test_objects_of_people_have_a_declared_folder(small: Path) -> None:
    texts = {"site/kustomization.yaml": "resources: [a.yaml]\n", "site/.sourceignore": "x", "site/deep/a.yaml": "a: b"}
    project.write(small / "output", texts)
    project.write(small, {"kae.yaml": "extra: [output/site/, output/later]\n"})

    compiled, checked = in_process.kae(small, "compile"), in_process.kae(small, "compile", "--check")
    answer = json.loads(in_process.kae(small, "compile", "--check", "-o", "json").out)

    for each, state in ((compiled, "unchanged"), (checked, "fine")):
        assert (each.code, each.err) == (0, "")
        assert each.out == f"east: {state}\nwest: {state}\noutput/site: 3 files of your own, not compiled\n"
    assert (answer["extra"], answer["foreign"]) == ([{"folder": "output/site", "files": 3}], [])


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        *(
            (folder, f"'{folder}' is not directly in 'output', the folder of outputs.")
            for folder in ("output/east/site", "site", "output", "output/site/../../x")
        ),
        ("output/west", "The folder of cluster 'west' cannot hold objects of your own."),
        ("output/x/../east", "The folder of cluster 'east' cannot hold objects of your own."),
    ],
)
def test_a_folder_that_cannot_be_peoples_own_is_an_error_at_its_place(folder: str, said: str, small: Path) -> None:
    project.write(small, {"kae.yaml": f"extra:\n  - output/site\n  - {folder}\n"})

    for words in (*READING, ("diff",)):
        answer = in_process.kae(small, *words)
        assert answer.code == 1
        assert f"kae.yaml:3:5: error[project-settings]: {said}" in answer.out + answer.err


def test_a_folder_of_peoples_own_is_declared_for_every_folder_of_outputs(small: Path) -> None:
    project.write(small, {"kae.yaml": "extra: [output/site]\n", "elsewhere/site/a.yaml": "a: b\n"})
    in_process.kae(small, "compile", "--output-dir", "elsewhere")

    answer = in_process.kae(small, "compile", "--check", "--output-dir", "elsewhere")

    assert (answer.code, answer.out.splitlines()[-1]) == (0, "elsewhere/site: 1 file of your own, not compiled")


@pytest.mark.parametrize("words", [("compile",), ("compile", "--check"), ("compile", "--accept", "removes-drivers")])
def test_a_folder_of_peoples_own_with_output_of_the_compiler_is_an_error(words: tuple[str, ...], small: Path) -> None:
    (small / "policies/west.yaml").unlink()
    project.write(small, {"kae.yaml": "extra: [output/west]\n", "output/west/own.yaml": "a: b\n"})
    before = project.tree(small / "output")

    for _ in range(2):
        said = refused(1, small, *words)
        assert said.startswith("kae.yaml:1:9: error[project-settings]: 'output/west' holds an index.json of ")
        assert "removes-device-plugins" not in said
    assert project.tree(small / "output") == before


def test_an_index_that_comes_to_a_folder_of_peoples_own_is_an_error_too(small: Path) -> None:
    project.write(small, {"kae.yaml": "extra: [output/site]\n", "output/site/own.yaml": "a: b\n"})
    assert in_process.kae(small, "compile").code == 0
    shutil.copy(small / "output/west/index.json", small / "output/site")

    assert in_process.kae(small, "compile").code == 1
    assert (small / "output/site/own.yaml").is_file()


def test_a_link_is_no_folder_of_peoples_own(small: Path) -> None:
    (small / "output/site").symlink_to(small / "policies")
    project.write(small, {"kae.yaml": "extra: [output/site]\n"})

    assert in_process.kae(small, "compile", "--check").code == 4


@pytest.mark.parametrize("link", ["output", "gen"])
def test_an_output_that_is_a_link_is_refused_unless_it_is_named(link: str, small: Path) -> None:
    (small / "elsewhere").mkdir()
    (small / link).rename(small / "elsewhere/real") if link == "output" else None
    (small / link).symlink_to(small / ("elsewhere/real" if link == "output" else "elsewhere"))
    output = "output" if link == "output" else "gen/output"
    project.write(small, {"kae.yaml": f"output: {output}\n"})
    before = project.tree(small / "elsewhere")

    for words in (*READING, ("diff",)):
        assert f"'{link}' is a link, and output is written to a real folder." in refused(3, small, *words)
    assert project.tree(small / "elsewhere") == before
    assert in_process.kae(small, "compile", "--output-dir", output).code == 0


def test_a_project_that_is_reached_by_a_link_is_compiled(small: Path) -> None:
    (small.parent / "link").symlink_to(small)

    assert in_process.kae(small.parent / "link", "compile", "--check").code == 0


@pytest.mark.parametrize("words", [("--output-dir", "."), ("--output-dir", "policies/..")])
def test_an_output_folder_that_holds_the_documents_is_refused(words: tuple[str, ...], small: Path) -> None:
    assert "Name a folder outside of the documents' folders." in refused(3, small, "compile", *words)
