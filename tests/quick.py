"""`make quick`: style, types, and the tests of what changed since the main line, within a minute.

What changed is known from git: the commits that the branch's upstream lacks (or BASE), and what is not committed. Of a
changed module run the tests that mirror its path, then those that import it; of a changed test module, that.
"""

import ast
import functools
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 60
"""No further test begins after it."""

_PROGRAMS = ("compiler", "device_plugin", "installer", "runtime", "watcher")
_APART = ("browser", "cluster", "host", "images", "vm")
"""Folders of tests that want root, a browser or built programs."""


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
    for command in commands:
        done = subprocess.run((str(Path(sys.executable).with_name(command[0])), *command[1:]), cwd=ROOT, check=False)
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
        folder, name = path.parts[0], path.name
        if folder in _PROGRAMS and path.suffix == ".py":
            yield from _there(Path("tests", path.parent, f"test_{name}"))
            if folder != "compiler":
                yield from _there(Path("tests", folder, f"test_{name}"))
        elif folder == "tests" and path.parts[1] not in _APART and name.startswith("test_") and path.suffix == ".py":
            yield from _there(path)
        elif folder in ("policies", "templates", "schemas"):
            yield from ("tests/golden", "tests/templates")
        elif folder in ("docs", ".github", ".ci", "ci") or path.suffix == ".md":
            yield "tests/documentation"
    modules = {".".join(Path(file).with_suffix("").parts) for file in files if file.endswith(".py")}
    yield from (path for path, imported in importers().items() if imported & modules)


def _there(path: Path) -> Iterator[str]:
    if (ROOT / path).exists():
        yield str(path)


@functools.cache
def importers() -> dict[str, frozenset[str]]:
    """Return the modules that each test module imports, and those that its folder's conftest imports, by its path."""
    return {
        str(path.relative_to(ROOT)): frozenset(_imported(path))
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if path.relative_to(ROOT).parts[1] not in _APART
    }


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def _say(words: str) -> None:
    sys.stdout.write(f"{words}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
