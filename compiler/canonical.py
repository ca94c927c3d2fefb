"""The one way in which objects and inventories are written: the same data, the same bytes, the same meaning.

YAML is written so that every reader of Kubernetes takes it alike (sigs.k8s.io/yaml, kustomize's kyaml,
PyYAML; YAML 1.1 and 1.2): strings that any of them could take for something else are quoted, keys are
sorted, nothing is folded, and nothing is left out.
"""

import json
import re
from typing import Any

# A letter or a slash first keeps out every number, date, sexagesimal and special float that starts with a
# digit, sign or dot; what stays ambiguous are words.
_PLAIN = re.compile(r"[A-Za-z/]([A-Za-z0-9_./@+ ()-]|,(?! )|:(?! ))*", re.ASCII)
_WORDS = frozenset(
    "null true false yes no on off y n inf infinity nan".split()
)  # compared in lower case: each of them is a scalar of its own to some reader
_ESCAPED = re.compile(r"[^\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]|[\"\\\u2028\u2029]")
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_BLOCK = re.compile(r"[^\s#](?:[\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\n])*")


def dump_yaml(data: Any) -> str:
    """The YAML text of an object; raises TypeError for null and for what JSON does not know."""
    return "\n".join(_lines(data)) + "\n"


def dump_json(data: Any) -> str:
    """The compact JSON text of a value on one line, keys sorted."""
    return json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def scalar(value: str | bool | int | float) -> str:
    """A scalar as it is written: plain where nobody can misread it, otherwise in double quotes."""
    if isinstance(value, str):
        return value if _is_plain(value) else quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    raise TypeError(f"no scalar of a manifest: {value!r}")


def quoted(text: str) -> str:
    """A string in double quotes, which YAML reads as JSON does."""
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    code = ord(character)
    return _SHORT.get(character) or (f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")


def _is_plain(text: str) -> bool:
    return (
        _PLAIN.fullmatch(text) is not None and text[-1] not in " :" and text.lower() not in _WORDS and " #" not in text
    )


def _lines(value: Any) -> list[str]:
    """The lines of a block, not indented."""
    if isinstance(value, dict) and value:
        return [line for key in sorted(value) for line in _entry(f"{scalar(key)}:", value[key], "  ")]
    if isinstance(value, list | tuple) and value:
        return [line for item in value for line in _item(item)]
    return [_flow(value)]


def _entry(head: str, value: Any, indent: str) -> list[str]:
    if isinstance(value, dict) and value:
        return [head, *(indent + line for line in _lines(value))]
    if isinstance(value, list | tuple) and value:
        return [head, *_lines(value)]
    if isinstance(value, str) and "\n" in value and _BLOCK.fullmatch(value) and " \n" not in value:
        return [f"{head} {_block_header(value)}", *_block_lines(value, indent)]
    return [f"{head} {_flow(value)}"]


def _item(value: Any) -> list[str]:
    if isinstance(value, dict | list | tuple) and value:
        first, *rest = _lines(value)
        return [f"- {first}", *(f"  {line}" if line else line for line in rest)]
    return _entry("-", value, "  ")


def _flow(value: Any) -> str:
    if isinstance(value, dict) and not value:
        return "{}"
    if isinstance(value, list | tuple) and not value:
        return "[]"
    return scalar(value)


def _block_header(text: str) -> str:
    if not text.endswith("\n"):
        return "|-"
    return "|+" if text.endswith("\n\n") else "|"


def _block_lines(text: str, indent: str) -> list[str]:
    lines = text.removesuffix("\n").split("\n")
    return [indent + line if line else "" for line in lines]
