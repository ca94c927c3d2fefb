"""The image of the watcher works for any user, with nothing but a scratch folder that can be written."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.images import inputs, stores
from tests.kube import apiserver
from tests.watcher import remotes, servers, settings

IMAGE = stores.named("kae-watcher")
ANY = "1234567:1234567"
"""A user and a group who are in nobody's files."""

_COMPILER = """
import importlib, pathlib, sys
for path in pathlib.Path("/app/watcher").rglob("*.py"):
    if path.stem != "__main__":
        importlib.import_module(".".join(path.relative_to("/app").with_suffix("").parts))
names = {name: module.__file__ for name, module in sys.modules.items() if name.partition(".")[0] == "compiler"}
print(*sorted(str(pathlib.Path(file).relative_to("/app")) for file in names.values()))
"""

_PUBLISH = """
import json, pathlib, sys, threading
from watcher.git import credentials, repository
url, signing = json.loads(sys.argv[1])
author = "kae-watcher <kae@example.com>"
target = repository.Target(url=url, branch="main", path="inventory/east.json", author=author)
secrets = credentials.Secrets(repository=pathlib.Path("/none"), signing=signing and pathlib.Path(signing))
store = repository.Repository(target, pathlib.Path("/tmp/kae-watcher"), secrets, threading.Event())
print(store.publish(lambda fetched: repository.Change(content=b"{}\\n", message="by the image")))
"""


def as_in_a_pod(user: str | None = None) -> tuple[str, ...]:
    """A scratch folder in memory, and a user other than the image's, who has no home."""
    chosen = () if user is None else (f"--user={user}",)
    # Podman would enter the user into /etc/passwd, which a kubelet does not.
    return ("--tmpfs=/tmp:rw,mode=1777", "--env=HOME=/tmp", "--passwd=false", *chosen)


@pytest.fixture
def remote(tmp_path: Path) -> remotes.Remote:
    tmp_path.chmod(0o755)
    made = remotes.Remote(tmp_path / "remote.git")
    made.configure("core.sharedRepository", "0666")
    for path in (made.path, *made.path.rglob("*")):
        path.chmod(0o777)
    return made


def publish(
    store: stores.Store, remote: remotes.Remote, user: str | None = None, *, signs: bool = False
) -> "subprocess.CompletedProcess[str]":
    """Commits by the image's own parts: what git said, or the commit."""
    folder = remote.path.parent
    arguments = json.dumps([remote.url, str(folder / "signing") if signs else None])
    return store.run(IMAGE, "python", "-c", _PUBLISH, arguments, folder=folder, options=as_in_a_pod(user))


def test_without_an_api_server_it_ends_with_3_and_one_clear_line(
    store: stores.Store, remote: remotes.Remote, tmp_path: Path
) -> None:
    with apiserver.serving(tmp_path) as gone:
        gone.write_kubeconfig()
    config, before = settings.config(tmp_path, remote.url), remote.branches()

    arguments = ("-m", "watcher", "--once", f"--config={config}", f"--kubeconfig={gone.kubeconfig}")
    done = store.run(IMAGE, "python", *arguments, folder=tmp_path, options=as_in_a_pod(ANY))

    _, line = done.stderr.splitlines()
    said = f"the API server at {gone.address} cannot be reached: Connection refused."
    assert (done.returncode, done.stdout) == (3, "")
    assert (json.loads(line)["level"], json.loads(line)["message"]) == ("critical", said)
    assert remote.branches() == before


@pytest.mark.parametrize("user", [None, ANY, "0:0"])
def test_it_commits_as_any_user(store: stores.Store, remote: remotes.Remote, user: str | None) -> None:
    done = publish(store, remote, user)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == remote.tip()
    assert remote.changed("main") == remotes.PUSHED
    remote.assert_sound()


def test_it_signs_with_an_ssh_key(store: stores.Store, remote: remotes.Remote) -> None:
    signing = remote.path.parent / "signing"
    signing.mkdir(mode=0o755)
    servers.ssh_key(signing / "identity").chmod(0o644)

    done = publish(store, remote, signs=True)

    assert (done.returncode, done.stderr) == (0, "")
    assert "BEGIN SSH SIGNATURE" in remote("cat-file", "commit", "main")


def test_ssh_knows_the_images_own_user(store: stores.Store) -> None:
    command = ("sh", "-c", "id -un && ssh -F /dev/null -o BatchMode=yes 127.0.0.1")

    done = store.run(IMAGE, *command)
    other = store.run(IMAGE, *command[:2], "ssh -F /dev/null 127.0.0.1", options=as_in_a_pod(ANY))

    assert done.stdout == "kae\n"
    assert "Connection refused" in done.stderr
    assert "No user exists" in other.stderr


def test_of_the_compiler_it_holds_exactly_what_it_imports(store: stores.Store) -> None:
    # The folder of the API client is copied whole; Leases are for the driver installer and `kae status`.
    leases = "compiler/kube/lease_objects.py"
    held = {str(path) for path in inputs.shipped("watcher") if path.parts[0] == "compiler"} - {leases}

    done = store.run(IMAGE, "python", "-c", _COMPILER)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == sorted(held)
