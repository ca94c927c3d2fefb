"""The time of git itself for the output of many clusters: `python -m benchmarks.git_time`.

CLUSTERS clusters of NODES nodes with some 40 objects each are committed and pushed to a bare repository on the same
disk, then again after a change of one cluster, and after one of a policy of all. Two repositories of one
work tree do the same in turn: one as `git init` makes it, and one with `feature.manyFiles` (git-config(1)). The table
is Markdown.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import tabulate

from benchmarks import fleets, processes

CLUSTERS = int(os.environ.get("CLUSTERS", "1000"))
NODES = int(os.environ.get("NODES", "1000"))
_HERE = Path(__file__).resolve().parents[1]
_CLUSTER = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: KAECluster
metadata: {{name: {name}}}
spec:
  kubernetesVersion: "1.31"
  gitops: {{engine: argocd, repository: {{url: https://git.example.com/fleet.git}}}}
  monitoring: {{enabled: true}}
"""
_MIRROR = "  images: {mirrors: [{from: registry.k8s.io, to: mirror.example.com}]}\n"
SETTINGS = (
    *(("user.name", "benchmark"), ("user.email", "benchmark@example.com"), ("commit.gpgSign", "false")),
    # A clean-up that git begins by itself would be in the time of another step.
    *(("gc.auto", "0"), ("maintenance.auto", "false")),
)
_MANY = "feature.manyFiles"


def project(folder: Path, clusters: int, nodes: int) -> None:
    """Write a project of all clusters, with the settings that `kae init` writes for git."""
    fleets.clusters(folder, clusters, nodes)
    shutil.rmtree(folder / "policies")
    shutil.copytree(
        fleets.project(folder / "more", ("tls", "storage", "web", "edge")) / "policies", folder / "policies"
    )
    shutil.rmtree(folder / "more")
    (folder / "policies" / "clusters").mkdir()
    for inventory in (folder / "inventory").iterdir():
        document = folder / "policies" / "clusters" / f"{inventory.stem}.yaml"
        document.write_text(_CLUSTER.format(name=inventory.stem))
    shutil.copy(_HERE / "templates" / "init" / ".gitattributes", folder)


def change_a_cluster(folder: Path) -> None:
    """Have one cluster pull its images from a mirror."""
    with (folder / "policies" / "clusters" / "cluster-000.yaml").open("a") as document:
        document.write(_MIRROR)


def change_a_policy(folder: Path) -> None:
    """Give the nodes of a policy of all clusters another driver."""
    policy = folder / "policies" / "storage.yaml"
    policy.write_text(policy.read_text().replace("version: 2.2.0", "version: 2.3.0"))


class Repositories:
    """Two repositories of one work tree, each with a bare one to push to, and the table of what git takes in them."""

    def __init__(self, top: Path) -> None:
        self.rows: list[Sequence[str]] = []
        self.folder = top / "work"
        project(self.folder, CLUSTERS, NODES)
        self.environments = tuple(
            {**os.environ, "GIT_DIR": str(top / name / ".git"), "GIT_WORK_TREE": str(self.folder)}
            for name in ("plain", "many")
        )
        for environment in self.environments:
            Path(environment["GIT_DIR"]).parent.mkdir()
            self._git(environment, "init", "--quiet", "--initial-branch=main")
            origin = f"{environment['GIT_DIR']}/../origin.git"
            bare = {name: value for name, value in environment.items() if not name.startswith("GIT_")}
            self._git(bare, "init", "--quiet", "--bare", "--initial-branch=main", origin)
            for key, value in (*SETTINGS, ("remote.origin.url", origin)):
                self._git(environment, "config", key, value)
        self._git(self.environments[1], "config", _MANY, "true")

    def step(self, name: str, *command: str, runs: int = 1) -> None:
        """Run a command of git in both in turn, and add the fewest seconds to the table."""
        costs = [
            [processes.run(("git", *command), self.folder, environment) for environment in self.environments]
            for _ in range(runs)
        ]
        self.add(name, *(f"{min(cost.wall_s for cost in own):.2f} s" for own in zip(*costs, strict=True)))

    def add(self, *row: str) -> None:
        """Add a row to the table, and show it."""
        self.rows.append(row)
        print(*row, sep=" | ", file=sys.stderr, flush=True)

    def commit(self, what: str) -> None:
        """Compile, and add to the table what a person and a job do next."""
        subprocess.run((*processes.KAE, "compile", "-q"), cwd=self.folder, check=True)
        self.step(f"{what}: status", "status", "--short")
        self.step(f"{what}: add", "add", "--all", "--", "policies", "inventory", "output", ".gitattributes")
        changes = (self._git(each, "diff", "--cached", "--shortstat").strip() for each in self.environments)
        self.add(f"{what}: the change", *changes)
        self.step(f"{what}: diff --cached --stat", "diff", "--cached", "--stat", runs=processes.RUNS)
        self.step(f"{what}: commit", "commit", "--quiet", "-m", what)
        self.step(f"{what}: push", "push", "--quiet", "origin", "HEAD:refs/heads/main")
        self.step(f"{what}: status afterwards", "status", "--short", runs=processes.RUNS)

    def end(self) -> None:
        """Add to the table what a job clones, and the repository before and after a clean-up."""
        for name, options in (("clone", ()), ("clone --depth 1", ("--depth", "1"))):
            walls = []
            for environment in self.environments:
                home = Path(environment["GIT_DIR"]).parent
                command = ("git", "clone", "--quiet", "--no-local", *options, "origin.git", name)
                walls.append(processes.run(command, home).wall_s)
            self.add(name, *(f"{wall:.2f} s" for wall in walls))
        self.sizes("as loose objects")
        self.step("gc", "gc", "--quiet")
        self.sizes("packed")

    def sizes(self, what: str) -> None:
        """Add the size of the repositories to the table."""
        found = []
        for environment in self.environments:
            files = (path for path in Path(environment["GIT_DIR"], "objects").rglob("*") if path.is_file())
            found.append(f"{sum(path.stat().st_size for path in files) / 1e6:.1f} MB")
        self.add(f"objects of git, {what}", *found)

    def _git(self, environment: Mapping[str, str], *command: str) -> str:
        own = ("git", *command)
        done = subprocess.run(own, cwd=self.folder, env=environment, check=True, capture_output=True, encoding="utf-8")
        return done.stdout


def main() -> None:
    """Measure in a temporary folder."""
    os.environ["PYTHONPATH"] = str(_HERE)
    with tempfile.TemporaryDirectory() as name:
        both = Repositories(Path(name))
        both.commit("first commit")
        change_a_cluster(both.folder)
        both.commit("one cluster changed")
        change_a_policy(both.folder)
        both.commit("a policy of all changed")
        both.end()
        count = sum(1 for _ in (both.folder / "output").rglob("*.yaml"))
    head = (f"{CLUSTERS} clusters of {NODES} nodes, {count} files of YAML", "git as it is", _MANY)
    print(tabulate.tabulate(both.rows, headers=head, tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
