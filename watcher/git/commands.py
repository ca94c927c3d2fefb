"""Run git, ssh-keygen and gpg in an environment of their own."""

import os
from collections.abc import Mapping, Sequence

from runtime import process

_UMASK = 0o022
"""Others may read a repository at file://; private files lie in private folders."""

_KEPT = (
    "PATH",
    *(name for word in ("http_proxy", "https_proxy", "no_proxy", "all_proxy") for name in (word, word.upper())),
)
"""The variables of this process that a command inherits."""


def run(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    limits: process.Limits,
    stdin: bytes = b"",
    shown: str = "",
) -> process.Ended:
    """Run a command to its end; `shown` names it in messages, by default its first word.

    Raises what `process.run` raises. Once `stop` is set no command is started.
    """
    shown = shown or arguments[0]
    if limits.stop is not None and limits.stop.is_set():
        raise process.Cancelled(f"'{shown}' was not started, because the program is ending.")
    inherited = {name: os.environ[name] for name in _KEPT if name in os.environ}
    command = process.Command(
        arguments=arguments,
        environment={"PATH": process.PATH, **inherited, "LC_ALL": "C", "TZ": "UTC", **environment},
        shown=shown,
        stdin=stdin,
        umask=_UMASK,
    )
    return process.run(command, limits)
