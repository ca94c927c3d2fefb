"""Prints what is in the image that runs this, as CycloneDX 1.6: Python's packages and those of Debian or openEuler.

`python sbom.py NAME VERSION`. The text holds no time and no number of its own, so that the same image gives the same.
"""

import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from email import parser
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib import parse

_DPKG = Path("/var/lib/dpkg/status")
_RPM = "%{NAME} %{VERSION}-%{RELEASE} %{ARCH}\n"


def _component(kind: str, name: str, version: str, **qualifiers: str) -> dict[str, Any]:
    """Return a package, named as https://github.com/package-url/purl-spec says."""
    more = "?" + "&".join(f"{key}={parse.quote(value)}" for key, value in qualifiers.items()) if qualifiers else ""
    purl = f"pkg:{kind}/{parse.quote(name)}@{parse.quote(version, safe='')}{more}"
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def _python() -> Iterator[dict[str, Any]]:
    for package in metadata.distributions():
        yield _component("pypi", package.name.lower().replace("_", "-"), package.version)


def _debian(vendor: str) -> Iterator[dict[str, Any]]:
    for text in _DPKG.read_text(encoding="utf-8").strip().split("\n\n"):
        fields = parser.HeaderParser().parsestr(text)
        if fields["Status"] == "install ok installed":
            yield _component(f"deb/{vendor}", fields["Package"], fields["Version"], arch=fields["Architecture"])


def _rpms(vendor: str) -> Iterator[dict[str, Any]]:
    done = subprocess.run(("rpm", "-qa", "--qf", _RPM), stdout=subprocess.PIPE, text=True, check=True)
    for line in done.stdout.splitlines():
        name, version, arch = line.split()
        yield _component(f"rpm/{vendor}", name, version, arch=arch)


def main(name: str, version: str) -> None:
    """Print the list. Raises SystemExit where nobody knows the packages of the base."""
    vendor = platform.freedesktop_os_release()["ID"].lower()
    if _DPKG.exists():
        system = list(_debian(vendor))
    elif shutil.which("rpm"):
        system = list(_rpms(vendor))
    else:
        raise SystemExit("The base has neither dpkg nor rpm, so its packages are not known.")
    found = {component["purl"]: component for component in (*_python(), *system)}
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "container",
                "name": name,
                "version": version,
                "properties": [{"name": "architecture", "value": platform.machine()}],
            }
        },
        "components": [found[purl] for purl in sorted(found)],
    }
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
