"""Rules for the container of a component: pull secrets, variables, requests and limits."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple

from compiler import wording
from compiler.checks import lists
from compiler.diagnostics import Diagnostic, rule
from compiler.fleet import pods
from compiler.formats import documents, urls

_LARGEST = Fraction(2**63 - 1, 1000)
"""The API server counts thousandths in 64-bit integers (`MilliValue` in apimachinery's pkg/api/resource)."""

_THOUSANDTH = Fraction(1, 1000)
"""The API server rounds finer amounts up (`SetDefaults_ResourceList` in Kubernetes' core defaults)."""

_BYTES = ("memory", "ephemeral-storage")
_PAGES = "hugepages-"
_QUOTA = "requests."
"""The prefix of resources in quotas, which no container can ask for (`IsExtendedResourceName`)."""
_LONGEST_DOMAIN = 253


class _Fault(NamedTuple):
    """A mistake in an amount: a predicate, the fix, and an explanation."""

    predicate: str
    hint: str
    note: str = ""


def pull_secrets(
    source: documents.Document, path: documents.Path, secrets: Iterable[pods.Reference]
) -> Iterator[Diagnostic]:
    """A component names a pull secret once, as server-side apply merges them by name."""
    named = (((*path, "pullSecrets", index, "name"), secret.name) for index, secret in enumerate(secrets))
    yield from lists.twice(source, named, "The Secret '{}' is named twice.")


def variables(
    source: documents.Document, path: documents.Path, env: Iterable[pods.EnvVar], reserved: Collection[str]
) -> Iterator[Diagnostic]:
    """Variables are unique and not the compiler's; those such as HTTPS_PROXY have URLs, without credentials."""
    seen: set[str] = set()
    for index, variable in enumerate(env):
        if variable.name in seen or variable.name in reserved:
            predicate = "is set twice" if variable.name in seen else "is set by the compiler"
            yield Diagnostic(
                code="duplicate-name",
                span=source.span(*path, "env", index, "name"),
                message=f"The variable '{variable.name}' {predicate}.",
                hint="Keep one of the two." if variable.name in seen else "Remove it.",
            )
        seen.add(variable.name)
        hint = "Use a proxy that needs none, or one that knows the hosts by their addresses."
        place = (*path, "env", index, "value")
        yield from credentials(source, place, variable.name, variable.value, hint)
        yield from _proxy(source, place, variable)


@rule("proxy-url", "error")
def _proxy(source: documents.Document, path: documents.Path, variable: pods.EnvVar) -> Iterator[Diagnostic]:
    """A variable that names a proxy, such as HTTPS_PROXY, holds its URL."""
    if variable.names_proxy and urls.port(variable.value, default=1) is None:
        message = f"The variable '{variable.name}' names no proxy with a port from 1 to 65535."
        hint = "Write the proxy's URL, such as http://proxy.example.com:3128."
        yield Diagnostic(span=source.span(*path), message=message, hint=hint)


@rule("env-credentials", "warning")
def credentials(
    source: documents.Document, path: documents.Path, name: str, value: str, hint: str
) -> Iterator[Diagnostic]:
    """No variable in a document holds a URL with a user's password or token."""
    if wording.without_credentials(value) != value:
        message = f"The variable '{name}' holds credentials, and everyone who reads git sees them."
        yield Diagnostic(span=source.span(*path), message=message, hint=hint)


@rule("resource-amount", "error")
def amounts(source: documents.Document, component: documents.Path, resources: pods.Resources) -> Iterator[Diagnostic]:
    """The API server takes the amounts of resources, and stores them unchanged.

    See `ValidateContainerResourceRequirements` in Kubernetes' core validation, and `warningsForPodSpec`.
    """
    limits, requests = resources.limits, resources.requests
    path: documents.Path = (*component, "resources")
    for side, given in (("limits", limits), ("requests", requests)):
        for name, amount in sorted(given.items()):
            fault = _of_name(name) or _alone(name, pods.amount_of(amount))
            fault = fault or (_without_memory(name, {*limits, *requests}) if side == "limits" else None)
            fault = fault or (_beside(name, amount, limits) if side == "requests" else None)
            if fault:
                yield Diagnostic(
                    span=source.span(*path, side, name),
                    message=f"'{amount}' of '{name}' {fault.predicate}.",
                    notes=(fault.note,) if fault.note else (),
                    hint=fault.hint,
                )


def _of_name(name: str) -> _Fault | None:
    """Return why no container can ask for a resource of this name; the schema checks its form."""
    if not _is_extended(name):
        return None
    if name.startswith(_QUOTA):
        return _Fault("has a name of quotas, which no container can ask for", f"Remove '{_QUOTA}' from the name.")
    if len(_QUOTA + name.partition("/")[0]) > _LONGEST_DOMAIN:
        most = _LONGEST_DOMAIN - len(_QUOTA)
        return _Fault("has a domain that is too long", f"Shorten the domain to {most} characters.")
    return None


def _alone(name: str, value: Fraction | None) -> _Fault | None:
    """Return the mistake in an amount that does not depend on other amounts."""
    if value is None or value > _LARGEST:
        return _Fault("is more than Kubernetes can count", "Write at most 9P.")
    if _is_bytes(name) and value.denominator > 1:
        return _Fault("is not a whole number of bytes", "Write whole bytes; Mi are mebibytes, and m are thousandths.")
    if _is_extended(name) and value.denominator > 1:
        return _Fault("is not a whole number", f"Write {math.ceil(value)}: such a resource cannot be divided.")
    if (value / _THOUSANDTH).denominator > 1:
        least = math.ceil(value / _THOUSANDTH)
        return _Fault("is finer than a thousandth", f"Write {least}m.", "The API server would round it up.")
    return _of_pages(name, value) if name.startswith(_PAGES) else None


def _of_pages(name: str, value: Fraction) -> _Fault | None:
    size = pods.amount_of(name.removeprefix(_PAGES))
    if not size or size > _LARGEST:
        return _Fault("has no valid page size", "Name the size of the pages, such as hugepages-2Mi.")
    if (value / size).denominator > 1:
        return _Fault("is not a whole number of pages", f"Write a multiple of {name.removeprefix(_PAGES)}.")
    return None


def _without_memory(name: str, names: set[str]) -> _Fault | None:
    if name.startswith(_PAGES) and names.isdisjoint({"cpu", "memory"}):
        return _Fault("needs an amount of cpu or memory too", "Add one to requests or limits.")
    return None


def _beside(name: str, amount: object, limits: Mapping[str, object]) -> _Fault | None:
    """Return the mistake in a request beside its limit; a resource that is never shared needs both to be equal."""
    is_shared = not _is_extended(name) and not name.startswith(_PAGES)
    if name not in limits:
        predicate = "has no limit, but a resource that is never shared needs one"
        return None if is_shared else _Fault(predicate, f"Write limits: {{{name}: {amount}}} too.")
    request, limit = pods.amount_of(amount), pods.amount_of(limits[name])
    if request is None or limit is None or request == limit:
        return None
    if not is_shared:
        predicate = f"differs from its limit of '{limits[name]}', but the resource is never shared"
        return _Fault(predicate, "Give both the same amount, or remove the request.")
    predicate = f"is more than its limit of '{limits[name]}'"
    return _Fault(predicate, "Lower the request, or raise the limit.") if request > limit else None


def _is_bytes(name: str) -> bool:
    return name in _BYTES or name.startswith(_PAGES)


def _is_extended(name: str) -> bool:
    """Return whether a resource is an extended one, such as a device: counted, and never shared."""
    return "/" in name and "kubernetes.io/" not in name
