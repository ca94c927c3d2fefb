"""A translation of one operator's settings: the source whose fields it takes, and the documents it makes.

What the source holds and nothing takes is a finding. A draft knows the places of the source that its values come from.
"""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from compiler import API_VERSION, diagnostics, names, wording
from compiler.formats import canonical, documents
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
        **{f"{device}DevicePlugin": "deviceplugin.intel.com" for device in ("Dsa", "Gpu", "Iaa", "Npu", "Qat", "Sgx")},
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
RESERVED = [{"name": "canary", "nodes": []}]
"""The waves of a new policy, as `kae init` writes them: the first wave of an applied one renames its DaemonSets.

The KAE Operator's values become what equals them, and nothing else."""
NAMESPACE = "Objects lie in the namespace of the cluster's KAECluster."

Reasons = Mapping[tuple[str, ...], str]
"""Why fields are not carried over, by path; an empty reason is for a field without a meaning of its own."""

_SECRET = re.compile("auth|cert|cred|key|pass|secret|token", re.IGNORECASE)
"""Names of values that no line of a finding should show."""

_TYPES: Mapping[type, str] = {bool: "true or false", dict: "a mapping", int: "a whole number", list: "a list"}

_SCHEMAS = {
    "DevicePolicy": "../recipes/.schemas/devicepolicy.json",
    "KAECluster": "../schemas/kaecluster.json",
    "KAEPolicy": "../schemas/kaepolicy.json",
    "Recipe": "../.schemas/recipe.json",
}
"""The schema of each kind for editors, by its path in a repository that `kae init` made."""


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """The names that the source does not state, or that replace those of the source."""

    cluster: str
    policy: str | None = None
    recipe: str | None = None
    namespace: str | None = None


class _Origins(msgspec.Struct, frozen=True):
    """The positions of a translated document: those of what was translated."""

    positions: documents.Positions
    of: Mapping[documents.Path, documents.Path]

    def span(self, path: documents.Path, *, key: bool = False) -> diagnostics.Span:
        """Return the position in the imported file, of the value or of the nearest one around it that has an origin."""
        known = (length for length in range(len(path), 0, -1) if path[:length] in self.of)
        length = next(known, None)
        origin = () if length is None else (*self.of[path[:length]], *path[length:])
        return self.positions.span(origin, key=key)


class Draft(msgspec.Struct, frozen=True):
    """A document in the making, which is translated from a source."""

    kind: str
    source: documents.Document
    data: dict[str, Any] = msgspec.field(default_factory=dict)
    of: dict[documents.Path, documents.Path] = msgspec.field(default_factory=dict)

    def put(self, path: documents.Path, value: Any, origin: documents.Path = ()) -> None:
        """Set a value at a path, over an earlier one; None has a position and no value.

        An item of a list is set after those before it.
        """
        if origin:
            self.of[path] = origin
        if value is None:
            return
        inside: Any = self.data
        for step, following in itertools.pairwise(path):
            if isinstance(inside, list) and step == len(inside):
                inside.append({})
            elif isinstance(inside, dict):
                inside.setdefault(step, [] if isinstance(following, int) else {})
            inside = inside[step]
        if isinstance(inside, list) and path[-1] == len(inside):
            inside.append(value)
        else:
            inside[path[-1]] = value

    @property
    def document(self) -> documents.Document:
        """The document, with the positions of its source."""
        data = {"apiVersion": API_VERSION, "kind": self.kind, **self.data}
        return documents.Document(self.source.file, data, _Origins(self.source.positions, self.of))

    def reworded(self, finding: diagnostics.Diagnostic) -> diagnostics.Diagnostic:
        """Return a finding with the source's own names for its fields."""
        for target in sorted(self.of, key=len, reverse=True):
            ours, theirs = wording.dotted(target), option(self.of[target])
            if f"'{ours}" in finding.message:
                return finding._replace(message=finding.message.replace(f"'{ours}", f"'{theirs}"))
        return finding


def option(at: documents.Path) -> str:
    """Return an option as the guide of its operator writes it; a chart's keys often have a hyphen."""
    return re.sub(r"^\[([A-Za-z][\w-]*)\]", r"\1", wording.dotted(at))


def text(objects: Iterable[Mapping[str, Any]]) -> str:
    """Return documents as the text of a file; a directory Application of Argo CD passes over it for its first line."""
    parts = (
        f"# yaml-language-server: $schema={_SCHEMAS[data['kind']]}\n{canonical.dump_yaml(data)}" for data in objects
    )
    return "# +argocd:skip-file-rendering\n" + "---\n".join(parts)


class Source(msgspec.Struct, kw_only=True):
    """Settings of an operator, as a document holds them; paths of fields are those in its options.

    It notes the fields that were asked for, and the findings on them.
    """

    kind: str
    """The object's kind; for values of a chart, that of the operator's object, and `identity` is empty."""
    document: documents.Document
    root: documents.Path = ()
    """The path of the options: empty in values, spec in a live object."""
    options: Mapping[Any, Any]
    identity: documents.Path = ()
    """The path of a live object's metadata."""
    metadata: Mapping[Any, Any] = msgspec.field(default_factory=dict)
    """Empty for values, which have none."""
    others: tuple[documents.Document, ...] = ()
    """The other objects of its file, such as accounts."""
    found: list[diagnostics.Diagnostic] = msgspec.field(default_factory=list)
    _taken: set[documents.Path] = msgspec.field(default_factory=set)
    _asked: set[tuple[str, ...]] = msgspec.field(default_factory=set)

    def origin(self, *path: str | int) -> documents.Path:
        """Return the path of a field in the document."""
        return (*self.root, *path)

    def get(self, kind: type, *path: str | int) -> Any:
        """Return a field, which is taken, of this type or None; None also where it is of another type, an error."""
        self._asked.add(_general(path))
        value: Any = self.options
        for step in path:
            inside = (isinstance(value, list) and isinstance(step, int)) or (isinstance(value, dict) and step in value)
            value = value[step] if inside else None
        if value is None:
            return None
        self._taken.add(path)
        if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
            return value
        self.found.append(mistyped(self.document, self.origin(*path), _TYPES.get(kind, "a text"), value))
        return None

    def texts(self, *path: str | int) -> list[str]:
        """Return a list of texts, which is taken; without it, an empty one."""
        items = range(len(self.get(list, *path) or ()))
        return [text for index in items if (text := self.get(str, *path, index)) is not None]

    def name(self, *path: str | int) -> str:
        """Return the name of a field in quotes."""
        return f"'{option(self.origin(*path))}'"

    def wrong(self, message: str, hint: str, *path: str | int) -> None:
        """Add an error on a field that keeps the import from what it makes."""
        self._add("import-source", self.document.span(*self.origin(*path)), message, hint=hint)

    def drop(self, why: str, *path: str | int, hint: str = "") -> None:
        """Take a field, and say that it is not carried over."""
        self._taken.add(path)
        self._drop(self.origin(*path), why, hint)

    def differs(self, how: str, *path: str | int) -> None:
        """Say that a field means something else here."""
        span = self.document.key_span(*self.origin(*path))
        self._add("import-differs", span, f"{self.name(*path)} means something else here.", how)

    def stays(self, there: str) -> None:
        """Say that a driver stays where its policy goes, unlike `there`."""
        hint = "Set driver.state: Absent, and delete the policy when they are gone."
        self.tell("The modules stay loaded where the policy is deleted.", there, hint)

    def tell(self, message: str, note: str, hint: str) -> None:
        """Say what is another thing of the whole object."""
        self._add("import-differs", self.document.span(*self.root[:-1], "kind"), message, note, hint)

    def title(self, names_wanted: Names, what: str, otherwise: str = "") -> tuple[str, documents.Path]:
        """Return the name of the recipe or the policy, and its origin; the object's own, unless the call has one."""
        wanted = getattr(names_wanted, what)
        at = (*self.identity, "name") if "name" in self.metadata else ()
        name = str(self.metadata.get("name", otherwise)) if wanted is None else wanted
        longest = names.RECIPE_LENGTH if what == "recipe" else names.POLICY_LENGTH
        if len(name) > longest or not re.fullmatch(names.POLICY_PATTERN, name):
            message = (
                f"{wording.quoted(name)} cannot be the name of a {what}, which has at most {longest} "
                "lower-case letters, digits and single '-'."
            )
            hint = f"Choose another one by --{what} NAME."
            self._add("import-source", self.document.span(*at), message, hint=hint)
        return name, () if wanted else at

    def carry(self, draft: Draft, target: documents.Path, kind: type, *path: str | int) -> None:
        """Put a field of this type where the draft has it."""
        draft.put(target, self.get(kind, *path), self.origin(*path))

    def selection(self, draft: Draft, *path: str) -> None:
        """Put the selector of a policy's nodes, which are all of them without labels."""
        labels = self.get(dict, *path)
        if labels:
            draft.put(("spec", "nodeSelector", "matchLabels"), labels, self.origin(*path))

    def drop_rest(self, reasons: Reasons) -> None:
        """Say of every field that was not asked for that it is not carried over."""
        if "namespace" in self.metadata:
            self._drop((*self.identity, "namespace"), NAMESPACE)
        for document in self.others:
            kind = document.data.get("kind") if isinstance(document.data, dict) else None
            called = wording.cut(kind) if kind else "document"
            is_right = called == "ServiceAccount" or "Role" in called
            why = ACCOUNT if is_right else "Apply it by other means, if something needs it."
            self.lose(f"The {called}", document.span("kind"), why)
        self._drop_left((), self.options, reasons)

    def _drop_left(self, here: documents.Path, value: Any, reasons: Reasons) -> None:
        steps = value.items() if isinstance(value, dict) else enumerate(value)
        known = {*reasons, *self._asked}
        for step, inner in steps:
            at = (*here, step)
            if at in self._taken and not any(at == other[: len(at)] != other for other in self._taken):
                continue
            general = _general(at)
            why = reasons.get(general)
            if why is not None:
                if why:
                    self._drop(self.origin(*at), why)
            elif isinstance(inner, dict | list) and any(general == path[: len(general)] for path in known):
                self._drop_left(at, inner, reasons)
            elif at not in self._taken:
                why = reasons.get((*general[:-1], ANY))
                hint = near(step, general, known) if why is None else ""
                usual = "" if hint else "The operator has no such field."
                self._drop(self.origin(*at), usual if why is None else why, hint)

    def _drop(self, at: documents.Path, why: str, hint: str = "") -> None:
        span = self.document.key_span(*at)
        # Options of the KAE Operator hold no secrets.
        if self.kind != "KAEPolicy" and any(_SECRET.search(str(step)) for step in at):
            span = span._replace(text="")
        self.lose(f"'{option(at)}'", span, why, hint)

    def lose(self, what: str, span: diagnostics.Span, why: str, hint: str = "") -> None:
        """Say that something is not carried over."""
        self._add("import-dropped", span, f"{what} is not carried over.", why, hint)

    def _add(self, code: str, span: diagnostics.Span, message: str, note: str = "", hint: str = "") -> None:
        notes = (note,) if note else ()
        self.found.append(diagnostics.Diagnostic(code=code, span=span, message=message, notes=notes, hint=hint))


def of(read: Sequence[documents.Document]) -> Source | diagnostics.Diagnostic:
    """Return the options in a file, or the finding that says why there are none.

    Beside an object of an operator of other stacks, the file may hold the accounts and rights of this operator.
    """
    others: tuple[documents.Document, ...] = ()
    if len(read) > 1:
        wanted = [document for document in read if _kind(document.data) in GROUPS.keys() - {"KAEPolicy"}]
        others = tuple(document for document in read if document not in wanted)
        if len(wanted) != 1:
            return refused(read[1], (), "The file holds more than one document.")
        read = wanted
    document = read[0]
    data: Any = document.data
    root: documents.Path = ()
    if isinstance(data, dict) and str(data.get("kind", "")).endswith("List"):
        items = data.get("items")
        if not isinstance(items, list) or len(items) != 1:
            return refused(document, ("items",), "The list does not hold exactly one object.")
        data, root = items[0], ("items", 0)
    if not isinstance(data, dict):
        return refused(document, root, f"Expected a mapping, found {phrases.value(data)}.")
    is_object = ("kind" in data or "apiVersion" in data) and (data.get("kind"), _group(data)) != _SRO_VALUES
    if is_object:
        return _live(document, root, data, others)
    kind = "SpecialResource" if "kmodNames" in data or "kind" in data else "KAEPolicy"
    return Source(kind=kind, document=document, root=root, options=data)


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
        found, version = (wording.quoted(data.get(name)) for name in ("kind", "apiVersion"))
        return refused(document, (*root, "kind"), f"This is a {found} of {version}, which is not imported.")
    for part in ("metadata", "spec"):
        if not isinstance(data.get(part, {}), dict):
            return mistyped(document, (*root, part), "a mapping", data[part])
    return Source(
        kind=kind,
        document=document,
        root=(*root, "spec"),
        options=data.get("spec", {}),
        identity=(*root, "metadata"),
        metadata=data.get("metadata", {}),
        others=others,
    )


def refused(document: documents.Document, at: documents.Path, message: str) -> diagnostics.Diagnostic:
    """Return the error on what is no source of an import."""
    return diagnostics.Diagnostic(
        code="import-source",
        span=document.span(*at),
        message=message,
        hint=f"Import 'kubectl get KIND NAME -o yaml', where KIND is one of {wording.listed(sorted(GROUPS))}, or the "
        "values of a chart of the KAE Operator or the Special Resource Operator.",
    )


def mistyped(document: documents.Document, at: documents.Path, expected: str, value: Any) -> diagnostics.Diagnostic:
    """Return the error on a field of another type."""
    message = f"Expected {expected} in '{option(at)}', found {phrases.value(value)}."
    return diagnostics.Diagnostic(code="wrong-type", span=document.span(*at), message=message)


def near(word: object, path: documents.Path, known: Iterable[documents.Path]) -> str:
    """Return the question for a misspelt field: whether one beside it, of those `known`, is meant."""
    depth = len(path) - 1
    siblings = {str(other[depth]) for other in known if len(other) > depth and other[:depth] == path[:depth]}
    return wording.did_you_mean(word, sorted(siblings))


def numbered(texts: Iterable[str], *path: str | int) -> list[tuple[str, documents.Path]]:
    """Return the texts of a list with their paths."""
    return [(text, (*path, index)) for index, text in enumerate(texts)]


def _general(path: documents.Path) -> tuple[str, ...]:
    return tuple(ITEM if isinstance(step, int) else str(step) for step in path)


def image_parts(reference: str) -> dict[str, str]:
    """Return repository, image and version of a reference, with the registry and the tag that a runtime takes.

    A reference without a registry is one of docker.io, and without a tag one of `latest`
    (https://github.com/distribution/reference, `ParseNormalizedNamed` and `TagNameOnly`). A digest decides over a tag.
    """
    name, _, digest = reference.partition("@")
    path, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        path, tag = name, "latest"
    host, slash, _ = path.partition("/")
    if not slash or not (host == "localhost" or "." in host or ":" in host):
        path = f"docker.io/{path}" if slash else f"docker.io/library/{path}"
    repository, _, image = path.rpartition("/")
    return {"repository": repository, "image": image, "version": digest or tag}
