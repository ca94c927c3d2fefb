"""The check that the commits of a branch hold only states that the cluster had."""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from compiler.inventory import canonical_form, reduction, snapshot
from tests.watcher import api, remotes

AUTHOR = "kae-watcher-east"

Nodes = Mapping[str, snapshot.Node]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The checked parts of a commit."""

    id: str
    parents: tuple[str, ...]
    author: str
    changed: tuple[str, ...]


class BranchCheck:
    """The check of a branch against the states of a cluster; it reads every commit once."""

    def __init__(self, remote: remotes.Remote, server: api.Api, fleeting: Collection[int]) -> None:
        """Start at the tip of a branch with a reflog; `fleeting` grows with versions that no commit may hold."""
        self._fleeting = fleeting
        self._remote = remote
        self._server = server
        self._reducer = reduction.Reducer()
        self._reduced: dict[int, snapshot.Node] = {}
        self._lines = len(self._log())
        self._known = {remote.tip()}
        self._held: dict[str, Nodes] = {remote.tip(): {}}
        self._version = min(server.states)
        """The version of the cluster in the last commit of a watcher."""
        self.others: set[str] = set()
        """The commits of others that must be on the branch."""
        self.seen = 0
        """The number of commits of others."""
        self.count = 0
        """The number of commits of the watcher."""

    def text(self) -> bytes:
        nodes = tuple(node for _, node in sorted(self._nodes(self._server.nodes).items()))
        made = snapshot.Inventory(cluster=snapshot.ClusterName("east"), file="", nodes=nodes)
        return canonical_form.text(made).encode()

    def check(self) -> None:
        """Read the new commits, also those that a force dropped; raise AssertionError for a wrong one."""
        lines = self._log()
        tips = [line.split()[1] for line in lines[self._lines :]]
        self._lines = len(lines)
        commits = list(self._commits([tip for tip in dict.fromkeys(tips) if tip not in self._known]))
        self._hold(commits)
        for commit in commits:
            assert len(commit.parents) == 1, f"{commit} does not stand on one other"
            if commit.author == AUTHOR:
                self._check(commit)
                self.count += 1
            else:
                assert self._held[commit.id] == self._held[commit.parents[0]]
                self.others.add(commit.id)
                self.seen += 1
        missing = self.others - set(self._remote.history())
        assert not missing, f"commits of others are lost: {missing}"

    def drop_others(self, tip: str) -> None:
        """Expect no commit of others that this tip, to which somebody forced the branch, lacks."""
        self.others &= set(self._remote.history(tip))

    def _check(self, commit: Commit) -> None:
        assert commit.changed == (remotes.PATH,), f"{commit} changes something else"
        before, after = self._held[commit.parents[0]], self._held[commit.id]
        for version in sorted(self._server.states):
            if version >= self._version and self._could_be(version, before, after):
                self._version = version
                return
        raise AssertionError(
            f"{commit.id} holds what the cluster never was: {serials(after)} after {serials(before)}, "
            f"while it was {[serials(self._nodes(self._server.states[v])) for v in self._server.states][-6:]}"
        )

    def _could_be(self, version: int, before: Nodes, after: Nodes) -> bool:
        """Return whether each node is as it was then, or unchanged, as a change may not have settled."""
        raw = self._server.states[version]
        now = self._nodes(raw)
        for name in {*before, *after, *now}:
            if after.get(name) == before.get(name):
                continue
            if after.get(name) != now.get(name) or (name in now and _version(raw[name]) in self._fleeting):
                return False
        return True

    def _nodes(self, state: api.State) -> Nodes:
        nodes = {}
        for name, node in state.items():
            version = _version(node)
            if version not in self._reduced:
                self._reduced[version] = self._reducer.node(node)
            nodes[name] = self._reduced[version]
        return nodes

    def _log(self) -> list[str]:
        path = self._remote.path / "logs/refs/heads/main"
        return path.read_text().splitlines() if path.exists() else []

    def _commits(self, tips: list[str]) -> Iterator[Commit]:
        if not tips:
            return
        words = ("--reverse", "--topo-order", "--format=%x00%H%n%P%n%an", "--name-only", "--root")
        known = [f"^{commit}" for commit in self._known]
        log = self._remote("log", "--stdin", *words, stdin="\n".join([*tips, *known]).encode())
        for entry in log.split("\0")[1:]:
            identity, parents, author, *changed = entry.strip("\n").split("\n")
            yield Commit(
                id=identity, parents=tuple(parents.split()), author=author, changed=tuple(filter(None, changed))
            )
        self._known |= set(tips)

    def _hold(self, commits: list[Commit]) -> None:
        """Read the inventory of each commit that changed it."""
        for commit in commits:
            if remotes.PATH in commit.changed:
                self._held[commit.id] = _parsed(self._remote.read(commit.id, remotes.PATH))
            else:
                self._held[commit.id] = self._held[commit.parents[0]]


def serials(nodes: Nodes) -> dict[str, str]:
    """Return texts by which people can tell the versions of a node apart."""
    return {
        name: f"{node.labels.get('serial')} {node.profile.kernel_version[-3:]} {sorted(node.profile.labels.values())}"
        for name, node in nodes.items()
    }


def _version(node: api.Node) -> int:
    return int(node["metadata"]["resourceVersion"])


def _parsed(content: bytes) -> Nodes:
    return {node.name: node for node in canonical_form.of_document("", json.loads(content)).nodes}
