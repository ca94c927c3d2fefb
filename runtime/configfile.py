"""Read the config that the compiler rendered for a program."""

from pathlib import Path
from typing import TypeVar

import msgspec

from runtime import errors

T = TypeVar("T", bound=msgspec.Struct)

_ORIGIN = "in a pod it is the annotation device.openfuyao.com/config, projected to /etc/kae/config.json"


def load(path: Path, shape: type[T]) -> T:
    """Return the config in a JSON file, which must have exactly this shape.

    Raises `errors.ConfigError`, which names the file, the position and the expected value.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise errors.ConfigError(f"The config '{path}' cannot be read ({error.strerror}); {_ORIGIN}.") from error
    if not content.strip():
        # The kubelet writes an empty file for an annotation that the pod does not have.
        raise errors.ConfigError(f"The config '{path}' is empty; {_ORIGIN}.")
    try:
        return msgspec.json.decode(content, type=shape, strict=True)
    except msgspec.ValidationError as error:
        expected, _, place = str(error).partition(" - at ")
        where = place.strip("`") or "$"
        raise errors.ConfigError(f"The config '{path}' does not fit this program at {where}: {expected}.") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise errors.ConfigError(f"The config '{path}' is no JSON: {error}.") from error
