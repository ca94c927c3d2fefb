"""`python -m watcher`."""

import sys

from watcher import cli

if __name__ == "__main__":
    sys.exit(cli.main())
