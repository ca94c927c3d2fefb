"""Turn the files of Secrets into git's settings, for access to a repository and for signing commits.

The keys are those of Flux's Secrets. The files are read for each use, so a changed Secret needs no restart. No secret
is on a command line; copies are private, and go with the folder of the clone.
"""

import base64
import os
import shlex
from dataclasses import replace
from pathlib import Path
from urllib import parse

import msgspec

from runtime import errors
from watcher.git import git

_SSH_OPTIONS = (
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "GlobalKnownHostsFile=/dev/null",
    "UpdateHostKeys=no",
    "IdentitiesOnly=yes",
    "IdentityAgent=none",
    "PreferredAuthentications=publickey",
    "ClearAllForwardings=yes",
    "ControlPath=none",
    "ConnectTimeout=30",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=4",
)


class Secrets(msgspec.Struct, frozen=True, kw_only=True):
    """The folders of the mounted Secrets; an unneeded one may be missing."""

    repository: Path
    signing: Path | None
    """Without it commits are not signed."""


def access(secrets: Secrets, url: str, private: Path) -> git.Access:
    """Return the access to a repository, by keys in this private folder; raise `Failure` if a file is wrong."""
    folder = secrets.repository
    try:
        split = parse.urlsplit(url)
    except ValueError as error:
        raise errors.Failure(f"The repository's URL is not one: {error}.") from error
    if split.password:
        raise errors.Failure("The repository's URL holds a password: it belongs into the Secret.")
    if split.scheme in ("http", "https"):
        own = _http(folder, split)
    elif split.scheme == "file":
        # git refuses a repository of another user, because its hooks would run as this one. The config names this one.
        _write(private / "gitconfig", b"[safe]\n\tdirectory = *\n")
        own = git.Access(environment={"GIT_CONFIG_GLOBAL": str(private / "gitconfig")})
    else:
        own = _ssh(folder, private)
    if secrets.signing is None:
        return own
    key = _identity(secrets.signing, private / "signing")
    return replace(own, settings={**own.settings, "gpg.format": "ssh", "user.signingKey": str(key)})


def _ssh(folder: Path, private: Path) -> git.Access:
    known_hosts = _required(folder, "known_hosts", "the server could be anybody")
    key = _identity(folder, private / "identity")
    hosts = private / "known_hosts"
    _write(hosts, known_hosts + b"\n")
    words = ["ssh", "-F", "/dev/null", "-i", str(key)]
    # In quotes, because ssh accepts several files here.
    for option in (*_SSH_OPTIONS, f'UserKnownHostsFile="{hosts}"'):
        words += ["-o", option]
    return git.Access(environment={"GIT_SSH_COMMAND": shlex.join(words)})


def _identity(folder: Path, copy: Path) -> Path:
    """Copy a private key: ssh demands that only its user can read it, and that it ends with a line break."""
    content = _required(folder, "identity", "it is the private key")
    _write(copy, content.replace(b"\r\n", b"\n") + b"\n")
    return copy


def _http(folder: Path, url: parse.SplitResult) -> git.Access:
    user, password, token = (_line(folder, name) for name in ("username", "password", "bearerToken"))
    if (password or token) and url.scheme == "http":
        raise errors.Failure(
            f"The Secret's {'password' if password else 'bearerToken'} is not sent over http: use https."
        )
    if token and (user or password):
        raise errors.Failure(f"'{folder}' holds both a bearerToken and a username or password: one must go.")
    user = user or parse.unquote(url.username or "")
    if password and not user:
        raise errors.Failure(f"'{folder}' holds a password but no username.")
    basic = base64.b64encode(f"{user}:{password}".encode()).decode()
    settings = {}
    if password or token:
        # Sent from the first request on, to this repository alone (http.<url>.* of git-config(1)). git's own way, a
        # program that it asks for the password, costs a refused request each time, and knows no bearer tokens before
        # git 2.46.
        header = f"Authorization: Basic {basic}" if password else f"Authorization: Bearer {token}"
        settings[f"http.{git.shown_url(url.geturl())}.extraHeader"] = header
    certificate, key = folder / "tls.crt", folder / "tls.key"
    if certificate.exists() != key.exists():
        raise errors.Failure(f"'{folder}' holds only one of tls.crt and tls.key.")
    if certificate.exists():
        settings |= {"http.sslCert": str(certificate), "http.sslKey": str(key)}
    for name in ("caFile", "ca.crt"):
        if (folder / name).exists():
            settings["http.sslCAInfo"] = str(folder / name)
    return git.Access(settings=settings, hidden=(password, token, basic if password else ""))


def _required(folder: Path, name: str, why: str) -> bytes:
    content = _read(folder / name)
    if not content:
        raise errors.Failure(f"The Secret has no '{name}' (looked for in '{folder}'), and {why}.")
    return content


def _line(folder: Path, name: str) -> str:
    text = (_read(folder / name) or b"").decode(errors="replace")
    if not text.isprintable() or "\ufffd" in text:
        raise errors.Failure(f"'{folder / name}' holds more than one line of text.")
    return text


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes().strip(b"\r\n")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise errors.Failure(f"'{path}' cannot be read: {error.strerror}.") from error


def _write(path: Path, content: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:  # noqa: PTH123 - by number
        file.write(content)
