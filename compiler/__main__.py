"""`python -m compiler`, and what the console script `kae` calls."""

import gc
import sys

# A compile makes hardly any garbage in cycles and ends soon; looking for it took a tenth of the time.
gc.disable()

from compiler import cli  # noqa: E402 - the imports are part of what this is for


def main() -> int:
    """Runs the command line of this process."""
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
