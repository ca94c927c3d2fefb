"""Hide secrets in texts and objects: passwords, tokens and keys, by their names, by their form and in URLs.

It errs on the side of hiding. What is a secret without its name or form saying so cannot be told from other words.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from compiler import wording

MASK = "(masked)"

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_DROPPED = "managedFields"

# A word such as KAE_TOKEN, private_key or dbPassword. "key" alone names half of Kubernetes' fields.
_WORDS = (
    r"pass(?:word|wd|phrase)|pwd|token|secret|credential|authorization"
    r"|(?:api|private|access|secret|signing|encryption|ssh|account)[_.-]?key"
)
# Bounded, so that no log takes the square of its length.
_NAME = rf"(?:[\w.-]{{0,100}}?(?i:{_WORDS})[\w.-]{{0,100}}|[A-Z0-9_]{{0,100}}KEY[A-Z0-9_]{{0,100}})"
_IS_SECRET = re.compile(_NAME)
_HARMLESS = re.compile(
    r"automountServiceAccountToken|tokenExpirationSeconds|enableBootstrapToken\w*"
    r"|(?i:[\w.-]*(?:name|names|ref|refs|file|path|secrets|seconds|expiry|audience|\.k8s\.io))"
)
"""Names that speak of a secret and hold none: where it is, how long it lasts."""

_FORMS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:.*?-----END [A-Z ]*PRIVATE KEY-----|.*)"
    r"|\b(?:gh[pousr]_|github_pat_|glpat-|xox[abprs]-)[\w-]{10,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\beyJ[\w-]{5,}\.[\w-]+\.[\w-]*",
    re.DOTALL,
)
"""Private keys (RFC 7468), tokens of code hosts, keys of a cloud, and JSON Web Tokens (RFC 7519)."""

_SCHEMES = re.compile(r"\b((?i:bearer|basic|digest|negotiate)\s+)(?!token\b|auth)[\w.~+/=-]{6,}")
"""Credentials of an Authorization header (RFC 9110, 11.4)."""

_QUOTE = r"\\*[\"']"
_VALUE = rf"(?:(?P<open>{_QUOTE})(?P<quoted>.*?)(?P<close>(?<!\\)(?P=open)|$)|(?P<bare>[^\s\"'\\{{\[(][^\s\"'\\]*))"
_ASSIGNED = re.compile(
    rf"(?P<name>(?<![\w.-]){_NAME})(?P<sign>(?:{_QUOTE})?(?:\]\.value)?\s*[:=]\s*)"
    rf"{_VALUE}",
    re.MULTILINE,
)
"""NAME=value, "name": "value", name: value; also in JSON that is a string of JSON, where quotes have backslashes."""

_NAMED_VALUE = re.compile(
    rf"(?P<head>{_QUOTE}?name{_QUOTE}?\s*:\s*(?:{_QUOTE})?{_NAME}(?:{_QUOTE})?\s*,?\s*{_QUOTE}?value{_QUOTE}?\s*:\s*)"
    rf"{_VALUE}",
    re.MULTILINE,
)
"""An environment variable as objects have it, printed."""

_FLAG = re.compile(rf"(?P<flag>(?<!\S)--?{_NAME})(?P<space>[ \t]+)(?P<value>(?!-)\S+)")
_PLAIN = re.compile(r"(?:true|false|null|none|[0-9]{1,6})?[],;)}]*", re.IGNORECASE)


def text(content: str) -> str:
    """Return a text without the secrets that their name, form or place in a URL tells."""
    content = _FORMS.sub(MASK, wording.without_credentials(content))
    content = _SCHEMES.sub(rf"\1{MASK}", content)
    content = _NAMED_VALUE.sub(_with_masked_value, content)
    content = _ASSIGNED.sub(_with_masked_value, content)
    return _FLAG.sub(lambda match: f"{match['flag']}{match['space']}{MASK}", content)


def _with_masked_value(match: re.Match[str]) -> str:
    groups = match.groupdict()
    value = groups["quoted"] if groups["bare"] is None else groups["bare"]
    name = groups.get("name") or ""
    if _PLAIN.fullmatch(value) or value.startswith(MASK) or (name and not is_secret(name)):
        return match.group()
    head = groups.get("head") or f"{name}{groups['sign']}"
    return f"{head}{groups['open'] or ''}{MASK}{groups['close'] or ''}"


def is_secret(name: str) -> bool:
    """Return whether a field or a variable of this name holds a secret."""
    return _IS_SECRET.fullmatch(name) is not None and _HARMLESS.fullmatch(name) is None


def data(value: Any) -> Any:
    """Return an object of the API server without secrets at any depth, managedFields and what was applied."""
    if isinstance(value, Mapping):
        named = isinstance(value.get("name"), str) and "value" in value and is_secret(value["name"])
        return {
            text(key): MASK if _hides(key, item) or (named and key == "value" and item) else data(item)
            for key, item in value.items()
            if key != _DROPPED
        }
    if isinstance(value, str):
        return _string(value)
    return _arguments(value) if isinstance(value, Sequence) else value


def _hides(key: str, item: Any) -> bool:
    return key == _LAST_APPLIED or (isinstance(item, str) and bool(item) and is_secret(key))


def _string(value: str) -> str:
    """Return a string without secrets; JSON in it, such as the config of a program, is masked as data."""
    if value.lstrip()[:1] in ("{", "["):
        try:
            return json.dumps(data(json.loads(value)), indent=1, ensure_ascii=False)
        except (ValueError, RecursionError):
            pass
    return text(value)


def _arguments(values: Sequence[Any]) -> list[Any]:
    """Return a list without secrets; one that follows an option such as --token is one."""
    made = []
    for before, value in zip(("", *values), values, strict=False):
        follows = isinstance(before, str) and before.startswith("-") and is_secret(before.lstrip("-"))
        made.append(MASK if follows and isinstance(value, str) and not value.startswith("-") else data(value))
    return made


def change(path: str, value: Any) -> Any:
    """Return the value of a field that differs, as `kae status` names it by its path, without secrets."""
    named = any(is_secret(part) for part in re.split(r"[.\[\]/]", path)) or _LAST_APPLIED in path
    return MASK if named and isinstance(value, str) and value else data(value)
