"""The recipes that kae ships as copies to take, the copies that a project has taken, and their schemas for editors."""

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec

from compiler import diagnostics, names, pipeline, repeats, schema
from compiler.formats import decode, documents
from compiler.project import atomic, document_files, package_data
from compiler.schema import recipe_schema
from compiler.settings import Settings

State = Literal["shipped", "added", "behind", "own"]
"""`shipped`: kae has it, and the project does not; `added`: the project has a copy of it; `behind`: a copy of an
earlier one; `own`: the project's alone."""

_MARK = "# From `kae recipe add {name}`, sha256:{digest}\n"
_MARKED = re.compile(r"^# From `kae recipe add ([a-z0-9-]+)`, sha256:([0-9a-f]{64})$", re.MULTILINE)
"""The line of a copy that says which text was copied. People edit copies: their own digests would tell nothing."""


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """A recipe that kae ships or a project has."""

    name: str
    state: State
    document: documents.Document | None
    """None where it cannot be read."""
    findings: diagnostics.Findings
    """Those on the text of its files, and on files that are not read."""
    read: tuple[documents.Document, ...]
    """All documents of its folder, of which a recipe has one."""

    @property
    def title(self) -> str:
        """The recipe's title; empty where it has none."""
        return str(self._value("spec", "title") or "")

    @property
    def version(self) -> str:
        """The version of the image that counts as that of the stack; empty where none does."""
        image = self._value("spec", "driver", "version")
        image = image or self._value("spec", "programs", 0, "pod", "containers", 0, "image")
        return str(self._value("spec", "images", image, "version") or "")

    def _value(self, *path: Any) -> Any:
        return self.document.value(path) if self.document and self.document.has(path) else None


def known(settings: Settings) -> tuple[Known, ...]:
    """Return the recipes that kae ships and those of the project, sorted. Raises WorldError."""
    found = {each.name: each for each in shipped(settings)}
    files, unread = document_files.find([settings.recipes])
    folders = repeats.grouped((_folder(item.name, settings), item) for item in files)
    others = repeats.grouped((_folder(finding.span.file, settings), finding) for finding in unread)
    for name in {**folders, **others}:
        found[name] = _own(name, folders.get(name, ()), others.get(name, ()), file(name, settings))
    return tuple(sorted(found.values(), key=lambda each: each.name))


def _folder(file: str, settings: Settings) -> str:
    """Return the folder of a file below that of recipes; of a file in this itself, the name of this."""
    below = file.removeprefix(f"{settings.recipes}/")
    return below.partition("/")[0] if "/" in below else settings.recipes.rpartition("/")[2]


def shipped(settings: Settings) -> tuple[Known, ...]:
    """Return the recipes that kae ships."""
    found = []
    for name in package_data.recipes():
        (document,), _ = decode.decode(file(name, settings), text(name).encode())
        found.append(Known(name=name, state="shipped", document=document, findings=(), read=(document,)))
    return tuple(found)


def own(name: str, document: documents.Document) -> Known:
    """Return a recipe of the project that is not written yet."""
    return Known(name=name, state="own", document=document, findings=(), read=(document,))


def file(name: str, settings: Settings) -> str:
    """Return the file of a recipe in a project."""
    return f"{settings.recipes}/{name}/{names.RECIPE_FILE}"


def marked(name: str) -> str:
    """Return the text of a shipped recipe with the line that says what was copied."""
    return _MARK.format(name=name, digest=_digest(name)) + text(name)


def text(name: str, part: str = names.RECIPE_FILE) -> str:
    """Return the text of a shipped recipe, or of its example of a policy."""
    return (package_data.recipes()[name] / part).read_text(encoding="utf-8")


def judged(recipe: Known, settings: Settings) -> tuple[documents.Document | None, list[diagnostics.Diagnostic]]:
    """Return the document of a recipe if it has no mistakes, and the findings on all documents of its folder."""
    if not recipe.read:
        return None, []
    judge = schema.Judge(package_data.schemas())
    _, found = pipeline.read(recipe.read, judge, settings=settings)
    files = {document.file for document in recipe.read}
    own = [finding for finding in found if finding.span.file in files]
    return (None if settings.has_errors([*recipe.findings, *own]) else recipe.document), own


def schema_of(name: str, settings: Settings) -> dict[str, Any] | None:
    """Return the schema of the policies of a recipe; None for one that is not known or has mistakes."""
    recipe = next((judged(each, settings)[0] for each in known(settings) if each.name == name), None)
    if recipe is None:
        return None
    schemas = package_data.schemas()
    return dict(recipe_schema.spliced(schemas["devicepolicy"], schemas["recipe"], recipe.data["spec"]))


def write_schemas(settings: Settings) -> tuple[str, ...]:
    """Write both schemas for editors, and return their files. Raises WorldError.

    A recipe that has mistakes at the moment keeps the schema of its policies.
    """
    from compiler.model import json_schemas  # noqa: PLC0415 - needed here only

    schemas = package_data.schemas()
    read = {each.name: judged(each, settings)[0] for each in known(settings) if each.state != "shipped"}
    specs = {name: recipe.data["spec"] for name, recipe in read.items() if recipe is not None}
    files = schema_files(settings)
    made = recipe_schema.for_editors(schemas["devicepolicy"], schemas["recipe"], specs)
    made = recipe_schema.with_earlier(made, _written(Path(files[0])), read.keys() - specs.keys())
    for path, data in zip(files, (made, schemas["recipe"]), strict=True):
        atomic.write_with_folders(Path(path), json_schemas.text(data))
    return files


def _written(path: Path) -> dict[str, Any]:
    """Return the schema in a file; an empty one where there is none that can be read."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def schema_files(settings: Settings) -> tuple[str, str]:
    """Return the files of the schemas for editors: that of DevicePolicies, and that of recipes."""
    # A hidden folder is no recipe's.
    return f"{settings.recipes}/.schemas/devicepolicy.json", f"{settings.recipes}/.schemas/recipe.json"


def _digest(name: str) -> str:
    return hashlib.sha256(text(name).encode()).hexdigest()


def _own(
    name: str, files: Iterable[document_files.Input], unread: Iterable[diagnostics.Diagnostic], main: str
) -> Known:
    """Return the recipe of a folder by its files, of which `main` is that of the recipe."""
    state: State = "own"
    findings, every = list(unread), list[documents.Document]()
    document = None
    for item in files:
        content = document_files.read(item)
        read, found = decode.decode(item.name, content)
        findings += found
        every += read
        if item.name != main:
            continue
        document = read[0] if read and not diagnostics.has_errors(found) else None
        text_of = documents.Lines(item.name, content.decode("utf-8", "replace"))
        mark = _MARKED.search(text_of.text)
        if mark is not None and mark[1] in package_data.recipes():
            state = "added" if mark[2] == _digest(mark[1]) else "behind"
        if mark is not None and state == "behind":
            findings.append(_behind(text_of.span(mark.start()), item.name, mark[1]))
    return Known(name=name, state=state, document=document, findings=tuple(findings), read=tuple(every))


@diagnostics.rule("recipe-behind", "warning")
def _behind(span: diagnostics.Span, name: str, recipe: str) -> diagnostics.Diagnostic:
    """A copy of a shipped recipe was made of the one that kae ships now."""
    return diagnostics.Diagnostic(
        code="recipe-behind",
        span=span,
        message=f"kae ships another version of the recipe '{recipe}' than the one that was copied here.",
        hint=f"Remove '{name}', run `kae recipe add {recipe}`, compare by `git diff`, and put your own changes back.",
    )
