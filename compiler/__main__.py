"""`python -m compiler`, the same as `kae`."""

import sys

from compiler import cli

if __name__ == "__main__":
    sys.exit(cli.main())
