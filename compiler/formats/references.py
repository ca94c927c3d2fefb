"""The references of recipes: `${…}` in driver, device plugin and programs, and the values that take their places.

A text is read once, from left to right, and values are not read again. What has no value takes away what names it: an
item of a list, a variable of a container, or an entry of a mapping, and then mappings and lists that this empties.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from compiler.formats import documents

_TOKEN = re.compile(r"\$\$\{|\$\{([^{}\n]*)\}|\$\{")
_NAME = re.compile(r"[A-Za-z]+(\.[A-Za-z0-9_-]+)?")
_VALUES = "values."
_SHOWN = 40
"""Characters of a text that are shown where a reference has no end."""

ABSENT: Any = type("Absent", (), {"__repr__": lambda _: "ABSENT", "__slots__": ()})()
"""The value of a parameter that has none, and of what names it."""

TYPED = frozenset(
    (
        *("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "privileged", "readOnlyRootFilesystem"),
        *("allowPrivilegeEscalation", "runAsNonRoot", "readOnly"),
        *("terminationGracePeriodSeconds", "fsGroup", "runAsUser", "runAsGroup", "defaultMode"),
        *("containerPort", "port", "initialDelaySeconds", "periodSeconds", "timeoutSeconds", "successThreshold"),
        *("disrupts", "failureThreshold", "command", "args", "add", "drop", "supplementalGroups"),
        *("count", "shares", "env", "profiles"),
    )
)
"""Fields that are no strings: a reference stands alone there, and keeps the type of its value."""
_SPLICED = ("command", "args")
"""Lists of strings in which `{when, value}` may stand for items."""
_EXPANDED = (*_SPLICED, "env")
"""Where the kubelet reads `$(NAME)`, and `$$(` as the plain text."""

Scope = Mapping[str, Any]
"""The value of each name, such as values.n and pool.name; a parameter without a value is not there."""


class Fault(msgspec.Struct, frozen=True):
    """A `${` in a text that begins no reference."""

    text: str
    shown: str
    """It, and what follows where it has no end."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A text of a recipe in which references may stand."""

    path: documents.Path
    text: str
    field: str
    """The key that it is the value of, or in whose list it is."""
    is_typed: bool = False
    """True where a reference stands alone and keeps its type."""
    is_json: bool = False
    """True where a value of any type may stand alone: it becomes a part of a text."""
    in_each: bool = False
    """True in an entry of a map, which has `key` and `value`."""
    demanded: frozenset[str] = frozenset()
    """The parameters that have a value wherever the text is used, as a `when` asks for them."""


def parsed(text: str) -> Iterator[str | tuple[str] | Fault]:
    """Yield the parts of a text: plain ones, names of references in a tuple, and faults."""
    end = 0
    for token in _TOKEN.finditer(text):
        if token.start() > end:
            yield text[end : token.start()]
        end = token.end()
        if token.group() == "$${":
            yield "${"
        elif token[1] is not None and _NAME.fullmatch(token[1]):
            yield (token[1],)
        else:
            found = token.group()
            yield Fault(found, found if token[1] is not None else text[token.start() :][:_SHOWN])
    if end < len(text):
        yield text[end:]


def names(text: str) -> tuple[str, ...]:
    """Return the names of the references in a text."""
    return tuple(part[0] for part in parsed(text) if isinstance(part, tuple))


def alone(text: str) -> str | None:
    """Return the name of the reference that is the whole of a text; None for another text."""
    parts = tuple(parsed(text))
    return parts[0][0] if len(parts) == 1 and isinstance(parts[0], tuple) else None


def is_absent(value: Any) -> bool:
    """Return whether a value is none: an empty list or mapping is not, an empty text, false and 0 are."""
    return value is ABSENT or (isinstance(value, list | tuple | dict) and not value)


def text(template: str, scope: Scope, *, is_expanded: bool = False) -> Any:
    """Return a text with the values of its references; ABSENT where one of them has none."""
    found = []
    for part in parsed(template):
        if isinstance(part, tuple):
            value = scope.get(part[0], ABSENT)
            if is_absent(value):
                return ABSENT
            said = _said(value)
            found.append(said.replace("$(", "$$(") if is_expanded else said)
        else:
            found.append(part.text if isinstance(part, Fault) else part)
    return "".join(found)


def _said(value: Any) -> str:
    """Return a value as a string field has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(_said, value)) if isinstance(value, list | tuple) else str(value)


def holds(condition: Any, scope: Scope) -> bool:
    """Return whether a `when` holds: a parameter that is true or set, or a mapping of parameters to values."""
    if isinstance(condition, bool):
        return condition
    if isinstance(condition, str):
        value = scope.get(alone(condition) or "", ABSENT)
        return value if isinstance(value, bool) else not is_absent(value)
    return all(_is_one_of(scope.get(_VALUES + name, ABSENT), wanted) for name, wanted in condition.items())


def _is_one_of(value: Any, wanted: Any) -> bool:
    allowed = wanted if isinstance(wanted, list) else [wanted]
    return (None in allowed) if is_absent(value) else any(_same(value, one) for one in allowed)


def _same(value: Any, other: Any) -> bool:
    """Return whether two values are one; Python's True is 1."""
    return isinstance(value, bool) is isinstance(other, bool) and value == other


def demanded(condition: Any) -> frozenset[str]:
    """Return the parameters that have a value where a `when` holds."""
    if isinstance(condition, str):
        return frozenset(name.removeprefix(_VALUES) for name in names(condition))
    if not isinstance(condition, Mapping):
        return frozenset()
    return frozenset(
        name
        for name, wanted in condition.items()
        if wanted is not None and not (isinstance(wanted, list) and None in wanted)
    )


def is_choice(data: Any) -> bool:
    """Return whether data is a value under a condition: exactly {when, value}."""
    return isinstance(data, Mapping) and data.keys() == {"when", "value"}


def filled(data: Any, scope: Scope, field: str = "") -> Any:
    """Return a part of a recipe with the values of its references; ABSENT where nothing is left of it."""
    conditioned = not _has_names(field)
    if conditioned and is_choice(data):
        return filled(data["value"], scope, field) if holds(data["when"], scope) else ABSENT
    if isinstance(data, Mapping):
        if conditioned and "when" in data and not holds(data["when"], scope):
            return ABSENT
        own = {key: value for key, value in data.items() if not (conditioned and key == "when")}
        entries = {key: filled(value, scope, _below(field, key)) for key, value in own.items()}
        kept = {key: value for key, value in entries.items() if value is not ABSENT}
        # A variable without its value would be an empty one.
        is_cut = len(kept) < len(entries)
        return ABSENT if is_cut and (not kept or (field == "env" and isinstance(field, _Item))) else kept
    if isinstance(data, list):
        items = [item for one in data for item in _items(one, scope, field)]
        return ABSENT if data and not items else items
    if not isinstance(data, str):
        return data
    name = alone(data) if field in TYPED and not _is_item(field) else None
    if name is not None:
        value = scope.get(name, ABSENT)
        if isinstance(value, list) and field in _EXPANDED:
            value = [_said(item).replace("$(", "$$(") for item in value]
        return ABSENT if is_absent(value) else value
    return text(data, scope, is_expanded=_is_expanded(field))


class _Item(str):
    """The name of a list's field, as its items have it."""


def _is_item(field: str) -> bool:
    return isinstance(field, _Item) and field != "supplementalGroups"


def _has_names(field: str) -> bool:
    """Return whether the keys of a mapping in a field are names of people: variables or profiles, never `when`."""
    return field in ("env", "profiles") and not isinstance(field, _Item)


def _below(field: str, key: Any) -> str:
    """Return the field of what stands under a key: a profile is a map of variables, and a variable a text."""
    if not _has_names(field):
        return str(key)
    return "env" if field == "profiles" else ""


def _is_expanded(field: str) -> bool:
    # An entry of a variable is in `env`: its name has no reference.
    return field in (*_EXPANDED, "value")


def _items(data: Any, scope: Scope, field: str) -> Sequence[Any]:
    """Return what stands for an item of a list: nothing, the item, or several items of a list of strings."""
    value = filled(data, scope, _Item(field))
    if value is ABSENT:
        return ()
    return value if isinstance(value, list) and field in _SPLICED else (value,)


def listed(data: Sequence[Any], scope: Scope) -> tuple[str, ...]:
    """Return texts with the values of their references, without those that name what has none."""
    return tuple(one for one in (text(item, scope) for item in data) if one is not ABSENT)


def origin(data: Any, path: documents.Path, scope: Scope) -> documents.Path:
    """Return the path in a part of a recipe of what is at a path once it is filled."""
    at: documents.Path = ()
    field = ""
    for step in path:
        if is_choice(data) and not _has_names(field):
            at, data = (*at, "value"), data["value"]
        if isinstance(step, int) and isinstance(data, list):
            left = step
            for index, item in enumerate(data):
                count = len(_items(item, scope, field))
                if left < count:
                    at, data = (*at, index), item
                    break
                left -= count
        elif isinstance(data, Mapping) and step in data:
            at, data, field = (*at, step), data[step], _below(field, step)
        else:
            break  # The value of a parameter begins here.
    return at


def files(declared: Mapping[str, Any], scope: Scope) -> dict[str, str]:
    """Return the files of a volume: their names and texts."""
    return {name: made for _, name, made in each_file(declared, scope)}


def each_file(declared: Mapping[str, Any], scope: Scope) -> Iterator[tuple[str, str, str]]:
    """Yield the files of a volume: the key of the entry that makes one, its name and its text."""
    for entry, content in declared.items():
        yield from ((entry, *one) for one in _of_entry(entry, content, scope) if ABSENT not in one)


def _of_entry(name: str, content: Any, scope: Scope) -> Sequence[tuple[Any, Any]]:
    """Return the names and texts of an entry."""
    if not isinstance(content, Mapping):
        return [(text(name, scope), text(content, scope))]
    if "when" in content and not holds(content["when"], scope):
        return []
    if "json" in content:
        return [(text(name, scope), _json(content["json"], scope))]
    if "each" not in content:
        return [(text(name, scope), text(content["text"], scope))]
    return [
        (text(name, inner), text(content["text"], inner))
        for key, value in sorted((scope.get(alone(content["each"]) or "") or {}).items())
        for inner in [{**scope, "key": key, "value": value}]
    ]


def _json(data: Any, scope: Scope) -> Any:
    made = _structured(data, scope)
    if made is ABSENT:
        return ABSENT
    return json.dumps(made, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def _structured(data: Any, scope: Scope) -> Any:
    """Return data in which a reference that stands alone keeps its type."""
    if isinstance(data, Mapping):
        # A key has no reference, and $${ is a plain ${ there too.
        entries = {text(key, {}): _structured(value, scope) for key, value in data.items()}
        kept = {key: value for key, value in entries.items() if value is not ABSENT}
        return ABSENT if entries and not kept else kept
    if isinstance(data, list):
        items = [item for item in (_structured(one, scope) for one in data) if item is not ABSENT]
        return ABSENT if data and not items else items
    if not isinstance(data, str):
        return data
    name = alone(data)
    if name is None:
        return text(data, scope)
    value = scope.get(name, ABSENT)
    return ABSENT if is_absent(value) else value


def conditions(data: Any, path: documents.Path, field: str = "") -> Iterator[tuple[documents.Path, Any]]:
    """Yield every `when` of a part of a recipe, with its path."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            if key == "when" and not _has_names(field):
                yield (*path, key), value
            elif key != "json":
                yield from conditions(value, (*path, key), _below(field, key))
    elif isinstance(data, list):
        for index, item in enumerate(data):
            yield from conditions(item, (*path, index), _Item(field))


def parts(spec: Mapping[str, Any]) -> Iterator[tuple[documents.Path, Mapping[str, Any]]]:
    """Yield the parts of a recipe's spec in which references may stand, with their paths: programs come last.

    A driver is without its modules: the schemas of their parameters are no texts of it.
    """
    if "driver" in spec:
        yield ("driver",), {field: value for field, value in spec["driver"].items() if field != "modules"}
    if "devicePlugin" in spec:
        yield ("devicePlugin",), spec["devicePlugin"]
    yield from ((("programs", index), program) for index, program in enumerate(spec.get("programs", ())))


def places(program: Mapping[str, Any], path: documents.Path) -> Iterator[Place]:
    """Yield the texts of a part of a recipe, at a path, in which references may stand; of files, the keys too."""
    if "pod" not in program:
        yield from _of_pod(path, program, "", frozenset())
        return
    asked = demanded(program.get("when"))
    for name in ("offers", "claims"):
        for index, item in enumerate(program.get(name, ())):
            yield Place(path=(*path, name, index), text=item, field=name, demanded=asked)
    yield from _of_pod((*path, "disrupts"), program.get("disrupts"), "disrupts", asked)
    for volume, declared in program.get("files", {}).items():
        for name, content in declared.items():
            yield from _of_file((*path, "files", volume, name), name, content, asked)
    yield from _of_pod((*path, "pod"), program["pod"], "", asked)


def _of_file(path: documents.Path, name: str, content: Any, asked: frozenset[str]) -> Iterator[Place]:
    is_map = isinstance(content, Mapping)
    in_each = is_map and "each" in content
    asked |= demanded(content.get("when")) if is_map else frozenset()
    yield Place(path=path, text=name, field="name", in_each=in_each, demanded=asked)
    if not is_map:
        yield Place(path=path, text=content, field="text", demanded=asked)
        return
    if "text" in content:
        yield Place(path=(*path, "text"), text=content["text"], field="text", in_each=in_each, demanded=asked)
    for at, data in texts((*path, "json"), content.get("json")):
        yield Place(path=at, text=data, field="json", is_json=True, demanded=asked)


def texts(path: documents.Path, data: Any) -> Iterator[tuple[documents.Path, str]]:
    """Yield the texts in data, each with its path; `path` is that of the data."""
    if isinstance(data, str):
        yield path, data
    pairs = data.items() if isinstance(data, Mapping) else enumerate(data) if isinstance(data, list) else ()
    for key, value in pairs:
        yield from texts((*path, key), value)


def _of_pod(path: documents.Path, data: Any, field: str, asked: frozenset[str]) -> Iterator[Place]:
    if isinstance(data, str):
        yield Place(path=path, text=data, field=field, is_typed=field in TYPED and not _is_item(field), demanded=asked)
    elif isinstance(data, list):
        for index, item in enumerate(data):
            yield from _of_pod((*path, index), item, _Item(field), asked)
    elif isinstance(data, Mapping):
        conditioned = not _has_names(field)
        asked |= demanded(data.get("when")) if conditioned else frozenset()
        is_value = conditioned and is_choice(data)
        for key, value in data.items():
            if not (conditioned and key == "when"):
                below = field if is_value and key == "value" else _below(field, key)
                yield from _of_pod((*path, key), value, below, asked)
