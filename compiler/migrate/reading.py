"""The source of an import: which options it holds, which of them a translation takes, and findings on the others."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from compiler import API_VERSION, diagnostics, names, wording
from compiler.formats import documents
from compiler.migrate import drafts
from compiler.schema import phrases

diagnostics.shared_rule(
    "import-source", "error", "The import reads values of a chart or one object of an operator that it knows."
)
diagnostics.shared_rule("import-dropped", "warning", "Every setting of another operator has an equivalent here.")
diagnostics.shared_rule("import-differs", "warning", "Every setting of another operator means the same here.")

GROUPS: Mapping[str, str] = MappingProxyType(
    {
        "KAEPolicy": API_VERSION.partition("/")[0],
        "Module": "kmm.sigs.x-k8s.io",
        "Onload": "onload.amd.com",
        "SpecialResource": "sro.openshift.io",
    }
)
"""The API group of each kind of object that is imported; no version of one takes part in what its fields mean."""

_SRO_VALUES = ("Values", GROUPS["SpecialResource"])
"""What the Special Resource Operator wants `spec.set` to call itself, and what values for its charts may."""

ITEM, ANY = "[]", "*"
"""Any item of a list, and any field that nothing else takes, in the path of a reason."""

ACCOUNT = "Accounts and their rights are the compiler's own."
BUILT = "Images are built and signed outside of the cluster, one for each kernel that `kae preflight` is asked for."
COUNTED = "Nothing is built in the cluster."
NAMESPACE = "Objects lie in the namespace of the cluster's KAECluster."

Reasons = Mapping[tuple[str, ...], str]
"""Why fields are not carried over, by path; an empty reason is for a field without a meaning of its own."""

_SECRET = re.compile("auth|cert|cred|key|pass|secret|token", re.IGNORECASE)
"""Names of values that no line of a finding should show."""

_TYPES: Mapping[type, str] = {bool: "true or false", dict: "a mapping", int: "a whole number", list: "a list"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Settings of an operator, as a document holds them."""

    kind: str
    """The object's kind; for values of a chart, that of the operator's object, and `identity` is empty."""
    document: documents.Document
    root: documents.Path
    """The path of the options: empty in values, spec in a live object."""
    options: Mapping[Any, Any]
    identity: documents.Path
    """The path of a live object's metadata."""
    metadata: Mapping[Any, Any]
    """Empty for values, which have none."""
    others: tuple[documents.Document, ...] = ()
    """The other objects of its file, such as accounts."""


def of(read: Sequence[documents.Document]) -> Source | diagnostics.Diagnostic:
    """Return the options in a file, or the finding that says why there are none.

    Beside an object of an operator of other stacks, the file may hold the accounts and rights of this operator.
    """
    others: tuple[documents.Document, ...] = ()
    if len(read) > 1:
        wanted = [document for document in read if _kind(document.data) in GROUPS.keys() - {"KAEPolicy"}]
        others = tuple(document for document in read if document not in wanted)
        if len(wanted) != 1:
            return _refused(read[1], (), "The file holds more than one document.")
        read = wanted
    document = read[0]
    data: Any = document.data
    root: documents.Path = ()
    if isinstance(data, dict) and str(data.get("kind", "")).endswith("List"):
        items = data.get("items")
        if not isinstance(items, list) or len(items) != 1:
            return _refused(document, ("items",), "The list does not hold exactly one object.")
        data, root = items[0], ("items", 0)
    if not isinstance(data, dict):
        return _refused(document, root, f"Expected a mapping, found {phrases.value(data)}.")
    is_object = ("kind" in data or "apiVersion" in data) and (data.get("kind"), _group(data)) != _SRO_VALUES
    if is_object:
        return _live(document, root, data, others)
    kind = "SpecialResource" if "kmodNames" in data or "kind" in data else "KAEPolicy"
    return Source(kind=kind, document=document, root=root, options=data, identity=(), metadata={})


def _kind(data: Any) -> str | None:
    """Return the kind of an object that is imported; None for any other."""
    kind = data.get("kind") if isinstance(data, dict) else None
    return kind if isinstance(kind, str) and GROUPS.get(kind) == _group(data) else None


def _group(data: Mapping[Any, Any]) -> str:
    return str(data.get("apiVersion")).partition("/")[0]


def _live(
    document: documents.Document, root: documents.Path, data: Mapping[Any, Any], others: tuple[documents.Document, ...]
) -> Source | diagnostics.Diagnostic:
    kind = _kind(data)
    if kind is None:
        found, version = (wording.quoted(data.get(field)) for field in ("kind", "apiVersion"))
        return _refused(document, (*root, "kind"), f"This is a {found} of {version}, which is not imported.")
    for field in ("metadata", "spec"):
        if not isinstance(data.get(field, {}), dict):
            return not_a_mapping(document, (*root, field), data[field])
    return Source(
        kind=kind,
        document=document,
        root=(*root, "spec"),
        options=data.get("spec", {}),
        identity=(*root, "metadata"),
        metadata=data.get("metadata", {}),
        others=others,
    )


def dropped(source: Source, at: documents.Path, why: str, hint: str = "") -> diagnostics.Diagnostic:
    """Every option has a meaning here."""
    return diagnostics.Diagnostic(
        code="import-dropped",
        span=source.document.key_span(*at),
        message=f"'{drafts.option(at)}' is not carried over.",
        notes=(why,) if why else (),
        hint=hint,
    )


def differs(source: Source, at: documents.Path, how: str) -> diagnostics.Diagnostic:
    """An option does here what it did there."""
    return diagnostics.Diagnostic(
        code="import-differs",
        span=source.document.key_span(*at),
        message=f"'{drafts.option(at)}' means something else here.",
        notes=(how,),
    )


def not_a_mapping(document: documents.Document, at: documents.Path, value: Any) -> diagnostics.Diagnostic:
    """A section is a mapping."""
    return diagnostics.Diagnostic(
        code="wrong-type",
        span=document.span(*at),
        message=f"Expected a mapping in '{drafts.option(at)}', found {phrases.value(value)}.",
    )


def _refused(document: documents.Document, at: documents.Path, message: str) -> diagnostics.Diagnostic:
    return diagnostics.Diagnostic(
        code="import-source",
        span=document.span(*at),
        message=message,
        hint=f"Import 'kubectl get KIND NAME -o yaml', where KIND is one of {wording.listed(sorted(GROUPS))}, or the "
        "values of a chart of the KAE Operator or the Special Resource Operator.",
    )


class Reading:
    """The fields of a source that were asked for, with the findings on them."""

    def __init__(self, source: Source, reasons: Reasons) -> None:
        self.source = source
        self.found: list[diagnostics.Diagnostic] = []
        self._reasons = reasons
        self._taken: set[documents.Path] = set()
        self._asked: set[tuple[str, ...]] = set()

    def origin(self, *path: str | int) -> documents.Path:
        """Return the path of a field in the document."""
        return (*self.source.root, *path)

    def get(self, kind: type, *path: str | int) -> Any:
        """Return a field, which is taken, of this type or None; None also where it is of another type, an error."""
        self._asked.add(_general(path))
        value: Any = self.source.options
        for step in path:
            inside = (isinstance(value, list) and isinstance(step, int)) or (isinstance(value, dict) and step in value)
            value = value[step] if inside else None
        if value is None:
            return None
        self._taken.add(path)
        if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
            return value
        self.wrong(f"Expected {_TYPES.get(kind, 'a text')} in {self.name(*path)}, found {phrases.value(value)}.", *path)
        return None

    def name(self, *path: str | int) -> str:
        """Return the name of a field in quotes."""
        return f"'{drafts.option(self.origin(*path))}'"

    def texts(self, *path: str | int) -> list[str]:
        """Return a list of texts, which is taken; without it, an empty one."""
        items = range(len(self.get(list, *path) or ()))
        return [text for index in items if (text := self.get(str, *path, index)) is not None]

    def wrong(self, message: str, *path: str | int, hint: str = "", code: str = "wrong-type") -> None:
        """Add an error on the value of a field."""
        span = self.source.document.span(*self.origin(*path))
        self.found.append(diagnostics.Diagnostic(code=code, span=span, message=message, hint=hint))

    def drop(self, why: str, *path: str | int, hint: str = "") -> None:
        """Take a field, and say that it is not carried over."""
        self._taken.add(path)
        self.found.append(self._dropped(self.origin(*path), why, hint))

    def differs(self, how: str, *path: str | int) -> None:
        """Say that a field means something else here."""
        self.found.append(differs(self.source, self.origin(*path), how))

    def stays(self, there: str) -> None:
        """Say that a driver stays where its policy goes, unlike `there`."""
        span = self.source.document.span(*self.source.root[:-1], "kind")
        self.found.append(
            diagnostics.Diagnostic(
                code="import-differs",
                span=span,
                message="The modules stay loaded where the policy is deleted.",
                notes=(there,),
                hint="Set driver.state: Absent, and delete the policy when they are gone.",
            )
        )

    def title(self, names_wanted: drafts.Names, field: str, otherwise: str = "") -> tuple[str, documents.Path]:
        """Return the name of the recipe or the policy, and its origin; the object's own, unless the call has one."""
        wanted = getattr(names_wanted, field)
        at = (*self.source.identity, "name") if "name" in self.source.metadata else ()
        name = str(self.source.metadata.get("name", otherwise)) if wanted is None else wanted
        longest = names.RECIPE_LENGTH if field == "recipe" else names.POLICY_LENGTH
        if len(name) > longest or not re.fullmatch(names.POLICY_PATTERN, name):
            span = self.source.document.span(*at)
            self.found.append(
                diagnostics.Diagnostic(
                    code="import-source",
                    span=span,
                    message=f"{wording.quoted(name)} cannot be the name of a {field}, which has at most {longest} "
                    "lower-case letters, digits and single '-'.",
                    hint=f"Choose another one by --{field} NAME.",
                )
            )
        return name, () if wanted else at

    def carry(self, draft: drafts.Draft, target: documents.Path, kind: type, *path: str | int) -> None:
        """Put a field of this type where the draft has it."""
        draft.put(target, self.get(kind, *path), self.origin(*path))

    def selection(self, draft: drafts.Draft, *path: str) -> None:
        """Put the selector of a policy's nodes, which are all of them without labels."""
        labels = self.get(dict, *path)
        if labels:
            draft.put(("spec", "nodeSelector", "matchLabels"), labels, self.origin(*path))

    def rest(self) -> Iterator[diagnostics.Diagnostic]:
        """Yield the findings so far, and one for each field that was not asked for."""
        yield from self.found
        if "namespace" in self.source.metadata:
            yield self._dropped((*self.source.identity, "namespace"), NAMESPACE)
        yield from (_object(document) for document in self.source.others)
        yield from self._left((), self.source.options)

    def _left(self, here: documents.Path, value: Any) -> Iterator[diagnostics.Diagnostic]:
        steps = value.items() if isinstance(value, dict) else enumerate(value)
        for step, inner in steps:
            at = (*here, step)
            if at in self._taken and not any(at == other[: len(at)] != other for other in self._taken):
                continue
            general = _general(at)
            why = self._reasons.get(general)
            if why is not None:
                if why:
                    yield self._dropped(self.origin(*at), why)
            elif isinstance(inner, dict | list) and self._is_section(general):
                yield from self._left(at, inner)
            elif at not in self._taken:
                yield self._unknown(at)

    def _is_section(self, general: tuple[str, ...]) -> bool:
        return any(general == known[: len(general)] for known in self._known())

    def _known(self) -> set[tuple[str, ...]]:
        return {*self._reasons, *self._asked}

    def _unknown(self, at: documents.Path) -> diagnostics.Diagnostic:
        general = _general(at)
        depth = len(general) - 1
        if (*general[:-1], ANY) in self._reasons:
            return self._dropped(self.origin(*at), self._reasons[*general[:-1], ANY])
        siblings = {known[depth] for known in self._known() if known[:depth] == general[:depth] and len(known) > depth}
        hint = wording.did_you_mean(at[-1], sorted(siblings))
        return self._dropped(self.origin(*at), "" if hint else "The operator has no such field.", hint)

    def _dropped(self, at: documents.Path, why: str, hint: str = "") -> diagnostics.Diagnostic:
        found = dropped(self.source, at, why, hint)
        if any(_SECRET.search(str(step)) for step in at):
            return replace(found, span=replace(found.span, text=""))
        return found


def numbered(texts: Iterable[str], *path: str | int) -> list[tuple[str, documents.Path]]:
    """Return the texts of a list with their paths."""
    return [(text, (*path, index)) for index, text in enumerate(texts)]


def _general(path: documents.Path) -> tuple[str, ...]:
    return tuple(ITEM if isinstance(step, int) else str(step) for step in path)


def _object(document: documents.Document) -> diagnostics.Diagnostic:
    """The accounts and rights beside an operator's object have an equivalent here."""
    data: Any = document.data
    kind = data.get("kind") if isinstance(data, dict) else None
    called = wording.cut(kind) if kind else "document"
    is_right = called == "ServiceAccount" or "Role" in called
    return diagnostics.Diagnostic(
        code="import-dropped",
        span=document.span("kind"),
        message=f"The {called} is not carried over.",
        notes=(ACCOUNT if is_right else "Apply it by other means, if something needs it.",),
    )
