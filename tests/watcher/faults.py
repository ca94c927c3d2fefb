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

from tests.watcher import fault_injection, forkserver

PATIENCE_S = 10.0
"""The longest time for a recovery."""


class Faults(fault_injection.FaultInjection):
    """A run of faults, one after the other."""

    def __init__(self, folder: Path, seed: int, patience_s: float = PATIENCE_S) -> None:
        super().__init__(folder, seed, patience_s)
        self.counts: Counter[str] = Counter()
        self.slowest: dict[str, float] = {}
        """The longest recovery from each fault, in seconds."""

    def run(self, count: int) -> None:
        """Inflict `count` faults, each as often as the others; raise AssertionError with the last ones."""
        history = []
        with self.running():
            for fault, _ in zip(self._drawn(), range(count), strict=False):
                name = fault.__name__.removeprefix("fault_")
                history.append(name)
                try:
                    fault(self)
                    began_s = time.monotonic()
                    self.settle()
                except AssertionError as error:
                    raise AssertionError(f"after {history[-5:]}, fault {len(history)}: {error}") from error
                self.counts[name] += 1
                self.slowest[name] = max(self.slowest.get(name, 0), time.monotonic() - began_s)

    def _drawn(self) -> Iterator[Callable[[fault_injection.FaultInjection], None]]:
        while True:
            yield from self.random.sample(fault_injection.FAULTS, len(fault_injection.FAULTS))


def table(testbed: Faults) -> Iterator[str]:
    yield "fault                 count  slowest recovery"
    for name, count in sorted(testbed.counts.items()):
        yield f"{name:20} {count:6}  {testbed.slowest[name]:8.2f} s"
    verbs = ", ".join(f"{verb} {count}" for verb, count in sorted(testbed.interrupted.items()))
    seen = testbed.sizes
    yield f"ended in git: {verbs}"
    yield f"{testbed.branch.count} commits of the watcher, {testbed.branch.seen} of others"
    yield f"{len(testbed.cluster.fleeting)} states too short to be seen, of which none was committed"
    yield (
        f"at most {seen.memory >> 20} MiB of memory (in one life {seen.growth / 2**20:.1f} MiB more), "
        f"{seen.scratch >> 10} KiB of scratch, {seen.files} open files"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kae-") as folder:
        testbed = Faults(Path(folder), options.seed)
        testbed.run(options.count)
    for line in table(testbed):
        sys.stdout.write(f"{line}\n")
    lasted_s = time.monotonic() - began_s
    sys.stdout.write(
        f"{testbed.counts.total()} faults in {lasted_s:.0f} s, all right after each; the slowest took "
        f"{max(testbed.slowest.values()):.2f} s; a quiet time is {forkserver.QUIET_S:g} s\n"
    )


if __name__ == "__main__":
    main()
