"""`make cluster-tools`: makes the programs and files of the cluster that are missing, or of another version.

Needs Go and its module proxy. The first build takes minutes, as it compiles Kubernetes; what is there is skipped.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tests.cluster.local import programs


def main() -> int:
    """Make what is missing and return 1 where the machine still lacks something."""
    for wanted in (*programs.SETS, *programs.ENGINES):
        for name in wanted.lacking():
            make(wanted, name)
    missing = [*programs.missing_tools(), *programs.lacking(programs.ENGINES)]
    for sentence in missing:
        sys.stderr.write(f"{sentence}\n")
    return 1 if missing else 0


def make(wanted: programs.ProgramSet, name: str) -> None:
    """Make one program or file aside and move it in.

    Raises:
        subprocess.CalledProcessError: Go has said why on standard error.
    """
    started_s = time.monotonic()
    target = programs.folder() / name
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{name}.new")
    programs.stamp_file(name).unlink(missing_ok=True)
    if name in wanted.packages:
        _go(wanted, "build", "-ldflags", wanted.linker_flags(), "-o", str(fresh), wanted.packages[name])
    else:
        downloaded = json.loads(_go(wanted, "mod", "download", "-json", f"{wanted.module}@{wanted.version()}"))
        shutil.copyfile(Path(downloaded["Dir"]) / wanted.files[name], fresh)
    fresh.replace(target)
    programs.stamp_file(name).write_text(wanted.stamp())
    title = " ".join(filter(None, (name, wanted.version())))
    sys.stdout.write(f"{title}: made in {time.monotonic() - started_s:.0f} s\n")
    sys.stdout.flush()


def _go(wanted: programs.ProgramSet, *arguments: str) -> str:
    """Return what a Go command prints in the folder of the set's go.mod."""
    folder = programs.SOURCES / wanted.name
    done = subprocess.run(
        ("go", *arguments), cwd=folder, env=_environment(), check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


def _environment() -> Mapping[str, str]:
    asked = ["go", "env", "GOPROXY"]
    proxies = subprocess.run(asked, check=True, stdout=subprocess.PIPE, text=True, timeout=60).stdout.strip()
    # Without "direct", as go would otherwise ask the module's own host for whatever the proxy does not list.
    proxy = ",".join(name for name in proxies.split(",") if name != "direct") or proxies
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false", "GOPROXY": proxy}


if __name__ == "__main__":
    sys.exit(main())
