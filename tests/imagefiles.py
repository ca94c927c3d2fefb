"""Archives of images without their layers, as `podman save` and `docker save` arrange them."""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DRIVER = "device.openfuyao.com/driver-"
"""The prefix of the labels that say what driver is in an image."""


def labels(**driver: str) -> dict[str, str]:
    """Return an image's labels, with those of a driver."""
    return {"org.opencontainers.image.licenses": "Apache-2.0"} | {DRIVER + key: text for key, text in driver.items()}


def write_oci(path: Path, name: str | None, given: Mapping[str, str], *, images: int = 1) -> None:
    """Write an OCI archive: https://github.com/opencontainers/image-spec/blob/main/image-layout.md."""
    config, config_entry = _blob({"architecture": "arm64", "config": {"Labels": given}})
    manifest, entry = _blob({"schemaVersion": 2, "config": config_entry, "layers": []})
    if name is not None:
        entry["annotations"] = {"org.opencontainers.image.ref.name": name}
    _write(path, dict([config, manifest]) | {"index.json": {"schemaVersion": 2, "manifests": [entry] * images}})


def write_docker(path: Path, names: list[str], given: Mapping[str, str]) -> None:
    """Write Docker's archive."""
    config = {"architecture": "arm64", "config": {"Labels": given}}
    _write(path, {"0.json": config, "manifest.json": [{"Config": "0.json", "RepoTags": names, "Layers": []}]})


def _blob(data: Any) -> tuple[tuple[str, Any], dict[str, Any]]:
    digest = hashlib.sha256(json.dumps(data).encode()).hexdigest()
    return (f"blobs/sha256/{digest}", data), {"digest": f"sha256:{digest}"}


def _write(path: Path, files: Mapping[str, Any]) -> None:
    with tarfile.open(path, "w") as archive:
        for name, data in files.items():
            content = json.dumps(data).encode()
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
