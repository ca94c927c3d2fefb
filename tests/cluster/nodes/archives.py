"""Archives of images as others write them, named example.com/other:1.0.0: of one layer, a root file system."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

from tests.cluster.nodes import images

_NAME = "example.com/other:1.0.0"


def docker(folder: Path, root: Path) -> Path:
    """Write an archive as `docker save` and `podman save` do; return its path."""
    layer = _packed(root)
    manifest = [{"Config": "config.json", "RepoTags": [_NAME], "Layers": ["layer.tar"]}]
    files = {"config.json": _configuration(layer), "layer.tar": layer, "manifest.json": json.dumps(manifest).encode()}
    return _write(folder / "docker.tar", files)


def oci(folder: Path, root: Path) -> Path:
    """Return the image layout of the OCI image specification 1.0, as a tar; written into the folder."""
    files: dict[str, bytes] = {}

    def blob(content: bytes, kind: str) -> dict[str, object]:
        digest = hashlib.sha256(content).hexdigest()
        files[f"blobs/sha256/{digest}"] = content
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    layer = _packed(root)
    parts = {"config": blob(_configuration(layer), "config.v1+json"), "layers": [blob(layer, "layer.v1.tar")]}
    manifest = blob(json.dumps({"schemaVersion": 2, **parts}).encode(), "manifest.v1+json")
    named = {**manifest, "annotations": {"org.opencontainers.image.ref.name": _NAME}}
    files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [named]}).encode()
    files["oci-layout"] = json.dumps({"imageLayoutVersion": "1.0.0"}).encode()
    return _write(folder / "oci.tar", files)


def _configuration(layer: bytes) -> bytes:
    filled = {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]}
    return json.dumps({"architecture": images.architecture(), "os": "linux", "config": {}, "rootfs": filled}).encode()


def _packed(root: Path) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(root, arcname=".")
    return packed.getvalue()


def _write(target: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(target, "w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return target
