"""Fills the table of a release: `python3 ci/release_table.py REGISTRY SITE IMAGE=sha256:… …`.

SITE is the address of the site of docs/, or empty; an image and its digest come once for each image.
"""

import re
import sys
from pathlib import Path

TABLE = Path("compiler/release.py")


def _replaced(text: str, pattern: str, value: str) -> str:
    found, times = re.subn(pattern, lambda match: f'{match[1]}"{value}"', text, flags=re.MULTILINE)
    if times != 1:
        raise SystemExit(f"{TABLE} has {times} lines like {pattern}.")
    return found


def main(registry: str, site: str, *digests: str) -> None:
    """Write the table. Raises SystemExit for an image that it does not have, or one that is left empty."""
    text = _replaced(TABLE.read_text(encoding="utf-8"), "^(REGISTRY = ).*$", registry)
    text = _replaced(text, "^(SITE = ).*$", site)
    for entry in digests:
        name, _, digest = entry.partition("=")
        if not re.fullmatch("sha256:[0-9a-f]{64}", digest):
            raise SystemExit(f"'{entry}' is not an image and its digest.")
        text = _replaced(text, rf'^( +"{re.escape(name)}": )"[^"]*"(?=,$)', digest)
    if '": ""' in text:
        raise SystemExit("An image has no digest.")
    TABLE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
