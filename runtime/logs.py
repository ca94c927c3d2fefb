"""The log: one JSON object a line on stderr, also for warnings and uncaught exceptions."""

import logging
import os
import sys
import threading
from typing import Any

from pythonjsonlogger import core, json

from runtime import clocks

LEVEL_VARIABLE = "KAE_LOG_LEVEL"

_LEVELS = ("debug", "info", "warning", "error", "critical")
_OWN = ("time", "level", "logger", "program", "node")


class _Lines(json.JsonFormatter):
    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]) -> None:
        log_data["time"] = clocks.utc(record.created, "milliseconds")
        log_data["level"] = record.levelname.lower()
        super().add_fields(log_data, record, message_dict)


def start(program: str) -> None:
    """Write every log record to stderr as a line of JSON, also warnings and uncaught exceptions.

    Fields: `time` (RFC 3339, UTC, milliseconds), `level`, `logger`, `message`, `program`, `node` (from NODE_NAME,
    where that is set), `exception` (a traceback), and the fields of `extra` under other names.
    """
    fields = {"program": program}
    if node := os.environ.get("NODE_NAME"):
        fields["node"] = node
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        _Lines(
            ("name", "message"),
            rename_fields={"name": "logger", "exc_info": "exception", "stack_info": "stack"},
            static_fields=fields,
            reserved_attrs=(*core.RESERVED_ATTRS, *_OWN),  # A field of `extra` replaces none of these.
        )
    )
    wanted = os.environ.get(LEVEL_VARIABLE, "info").lower()
    known = wanted in _LEVELS
    logging.basicConfig(handlers=[handler], level=(wanted if known else "info").upper(), force=True)
    logging.captureWarnings(True)
    sys.excepthook = lambda kind, error, trace: _uncaught("The program", (kind, error, trace))
    threading.excepthook = lambda caught: _uncaught("A thread", caught.exc_value)
    if not known:
        # A wrong level must not keep the program from starting.
        logging.getLogger(__name__).warning("%s is none of %s.", LEVEL_VARIABLE, ", ".join(_LEVELS))


def _uncaught(who: str, error: Any) -> None:
    logging.getLogger(__name__).critical("%s ends by an unexpected error.", who, exc_info=error)
