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


def write_index(path: Path, name: str, *given: Mapping[str, str]) -> None:
    """Write the archive of an image of several platforms, each with its labels, as `docker buildx build --output` does.

    Each has an attestation beside it: https://docs.docker.com/build/metadata/attestations/attestation-storage/.
    """
    files: dict[str, Any] = {}
    entries = []
    for number, texts in enumerate(given):
        config, config_entry = _blob({"architecture": f"arm{number}", "config": {"Labels": texts}})
        manifest, entry = _blob({"schemaVersion": 2, "config": config_entry, "layers": []})
        empty, empty_entry = _blob({"architecture": "unknown", "config": {}})
        attestation, attestation_entry = _blob({"schemaVersion": 2, "config": empty_entry, "layers": [{"of": number}]})
        files |= dict([config, manifest, empty, attestation])
        entries.append(entry | {"platform": {"architecture": f"arm{number}", "os": "linux"}})
        entries.append(attestation_entry | {"platform": {"architecture": "unknown", "os": "unknown"}})
    index, index_entry = _blob({"schemaVersion": 2, "manifests": entries})
    index_entry["annotations"] = {
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": name.rpartition(":")[2],
    }
    _write(path, files | dict([index]) | {"index.json": {"schemaVersion": 2, "manifests": [index_entry]}})


def write_docker(path: Path, names: list[str] | None, given: Mapping[str, str]) -> None:
    """Write Docker's archive; an image without a name has no list of them."""
    config = {"architecture": "arm64", "config": {"Labels": given}}
    tags = {} if names is None else {"RepoTags": names}
    _write(path, {"0.json": config, "manifest.json": [{"Config": "0.json", "Layers": []} | tags]})


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
