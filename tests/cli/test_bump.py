"""`kae bump`: one version of one policy, in its own file, with every other byte as it was."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import builders, in_process, project
from tests.cli import fleet
from tests.cli.answers import answered, refused, told, warned

ROOT = Path(__file__).parents[2]
BUMP = ("bump", "tls", "--version", "2.3.0")
WAVES = "spec.driver.rollout.waves holds canary and half."
POLICY = """\
# +argocd:skip-file-rendering
# TLS front ends.
apiVersion: device.openfuyao.com/v1alpha1
kind: KAEPolicy
metadata:
    name: tls   # as the team is called
spec:
    clusters: [east]
    driver:
        version: 2.2.0   # since March
        kernelMappings:
        - name: lts
          regexp: '^5\\.10\\.'
          version: "2.2.0"
        rollout:
            waves:
            # Begin with these.
            - name: canary
              percent: 5
            - {percent: 50, name: half, version: '2.2.1'}
            frozen:
            - name: sick
              nodes: [kp920-01]
              version: 2.1.0
    devicePlugin: {version: 1.4.1, sharing: {hpre: 8}}
"""


def written(folder: Path, text: str = POLICY) -> Path:
    """A project whose only document is the policy."""
    return project.write(folder, {"policies/tls.yaml": text})


def text_of(folder: Path, name: str = "policies/tls.yaml") -> str:
    """A file of the project, with the line breaks that it has."""
    return (folder / name).read_bytes().decode()


def after(folder: Path, before: str) -> in_process.Answer:
    """Run `kae bump tls --version 2.3.0` as a shell does after another command of it."""
    done = subprocess.run(
        ["bash", "--norc", "-c", f'{before}\nexec "$@"', "bash", sys.executable, "-m", "compiler", *BUMP],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return in_process.Answer(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("options", "said", "old", "new"),
    [
        ((), "10: tls driver: version 2.2.0", "version: 2.2.0   #", "version: 2.3.0   #"),
        (("--mapping", "lts"), "14: tls mapping lts: version 2.2.0", '"2.2.0"', '"2.3.0"'),
        (("--wave", "half"), "20: tls wave half: version 2.2.1", "'2.2.1'", "'2.3.0'"),
        (("--wave", "canary"), "19: tls wave canary: version unset", "canary\n", f"canary\n{' ' * 14}version: 2.3.0\n"),
        (("--frozen", "sick"), "24: tls frozen group sick: version 2.1.0", "2.1.0", "2.3.0"),
        (("--device-plugin",), "25: tls device plugin: version 1.4.1", "1.4.1", "2.3.0"),
    ],
)
def test_each_version_of_a_policy_is_changed_in_its_own_line(
    options: tuple[str, ...], said: str, old: str, new: str, tmp_path: Path
) -> None:
    folder = written(tmp_path)

    answer = in_process.kae(folder, "bump", "tls", *options, "--version", "2.3.0")

    assert answer == in_process.Answer(0, f"policies/tls.yaml:{said} -> 2.3.0\n", "")
    assert text_of(folder) == POLICY.replace(old, new)
    assert project.tree(folder).keys() == {"policies/tls.yaml"}


def test_programs_get_the_same_answer(tmp_path: Path) -> None:
    answer = answered(written(tmp_path), "bump", "tls", "--wave", "canary", "--version", "2.3.0", "-o", "json")

    assert json.loads(answer) == {
        "version": 1,
        "diagnostics": [],
        "policy": "tls",
        "file": "policies/tls.yaml",
        "line": 19,
        "path": "spec.driver.rollout.waves[0].version",
        "old": None,
        "new": "2.3.0",
    }


def test_what_is_written_compiles(tmp_path: Path) -> None:
    folder = fleet.small(tmp_path)

    told(folder, "bump", "tls", "--version", "2.10")
    told(folder, "compile")

    assert '    version: "2.10"\n' in text_of(folder)
    assert "kae-driver-installer:2.10\n" in text_of(folder, "output/east/images.txt")


def test_a_version_that_is_there_already_touches_nothing(tmp_path: Path) -> None:
    folder = written(tmp_path)

    def state() -> tuple[int, int, int]:
        stat = (folder / "policies/tls.yaml").stat()
        return stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns

    before = state()

    answer = answered(folder, "bump", "tls", "--version", "2.2.0")

    assert (answer, state()) == ("policies/tls.yaml:10: tls driver: version is 2.2.0 already\n", before)


def test_a_check_writes_nothing_and_fails_where_the_version_is_another_one(tmp_path: Path) -> None:
    written(tmp_path)

    differs, same = (in_process.kae(tmp_path, *BUMP[:-1], version, "--check") for version in ("2.3.0", "2.2.0"))

    assert (differs.code, differs.out) == (4, "policies/tls.yaml:10: tls driver: version 2.2.0 -> 2.3.0\n")
    assert (same.code, same.out) == (0, "policies/tls.yaml:10: tls driver: version is 2.2.0 already\n")
    assert text_of(tmp_path) == POLICY


def test_line_breaks_of_windows_and_an_end_without_one_are_kept(tmp_path: Path) -> None:
    text = fleet.POLICY.removesuffix("  devicePlugin:\n    version: 1.4.1\n    sharing:\n      hpre: 8\n")
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies/tls.yaml").write_bytes(text.rstrip().replace("\n", "\r\n").encode())

    first = in_process.kae(tmp_path, *BUMP)
    second = in_process.kae(tmp_path, "bump", "tls", "--device-plugin", "--version", "1.5.0")

    assert (first.code, second.code) == (0, 0), first.err + second.err
    wanted = text.replace("2.2.0", "2.3.0") + "  devicePlugin:\n    version: 1.5.0"
    assert text_of(tmp_path) == wanted.replace("\n", "\r\n")


def test_a_policy_among_others_in_its_file_is_the_only_one_that_changes(tmp_path: Path) -> None:
    text = f"---\n---\n{fleet.CLUSTER}---\n{fleet.REST}---\n{fleet.POLICY}...\n"
    folder = project.write(tmp_path, {"policies/all.yml": text})

    answer = told(folder, "bump", "rest", "--device-plugin", "--version", "1.4.2")

    assert answer == "policies/all.yml:19: rest device plugin: version 1.4.1 -> 1.4.2\n"
    assert text_of(folder, "policies/all.yml") == text.replace("1.4.1", "1.4.2", 1)


def test_a_policy_may_be_json(tmp_path: Path) -> None:
    wave = {"name": "canary", "percent": 5}
    policy = builders.raw("KAEPolicy", "tls", {"driver": {"rollout": {"waves": [wave]}}})
    folder = project.write(tmp_path, {"policies/tls.json": json.dumps(policy, indent=4)})

    answered(folder, "bump", "tls", "--wave", "canary", "--version", "2.10")

    policy["spec"]["driver"]["rollout"]["waves"] = [{"name": "canary", "version": "2.10", "percent": 5}]
    assert text_of(folder, "policies/tls.json") == json.dumps(policy, indent=4)


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (("tlss",), "there is no policy 'tlss'.", "Did you mean 'tls'? policies/ holds rest and tls."),
        (("nothing-like-it",), "there is no policy 'nothing-like-it'.", "policies/ holds rest and tls."),
        (("tls", "--wave", "cannary"), "policy 'tls' has no wave 'cannary'.", f"Did you mean 'canary'? {WAVES}"),
        (("tls", "--wave", "sick"), "policy 'tls' has no wave 'sick'.", WAVES),
        (
            ("rest", "--frozen", "a"),
            "policy 'rest' has no frozen group 'a'.",
            "spec.driver.rollout.frozen has no entries.",
        ),
        (("rest", "--mapping", "a"), "policy 'rest' has no mapping 'a'.", "spec.driver.kernelMappings has no entries."),
    ],
)
def test_a_name_that_is_not_there_is_answered_with_those_that_are(
    arguments: tuple[str, ...], message: str, hint: str, tmp_path: Path
) -> None:
    folder = project.write(written(tmp_path), {"policies/rest.yaml": fleet.REST})
    before = project.tree(folder)

    assert refused(1, folder, "bump", *arguments, "--version", "2.3.0") == f"kae: {message}\nhint: {hint}\n"
    assert project.tree(folder) == before


def test_a_folder_without_policies_says_so(tmp_path: Path) -> None:
    said = "kae: there is no policy 'tls'.\nhint: `kae -C DIR` works in another folder.\n"

    assert refused(1, tmp_path, *BUMP) == said


def test_a_policy_of_several_files_is_changed_in_the_one_that_is_named(tmp_path: Path) -> None:
    west = fleet.POLICY.replace("east", "west")
    folder = project.write(tmp_path, {"policies/east.yaml": fleet.POLICY, "policies/west/tls.yaml": west})
    before = project.tree(folder)

    unclear = refused(1, folder, *BUMP)
    clear = told(folder, *BUMP, "--file", "./policies/west/tls.yaml")

    places = "policies/east.yaml:4 and policies/west/tls.yaml:4"
    assert unclear == f"kae: policy 'tls' is written 2 times: {places}.\nhint: Choose a file with --file.\n"
    assert clear == "policies/west/tls.yaml:11: tls driver: version 2.2.0 -> 2.3.0\n"
    changed = {"policies/west/tls.yaml": west.replace("2.2.0", "2.3.0").encode()}
    assert project.tree(folder) == before | changed


def test_a_policy_that_stands_twice_in_one_file_is_not_guessed(tmp_path: Path) -> None:
    folder = written(tmp_path, f"{fleet.POLICY}---\n{fleet.POLICY.replace('east', 'west')}")
    before = project.tree(folder)

    said = refused(1, folder, *BUMP, "--file", "policies/tls.yaml")

    assert "'tls' is written 2 times: policies/tls.yaml:4 and policies/tls.yaml:20.\n" in said
    assert "hint: Give each document a file of its own.\n" in said
    assert project.tree(folder) == before


@pytest.mark.parametrize(
    ("spec", "place", "words"),
    [
        ("  driver: {version: &v 2.2.0}\n  devicePlugin: {version: *v}\n", "6:21", "by an anchor and its aliases"),
        ("  devicePlugin: {version: &v 2.2.0}\n  driver: {version: *v}\n", "7:21", "by an anchor and its aliases"),
        ("  devicePlugin: &all {version: 2.2.0}\n  driver: *all\n", "6:32", "by an anchor and its aliases"),
        ("  devicePlugin: &all {version: 2.2.0}\n  driver: {<<: *all}\n", "6:32", "comes from a merge"),
        ("  driver:\n    version: |-\n      2.2.0\n", "7:14", "is a block scalar"),
        ("  driver:\n    version: &v # new\n      2.2.0\n", "7:14", "cannot be changed without other changes"),
    ],
)
def test_a_version_that_is_not_one_place_is_refused(spec: str, place: str, words: str, tmp_path: Path) -> None:
    head = fleet.POLICY.partition("  clusters")[0]
    folder = written(tmp_path, head + spec)

    said = refused(1, folder, *BUMP)

    assert said.startswith(f"kae: policies/tls.yaml:{place}: 'spec.driver.version' ")
    assert words in said
    assert "\nhint: " in said
    assert text_of(folder) == head + spec


@pytest.mark.parametrize(
    ("version", "by_hand", "code"),
    [
        ("2.3 beta", "2.3 beta", "invalid-value"),
        ("2.3 #4", '"2.3 #4"', "invalid-value"),
        ("", '""', "image-reference"),
        ("sha256:12", "sha256:12", "image-reference"),
    ],
)
def test_a_version_that_would_not_compile_gets_the_words_of_a_compile(
    version: str, by_hand: str, code: str, tmp_path: Path
) -> None:
    text = fleet.POLICY.replace("  driver:\n", "  driver:\n    repository: cr.example.com/kae\n")
    folder = project.write(fleet.small(tmp_path), {"policies/tls.yaml": text})

    said = refused(1, folder, "bump", "tls", "--version", version)

    assert text_of(folder) == text
    assert f"error[{code}]" in said
    project.write(folder, {"policies/tls.yaml": text.replace("2.2.0", by_hand)})
    assert said == refused(1, folder, "compile", "--no-cache")


def test_only_the_warnings_that_a_version_brings_are_shown(tmp_path: Path) -> None:
    folder = written(tmp_path, POLICY.replace("version: 2.2.0 ", "image: kae "))

    assert warned(folder, "bump", "tls", "--wave", "half", "--version", "2.3.0") == ""
    mutable = warned(folder, "bump", "tls", "--device-plugin", "--version", "latest")
    assert mutable.count("warning[") == 1
    assert "warning[mutable-tag]: 'cr.openfuyao.cn/openfuyao/kae-device-plugin:latest'" in mutable


def test_a_version_that_would_not_compile_is_a_diagnostic_for_programs(tmp_path: Path) -> None:
    folder = written(tmp_path)

    answer = in_process.kae(folder, "bump", "tls", "--version", "a b", "-o", "json")

    (finding,) = json.loads(answer.out)["diagnostics"]
    assert answer.code == 1
    assert "error[invalid-value]" in answer.err
    assert (finding["code"], finding["file"], finding["line"]) == ("invalid-value", "policies/tls.yaml", 10)
    assert text_of(folder) == POLICY


@pytest.mark.parametrize(
    ("texts", "code"),
    [
        ({"policies/other.yaml": "a: b: c\n"}, "yaml-syntax"),
        ({"policies/tls.yaml": POLICY.replace("percent: 5\n", "percents: 5\n")}, "unknown-field"),
        ({"policies/tls.yaml": POLICY.replace("version: 2.2.0 ", "version: 2.2 ")}, "wrong-type"),
        ({"policies/tls.yaml": POLICY.replace("v1alpha1", "v1")}, "unknown-version"),
    ],
)
def test_documents_that_cannot_be_understood_are_left_alone(texts: dict[str, str], code: str, tmp_path: Path) -> None:
    folder = project.write(written(tmp_path), texts)
    before = project.tree(folder)

    assert f"error[{code}]" in refused(1, folder, "bump", "tls", "--wave", "canary", "--version", "2.3.0")
    assert project.tree(folder) == before


def test_mistakes_elsewhere_do_not_stand_in_the_way(tmp_path: Path) -> None:
    folder = project.write(written(tmp_path), {"policies/rest.yaml": fleet.REST.replace("default", "defualt")})
    project.write(folder, {"policies/broken.yaml": "a: b: c\n", "inventory/east.json": "{"})

    assert warned(folder, *BUMP, "--file", "policies/tls.yaml") == ""


def test_a_link_stays_a_link_and_its_target_keeps_its_mode(tmp_path: Path) -> None:
    folder = project.write(tmp_path, {"common/tls.yaml": POLICY})
    (folder / "policies").mkdir()
    (folder / "policies/tls.yaml").symlink_to("../common/tls.yaml")
    (folder / "common/tls.yaml").chmod(0o640)
    kept = folder / "kept"
    kept.hardlink_to(folder / "common/tls.yaml")

    answer = after(folder, "umask 077")

    assert (answer.code, answer.err) == (0, "")
    assert (folder / "policies/tls.yaml").readlink() == Path("../common/tls.yaml")
    assert text_of(folder, "common/tls.yaml") == POLICY.replace("2.2.0   #", "2.3.0   #")
    assert (folder / "common/tls.yaml").stat().st_mode & 0o7777 == 0o640
    # The file was put in its place whole: whoever had the old one open still reads the old one.
    assert kept.read_text() == POLICY
    assert sorted(path.name for path in (folder / "common").iterdir()) == ["tls.yaml"]


def test_a_disk_that_takes_no_more_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    folder = written(tmp_path)

    answer = after(folder, "ulimit -f 0")

    assert answer == in_process.Answer(3, "", "kae: 'policies/tls.yaml' cannot be written: File too large.\n")
    assert project.tree(folder) == {"policies/tls.yaml": POLICY.encode()}


def test_a_file_that_is_no_document_of_policies_ends_with_3(tmp_path: Path) -> None:
    folder = fleet.small(tmp_path)

    said = refused(3, folder, *BUMP, "--file", "inventory/east.json")

    assert "'inventory/east.json' is no document file of policies/." in said


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("tls",),
        ("tls", "--version", "1", "--wave", "a", "--frozen", "b"),
        ("tls", "--version", "1", "--mapping", "a", "--device-plugin"),
        ("tls", "--version", "\udcff"),
    ],
)
def test_what_cannot_be_said_ends_with_2(arguments: tuple[str, ...], tmp_path: Path) -> None:
    folder = written(tmp_path)

    assert "usage: kae bump" in refused(2, folder, "bump", *arguments)
