"""The full matrix: prints a row for each condition, and fails where the bytes differ."""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import tabulate

from tests.determinism import conditions, layouts, runs

PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
_PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r")


def main() -> int:
    """Compiles under every condition and returns 1 where one differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.determinism", description=__doc__)
    parser.add_argument(
        "--python", action="append", metavar="FILE", help="an interpreter to compare; repeatable (default: all on PATH)"
    )
    parser.add_argument(
        "--environments", type=Path, metavar="DIR", help="where their packages go, kept for later calls"
    )
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        found = [path for python in chosen.python or PYTHONS if (path := shutil.which(python))]
        pythons = list(environments(found, chosen.environments or top / "environments"))
        reference = runs.run(conditions.PLAIN, top / "reference")
        rows = []
        for number, condition in enumerate(conditions.matrix(pythons, top / "locales")):
            outcome = runs.run(condition, top / str(number))
            rows.append((condition.name, *judged(condition, outcome, reference)))
    head = ("condition", "exit", "files", "sha256 of all files", "bytes", "findings")
    title = f"reference: {reference.files} files, {reference.digest[:16]}, exit {reference.code}"
    sys.stdout.write(f"{title}\n\n{tabulate.tabulate(rows, headers=head, disable_numparse=True)}\n")
    return 1 if reference.code or any("DIFFER" in row for row in rows) else 0


def judged(condition: runs.Condition, outcome: runs.Outcome, reference: runs.Outcome) -> tuple[str, ...]:
    """The cells of a row."""
    alike = (outcome.code, outcome.digest) == (reference.code, reference.digest)
    findings = "same" if outcome.findings == reference.findings else "DIFFER"
    if not condition.same_places:
        findings = "elsewhere"
    return str(outcome.code), str(outcome.files), outcome.digest[:16], "same" if alike else "DIFFER", findings


def environments(pythons: Sequence[str], folder: Path) -> Iterator[str]:
    """An interpreter with the locked packages for each of these that runs."""
    for python in pythons:
        probe = "import ensurepip, sys; print('%d.%d' % sys.version_info[:2])"
        done = subprocess.run((python, "-c", probe), capture_output=True, text=True, check=False, timeout=60)
        if done.returncode:
            continue  # A version manager may offer a name that it cannot run.
        home = folder / done.stdout.strip()
        own = str(home / "bin/python")
        if not (home / "ready").exists():
            subprocess.run((python, "-m", "venv", "--clear", str(home)), check=True, timeout=300)
            subprocess.run((own, *_PIP, str(layouts.ROOT / "requirements.lock")), check=True, timeout=1800)
            (home / "ready").touch()
        yield own


if __name__ == "__main__":
    sys.exit(main())
