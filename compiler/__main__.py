"""The entry point of `python -m compiler` and of the console script `kae`."""

import atexit
import gc
import io
import os
import sys
from pathlib import Path
from typing import NoReturn

# A compile makes hardly any garbage in cycles and ends soon; looking for it took a tenth of the time.
gc.disable()

from compiler import cli  # noqa: E402 - the imports are part of what this is for


def main() -> NoReturn:
    """Run the command line, and end the process without freeing its memory first, as mypy does."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # None where it is closed
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115 - open to the end of the process
    sys.stderr = sys.stderr or sys.stdout
    code = cli.main()
    if "kubernetes" in sys.modules:
        # It copies the keys in a kubeconfig to files, which it removes at exit (_create_temp_file_with_content of its
        # config/kube_config.py).
        atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
