"""Figures of many watchers: `python -m benchmarks.watchers`.

WATCHERS watchers have something to commit within SECONDS, on one branch or on a branch each. They are threads that run
the watcher's own `Repository.publish` against a real bare repository with real git; nodes and API servers are left out.
"""

import os
import random
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tabulate

from runtime import errors
from watcher.git import credentials, repository

WATCHERS = int(os.environ.get("WATCHERS", "200"))
SECONDS = float(os.environ.get("SECONDS", "300"))
"""By default as many seconds as lie between two commits of a watcher."""
SIZE = int(os.environ.get("SIZE", "50000"))
"""Bytes of an inventory: some 500 nodes."""


@dataclass(frozen=True, slots=True)
class Push:
    """The outcome of one watcher."""

    delay_s: float
    races: int
    failure: str | None


class Fleet:
    """A bare repository, and the watchers that write to it."""

    def __init__(self, folder: Path, *, together: bool) -> None:
        self.folder, self.together = folder, together
        self.bare = folder / "inventory.git"
        self._git("init", "--quiet", "--bare", "--initial-branch=main", str(self.bare))
        tree = self._git("mktree", data="")
        names = ["main", *(self._branch(number) for number in range(WATCHERS))]
        commit = self._git("-c", "user.name=x", "-c", "user.email=x@x", "commit-tree", tree, "-m", "Begin")
        for name in dict.fromkeys(names):
            self._git("update-ref", f"refs/heads/{name}", commit)

    def pushes(self) -> Sequence[Push]:
        """Return the outcome of every watcher, each at a random moment."""
        found: list[Push] = []
        moments = random.Random(0)  # noqa: S311 - both ways get the same moments
        begin = time.monotonic()

        def push(number: int, at_s: float) -> None:
            found.append(self._push(number, begin + at_s))

        threads = [
            threading.Thread(target=push, args=(number, moments.uniform(0, SECONDS))) for number in range(WATCHERS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found

    def commits(self) -> int:
        """Return the commits of the watchers in the repository."""
        return int(self._git("rev-list", "--count", "--all")) - 1

    def _push(self, number: int, moment_s: float) -> Push:
        target = repository.Target(
            url=f"file://{self.bare}",
            branch=self._branch(number),
            path=f"inventory/cluster-{number}.json",
            author="kae-watcher <kae-watcher@localhost>",
        )
        secrets = credentials.Secrets(repository=self.folder, signing=None)

        def decide(found: repository.Found) -> repository.Change:
            found.messages()  # The guard of losses asks the server for the last day's commits.
            return change

        own = repository.Repository(target, self.folder / f"watcher-{number}", secrets, threading.Event())
        change = repository.Change(content=random.Random(number).randbytes(SIZE), message="inventory")  # noqa: S311
        time.sleep(max(0.0, moment_s - time.monotonic()))
        failure = None
        try:
            own.publish(decide)
        except errors.Failure as error:
            failure = str(error)
        return Push(time.monotonic() - moment_s, own.races, failure)

    def _branch(self, number: int) -> str:
        return "main" if self.together else f"inventory/cluster-{number}"

    def _git(self, *words: str, data: str | None = None) -> str:
        command = ["git", *words] if words[0] == "init" else ["git", "-C", str(self.bare), *words]
        return subprocess.run(command, input=data, check=True, capture_output=True, text=True).stdout.strip()


def measured(*, together: bool) -> tuple[str, ...]:
    """Return the row of one way."""
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder), together=together)
        pushes = fleet.pushes()
        commits = fleet.commits()
    delays = sorted(push.delay_s for push in pushes)
    tries = len(pushes) + sum(push.races for push in pushes)
    return (
        "one branch" if together else "a branch each",
        str(commits),
        str(sum(push.failure is not None for push in pushes)),
        f"{tries / max(1, commits):.2f}",
        f"{delays[len(delays) // 2]:.1f} s",
        f"{delays[min(len(delays) - 1, len(delays) * 99 // 100)]:.1f} s",
    )


def main() -> None:
    """Print the table."""
    heads = ("way", "commits", "failed", "tries a commit", "median of the delay", "p99 of the delay")
    print(f"{WATCHERS} watchers within {SECONDS:.0f} s, {os.cpu_count()} processors")
    print(tabulate.tabulate([measured(together=way) for way in (True, False)], headers=heads, tablefmt="github"))


if __name__ == "__main__":
    main()
