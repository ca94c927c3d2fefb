"""The watcher as a process on a real API server, with the rights that the compiler wrote, and a repository by HTTP."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import watchers
from tests.cluster.local import waiting
from tests.watcher import remotes


@pytest.fixture
def remote(installed: watchers.Installed) -> Iterator[remotes.Remote]:
    """A new repository, in which fsck finds nothing at the end either."""
    made = remotes.Remote(installed.remote)
    yield made
    made.assert_sound()
    installed.remote.rename(installed.remote.with_name(f"{id(made)}.old"))


@pytest.fixture
def watcher(
    installed: watchers.Installed, four_nodes: watchers.Nodes, remote: remotes.Remote, tmp_path: Path
) -> Iterator[watchers.Watcher]:
    """A watcher that runs, and has committed the nodes that there are."""
    started = watchers.Watcher(installed, tmp_path)
    try:
        until_subject(started, remote, "4 nodes joined")
        yield started
    finally:
        started.kill()


def test_each_change_of_a_node_becomes_the_commit_that_says_so(
    installed: watchers.Installed,
    four_nodes: watchers.Nodes,
    remote: remotes.Remote,
    watcher: watchers.Watcher,
    tmp_path: Path,
) -> None:
    four_nodes.label("a", zone="x")
    until_subject(watcher, remote, "labels changed on 1 node")
    four_nodes.devices("b", 4)
    until_subject(watcher, remote, "devices changed on 1 node")
    four_nodes.make("e")
    until_subject(watcher, remote, "1 node joined")
    four_nodes.boot("c", "6.6.0-28.0.0.34.oe2403.aarch64")
    until_subject(watcher, remote, "kernel changed on 1 node")
    four_nodes.remove("d")
    until_subject(watcher, remote, "1 node left")
    expected = inventory(installed)
    four_nodes.beat("a")
    four_nodes.label("a", zone="y")
    until_subject(watcher, remote, "labels changed on 1 node", count=2)

    code = watcher.stop()

    assert code == 0
    assert watcher.errors == []
    assert subjects(remote) == [
        "4 nodes joined",
        "labels changed on 1 node",
        "devices changed on 1 node",
        "1 node joined",
        "kernel changed on 1 node",
        "1 node left",
        "labels changed on 1 node",
    ]
    assert bodies(remote)[-2:] == ["1 node left: d", "labels changed on 1 node: a"]
    assert remote.read("main~1", watchers.PATH).decode() == expected
    assert remote.read("main", watchers.PATH).decode() == inventory(installed)
    assert all(remote.changed(commit) == remotes.PUSHED for commit in remote.history()[:-1])


def test_a_loss_that_is_too_large_is_refused_until_it_comes_back(
    installed: watchers.Installed, four_nodes: watchers.Nodes, remote: remotes.Remote, watcher: watchers.Watcher
) -> None:
    waiting.until("readiness", lambda: watcher.is_ready, programs=(watcher,))
    four_nodes.remove("a", "b", "c")
    waiting.until("the refusal", lambda: not watcher.is_ready, programs=(watcher,))
    kept = remote.read("main", watchers.PATH)
    for name in "abc":
        four_nodes.make(name)
    waiting.until("its end", lambda: watcher.is_ready, programs=(watcher,))

    code = watcher.stop()

    names = [node["name"] for node in json.loads(kept)["spec"]["nodes"]]
    # Two of four may go, and the first may settle before the others.
    assert code == 0
    assert len(names) >= 2
    assert watcher.errors[0].startswith("Too much is lost, so it is not committed: ")
    assert remote.read("main", watchers.PATH).decode() == inventory(installed)


def test_a_restart_of_the_api_server_is_survived(
    installed: watchers.Installed, four_nodes: watchers.Nodes, remote: remotes.Remote, watcher: watchers.Watcher
) -> None:
    server = installed.plane.program("kube-apiserver")
    waiting.until("readiness", lambda: watcher.is_ready, programs=(watcher,))
    server.__exit__(None, None, None)
    waiting.until("its notice of that", lambda: not watcher.is_ready, programs=(watcher,))
    server.start()
    waiting.until("kube-apiserver", installed.plane.api.is_ready, programs=(server,))
    waiting.until("readiness", lambda: watcher.is_ready, programs=(watcher,))
    four_nodes.label("a", zone="x")
    until_subject(watcher, remote, "labels changed on 1 node")

    code = watcher.stop()

    assert code == 0
    assert watcher.errors
    assert all(error.startswith("the API server at ") for error in watcher.errors)
    assert subjects(remote) == ["4 nodes joined", "labels changed on 1 node"]
    assert remote.read("main", watchers.PATH).decode() == inventory(installed)


def test_once_the_same_is_committed_without_waiting(
    installed: watchers.Installed, four_nodes: watchers.Nodes, remote: remotes.Remote, tmp_path: Path
) -> None:
    first = once(installed, tmp_path)
    second = once(installed, tmp_path)
    four_nodes.remove("d")
    four_nodes.label("a", zone="x")
    third = once(installed, tmp_path)

    assert [first, second, third] == ["Committed.", "Nothing was committed.", "Committed."]
    assert subjects(remote) == ["4 nodes joined", "1 node left, labels changed on 1 node"]
    assert remote.read("main", watchers.PATH).decode() == inventory(installed)


def once(installed: watchers.Installed, folder: Path) -> str:
    command = [*watchers.command(installed, folder), "--once"]
    done = subprocess.run(command, cwd=watchers.ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return str(json.loads(done.stderr.splitlines()[-1])["message"])


def inventory(installed: watchers.Installed) -> str:
    listed = installed.plane.kubectl("get", "nodes", "-o", "json")
    command = [sys.executable, "-m", "compiler", "inventory", "--cluster", watchers.CLUSTER]
    return subprocess.run(
        command, cwd=watchers.ROOT, input=listed, capture_output=True, text=True, timeout=300, check=True
    ).stdout


def subjects(remote: remotes.Remote) -> list[str]:
    lines = remote("log", "--reverse", "--author=kae-watcher", "--format=%s", "main").splitlines()
    head = f"inventory({watchers.CLUSTER}): "
    assert all(line.startswith(head) for line in lines)
    return [line.removeprefix(head) for line in lines]


def bodies(remote: remotes.Remote) -> list[str]:
    """Return the bodies of these commits, each on one line."""
    text = remote("log", "--reverse", "--author=kae-watcher", "--format=%b", "main")
    return [line for line in text.splitlines() if line and not line.startswith("Kae-")]


def until_subject(watcher: watchers.Watcher, remote: remotes.Remote, subject: str, count: int = 1) -> None:
    waiting.until(
        f"the commit '{subject}'",
        lambda: subjects(remote).count(subject) >= count,
        programs=(watcher,),
        explain=lambda: f"There is {subjects(remote)}.",
    )
