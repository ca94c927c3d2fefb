"""The probe in a copy of the programs, and a plugin of pytest: which test reaches which place, and in what time.

It is copied into a workspace's environment, as a probe is called in any process that a test starts, whatever its
variables and its folder are. So it imports nothing of the repository.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDER = Path(__file__).with_name("kae_reached")
"""Where the records are; a folder beside the copy of this module."""

_seen: set[tuple[int, str]] = set()
_of_process: dict[int, str] = {}
_reports = True


def hit(place: int) -> None:
    """Record that the test that runs now has come to a place."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0] or _of_an_ancestor()
    if (place, test) not in _seen:
        _seen.add((place, test))
        _record("hits", [place, test])


def _record(name: str, record: list[object]) -> None:
    try:
        with (FOLDER / name).open("a") as file:
            file.write(json.dumps(record) + "\n")
    except OSError:
        pass  # The test of a full disk, or of one that is not there.


def _of_an_ancestor() -> str:
    """Return the test that the nearest ancestor runs: a child may have lost the variable."""
    process = own = os.getpid()
    while own not in _of_process:
        try:
            _of_process[own] = (FOLDER / f"runs-{process}").read_text()
        except OSError:
            try:
                process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                _of_process[own] = ""
    return _of_process[own]


def pytest_configure(config: pytest.Config) -> None:
    """Have hypothesis report what it finds as it is: a mutant needs no smallest example."""
    from hypothesis import Phase, settings  # noqa: PLC0415 - a probe alone needs no hypothesis

    global _reports  # noqa: PLW0603 - the hooks of a plugin share the module alone
    _reports = not hasattr(config, "workerinput")  # With xdist, each report comes to the controller, too.
    for mark in ("long", "seeded"):
        config.addinivalue_line("markers", f"{mark}: a checkout of before has no such tests")
    settings.register_profile("mutants", settings(), phases=(Phase.explicit, Phase.generate))
    settings.load_profile("mutants")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Say which test this process runs."""
    (FOLDER / f"runs-{os.getpid()}").write_text(item.nodeid)
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record how long a test took, and how it ended."""
    if _reports and (report.when == "call" or not report.passed):
        _record("tests", [report.nodeid, report.duration, report.outcome])
