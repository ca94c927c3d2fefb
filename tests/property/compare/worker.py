"""The process in a checkout, which answers JSON lines; a script of its own, as the checkout may lack it."""

import json
import os
import shutil
import traceback
from pathlib import Path

import compiler
from tests import in_process
from tests.failures import cases

_COMPILE = ("compile --no-cache --format json", "plan -o json", "plan")
_DIFF = tuple(f"diff HEAD~1 --to HEAD{form}" for form in (" -o json", "", " -o markdown"))
_OF_CASES = ("compile --no-cache", "diff -o json", "diff", "preflight --image image.tar", "recipe list")

Answers = dict[str, tuple[int, str, str]]
"""Exit code, standard output and standard error, by command."""


def answered(folder: Path, *commands: str) -> Answers:
    """Return the answer to each command; -1 and the exception of one that crashes."""
    found: Answers = {}
    for command in commands:
        try:
            answer = in_process.kae(folder, *command.split())
            found[command] = (answer.code, answer.out.replace(str(folder), "."), answer.err.replace(str(folder), "."))
        except Exception as error:
            found[command] = (-1, "", "".join(traceback.format_exception_only(error)))
    return found


def tried(top: Path, case: str) -> list[Answers]:
    """Return the answers in a folder: to a case of tests/failures, or to both revisions that are there."""
    first, second = top / "first", top / "second"
    if case:
        return [answered(cases.prepared(case, first), *_COMPILE, *_OF_CASES)]
    found = answered(first, *_COMPILE)
    # The second revision meets the output of the first, so that it is told what it takes away.
    if (first / "output").exists():
        shutil.copytree(first / "output", second / "output")
    return [found, answered(second, *_COMPILE, *_DIFF)]


if __name__ == "__main__":
    assert Path(compiler.__file__).is_relative_to(Path.cwd()), f"{compiler.__file__} is not of this checkout"
    questions, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    # Commands read nothing, and what else is printed is no answer.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    for line in questions:
        asked, name = json.loads(line)
        print(json.dumps(tried(Path(asked), name)), file=answers, flush=True)
