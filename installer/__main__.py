"""`python -m installer`: the installer, or in the reporter's container the reporter."""

import os
import sys

if __name__ == "__main__":
    from installer.report import reporter

    if os.environ.get(reporter.FOLDER):
        sys.exit(reporter.main())
    from installer import cli

    sys.exit(cli.main())
