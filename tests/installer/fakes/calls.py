"""Calls of the fake programs, each answered as by a process: with an exit code and an output.

fake/calls lists the calls. fake/failures.json lets calls fail: a list of objects with `command` (the first words of
the call), `text` and `code`, `times` (null: always), and `seconds` to wait before.
"""

# Importing pathlib takes as long as a whole call:
# ruff: noqa: PTH123

import fcntl
import time

from tests.installer.fakes import disk, kernel, programs

TYPE_CHECKING = False  # As typing's, which is slow to import.
if TYPE_CHECKING:
    from typing import Any


def answer(root: str, words: list[str]) -> tuple[int, str, str]:
    """The exit code of a program of the host below a folder, what stands on stdout, and what stands on stderr.

    Raises `kernel.Hangs` for a program that does not come back.
    """
    host = disk.Disk(root)
    with open(host.at("fake/lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with open(host.at("fake/calls"), "a", encoding="utf-8") as calls:
            calls.write(" ".join(words) + "\n")
        failure = _failure(host, words)
        if not failure:
            return _done(root, words)
    time.sleep(failure.get("seconds", 0))
    return failure["code"], "", failure["text"]


def takes_time(root: str, words: list[str]) -> bool:
    """Return whether this call is planned to wait before it fails."""
    return bool(_planned(disk.Disk(root).value("fake/failures.json", []), words).get("seconds"))


def _done(root: str, words: list[str]) -> tuple[int, str, str]:
    try:
        return 0, programs.Programs(root).run(words[0], words[1:]), ""
    except programs.Failed as failed:
        return failed.code, failed.said, failed.text
    except kernel.Oops:
        return -9, "", ""


def _failure(host: disk.Disk, words: list[str]) -> "dict[str, Any]":
    """The first failure that is meant for a call; one that has been given often enough is struck from the list."""
    failures = host.value("fake/failures.json", [])
    failure = _planned(failures, words)
    if failure.get("times") is not None:
        import json  # noqa: PLC0415 - slow to import, and seldom needed

        failure["times"] -= 1
        host.write("fake/failures.json", json.dumps([each for each in failures if each.get("times") != 0]))
    return failure


def _planned(failures: "list[dict[str, Any]]", words: list[str]) -> "dict[str, Any]":
    for failure in failures:
        wanted = failure["command"].split()
        if words[: len(wanted)] == wanted:
            return failure
    return {}
