"""Every block of commands in the README and in docs/ runs, in the order of its page, in a copy of the example fleet.

kae and git are the real ones, but kae only parses a call that asks a live cluster. kubectl and other programs are
stand-ins, which refuse what the real ones would. A block that needs root, a node or a registry is marked by a comment
above it: `<!-- not run: reason -->`, or `<!-- run by tests/…/test_x.py -->`.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import compiler
from tests.documentation import pages
from tests.kae_forks import program

ROOT = pages.ROOT
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
KAE = """
arguments = sys.argv[1:]
is_live = "--context" in arguments or any(name in arguments for name in ("status", "support-bundle"))
code = call(SERVER, [*arguments, "--help"] if is_live else arguments)
sys.exit(0 if "--check" in arguments and code in (1, 4) else code)
"""
"""A call that asks a live cluster is only parsed. A check that finds something is an answer, and stops no block."""

PROGRAMS = ("kubectl", "pip", "pipx", "uv", "python3", "python", "ssh-keyscan", "jq", "skopeo")

_WHEEL = f"kae_compiler-{compiler.__version__}-py3-none-any.whl"
_RELEASED = re.compile(r"kae_compiler-[0-9.]+-py3-none-any\.whl")


def with_blocks() -> list[Path]:
    """Return the pages with commands."""
    return [page for page in PAGES if any(not block.test for block in pages.commands(page))]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with kae and the stand-ins."""
    folder = tmp_path_factory.mktemp("programs")
    texts = dict.fromkeys(PROGRAMS, script("standin"))
    texts["kae"] = program.text(KAE)
    texts["make"] = (
        f'#!/bin/sh\n/usr/bin/make -n -C "$KAE_ROOT" "$@" >/dev/null && mkdir -p dist && touch dist/{_WHEEL}\n'
    )
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)
    return folder


def script(name: str) -> str:
    """Return a program of programs/ that starts at once, without site-packages."""
    return f"#!{sys.executable} -IS\n{(ROOT / f'tests/documentation/programs/{name}.py').read_text('utf-8')}"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the example fleet as a repository, and its origin; not to be changed."""
    home = tmp_path_factory.mktemp("home")
    for name in ("policies", "inventory", "output", "docs/examples"):
        shutil.copytree(ROOT / name, home / "work" / name)
    begin = """
    git init --quiet --initial-branch=main work && cd work && printf 'dist/\\n.kae_cache/\\n' >.gitignore
    git add --all && git commit --quiet --message Begin
    git clone --quiet --bare . ../origin.git
    git remote add origin ../origin.git && git fetch --quiet origin && git branch --quiet -u origin/main
    touch ~/WHEEL && printf 'driver:\\n  version: 2.2.0\\n' >values.yaml
    printf secret >password && mkdir -p ~/.config/fish/completions
    """
    begin = begin.replace("WHEEL", _WHEEL)
    subprocess.run(["bash", "-ec", begin], cwd=home, env=environment(home, home), check=True, timeout=60)
    return home


def environment(home: Path, programs: Path) -> dict[str, str]:
    """Return variables by which only this home and these programs are found."""
    names = ("AUTHOR", "COMMITTER")
    people = {f"GIT_{name}_{field}": "someone" for name in names for field in ("NAME", "EMAIL")}
    urls = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{home}/origin.git.insteadOf",
        "GIT_CONFIG_VALUE_0": "ssh://git@git.example.com/platform/fleet-inventory.git",
    }
    return {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(home),
        "KAE_ROOT": str(ROOT),
        "KAE_PROGRAMS": str(programs),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_PAGER": "cat",
        "GIT_EDITOR": "sed -i '1s/^$/Begin/'",
        **people,
        **urls,
    }


@pytest.mark.long
@pytest.mark.parametrize(
    "page",
    [
        page if page.stem in ("README", "recipes", "rollouts") else pytest.param(page, marks=pytest.mark.long)
        for page in with_blocks()
    ],
    ids=pages.name,
)
def test_the_commands_of_a_page_run_in_its_order(page: Path, tmp_path: Path, fleet: Path, programs: Path) -> None:
    home = shutil.copytree(fleet, tmp_path / "home")
    # The pages name the wheel of a release.
    run = [_RELEASED.sub(_WHEEL, block.text) for block in pages.commands(page) if not block.reason and not block.test]

    # zsh has compdef, and a block for it runs in bash.
    done = subprocess.run(
        ["bash", "-c", "\n".join(("set -euxo pipefail", "compdef() { :; }", *run))],
        cwd=home / "work",
        env=environment(home, programs),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-3000:]


def test_few_blocks_are_not_run_and_each_says_why() -> None:
    marked = [(pages.name(page), block) for page in PAGES for block in pages.commands(page) if block.reason]

    for name, block in marked:
        sys.stdout.write(f"{name}: {block.reason}: {block.text.strip().splitlines()[0]}\n")

    assert len(marked) <= 5
    assert sum(1 for page in PAGES for block in pages.commands(page)) > 10 * len(marked)


def test_a_block_that_another_test_runs_is_run_there() -> None:
    elsewhere = {(page, block.test) for page in PAGES for block in pages.commands(page) if block.test}

    for page, test in elsewhere:
        assert page.name in (ROOT / test).read_text("utf-8")
    assert {page.name for page, _ in elsewhere} == {"first-rollout.md", "foresight.md", "verify.md"}


def test_a_block_is_found_however_it_is_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "One:\n\n    kae plan\n\n    kae help\n\n```yaml\n    no: command\n```\n\n```sh\nkae -V\n```\n"
        "\n<!-- not run: why -->\n\n    mount\n",
        encoding="utf-8",
    )

    assert [(block.text.split(), block.reason) for block in pages.commands(page)] == [
        (["kae", "plan", "kae", "help"], ""),
        (["kae", "-V"], ""),
        (["mount"], "why"),
    ]


def test_a_command_that_the_real_program_would_refuse_fails(tmp_path: Path, programs: Path) -> None:
    for call in ("kubectl get pods --nope", "kubectl apply -f nowhere", "kubectl logs -n x kae-other-x7k2p", "jq"):
        done = subprocess.run(
            ["bash", "-c", call],
            cwd=tmp_path,
            env=environment(tmp_path, programs),
            capture_output=True,
            check=False,
            timeout=20,
        )

        assert done.returncode == 1, call
