"""Rules for the programs of recipes: what the frame refuses of their pods, and what no node runs."""

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from types import MappingProxyType
from typing import Any

from compiler import keywords, wording
from compiler.checks import admission, frame, host_paths, lists, pods, resources
from compiler.checks import references as of_texts
from compiler.diagnostics import Diagnostic, rule
from compiler.formats import documents, globs, references
from compiler.read import device_policy
from compiler.schema import judge, phrases

Data = Mapping[str, Any]
_Given = Mapping[str, Mapping[str, Any]]
"""The values of a recipe's parameters, for each program that a policy has."""
_STACK: Mapping[str | int, str] = {"driver": "RecipeDriver", "devicePlugin": "RecipePlugin"}
"""The parts of a recipe beside its programs in which references stand, and the names of their schemas."""
_EXAMPLE = {
    "policy.name": "policy",
    "pool.name": "pool",
    "cluster.name": "cluster",
    "namespace": "kae",
    "arch": "amd64",
}

_WAIT = "wait-for-driver"
_OURS = ("driver-run", "driver-options")
"""The container and the volumes that the compiler adds to a program that waits for the driver."""


def findings(source: documents.Document) -> Iterator[Diagnostic]:
    """Yield the mistakes in the programs of a recipe that its schema accepts, whatever the values are."""
    for path, program in lists.items(("spec",), source.data["spec"], "programs"):
        yield from _names(source, path, program)
        yield from _parts(source, path, program)
        yield from _sources(source, path, program)
        yield from _rights(source, path, program)
    yield from _twice(source)


def _twice(source: documents.Document) -> Iterator[Diagnostic]:
    spec = source.data["spec"]
    own = [((*path, "name"), one["name"]) for path, one in lists.items(("spec",), spec, "programs")]
    yield from lists.twice(source, own, "The program '{}' is there twice.")


def _names(source: documents.Document, path: documents.Path, program: Data) -> Iterator[Diagnostic]:
    """A program has a name of its own, and a driver to wait for where it does."""
    spec, recipe, name = source.data["spec"], source.data["metadata"]["name"], program["name"]
    if name in ("driver", "device", "pool") or f"-{recipe}-{name}".endswith("-device-plugin"):
        yield Diagnostic(
            code="reserved-name",
            span=source.span(*path, "name"),
            message=f"A program of recipe '{recipe}' cannot be named '{name}'.",
            notes=("Objects and labels of other programs have names with it.",),
            hint="Give it another name.",
        )
    if program.get("after") == "driver" and "driver" not in spec:
        message, hint = "The recipe has no driver to wait for.", "Remove 'after'."
        yield Diagnostic(code="recipe-reference", span=source.span(*path, "after"), message=message, hint=hint)


def _parts(source: documents.Document, path: documents.Path, program: Data) -> Iterator[Diagnostic]:
    """Yield what the containers and volumes of a program name that is not there, or is there twice."""
    containers = list(lists.containers((*path, "pod"), program["pod"]))
    volumes = list(lists.items((*path, "pod"), program["pod"], "volumes"))
    for every, noun, added in ((containers, "container", (_WAIT,)), (volumes, "volume", _OURS)):
        named = [((*at, "name"), one["name"]) for at, one in every]
        yield from lists.twice(source, named, f"The {noun} '{{}}' is there twice.")
        for at, own in named if program.get("after") == "driver" else ():
            if own in added:
                message = f"The compiler adds {noun} '{own}' to the pod."
                yield Diagnostic(code="reserved-name", span=source.span(*at), message=message, hint="Rename it.")
    images, files = tuple(source.data["spec"].get("images", ())), tuple(program.get("files", ()))
    for at, volume in volumes:
        if "files" in volume:
            place = (*at, "files", "name")
            yield from lists.unknown(source, place, volume["files"]["name"], files, "one of 'files'")
    known = [volume["name"] for _, volume in volumes]
    for at, container in containers:
        yield from lists.unknown(source, (*at, "image"), container["image"], images, "an image of the recipe")
        for place, mount in lists.items(at, container, "volumeMounts"):
            yield from lists.unknown(source, (*place, "name"), mount["name"], known, "a volume of the pod")


_VOLUMES = ("hostPath", "emptyDir", "files", "downwardAPI")
_PROBES = ("exec", "httpGet", "tcpSocket", "grpc")


def _sources(source: documents.Document, path: documents.Path, program: Data) -> Iterator[Diagnostic]:
    """A volume and a probe have one source each, and a variable no two."""
    for at, volume in lists.items((*path, "pod"), program["pod"], "volumes"):
        yield from _one_of(source, at, volume, _VOLUMES)
    for at, container in lists.containers((*path, "pod"), program["pod"]):
        yield from _of_sidecars(source, at, container)
        for name in ("livenessProbe", "readinessProbe", "startupProbe"):
            if name in container:
                yield from _one_of(source, (*at, name), container[name], _PROBES)
        for place, variable in lists.items(at, container, "env"):
            if {"value", "valueFrom"} <= variable.keys():
                yield from _one_of(source, place, variable, ("value", "valueFrom"))


def _of_sidecars(source: documents.Document, at: documents.Path, container: Data) -> Iterator[Diagnostic]:
    """An init container that ends has neither probes nor hooks, as the API server takes none."""
    is_sidecar = "initContainers" not in at or container.get("restartPolicy") == "Always"
    for name in ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"):
        if name in container and not is_sidecar:
            message = f"An init container that ends has no {name}."
            hint = "Remove it, or write restartPolicy: Always, by which the container stays."
            yield Diagnostic(code="invalid-value", span=source.key_span(*at, name), message=message, hint=hint)
    if "restartPolicy" in container and "initContainers" not in at:
        message = "A container has no restartPolicy of its own; those of init containers stay."
        span = source.key_span(*at, "restartPolicy")
        yield Diagnostic(code="invalid-value", span=span, message=message, hint="Remove it.")


def _one_of(source: documents.Document, path: documents.Path, data: Data, names: Sequence[str]) -> Iterator[Diagnostic]:
    found = [name for name in data if name in names]
    if len(found) != 1:
        message = f"Expected exactly one of {wording.listed(names)} in '{wording.dotted(path)}', found "
        message += f"{wording.listed(found) if found else 'none'}."
        yield Diagnostic(code="invalid-value", span=source.span(*path), message=message)


def _rights(source: documents.Document, path: documents.Path, program: Data) -> Iterator[Diagnostic]:
    for field in ("rules", "clusterRules"):
        may = program.get("nodeStatus", False)
        for refusal in frame.of_rules((*path, field), program.get(field, ()), writes_status=may):
            yield frame.finding(source, refusal)


def filled(
    source: documents.Document,
    schema: phrases.Schema,
    spec: Data = MappingProxyType({}),
    note: str = "",
) -> Iterator[Diagnostic]:
    """Yield the mistakes in the pods of a recipe with the values of a policy's spec, or with its defaults."""
    notes, kubelet = (note,) if note else (), spec.get("kubeletDir", host_paths.KUBELET)
    done: list[tuple[str, Mapping[str, Any]]] = []
    for given in _variants(spec, source):
        own = [pair for pair in given.items() if pair not in done]
        done += own
        yield from _offered_twice(source, given, notes) if own else ()
        for path, program in lists.items(("spec",), source.data["spec"], "programs"):
            if program["name"] in dict(own):
                yield from _with_values(source, schema, (path, program), given[program["name"]], (kubelet, notes))


def _offered_twice(source: documents.Document, given: _Given, notes: tuple[str, ...]) -> Iterator[Diagnostic]:
    """A resource is offered by one program of a recipe, or by its device plugin, or counted by NFD."""
    spec = source.data["spec"]
    counted = spec["match"].get("extended", ())
    seen = [(one["name"], "the device plugin") for one in spec.get("devicePlugin", {}).get("resources", ())]
    for path, program in lists.items(("spec",), spec, "programs"):
        own = []
        scope = {f"values.{name}": value for name, value in given.get(program["name"], {}).items()}
        runs = program["name"] in given and references.holds(program.get("when", True), scope)
        for index, text in enumerate(program.get("offers", ()) if runs else ()):
            name = references.text(text, scope)
            if name is references.ABSENT:
                continue
            holder = next((holder for other, holder in seen if globs.share_path(name, other)), None)
            # A glob is what a program may offer: beside one, NFD may count one of the names.
            holder = "NFD (match.extended)" if holder is None and name in counted else holder
            if holder is not None:
                yield Diagnostic(
                    code="duplicate-name",
                    span=source.span(*path, "offers", index),
                    message=f"'{name}' is offered by {holder}, too.",
                    notes=("A kubelet keeps one of two that register a resource.", *notes),
                    hint="Keep one of the two, or choose by `when` between them.",
                )
            own.append((name, f"program '{program['name']}'"))
        seen += own


def _with_values(
    source: documents.Document,
    schema: phrases.Schema,
    declared: tuple[documents.Path, Data],
    given: Mapping[str, Any],
    told: tuple[str, tuple[str, ...]],
) -> Iterator[Diagnostic]:
    (path, program), (kubelet, notes) = declared, told
    images = {f"images.{name}": f"registry.example/{name}:1" for name in source.data["spec"].get("images", {})}
    kernel = dict(zip(of_texts.KERNEL, ("6.6.0-1.x86_64", "6", "6", "0"), strict=True))
    values = {f"values.{name}": value for name, value in given.items()}
    scope = {
        **_EXAMPLE,
        "os.id": "openEuler",
        "os.version": "24.03",
        **kernel,
        **images,
        "kubeletDir": kubelet,
        **values,
    }
    if not references.holds(program.get("when", True), scope):
        return
    pod = references.filled(program["pod"], scope)
    yield from _whole(source, path, program, pod, notes)
    if pod is references.ABSENT or "containers" not in pod:
        return
    at: documents.Path = (*path, "pod")

    def origin(place: documents.Path) -> documents.Path:
        return (*at, *references.origin(program["pod"], place, scope))

    own = _pods(_Same(schema), "ProgramPod")
    if not own.quick.is_valid(pod):
        for error in judge.thorough()(own.schema).iter_errors(pod):
            yield _unfit(source, origin(tuple(error.absolute_path)), error, notes)
        return
    refused = list(frame.of_pod(pod, kubelet))
    for place, message, facts, hint in refused:
        yield frame.finding(source, (origin(place), message, facts, hint), *notes)
    places = [place for place, *_ in refused]
    for fault in (fault for fault in pods.faults(pod) if fault.path not in places):
        yield Diagnostic(
            code="invalid-value",
            span=source.span(*origin(fault.path)),
            message=fault.message,
            notes=(*fault.notes, *notes),
            hint=fault.hint,
        )
    yield from _registered(source, path, program, scope, notes)
    yield from _sized(source, path, program, scope, notes)


class _Same:
    """A schema as a key: it is the same for all recipes and policies of a call."""

    def __init__(self, schema: phrases.Schema) -> None:
        self.schema = schema

    def __hash__(self) -> int:
        return id(self.schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.schema is other.schema


class _Pods:
    """The schema of pods, or of another part of a recipe, and its compiled validator."""

    def __init__(self, schema: phrases.Schema, name: str) -> None:
        # A text with references has any form, and one that is filled its own.
        own = json.loads(json.dumps(schema["$defs"]).replace(json.dumps(keywords.WITH_REFERENCE)[1:-1], ""))
        self.schema = {**own[name], "$defs": own}
        self.quick = judge.quick(self.schema)


@functools.lru_cache(maxsize=3)
def _pods(key: _Same, name: str) -> _Pods:
    return _Pods(key.schema, name)


def stack(
    source: documents.Document, schema: phrases.Schema, given: Mapping[str, Any], note: str = ""
) -> Iterator[Diagnostic]:
    """Yield where the texts of a recipe's driver and device plugin do not fit their fields with these values."""
    made, scope = device_policy.filled(source, given), device_policy.scope(source, given)
    for path, part in references.parts(source.data["spec"]):
        name = _STACK.get(path[0])
        if name is None or not any("${" in place.text for place in references.places(part, path)):
            continue
        own = _pods(_Same(schema), name)
        if not own.quick.is_valid(made[str(path[0])]):
            for error in judge.thorough()(own.schema).iter_errors(made[str(path[0])]):
                place = ("spec", *references.origin(source.data["spec"], (*path, *error.absolute_path), scope))
                yield _unfit(source, place, error, (note,) if note else ())


def _unfit(source: documents.Document, path: documents.Path, error: Any, notes: tuple[str, ...]) -> Diagnostic:
    value = error.instance
    whose = "pod" if path[1] == "programs" else "recipe"
    message = f"{wording.quoted(value) if isinstance(value, str) else wording.cut(value)} is not "
    message += f"{phrases.expected(error.schema)}." if "type" in error.schema else f"what the {whose} can have here."
    if error.validator == "required":
        lacking = [name for name in error.validator_value if name not in value]
        message = f"The {whose} lacks {wording.listed(map(wording.quoted, lacking))} here with these values."
    return Diagnostic(
        code="invalid-value",
        span=source.span(*path),
        message=message,
        notes=notes,
        hint="Narrow the parameter by an enum, a pattern or bounds, or change its value.",
    )


@rule("program-incomplete", "error")
def _whole(
    source: documents.Document, path: documents.Path, program: Data, pod: Any, notes: tuple[str, ...]
) -> Iterator[Diagnostic]:
    """With any values, a program that runs has a container, and each of its mounts a volume."""
    held = {} if pod is references.ABSENT else pod
    if not held.get("containers"):
        message = f"No container is left of program '{program['name']}'."
        hint = "Put a `when` at the program where it shall not run, and leave a container otherwise."
        yield Diagnostic(span=source.key_span(*path, "pod", "containers"), message=message, notes=notes, hint=hint)
    volumes = {volume["name"] for volume in held.get("volumes", ())}
    for at, container in lists.containers((*path, "pod"), program["pod"]):
        present = [one for _, one in lists.containers((), held)]
        own = (one for one in present if one["name"] == container["name"])
        mounted = {mount["name"] for one in own for mount in one.get("volumeMounts", ())}
        for place, mount in lists.items(at, container, "volumeMounts"):
            if mount["name"] in mounted - volumes:
                message = f"The volume '{mount['name']}' is not there, and container '{container['name']}' mounts it."
                hint = "Write the same `when` beside both."
                yield Diagnostic(span=source.span(*place, "name"), message=message, notes=notes, hint=hint)


def _registered(
    source: documents.Document,
    path: documents.Path,
    program: Data,
    scope: references.Scope,
    notes: tuple[str, ...],
) -> Iterator[Diagnostic]:
    """What a program offers is a resource with a domain, and what it claims a path."""
    for field, pattern, words in (
        ("offers", _OFFER, "a resource such as example.com/npu, or a glob of them"),
        ("claims", _CLAIM, "path: or socket: with an absolute path, or a resource"),
    ):
        for index, text in enumerate(program.get(field, ())):
            value = references.text(text, scope)
            if value is references.ABSENT:
                continue
            if field == "offers" and resources.is_taken(value):
                message, hint = f"Kubernetes takes no resource '{value}' from a device plugin.", resources.OWN_DOMAIN
            elif not judge.is_found(pattern, value):
                message, hint = f"{wording.quoted(value)} is not {words}.", "Correct it."
            else:
                continue
            yield Diagnostic(
                code="invalid-value", span=source.span(*path, field, index), message=message, notes=notes, hint=hint
            )


_OFFER = (
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/"
    r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9*])?|\*)$"
)
_CLAIM = r"^((path|socket):(/[A-Za-z0-9_.-]+)+|[a-z0-9.-]+/[A-Za-z0-9_.-]+)$"
_MOST_FILES = 200 * 1024
_FILE = r"^[A-Za-z0-9_][A-Za-z0-9._-]*$"


def _sized(
    source: documents.Document,
    path: documents.Path,
    program: Data,
    scope: references.Scope,
    notes: tuple[str, ...],
) -> Iterator[Diagnostic]:
    """The files of a pod are annotations, of which it may have 256 KiB, and each has a name that leads nowhere."""
    total = 0
    for volume, declared in program.get("files", {}).items():
        first: dict[str, str] = {}
        for entry, name, text in references.each_file(declared, scope):
            total += len(name.encode()) + len(text.encode())
            if name in first:
                yield Diagnostic(
                    code="duplicate-name",
                    span=source.key_span(*path, "files", volume, entry),
                    message=f"The file {wording.quoted(name)} is there twice: one of its texts would be lost.",
                    notes=((f"Another is of {wording.quoted(first[name])}.",) if first[name] != entry else ()) + notes,
                    hint="Give the files other names, such as with a folder's name before ${key}, or narrow the keys.",
                )
            first.setdefault(name, entry)
        for name in first:
            if not judge.is_found(_FILE, name):
                message = f"{wording.quoted(name)} is not a name of a file: letters, digits, '.', '_' and '-'."
                yield Diagnostic(
                    code="invalid-value",
                    span=source.key_span(*path, "files", volume),
                    message=message,
                    notes=notes,
                    hint="Correct the key, or the keys of the parameter that it names.",
                )
    if total > _MOST_FILES:
        message = f"The files of program '{program['name']}' have {total} bytes, and a pod may have {_MOST_FILES}."
        hint = "Shorten them: they are annotations of the pod."
        yield Diagnostic(
            code="invalid-value", span=source.key_span(*path, "files"), message=message, notes=notes, hint=hint
        )


def of_policy(document: documents.Document, recipe: documents.Document, schema: phrases.Schema) -> Iterator[Diagnostic]:
    """Yield the mistakes in the programs of a policy's recipe with its values, and with those of its layers."""
    spec = document.data["spec"]
    name = document.data["metadata"]["name"]
    note = f"This is so with the values of policy '{name}'."
    kubelet = spec.get("kubeletDir", host_paths.KUBELET)
    yield from filled(recipe, schema, spec, note)
    yield from claimed(document, recipe)
    if kubelet != host_paths.KUBELET:
        yield from admission.mounts(recipe, kubelet)


@rule("parameter-claimed", "error")
def claimed(document: documents.Document, recipe: documents.Document) -> Iterator[Diagnostic]:
    """A policy sets no parameter of a module that a program of its recipe claims, and so sets itself."""
    spec = document.data["spec"]
    path: documents.Path = ("spec", "driver", "moduleParameters")
    stated = spec.get("driver", {}).get("moduleParameters", {})
    given = {f"path:/sys/module/{one}/parameters/{name}": (one, name) for one in stated for name in stated[one]}
    for program in recipe.data["spec"].get("programs", ()) if given else ():
        every = (own[program["name"]] for own in _variants(spec, recipe) if program["name"] in own)
        scopes = [{f"values.{name}": value for name, value in own.items()} for own in every]
        running = [scope for scope in scopes if references.holds(program.get("when", True), scope)]
        own = {claim for scope in running for claim in references.listed(program.get("claims", ()), scope)}
        for claim in sorted(own & given.keys()):
            module, name = given[claim]
            yield Diagnostic(
                span=document.key_span(*path, module, name),
                message=f"Program '{program['name']}' of recipe '{recipe.data['metadata']['name']}' sets parameter "
                f"'{name}' of module '{module}' itself.",
                notes=("The module would have whichever value is written last.",),
                hint="Leave the parameter out, or have the policy do without the program.",
            )


def _variants(spec: Data, recipe: documents.Document) -> Iterator[_Given]:
    """Yield the values that programs have together, for each mapping with each group; a policy may do without some."""
    base = device_policy.values(recipe, spec.get("values", {}))
    stated, rollout = spec.get("programs", {}), spec.get("rollout", {})
    every = recipe.data["spec"].get("programs", ())
    kept = [one for one in every if stated.get(one["name"], {}).get("enabled", True)]
    groups: Sequence[Data] = [{}, *rollout.get("waves", ()), *rollout.get("frozen", ())]
    for mapping, group in product(spec.get("kernelMappings") or [{}], groups):
        layered = {**base, **mapping.get("values", {}), **group.get("values", {})}
        yield {one["name"]: layered if one.get("per") == "pool" else base for one in kept}
