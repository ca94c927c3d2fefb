"""The recipes that kae ships as copies to take, and the copies that a project has taken."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from compiler import diagnostics, names
from compiler.formats import decode, lines
from compiler.project import document_files, links, package_data

State = Literal["shipped", "added", "behind", "own"]
"""`shipped`: kae has it, and the project does not; `added`: the project has a copy of it; `behind`: a copy of an
earlier one; `own`: the project's alone."""

_MARK = "# From `kae recipe add {name}`, sha256:{digest}\n"
_MARKED = re.compile(r"^# From `kae recipe add ([a-z0-9-]+)`, sha256:([0-9a-f]{64})$", re.MULTILINE)
"""The line of a copy that says which text was copied. People edit copies: their own digests would tell nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A recipe that kae ships or a project has."""

    name: str
    file: str
    """Its file in the project; where it is only shipped, the one that `kae recipe add` makes."""
    state: State
    data: Mapping[str, Any]
    """The document; empty where it cannot be read."""
    findings: diagnostics.Findings

    @property
    def title(self) -> str:
        """The recipe's title; empty where it has none."""
        return str(_inside(self.data, "spec", "title") or "")

    @property
    def version(self) -> str:
        """The version of the image that counts as that of the stack; empty where none does."""
        image = _inside(self.data, "spec", "driver", "version")
        return str(_inside(self.data, "spec", "images", image, "version") or "")


def known() -> tuple[Known, ...]:
    """Return the recipes that kae ships and those of the project in the current folder, sorted. Raises WorldError."""
    shipped = {name: _shipped(name) for name in package_data.recipes()}
    own = {item.path.parent.name: _own(item) for item in files()}
    return tuple(sorted((shipped | own).values(), key=lambda each: each.name))


def files() -> tuple[document_files.Input, ...]:
    """Return the files of the project's recipes. Raises WorldError for a link that leads out of the project."""
    links.require_inside(names.RECIPES, hint=document_files.FOLDER_HINT)
    found = sorted(Path(names.RECIPES).glob(f"*/{names.RECIPE_FILE}"))
    for path in found:
        links.require_inside(path, hint=document_files.FOLDER_HINT)
    return tuple(document_files.Input(path.as_posix(), path) for path in found if not path.parent.name.startswith("."))


def file(name: str) -> str:
    """Return the file of a recipe in a project."""
    return f"{names.RECIPES}/{name}/{names.RECIPE_FILE}"


def marked(name: str) -> str:
    """Return the text of a shipped recipe with the line that says what was copied."""
    return _MARK.format(name=name, digest=_digest(name)) + text(name)


def text(name: str, part: str = names.RECIPE_FILE) -> str:
    """Return the text of a shipped recipe, or of its example of a policy."""
    return (package_data.recipes()[name] / part).read_text(encoding="utf-8")


def _digest(name: str) -> str:
    return hashlib.sha256(text(name).encode()).hexdigest()


def _shipped(name: str) -> Known:
    read, _ = decode.decode(file(name), text(name).encode())
    return Known(name=name, file=file(name), state="shipped", data=read[0].data, findings=())


def _own(item: document_files.Input) -> Known:
    content = document_files.read(item)
    read, found = decode.decode(item.name, content)
    data = read[0].data if read and isinstance(read[0].data, dict) else {}
    text_of = lines.Lines(item.name, content.decode("utf-8", "replace"))
    mark = _MARKED.search(text_of.text)
    state: State = "own"
    if mark is not None and mark[1] in package_data.recipes():
        state = "added" if mark[2] == _digest(mark[1]) else "behind"
    if mark is not None and state == "behind":
        found = [*found, _behind(text_of.span(mark.start()), item.name, mark[1])]
    return Known(name=item.path.parent.name, file=item.name, state=state, data=data, findings=tuple(found))


def _behind(span: diagnostics.Span, name: str, recipe: str) -> diagnostics.Diagnostic:
    """A copy of a shipped recipe is one of the recipe that this release ships."""
    return diagnostics.Diagnostic(
        code="recipe-behind",
        span=span,
        message=f"kae ships another version of the recipe '{recipe}' than the one that was copied here.",
        hint=f"Remove '{name}', run `kae recipe add {recipe}`, compare by `git diff`, and put your own changes back.",
    )


def _inside(data: Any, *path: Any) -> Any:
    for step in path:
        data = data.get(step) if isinstance(data, dict) else None
    return data
