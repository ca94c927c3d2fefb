"""A copy of a checkout with an environment of its own, in which files are changed and pytest runs."""

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.mutants import places

PROBE = "kae_reach"
"""The name of reach.py in the environment of a copy."""

SUITES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "gate": ("not long", {}),
    "long": ("long or hypothesis or seeded", {"KAE_LONG": "1"}),
}
"""The marks and the variables of `make test` and `make test-long`."""


@dataclass(frozen=True)
class Reach:
    """The tests that come to each mutant's place, the quickest first."""

    tests: Mapping[int, Sequence[str]]
    seconds: Mapping[str, float]


class Workspace:
    """A copy of a checkout, of what git would add to a commit of it."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        """Copy the checkout's files and its environment, whose files stay the same ones on the disk."""
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        git = ("git", "-C", str(checkout))
        subprocess.run((*git, "clone", "--quiet", "--no-checkout", str(checkout), str(folder)), check=True)
        listed = subprocess.run((*git, "ls-files", "-cozd", "--exclude-standard"), check=True, capture_output=True)
        gone = subprocess.run((*git, "ls-files", "-zd"), check=True, capture_output=True).stdout.split(b"\0")
        for name in {*listed.stdout.split(b"\0"), b"compiler/_version.py", b"compiler/_templates.py"} - {b"", *gone}:
            path = os.fsdecode(name)
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(checkout / path, folder / path, follow_symlinks=False)
        subprocess.run(("git", "-C", str(folder), "reset", "--quiet"), check=True)
        self._environment((checkout / ".venv").resolve())

    def _environment(self, origin: Path) -> None:
        venv = self.folder / ".venv"
        subprocess.run(("cp", "-al", str(origin), str(venv)), check=True)
        (packages,) = venv.glob("lib/python3*/site-packages")
        for path in (*packages.glob("_kae*.pth"), *(venv / "bin").iterdir()):
            if path.is_symlink() or (path.suffix != ".pth" and not path.read_bytes().startswith(b"#!/")):
                continue
            text, mode = path.read_bytes(), path.stat().st_mode
            path.unlink()  # The same file on the disk is also the origin's.
            path.write_bytes(text.replace(os.fsencode(origin.parent), os.fsencode(self.folder)))
            path.chmod(mode)
        self.records = packages / "kae_reached"
        self.records.mkdir(exist_ok=True)
        shutil.copy(Path(__file__).with_name("reach.py"), packages / f"{PROBE}.py")

    def probe(self, mutants: Sequence[places.Mutant], suite: str) -> Reach:
        """Run a suite with a probe at each mutant's place."""
        texts = {mutant.file: (self.folder / mutant.file).read_bytes() for mutant in mutants}
        for file, text in texts.items():
            here = {number: mutant for number, mutant in enumerate(mutants) if mutant.file == file}
            self._write(file, probed(text, here))
        for record in self.records.iterdir():
            record.unlink()
        mark, _ = SUITES[suite]
        self._pytest(("-n", "auto", "--dist", "worksteal", "-m", mark), suite, limit_s=3600)
        for file, text in texts.items():
            self._write(file, text)
        seconds: dict[str, float] = {}
        failed = set()
        for test, duration, outcome in self._records("tests"):
            seconds[test] = seconds.get(test, 0) + duration
            if outcome == "failed":
                failed.add(test)
        tests: dict[int, set[str]] = {}
        for number, test in self._records("hits"):
            if test in seconds and test not in failed:
                tests.setdefault(number, set()).add(test)
        passed = {test: duration for test, duration in seconds.items() if test not in failed}
        return Reach({number: sorted(names, key=passed.__getitem__) for number, names in tests.items()}, passed)

    def _records(self, name: str) -> Iterator[list[Any]]:
        path = self.records / name
        if path.exists():
            yield from map(json.loads, path.read_text().splitlines())

    def kills(self, mutant: places.Mutant, tests: Sequence[str], suite: str, expected_s: float) -> bool:
        """Return whether one of these tests fails, or does not end, with a mutant in the place of the program."""
        origin = (self.folder / mutant.file).read_bytes()
        self._write(mutant.file, origin[: mutant.start] + mutant.after.encode() + origin[mutant.end :])
        listed = self.records / "chosen"
        listed.write_text("\n".join(tests))
        try:
            code = self._pytest(("-x", f"@{listed}"), suite, limit_s=60 + 5 * expected_s)
        finally:
            self._write(mutant.file, origin)
        # 4 and 5: a test that passes without the mutant is not even found.
        return code != 0

    def _write(self, file: str, content: bytes) -> None:
        path = self.folder / file
        path.write_bytes(content)
        # A change within a second, of the same length, would not be seen.
        Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)

    def _pytest(self, arguments: Sequence[str], suite: str, limit_s: float) -> int | None:
        """Return the exit code; None where the run did not end in time."""
        options = ("-q", "-p", PROBE, "-p", "no:cacheprovider", "--no-header", "--tb=no")
        command = (str(self.folder / ".venv/bin/python"), "-m", "pytest", *options, *arguments)
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "KAE_"))}
        variables.pop("PYTHONDONTWRITEBYTECODE", None)
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env={**variables, **SUITES[suite][1]},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as run:
            try:
                return run.wait(limit_s)
            except subprocess.TimeoutExpired:
                return None
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(run.pid, signal.SIGKILL)


def probed(content: bytes, mutants: Mapping[int, places.Mutant]) -> bytes:
    """Return a file's bytes with a probe at the place of each mutant, by its number."""
    inserts: list[tuple[int, int, bytes]] = []
    for number, mutant in mutants.items():
        call = f"__import__('{PROBE}').hit({number})".encode()
        size = mutant.end - mutant.start
        if mutant.is_statement:
            inserts.append((mutant.start, -size - 1, call + b"; "))
        else:
            # Around the same expression and those within, the longer one's parenthesis opens first and closes last.
            inserts.append((mutant.start, -size, b"(" + call + b", "))
            inserts.append((mutant.end, size - (1 << 40), b")[1]"))
    for place, _, text in sorted(inserts, key=lambda insert: insert[:2], reverse=True):
        content = content[:place] + text + content[place:]
    return content
