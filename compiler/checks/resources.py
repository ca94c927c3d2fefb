"""Rules for the resources of device plugins: what a class needs, and what containers get with them."""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from compiler import keywords, repeats, wording
from compiler.checks import containers, host_paths, lists
from compiler.diagnostics import Diagnostic, Span, rule, shared_rule
from compiler.fleet import assignment, claims, definitions, injections
from compiler.formats import documents, references
from runtime import device_plugin_config

shared_rule("inject-conflict", "error", "Resources of a node set no variable and no path of a container differently.")

_FILLED = ("/dev", "/proc", "/sys")
"""Paths in a container that the runtime fills."""

_NEEDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"char": ("groups",), "token": ("count",), "uacce": ("kind",), "vfio": ("kind",)}
)
_OWN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "char": ("groups", "shares"),
        "token": ("count", "shares", "profiles"),
        "uacce": ("kind", "shares"),
        "vfio": ("kind",),
    }
)
"""The fields of a class beside those of all: an IOMMU group is opened by one virtual machine alone."""

_NATIVE = "kubernetes.io"
"""The end of domains of resources that the kubelet takes from no device plugin: `IsExtendedResourceName` of Kubernetes,
which looks for `kubernetes.io/` in the name."""
_QUOTA = "requests."
OWN_DOMAIN = "Use a domain of your own, such as example.com."

_MOST_SHARES = 100_000
"""A list of many more devices is longer than the 4 MiB that the kubelet receives (kubernetes/kubernetes#109304)."""
_LONGEST, _LONGEST_PART = 200, 63
"""The most characters of a resource's name (`ExtendedResource`), and after its domain (qualified names)."""

_Settings = frozenset[injections.Setting]
_Pair = tuple[injections.Setting, injections.Setting]
_Place = tuple[documents.Path, str, str]
"""The path of a setting in `spec.devicePlugin`, the message and the hint."""


class _Resource(msgspec.Struct, frozen=True, kw_only=True):
    """A resource of a filled recipe."""

    path: documents.Path
    name: str
    data: Mapping[str, Any]
    parts: Sequence[injections.Part]
    """Its injections whose condition holds."""


class _Thing(msgspec.Struct, frozen=True, kw_only=True):
    """A device node, a mount or a file that a container gets."""

    resource: str
    place: documents.Path
    """In the recipe."""
    target: str
    value: str
    """As in `injections.Setting`: of a file, its text."""
    file: str | None
    """The name of a file with a text."""


class _Texts(msgspec.Struct, frozen=True, kw_only=True):
    """The documents that say what is offered."""

    recipe: documents.Document
    policy: documents.Document | None
    scope: references.Scope
    """The values that the recipe is filled with."""

    def span(self, *path: str | int) -> Span:
        """Return the span of a place in a recipe, or of the value that a parameter puts there."""
        own = references.origin(self.recipe.data, path, self.scope)
        text = self.recipe.value(own)
        name = references.alone(text) if isinstance(text, str) else None
        if name is not None:
            return self._value(name.removeprefix("values."), path[len(own) :])
        return self.recipe.setting_span(*own)

    def place(self, *path: str | int) -> Span:
        """Return the span of the text in a recipe that a place has when it is filled."""
        return self.recipe.span(*references.origin(self.recipe.data, path, self.scope))

    def _value(self, name: str, below: documents.Path) -> Span:
        if self.policy is not None and self.policy.has(("spec", "values", name)):
            return self.policy.setting_span("spec", "values", name, *below)
        return self.recipe.setting_span("spec", "parameters", "properties", name, "default", *below)


@rule("device-plugin-settings", "error")
def of_plugin(policy: definitions.Policy) -> Iterator[Diagnostic]:
    """The settings of a device plugin have an effect and contradict none other."""
    if policy.plugin is None:
        return
    for path, message, hint in (*_idle(policy, policy.plugin), *_covered(policy)):
        span = policy.source.span("spec", "devicePlugin", *path)
        yield Diagnostic(span=span, message=message, hint=hint)
    for name, value in (_given(policy, "inject", "env") or {}).items():
        hint = "Let each pod take it from a Secret: a pod's own variable wins."
        place = ("spec", "devicePlugin", "inject", "env", name)
        yield from containers.credentials(policy.source, place, name, value, hint)


def _given(policy: definitions.Policy, *field: str) -> Any:
    """Return the value that a policy itself gives a field of its device plugin; None without one."""
    path = ("spec", "devicePlugin", *field)
    return policy.source.value(path) if policy.source.has(path) else None


def _idle(policy: definitions.Policy, plugin: definitions.Plugin) -> Iterator[_Place]:
    """Yield the settings that have no effect: most are for another one, which is off."""
    if _given(policy, "inject", "librariesPath") is not None and not _given(policy, "inject", "libraries"):
        hint = "Set libraries: true, or remove librariesPath."
        yield ("inject", "librariesPath"), keywords.IDLE_LIBRARIES_PATH, hint
    if _given(policy, "inject", "opensslSettings") is not None and _given(policy, "inject", "opensslConf") is None:
        hint = 'Set opensslConf to "1.1" or "3.0", or remove opensslSettings.'
        yield ("inject", "opensslSettings"), keywords.IDLE_OPENSSL_SETTINGS, hint
    if plugin.device_nodes is not None and policy.installed is not None:
        hint = "Use driver.deviceNodes; those of the device plugin are for driver.enabled: false."
        yield ("deviceNodes",), keywords.IDLE_DEVICE_NODES, hint
    for resource in plugin.resources:
        if isinstance(resource, device_plugin_config.Vfio) and resource.shares > 1:
            hint = f"Remove sharing.{resource.kind}, or set mode.{resource.kind} to uacce."
            yield ("sharing", resource.kind), keywords.SHARED_GROUP, hint


def _covered(policy: definitions.Policy) -> Iterator[_Place]:
    home = policy.recipe.home
    own = (*_FILLED, home.run, *((home.files,) if _given(policy, "inject", "libraries") else ()))
    for place in _given(policy, "inject", "mounts") or {}:
        within = any(f"{place}/".startswith(f"{folder}/") for folder in own)
        # The runtime would make the folder in that of the host, which the mount shows.
        if within or any(folder.startswith(f"{place}/") for folder in own):
            where = f"{wording.quoted(place)} is {'in' if within else 'above'} a folder"
            message = f"{where} that the device plugin or the container runtime fills."
            yield ("inject", "mounts", place), message, "Choose another path in the container."


def conflicts(policies: Sequence[assignment.Assigned]) -> Iterator[Diagnostic]:
    """The resources of a node set no variable and no path of a container differently.

    The kubelet keeps either, at random: `deviceRunContainerOptions` of pkg/kubelet/cm/devicemanager goes through a map.
    """
    if len({assigned.policy.recipe.name for assigned in policies}) == 1:
        return
    settings = {id(assigned): injections.of(assigned.policy) for assigned in policies}
    contradiction = functools.cache(_contradiction)
    suspects = _suspects(policies, settings, contradiction)
    told: set[_Pair] = set()
    for one, other, labels in claims.sharing(suspects):
        pair = contradiction(settings[id(one)], settings[id(other)])
        if pair is not None and pair not in told:
            told.add(pair)
            setters = f"Resources '{pair[0].resource}' and '{pair[1].resource}'"
            both = f"Policies '{one.policy.name}' and '{other.policy.name}' both match"
            yield _conflict(
                other.policy.source.span("metadata", "name"),
                f"{setters} set {injections.in_sentence(pair[0].target)} differently.",
                "Give it one value, or keep the two policies on different nodes.",
                "A container may ask for both, and gets either.",
                f"{both} a node with {wording.labels(labels)}.",
                f"The other policy is at {one.policy.source.span('metadata', 'name')}.",
                f"One sets {wording.quoted(pair[0].value)}, the other {wording.quoted(pair[1].value)}.",
            )


def _conflict(span: Span, message: str, hint: str, *notes: str) -> Diagnostic:
    return Diagnostic(code="inject-conflict", span=span, message=message, notes=notes, hint=hint)


def _suspects(
    policies: Iterable[assignment.Assigned],
    settings: Mapping[int, _Settings],
    contradiction: Callable[[_Settings, _Settings], _Pair | None],
) -> list[assignment.Assigned]:
    """Return the policies that would contradict one of another recipe: nearly none, and most are alike in settings."""
    sorts = {(assigned.policy.recipe.name, settings[id(assigned)]) for assigned in policies}
    odd = {one for one in sorts if any(one[0] != other[0] and contradiction(one[1], other[1]) for other in sorts)}
    return [assigned for assigned in policies if (assigned.policy.recipe.name, settings[id(assigned)]) in odd]


def _contradiction(one: _Settings, other: _Settings) -> _Pair | None:
    """Return the first two settings that contradict each other."""
    pairs = itertools.product(sorted(one), sorted(other))
    return next((pair for pair in pairs if pair[0].differs(pair[1])), None)


def _offered(spec: Mapping[str, Any]) -> Iterator[tuple[documents.Path, Any]]:
    """Yield the resources in the spec of a recipe, each with its path."""
    return lists.items(("spec", "devicePlugin"), spec.get("devicePlugin", {}), "resources")


def of_recipe(source: documents.Document) -> Iterator[Diagnostic]:
    """Yield the mistakes in the resources of a recipe, whatever the values of its parameters."""
    yield from host_paths.of_recipe(source)
    yield from classes(source)


@rule("resource-class", "error")
def classes(source: documents.Document) -> Iterator[Diagnostic]:
    """A resource has what its class needs, nothing of another class, and no more than the device plugin takes.

    Its name is one of device plugins. So is that of a resource which NFD counts.
    """
    offered = list(_offered(source.data["spec"]))
    of_kinds = (pair for pair in offered if "kind" in pair[1] and "kind" in _NEEDS[pair[1]["class"]])
    for (_, first), (path, second) in repeats.of(of_kinds, key=lambda pair: str(pair[1]["kind"])):
        message = f"Resources '{first['name']}' and '{second['name']}' are both of the kind '{second['kind']}'."
        yield _of_class(source.span(*path, "kind"), message, "Remove one of them, or make two kinds in match.pci.")
    for path, resource in offered:
        kind, name = resource["class"], resource["name"]
        for field in _NEEDS[kind]:
            if field not in resource:
                message = f"A resource of class {kind} needs {field}."
                yield _of_class(source.span(*path, "class"), message, f"Add {field}, or correct the class.")
        for field in sorted({field for own in _OWN.values() for field in own} - set(_OWN[kind])):
            if field in resource:
                message = f"A resource of class {kind} takes no {field}."
                yield _of_class(source.key_span(*path, field), message, "Remove it, or correct the class.")
        if is_taken(name):
            message = f"Kubernetes takes no resource '{name}' from a device plugin."
            yield _of_class(source.span(*path, "name"), message, OWN_DOMAIN)
    yield from _counted(source)


def _counted(source: documents.Document) -> Iterator[Diagnostic]:
    """Yield the resources that NFD cannot count, and those that the device plugin offers too."""
    extended = source.data["spec"]["match"].get("extended", {})
    for name in filter(is_taken, extended):
        message = f"Kubernetes takes no resource '{name}' from NFD."
        yield _of_class(source.key_span("spec", "match", "extended", name), message, OWN_DOMAIN)
    for path, resource in _offered(source.data["spec"]):
        if resource["name"] in extended:
            message = f"'{resource['name']}' is counted by NFD, too: match.extended."
            yield Diagnostic(
                code="duplicate-name", span=source.span(*path, "name"), message=message, hint="Keep one of the two."
            )


def is_taken(name: str) -> bool:
    """Return whether a resource is one of Kubernetes itself, by its domain, which no node gets from anybody else."""
    domain = name.partition("/")[0]
    return domain.endswith(_NATIVE) or domain.startswith(_QUOTA)


def _of_class(span: Span, message: str, hint: str, *notes: str) -> Diagnostic:
    return Diagnostic(code="resource-class", span=span, message=message, notes=notes, hint=hint)


def filled(
    source: documents.Document,
    spec: Mapping[str, Any],
    scope: references.Scope,
    policy: documents.Document | None = None,
) -> Iterator[Diagnostic]:
    """Yield the mistakes in the resources of a recipe with the values of a policy, or with the defaults.

    The device plugin refuses such resources; `spec` is that of the recipe with the values of `scope`.
    """
    texts = _Texts(recipe=source, policy=policy, scope=scope)
    resources = [
        _Resource(path=path, name=data["name"], data=data, parts=[*_parts(data)]) for path, data in _offered(spec)
    ]
    yield from _contradictions(texts, resources)
    yield from _profiles(texts, resources)
    files: list[_Thing] = []
    for resource in resources:
        yield from _shares(texts, resource)
        yield from _preloads(texts, resource)
        things = list(_things(resource))
        yield from _places(texts, things)
        files += (thing for thing in things if thing.file)
    yield from _files(texts, files)


def _parts(resource: Mapping[str, Any]) -> Iterator[injections.Part]:
    for path, data in lists.items((), resource, "inject"):
        yield path, msgspec.convert(data, device_plugin_config.Inject)


def _contradictions(texts: _Texts, resources: Iterable[_Resource]) -> Iterator[Diagnostic]:
    """The resources of a recipe set no variable and no path of a container differently: a container may have several.

    The kubelet keeps either one, at random; see `conflicts` for those of several policies.
    """
    known: dict[str, tuple[str, str]] = {}
    for resource in resources:
        groups = msgspec.convert(resource.data.get("groups", ()), tuple[device_plugin_config.DeviceGroup, ...])
        for place, target, value in injections.set_by(groups, resource.parts):
            name, earlier = known.setdefault(target, (resource.name, value))
            is_one = name == resource.name
            # `_preloads` says so of a variable beside `preload`.
            if earlier != value and not (is_one and target == injections.PRELOAD and place[-1] == "preload"):
                who = f"Resource '{name}' sets" if is_one else f"Resources '{name}' and '{resource.name}' set"
                message = f"{who} {injections.in_sentence(target)} differently."
                notes = () if is_one else ("A container may ask for both, and gets either.",)
                yield _conflict(texts.place(*resource.path, *place), message, "Give it one value.", *notes)


def _profiles(texts: _Texts, resources: Sequence[_Resource]) -> Iterator[Diagnostic]:
    """A profile makes a resource with a name of its own, which Kubernetes takes."""
    known = {resource.name for resource in resources}
    for resource in resources:
        for profile in sorted(resource.data["profiles"]):
            name = f"{resource.name}-{profile}"
            is_long = len(name) > _LONGEST or len(name.partition("/")[2]) > _LONGEST_PART
            what = f"is longer than {_LONGEST} characters, or than {_LONGEST_PART} after the '/'"
            if name in known or is_long:
                span = texts.span(*resource.path, "profiles", profile)
                which = what if is_long else "is another resource"
                message = f"The profile '{profile}' makes the resource '{name}', which {which}."
                yield _of_class(span, message, "Give the profile another name.")
            known.add(name)


def _shares(texts: _Texts, resource: _Resource) -> Iterator[Diagnostic]:
    """The kubelet takes the list of a resource's tokens."""
    count, each = resource.data.get("count", 0), resource.data["shares"]
    shares = count * each
    if shares > _MOST_SHARES:
        message = f"Resource '{resource.name}' has {shares} shares, and {_MOST_SHARES} is the most."
        note = f"{count} tokens have {each} shares each."
        yield _of_class(texts.span(*resource.path, "count"), message, "Lower 'count' or 'shares'.", note)


def _preloads(texts: _Texts, resource: _Resource) -> Iterator[Diagnostic]:
    """LD_PRELOAD is a variable, or the list of libraries, also where a profile has the variable."""
    if not any(part.preload for _, part in resource.parts):
        return
    variables: list[tuple[documents.Path, Mapping[str, str]]] = [
        *(((*place, "env"), part.env) for place, part in resource.parts),
        *((("profiles", name), env) for name, env in sorted(resource.data["profiles"].items())),
    ]
    for place, env in variables:
        if injections.PRELOAD in env:
            span = texts.span(*resource.path, *place, injections.PRELOAD)
            message = f"Resource '{resource.name}' sets {injections.PRELOAD} beside 'preload', which sets it too."
            yield _conflict(span, message, "Name all of the libraries in 'preload', and remove the variable.")


def _things(resource: _Resource) -> Iterator[_Thing]:
    """Yield all that a container gets at a path; what two conditions have in common is there once."""
    known = set[object]()
    for place, part in resource.parts:
        for target, value, field, at in injections.injected(part):
            if field == "env":
                continue
            thing = getattr(part, field)[at]
            if thing not in known:
                known.add(thing)
                yield _Thing(
                    resource=resource.name,
                    place=(*resource.path, *place, field, at),
                    target=target,
                    value=value,
                    file=thing.name if field == "files" else None,
                )


def _places(texts: _Texts, things: Sequence[_Thing]) -> Iterator[Diagnostic]:
    """Nothing has the place or the name of another; see `_contradictions` for what differs in one place."""
    for first, second in repeats.of(things, key=lambda thing: thing.target):
        if first.value == second.value:
            message = f"Resource '{second.resource}' brings {injections.in_sentence(second.target)} twice."
            yield _conflict(texts.span(*second.place), message, "Keep one of the two.")
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
            both = f"Resources '{first.resource}' and '{second.resource}'"
            message = f"{both} have different texts for the file '{second.file}'."
            note = "The device plugin writes a file to the host once, by its name."
            yield _conflict(texts.span(*second.place, "text"), message, "Name one of the two otherwise.", note)
