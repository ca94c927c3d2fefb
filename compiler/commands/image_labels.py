"""The labels of an image: of an archive on disk, or of what a program prints that inspects images."""

import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compiler import errors, wording

_BYTES = 4 << 20
"""The most that a registry must take of a manifest: https://github.com/opencontainers/distribution-spec."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """An image's labels, with its names where they are known."""

    names: tuple[str, ...]
    labels: Mapping[str, str]


def of_archive(path: Path) -> Labelled:
    """Return the labels of an archive, as `podman save` and `docker save` write it.

    Formats: https://github.com/opencontainers/image-spec/blob/main/image-layout.md, and manifest.json of Docker's
    archives. Raises RefusedError where a file is none of these, or holds several images.
    """
    try:
        with tarfile.open(path) as archive:
            return _of_docker(archive) if "manifest.json" in archive.getnames() else _of_layout(archive)
    except (tarfile.TarError, EOFError, LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise errors.RefusedError(
            f"{wording.file_name(str(path))} is no archive of one image.",
            hint="Write it by `podman save --format oci-archive -o FILE IMAGE`.",
        ) from error


def of_inspection(text: bytes) -> Labelled:
    """Return the labels in the answer of `skopeo inspect`, `podman image inspect`, `docker image inspect` or their kin.

    The names are those in the answer; skopeo's has no tag.

    Raises RefusedError where it is none of these.
    """
    try:
        data = json.loads(text)
        (image,) = data if isinstance(data, list) else (data,)
        # In skopeo's answer RepoTags are bare tags.
        names = (image["Name"],) if image.get("Name") else (*_list(image, "RepoTags"), *_list(image, "RepoDigests"))
        return Labelled(names=tuple(map(str, names)), labels=_labels(image))
    except (TypeError, AttributeError, ValueError, RecursionError) as error:
        raise errors.RefusedError(
            "standard input is not what a program says of one image.", hint="Pipe the JSON of `skopeo inspect`."
        ) from error


def _list(image: Mapping[str, Any], key: str) -> Sequence[Any]:
    return image.get(key) or ()


def _of_docker(archive: tarfile.TarFile) -> Labelled:
    (image,) = _json(archive, "manifest.json")
    names = tuple(map(str, image.get("RepoTags") or ()))
    return Labelled(names=names, labels=_labels(_json(archive, image["Config"])))


def _of_layout(archive: tarfile.TarFile) -> Labelled:
    (entry,) = _json(archive, "index.json")["manifests"]
    said = entry.get("annotations") or {}
    # Where containerd or BuildKit write the first, the second is the tag alone.
    name = said.get("io.containerd.image.name") or said.get("org.opencontainers.image.ref.name")
    first, *others = [_labels(_blob(archive, manifest["config"])) for manifest in _manifests(archive, entry)]
    if any(labels != first for labels in others):
        raise ValueError("the images of several platforms hold different drivers")
    return Labelled(names=(str(name),) if name else (), labels=first)


def _manifests(archive: tarfile.TarFile, entry: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the manifest of an image, or of each platform of an index; BuildKit's attestations are for none."""
    manifest = _blob(archive, entry)
    if "config" in manifest:
        yield manifest
        return
    for part in manifest["manifests"]:
        if (part.get("platform") or {}).get("architecture") != "unknown":
            yield _blob(archive, part)


def _blob(archive: tarfile.TarFile, descriptor: Mapping[str, Any]) -> Any:
    return _json(archive, f"blobs/{descriptor['digest'].replace(':', '/')}")


def _json(archive: tarfile.TarFile, name: str) -> Any:
    file = archive.extractfile(name)
    if file is None:
        raise ValueError(f"{name} is no file")
    return json.loads(file.read(_BYTES))


def _labels(image: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the labels in an image's config, or in what a program says of an image."""
    inner = image.get("Config") or image.get("config") or {}
    labels = image.get("Labels") or inner.get("Labels") or {}
    return {str(key): str(value) for key, value in labels.items()}
