"""One mutant compiled in this process, and the checks of its answer."""

import json
import re
import resource
import shutil
import subprocess
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compiler import diagnostics
from compiler.output import index_file
from tests import in_process, outside, project
from tests.fuzz import mutants
from tests.property import campaign

_ADDRESSES = 4 << 30
"""Bytes that a process may address: what a few kilobytes make grow beyond them fails, rather than the machine."""

REREAD, JUDGED = 100, 1000
"""Every how manieth document, where it compiles, is read back and checked, and is judged by outside tools."""

_FORMATS = ("text", "github", "sarif")
_OTHER_FORMAT = 10
_BREAK = re.compile(rb"\r\n|\r|\n")
_QUOTED = re.compile(r"'[^']*'")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Result:
    """How a trial ended: the exit code, the codes that were reported, and what is wrong with it all."""

    number: int
    sort: str
    code: int
    reported: frozenset[str]
    fault: str = ""


class Bench:
    """A folder in which mutants are tried one after the other, each as if it were the first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, mutant: mutants.Mutant) -> Result:
        """The result of a mutant's trial."""
        here = self.folder / "project"
        shutil.rmtree(here, ignore_errors=True)
        project.write(here, mutant.files)
        if mutant.number % 4 == 0:  # Something that must stay as it is where documents are wrong.
            project.write(here, {_PEOPLES: "a person's\n", "output/old/index.json": _OLD_INDEX})
        kind = "json"
        if mutant.number % _OTHER_FORMAT == 1:
            kind = _FORMATS[mutant.number // _OTHER_FORMAT % len(_FORMATS)]
        try:
            with campaign.time_limit(), warnings.catch_warnings(action="error"):
                code, reported, fault = self._tried(here, mutant, kind)
        except Exception:  # The one place for it: an exception that escapes is what is looked for.
            return Result(mutant.number, mutant.sort, -1, frozenset(), traceback.format_exc())
        return Result(mutant.number, mutant.sort, code, reported, fault)

    def _tried(self, here: Path, mutant: mutants.Mutant, kind: str) -> tuple[int, frozenset[str], str]:
        before = _state(here / "output")
        # The cache is another way to the same answer: every third document takes it.
        options = ("--format", kind, *(() if mutant.number % 3 == 0 else ("--no-cache",)))
        answer = in_process.kae(here, "compile", *options)
        if answer.code not in (0, 1):
            return answer.code, frozenset(), f"exit code {answer.code}: {answer.err or answer.out}"
        if answer.code == 1 and _state(here / "output") != before:
            return 1, frozenset(), "documents are wrong, but output/ was touched"
        found = json.loads(answer.out)["diagnostics"] if kind == "json" else []
        fault = next(filter(None, (_wrong(each, here) for each in found)), "") or _misshown(answer, kind)
        if kind == "json" and (answer.code == 1) != any(each["severity"] == "error" for each in found):
            fault = fault or "the exit code does not follow from the findings"
        if answer.code == 0 and mutant.number % REREAD == 0:
            fault = fault or _reread(here) or (_refused(here) if mutant.number % JUDGED == 0 else "")
        return answer.code, frozenset(each["code"] for each in found), fault


_PEOPLES = "output/east/notes.txt"

_OLD_INDEX = index_file.text(index_file.Index(files=()))
"""The index of a cluster that nothing declares any more, and whose output is removed."""


def _state(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file with its inode, its time and its content."""
    if not folder.exists():
        return {}
    return {
        name: ((stat := (folder / name).stat()).st_ino, stat.st_mtime_ns, content)
        for name, content in project.tree(folder).items()
    }


def _wrong(found: dict[str, Any], here: Path) -> str:
    """Return the faults of a finding."""
    if found["code"] not in diagnostics.CODES or diagnostics.CODES[found["code"]].severity != found["severity"]:
        return f"no such code: {found}"
    said = (found["message"], *found["notes"], *([found["hint"]] if found["hint"] else ()))
    if any(_CONTROL.search(sentence) or not sentence.endswith((".", "?")) for sentence in said):
        return f"no sentence: {found}"
    plain = _QUOTED.sub("'x'", found["message"])
    if ". " in plain.replace("e.g. ", "") and "'" not in plain.replace("'x'", ""):
        return f"more than one sentence: {found}"
    file = here / found["file"]
    if found["file"].startswith("output/") and not found["line"]:
        return ""
    if not file.is_file():
        return f"no such file: {found}"
    if found["line"]:
        lines = _BREAK.split(file.read_bytes())
        if not 1 <= found["line"] <= len(lines) or not 1 <= found["column"] <= len(lines[found["line"] - 1]) + 1:
            return f"no such place: {found}"
    return ""


def _misshown(answer: in_process.Answer, kind: str) -> str:
    """Return the faults of a printed answer."""
    text = answer.out + answer.err
    if _CONTROL.search(text.replace("\n", "")):
        return f"control characters reach the terminal: {text!r}"
    if kind == "sarif":
        json.loads(answer.out)
    return ""


def _reread(here: Path) -> str:
    """Return the first fault of written output, compared with compiles that have no cache."""
    for name, content in project.tree(here / "output").items():
        if name.endswith(".yaml") and len(outside.documents(content.decode())) != 1:
            return f"output/{name} is not one document"
    (here / _PEOPLES).unlink()  # It is still there, and a check takes it for a difference.
    again = in_process.kae(here, "compile", "--check", "--no-cache")
    if again.code != 0:
        return f"--check after compile gives {again.code}: {again.out}{again.err}"
    elsewhere = here.with_name("again")
    shutil.rmtree(elsewhere, ignore_errors=True)
    shutil.copytree(here, elsewhere, ignore=shutil.ignore_patterns("output", ".kae_cache"))
    in_process.kae(elsewhere, "compile", "--no-cache")
    same = project.tree(elsewhere / "output") == project.tree(here / "output")
    return "" if same else "a second compile gives another output"


def _refused(here: Path) -> str:
    """Return the error of `kubectl kustomize` for the output; assert that its result meets Kubernetes' schemas."""
    for built_from in sorted(here.glob("output/*/kustomization.yaml")):
        command = [outside.kubectl(), "kustomize", str(built_from.parent)]
        built = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        if built.returncode:
            return f"kubectl kustomize: {built.stderr}"
        outside.assert_valid(built.stdout)
    return ""


def batch(work: tuple[int, Sequence[int]], folder: Path) -> list[Result]:
    """Return the results of some documents, tried in a folder of their own."""
    seed, numbers = work
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    bench = Bench(folder)
    return [bench.run(mutants.mutant(seed, number)) for number in numbers]
