"""`kae init`: a new GitOps repository that compiles at once."""

import argparse
import hashlib
import os
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from compiler import __version__, cli, errors, names, release, wording
from compiler.checks import images
from compiler.inventory import canonical_form, snapshot
from compiler.project import atomic, links, package_data

_REQUIREMENTS = "ci/requirements.txt"
_INSTALL = "ci/install.sh"
"""The pinned wheel of the CI jobs with what it needs, and the script that installs them."""
_LIVE = "ci/requirements-live.txt"
"""The requirements of `kae rehearse` beside the wheel, in the versions that fit: the extra `live`."""

WHEEL = f"kae_compiler-{__version__}-py3-none-any.whl"
"""The requirements beside the wheel are those of this release, so it is the only one that fits."""

_DOWNLOAD_S = 30

_REGISTRY = "registry.example.com/team"
"""Stands for the registry that a person has not named; no image can be pulled from it."""

_PLUGIN = """\
  devicePlugin:
    repository: "@REGISTRY@"
    version: @VERSION@
"""
_RELEASED_PLUGIN = """\
  # The device plugin is that of the release of kae that compiles, by its digest, as long as none is named here.
  devicePlugin: {}
"""

_BLOCK = re.compile(r"^ *#@shards\n(.*?)(?:^ *#@without\n(.*?))?^ *#@end\n", re.DOTALL | re.MULTILINE)
"""Lines of a template that a repository with shards has, and behind `#` those that others have in their place."""


class Wheel(NamedTuple):
    """A wheel that jobs install, or none."""

    requirement: str = ""
    """The line of a requirements file."""
    copies: Mapping[str, bytes] = {}
    """The copy in the repository, by its path, where one is needed."""


_NONE = Wheel()


def run(arguments: argparse.Namespace) -> int:
    folder = Path(arguments.path)
    try:
        pinned = _wheel(arguments.wheel, folder) if arguments.wheel else _NONE
        if arguments.wheel:
            _require_inside(folder, (_REQUIREMENTS, _LIVE, *pinned.copies))
        is_made = all((folder / name).exists() for name in (_REQUIREMENTS, _INSTALL))
        if arguments.wheel and is_made and not arguments.shards:
            return _renew(arguments, folder, pinned)
        wanted = texts(arguments.cluster, _registry(arguments.registry), pinned, arguments.shards)
        made = sorted([*wanted, *pinned.copies])
        _require_absent(folder, made)
        _require_inside(folder, wanted)
        for name, text in sorted(wanted.items()):
            _write(folder / name, text)
        _copy(folder, pinned)
    except OSError as error:
        raise errors.WorldError(
            f"'{wording.file_name(str(error.filename or folder))}' cannot be made: {error.strerror or error}."
        ) from error
    if not arguments.quiet:
        sys.stdout.write(_said(folder, arguments, made))
    return cli.FINE


def _registry(registry: str | None) -> str | None:
    """Return the registry of a policy's images. Raises WorldError where no image reference can begin with it."""
    if registry is not None and not images.is_repository(registry.rstrip("/")):
        raise errors.WorldError(
            f"'{wording.escaped(registry)}' is not a registry.",
            hint="Write host and path in lower case and without a scheme, such as registry.example.com/team.",
        )
    return None if registry is None else registry.rstrip("/")


def _renew(arguments: argparse.Namespace, folder: Path, pinned: Wheel) -> int:
    """Pin the wheel of this release in a repository that exists, and leave everything else in it."""
    made = {_REQUIREMENTS: _requirements(pinned)}
    if (folder / _LIVE).exists():  # A repository of an older release has no job that needs it.
        made[_LIVE] = _template(_LIVE)
    for name, text in made.items():
        atomic.write(folder / name, text)
    _copy(folder, pinned)
    if not arguments.quiet:
        written = wording.listed([*made, *pinned.copies])
        sys.stdout.write(f"Written in {wording.file_name(str(folder.resolve()))}: {written}.\n")
    return cli.FINE


def _requirements(pinned: Wheel) -> str:
    """Return the requirements of the CI jobs: a wheel of kae, and what it needs."""
    return pinned.requirement + _template(_REQUIREMENTS)


def _template(name: str) -> str:
    return (package_data.folder("templates") / "init" / name).read_text(encoding="utf-8")


def _copy(folder: Path, pinned: Wheel) -> None:
    for name, content in pinned.copies.items():
        (folder / name).write_bytes(content)


def texts(
    cluster: str, registry: str | None = None, pinned: Wheel = _NONE, shards: int | None = None
) -> Mapping[str, str]:
    """Return every file of a new repository by its path; with shards, its jobs share out the clusters."""
    # A tag of an image has no '+', which versions between releases have: `make images` writes it so, too.
    values = {"@CLUSTER@": cluster, "@VERSION@": __version__.replace("+", "-"), "@REGISTRY@": registry or _REGISTRY}
    if release.REGISTRY and registry is None:
        values = {_PLUGIN: _RELEASED_PLUGIN} | values
    if shards:
        each = ", ".join(f'"{index}/{shards}"' for index in range(shards))
        values |= {"@COUNT@": str(shards), '"@SHARDS@"': each}
    top = package_data.folder("templates") / "init"
    found = {}
    for path in sorted(top.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:  # pip compiles the jobs' scripts.
            text = _BLOCK.sub(lambda block: _lines(block, shards), path.read_text(encoding="utf-8"))
            for mark, value in values.items():
                text = text.replace(mark, value)
            found[path.relative_to(top).as_posix()] = text
    found[_REQUIREMENTS] = _requirements(pinned)
    for stem in names.EDITED_SCHEMAS:
        schema = package_data.folder("schemas") / f"{stem}.json"
        found[f"schemas/{stem}.json"] = schema.read_text(encoding="utf-8")
    empty = snapshot.Inventory(cluster=snapshot.ClusterName(cluster), file="", nodes=())
    found[f"{names.INVENTORY}/{cluster}.json"] = canonical_form.text(empty)
    return found


def _lines(block: re.Match[str], shards: int | None) -> str:
    """Return the lines of a block for a repository with shards, or for one without."""
    return block[1] if shards else re.sub("^#", "", block[2] or "", flags=re.MULTILINE)


def _require_absent(folder: Path, wanted: Iterable[str]) -> None:
    """Raise WorldError where a file exists that would be overwritten; other files may exist."""
    present = [str(folder / name) for name in wanted if os.path.lexists(folder / name)]
    if present:
        files = wording.listed([f"'{wording.file_name(name)}'" for name in present], most=1)
        hint = "Name a new folder, or move these files away."
        raise errors.WorldError(f"{files} would be overwritten; nothing was written.", hint=hint)


def _require_inside(folder: Path, wanted: Iterable[str]) -> None:
    """Raise WorldError where a link in the folder leads a file out of it."""
    for name in wanted:
        links.require_inside(name, folder, hint="Remove the link, or name a new folder.")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8", newline="\n") as file:
        file.write(text)
        if path.suffix == ".sh":
            os.fchmod(file.fileno(), 0o755)


def _said(folder: Path, arguments: argparse.Namespace, made: Iterable[str]) -> str:
    lines = [f"Made in {wording.file_name(str(folder.resolve()))}:", *(f"  {name}" for name in made), "", "Next:"]
    if folder.resolve() != Path().resolve():
        lines.append(f"  cd {wording.file_name(str(folder))}")
    if not (folder / ".git").exists():
        lines.append("  git init --initial-branch=main")
    inventory_file = f"{names.INVENTORY}/{arguments.cluster}.json"
    lines += [
        f"  kubectl get nodes -o json | kae inventory --cluster {arguments.cluster} --output-file {inventory_file}",
        "  kae compile",
        "  git add --all && git commit",
        "",
    ]
    if arguments.registry is None:
        of_person = "version of your image with a driver" if release.REGISTRY else "versions of your images"
        lines.append(f"Set the registry and the {of_person} in policies/policy.yaml.")
        lines.append("That file is for KAE: delete it where you have recipes alone.")
    if arguments.wheel is None:
        lines.append(
            "The CI jobs fail until `kae init --wheel URL|PATH` has pinned the wheel of kae that they install."
        )
    return "\n".join(lines).rstrip() + "\n"


def _wheel(place: str, folder: Path) -> Wheel:
    """Return the wheel at a URL or a path, for a repository in `folder`. Raises WorldError."""
    if "://" in place:
        return _at_url(place)
    path = Path(place)
    _require_name(path.name, place)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise errors.WorldError(
            f"'{wording.file_name(place)}' cannot be read: {error.strerror or error}.",
            hint="Build it with `make wheel`, or name the URL of a published one.",
        ) from error
    whole, digest = path.resolve(), hashlib.sha256(content).hexdigest()
    if whole.is_relative_to(folder.resolve()):
        return Wheel(_requirement(f"./{whole.relative_to(folder.resolve()).as_posix()}", digest))
    return Wheel(_requirement(f"./ci/{WHEEL}", digest), {f"ci/{WHEEL}": content})


def _at_url(place: str) -> Wheel:
    """Return the wheel at a URL, which is downloaded once unless the URL ends with its digest."""
    url, _, fragment = place.partition("#")
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("https", "http") or "@" in parts.netloc or re.search(r"\s", url):
        raise errors.WorldError(
            f"'{wording.escaped(place)}' is not the URL of a wheel.",
            hint="Write https://HOST/PATH without a password, as the URL is committed.",
        )
    _require_name(urllib.parse.unquote(parts.path.rpartition("/")[2]), place)
    if fragment and not re.fullmatch("sha256=[0-9a-f]{64}", fragment):
        hint = "Write #sha256= and 64 hexadecimal digits."
        raise errors.WorldError(f"'#{wording.escaped(fragment)}' is not a digest.", hint=hint)
    digest = fragment.removeprefix("sha256=") or hashlib.sha256(_downloaded(url)).hexdigest()
    return Wheel(_requirement(f"kae-compiler @ {url}", digest))


def _downloaded(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=_DOWNLOAD_S) as answer:  # noqa: S310 - the scheme is judged before
            content: bytes = answer.read()
            return content
    except (urllib.error.URLError, OSError) as error:
        raise errors.WorldError(
            f"'{wording.escaped(url)}' cannot be downloaded: {getattr(error, 'reason', error)}.",
            hint=f"Name the URL with its digest, {wording.escaped(url)}#sha256=HEX, or the path of the wheel.",
        ) from error


def _require_name(name: str, place: str) -> None:
    if name != WHEEL:
        message = f"'{wording.escaped(place)}' is not the wheel of kae {__version__}."
        raise errors.WorldError(message, hint=f"Its name is {WHEEL}.")


def _requirement(source: str, digest: str) -> str:
    return f"{source} --hash=sha256:{digest}\n"
