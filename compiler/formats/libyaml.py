"""The loader of libyaml. PyYAML's own parser takes other documents, and gives other positions and other errors."""

from typing import Any

import yaml

from compiler import errors


def loader() -> Any:
    """Return the loader. Raises WorldError where PyYAML is built without libyaml."""
    if not yaml.__with_libyaml__:
        raise errors.WorldError(
            "documents cannot be read: PyYAML is installed without libyaml.",
            hint="Install a wheel of it: pip install --force-reinstall --only-binary pyyaml pyyaml.",
        )
    return yaml.CSafeLoader
