"""The version of a program: that of its image, which a Dockerfile writes from git's tag."""

import logging
import os

from runtime import shapes

LOG = logging.getLogger(__name__)

_VARIABLE = "KAE_VERSION"


def of_program() -> str | None:
    """Return the version; None outside of an image."""
    return os.environ.get(_VARIABLE) or None


def words(program: str) -> str:
    """Return the name of a program, which is that of its image, its version, and that of the configs that it reads."""
    return f"{program} {of_program() or 'of no release'} (config version {shapes.VERSION})"


def log(program: str) -> None:
    """Write the first line of a program's log."""
    LOG.info("%s begins.", words(program))
