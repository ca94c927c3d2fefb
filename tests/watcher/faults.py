"""Seeded faults against a watcher: `python -m tests.watcher.faults --count 500`.

A real process, real signals, a real repository behind a web server, and an API server that fails as it is told. After
each fault the branch must soon show the cluster as it is, each of its commits must hold what the cluster was, whatever
others have committed must be there, and nothing may be left over: no process, no lock, no damage, no growth.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.watcher import harms, nursery

PATIENCE_S = 10.0
"""So soon at the latest everything is right again."""


class Faults(harms.Harms):
    """The faults, one after the other."""

    def __init__(self, folder: Path, seed: int, patience_s: float = PATIENCE_S) -> None:
        super().__init__(folder, seed, patience_s)
        self.counts: Counter[str] = Counter()
        self.slowest: dict[str, float] = {}
        """The longest recovery from each fault, in seconds."""

    def run(self, count: int) -> None:
        """Inflicts so many faults, each as often as the others; raises AssertionError with what came before."""
        history = []
        with self.running():
            for fault, _ in zip(self._drawn(), range(count), strict=False):
                name = fault.__name__.strip("_")
                history.append(name)
                try:
                    fault(self)
                    began_s = time.monotonic()
                    self.settle()
                except AssertionError as error:
                    raise AssertionError(f"after {history[-5:]}, fault {len(history)}: {error}") from error
                self.counts[name] += 1
                self.slowest[name] = max(self.slowest.get(name, 0), time.monotonic() - began_s)

    def _drawn(self) -> Iterator[Callable[[harms.Harms], None]]:
        while True:
            yield from self.random.sample(harms.HARMS, len(harms.HARMS))


def table(rig: Faults) -> Iterator[str]:
    """Yield a table of the faults and their recovery, line by line."""
    yield "fault                 count  slowest recovery"
    for name, count in sorted(rig.counts.items()):
        yield f"{name:20} {count:6}  {rig.slowest[name]:8.2f} s"
    verbs = ", ".join(f"{verb} {count}" for verb, count in sorted(rig.interrupted.items()))
    seen = rig.sizes
    yield f"ended in git: {verbs}"
    yield f"{rig.chronicle.count} commits of the watcher, {rig.chronicle.seen} of others"
    yield f"{len(rig.cluster.fleeting)} states too short to be seen, of which none was committed"
    yield (
        f"at most {seen.memory >> 20} MiB of memory (in one life {seen.growth / 2**20:.1f} MiB more), "
        f"{seen.scratch >> 10} KiB of scratch, {seen.files} open files"
    )


def main() -> None:
    """Inflicts faults, and prints how many of which."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kae-") as folder:
        rig = Faults(Path(folder), options.seed)
        rig.run(options.count)
    for line in table(rig):
        sys.stdout.write(f"{line}\n")
    lasted_s = time.monotonic() - began_s
    sys.stdout.write(
        f"{rig.counts.total()} faults in {lasted_s:.0f} s, all right after each; the slowest took "
        f"{max(rig.slowest.values()):.2f} s; a quiet time is {nursery.QUIET_S:g} s\n"
    )


if __name__ == "__main__":
    main()
