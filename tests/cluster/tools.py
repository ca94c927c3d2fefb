"""`make cluster-tools`: builds the programs of the cluster that are missing, or of another version than go.mod says.

Needs Go and its module proxy. The first build takes minutes, as it compiles Kubernetes; what is there is skipped.
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping

from tests.cluster import programs


def main() -> int:
    """Builds what is missing and returns 1 where the machine still lacks something."""
    for wanted in programs.SETS:
        for name in wanted.lacking():
            build(wanted, name)
    missing = list(programs.missing_tools())
    for sentence in missing:
        sys.stderr.write(f"{sentence}\n")
    return 1 if missing else 0


def build(wanted: programs.ProgramSet, name: str) -> None:
    """Builds one program aside and moves it in.

    Raises:
        subprocess.CalledProcessError: Go has said why on standard error.
    """
    started_s = time.monotonic()
    target = programs.folder() / name
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{name}.new")
    programs.stamp_file(name).unlink(missing_ok=True)
    command = ["go", "build", "-ldflags", wanted.linker_flags(), "-o", str(fresh), wanted.packages[name]]
    subprocess.run(command, cwd=programs.SOURCES / wanted.name, env=_environment(), check=True)
    fresh.replace(target)
    programs.stamp_file(name).write_text(wanted.stamp())
    title = " ".join(filter(None, (name, wanted.version())))
    sys.stdout.write(f"{title}: built in {time.monotonic() - started_s:.0f} s\n")
    sys.stdout.flush()


def _environment() -> Mapping[str, str]:
    asked = ["go", "env", "GOPROXY"]
    proxies = subprocess.run(asked, check=True, stdout=subprocess.PIPE, text=True, timeout=60).stdout.strip()
    # Without "direct", as go would otherwise ask the module's own host for whatever the proxy does not list.
    proxy = ",".join(name for name in proxies.split(",") if name != "direct") or proxies
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false", "GOPROXY": proxy}


if __name__ == "__main__":
    sys.exit(main())
