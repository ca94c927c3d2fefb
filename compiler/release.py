"""The program images that belong to this compiler: defaults of the documents name them.

`ci/release.sh` fills the table, after it has built the images and before it builds the wheel. Between releases it is
empty: the images are then whatever somebody built from the same sources.
"""

from collections.abc import Mapping
from types import MappingProxyType

REGISTRY = ""
"""Registry and path before the images' names."""

SITE = ""
"""The address of the site of docs/, with a slash at its end."""

OPERATOR_REPOSITORY = "cr.openfuyao.cn/openfuyao"
"""Where the KAE Operator publishes its images, which have the names of this project's."""

DIGESTS: Mapping[str, str] = MappingProxyType(
    {
        "kae-device-plugin": "",
        "kae-driver-installer": "",
        "kae-watcher": "",
    }
)
"""The digest of each image, for all its platforms."""


REPOSITORY = REGISTRY or OPERATOR_REPOSITORY
"""Where images are taken from by default."""


def page(code: str) -> str:
    """Return the address of a finding's page; empty between releases."""
    return f"{SITE}findings/#{code}" if SITE else ""


def version(name: str) -> str:
    """Return the digest of an image; `latest` between releases."""
    return DIGESTS[name] or "latest"


def reference(name: str, registry: str) -> str:
    """Return the image of this release; between releases the newest of a registry."""
    return f"{REGISTRY}/{name}@{DIGESTS[name]}" if REGISTRY else f"{registry}/{name}:latest"
