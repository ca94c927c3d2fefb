"""Secrets: what lets us in, what signs, and that they are nowhere else."""

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from tests.watcher import remotes, servers
from watcher.git import credentials, git_errors, repository

TOKEN = "hunter2-very-secret"  # noqa: S105 - a test's


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder in which gpg's agent finds room for its socket."""
    with servers.short_folder() as folder:
        yield folder


def ours(url: str, folder: Path, scratch: Path, form: Literal["ssh", "gpg"] | None = None) -> repository.Repository:
    secrets = credentials.Secrets(repository=folder, signing=folder, format=form)
    return repository.Repository(remotes.target(url), scratch, secrets, threading.Event(), remotes.TIMING)


@pytest.mark.parametrize("kind", ["basic", "bearer"])
def test_a_web_server_lets_a_token_in_without_being_asked_twice(
    remote: remotes.Remote, web: servers.Web, tmp_path: Path, kind: str
) -> None:
    if kind == "basic":
        web.rules.demand_basic("bot", TOKEN)
        secret = remotes.secrets(tmp_path / "s", username="bot\n", password=f"{TOKEN}\n").repository
    else:
        web.rules.demand_bearer(TOKEN)
        secret = remotes.secrets(tmp_path / "s", bearerToken=f"{TOKEN}\n").repository

    remotes.publish(ours(f"{web.url}/remote.git", secret, tmp_path / "scratch"), b"new\n")

    assert remote.changed("main") == remotes.PUSHED
    assert len(web.rules.requests) < 14


def test_a_user_in_the_url_goes_with_the_secrets_password(web: servers.Web, tmp_path: Path) -> None:
    web.rules.demand_basic("oauth2", TOKEN)
    secret = remotes.secrets(tmp_path / "s", password=TOKEN).repository

    fetched = ours(f"{web.url.replace('//', '//oauth2@')}/remote.git", secret, tmp_path / "scratch").fetch()

    assert fetched.base == "branch"


def test_a_secret_that_changes_is_read_at_the_next_use(web: servers.Web, tmp_path: Path) -> None:
    web.rules.demand_bearer("next")
    secret = remotes.secrets(tmp_path / "s", bearerToken="last").repository
    repo = ours(f"{web.url}/remote.git", secret, tmp_path / "scratch")

    with pytest.raises(git_errors.Denied, match="the Secret's user, password or token is refused"):
        repo.fetch()
    remotes.secrets(secret, bearerToken="next")

    assert repo.fetch().base == "branch"


def test_no_secret_is_on_a_command_line(
    remote: remotes.Remote, web: servers.Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, real = tmp_path / "log", shutil.which("git")
    wrapper = tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    web.rules.demand_basic("bot", TOKEN)
    secret = remotes.secrets(tmp_path / "s", username="bot", password=TOKEN).repository

    remotes.publish(ours(f"{web.url}/remote.git", secret, tmp_path / "scratch"), b"new\n")

    (header,) = web.rules.authorizations
    words = log.read_text()
    assert "push" in words
    assert not [secret for secret in (TOKEN, header.split()[1], web.url) if secret in words]


def test_a_server_that_says_our_secret_aloud_is_not_quoted(
    remote: remotes.Remote, web: servers.Web, tmp_path: Path
) -> None:
    web.rules.demand_basic("bot", TOKEN)
    (header,) = web.rules.authorizations
    remote.set_hook("pre-receive", f"echo 'bad {TOKEN}, {header}' >&2", "exit 1")
    secret = remotes.secrets(tmp_path / "s", username="bot", password=TOKEN).repository

    with pytest.raises(git_errors.Refused) as refusal:
        remotes.publish(ours(f"{web.url}/remote.git", secret, tmp_path / "scratch"), b"new\n")

    assert "bad ***, Basic ***" in str(refusal.value)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"password": TOKEN}, "holds a password but no username"),
        ({"bearerToken": TOKEN, "username": "bot"}, "holds both a bearerToken and a username or password"),
        ({"bearerToken": f"{TOKEN}\nX: y"}, "holds more than one line, or a control character"),
        ({"bearerToken": b"\xff"}, "is no text"),
        ({"tls_crt": "x"}, "holds only one of tls.crt and tls.key"),
    ],
)
def test_a_secret_that_cannot_serve_is_told(tmp_path: Path, files: dict[str, str | bytes], words: str) -> None:
    secret = remotes.secrets(tmp_path / "s", **files).repository

    with pytest.raises(git_errors.Unusable, match=words) as failure:
        ours("https://git.example.com/a.git", secret, tmp_path / "scratch").fetch()

    assert TOKEN not in str(failure.value)


def test_a_password_in_the_url_is_not_used_or_shown(tmp_path: Path) -> None:
    with pytest.raises(git_errors.Unusable, match="it belongs into the Secret") as failure:
        ours(f"https://bot:{TOKEN}@git.example.com/a.git", tmp_path, tmp_path / "scratch").fetch()

    assert TOKEN not in str(failure.value)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> servers.Authority:
    """One for all tests of a worker."""
    return servers.authority(tmp_path_factory.mktemp("tls") / "authority")


@pytest.mark.parametrize("name", ["ca_crt", "caFile"])
def test_a_server_is_trusted_by_the_secrets_authority_alone(
    remote: remotes.Remote, authority: servers.Authority, tmp_path: Path, name: str
) -> None:
    with servers.web(remote.path.parent, authority.context(clients=False)) as web:
        url = f"{web.url}/remote.git"
        with pytest.raises(git_errors.Unreachable, match="certificate"):
            ours(url, tmp_path / "none", tmp_path / "scratch").fetch()

        secret = remotes.secrets(tmp_path / "s", **{name: authority.read("ca.crt")}).repository
        remotes.publish(ours(url, secret, tmp_path / "scratch"), b"new\n")

    assert remote.changed("main") == remotes.PUSHED


def test_a_server_that_wants_a_certificate_gets_the_secrets(
    remote: remotes.Remote, authority: servers.Authority, tmp_path: Path
) -> None:
    with servers.web(remote.path.parent, authority.context(clients=True)) as web:
        url = f"{web.url}/remote.git"
        secret = remotes.secrets(tmp_path / "s", ca_crt=authority.read("ca.crt")).repository
        with pytest.raises((git_errors.Denied, git_errors.Unreachable)):
            ours(url, secret, tmp_path / "scratch").fetch()

        remotes.secrets(secret, tls_crt=authority.read("client.crt"), tls_key=authority.read("client.key"))
        remotes.publish(ours(url, secret, tmp_path / "scratch"), b"new\n")

    assert remote.changed("main") == remotes.PUSHED


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Sshd]:
    """One for all tests of a worker."""
    if servers.SSHD is None:
        pytest.skip("there is no sshd: install openssh-server")
    with servers.sshd(tmp_path_factory.mktemp("ssh") / "d") as found:
        yield found


def test_ssh_lets_the_key_in_and_nothing_of_it_stays(
    remote: remotes.Remote, sshd: servers.Sshd, tmp_path: Path
) -> None:
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

    with pytest.raises(git_errors.Denied, match="Permission denied"):
        ours(sshd.url(remote.path), secret, tmp_path / "scratch").fetch()


@pytest.mark.parametrize("known", ["another key", "no key"])
def test_ssh_to_a_server_that_is_not_known_is_refused(
    remote: remotes.Remote, sshd: servers.Sshd, tmp_path: Path, known: str
) -> None:
    servers.ssh_key(tmp_path / "key")
    host = sshd.known_hosts.split()[0] if known == "another key" else "git.example.com"
    hosts = f"{host} {(tmp_path / 'key.pub').read_text()}"
    secret = remotes.secrets(tmp_path / "s", identity=sshd.key, known_hosts=hosts).repository

    with pytest.raises(git_errors.Unreachable, match=r"[Hh]ost key"):
        ours(sshd.url(remote.path), secret, tmp_path / "scratch").fetch()


def test_ssh_to_a_repository_that_is_gone_says_so(remote: remotes.Remote, sshd: servers.Sshd, tmp_path: Path) -> None:
    secret = remotes.secrets(tmp_path / "s", identity=sshd.key, known_hosts=sshd.known_hosts).repository

    with pytest.raises(git_errors.NotFound):
        ours(sshd.url(remote.path.parent / "gone.git"), secret, tmp_path / "scratch").fetch()


@pytest.mark.parametrize("url", ["git@git.example.com:a.git", "ssh://git@git.example.com/a.git"])
@pytest.mark.parametrize("missing", ["identity", "known_hosts"])
def test_ssh_needs_both_a_key_and_known_hosts(tmp_path: Path, url: str, missing: str) -> None:
    files = {"identity": servers.ssh_key(tmp_path / "key").read_text(), "known_hosts": "git.example.com ssh-ed25519 A"}
    files[missing] = "\n"
    secret = remotes.secrets(tmp_path / "s", **files).repository

    with pytest.raises(git_errors.Unusable, match=f"^The Secret has no '{missing}' "):
        ours(url, secret, tmp_path / "scratch").fetch()


@pytest.mark.parametrize(
    ("key", "words"),
    [("locked", "is under a password, which is not supported"), ("broken", "is none that ssh can read")],
)
def test_ssh_keys_that_do_not_serve_are_told_apart(tmp_path: Path, key: str, words: str) -> None:
    content = servers.ssh_key(tmp_path / "key", "word").read_text() if key == "locked" else f"{TOKEN}\n"
    secret = remotes.secrets(tmp_path / "s", identity=content, known_hosts="h ssh-ed25519 A").repository

    with pytest.raises(git_errors.Unusable, match=words) as failure:
        ours("git@git.example.com:a.git", secret, tmp_path / "scratch").fetch()

    assert TOKEN not in str(failure.value)


NAMELESS = """
import threading
from pathlib import Path
from watcher.git import credentials, git_errors
folder = Path(sys.argv[2])
secrets = credentials.Secrets(repository=folder / "s", signing=folder, format=None)
keys = credentials.Keys(secrets, folder, threading.Event())
become(int(sys.argv[1]))
try:
    with keys.repository("git@git.example.com:a.git"):
        print("let in")
except git_errors.Unusable as failure:
    print(failure)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="becoming another user takes root")
def test_ssh_says_that_it_needs_a_user_with_a_name(short: Path) -> None:
    short.chmod(0o777)
    remotes.secrets(short / "s", identity="key", known_hosts="hosts")

    ended = servers.as_user(54_321, NAMELESS, str(short))

    assert ended.stdout == "ssh refuses the user 54321, who is not in /etc/passwd.\n"


@pytest.mark.parametrize("form", ["OpenSSH", "PEM"])
def test_a_commit_is_signed_by_ssh(remote: remotes.Remote, tmp_path: Path, form: str) -> None:
    key = servers.ssh_key(tmp_path / "key")
    if form == "PEM":
        # In which the public half is not within.
        key.unlink()
        words = ["-q", "-t", "ecdsa", "-m", "PEM", "-N", "", "-f", str(key)]
        subprocess.run(["ssh-keygen", *words], check=True, input=b"y\n", capture_output=True, timeout=60)
    (tmp_path / "signers").write_text(f"kae-watcher@localhost {(tmp_path / 'key.pub').read_text()}")
    secret = remotes.secrets(tmp_path / "s", identity=key.read_text()).repository

    remotes.publish(ours(remote.url, secret, tmp_path / "scratch", "ssh"), b"new\n")

    remote("-c", f"gpg.ssh.allowedSignersFile={tmp_path / 'signers'}", "verify-commit", "main")


def gpg(home: Path, *words: str) -> str:
    home.mkdir(mode=0o700, exist_ok=True)
    # Otherwise the agent measures the machine for seconds.
    (home / "gpg-agent.conf").write_text("s2k-count 65536\n")
    environment = {"PATH": os.environ["PATH"], "GNUPGHOME": str(home), "HOME": str(home)}
    command = ["gpg", "--batch", "--no-tty", "--pinentry-mode", "loopback", *words]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    return ended.stdout


@pytest.fixture
def keyring(short: Path) -> Iterator[Path]:
    """A person's key ring; its agent ends with it."""
    home = short / "ring"
    yield home
    environment = {"PATH": os.environ["PATH"], "GNUPGHOME": str(home)}
    subprocess.run(["gpgconf", "--kill", "all"], env=environment, check=True, timeout=60)


@pytest.mark.parametrize("passphrase", ["", TOKEN])
def test_a_commit_is_signed_by_gpg(remote: remotes.Remote, short: Path, keyring: Path, passphrase: str) -> None:
    gpg(keyring, "--passphrase", passphrase, "--quick-generate-key", "kae <kae-watcher@localhost>", "ed25519", "sign")
    armour = gpg(keyring, "--passphrase", passphrase, "--armor", "--export-secret-keys")
    files = {"passphrase": f"{passphrase}\n"} if passphrase else {}
    secret = remotes.secrets(short / "s", git_asc=armour, **files).repository
    scratch = short / "scratch"

    remotes.publish(ours(remote.url, secret, scratch, "gpg"), b"new\n")

    remote("verify-commit", "main", environment={"GNUPGHOME": str(keyring)})
    assert not list(scratch.glob("key-*"))
    assert not agents_in(scratch)


def test_a_gpg_key_under_another_passphrase_does_not_sign(remote: remotes.Remote, short: Path, keyring: Path) -> None:
    gpg(keyring, "--passphrase", TOKEN, "--quick-generate-key", "kae <kae-watcher@localhost>", "ed25519", "sign")
    armour = gpg(keyring, "--passphrase", TOKEN, "--armor", "--export-secret-keys")
    secret = remotes.secrets(short / "s", git_asc=armour, passphrase=f"not {TOKEN}").repository
    tip = remote.tip()

    with pytest.raises(git_errors.Unusable, match=r"^The commit cannot be signed: .*gpg"):
        remotes.publish(ours(remote.url, secret, short / "scratch", "gpg"), b"new\n")

    assert remote.tip() == tip
    assert not agents_in(short / "scratch")


@pytest.mark.parametrize(
    ("form", "files", "words"),
    [
        ("ssh", {}, "^The Secret has no 'identity' "),
        ("gpg", {}, "^The Secret has no 'git.asc' "),
        ("gpg", {"git_asc": "no key"}, "holds no private key that gpg can read"),
    ],
)
def test_a_key_that_is_missing_is_named_and_nothing_is_pushed_unsigned(
    remote: remotes.Remote, short: Path, form: Literal["ssh", "gpg"], files: dict[str, str], words: str
) -> None:
    tip = remote.tip()
    secret = remotes.secrets(short / "s", **files).repository

    with pytest.raises(git_errors.Unusable, match=words):
        remotes.publish(ours(remote.url, secret, short / "scratch", form), b"new\n")

    assert remote.tip() == tip


def agents_in(folder: Path) -> list[str]:
    """The command lines of processes that name a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if str(folder) in words and "gpg" in words:
            found.append(words)
    return found
