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
    r"|(?:api|private|access|secret|signing|encryption|ssh|account|client|tls)[_.-]?key"
)
# Bounded, as is every repetition below that another one could follow: no log takes the square of its length.
_NAME = (
    rf"(?:[\w.-]{{0,100}}?(?i:{_WORDS})[\w.-]{{0,100}}|[A-Z0-9_]{{0,100}}KEY[A-Z0-9_]{{0,100}}"
    r"|(?:[\w.-]{0,100}?[_.-])?(?i:auth|pass)(?![\w.-])|[\w.-]{0,100}?[a-z]Pass(?![\w.-]))"
)
_IS_SECRET = re.compile(_NAME)
_HARMLESS = re.compile(
    r"automountServiceAccountToken|tokenExpirationSeconds|enableBootstrapToken\w*|credentialsSecret"
    r"|(?i:[\w.-]*(?:name|names|ref|refs|file|path|secrets|seconds|expiry|ttl|policy|mode|audience|\.k8s\.io|\.py))"
)
"""Names that speak of a secret and hold none: where it is, how long it lasts."""
_PASSWORD = re.compile(r"[\w.-]*(?i:pass(?:word|wd|phrase)?|pwd)")
"""Names whose value may also be a number or a common word."""

_STEERING = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?)?|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control sequences (ECMA-48, 5.4) and characters: they would part a name from its value, and steer terminals."""

_QUOTE = r"\\*[\"']"
_STAMP = r"(?:\d{4}-\d\d-\d\dT\S+ )?"
"""The time that the kubelet puts in front of each line of a log."""
_BEGIN, _END = (rf"-{{4,5}} ?{word} [A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)? ?-{{4,5}}" for word in ("BEGIN", "END"))

_FORMS = re.compile(
    rf"{_BEGIN}(?:.*?{_END}|.*)"
    r"|\b(?:gh[pousr]_|github_pat_|gl(?:pat|rt|dt|cbt|ptt|ft|soat|agent)-|xox[abeprs]-)[\w-]{10,}"
    r"|\b(?:npm_|dckr_pat_|hv[sbr]\.|ya29\.|AIza)[\w-]{20,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|(?<![\w-])eyJ[\w-]{5,}(?:\.[\w-]*){2,4}"
    r"|(?<![\w+/])(?:eyJ|LS0tLS1CRUdJTi)[\w+/]{30,}={0,2}",
    re.DOTALL,
)
"""Private keys (RFC 7468, RFC 9580), tokens of code hosts, keys of clouds, JSON Web Tokens (RFC 7519), and JSON and PEM
in base64, as Secrets and kubeconfigs hold them."""
_KEY_END = re.compile(rf"\A(?:.*\n){{0,200}}?.*?{_END}")
"""The end of a private key, where the log of a container is cut in the middle of it."""

_BRACKETS = r"(?:[\[(](?!masked\))){0,2}"
_AUTHORIZATION = rf"(?i:authorization)(?:{_QUOTE})?\s{{0,9}}[:=,]\s{{0,9}}{_BRACKETS}(?:{_QUOTE})?"
_AFTER = re.compile(
    rf"({_AUTHORIZATION}(?i:digest|aws4-hmac-sha256)\s)[^\n]+"
    rf"|({_AUTHORIZATION}(?i:basic|token|negotiate|ntlm|apikey)\s)[^\s\"'\\\]]+"
    rf"|(\b(?i:(?:set-)?cookie)(?:{_QUOTE})?\s{{0,9}}:\s{{0,9}}{_BRACKETS}(?:{_QUOTE})?)[^\"'\\\n]+"
    r"|(\b(?i:bearer)\s{1,9})(?!token\b|auth)[\w.~+/=-]{6,}"
    r"|(\b(?i:basic)\s{1,9})[\w+/]{6,}={1,2}"
    r"|([?&][\w.-]{0,40}(?i:sig|signature)=)[^&\s\"'\\]+"
    r"|((?<!\S)(?:-u|--user|--proxy-user)[ =][\"']?[^\s:\"']{1,100}:)(?![0-9]+(?![^\s\"']))[^\s\"']+"
    r"|(\blogin\s{1,9}\S{1,100}\s{1,9}password\s{1,9})\S+"
    rf"|((?m:^){_STAMP}[ \t]{{0,100}}(?:- )?[\w-]{{0,60}}(?i:pass(?:word|wd|phrase)|pwd):[ \t]{{1,9}})"
    r"(?![\"'|>{\[(]|(?i:true|false|null)\b)[^\n]+"
)
"""What follows the group is a secret: credentials of headers (RFC 9110, 11.6; RFC 6265), signatures of URLs, logins of
curl(1) and netrc(5), and words of a password in YAML."""

_VALUE = (
    rf"(?:(?P<open>{_QUOTE})(?P<quoted>[^\n]*?)(?P<close>(?<!\\)(?P=open)|$)"
    r"|(?P<bare>(?:\(masked\)|[^\s\"'\\{\[(]|(?<==)[{\[(])(?:[^\s\"'\\]|[\"'](?=\w))*))"
)
_ASSIGNED = re.compile(
    rf"(?P<head>(?<![\w.-])(?P<name>{_NAME})(?:{_QUOTE})?(?:\]\.value)?\s{{0,9}}(?::=|=>|==|[:=])[^\S\n]{{0,20}}"
    rf"{_BRACKETS}){_VALUE}",
    re.MULTILINE,
)
"""NAME=value, "name": "value", name: value; also in JSON that is a string of JSON, where quotes have backslashes."""

_NAMED_VALUE = re.compile(
    rf"(?P<head>(?<![\w.-])(?i:name)(?:{_QUOTE})?\s{{0,9}}:\s{{0,9}}(?:{_QUOTE})?(?P<name>{_NAME})(?:{_QUOTE})?"
    rf"[\s,]{{0,200}}(?:{_STAMP}[ \t]{{1,99}})?(?:{_QUOTE})?(?i:value)(?:{_QUOTE})?\s{{0,9}}:\s{{0,9}}){_VALUE}",
    re.MULTILINE,
)
"""An environment variable as objects have it, printed."""

_FLAG = re.compile(
    rf"(?P<head>(?<![\w-])--?(?P<name>{_NAME})(?:{_QUOTE},?\s{{0,9}}|[ \t]{{1,9}}))"
    rf"(?:(?P<open>{_QUOTE})(?P<quoted>(?:[^\"'\\\n]|\\(?![\"']))*)(?P<close>)|(?P<bare>(?![\"'\\-])[^\s\"'\\]+))"
)
"""An option of a command line, or of a list of its words."""

_BLOCK = re.compile(
    rf"^(?P<head>{_STAMP}(?P<indent>[ \t]*)(?P<dash>- )?[\"']?(?P<name>{_NAME})[\"']?:[ \t]*)"
    r"(?P<style>[|>][-+0-9]{0,2}[ \t]*)?\n"
    rf"(?P<body>(?:{_STAMP}(?P=indent)(?(dash)  )[ \t]+\S[^\n]*(?:\n|\Z)|{_STAMP}[ \t]*\n)+)",
    re.MULTILINE,
)
"""A value of YAML that begins on the next line: a block scalar, a list or a plain text."""
_MAPPING = re.compile(rf"{_STAMP}[ \t]*[\"']?[\w./-]+[\"']?:(?:\s|\Z)")

_PLAIN = re.compile(r"(?:true|false|null|none|[0-9]{1,6}|[|>][-+0-9]{0,2})?[],;)}]*", re.IGNORECASE)
_PROSE = re.compile(r"[A-Za-z]+(?= [\w\"'])")


def text(content: str) -> str:
    """Return a text without the secrets that their name, form or place in a URL tells, or control sequences."""
    content = wording.without_credentials(_STEERING.sub("", content))
    content = _KEY_END.sub(MASK, _FORMS.sub(MASK, content))
    content = _AFTER.sub(lambda match: f"{match[match.lastindex or 0]}{MASK}", content)
    content = _BLOCK.sub(_with_masked_block, content)
    for pattern in (_NAMED_VALUE, _ASSIGNED, _FLAG):
        content = _with_masked_values(pattern, content)
    return content


def _with_masked_block(match: re.Match[str]) -> str:
    is_mapping = match["style"] is None and _MAPPING.match(match["body"])
    return match.group() if is_mapping or not is_secret(match["name"]) else f"{match['head']}{MASK}\n"


def _with_masked_values(pattern: re.Pattern[str], content: str) -> str:
    """Return a text without the values that a pattern finds; other values are looked through, too."""
    parts, position = [], 0
    while match := pattern.search(content, position):
        parts.append(content[position : match.end("head")])
        position = match.end("head")
        if _is_hidden(match):
            parts.append(f"{match['open'] or ''}{MASK}{match['close'] or ''}")
            position = match.end()
    return "".join((*parts, content[position:]))


def _is_hidden(match: re.Match[str]) -> bool:
    name, value = match["name"], match["quoted"] if match["bare"] is None else match["bare"]
    if not is_secret(name) or not value or value.startswith(MASK):
        return False
    if _PASSWORD.fullmatch(name):
        return value[0].isdigit() or not _PLAIN.fullmatch(value)
    # "require authorization: server message": containerd's sentences, and those of exceptions.
    is_prose = match["bare"] and match["head"].endswith(": ") and _PROSE.match(match.string, match.start("bare"))
    return not is_prose and not _PLAIN.fullmatch(value)


def is_secret(name: str) -> bool:
    """Return whether a field or a variable of this name holds a secret."""
    return _IS_SECRET.fullmatch(name) is not None and _HARMLESS.fullmatch(name) is None


def data(value: Any) -> Any:
    """Return an object of the API server without secrets at any depth, managedFields and what was applied."""
    if isinstance(value, Mapping):
        named = isinstance(value.get("name"), str) and "value" in value and is_secret(value["name"])
        hidden = {"data", "stringData"} if value.get("kind") == "Secret" else {"value"} if named else set()
        return {
            text(key): MASK if item and (key in hidden or _hides(key, item)) else data(item)
            for key, item in value.items()
            if key != _DROPPED
        }
    if isinstance(value, str):
        return _string(value)
    return _arguments(value) if isinstance(value, Sequence) else value


def _hides(key: str, item: Any) -> bool:
    is_text = isinstance(item, str) or (isinstance(item, list) and any(isinstance(part, str) for part in item))
    return key == _LAST_APPLIED or (is_text and is_secret(key))


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
