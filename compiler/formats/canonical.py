"""The one way in which objects and inventories are written: the same data, the same bytes, the same meaning.

YAML is written so that every reader of Kubernetes takes it alike (sigs.k8s.io/yaml, kustomize's kyaml,
PyYAML; YAML 1.1 and 1.2): strings that any of them could take for something else are quoted, keys are
sorted, nothing is folded, and nothing is left out.
"""

import functools
import json
import re
from typing import Any

# A letter or a slash first keeps out every number, date, sexagesimal and special float, all of which start
# with a digit, sign or dot; what stays ambiguous are words, and marks with a blank beside them.
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./@+ (),:-]*")
_WORDS = frozenset(
    ["null", "true", "false", "yes", "no", "on", "off", "y", "n", "inf", "infinity", "nan"]
)  # compared in lower case: each of them is a scalar of its own to some reader
# Beyond ASCII, what readers take raw: no controls, line breaks of any YAML, byte order marks, half characters.
# Tuples rather than a regular expression, whose large character sets take milliseconds to compile at every start.
_RAW = ((0xA0, 0x2027), (0x202A, 0xD7FF), (0xE000, 0xFEFE), (0xFF00, 0xFFFD), (0x10000, 0x10FFFF))
_ESCAPED = re.compile(r"[^ !#-\[\]-~]")
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_BEYOND = re.compile(r"[^ -~\t\n]")
# libyaml looks no further than 1024 characters for the colon after a key.
_KEY = 1000
# Larger integers are floats to some readers; other floats are written in forms that are strings to some.
_INTEGER = 10**18
_FLOAT = re.compile(r"-?[0-9]+\.[0-9]+")


def dump_yaml(data: Any) -> str:
    """The YAML text of an object; raises TypeError for what a manifest cannot hold, null among it."""
    lines: list[str] = []
    _block(data, "", lines)
    lines.append("")
    return "\n".join(lines)


def dump_json(data: Any) -> str:
    """The compact JSON text of a value on one line, keys sorted."""
    return json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def scalar(value: str | bool | int | float) -> str:
    """A scalar as it is written: plain where nobody can misread it, otherwise in double quotes."""
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and -_INTEGER < value < _INTEGER:
        return str(value)
    if isinstance(value, float) and _FLOAT.fullmatch(repr(value)):
        return repr(value)
    raise TypeError(f"no scalar of a manifest: {value!r}")


def quoted(text: str) -> str:
    """A string in double quotes, which YAML reads as JSON does; raises TypeError for half characters."""
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    if _is_raw(character):
        return character
    code = ord(character)
    if 0xD800 <= code <= 0xDFFF:
        raise TypeError(f"no character of a manifest: {character!r}")
    return _SHORT.get(character) or f"\\u{code:04x}"


def _is_raw(character: str) -> bool:
    return any(first <= ord(character) <= last for first, last in _RAW)


@functools.lru_cache(maxsize=65536)
def _string(text: str) -> str:
    return text if _is_plain(text) else quoted(text)


def _is_plain(text: str) -> bool:
    return (
        _PLAIN.fullmatch(text) is not None and text[-1] not in " :" and ": " not in text and text.lower() not in _WORDS
    )


def _is_literal(text: str) -> bool:
    """Whether a string is written as a literal block.

    Its first line sets the indentation, so it begins with no blank; nobody would see a blank at the end of a
    line, or count the line breaks at the end.
    """
    return (
        "\n" in text
        and text[0] not in " \t\n"
        and text[-1] not in " \t"
        and not text.endswith("\n\n")
        and " \n" not in text
        and "\t\n" not in text
        and all(map(_is_raw, _BEYOND.findall(text)))
    )


def _block(value: Any, indent: str, lines: list[str]) -> None:
    """Add the lines of a value, all of them indented."""
    if isinstance(value, dict) and value:
        for key in sorted(value):
            _entry(f"{indent}{_key(key)}:", value[key], indent, lines)
    elif isinstance(value, list | tuple) and value:
        for item in value:
            _item(item, indent, lines)
    else:
        lines.append(indent + _flow(value))


def _entry(head: str, value: Any, indent: str, lines: list[str]) -> None:
    """Add a head and its value: beside it or, where it is a block, below it."""
    if isinstance(value, dict) and value:
        lines.append(head)
        _block(value, indent + "  ", lines)
    elif isinstance(value, list | tuple) and value:
        lines.append(head)
        _block(value, indent, lines)
    elif isinstance(value, str) and _is_literal(value):
        lines.append(f"{head} |" if value.endswith("\n") else f"{head} |-")
        text = value.removesuffix("\n")
        lines.extend(f"{indent}  {line}" if line else "" for line in text.split("\n"))
    else:
        lines.append(f"{head} {_flow(value)}")


def _item(value: Any, indent: str, lines: list[str]) -> None:
    if isinstance(value, dict | list | tuple) and value:
        first = len(lines)
        _block(value, indent + "  ", lines)
        lines[first] = f"{indent}- {lines[first][len(indent) + 2 :]}"
    else:
        _entry(f"{indent}-", value, indent, lines)


def _flow(value: Any) -> str:
    if isinstance(value, dict) and not value:
        return "{}"
    if isinstance(value, list | tuple) and not value:
        return "[]"
    return scalar(value)


def _key(key: Any) -> str:
    if not isinstance(key, str) or key == "<<":  # kyaml merges even where it is quoted.
        raise TypeError(f"no key of a manifest: {key!r}")
    written = _string(key)
    if len(written) > _KEY:
        raise TypeError(f"a key longer than YAML readers look: {written[:40]}…")
    return written
