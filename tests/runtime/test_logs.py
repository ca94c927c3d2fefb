"""Whatever happens, the log is one JSON object a line."""

import json
import logging
import re
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from runtime import logs


@pytest.fixture(autouse=True)
def _own_logging(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("NODE_NAME", raising=False)
    monkeypatch.delenv(logs.LEVEL_VARIABLE, raising=False)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    root = logging.getLogger()
    level = root.level
    yield
    logging.captureWarnings(False)
    root.handlers.clear()
    root.setLevel(level)


def fail() -> None:
    """Ends by an exception."""
    raise KeyError("zip")


@pytest.fixture
def capture(capsys: pytest.CaptureFixture[str]) -> Any:
    """A function that returns the log so far, a dictionary for each line."""
    return lambda: [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_a_record_is_a_line_of_json_with_the_programs_fields(monkeypatch: pytest.MonkeyPatch, capture: Any) -> None:
    monkeypatch.setenv("NODE_NAME", "kp920-01")
    logs.start("device-plugin")

    logging.getLogger("device_plugin.kubelet.advertised").info("%d devices\nin all.", 2, extra={"kind": "hpre"})

    (line,) = capture()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
    assert line == {
        "level": "info",
        "logger": "device_plugin.kubelet.advertised",
        "message": "2 devices\nin all.",
        "program": "device-plugin",
        "node": "kp920-01",
        "kind": "hpre",
    }


def test_without_a_node_name_there_is_no_node(capture: Any) -> None:
    logs.start("watcher")

    logging.warning("Slow.")

    assert set(capture()[0]) == {"time", "level", "logger", "message", "program"}


def test_a_field_of_extra_does_not_replace_one_of_the_log_itself(capture: Any) -> None:
    logs.start("watcher")

    logging.warning("Slow.", extra={"level": "high", "program": "other", "time": 1})

    (line,) = capture()
    assert (line["level"], line["program"]) == ("warning", "watcher")
    assert line["time"] != 1


def test_a_traceback_is_one_field(capture: Any) -> None:
    logs.start("watcher")

    try:
        raise ValueError("no such label")
    except ValueError:
        logging.getLogger().exception("It failed.")

    (line,) = capture()
    assert line["message"] == "It failed."
    assert line["exception"].startswith("Traceback")
    assert line["exception"].endswith("ValueError: no such label")


@pytest.mark.parametrize(
    ("level", "written"),
    [(None, ["info", "warning"]), ("debug", ["debug", "info", "warning"]), ("WARNING", ["warning"]), ("error", [])],
)
def test_the_environment_says_from_which_level_on(
    monkeypatch: pytest.MonkeyPatch, capture: Any, level: str | None, written: list[str]
) -> None:
    if level is not None:
        monkeypatch.setenv(logs.LEVEL_VARIABLE, level)
    logs.start("watcher")

    for method in (logging.debug, logging.info, logging.warning):
        method("A record.")

    assert [line["level"] for line in capture()] == written


def test_an_unknown_level_is_warned_of_and_means_info(monkeypatch: pytest.MonkeyPatch, capture: Any) -> None:
    monkeypatch.setenv(logs.LEVEL_VARIABLE, "loud")

    logs.start("watcher")
    logging.info("A record.")

    warned, logged = capture()
    assert warned["message"] == "KAE_LOG_LEVEL is none of debug, info, warning, error, critical."
    assert logged["message"] == "A record."


def test_an_exception_that_nobody_catches_is_one_line(capture: Any) -> None:
    logs.start("watcher")

    sys.excepthook(KeyError, KeyError("zip"), None)

    (line,) = capture()
    assert (line["level"], line["exception"]) == ("critical", "KeyError: 'zip'")


def test_an_exception_that_ends_a_thread_is_one_line(capture: Any) -> None:
    logs.start("watcher")

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()

    (line,) = capture()
    assert line["level"] == "critical"
    assert line["exception"].endswith("KeyError: 'zip'")


def test_a_warning_of_the_interpreter_is_a_line(capture: Any) -> None:
    logs.start("watcher")

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.warn("Out of fashion.", DeprecationWarning, stacklevel=1)

    (line,) = capture()
    assert (line["logger"], line["level"]) == ("py.warnings", "warning")
    assert "Out of fashion." in line["message"]


def test_a_second_start_does_not_write_twice(capture: Any) -> None:
    logs.start("watcher")
    logs.start("watcher")

    logging.info("A record.")

    assert len(capture()) == 1
