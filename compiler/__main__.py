"""`python -m compiler`, and what the console script `kae` calls."""

import gc
import os
import sys
from typing import NoReturn

# A compile makes hardly any garbage in cycles and ends soon; looking for it took a tenth of the time.
gc.disable()

from compiler import cli  # noqa: E402 - the imports are part of what this is for


def main() -> NoReturn:
    """Runs the command line, and ends the process without taking its memory apart first, as mypy does."""
    code = cli.main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
