"""The liveness probe: `python -m runtime.probe alive [--program-dir DIR] [--seconds N]`.

Exit 0 when the program's last beat is younger than N seconds, 1 with a sentence when it is older, 2 for a wrong call.
The kubelet starts an interpreter for it each minute, so it imports nothing that the interpreter has not loaded.
"""

import os
import sys
import time

_USAGE = "usage: python -m runtime.probe alive [--program-dir DIR] [--seconds N]"
_DEFAULTS = {"--program-dir": "/run/program", "--seconds": "45"}


def main(arguments: list[str]) -> int:
    """Return the exit code; print the reason, which the kubelet puts into the pod's events."""
    pairs = dict(zip(arguments[1::2], arguments[2::2], strict=False))
    options = _DEFAULTS | pairs
    well_formed = len(arguments) == 1 + 2 * len(pairs) and len(options) == len(_DEFAULTS)
    if arguments[:1] != ["alive"] or not well_formed or not options["--seconds"].isdecimal():
        return _say(_USAGE, 2)
    return _alive(os.path.join(options["--program-dir"], "alive"), int(options["--seconds"]))  # noqa: PTH118 - see below


def _alive(path: str, seconds: int) -> int:
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib adds a third to the start
            beat = float(file.read())
    except OSError as error:
        return _say(f"The last beat in '{path}' cannot be read: {error.strerror}.", 1)
    except ValueError:
        return _say(f"The last beat in '{path}' is no number.", 1)
    age = time.monotonic() - beat
    if 0 <= age < seconds:
        return 0
    # A beat in the future is from an earlier boot: the clock starts anew at boot.
    return _say(f"The last beat is {age:.0f} seconds old, {seconds} are allowed.", 1)


def _say(sentence: str, code: int) -> int:
    sys.stdout.write(f"{sentence}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
