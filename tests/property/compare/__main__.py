"""Compare two checkouts by random fleets and edits of them, by the golden projects and by those of tests/failures."""

import argparse
import contextlib
import functools
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tabulate

from tests.failures import cases
from tests.property import campaign
from tests.property.compare import differences, projects

_SIDES = ("before", "after")
_DATES = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), "2026-01-01T00:00:00Z")
"""Commits of a case have one id in both checkouts."""

Worker = subprocess.Popen[str]
Work = tuple[str, str, Callable[[Path], None]]
"""Options to compare a project again and its name, the case that it is of, and how to write it."""


def main() -> int:
    """Return 1 where something differs that may not."""
    parser = argparse.ArgumentParser(prog="python -m tests.property.compare", description=__doc__)
    parser.add_argument(_SIDES[0], type=Path, help="a checkout")
    parser.add_argument(_SIDES[1], type=Path, help="another checkout")
    parser.add_argument("--only", choices=(*projects.KINDS, "golden", "failures"), help="only such projects")
    parser.add_argument("--count", type=int, default=500, help="how many fleets (default: 500)")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first fleet; each has the next one")
    parser.add_argument("--allow", action="append", default=[], metavar="SORT", help="a sort's beginning, as 'config '")
    parser.add_argument("--keep", type=Path, help="the folder for the first example of each sort")
    chosen = parser.parse_args()
    tally = Tally(chosen.keep or Path(tempfile.mkdtemp(prefix="kae-compare-")))
    workers = [_worker(folder.resolve()) for folder in (chosen.before, chosen.after)]
    with contextlib.suppress(KeyboardInterrupt):  # It ends the run with the counts so far.
        for work in _work(chosen):
            campaign.in_memory(functools.partial(_compared, workers, tally), work)
    for worker in workers:
        worker.communicate()
    return tally.told(tuple(chosen.allow))


def _work(chosen: argparse.Namespace) -> Iterator[Work]:
    if chosen.only in (None, "failures"):
        yield from (("--only failures", case, lambda _: None) for case in cases.CASES)
    if chosen.only in (None, "golden"):
        yield from (
            (f"--only golden {root.name}", "", functools.partial(projects.golden, root)) for root in projects.GOLDEN
        )
    for seed in range(chosen.seed, chosen.seed + chosen.count):
        kind = chosen.only or projects.KINDS[seed % len(projects.KINDS)]
        if kind in projects.KINDS:
            yield f"--only {kind} --seed {seed} --count 1", "", functools.partial(projects.drawn, seed, kind)


def _worker(checkout: Path) -> Worker:
    command = (sys.executable, "-P", str(Path(__file__).with_name("worker.py")))
    environment = {**os.environ, **_DATES, "PYTHONPATH": str(checkout)}
    return subprocess.Popen(
        command,
        cwd=checkout,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for this process alone.
    )


def _compared(workers: Sequence[Worker], tally: "Tally", work: Work, top: Path) -> None:
    """Have both workers answer for a project at once, and count what is equal and what differs."""
    again, case, write = work
    (top / "project").mkdir()
    write(top / "project")
    for side, worker in zip(_SIDES, workers, strict=True):
        shutil.copytree(top / "project", top / side)
        print(json.dumps((str(top / side), case)), file=worker.stdin, flush=True)
    answers: list[Any] = [json.loads(worker.stdout.readline()) for worker in workers if worker.stdout]
    trees = [[top / side / revision / "output" for revision in ("first", "second")] for side in _SIDES]
    found = [differences.of_answers(*both) for both in zip(*answers, strict=True)]
    found += [differences.of_trees(*both) for both in zip(*trees, strict=True)]
    tally.add(itertools.chain(*found), f"{again} {case}".rstrip(), top)


class Tally:
    """What was equal and what differed, and the sorts of differences."""

    def __init__(self, keep: Path) -> None:
        """Take the folder for projects that are the first example of a sort."""
        keep.mkdir(parents=True, exist_ok=True)
        self._keep = keep
        self._things: defaultdict[str, Counter[bool]] = defaultdict(Counter)
        self._sorts: Counter[str] = Counter()

    def add(self, found: Iterator[differences.Compared], again: str, top: Path) -> None:
        """Count what was found in a project; print and keep the first example of each sort."""
        folder = self._keep / again.replace("--", "").replace(" ", "-")
        for what, differing in found:
            self._things[what][bool(differing)] += 1
            for sort, *values in (each for each in differing if each.sort):
                if sort not in self._sorts:
                    before, after = (str(value)[:240] for value in values)
                    _say(f"{sort}\n    first in {again}\n    - {before}\n    + {after}")
                    # Python copies no pipe, of which a case has one.
                    if not folder.exists():
                        subprocess.run(("cp", "-a", str(top), str(folder)), check=True)
                self._sorts[sort] += 1

    def told(self, allowed: tuple[str, ...]) -> int:
        """Print the counts; return 1 where a sort is not allowed."""
        sorts = [(sort, count, "yes" * sort.startswith(allowed)) for sort, count in sorted(self._sorts.items())]
        if sorts:
            _say(f"\n{tabulate.tabulate(sorts, headers=('difference', 'times', 'allowed'), intfmt=',')}")
            _say(f"Examples are in {self._keep}.")
        things = [(what, counts[False], counts[True]) for what, counts in sorted(self._things.items())]
        _say(f"\n{tabulate.tabulate(things, headers=('what', 'equal', 'differing'), intfmt=',')}")
        return 1 if any(not sort.startswith(allowed) for sort in self._sorts) else 0


def _say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
