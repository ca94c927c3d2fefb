"""One project compiled in all ways, which must not differ in bytes, in findings or in exit codes."""

import hashlib
import itertools
import json
import multiprocessing
import random
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from compiler.project.by_cluster import workers
from tests import in_process, project
from tests.property import campaign
from tests.property.divided import fleet
from tests.property.walk import steps

FORMATS = ((), ("-o", "json"), ("--format", "json"), ("--format", "github"), ("--format", "sarif"))
SECONDS = 60
"""The time that a call may take; it takes a twentieth of a second."""


def judged(seed: int, top: Path, counts: Sequence[int] = (1, 2, 3, 5)) -> campaign.Result:
    """Make the project of a seed in an empty folder, and compile it in all ways, by these numbers of shards."""
    acts = fleet.prepare(seed, top / "project")
    draw = random.Random(seed)  # noqa: S311 - a test's choice
    trial = _Trial(top, draw.choice(FORMATS), draw)
    faults = list(trial.faults((), counts))
    codes = [trial.plain.code]
    if scopes := steps.SCOPE.findall(trial.findings.out):
        faults += trial.faults([part for scope in scopes for part in ("--accept", scope)], counts[-1:])
        codes.append(trial.plain.code)
    ends = Counter({"fleets": 1, f"exit codes {', '.join(map(str, codes))}": 1})
    return campaign.Result(seed=seed, acts=tuple(acts), counts=ends, faults=faults)


def called(folder: Path, *arguments: str) -> in_process.Answer:
    """Run `kae` in a process of its own, which starts others for fleets of any size."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)

    def run() -> None:
        workers._PAYS = 1
        theirs.send(in_process.kae(folder, *arguments))

    process = context.Process(target=run)
    process.start()
    theirs.close()
    try:
        answer: in_process.Answer = ours.recv() if ours.poll(SECONDS) else in_process.Answer(-1, "", "it hangs")
    except EOFError:
        answer = in_process.Answer(-1, "", "it dies")
    process.kill() if answer.code < 0 else process.join()
    return answer


def _tree(folder: Path) -> dict[str, tuple[int, str]]:
    """Return the mode and the digest of every file of the output."""
    output = folder / "output"
    return {
        name: ((output / name).stat().st_mode, hashlib.sha256(content).hexdigest())
        for name, content in sorted(project.tree(output).items())
    }


class _Trial:
    """The compiles of one project, each in a copy of its folder."""

    def __init__(self, top: Path, form: Sequence[str], draw: random.Random) -> None:
        self._top, self._form, self._draw = top, form, draw
        self._numbers = itertools.count()

    def _copy(self) -> Path:
        return Path(shutil.copytree(self._top / "project", self._top / str(next(self._numbers)), symlinks=True))

    def faults(self, accepted: Sequence[str], counts: Sequence[int]) -> Iterator[str]:
        """Yield where another way differs from a compile by one process, with these removals accepted."""
        self._accepted = accepted
        self.one = self._copy()
        self.plain = called(self.one, "compile", "--jobs", "1", *self._form, *accepted)
        self.again = called(self.one, "compile", "--jobs", "1", *self._form)
        self.wanted = _tree(self.one)
        self.findings = called(self._copy(), "compile", "--jobs", "1", "--format", "json", *accepted)
        if self.plain.code not in (0, 1, 3) or "Traceback" in self.plain.err:
            yield f"--jobs 1 ends with {self.plain}"
        if self.plain.code and self.wanted != _tree(self._top / "project"):
            yield f"--jobs 1 ends with {self.plain.code} and writes"
        if not self.plain.code and not accepted:
            yield from self._missing()
        for jobs in ("2", "5"):
            yield from self._by_processes(jobs)
        for count in counts:
            yield from self._by_shards(count)
        yield from self._checks(counts[-1])

    def _missing(self) -> Iterator[str]:
        """Yield the clusters that a compile without an error leaves out."""
        for path in (self.one / "inventory").iterdir():
            if f"{path.stem}/index.json" not in self.wanted:
                yield f"--jobs 1 ends with 0 and writes nothing for {path.stem}"

    def _by_processes(self, jobs: str) -> Iterator[str]:
        folder = self._copy()
        answer = called(folder, "compile", "--jobs", jobs, *self._form, *self._accepted)
        yield from _differences(f"--jobs {jobs}", answer, self.plain)
        if _tree(folder) != self.wanted:
            yield f"--jobs {jobs}: other bytes"
        yield from _differences(f"again after --jobs {jobs}", called(folder, "compile", *self._form), self.again)

    def _by_shards(self, count: int) -> Iterator[str]:
        folder, files = self._copy(), []
        answers = [self._shard(folder, index, count) for index in self._shuffled(count)]
        codes = {answer.code for answer in answers}
        if self.plain.code == 3 and 3 not in codes:
            yield f"{count} shards end with {codes} instead of 3"
        if 3 in codes:
            return  # Such a shard leaves no findings, also where another one stops the compile of all clusters.
        files = [f"../{folder.name}-{index}" for index in self._shuffled(count)]
        merged = called(folder, "merge-findings", "--format", "json", *files)
        if self._is_alone(merged):
            return
        if (merged.code, merged.out) != (self.findings.code, self.findings.out):
            yield f"{count} shards end with {merged.code} instead of {self.findings.code}: {merged.err}"
            yield from _other_findings(merged.out, self.findings.out)
        if self.plain.code == 0 and _tree(folder) != self.wanted:
            yield f"{count} shards: other bytes"

    def _shard(self, folder: Path, index: int, count: int, *more: str) -> in_process.Answer:
        jobs = self._draw.choice(("1", "2", "5"))
        own = ("--shard", f"{index}/{count}", "--findings", f"../{folder.name}-{index}", "--jobs", jobs)
        return called(folder, "compile", *own, *self._accepted, *more)

    def _shuffled(self, count: int) -> list[int]:
        return self._draw.sample(range(count), count)

    def _is_alone(self, merged: in_process.Answer) -> bool:
        """Return whether there is no verdict as only the shard of an empty inventory knows that its cluster is none."""
        empty = any(not path.stat().st_size for path in (self.one / "inventory").iterdir())
        return empty and "shards have stopped before" in merged.err

    def _checks(self, count: int) -> Iterator[str]:
        folder = self._copy()
        plain = called(folder, "compile", "--check", "--jobs", "1", "--no-cache", *self._form)
        answer = called(folder, "compile", "--check", "--jobs", "3", "--no-cache", *self._form)
        yield from _differences("--check --jobs 3", answer, plain)
        for index in self._shuffled(count):
            self._shard(folder, index, count, "--check")
        merged = called(folder, "merge-findings", *(f"../{folder.name}-{index}" for index in range(count)))
        if merged.code != plain.code and not self._is_alone(merged):
            yield f"--check by {count} shards ends with {merged.code} instead of {plain.code}: {merged.err}"


def _differences(way: str, answer: in_process.Answer, plain: in_process.Answer) -> Iterator[str]:
    if answer.code != plain.code:
        yield f"{way} ends with {answer.code} instead of {plain.code}: {answer.err}"
    for name, said, wanted in (("output", answer.out, plain.out), ("error", answer.err, plain.err)):
        if said != wanted:
            lines = [line for line in said.splitlines() if line not in wanted.splitlines()]
            more = [line for line in wanted.splitlines() if line not in said.splitlines()]
            yield f"{way}: standard {name} has {lines[:3]} instead of {more[:3]}"


def _other_findings(said: str, wanted: str) -> Iterator[str]:
    try:
        ours, theirs = (json.loads(text)["diagnostics"] for text in (said, wanted))
    except ValueError:
        return
    for item in ours:
        if item not in theirs:
            yield f"  more: {item['code']}: {item['file']}: {item['message']}"
    for item in theirs:
        if item not in ours:
            yield f"  less: {item['code']}: {item['file']}: {item['message']}"
