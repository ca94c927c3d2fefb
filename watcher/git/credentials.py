"""Turn the files of a Secret into git's settings, for access to a repository and for signing commits.

The keys are those of Flux's Secrets. The files are read for each use, so a changed Secret needs no restart. No secret
is on a command line; copies are private and are removed after their use.
"""

import base64
import contextlib
import os
import pwd
import shlex
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib import parse

from runtime import errors, process
from watcher.git import clones, commands, git, git_errors

_WAIT_S = 30
"""The timeout of ssh-keygen and gpg, which only read and write small files."""

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

# trust-model: the key is the watcher's own, so no signature on it is needed.
_GPG_OPTIONS = "batch\nno-tty\nno-greeting\npinentry-mode loopback\ntrust-model always\n"
# Without s2k-count the agent first measures how often it can hash in a tenth of a second, to store a temporary key.
_GPG_AGENT_OPTIONS = "s2k-count 65536\ndisable-scdaemon\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """The folders of the mounted Secrets; an unneeded one may be missing."""

    repository: Path
    signing: Path
    format: Literal["ssh", "gpg"] | None
    """Without it commits are not signed."""


class Keys:
    """The content of the Secrets, as git needs it."""

    def __init__(self, secrets: Secrets, scratch: Path, stop: threading.Event) -> None:
        """Read nothing yet; `scratch` is the folder of private copies."""
        self._secrets = secrets
        self._scratch = scratch
        self._limits = process.Limits(timeout_s=_WAIT_S, stop=stop)

    @contextlib.contextmanager
    def repository(self, url: str) -> Iterator[git.Access]:
        """Yield the access to the repository, which ends with the context.

        Raises:
            git_errors.Unusable: A file is missing or wrong.
        """
        folder = self._secrets.repository
        split = parse.urlsplit(url)
        if split.password:
            raise git_errors.Unusable("The repository's URL holds a password: it belongs into the Secret.")
        with self._private() as private:
            if split.scheme in ("http", "https"):
                yield _http(folder, split)
            elif split.scheme == "ssh" or "://" not in url:
                yield self._ssh(folder, private)
            elif split.scheme == "file":
                yield _file(private)
            else:
                yield git.Access()

    @contextlib.contextmanager
    def signing(self) -> Iterator[git.Access | None]:
        """Yield the access to the signing key, which ends with the context; None when commits are not signed.

        Raises:
            git_errors.Unusable: The key is missing or wrong.
        """
        folder = self._secrets.signing
        if self._secrets.format is None:
            yield None
            return
        with self._private() as private:
            if self._secrets.format == "ssh":
                key = self._identity(folder, private)
                yield git.Access(settings=(("gpg.format", "ssh"), ("user.signingKey", str(key))))
                return
            try:
                yield self._gpg(folder, private)
            finally:
                # The agent is not a child process. If this fails it ends by itself when its folder is gone.
                with contextlib.suppress(errors.Failure):
                    self._run("gpgconf", "--homedir", str(private), "--kill", "all")

    def _ssh(self, folder: Path, private: Path) -> git.Access:
        known_hosts = _required(folder, "known_hosts", "the server could be anybody")
        key = self._identity(folder, private)
        hosts = private / "known_hosts"
        _write(hosts, known_hosts + b"\n")
        words = ["ssh", "-F", "/dev/null", "-i", str(key)]
        # In quotes, because ssh accepts several files here.
        for option in (*_SSH_OPTIONS, f'UserKnownHostsFile="{hosts}"'):
            words += ["-o", option]
        return git.Access(environment={"GIT_SSH_COMMAND": shlex.join(words)})

    def _identity(self, folder: Path, private: Path) -> Path:
        """Return a copy of the private key, with the public one beside it.

        ssh demands that only its user can read the key, and that it ends with a line break. Signing needs the public
        key, which only one of the formats contains.
        """
        try:
            pwd.getpwuid(os.getuid())
        except KeyError as error:
            raise git_errors.Unusable(f"ssh refuses the user {os.getuid()}, who is not in /etc/passwd.") from error
        content = _required(folder, "identity", "it is the private key")
        key = private / "identity"
        _write(key, content.replace(b"\r\n", b"\n") + b"\n")
        ended = self._run("ssh-keygen", "-y", "-P", "", "-f", str(key))
        said = ended.stderr.decode(errors="replace")
        if ended.code != 0 and "passphrase" in said:
            raise git_errors.Unusable(f"The key '{folder / 'identity'}' is under a password, which is not supported.")
        if ended.code != 0:
            words = git_errors.cleaned([said.replace(str(key), "the key")])
            raise git_errors.Unusable(f"The key '{folder / 'identity'}' is none that ssh can read: {words}.")
        _write(private / "identity.pub", ended.output)
        return key

    def _gpg(self, folder: Path, private: Path) -> git.Access:
        armour = _required(folder, "git.asc", "it is the key that signs")
        passphrase = folder / "passphrase"
        options = f"passphrase-file {passphrase}\n" if passphrase.exists() else ""
        _write(private / "gpg.conf", (_GPG_OPTIONS + options).encode())
        _write(private / "gpg-agent.conf", _GPG_AGENT_OPTIONS.encode())
        self._run("gpg", "--homedir", str(private), "--quiet", "--import", stdin=armour + b"\n")
        listed = self._run("gpg", "--homedir", str(private), "--with-colons", "--list-secret-keys").output.decode()
        prints = [line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr:")]
        if not prints:
            raise git_errors.Unusable(f"'{folder / 'git.asc'}' holds no private key that gpg can read.")
        word = _line(folder, "passphrase")
        return git.Access(
            environment={"GNUPGHOME": str(private)},
            settings=(("gpg.format", "openpgp"), ("user.signingKey", prints[0])),
            hidden=(word,) if word else (),
        )

    @contextlib.contextmanager
    def _private(self) -> Iterator[Path]:
        # A short name: gpg's agent listens at a socket in there, whose path may have 107 bytes (unix(7)).
        try:
            folder = tempfile.TemporaryDirectory(
                dir=self._scratch, prefix=clones.PRIVATE_PREFIX, ignore_cleanup_errors=True
            )
        except OSError as error:
            raise git_errors.of_disk(self._scratch, error) from error
        with folder as path:
            yield Path(path)

    def _run(self, *arguments: str, stdin: bytes = b"") -> process.Ended:
        return commands.run(arguments, {"HOME": str(self._scratch)}, self._limits, stdin)


def _http(folder: Path, url: parse.SplitResult) -> git.Access:
    user, password, token = (_line(folder, name) for name in ("username", "password", "bearerToken"))
    if token and (user or password):
        raise git_errors.Unusable(f"'{folder}' holds both a bearerToken and a username or password: one must go.")
    user = user or parse.unquote(url.username or "")
    if password and not user:
        raise git_errors.Unusable(f"'{folder}' holds a password but no username.")
    settings = []
    hidden = [word for word in (password, token) if word]
    if password:
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        hidden.append(token)
    if token:
        # Sent from the first request on. git's own way, a program that it asks for the password, costs a refused
        # request each time, and knows no bearer tokens before git 2.46.
        header = f"Authorization: {'Basic' if password else 'Bearer'} {token}"
        settings.append(("http.extraHeader", header))
    certificate, key = folder / "tls.crt", folder / "tls.key"
    if certificate.exists() != key.exists():
        raise git_errors.Unusable(f"'{folder}' holds only one of tls.crt and tls.key.")
    if certificate.exists():
        settings += [("http.sslCert", str(certificate)), ("http.sslKey", str(key))]
    for name in ("caFile", "ca.crt"):
        if (folder / name).exists():
            settings.append(("http.sslCAInfo", str(folder / name)))
    return git.Access(settings=tuple(settings), hidden=tuple(hidden))


def _file(private: Path) -> git.Access:
    # git refuses a repository of another user, because its hooks would run as this one. The config names this one.
    configuration = private / "gitconfig"
    _write(configuration, b"[safe]\n\tdirectory = *\n")
    return git.Access(environment={"GIT_CONFIG_GLOBAL": str(configuration)})


def _required(folder: Path, name: str, why: str) -> bytes:
    content = _read(folder / name)
    if not content:
        raise git_errors.Unusable(f"The Secret has no '{name}' (looked for in '{folder}'), and {why}.")
    return content


def _line(folder: Path, name: str) -> str | None:
    """Return the only line of a file; None when the file is missing or empty."""
    content = _read(folder / name)
    try:
        text = content.decode().strip("\r\n") if content else ""
    except UnicodeDecodeError as error:
        raise git_errors.Unusable(f"'{folder / name}' is no text.") from error
    if not all(character.isprintable() for character in text):
        raise git_errors.Unusable(f"'{folder / name}' holds more than one line, or a control character.")
    return text or None


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes().strip(b"\r\n")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise git_errors.Unusable(f"'{path}' cannot be read: {error.strerror}.") from error


def _write(path: Path, content: bytes) -> None:
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:  # noqa: PTH123 - by number
            file.write(content)
    except OSError as error:
        raise git_errors.of_disk(path, error) from error
