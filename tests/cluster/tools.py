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

_LIBRARIES = "libc6-dev libseccomp-dev pkg-config"


def main() -> int:
    for wanted in (*programs.SETS, *programs.ENGINES, *programs.RUNTIMES, *programs.RELEASE):
        if wanted.tags and not _can_build_c():
            sys.stderr.write(f"Without {wanted.name}: apt-get install --no-install-recommends gcc {_LIBRARIES}\n")
            continue
        for name in wanted.lacking():
            make(wanted, name)
    missing = [*programs.missing_tools(), *programs.lacking((*programs.ENGINES, *programs.RELEASE))]
    for sentence in missing:
        sys.stderr.write(f"{sentence}\n")
    return 1 if missing else 0


def make(wanted: programs.ProgramSet, name: str) -> None:
    started_s = time.monotonic()
    target = programs.folder() / name
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.new")
    programs.stamp_file(name).unlink(missing_ok=True)
    if name in wanted.packages:
        flags = ("-tags", wanted.tags, "-ldflags", wanted.linker_flags())
        _go(wanted, "build", *flags, "-o", str(fresh), wanted.packages[name])
    else:
        downloaded = json.loads(_go(wanted, "mod", "download", "-json", f"{wanted.module}@{wanted.version()}"))
        shutil.copyfile(Path(downloaded["Dir"]) / wanted.files[name], fresh)
    fresh.replace(target)
    programs.stamp_file(name).write_text(wanted.stamp())
    title = " ".join(filter(None, (name, wanted.version())))
    sys.stdout.write(f"{title}: made in {time.monotonic() - started_s:.0f} s\n")
    sys.stdout.flush()


def _can_build_c() -> bool:
    asked = ("pkg-config", "--exists", "libseccomp")
    return None not in map(shutil.which, ("gcc", asked[0])) and subprocess.run(asked, check=False).returncode == 0


def _go(wanted: programs.ProgramSet, *arguments: str) -> str:
    folder = programs.SOURCES / wanted.name
    done = subprocess.run(
        ("go", *arguments), cwd=folder, env=_environment(wanted), check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


def _environment(wanted: programs.ProgramSet) -> Mapping[str, str]:
    asked = ["go", "env", "GOPROXY"]
    proxies = subprocess.run(asked, check=True, stdout=subprocess.PIPE, text=True, timeout=60).stdout.strip()
    # Without "direct", as go would otherwise ask the module's own host for whatever the proxy does not list.
    proxy = ",".join(name for name in proxies.split(",") if name != "direct") or proxies
    return {
        **os.environ,
        "CGO_ENABLED": "1" if wanted.tags else "0",
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "GOPROXY": proxy,
    }


if __name__ == "__main__":
    sys.exit(main())
