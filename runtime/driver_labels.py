"""What the labels of a node say of its driver: the folder by which NFD learns it, the states and the values.

The installer leaves a file for its recipe in the folder, NFD's worker reads it as features of its source `local`, and a
NodeFeatureRule makes two labels of them. The compiler compares these labels with the plan.
"""

import hashlib
import re

FOLDER = "/run/kae-features.d"
"""The host's folder of these files: in memory, so that a boot empties it, and mounted into no device plugin."""

STATES = ("Ready", "Foreign", "Pending", "Blocked", "Failed")
"""The states of the label: those of the installer, but one for each sort of waiting and of failure, as every change of
a label ends in a commit. Pending: the change waits or is in progress."""

UNKNOWN = "unknown"
"""The version of modules that name none."""

_LONGEST = 63
_DIGITS = 8


def version_feature(recipe: str) -> str:
    """Return the name of the feature with the version of the loaded driver."""
    return f"{recipe}.driver-version"


def state_feature(recipe: str) -> str:
    """Return the name of the feature with the state of the driver."""
    return f"{recipe}.driver-state"


def value(version: str) -> str:
    """Return a version as the value of a label; it may be empty.

    Characters that no label has become `_`, as NFD does with kernels. Of more than 63 characters the first 54 stay,
    with a dot and eight digits of the SHA-256 of the whole, so that long versions and digests still differ.
    """
    cleaned = re.sub("[^A-Za-z0-9._-]", "_", version).strip("-_.")
    if len(cleaned) <= _LONGEST:
        return cleaned
    digest = hashlib.sha256(version.encode()).hexdigest()[:_DIGITS]
    return f"{cleaned[: _LONGEST - 1 - _DIGITS]}.{digest}"
