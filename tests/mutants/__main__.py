"""Make mutants of the programs, and print those that the tests do not notice."""

import argparse
import concurrent.futures
import json
import os
import queue
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.mutants import places, workspace

_ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Try the mutants and return 0: survivors are for people to judge, as some change nothing that can be seen."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=64, help="how many mutants")
    parser.add_argument("--seed", type=int, default=0, help="other seeds pick other mutants")
    parser.add_argument("--minutes", type=float, default=60, help="when no further mutant is tried")
    parser.add_argument("--suite", choices=(*workspace.SUITES, "both"), default="both")
    parser.add_argument("--checkout", type=Path, default=_ROOT, help="another checkout, which is set up")
    parser.add_argument("--among", type=Path, metavar="FILE", help="those mutants that this file names, one a line")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--as-root", action="store_true", help="on a machine that may be thrown away")
    chosen = parser.parse_args()
    if os.geteuid() == 0 and not chosen.as_root:
        parser.error("a mutant of a program that changes hosts may change this one: run as another user, or --as-root")
    ends_s = time.monotonic() + 60 * chosen.minutes
    if chosen.among:
        try:
            mutants = places.named(chosen.checkout, chosen.among.read_text().splitlines())
        except KeyError as error:
            parser.error(f"{chosen.among}: no mutant is {error}")
    else:
        mutants = places.picked(chosen.checkout, chosen.count, chosen.seed)
    _say(f"{len(mutants)} mutants{'' if chosen.among else f' of seed {chosen.seed}'}")
    with tempfile.TemporaryDirectory(prefix="kae-mutants-") as folder:
        spaces = [workspace.Workspace(chosen.checkout, Path(folder, str(number))) for number in range(chosen.jobs)]
        alive: Sequence[places.Mutant] = mutants
        for suite in workspace.SUITES if chosen.suite == "both" else (chosen.suite,):
            reach = spaces[0].probe(mutants, suite)
            results = _tried(spaces, {mutants.index(mutant): mutant for mutant in alive}, reach, suite, ends_s)
            untried = len(alive) - len(results)
            killed = sum(results.values())
            _say(f"{suite}: {killed} of {len(results)} killed" + (f", {untried} not tried" if untried else ""))
            alive = [mutant for mutant in alive if not results.get(mutant)]
    for mutant in alive:
        _say(f"alive: {mutant}")
    return 0


def _tried(
    spaces: Iterable[workspace.Workspace],
    mutants: Mapping[int, places.Mutant],
    reach: workspace.Reach,
    suite: str,
    ends_s: float,
) -> Mapping[places.Mutant, bool]:
    """Return of each mutant whether a suite kills it; those for which no time was left are missing."""
    free: queue.SimpleQueue[workspace.Workspace] = queue.SimpleQueue()
    for space in spaces:
        free.put(space)

    def tried(number: int, mutant: places.Mutant) -> bool | None:
        if time.monotonic() > ends_s:
            return None
        space = free.get()
        try:
            killed = any(
                space.kills(mutant, tests, suite, sum(reach.seconds[test] for test in tests))
                for tests in _turns(mutant, reach.tests.get(number, ()), reach)
                if tests
            )
        finally:
            free.put(space)
        record = {"suite": suite, "mutant": str(mutant), "killed": killed, "tests": len(reach.tests.get(number, ()))}
        _say(json.dumps(record))
        return killed

    with concurrent.futures.ThreadPoolExecutor(free.qsize()) as pool:
        answers = pool.map(lambda item: tried(*item), mutants.items())
        return {mutant: killed for mutant, killed in zip(mutants.values(), answers, strict=True) if killed is not None}


def _turns(mutant: places.Mutant, reaching: Sequence[str], reach: workspace.Reach) -> Iterable[Sequence[str]]:
    """Yield the tests that come to a mutant's place, and then those that may live on what another test made there."""
    yield reaching[:40]
    yield reaching[40:]
    known = set(reaching)
    files = {test.partition("::")[0] for test in reaching}
    package, _, _ = mutant.file.removesuffix(".py").rpartition("/")
    mirrored = f"tests/{package}/test_"
    yield [
        test
        for test in sorted(reach.seconds, key=reach.seconds.__getitem__)
        if test not in known and (test.partition("::")[0] in files or test.startswith(mirrored))
    ]


def _say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
