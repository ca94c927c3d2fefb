"""What an expression in CEL may set in a pod: the types and fields of its `Object{…}`, by tokens.

The API server does not check which fields an apply configuration sets (initializers are "insufficiently type checked",
patch/smd.go of its mutating plugin), so what is not allowed here would take effect, privileged containers too. Types
and fields are those of a list, a map stands in few places, and what has fields is written out: a value that comes from
elsewhere, as of an annotation or of url().getQuery(), could have any of them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import msgspec

from compiler import names

# White space, comments and strings as in CEL.g4 of cel-go. A string with a prefix is none that is read: in r"\" the
# backslash escapes nothing, and what one reader takes for a text is code for the other.
_SYMBOLS = r"""(?P<space>[\t\n\f\r\x20]+|//[^\n]*)
    |(?P<bad>[rRbB]{1,2}["'])
    |(?P<string>(?:'{3}(?:[^\\]|\\.)*?'{3}|"{3}(?:[^\\]|\\.)*?"{3}|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>[0-9][0-9A-Za-z_.]*)
    |(?P<sign>&&|\|\||[=!<>]=|[-+*/%!<>?:.,(){}\[\]])"""

_CONTAINER = ("name", "env", "resources", "volumeMounts")
FIELDS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "Object": ("metadata", "spec"),
        "Object.metadata": ("annotations",),
        "Object.spec": ("containers", "initContainers", "volumes"),
        **{
            f"Object.spec.{containers}{inner}": fields
            for containers in ("containers", "initContainers")
            for inner, fields in (
                ("", _CONTAINER),
                (".env", ("name", "value")),
                (".resources", ("limits", "requests")),
                (".volumeMounts", ("name", "mountPath", "readOnly")),
            )
        },
        "Object.spec.volumes": ("name", "emptyDir", "hostPath"),
        "Object.spec.volumes.emptyDir": ("medium", "sizeLimit"),
        "Object.spec.volumes.hostPath": ("path", "type"),
    }
)
"""The types that an expression may make, each with the fields that it may set."""
_MAPS = ("annotations", "limits", "requests")
"""Fields with a map of texts."""
_PLAIN: Mapping[tuple[str, str], str] = MappingProxyType(
    {("env", "name"): "The name of a variable", ("hostPath", "path"): "The path of a hostPath"}
)
"""Fields whose value is known, by their types, and their names in messages."""
_OPEN, _CLOSE = "([{", ")]}"


class Fault(msgspec.Struct, frozen=True):
    """What an expression may not have, and what to do."""

    message: str
    hint: str = "Set env, resources, volumeMounts, volumes of emptyDir and hostPath, and annotations alone."


class Set(msgspec.Struct, frozen=True, order=True):
    """What an expression sets in pods: a field, and the key of a map, or the name of a variable, or a path."""

    field: str
    what: str = ""


class _Token(msgspec.Struct, frozen=True):
    sort: str
    text: str

    @property
    def value(self) -> str | None:
        """The text of a plain string; None for one with escapes or a prefix."""
        is_plain = self.text[0] in "\"'" and "\\" not in self.text and self.text[:3] != self.text[0] * 3
        return self.text[1:-1] if is_plain else None


def names_variables(expression: str) -> bool:
    """Return whether an expression names a variable of its policy, which a condition cannot."""
    tokens = tuple(_tokens(expression))
    return any(token.text == "variables" and not _is_member(tokens, index) for index, token in enumerate(tokens))


def read(expression: str, *, sets: bool = True) -> Iterator[Fault | Set]:
    """Yield what an expression sets, and what it may not have; `sets` is False where it may set nothing."""
    tokens = list(_tokens(expression))
    bad = next((token for token in tokens if token.sort == "bad"), None)
    if bad is not None:
        yield Fault(f"{bad.text!r} is no token of CEL that is read here.", "Write the expression without it.")
        return
    if sets and not _is_written(tokens):
        yield Fault("A mutation is no Object that is written out.", _WRITE)
        return
    # The openers around a token: the type of an Object, or `{` of a map, with the field that they are in.
    around: list[tuple[str, str]] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        found: list[Fault | Set] = []
        if token.text in ("Object", "JSONPatch") and not _is_member(tokens, index):
            name, index = _type(tokens, index)
            found = _made(tokens, index, name, sets=sets)
            around.append((name, ""))
        elif token.text in _OPEN:
            found = [] if token.text != "{" or _is_map(around) else [Fault(_MAP)]
            around.append((token.text, around[-1][1] if around else ""))
        elif token.text in _CLOSE and around:
            around.pop()
        elif around and _begins(tokens, index, around[-1][0]):
            found = _key(tokens, index, around)
            if around[-1][0] != "{":
                around[-1] = (around[-1][0], token.text)
        yield from found
        if any(isinstance(one, Fault) for one in found):
            return
        index += 1


_MAP = "A map stands in annotations, limits and requests alone."


def _is_map(around: Sequence[tuple[str, str]]) -> bool:
    """Return whether a map may begin here: as the value of a field with a map of texts."""
    return bool(around) and around[-1][0].startswith("Object") and around[-1][1] in _MAPS


def _made(tokens: Sequence[_Token], end: int, name: str, *, sets: bool) -> list[Fault | Set]:
    """Return why an expression may not make a type, whose fields begin at a token."""
    if not sets:
        return [Fault("Only a mutation makes an Object.")]
    is_made = name in FIELDS and end < len(tokens) and tokens[end].text == "{"
    return [] if is_made else [Fault(f"An expression may not make '{name}'.")]


_WRITE = "Write Objects, lists and maps themselves, joined by `? :`, `+` and `map` alone: others may have any field."


def _is_written(tokens: Sequence[_Token]) -> bool:
    """Return whether every value that an expression can have is an Object, a list or a map that stands in it."""
    if len(found := _parts(tokens, "?")) > 1:
        branches = _parts(tokens[len(found[0]) + 1 :], ":", opener="?")
        return len(branches) == 2 and all(map(_is_written, branches))
    if len(found := _parts(tokens, "+")) > 1:
        return all(map(_is_written, found))
    # The bracket that the last token closes, and what it is of.
    last = next((index for index in range(len(tokens)) if _ends(tokens, index)), None)
    if last is None:
        return False
    opener, head, inner = tokens[last].text, [token.text for token in tokens[:last]], tokens[last + 1 : -1]
    if opener == "{":
        return not head or (head[0] == "Object" and not {*head} & {*_OPEN})
    parts = _parts(inner, ",")
    if head:
        return head[-2:] == [".", "map"] and len(parts) > 1 and _is_written(parts[-1])
    return all(map(_is_written, parts)) or (opener == "[" and not inner)


def _ends(tokens: Sequence[_Token], index: int) -> bool:
    """Return whether the bracket at a token is closed by the last token."""
    return (
        tokens[-1].text in _CLOSE
        and tokens[index].text in _OPEN
        and len(_parts(tokens[index + 1 :], "")[0]) == len(tokens) - index - 2
    )


def _parts(tokens: Sequence[_Token], sign: str, *, opener: str = "") -> list[Sequence[_Token]]:
    """Return the parts of tokens between signs outside of brackets, up to the bracket that closes those around them.

    A sign after an `opener` belongs to that one.
    """
    found: list[Sequence[_Token]] = []
    begin = depth = open_signs = 0
    for index, token in enumerate(tokens):
        depth += (token.text in _OPEN) - (token.text in _CLOSE)
        if depth < 0:
            return [*found, tokens[begin:index]]
        if depth == 0 and opener and token.text == opener:
            open_signs += 1
        elif depth == 0 and token.text == sign and open_signs:
            open_signs -= 1
        elif depth == 0 and token.text == sign and token.text not in _CLOSE:
            found.append(tokens[begin:index])
            begin = index + 1
    return [*found, tokens[begin:]]


def _tokens(text: str) -> Iterator[_Token]:
    at, pattern = 0, re.compile(_SYMBOLS, re.VERBOSE | re.DOTALL)
    while at < len(text):
        found = pattern.match(text, at)
        if found is None:
            yield _Token("bad", text[at])
            return
        if found.lastgroup != "space":
            yield _Token(str(found.lastgroup), found.group())
        at = found.end()


def _is_member(tokens: Sequence[_Token], index: int) -> bool:
    return index > 0 and tokens[index - 1].text == "."


def _type(tokens: Sequence[_Token], index: int) -> tuple[str, int]:
    """Return the type that begins at a token, and the place behind it."""
    parts = [tokens[index].text]
    index += 1
    while index + 1 < len(tokens) and tokens[index].text == "." and tokens[index + 1].sort == "name":
        parts.append(tokens[index + 1].text)
        index += 2
    return ".".join(parts), index


def _begins(tokens: Sequence[_Token], index: int, opener: str) -> bool:
    """Return whether a token is the first one of an entry of a map or of an Object; one may be optional: `?key`."""
    before = tokens[index - 1].text
    if before == "?" and index > 1:
        before = tokens[index - 2].text
    return before in ("{", ",") and (opener == "{" or opener.startswith("Object")) and tokens[index].text != "?"


def _key(tokens: Sequence[_Token], index: int, around: Sequence[tuple[str, str]]) -> list[Fault | Set]:
    """Return what an entry sets, or why it may not."""
    (opener, field), token = around[-1], tokens[index]
    is_key = index + 1 < len(tokens) and tokens[index + 1].text == ":"
    if opener == "{":
        if token.sort != "string" or token.value is None or not is_key:
            return [Fault(f"A key of {field} is not a plain text.", "Write the key in quotes.")]
        return [Set(field, token.value)]
    if token.text not in FIELDS[opener] or not is_key:
        return [Fault(f"An expression may not set '{token.text}' of {opener}.")]
    inner = f"{opener}.{token.text}"
    if (inner in FIELDS or token.text in _MAPS) and not _is_written(_parts(tokens[index + 2 :], ",")[0]):
        return [Fault(f"The value of '{token.text}' is not written out.", _WRITE)]
    kind = opener.rpartition(".")[2]
    if (kind, token.text) in _PLAIN:
        text = tokens[index + 2] if index + 2 < len(tokens) else token
        end = tokens[index + 3].text if index + 3 < len(tokens) else ""
        if text.sort != "string" or text.value is None or end not in (",", "}"):
            what = _PLAIN[kind, token.text]
            return [Fault(f"{what} is not one plain text.", "Write it in quotes, without operators.")]
        return [Set(kind, text.value)]
    return [Set(kind)] if kind in ("volumeMounts", "emptyDir") else []


def _is_one(resource: str, allowed: Sequence[str]) -> bool:
    return any(names.glob_matches(glob, resource) for glob in allowed)


def faults(found: Set, resources: Sequence[str]) -> Iterator[Fault]:
    """Yield why what an expression sets is none of the recipe's; `resources` are those that it offers, or globs."""
    if found.field in ("limits", "requests") and not _is_one(found.what, resources):
        yield Fault(f"An expression may not set '{found.what}' of pods.", "Set resources that the recipe offers.")
    domains = tuple(f"{one.partition('/')[0]}/" for one in resources)
    if found.field == "annotations" and not found.what.startswith(domains):
        yield Fault(
            f"An expression may not set the annotation '{found.what}'.",
            "Set annotations with the domain of a resource of the recipe.",
        )
