"""The version of a program: that of its image, which a Dockerfile writes from git's tag."""

import logging
import os
from typing import Any

from runtime import shapes

LOG = logging.getLogger(__name__)

_VARIABLE = "KAE_VERSION"


def words(program: str, config: type[Any]) -> str:
    """Return the program's name, its version, and the version of the configs that it reads."""
    return f"{program} {os.environ.get(_VARIABLE) or 'of no release'} (config version {shapes.known_version(config)})"


def log(program: str, config: type[Any]) -> None:
    """Write the first line of a program's log."""
    LOG.info("%s begins.", words(program, config))
