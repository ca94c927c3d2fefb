"""The smoke test opens the devices of its container and starts a queue of each, and says what it is refused."""

import errno
import fcntl
import os
import threading
from pathlib import Path

import pytest

from runtime import smoke, uacce


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A container with one device of its own, and the entry of another one's."""
    for name in ("hisi_hpre-30976", "hisi_hpre-47360"):
        (tmp_path / "sys/class/uacce" / name).mkdir(parents=True)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/hisi_hpre-30976").symlink_to("/dev/null")
    return tmp_path


def tried(folder: Path, seconds: float = 60) -> int:
    return smoke.main(folder / "sys", folder / "dev", seconds)


def answer(monkeypatch: pytest.MonkeyPatch, start: int) -> None:
    """Have the driver answer UACCE_CMD_START_Q so."""

    def ioctl(_: int, request: int, __: object) -> None:
        if request == 0x5700 and start:
            raise OSError(start, os.strerror(start))

    monkeypatch.setattr(fcntl, "ioctl", ioctl)


def test_a_queue_of_the_own_device_is_started(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(monkeypatch, 0)
    monkeypatch.setenv("NODE_NAME", "kp920-01")

    assert tried(folder) == 0
    assert capsys.readouterr().out == (
        f"node kp920-01: {folder}/dev/hisi_hpre-30976 was opened, and a queue was started.\n"
    )


@pytest.mark.parametrize(
    "said",
    [
        (errno.EIO, 1, "was opened, and refuses to start a queue: Input/output error (EIO)."),
        (errno.EINVAL, 1, "refuses to start a queue: Invalid argument (EINVAL)."),
        (errno.ENOTTY, 0, "no queue was started, as its driver has no ioctl for that."),
    ],
)
def test_a_queue_that_was_not_started_is_never_called_started(
    said: tuple[int, int, str], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    number, code, words = said
    answer(monkeypatch, number)

    assert tried(folder) == code
    assert words in capsys.readouterr().out


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EBUSY, "Device or resource busy (EBUSY); all its queues are in use."),
        (errno.EACCES, "Permission denied (EACCES); give the pod a group or a user that may open it."),
    ],
)
def test_a_device_that_cannot_be_opened_fails_and_says_what_to_do(
    number: int, words: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", refuse)

    assert tried(folder) == 1
    assert f"cannot be opened: {words}" in capsys.readouterr().out


def test_a_container_without_a_device_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tried(tmp_path) == 1
    assert "this container got no device" in capsys.readouterr().out


def test_a_driver_that_never_answers_fails_in_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answered = threading.Event()
    monkeypatch.setattr(fcntl, "ioctl", lambda *_: answered.wait())

    assert tried(folder, 0.05) == 1
    answered.set()
    assert "does not answer within 0.05 seconds" in capsys.readouterr().out


def test_one_device_of_two_that_gives_no_queue_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "dev/hisi_hpre-47360").symlink_to("/dev/null")
    failing = str(folder / "dev/hisi_hpre-47360")
    monkeypatch.setattr(
        uacce, "steps", lambda node: [("open", 0), ("context", 0), ("start", errno.EIO if node == failing else 0)]
    )

    assert tried(folder) == 1
