"""Rules for the container of a component: pull secrets, variables, requests and limits."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from compiler import wording
from compiler.checks import lists
from compiler.diagnostics import Diagnostic, rule
from compiler.fleet import pods
from compiler.formats import documents, urls

if TYPE_CHECKING:
    from fractions import Fraction

_THOUSANDTHS = 1000
"""The API server rounds finer amounts up (`SetDefaults_ResourceList` in Kubernetes' core defaults)."""

_MOST_THOUSANDTHS = 2**63 - 1
"""The API server counts thousandths in 64-bit integers (`MilliValue` in apimachinery's pkg/api/resource)."""

_BYTES = ("memory", "ephemeral-storage")
_PAGES = "hugepages-"
_QUOTA = "requests."
"""The prefix of resources in quotas, which no container can ask for (`IsExtendedResourceName`)."""
_LONGEST_DOMAIN = 253


class Fault(NamedTuple):
    """A mistake at a path in a pod, or in a part of it."""

    path: documents.Path
    message: str
    hint: str
    notes: tuple[str, ...] = ()


_Fault = tuple[str, ...]
"""A mistake in an amount: a predicate, the fix, and facts."""


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
def amounts(source: documents.Document, path: documents.Path, resources: pods.Resources) -> Iterator[Diagnostic]:
    """The API server takes the amounts of the resources at a path, and stores them unchanged.

    See `ValidateContainerResourceRequirements` in Kubernetes' core validation, and `warningsForPodSpec`.
    """
    for fault in faults(resources):
        span = source.span(*path, *fault.path)
        yield Diagnostic(span=span, message=fault.message, notes=fault.notes, hint=fault.hint)


def faults(resources: pods.Resources) -> Iterator[Fault]:
    """Yield the mistakes in amounts."""
    for side, given in (("limits", resources.limits), ("requests", resources.requests)):
        for name, amount in sorted(given.items()):
            fault = next(_faults(name, amount, side, resources), None)
            if fault is not None:
                predicate, hint, *notes = fault
                yield Fault((side, name), f"'{amount}' of '{name}' {predicate}.", hint, tuple(notes))


def _faults(name: str, amount: object, side: str, resources: pods.Resources) -> Iterator[_Fault]:
    """Yield the mistakes in an amount; one may only follow from the first."""
    if _is_extended(name):  # The schema checks the form of the name.
        yield from _of_name(name)
    yield from _alone(name, pods.amount_of(amount))
    if side == "requests":
        yield from _beside(name, amount, resources.limits)
    elif name.startswith(_PAGES) and {*resources.limits, *resources.requests}.isdisjoint({"cpu", "memory"}):
        yield "needs an amount of cpu or memory too", "Add one to requests or limits."


def _of_name(name: str) -> Iterator[_Fault]:
    """Yield why no container can ask for an extended resource of this name."""
    if name.startswith(_QUOTA):
        yield "has a name of quotas, which no container can ask for", f"Remove '{_QUOTA}' from the name."
    if len(_QUOTA + name.partition("/")[0]) > _LONGEST_DOMAIN:
        yield "has a domain that is too long", f"Shorten the domain to {_LONGEST_DOMAIN - len(_QUOTA)} characters."


def _alone(name: str, value: "Fraction | None") -> Iterator[_Fault]:
    """Yield the mistakes in an amount that do not depend on other amounts."""
    if value is None or value * _THOUSANDTHS > _MOST_THOUSANDTHS:
        yield "is more than Kubernetes can count", "Write at most 9P."
        return
    if (name in _BYTES or name.startswith(_PAGES)) and value.denominator > 1:
        yield "is not a whole number of bytes", "Write whole bytes; Mi are mebibytes, and m are thousandths."
    if _is_extended(name) and value.denominator > 1:
        yield "is not a whole number", f"Write {math.ceil(value)}: such a resource cannot be divided."
    if (value * _THOUSANDTHS).denominator > 1:
        least = math.ceil(value * _THOUSANDTHS)
        yield "is finer than a thousandth", f"Write {least}m.", "The API server would round it up."
    if name.startswith(_PAGES):
        size = pods.amount_of(name.removeprefix(_PAGES))
        if not size or size * _THOUSANDTHS > _MOST_THOUSANDTHS:
            yield "has no valid page size", "Name the size of the pages, such as hugepages-2Mi."
        elif (value / size).denominator > 1:
            yield "is not a whole number of pages", f"Write a multiple of {name.removeprefix(_PAGES)}."


def _beside(name: str, amount: object, limits: Mapping[str, object]) -> Iterator[_Fault]:
    """Yield the mistakes in a request beside its limit; a resource that is never shared needs both to be equal."""
    is_shared = not _is_extended(name) and not name.startswith(_PAGES)
    if name not in limits:
        if not is_shared:
            predicate = "has no limit, but a resource that is never shared needs one"
            yield predicate, f"Write limits: {{{name}: {amount}}} too."
        return
    request, limit = pods.amount_of(amount), pods.amount_of(limits[name])
    if request is None or limit is None or request == limit:
        return
    if not is_shared:
        predicate = f"differs from its limit of '{limits[name]}', but the resource is never shared"
        yield predicate, "Give both the same amount, or remove the request."
    elif request > limit:
        yield f"is more than its limit of '{limits[name]}'", "Lower the request, or raise the limit."


def _is_extended(name: str) -> bool:
    """Return whether a resource is an extended one, such as a device: counted, and never shared."""
    return "/" in name and "kubernetes.io/" not in name
