"""Rules for the resources that a recipe offers with the values of a policy: the device plugin refuses any others."""

import functools
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler import keywords, repeats
from compiler.checks.recipes import resources
from compiler.diagnostics import Diagnostic, Span
from compiler.fleet import injections
from compiler.formats import documents

_MOST_SHARES = 100_000
"""A list of many more devices is longer than the 4 MiB that the kubelet receives (kubernetes/kubernetes#109304)."""
_LONGEST, _LONGEST_PART = 200, 63
"""The most characters of a resource's name (`ExtendedResource`), and after its domain (qualified names)."""
_REFERENCE = re.compile(keywords.REFERENCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Thing:
    """A device node, a mount or a file that a container gets."""

    resource: str
    place: documents.Path
    """In the recipe."""
    target: str
    value: str
    """As in `injections.Setting`: of a file, its text."""
    file: str | None
    """The name of a file with a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Texts:
    """The documents that say what is offered."""

    recipe: documents.Document
    policy: documents.Document | None

    def span(self, *path: str | int) -> Span:
        """Return the span of a place in a recipe, or of the value that a parameter puts there."""
        for index in range(len(path)):
            value = functools.reduce(operator.getitem, path[: index + 1], self.recipe.data)
            reference = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
            if reference:
                return self._value(reference[1], path[index + 1 :])
        return self.recipe.setting_span(*path)

    def _value(self, name: str, below: documents.Path) -> Span:
        if self.policy is not None and self.policy.has(("spec", "values", name)):
            return self.policy.setting_span("spec", "values", name, *below)
        return self.recipe.setting_span("spec", "parameters", "properties", name, "default", *below)


def findings(
    source: documents.Document, filled: Mapping[str, Any], policy: documents.Document | None = None
) -> Iterator[Diagnostic]:
    """Yield the mistakes in the resources of a recipe, filled with the values of a policy, or with the defaults."""
    texts = _Texts(recipe=source, policy=policy)
    offered: Sequence[Mapping[str, Any]] = filled.get("devicePlugin", {}).get("resources", ())
    yield from _profiles(texts, offered)
    files: list[_Thing] = []
    for index, resource in enumerate(offered):
        path: documents.Path = ("spec", "devicePlugin", "resources", index)
        yield from _shares(texts, path, resource)
        held = resources.parts(resource)
        yield from _preloads(texts, path, resource, held)
        things = list(_things(path, resource["name"], held))
        yield from _places(texts, things)
        files += (thing for thing in things if thing.file)
    yield from _files(texts, files)


def _profiles(texts: _Texts, offered: Sequence[Mapping[str, Any]]) -> Iterator[Diagnostic]:
    """A profile makes a resource with a name of its own, which Kubernetes takes."""
    known = {resource["name"] for resource in offered}
    for index, resource in enumerate(offered):
        for profile in sorted(resource["profiles"]):
            name = f"{resource['name']}-{profile}"
            is_long = len(name) > _LONGEST or len(name.partition("/")[2]) > _LONGEST_PART
            what = f"is longer than {_LONGEST} characters, or than {_LONGEST_PART} after the '/'"
            if name in known or is_long:
                yield Diagnostic(
                    code="resource-class",
                    span=texts.span("spec", "devicePlugin", "resources", index, "profiles", profile),
                    message=f"The profile '{profile}' makes the resource '{name}', which "
                    f"{what if is_long else 'is another resource'}.",
                    hint="Give the profile another name.",
                )
            known.add(name)


def _shares(texts: _Texts, path: documents.Path, resource: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """The kubelet takes the list of a resource's tokens."""
    count, each = resource.get("count", 0), resource["shares"]
    shares = count * each
    if shares > _MOST_SHARES:
        yield Diagnostic(
            code="resource-class",
            span=texts.span(*path, "count"),
            message=f"Resource '{resource['name']}' has {shares} shares, and {_MOST_SHARES} is the most.",
            notes=(f"{count} tokens have {each} shares each.",),
            hint="Lower 'count' or 'shares'.",
        )


def _preloads(
    texts: _Texts, path: documents.Path, resource: Mapping[str, Any], held: Sequence[injections.Part]
) -> Iterator[Diagnostic]:
    """LD_PRELOAD is a variable, or the list of libraries, also where a profile has the variable."""
    if not any(part.preload for _, part in held):
        return
    variables: list[tuple[documents.Path, Mapping[str, str]]] = [
        *(((*place, "env"), part.env) for place, part in held),
        *((("profiles", name), env) for name, env in sorted(resource["profiles"].items())),
    ]
    for place, env in variables:
        if injections.PRELOAD in env:
            yield Diagnostic(
                code="inject-conflict",
                span=texts.span(*path, *place, injections.PRELOAD),
                message=f"Resource '{resource['name']}' sets {injections.PRELOAD} beside 'preload', which sets it too.",
                hint="Name all of the libraries in 'preload', and remove the variable.",
            )


def _things(path: documents.Path, resource: str, held: Iterable[injections.Part]) -> Iterator[_Thing]:
    """Yield all that a container gets at a path; what two conditions have in common is there once."""
    known = set[object]()
    for place, part in held:
        for target, value, field, at in injections.injected(part):
            if field == "env":
                continue
            thing = getattr(part, field)[at]
            if thing not in known:
                known.add(thing)
                yield _Thing(
                    resource=resource,
                    place=(*path, *place, field, at),
                    target=target,
                    value=value,
                    file=thing.name if field == "files" else None,
                )


def _places(texts: _Texts, things: Sequence[_Thing]) -> Iterator[Diagnostic]:
    """Nothing has the place or the name of another; see `resources.conflicts` for what differs in one place."""
    for first, second in repeats.of(things, key=lambda thing: thing.target):
        if first.value == second.value:
            yield Diagnostic(
                code="inject-conflict",
                span=texts.span(*second.place),
                message=f"Resource '{second.resource}' brings {injections.in_sentence(second.target)} twice.",
                hint="Keep one of the two.",
            )
    for _, file in repeats.of((thing for thing in things if thing.file), key=lambda thing: thing.file):
        yield Diagnostic(
            code="duplicate-name",
            span=texts.span(*file.place, "name"),
            message=f"The file '{file.file}' of resource '{file.resource}' is there twice.",
            hint="Name one of the two otherwise.",
        )


def _files(texts: _Texts, files: Iterable[_Thing]) -> Iterator[Diagnostic]:
    """A file's name stands for one text: the device plugin writes it to the host once."""
    for first, second in repeats.of(files, key=lambda thing: thing.file):
        if first.resource != second.resource and first.value != second.value:
            yield Diagnostic(
                code="inject-conflict",
                span=texts.span(*second.place, "text"),
                message=f"Resources '{first.resource}' and '{second.resource}' have different texts for the file "
                f"'{second.file}'.",
                notes=("The device plugin writes a file to the host once, by its name.",),
                hint="Name one of the two otherwise.",
            )
