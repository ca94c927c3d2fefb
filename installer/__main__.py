"""`python -m installer`."""

import sys

from installer import cli

if __name__ == "__main__":
    sys.exit(cli.main())
