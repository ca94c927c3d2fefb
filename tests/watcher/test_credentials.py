"""Secrets: what lets us in, what signs, and that they are nowhere else."""

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime import errors, process
from tests.watcher import remotes, servers
from watcher.git import credentials, git, repository

pytestmark = pytest.mark.long

TOKEN = "hunter2-very-secret"  # noqa: S105 - a test's


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> servers.Authority:
    return servers.authority(tmp_path_factory.mktemp("tls") / "authority")


@pytest.fixture
def safe(remote: remotes.Remote, authority: servers.Authority) -> Iterator[servers.Web]:
    """An https server that has the repository as remote.git."""
    with servers.web(remote.path.parent, authority.context(clients=False)) as server:
        yield server


@pytest.fixture
def ca(authority: servers.Authority) -> bytes:
    return authority.read("ca.crt")


def ours(url: str, folder: Path, scratch: Path, *, signs: bool = False) -> repository.Repository:
    secrets = credentials.Secrets(repository=folder, signing=folder if signs else None)
    return repository.Repository(remotes.target(url), scratch, secrets, threading.Event())


def test_a_url_of_no_host_is_told(tmp_path: Path) -> None:
    with pytest.raises(errors.Failure, match=r"^The repository's URL is not one: .*brackets"):
        fetch("https://[1.2.3.4]/x", tmp_path, tmp_path / "scratch")


def fetch(url: str, folder: Path, scratch: Path) -> bool:
    """Look at the repository; return whether that was possible."""
    ours(url, folder, scratch).publish(lambda _: None)
    return True


@pytest.mark.parametrize("kind", ["basic", "bearer"])
def test_a_web_server_lets_a_token_in_without_being_asked_twice(
    remote: remotes.Remote, safe: servers.Web, tmp_path: Path, ca: bytes, kind: str
) -> None:
    if kind == "basic":
        safe.rules.demand_basic("bot", TOKEN)
        secret = remotes.secrets(tmp_path / "s", ca_crt=ca, username="bot\n", password=f"{TOKEN}\n").repository
    else:
        safe.rules.demand_bearer(TOKEN)
        secret = remotes.secrets(tmp_path / "s", ca_crt=ca, bearerToken=f"{TOKEN}\n").repository

    remotes.publish(ours(f"{safe.url}/remote.git", secret, tmp_path / "scratch"), b"new\n")

    assert remote.changed("main") == remotes.PUSHED
    assert len(safe.rules.requests) < 14


def test_a_user_in_the_url_goes_with_the_secrets_password(safe: servers.Web, tmp_path: Path, ca: bytes) -> None:
    safe.rules.demand_basic("oauth2", TOKEN)
    secret = remotes.secrets(tmp_path / "s", ca_crt=ca, password=TOKEN).repository

    assert fetch(f"{safe.url.replace('//', '//oauth2@')}/remote.git", secret, tmp_path / "scratch")


def test_no_secret_is_on_a_command_line(
    remote: remotes.Remote, safe: servers.Web, tmp_path: Path, ca: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, real = tmp_path / "log", shutil.which("git")
    wrapper = tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    safe.rules.demand_basic("bot", TOKEN)
    secret = remotes.secrets(tmp_path / "s", ca_crt=ca, username="bot", password=TOKEN).repository

    remotes.publish(ours(f"{safe.url}/remote.git", secret, tmp_path / "scratch"), b"new\n")

    (header,) = safe.rules.authorizations
    words = log.read_text()
    assert "push" in words
    assert not [secret for secret in (TOKEN, header.split()[1], safe.url) if secret in words]


@pytest.mark.long
def test_a_server_that_says_our_secret_aloud_is_not_quoted(
    remote: remotes.Remote, safe: servers.Web, tmp_path: Path, ca: bytes
) -> None:
    safe.rules.demand_basic("bot", TOKEN)
    (header,) = safe.rules.authorizations
    remote.set_hook("pre-receive", f"echo 'bad {TOKEN}, {header}' >&2", "exit 1")
    secret = remotes.secrets(tmp_path / "s", ca_crt=ca, username="bot", password=TOKEN).repository

    with pytest.raises(git.Refused) as refusal:
        remotes.publish(ours(f"{safe.url}/remote.git", secret, tmp_path / "scratch"), b"new\n")

    assert "bad ***, Basic ***" in str(refusal.value)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"password": TOKEN}, "holds a password but no username"),
        ({"bearerToken": TOKEN, "username": "bot"}, "holds both a bearerToken and a username or password"),
        ({"bearerToken": f"{TOKEN}\nX: y"}, "holds more than one line of text"),
        ({"bearerToken": b"\xff"}, "holds more than one line of text"),
        ({"tls_crt": "x"}, "holds only one of tls.crt and tls.key"),
    ],
)
def test_a_secret_that_cannot_serve_is_told(tmp_path: Path, files: dict[str, str | bytes], words: str) -> None:
    secret = remotes.secrets(tmp_path / "s", **files).repository

    with pytest.raises(errors.Failure, match=words) as failure:
        fetch("https://git.example.com/a.git", secret, tmp_path / "scratch")

    assert TOKEN not in str(failure.value)


def test_a_password_in_the_url_is_not_used_or_shown(tmp_path: Path) -> None:
    with pytest.raises(errors.Failure, match="it belongs into the Secret") as failure:
        fetch(f"https://bot:{TOKEN}@git.example.com/a.git", tmp_path, tmp_path / "scratch")

    assert TOKEN not in str(failure.value)


@pytest.mark.long
@pytest.mark.parametrize("name", ["ca_crt", "caFile"])
def test_a_server_is_trusted_by_the_secrets_authority_alone(
    remote: remotes.Remote, authority: servers.Authority, tmp_path: Path, name: str
) -> None:
    with servers.web(remote.path.parent, authority.context(clients=False)) as web:
        url = f"{web.url}/remote.git"
        with pytest.raises(errors.Failure, match="certificate"):
            fetch(url, tmp_path / "none", tmp_path / "scratch")

        secret = remotes.secrets(tmp_path / "s", **{name: authority.read("ca.crt")}).repository

        assert fetch(url, secret, tmp_path / "scratch")


@pytest.mark.long
def test_a_server_that_wants_a_certificate_gets_the_secrets(
    remote: remotes.Remote, authority: servers.Authority, tmp_path: Path
) -> None:
    with servers.web(remote.path.parent, authority.context(clients=True)) as web:
        url = f"{web.url}/remote.git"
        secret = remotes.secrets(tmp_path / "s", ca_crt=authority.read("ca.crt")).repository
        with pytest.raises(errors.Failure):
            fetch(url, secret, tmp_path / "scratch")

        remotes.secrets(secret, tls_crt=authority.read("client.crt"), tls_key=authority.read("client.key"))

        assert fetch(url, secret, tmp_path / "scratch")


@pytest.mark.parametrize("files", [{"username": "bot", "password": TOKEN}, {"bearerToken": TOKEN}])
def test_a_secret_is_not_sent_over_plain_http(web: servers.Web, tmp_path: Path, files: dict[str, str]) -> None:
    secret = remotes.secrets(tmp_path / "s", **files).repository

    with pytest.raises(errors.Failure, match="is not sent over http: use https"):
        fetch(f"{web.url}/remote.git", secret, tmp_path / "scratch")

    assert web.rules.requests == []


@pytest.mark.parametrize("status", [301, 307])
def test_a_server_that_redirects_gets_nothing_sent_elsewhere(
    safe: servers.Web, authority: servers.Authority, tmp_path: Path, ca: bytes, status: int
) -> None:
    secret = remotes.secrets(tmp_path / "s", ca_crt=ca, username="bot", password=TOKEN).repository
    with servers.web(tmp_path, authority.context(clients=False)) as other:
        safe.rules.redirect = (status, other.url)
        with pytest.raises(errors.Failure, match=r"redirect|error: 30"):
            fetch(f"{safe.url}/remote.git", secret, tmp_path / "scratch")

        assert other.rules.requests == []
    assert {headers.get("Authorization", "")[:6] for headers in safe.rules.headers} == {"Basic "}


def test_a_dumb_server_that_names_another_repository_gets_nothing_sent_there(
    remote: remotes.Remote, safe: servers.Web, authority: servers.Authority, tmp_path: Path, ca: bytes
) -> None:
    secret = remotes.secrets(tmp_path / "s", ca_crt=ca, bearerToken=TOKEN).repository
    with servers.web(remote.path.parent, authority.context(clients=False)) as other:
        tip = "a" * 40
        safe.rules.pages = {
            "/remote.git/info/refs": f"{tip}\trefs/heads/main\n".encode(),
            "/remote.git/HEAD": b"ref: refs/heads/main\n",
            "/remote.git/objects/info/http-alternates": f"{other.url}/remote.git/objects\n".encode(),
        }
        with pytest.raises(errors.Failure):
            fetch(f"{safe.url}/remote.git", secret, tmp_path / "scratch")

        assert other.rules.requests == []


@pytest.mark.long
def test_a_token_is_renewed_while_it_runs(remote: remotes.Remote, safe: servers.Web, tmp_path: Path, ca: bytes) -> None:
    user = "x-access-token"  # As a GitHub app is called.
    secret = remotes.secrets(tmp_path / "s", ca_crt=ca, username=user, password="ghs_first").repository  # noqa: S106
    repo = ours(f"{safe.url}/remote.git", secret, tmp_path / "scratch")
    safe.rules.demand_basic(user, "ghs_first")
    remotes.publish(repo, b"1\n")
    safe.rules.demand_basic(user, "ghs_second")
    # As the kubelet renews a Secret: a link to a new folder, at once.
    remotes.secrets(secret, password="ghs_second")  # noqa: S106
    remotes.publish(repo, b"2\n")

    assert len(remote.history()) == 3
    assert len({headers["Authorization"] for headers in safe.rules.headers}) == 2


@pytest.mark.parametrize(
    ("url", "protocol"),
    [
        ("https://git.example.com/a.git", "https"),
        ("http://git.example.com/a.git", "http"),
        ("ssh://git@git.example.com/a.git", "ssh"),
        ("git@git.example.com:a.git", "ssh"),
        ("file:///srv/a.git", "file"),
    ],
)
def test_git_may_use_the_protocol_of_the_url_alone(
    url: str, protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def run(command: process.Command, limits: process.Limits) -> process.Ended:
        seen.append(command.environment["GIT_ALLOW_PROTOCOL"])
        return process.Ended(code=0, output=b"", stderr=b"")

    monkeypatch.setattr(process, "run", run)
    secret = remotes.secrets(tmp_path / "s", identity="key", known_hosts="h ssh-ed25519 A").repository

    fetch(url, secret, tmp_path / "scratch")

    assert set(seen) == {protocol, "none"}


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Sshd]:
    with servers.sshd(tmp_path_factory.mktemp("ssh") / "d") as server:
        yield server


@pytest.mark.long
def test_ssh_lets_the_key_in_and_nothing_stays(remote: remotes.Remote, sshd: servers.Sshd, tmp_path: Path) -> None:
    # A Secret made of a variable often lacks the last line break, without which ssh cannot read a key.
    secret = remotes.secrets(tmp_path / "my s", identity=sshd.key.strip(), known_hosts=sshd.known_hosts).repository
    (secret / "identity").chmod(0o444)
    scratch = tmp_path / "scratch of mine"

    remotes.publish(ours(sshd.url(remote.path), secret, scratch), b"new\n")

    assert remote.changed("main") == remotes.PUSHED
    assert [path for path in scratch.rglob("*") if path.name in ("identity", "known_hosts")] == []


def test_ssh_with_another_key_is_denied(remote: remotes.Remote, sshd: servers.Sshd, tmp_path: Path) -> None:
    key = servers.ssh_key(tmp_path / "key").read_text()
    secret = remotes.secrets(tmp_path / "s", identity=key, known_hosts=sshd.known_hosts).repository

    with pytest.raises(errors.Failure, match="Permission denied"):
        fetch(sshd.url(remote.path), secret, tmp_path / "scratch")


@pytest.mark.parametrize("known", ["another key", "no key"])
def test_ssh_to_a_server_that_is_not_known_is_refused(
    remote: remotes.Remote, sshd: servers.Sshd, tmp_path: Path, known: str
) -> None:
    servers.ssh_key(tmp_path / "key")
    host = sshd.known_hosts.split()[0] if known == "another key" else "git.example.com"
    hosts = f"{host} {(tmp_path / 'key.pub').read_text()}"
    secret = remotes.secrets(tmp_path / "s", identity=sshd.key, known_hosts=hosts).repository

    with pytest.raises(errors.Failure, match=r"[Hh]ost key"):
        fetch(sshd.url(remote.path), secret, tmp_path / "scratch")


def test_ssh_to_a_repository_that_is_gone_says_so(remote: remotes.Remote, sshd: servers.Sshd, tmp_path: Path) -> None:
    secret = remotes.secrets(tmp_path / "s", identity=sshd.key, known_hosts=sshd.known_hosts).repository

    with pytest.raises(errors.Failure):
        fetch(sshd.url(remote.path.parent / "gone.git"), secret, tmp_path / "scratch")


@pytest.mark.parametrize("url", ["git@git.example.com:a.git", "ssh://git@git.example.com/a.git"])
@pytest.mark.parametrize("missing", ["identity", "known_hosts"])
def test_ssh_needs_both_a_key_and_known_hosts(tmp_path: Path, url: str, missing: str) -> None:
    files = {"identity": servers.ssh_key(tmp_path / "key").read_text(), "known_hosts": "git.example.com ssh-ed25519 A"}
    files[missing] = "\n"
    secret = remotes.secrets(tmp_path / "s", **files).repository

    with pytest.raises(errors.Failure, match=f"^The Secret has no '{missing}' "):
        fetch(url, secret, tmp_path / "scratch")


def test_a_commit_is_signed_by_an_ssh_key_and_ssh_keygen_verifies_it(remote: remotes.Remote, tmp_path: Path) -> None:
    key = servers.ssh_key(tmp_path / "key")
    signers = tmp_path / "signers"
    signers.write_text(f"kae-watcher@localhost {(tmp_path / 'key.pub').read_text()}")
    secret = remotes.secrets(tmp_path / "s", identity=key.read_text().strip()).repository

    remotes.publish(ours(remote.url, secret, tmp_path / "scratch", signs=True), b"new\n")

    remote("-c", f"gpg.ssh.allowedSignersFile={signers}", "verify-commit", "main")
    raw = remote("cat-file", "commit", "main")
    head, _, armour = raw.partition("gpgsig ")
    signature, _, rest = armour.partition("-----END SSH SIGNATURE-----\n")
    (tmp_path / "sig").write_text((signature + "-----END SSH SIGNATURE-----\n").replace("\n ", "\n"))
    words = ("verify", "-f", str(signers), "-I", "kae-watcher@localhost", "-n", "git", "-s", str(tmp_path / "sig"))
    signed = f"{head}{rest.lstrip(' ')}\n".encode()
    subprocess.run(["ssh-keygen", "-Y", *words], check=True, input=signed, capture_output=True, timeout=60)


@pytest.mark.parametrize(("files", "words"), [({}, "^The Secret has no 'identity' "), ({"identity": "no key"}, "key")])
def test_without_a_key_that_signs_nothing_is_pushed(
    remote: remotes.Remote, tmp_path: Path, files: dict[str, str], words: str
) -> None:
    tip = remote.tip()
    secret = remotes.secrets(tmp_path / "s", **files).repository

    with pytest.raises(errors.Failure, match=words):
        remotes.publish(ours(remote.url, secret, tmp_path / "scratch", signs=True), b"new\n")

    assert remote.tip() == tip
