"""`kae completion`: scripts that their shells read, and the words that they offer."""

import os
import subprocess
from pathlib import Path

import pytest

from tests import in_process, project, revisions, tools
from tests.cli import fleet
from tests.kae_forks import program

ASK = {
    "bash": 'COMP_WORDS=({0}); COMP_LINE="{0}"; COMP_POINT=${{#COMP_LINE}}; _kae; printf "%s\\n" "${{COMPREPLY[@]}}"',
    "fish": "complete --do-complete '{0}'",
    "zsh": "words=({0}); CURRENT=$#words; PREFIX=$words[-1]; compadd() {{ print -l $found; }}; _kae",
}
"""How a test asks each shell, once it has read its script, for the completion of a line."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with waves, and a `kae` for shells."""
    folder = fleet.full(tmp_path_factory.mktemp("fleet"))
    rollout = "    rollout: {waves: [{name: canary, percent: 5}, {name: half, percent: 50}]}\n"
    text = (folder / "policies/tls.yaml").read_text()
    assert "  driver:\n" in text
    project.write(folder, {"policies/tls.yaml": text.replace("  driver:\n", f"  driver:\n{rollout}")})
    project.write(folder, {"bin/kae": program.text()})
    (folder / "bin/kae").chmod(0o755)
    return folder


def offered(folder: Path, line: str) -> list[str]:
    answer = in_process.kae(folder, "__complete", line)
    assert (answer.code, answer.err) == (0, "")
    return answer.out.splitlines()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("kae comp", ["compile", "completion"]),
        ("kae help bu", ["bump"]),
        ("kae plan --cl", ["--cluster"]),
        ("kae plan --cluster ", ["east", "west"]),
        ("kae plan --cluster east --cluster w", ["west"]),
        ("kae plan -o ", ["text", "json", "yaml", "ndjson"]),
        ("kae explain east/kp920-02", ["east/kp920-02"]),
        ("kae bump t", ["tls"]),
        ("kae bump tls --wave ", ["canary", "half"]),
        ("kae bump tls --frozen ", []),
        ("kae wave ", ["add", "remove"]),
        ("kae wave remove ", ["tls/canary", "tls/half"]),
        ("kae wave add tls x --before ", ["canary", "half"]),
        ("kae promote tls", ["tls/canary", "tls/half"]),
        ("kae freeze tls x --node kp920-0", ["kp920-01", "kp920-02", "kp920-03", "kp920-04"]),
        ("kae freeze tls x --cluster ", ["east", "west"]),
        ("kae thaw t", ["tls"]),
        ("kae thaw tls ", []),
        ("kae retire t", ["tls"]),
        ("kae compile --accept th", ["thaws-nodes"]),
        ("kae rule policy-ov", ["policy-overlap"]),
        ("kae recipe ", ["list", "show", "add", "new", "check"]),
        ("kae recipe show on", ["onload"]),
        ("kae recipe show k", ["kae"]),
        ("kae recipe add k", []),
        ("kae recipe new k", []),
        ("kae recipe new npx --cl", ["--class"]),
        ("kae recipe new npx --class v", ["vfio"]),
        ("kae schema kaep", ["kaepolicy", "kaeproject"]),
        ("kae --color al", ["always"]),
        ("kae -C policies plan --cluster ", ["east", "west"]),
        ("kae import ", []),
        ("kae __", []),
    ],
)
def test_names_are_completed_where_they_are_wanted(line: str, words: list[str], folder: Path) -> None:
    assert offered(folder, line) == words


def test_revisions_are_completed(folder: Path) -> None:
    revisions.commit(folder)
    revisions.git(folder, "tag", "v1")

    assert offered(folder, "kae diff ") == ["HEAD", "main", "v1"]
    assert offered(folder, "kae diff HEAD --to m") == ["main"]


def test_another_folder_is_read_where_the_line_names_it(folder: Path) -> None:
    assert offered(folder.parent, f"kae -C {folder.name} plan --cluster ") == ["east", "west"]


def test_documents_that_are_wrong_complete_nothing_and_print_nothing(tmp_path: Path) -> None:
    project.write(tmp_path, {"policies/a.yaml": "a: [", "inventory/east.json": '{"kind":'})

    assert offered(tmp_path, "kae explain ") == []
    assert offered(tmp_path, "kae plan --cluster ") == ["east"]


def asked(shell: str, line: str, where: Path, programs: Path) -> str:
    """Return what a shell that has read its script prints as the completion of a line."""
    script = in_process.kae(where, "completion", shell).out
    flag = {"bash": "--norc", "fish": "--no-config", "zsh": "--no-rcs"}[shell]
    done = subprocess.run(
        [shell, flag, "-c", f"{'compdef() {}' if shell == 'zsh' else ''}\n{script}\n{ASK[shell].format(line)}"],
        cwd=where,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(where)},
        text=True,
        capture_output=True,
        check=True,
        timeout=600,
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
@pytest.mark.parametrize(
    ("line", "words"), [("kae comp", ["compile", "completion"]), ("kae explain east/kp920-02", ["east/kp920-02"])]
)
def test_each_shell_offers_the_words(shell: str, line: str, words: list[str], folder: Path) -> None:
    tools.require(shell, shell)

    assert asked(shell, line, folder, folder / "bin").split() == words


def test_no_shell_runs_what_a_name_holds(folder: Path, tmp_path: Path) -> None:
    node = fleet.NODES[0] | {"metadata": {"name": "$(touch${IFS}x)"}}
    project.write(fleet.small(tmp_path), {"inventory/west.json": fleet.listed((node,))})

    asked("bash", "kae explain west/", tmp_path, folder / "bin")

    assert not (tmp_path / "x").exists()
