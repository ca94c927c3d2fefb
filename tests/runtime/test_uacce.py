"""A queue is got as a workload gets one, and only what a workload would notice counts as a refusal."""

import errno
import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from runtime import uacce


class Driver:
    """A driver that answers each ioctl with an errno, 0 by default."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **answers: int) -> None:
        self.asked: list[tuple[int, object]] = []
        self._answers = {0xC004480A: answers.get("context", 0), 0x5700: answers.get("start", 0)}
        monkeypatch.setattr(fcntl, "ioctl", self._ioctl)

    def _ioctl(self, _: int, request: int, argument: object) -> None:
        self.asked.append((request, argument))
        if number := self._answers[request]:
            raise OSError(number, os.strerror(number))


def test_a_queue_is_given_a_context_and_started(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(monkeypatch)

    assert uacce.outcome("/dev/null") == 0
    assert driver.asked == [(0xC004480A, bytes(4)), (0x5700, 0)]


@pytest.mark.parametrize(
    "answers",
    [{"context": errno.ENOTTY}, {"context": errno.EINVAL}, {"context": errno.ENOTTY, "start": errno.ENOTTY}],
    ids=["no-context", "invalid", "no-uacce"],
)
def test_what_lacks_the_ioctls_refuses_nothing(answers: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    Driver(monkeypatch, **answers)

    assert uacce.outcome("/dev/null") == 0


def test_a_device_without_a_free_queue_refuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: object) -> int:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    monkeypatch.setattr(os, "open", busy)

    assert uacce.outcome("/dev/null") == 0


@pytest.mark.parametrize(
    "answers", [{"context": errno.EIO}, *({"start": number} for number in (errno.EIO, errno.EINVAL, errno.EBUSY))]
)
def test_what_else_the_driver_answers_is_the_refusal(answers: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    Driver(monkeypatch, **answers)

    assert uacce.outcome("/dev/null") in answers.values()


def test_the_program_prints_a_line_for_each_node(tmp_path: Path) -> None:
    # /dev/full knows none of the ioctls.
    command = uacce.command(["/dev/full", str(tmp_path / "none")])

    said = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout

    assert said == f"0\n{errno.ENOENT}\n"
