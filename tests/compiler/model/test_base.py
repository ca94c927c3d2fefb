"""URLs hold no credentials, and paths and branches are those of git."""

import functools
import json
import string
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from compiler.schema import judge
from tests import effort, in_process, project
from tests.failures import projects

ROOT = Path(__file__).parents[3]
URLS = (
    "https://git.example.com/fleet.git",
    "https://git.example.com:8443/team/fleet@v1.git",
    "http://[2001:db8::1]:8080/fleet.git",
    "ssh://git@git.example.com:2222/fleet.git",
    "ssh://git.example.com/fleet.git",
    "git@git.example.com:team/fleet.git",
    "file:///srv/git/fleet.git",
)
WITH_CREDENTIALS = (
    "https://user:hunter2@git.example.com/fleet.git",
    "https://hunter2@git.example.com/fleet.git",
    "https://user:hunter2@git.example.com",
    "https://user:hun@hunter2@git.example.com/fleet.git",
    "https://user:hun/hunter2@git.example.com/fleet.git",
    "ssh://git:hunter2@git.example.com/fleet.git",
    "http://:hunter2@git.example.com/fleet.git",
)
BROKEN = (
    *("https://", "https:///fleet.git", "https://-x/fleet.git", "ssh://-oProxyCommand=x/fleet.git", "-o@git:x"),
    *("https://git.example.com/a b", "https://git.example.com/a\n", "https://git\texample", "ftp://git.example.com/a"),
    *("https://git.example.com:0/a", "ssh://git@git.example.com:65536/a"),
)
PATHS = (".", "output/east", "a", ".github/a", "a.b/..c/d-e_f", "output/east.example.com")
BROKEN_PATHS = (
    *("", "..", "../..", "./", "./output", "a/..", "a/../b", "a/./b", "a//b", "/a", "a/", "-a", "a/-b", "a b", "a\n"),
)


def pattern_of(definition: str, field: str) -> str:
    language = json.loads((ROOT / "schemas/kaecluster.json").read_text("utf-8"))
    return str(language["$defs"][definition]["properties"][field]["pattern"])


def rule(definition: str, field: str) -> Callable[[str], bool]:
    return functools.partial(judge.is_found, pattern_of(definition, field))


@pytest.mark.parametrize("definition", ["Repository", "WatcherRepository"])
def test_a_url_of_git_has_a_host_and_no_credentials(definition: str) -> None:
    pattern = rule(definition, "url")

    assert [url for url in URLS if not pattern(url)] == []
    assert [url for url in (*WITH_CREDENTIALS, *BROKEN) if pattern(url)] == []


@pytest.mark.parametrize("definition", ["Repository", "WatcherRepository"])
def test_a_path_in_git_leads_nowhere_else(definition: str) -> None:
    pattern = rule(definition, "path")

    assert [path for path in PATHS if not pattern(path)] == []
    assert [path for path in BROKEN_PATHS if pattern(path)] == []


@pytest.mark.parametrize("name", ["main", "release/1.2", "feature/a-b_c#1", "wip+x", "größe", "a@b", "x/@y", "v1.2.3"])
@pytest.mark.parametrize(("definition", "field"), [("Repository", "revision"), ("WatcherRepository", "branch")])
def test_a_branch_may_have_any_usual_name(definition: str, field: str, name: str) -> None:
    assert rule(definition, field)(name)


@hypothesis.given(strategies.data())
@hypothesis.settings(max_examples=effort.examples(gate=16, long=100))
def test_a_branch_is_one_that_git_accepts(data: strategies.DataObject) -> None:
    pattern = pattern_of("Repository", "revision").removesuffix("$")  # Python's also matches before a line break.
    name = data.draw(strategies.from_regex(pattern, fullmatch=True, alphabet=".@{}-/~^: *\n\x7f\\?[aé"))

    command = ("git", "check-ref-format", "--branch", name)
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_a_branch_of_every_letter_is_what_git_says() -> None:
    pattern = rule("Repository", "revision")
    wrong = [f"a{letter}b" for letter in string.printable if not pattern(f"a{letter}b")]

    assert "".join(name[1:-1] for name in wrong) == "*:?[\\^{~ \t\n\r\x0b\x0c"  # git takes { but not @{


def refused(folder: Path, field: dict[str, Any]) -> str:
    """Return what a compile says of a repository, on all of its channels and in all of its forms."""
    text = projects.CLUSTER + f"  gitops: {json.dumps({'engine': 'argocd', 'repository': field})}\n"
    project.write(folder, {"policies/east.yaml": text})
    answers = [in_process.kae(folder, "compile", "--format", form) for form in ("text", "json", "github", "sarif")]
    assert {answer.code for answer in answers} == {1}
    return "".join(answer.out + answer.err for answer in answers)


@pytest.mark.parametrize("url", WITH_CREDENTIALS)
def test_a_password_is_refused_and_not_printed(tmp_path: Path, url: str) -> None:
    said = refused(tmp_path, {"url": url})

    assert "url-credentials" in said
    assert "hunter2" not in said


@pytest.mark.parametrize("more", [{"branch": "x"}, {"path": 1}, {"path": "../.."}])
def test_another_mistake_in_the_line_prints_no_password(tmp_path: Path, more: dict[str, Any]) -> None:
    assert "hunter2" not in refused(tmp_path, {**more, "url": WITH_CREDENTIALS[0]})


@pytest.mark.parametrize(
    ("field", "sentence"),
    [
        ({"path": "../.."}, "'../..' is not the path of a folder in git"),
        ({"path": "./output/east"}, "hint: Did you mean 'output/east'?"),
        ({"path": "output//east/"}, "hint: Did you mean 'output/east'?"),
        ({"revision": "my branch"}, "'my branch' is not the name of a branch in git"),
        ({"revision": "main\n"}, "hint: Did you mean 'main'?"),
        ({"revision": "-main"}, "'-main' is not the name of a branch in git"),
    ],
)
def test_a_wrong_path_or_branch_is_said_in_a_sentence(tmp_path: Path, field: dict[str, Any], sentence: str) -> None:
    assert sentence in refused(tmp_path, {"url": URLS[0], **field})


@pytest.mark.parametrize("image", ["https://user:hunter2@registry.example.com/team", "user:hunter2@registry.test/team"])
def test_a_registry_with_a_password_is_refused_without_it(tmp_path: Path, image: str) -> None:
    project.write(tmp_path, {"policies/tls.yaml": projects.POLICY + f"    repository: {image}\n"})

    answer = in_process.kae(tmp_path, "compile")

    assert (answer.code, "image-reference" in answer.err, "hunter2" in answer.err) == (1, True, False)
