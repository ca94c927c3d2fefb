"""The forms of values in documents, for the schemas: annotations of types, which no reader of a document looks at."""

from typing import Annotated, Any, Literal

from compiler import keywords, names
from compiler.formats import urls


class Keywords:
    """Keywords of a JSON Schema for an annotated type, which pydantic adds to its own, and msgspec passes over."""

    def __init__(self, **given: Any) -> None:
        """Take the keywords by their names in JSON Schema."""
        self.given = given

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Any:
        return handler(schema) | self.given


def form(words: str) -> dict[str, Any]:
    """Return the schema keyword with the meaning of a field, for messages about values that do not fit it."""
    return {keywords.FORM: words}


def text(pattern: str, longest: int | None, words: str, shortest: int | None = None) -> Keywords:
    """Return the form of a text that a pattern matches as a whole, with a bound of its length, and its meaning."""
    bounds = {"maxLength": longest, "minLength": shortest}
    given = {name: bound for name, bound in bounds.items() if bound is not None}
    return Keywords(pattern=f"^{pattern}$", **given, **form(words))


_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_DOMAIN = names.CLUSTER_PATTERN  # both are DNS names

LabelKey = Annotated[str, text(rf"({_DOMAIN}/)?{_NAME}", 317, "a label key, such as app or example.com/app")]
LabelValue = Annotated[
    str,
    text(
        rf"({_NAME})?",
        63,
        "a label value (at most 63 letters, digits, '-', '_' and '.', a letter or digit at both ends)",
    ),
]
DnsLabel = Annotated[
    str, text(names.LABEL_PATTERN, names.LABEL_LENGTH, "a DNS label (at most 63 lower-case letters, digits and '-')")
]
ObjectName = Annotated[str, text(_DOMAIN, 253, "a name (at most 253 lower-case letters, digits, '-' and '.')")]
ProjectName = Annotated[
    str, text(_DOMAIN, 100, "the name of an AppProject (at most 100 lower-case letters, digits, '-' and '.')")
]
"""Shorter than Kubernetes would take, as a file is named after it: file systems end at 255 bytes, some at 143."""
PolicyName = Annotated[
    str, text(names.POLICY_PATTERN, names.POLICY_LENGTH, "a DNS label of at most 30 characters without '--'")
]
ClusterName = Annotated[
    str,
    text(_DOMAIN, names.CLUSTER_LENGTH, "the name of a cluster (at most 50 lower-case letters, digits, '-' and '.')"),
]
ResourceName = Annotated[
    str,
    text(
        rf"(cpu|memory|ephemeral-storage|hugepages-[0-9]+[KMGTPE]i|{_DOMAIN}/{_NAME})",
        317,
        "a resource of containers, such as cpu or example.com/device",
    ),
]
"""https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/"""
Quantity = Annotated[
    Annotated[str, Keywords(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e[0-9]+)?$", maxLength=30)]
    | Annotated[int, Keywords(minimum=0)]
    | Annotated[float, Keywords(minimum=0)],
    Keywords(**form("a quantity, such as 2, 500m or 1Gi")),
]
"""https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/"""
Port = Annotated[int, Keywords(minimum=1, maximum=65535)]
ImagePart = Annotated[
    str,
    text(
        r"[A-Za-z0-9._:/@-]*",
        500,
        "a part of an image reference (at most 500 letters, digits, '.', '_', ':', '/', '@' and '-')",
    ),
]
Duration = Annotated[
    str, text(r"([0-9]+h)?([0-9]+m)?([0-9]+s)?", 20, "a duration, such as 90s, 10m or 1h30m", shortest=2)
]
PullPolicy = Literal["Always", "IfNotPresent", "Never"]
Glob = Annotated[str, text(r"[a-z0-9.*?\[\]!-]+", 100, "the name of a cluster or a glob, such as east-*")]


def url(patterns: str, words: str, credentials: str) -> Keywords:
    """Return the form of a URL: its patterns, its meaning in words, and the place of credentials in a sentence."""
    more = form(words) | {keywords.CREDENTIALS: credentials}
    return Keywords(pattern=f"^({patterns})$", maxLength=500, **more)


def git_url(credentials: str) -> Keywords:
    """Return the form of the URL of a git repository."""
    words = "the URL of a git repository, such as https://git.example.com/fleet.git"
    return url(f"{urls.HTTP}|{urls.FILE}|{urls.GIT}", words, credentials)


_PATH_PART = r"\.{0,2}[A-Za-z0-9_][A-Za-z0-9._-]*"
GitPath = Annotated[
    str,
    text(
        rf"(\.|{_PATH_PART}(/{_PATH_PART})*)",
        250,
        "the path of a folder in git (letters, digits, '.', '_', '-', and '/' between two names, but no '..')",
    ),
]
_REFERENCE = rf"[^{urls.BLANK}~^:?*\[\\/.{{"
"""The beginning of a class of characters: those of a reference's name but dot and slash."""
_DOTTED = rf"(\.{_REFERENCE}]+)*"
Branch = Annotated[
    str,
    # The rules of https://git-scm.com/docs/git-check-ref-format, but for `.lock`: RE2 knows no lookahead.
    text(
        rf"{_REFERENCE}@-]{_REFERENCE}]*{_DOTTED}(/{_REFERENCE}]+{_DOTTED})*",
        250,
        "the name of a branch in git (see git check-ref-format), such as main or release/1.2",
    ),
]
