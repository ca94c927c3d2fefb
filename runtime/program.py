"""The first and the last words of a program, and the options of its command line."""

import argparse
import contextlib
import logging
import os
from collections.abc import Iterable
from pathlib import Path

from runtime import errors, logs, shapes

LOG = logging.getLogger(__name__)

TERMINATION = Path("/dev/termination-log")
"""Kubernetes' default terminationMessagePath, a file that the kubelet mounts into the container."""

# Of a longer file the kubelet keeps the last bytes (MaxContainerTerminationMessageLength in Kubernetes'
# pkg/kubelet/container/runtime.go), but people need the first ones.
_LIMIT_BYTES = 4096


def version() -> str | None:
    """Return the version of the program's image, which a Dockerfile writes from git's tag; None outside of one."""
    return os.environ.get("KAE_VERSION") or None


def words(name: str) -> str:
    """Return the name of a program, which is that of its image, its version, and that of the configs that it reads."""
    return f"{name} {version() or 'of no release'} (config version {shapes.VERSION})"


def begin(logged: str, name: str) -> None:
    """Start the log, under a program's shorter name, and write its first line."""
    logs.start(logged)
    LOG.info("%s begins.", words(name))


def fail(failure: errors.Failure | Exception) -> None:
    """Log why the program ends, and leave it as the termination message."""
    LOG.critical("%s", failure)
    terminate(str(failure))


def terminate(message: str, path: Path = TERMINATION) -> None:
    """Leave a termination message, which `kubectl describe pod` shows: one line of at most 4096 bytes."""
    line = " ".join(message.split()).encode(errors="replace")
    whole = line[:_LIMIT_BYTES].decode(errors="ignore")  # The cut may split a character.
    # The log has the message too, and an exception would hide it.
    with contextlib.suppress(OSError):
        # O_CREAT is not set: outside of a container nobody reads the file.
        descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(whole)


def parser(package: str, name: str, description: str | None) -> argparse.ArgumentParser:
    """Return a parser for `python -m package`, with the option --version."""
    made = argparse.ArgumentParser(prog=f"python -m {package}", description=description, allow_abbrev=False)
    made.add_argument("--version", action="version", version=words(name))
    return made


def add_paths(
    parser: argparse.ArgumentParser, options: Iterable[tuple[str, Path | None, str, str]], *, defaults: bool = True
) -> None:
    """Add options for files and folders: name, default, metavar and meaning."""
    # The same options may precede or follow a command; those that follow it must not restore the defaults.
    for name, default, metavar, meaning in options:
        parser.add_argument(
            name,
            type=Path,
            metavar=metavar,
            default=default if defaults else argparse.SUPPRESS,
            help=meaning if default is None else f"{meaning} (default: {default})",
        )
