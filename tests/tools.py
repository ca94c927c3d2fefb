"""What tests need of this machine: without it a test is skipped with the way to have it, or fails where it has to run.

As a plugin of pytest this module ends a run with what was skipped for want of something.
"""

import collections
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

APT = "apt-get install"

_MISSING = re.compile(r"(?P<program>\S+) is missing: (?P<command>.+) (?P<package>\S+)")
_FOLDERS = (
    *("/usr/sbin", "/sbin", str(Path.home() / "go/bin")),
    # The kernel's own scripts, of Debian and of Ubuntu.
    *(str(path) for path in sorted(Path("/usr").glob("lib/linux-kbuild-*/scripts"))),
    *(str(path) for path in sorted(Path("/usr").glob("src/linux-headers-*/scripts"))),
)
"""Where programs are that the PATH of an ordinary user lacks."""


def require(program: str, package: str, command: str = APT) -> str:
    """Return the path of a program; skip the test without it, or fail it where KAE_REQUIRE_TOOLS is 1."""
    path = shutil.which(program, path=os.pathsep.join((os.environ["PATH"], *_FOLDERS)))
    if path is None:
        _end(f"{program} is missing: {command} {package}", is_needed=os.environ.get("KAE_REQUIRE_TOOLS") == "1")
    return path


def require_root(use: str) -> None:
    """Skip the test, which does something that only root may do, where another user runs it."""
    if os.geteuid() != 0:
        skip(f"Root is needed: {use}.")


def require_setting(name: str, meaning: str) -> str:
    """Return the value of a variable of the environment; skip the test without it."""
    return os.environ.get(name) or skip(f"{name} is not set: it names {meaning}.")


def require_cluster(obstacles: Iterable[str]) -> None:
    """Skip the test where something keeps it from running, or fail it in CI and where KAE_REQUIRE_CLUSTER is 1."""
    if reason := " ".join(obstacles):
        _end(reason, is_needed=bool(os.environ.get("CI")) or os.environ.get("KAE_REQUIRE_CLUSTER") == "1")


def packages(commands: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the sentence that names the Debian packages of missing commands; commands come with their packages."""
    missing = sorted({package for command, package in commands if shutil.which(command) is None})
    if missing:
        yield f"Debian packages are missing: {APT} --no-install-recommends {' '.join(missing)}"


def skip(reason: str) -> NoReturn:
    """Skip the test for a reason that no installation removes."""
    pytest.skip(reason)


def _end(reason: str, *, is_needed: bool) -> NoReturn:
    if is_needed:
        pytest.fail(reason, pytrace=False)
    skip(reason)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was skipped, and how to have it."""
    # The controller of pytest-xdist has the reports of all workers.
    reports = terminalreporter.stats.get("skipped", ())
    reasons = [str(report.longrepr[2]) for report in reports if isinstance(report.longrepr, tuple)]
    for line in summary(reason.removeprefix("Skipped: ") for reason in reasons):
        terminalreporter.write_line(line)


def summary(reasons: Iterable[str]) -> Iterator[str]:
    """Yield a line for all programs that a command installs, and one for each other reason to skip tests."""
    commands = collections.defaultdict(list)
    others = collections.Counter[str]()
    for reason in reasons:
        if missing := _MISSING.fullmatch(reason):
            commands[missing["command"]].append(missing)
        else:
            others[reason] += 1
    for command, lacking in sorted(commands.items()):
        programs = ", ".join(sorted({missing["program"] for missing in lacking}))
        wanted = " ".join(sorted({missing["package"] for missing in lacking}))
        yield f"{len(lacking)} skipped without {programs}: {command} {wanted}"
    for reason, count in sorted(others.items()):
        yield f"{count} skipped: {reason}"
