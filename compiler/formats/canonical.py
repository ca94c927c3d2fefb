"""Canonical YAML and JSON text: equal data gives equal bytes, which every reader understands alike.

The readers of Kubernetes manifests are sigs.k8s.io/yaml, kustomize's kyaml and PyYAML, for YAML 1.1 and 1.2.
Strings that one of them takes for another type are quoted. Keys are sorted, and long lines are not folded.
"""

import functools
import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

# Numbers, dates, sexagesimals and special floats start with a digit, sign or dot; these strings start with a letter
# or slash. Words such as `yes`, and ':' or '#' beside a blank, stay ambiguous and are checked below.
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./@+ (),:-]*")
_WORDS = frozenset(
    ["null", "true", "false", "yes", "no", "on", "off", "y", "n", "inf", "infinity", "nan"]
)  # Compared in lower case: some reader takes each of them for a boolean, null or float.
# Characters beyond ASCII that need no escape: all but controls, line breaks of YAML 1.1, byte order marks and
# surrogates. Compiling a regular expression with such large sets would take milliseconds at every start.
_RAW = ((0xA0, 0x2027), (0x202A, 0xD7FF), (0xE000, 0xFEFE), (0xFF00, 0xFFFD), (0x10000, 0x10FFFF))
_ESCAPED = re.compile(r"[^ !#-\[\]-~]")
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_BEYOND = re.compile(r"[^ -~\t\n]")
# libyaml searches 1024 characters for the colon after a key (SIMPLE_KEY in scanner.c).
_KEY = 1000
# Some readers take larger integers for floats, and floats in other forms, such as 1e5, for strings.
_INTEGER = 10**18
_FLOAT = re.compile(r"-?[0-9]+\.[0-9]+")


def dump_yaml(data: Any) -> str:
    """Return the YAML text of an object; raise TypeError for a value that no manifest holds, such as null."""
    return _block(data, "") + "\n"


def dump_json(data: Any) -> str:
    """Return the compact JSON text of a value on one line, with sorted keys."""
    return json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def stated(value: Any) -> Any:
    """Return a struct as plain data, as it is written for people: without what is empty or has its default."""
    if isinstance(value, Mapping):
        return {key: stated(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return [stated(part) for part in value]
    if not isinstance(value, msgspec.Struct):
        return value
    shape = value.__struct_config__
    data = {shape.tag_field: shape.tag} if shape.tag_field else {}
    for name, key, default in _fields(type(value)):
        part = getattr(value, name)
        if part != default:
            data[key] = stated(part)
    return data


@functools.cache
def _fields(shape: type[msgspec.Struct]) -> tuple[tuple[str, str, Any], ...]:
    """Return the name, the key and the default of each field; to ask msgspec takes longer than to write a config."""
    return tuple(
        (
            field.name,
            field.encode_name,
            field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory(),
        )
        for field in msgspec.structs.fields(shape)
    )


def scalar(value: str | bool | int | float) -> str:
    """Return the text of a scalar: plain where no reader takes it for another type, otherwise in double quotes."""
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and -_INTEGER < value < _INTEGER:
        return str(value)
    if isinstance(value, float) and _FLOAT.fullmatch(repr(value)):
        return repr(value)
    raise TypeError(f"a manifest cannot hold the scalar {value!r}")


def quoted(text: str) -> str:
    """Return a string in double quotes, valid in YAML and JSON; raise TypeError for an unpaired surrogate."""
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    if short := _SHORT.get(character):
        return short
    if _is_raw(character):
        return character
    code = ord(character)
    if 0xD800 <= code <= 0xDFFF:
        raise TypeError(f"a manifest cannot hold the character {character!r}")
    return f"\\u{code:04x}"


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
    """Return whether a string is written as a literal block.

    The first line sets the indentation of the block, so it cannot begin with a blank. Blanks at the end of a line and
    several line breaks at the end of the text would not be seen, so such strings are quoted.
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


def _block(value: Any, indent: str) -> str:
    """Return the lines of a value, all of them indented."""
    if isinstance(value, dict) and value:
        return "\n".join([_member(f"{indent}{_key(key)}:", value[key], indent) for key in sorted(value)])
    if isinstance(value, list | tuple) and value:
        return "\n".join([_element(element, indent) for element in value])
    return indent + _flow(value)


def _member(head: str, value: Any, indent: str) -> str:
    """Return the lines of a key or dash and its value: scalars beside it, blocks below it."""
    if isinstance(value, str):
        return f"{head} {_literal(value, indent) if _is_literal(value) else _string(value)}"
    if isinstance(value, dict | list | tuple) and value:
        return f"{head}\n{_block(value, indent + '  ' if isinstance(value, dict) else indent)}"
    return f"{head} {_flow(value)}"


def _literal(text: str, indent: str) -> str:
    """Return a literal block with its indicator; one '-' there means that no line break ends the text."""
    indicator = "|" if text.endswith("\n") else "|-"
    return "\n".join([indicator, *(line and f"{indent}  {line}" for line in text.removesuffix("\n").split("\n"))])


def _element(value: Any, indent: str) -> str:
    """Return the lines of an element of a list; the dash stands in the indentation of the first one."""
    if isinstance(value, dict | list | tuple) and value:
        return f"{indent}- {_block(value, indent + '  ')[len(indent) + 2 :]}"
    return _member(f"{indent}-", value, indent)


def _flow(value: Any) -> str:
    if isinstance(value, dict) and not value:
        return "{}"
    if isinstance(value, list | tuple) and not value:
        return "[]"
    return scalar(value)


def _key(key: Any) -> str:
    if not isinstance(key, str) or key == "<<":  # kyaml takes even a quoted "<<" for a merge.
        raise TypeError(f"a manifest cannot hold the key {key!r}")
    written = _string(key)
    if len(written) > _KEY:
        raise TypeError(f"a key is longer than {_KEY} characters: {written[:40]}…")
    return written
