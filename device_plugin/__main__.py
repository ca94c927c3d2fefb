"""`python -m device_plugin`."""

import sys

from device_plugin import cli

if __name__ == "__main__":
    sys.exit(cli.main())
