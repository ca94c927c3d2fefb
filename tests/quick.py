"""`make quick`: style, types, and the tests of what changed since the main line, within a minute.

What changed is known from git: the commits that the branch's upstream lacks (or BASE), and what is not committed. Of a
changed module run the tests that mirror its path, then the nearest ones that import it; of a changed test module, that.
"""

import functools
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import grimp
import pytest

from tests.mutants.places import PROGRAMS

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 60
"""No further test begins after it."""

APART = ("browser", "cluster", "host", "images", "vm")
"""Folders of tests that want root, a browser or built programs."""

_OF_FOLDERS = dict.fromkeys(
    ("policies", "inventory", "output", "templates", "schemas"),
    ("tests/golden", "tests/determinism", "tests/templates"),
) | {"benchmarks": ("tests/benchmarks",)}
"""The tests of folders beside the programs and the tests; those of what is not here are the documentation's."""


class Deadline:
    """A plugin of pytest after whose moment no test begins."""

    def __init__(self, ends_s: float) -> None:
        """Take the moment, on the clock of time.monotonic()."""
        self._ends_s = ends_s
        self.left = 0
        """How many tests did not begin."""
        self.failed = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.left = len(session.items)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Stop after this test where the time is over."""
        self.left -= 1
        handled = yield
        if time.monotonic() > self._ends_s:
            item.session.shouldstop = f"{SECONDS} seconds are over"
        return handled

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Keep whether a test failed, which the exit code of a stopped run does not say."""
        self.failed = session.testsfailed


def main(arguments: Sequence[str]) -> int:
    """Return 0 where everything that ran has passed."""
    ends_s = time.monotonic() + SECONDS
    commands = (("ruff", "check", "--quiet"), ("ruff", "format", "--check", "--quiet"), ("mypy", "--no-error-summary"))
    for program, *options in commands:
        command = (str(Path(sys.executable).with_name(program)), *options)
        try:
            done = subprocess.run(command, cwd=ROOT, check=False, timeout=ends_s - time.monotonic())
        except subprocess.TimeoutExpired:
            _say(
                f"'{program}' had not ended after {SECONDS} seconds, and no test ran: 'make lint types test' runs all."
            )
            return 0
        if done.returncode:
            return done.returncode
    tests = list(dict.fromkeys(tests_of(changed(arguments[0] if arguments else base()))))
    if not tests:
        _say("No test is of what changed; 'make test' runs all.")
        return 0
    deadline = Deadline(ends_s)
    code = pytest.main(["-q", "-m", "not long", *tests], plugins=[deadline])
    if code != pytest.ExitCode.INTERRUPTED or deadline.failed or not deadline.left or time.monotonic() < ends_s:
        return int(code)
    _say(f"{deadline.left} more tests of what changed had no time: 'make test' runs all.")
    return 0


def base() -> str:
    """Return the commit that the upstream has, too; the last commit where there is no upstream."""
    for upstream in ("@{upstream}", "origin/HEAD", "origin/main"):
        done = subprocess.run(("git", "merge-base", "HEAD", upstream), cwd=ROOT, capture_output=True, check=False)
        if done.returncode == 0:
            return done.stdout.decode().strip()
    return "HEAD"


def changed(commit: str) -> Iterator[str]:
    """Yield the paths of files that differ from a commit, and those that git does not know yet."""
    for command in (("diff", "--name-only", "--no-renames", "-z", commit), ("ls-files", "-zo", "--exclude-standard")):
        done = subprocess.run(("git", *command), cwd=ROOT, check=True, capture_output=True, text=True)
        yield from filter(None, done.stdout.split("\0"))


def tests_of(paths: Iterable[str]) -> Iterator[str]:
    """Yield the test modules and folders of changed files, those that mirror them first; some come more than once."""
    files = list(paths)
    for path in map(Path, files):
        folder = path.parts[0]
        if folder in PROGRAMS:
            yield from _mirrors(path)
        elif folder == "tests":
            yield from _of_tests(path)
        else:
            yield from _OF_FOLDERS.get(folder, ("tests/documentation",))
    for file in files:
        if file.endswith(".py"):
            yield from nearest(_module(file))


def _mirrors(path: Path) -> Iterator[str]:
    """Yield the test module that mirrors a program's module."""
    program, name = path.parts[0], f"test_{path.name}"
    yield from _there(Path("tests", path.parent, name))
    if program != "compiler":
        yield from _there(Path("tests", program, name))
    elif path.parent.name == "commands":
        yield from _there(Path("tests/cli", name))


def _of_tests(path: Path) -> Iterator[str]:
    """Yield the tests of a file of tests/ that is no helper."""
    if path.parts[1] in APART:
        return
    if path.suffix == ".ambr":
        yield from _there(path.parents[1] / f"{path.stem}.py")
    elif path.suffix != ".py" and len(path.parts) > 2:
        yield f"tests/{path.parts[1]}"
    elif path.name.startswith("test_"):
        yield from _there(path)


def _there(path: Path) -> Iterator[str]:
    if (ROOT / path).exists():
        yield str(path)


def _module(file: str) -> str:
    return ".".join(Path(file).with_suffix("").parts).removesuffix(".__init__")


def nearest(module: str) -> Iterable[str]:
    """Return the test modules that import a module, or else those that import what imports it, and so on."""
    graph, seen, level = imports(), {module}, {module}
    while level:
        nearer = level & graph.modules
        level = {importer for one in nearer for importer in graph.find_modules_that_directly_import(one)} - seen
        if tests := [one for one in sorted(level) if one.rpartition(".")[2].startswith("test_")]:
            return [f"{one.replace('.', '/')}.py" for one in tests]
        seen |= level
    return ()


@functools.cache
def imports() -> grimp.ImportGraph:
    """Return which module imports which, of the programs and their tests, with what pytest and kae import by name."""
    graph = grimp.build_graph(*PROGRAMS, "tests", cache_dir=None)
    for one in graph.modules:
        folder, _, name = one.rpartition(".")
        if one.startswith(tuple(f"tests.{apart}." for apart in APART)):
            graph.remove_module(one)
        elif name.startswith("test_"):
            while folder:
                if f"{folder}.conftest" in graph.modules:
                    graph.add_import(importer=one, imported=f"{folder}.conftest")
                folder = folder.rpartition(".")[0]
    for path in (ROOT / "tests/cli").glob("test_*.py"):
        text = path.read_text("utf-8")
        for command in (ROOT / "compiler/commands").glob("*.py"):
            words = command.stem.strip("_").split("_")
            if f'"{words[0]}"' in text or f'"{"-".join(words)}"' in text:
                graph.add_import(importer=f"tests.cli.{path.stem}", imported=f"compiler.commands.{command.stem}")
    return graph


def _say(words: str) -> None:
    sys.stdout.write(f"{words}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
