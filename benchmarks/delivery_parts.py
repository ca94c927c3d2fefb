"""The measured parts of `benchmarks.delivery`: `python -m benchmarks.delivery_parts > benchmarks/delivery_parts.json`.

Real compiles and real git, of repositories with each number of SIZES clusters of NODES nodes, with bare repositories on
the same disk. Seconds are of processors, client and server together, so that other work of the machine counts little;
those of processes that race are of a clock. The network of a git host is in no figure.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from benchmarks import fleets, git_time, processes, watchers
from watcher.git import credentials, repository

SIZES = tuple(int(word) for word in os.environ.get("SIZES", "10,100,1000").split(","))
NODES = int(os.environ.get("NODES", "1000"))
BRANCHES, HISTORY = 5, 60
"""Branches of watchers, and the commits of each, of which a fetch is measured."""

_HERE = Path(__file__).resolve().parents[1]


class Sized(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds in a repository of a number of clusters."""

    clusters: int
    files: int
    compile_s: float
    """Of all clusters, without a cache."""
    tenth_s: float
    """Of one of ten shards."""
    again_s: float
    """Of all clusters, where the cache knows them."""
    check_s: float
    """`kae compile --check` of all clusters, without a cache."""
    diff_s: float
    """`kae diff` of another driver for a policy of all clusters."""
    clone_s: float
    """With `--depth 1`."""
    clone_mb: float
    history_s: float
    """The rest of the history of 3 commits, as ci/compile.sh fetches it."""
    commit_s: float
    """`git add` of the folder and `git commit`, where one cluster has changed."""
    push_s: float
    fetch_s: float
    """A new commit with one cluster."""
    checkout_s: float
    """Of that commit, and the `git clean` that Argo CD runs behind it."""
    compare_s: float
    """Naming the files that differ between two commits."""


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """All measured parts."""

    nodes: int
    """Of a cluster."""
    sized: tuple[Sized, ...]
    watcher_s: float
    """A watcher's commit: look, fetch, messages of the last day, commit, push."""
    look_s: float
    """`git ls-remote` of a repository with a branch for each cluster."""
    inventory_s: float
    """`kae inventory` of one cluster, as ci/inventories.sh takes it."""
    kustomize_s: float
    """What Argo CD and Flux do with the folder of one cluster."""
    branch_s: float
    """The fetch of a watcher's newest commit."""
    branch_mb: float
    older_s: float
    """The fetch of each of its older commits."""
    older_mb: float


def cpu(folder: Path, *command: str, runs: int = 2) -> float:
    """Return the fewest seconds of processors that a command takes."""
    return round(min(processes.run(command, folder).cpu_s for _ in range(runs)), 3)


def git(folder: Path, *words: str) -> str:
    """Return the output of git."""
    done = subprocess.run(("git", *words), cwd=folder, check=True, capture_output=True, encoding="utf-8")  # noqa: S607 - the user's
    return done.stdout.strip()


def megabytes(clone: Path) -> float:
    """Return the size of the objects of a clone."""
    files = (path for path in (clone / ".git" / "objects").rglob("*") if path.is_file())
    return round(sum(path.stat().st_size for path in files) / 1e6, 2)


def _settled(folder: Path) -> None:
    for key, value in git_time.SETTINGS:
        git(folder, "config", key, value)


def _compiled(folder: Path, *words: str) -> float:
    """Return the seconds of a compile without a cache; output/ stays where it is compared."""
    shutil.rmtree(folder / ".kae_cache", ignore_errors=True)
    return round(processes.run((*processes.KAE, "compile", "-q", "--no-cache", *words), folder).cpu_s, 3)


def sized(top: Path, count: int) -> Sized:
    """Measure a repository of so many clusters."""
    work, bare = top / "work", top / "bare.git"
    git_time.project(work, count, NODES)
    compile_s = _compiled(work)
    shutil.copytree(work / "output", top / "kept")
    shutil.rmtree(work / "output")
    tenth_s = _compiled(work, "--shard", "0/10")
    shutil.rmtree(work / "output")
    (top / "kept").rename(work / "output")
    check_s = _compiled(work, "--check")
    git(top, "init", "-q", "--bare", "--initial-branch=main", str(bare))
    git(work, "init", "-q", "--initial-branch=main")
    _settled(work)
    git(work, "remote", "add", "origin", f"file://{bare}")
    _committed(work, "first")
    git(work, "push", "-q", "origin", "main")
    git(bare, "gc", "-q")
    git(top, "clone", "-q", f"file://{bare}", "seen")
    git_time.change_a_policy(work)
    # The output of both is compared with the commit; the documents are enough for that.
    diff_s = cpu(work, *processes.KAE, "diff", "HEAD", runs=1)
    git(work, "checkout", "-q", "--", ".")
    git_time.change_a_cluster(work)
    subprocess.run((*processes.KAE, "compile", "-q"), cwd=work, check=True)
    again_s = cpu(work, *processes.KAE, "compile", "-q", runs=1)
    commit_s = cpu(work, "git", "add", "--all", "--force", "--", "output", "policies", runs=1)
    commit_s += cpu(work, "git", "commit", "-q", "-m", "one", runs=1)
    push_s = cpu(work, "git", "push", "-q", "origin", "main", runs=1)
    seen = top / "seen"
    fetch_s = cpu(seen, "git", "fetch", "-q", "origin", runs=1)
    checkout_s = cpu(seen, "git", "checkout", "-q", "--force", "origin/main", runs=1)
    checkout_s += cpu(seen, "git", "clean", "-q", "-ffdx")
    compare_s = cpu(seen, "git", "diff", "--name-only", "origin/main^", "origin/main")
    clone_s = cpu(top, "git", "clone", "-q", "--depth", "1", f"file://{bare}", "shallow", runs=1)
    clone_mb = megabytes(top / "shallow")
    history_s = cpu(top / "shallow", "git", "fetch", "-q", "--unshallow", "origin", runs=1)
    return Sized(
        clusters=count,
        files=git(work, "ls-files").count("\n") + 1,
        compile_s=compile_s,
        tenth_s=tenth_s,
        again_s=again_s,
        check_s=check_s,
        diff_s=diff_s,
        clone_s=clone_s,
        clone_mb=clone_mb,
        history_s=history_s,
        commit_s=round(commit_s, 3),
        push_s=push_s,
        fetch_s=fetch_s,
        checkout_s=round(checkout_s, 3),
        compare_s=compare_s,
    )


def _committed(work: Path, message: str) -> None:
    git(work, "add", "--all", "--force", "--", "policies", "inventory", "output", ".gitattributes")
    git(work, "commit", "-q", "-m", message)


def watched(top: Path, branches: int) -> tuple[float, float]:
    """Return the seconds of a watcher's commit and of a look, in a repository of so many branches."""
    watchers.WATCHERS = branches
    fleet = watchers.Fleet(top, together=False)
    target = repository.Target(
        url=f"file://{fleet.bare}", branch="inventory/cluster-0", path="inventory/cluster-0.json", author="x <x@x>"
    )
    own = repository.Repository(
        target, top / "scratch", credentials.Secrets(repository=top, signing=None), threading.Event()
    )
    text = _inventory(top)
    took = []
    for number in range(5):
        content = text.replace(b'"rack0000"', f'"rack{number + 100}"'.encode())

        def decide(found: repository.Found, content: bytes = content) -> repository.Change:
            found.messages()
            return repository.Change(content=content, message="inventory")

        began = os.times()
        own.publish(decide)
        ended = os.times()
        took.append(sum(ended[:4]) - sum(began[:4]))
    return round(min(took), 3), cpu(top, "git", "ls-remote", f"file://{fleet.bare}", "refs/heads/inventory/cluster-1")


def _inventory(top: Path) -> bytes:
    (top / "one").mkdir()
    path = top / "one" / "cluster-000.json"
    fleets.reduced(NODES, path)
    return path.read_bytes()


def histories(top: Path) -> Mapping[str, float]:
    """Return what a fetch of the branches of watchers takes, for a newest commit and for each older one."""
    text, bare = _inventory(top), top / "histories.git"
    git(top, "init", "-q", "--bare", str(bare))
    stream = [
        b"commit refs/heads/inventory/%d\ncommitter x <x@x> %d +0000\ndata 9\ninventory\n"
        b"M 100644 inline inventory/%d.json\ndata %d\n%b\n" % (branch, 10**9 + age, branch, len(content), content)
        for branch in range(BRANCHES)
        for age in range(HISTORY)
        for content in [_aged(text, branch, age)]
    ]
    subprocess.run(("git", "-C", str(bare), "fast-import", "--quiet"), input=b"".join(stream), check=True)  # noqa: S607 - the user's
    git(bare, "gc", "-q")
    costs = []
    for number, depth in enumerate(("--depth=1", "--no-tags")):
        own = top / f"fetched-{number}"
        git(top, "init", "-q", str(own))
        seconds = cpu(own, "git", "fetch", "-q", depth, f"file://{bare}", "+refs/heads/inventory/*:refs/kae/*", runs=1)
        costs.append((seconds, megabytes(own)))
    (new_s, new_mb), (all_s, all_mb) = costs
    older = BRANCHES * (HISTORY - 1)
    return {
        "branch_s": round(new_s / BRANCHES, 4),
        "branch_mb": round(new_mb / BRANCHES, 4),
        "older_s": round((all_s - new_s) / older, 6),
        "older_mb": round((all_mb - new_mb) / older, 6),
    }


def _aged(text: bytes, branch: int, age: int) -> bytes:
    """Return an inventory as it was once: each commit moves one node to another rack."""
    lines = text.replace(b'"cluster-000"', b'"%d"' % branch).split(b"\n")
    for step in range(age + 1):
        place = 2 + step * 37 % (len(lines) - 4)
        lines[place] = lines[place].replace(b'zone":"rack0', b'zone":"rack1')
    return b"\n".join(lines)


def measured(sizes: Sequence[int]) -> Parts:
    """Measure all parts, each in a folder of its own that goes with it."""
    found = []
    for count in sizes:
        with tempfile.TemporaryDirectory() as name:
            found.append(sized(Path(name), count))
            print(found[-1], file=sys.stderr, flush=True)
            if count == sizes[0]:
                work = Path(name) / "work"
                kubectl = str(Path(sys.executable).with_name("kubectl"))
                kustomize_s = cpu(work / "output" / "cluster-000", kubectl, "kustomize", ".", runs=5)
                taken = '"$@" < inventory/cluster-000.json'
                kae = (*processes.KAE, "inventory", "--cluster", "cluster-000")
                inventory_s = cpu(work, "sh", "-c", taken, "sh", *kae, runs=5)
    with tempfile.TemporaryDirectory() as name:
        watcher_s, look_s = watched(Path(name), sizes[-1])
    with tempfile.TemporaryDirectory() as name:
        more = histories(Path(name))
    return Parts(
        nodes=NODES,
        sized=tuple(found),
        watcher_s=watcher_s,
        look_s=look_s,
        inventory_s=inventory_s,
        kustomize_s=kustomize_s,
        **more,
    )


def main() -> None:
    """Measure in temporary folders, and print the parts."""
    os.environ["PYTHONPATH"] = str(_HERE)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    print(msgspec.json.format(msgspec.json.encode(measured(SIZES)), indent=2).decode())


if __name__ == "__main__":
    main()
