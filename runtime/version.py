"""The version of a program: that of its image, which a Dockerfile writes from git's tag."""

import logging
import os
from typing import Any

from runtime import shapes

LOG = logging.getLogger(__name__)

_VARIABLE = "KAE_VERSION"


def of_program() -> str | None:
    """Return the version; None outside of an image."""
    return os.environ.get(_VARIABLE) or None


def words(config: type[Any]) -> str:
    """Return the name of the program of these configs, its version, and that of the configs."""
    return f"{config.PROGRAM} {of_program() or 'of no release'} (config version {shapes.known_version(config)})"


def log(config: type[Any]) -> None:
    """Write the first line of a program's log."""
    LOG.info("%s begins.", words(config))
