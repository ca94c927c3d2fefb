"""Exceptions for I/O errors and refused requests, which only the command line catches."""

from typing import Any


class WorldError(Exception):
    """An I/O error of a disk, a process or a network: a message, and an action as hint."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class RefusedError(WorldError):
    """A request that its own input makes impossible; `kae` ends as for wrong documents."""


class WrongFileError(WorldError):
    """A project file with mistakes: without its settings, no document can be found."""

    def __init__(self, findings: tuple[Any, ...]) -> None:
        """Take the mistakes: values of `diagnostics.Diagnostic`, which the programs that share this module lack."""
        super().__init__("kae.yaml")
        self.findings = findings
