"""Random policies without a fault: selectors that are apart, mappings that can win, bounds that rise."""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.property import matcher
from tests.property.fleets import machines

Raw = dict[str, Any]
Term = tuple[Raw, ...]

API_VERSION = "device.openfuyao.com/v1alpha1"
_PERCENTS = (0.01, 0.5, 1, 2.5, 5, 12.34, 25, 33.33, 50, 99.99, 100)
_REGEXPS = (
    *("oe2203", "oe2203sp[14]", r"oe2203sp4\.aarch64$", "oe2403", "oe2403sp1", "(sp1|sp4)", "hce2", "tlinux|bclinux"),
    *(r"^[45]\.", r"^5\.10\.", r"^5\.10\.0-216\.", r"^6\.", "^6.6-rc", "_rc[0-9]", r"\.v44\.", "_debug$", "4$", "."),
)
_FULL, _XYZ = "${KERNEL_FULL_VERSION}", "${KERNEL_XYZ}"
_DIGEST = "sha256:" + "0123456789abcdef" * 4
_SOURCES: Sequence[Raw] = ({"build": {}}, {"prebuilt": {}}, {"inTree": {}}, {"packages": {"names": ["kae"]}})


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The machines that policies are written for."""

    cluster: str
    names: tuple[str, ...]
    """Nodes that may be named; some join later, some never."""
    kernels: tuple[str, ...]
    """The kernels that most machines run."""


def document(kind: str, name: str, spec: Raw) -> Raw:
    """Return a document's data."""
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def leaves(draw: random.Random, count: int) -> list[Term]:
    """Return the leaves of a random decision tree: conjunctions of requirements that exclude each other."""
    found: list[Term] = [()]
    while len(found) < count:
        chosen = found.pop(draw.randrange(len(found)) if draw.random() < 0.5 else 0)
        free = sorted({"pool", "zone", "gen", "example.com/disk", machines.HOSTNAME} - {one["key"] for one in chosen})
        if not free:
            found.append(chosen)
            continue
        key = "pool" if "pool" in free else draw.choice(free)
        found.extend((*chosen, *answer) for answer in _answers(draw, key, count))
    return found


def _answers(draw: random.Random, key: str, count: int) -> list[Term]:
    """Return requirements on a key that exclude each other."""
    if key == machines.HOSTNAME or draw.random() < 0.15:
        return [({"key": key, "operator": "Exists"},), ({"key": key, "operator": "DoesNotExist"},)]
    if key == "gen" and draw.random() < 0.8:
        limit = draw.choice((1, 4, 6, 11))
        halves: list[Term] = [
            ({"key": key, "operator": "Gt", "values": [str(limit)]},),
            ({"key": key, "operator": "Lt", "values": [str(limit + 1)]},),
        ]
        return [*halves, ({"key": key, "operator": "DoesNotExist"},)] if draw.random() < 0.5 else halves
    # What is no integer and is listed, though it is also compared, may or may not be left to a default policy.
    values = list(machines.INTEGERS if key == "gen" else machines.VALUES[key])
    draw.shuffle(values)
    parts: list[Term] = []
    taken = 0
    for _ in range(draw.randint(1, max(1, min(count - 1, len(values) - 1)))):
        size = draw.choice((1, 1, 2)) if key == "pool" else 1
        if taken + size >= len(values):
            break
        parts.append(({"key": key, "operator": "In", "values": values[taken : taken + size]},))
        taken += size
    rest: Raw = {"key": key, "operator": "NotIn", "values": values[:taken]}
    more = ({"key": key, "operator": "Exists"},) if draw.random() < 0.2 else ()
    return [*parts, (rest, *more)]


def selector(draw: random.Random, term: Sequence[Raw]) -> Raw:
    """Return the requirements as a nodeSelector, some of them as matchLabels."""
    labels, expressions = {}, []
    for one in term:
        if one["operator"] == "In" and len(one["values"]) == 1 and draw.random() < 0.5:
            labels[one["key"]] = one["values"][0]
        else:
            expressions.append(dict(one))
    return {
        key: value for key, value in (("matchLabels", labels), ("matchExpressions", expressions)) if value or not term
    }


def spec(draw: random.Random, scene: Scene) -> Raw:
    """Return the spec of a policy without its selector."""
    kinds = [draw.random() < 0.75, draw.random() < 0.4, draw.random() < 0.4]
    if not any(kinds):
        kinds[draw.randrange(3)] = True
    found: Raw = {
        "operator": dict(zip(("enabledHPRE", "enabledSEC", "enabledZIP"), kinds, strict=True)),
        "driver": _driver(draw, scene),
        "devicePlugin": {"version": draw.choice(("1.4.1", _DIGEST))},
    }
    if draw.random() < 0.1:
        found["devicePlugin"]["enabled"] = False
    if draw.random() < 0.5:
        found["daemonSets"] = {"tolerations": [_toleration(draw) for _ in range(draw.randint(1, 2))]}
    if draw.random() < 0.3:
        found["clusters"] = _globs(draw, scene.cluster)
    return found


def _toleration(draw: random.Random) -> Raw:
    if draw.random() < 0.2:
        return {"operator": "Exists"}
    found: Raw = {"key": draw.choice(machines.TAINT_KEYS)}
    if draw.random() < 0.4:
        found["operator"] = "Exists"
    elif draw.random() < 0.6:
        found["value"] = "x"
    return found | ({"effect": draw.choice(machines.EFFECTS)} if draw.random() < 0.5 else {})


def _globs(draw: random.Random, cluster: str, *, held: bool = True) -> list[str]:
    fitting = (cluster, f"{cluster[:3]}*", "*", f"?{cluster[1:]}", f"[{cluster[0]}x]*")
    return [*(["elsewhere-*"] if draw.random() < 0.5 else []), draw.choice(fitting) if held else f"{cluster}-not*"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Style:
    """The image references of a policy."""

    whole: bool
    """As a whole reference."""
    per_kernel: bool
    """After the kernel."""


def _driver(draw: random.Random, scene: Scene) -> Raw:
    style = _Style(whole=draw.random() < 0.1, per_kernel=draw.random() < 0.35)
    plain = replace(style, per_kernel=False)
    found = _image(draw, plain) | {"source": draw.choice(_SOURCES)}
    if draw.random() < 0.08:
        found["enabled"] = False
    if draw.random() < 0.08:
        found["state"] = "Absent"
    mappings = list(_mappings(draw, scene.kernels, style)) if draw.random() < 0.5 else []
    if mappings:
        found["kernelMappings"] = mappings
        if style.per_kernel and draw.random() < 0.3:
            found |= _image(draw, style)
    if draw.random() < 0.6:
        found["rollout"] = _rollout(draw, scene, style if mappings and draw.random() < 0.3 else plain)
    for mapping in mappings:
        # Kernels are listed only for a mapping whose images are named after them.
        if not matcher.per_kernel({"driver": found}, mapping):
            mapping.pop("kernels", None)
    return found


def _rollout(draw: random.Random, scene: Scene, style: _Style) -> Raw:
    groups = ["canary", "half", "lab", "sick", "w1", "t0"]
    draw.shuffle(groups)
    frozen = [_frozen(draw, groups.pop(), scene, style) for _ in range(draw.choice((0, 0, 1, 2)))]
    waves = [_wave(draw, groups.pop(), scene, style) for _ in range(draw.choice((0, 1, 1, 2, 3)))]
    shares = [wave for wave in waves if "percent" in wave]
    # Some bounds are the very places of nodes, which such a bound does not take, or the next ones, which it does.
    some = draw.sample(scene.names, min(3, len(scene.names)))
    places = {max(1, matcher.bucket(name) + draw.choice((0, 1))) / 100 for name in some}
    bounds = sorted(draw.sample(sorted({*_PERCENTS, *places}), len(shares)))
    for wave, bound in zip(shares, bounds, strict=True):
        wave["percent"] = bound
    return {"frozen": frozen, "waves": waves}


def _image(draw: random.Random, style: _Style) -> Raw:
    number = draw.randrange(10)
    if style.whole:
        tag = f"2.{number}-{draw.choice((_FULL, _XYZ))}" if style.per_kernel else f"2.{number}"
        return {"repository": "", "version": "", "image": f"registry.example.com/drivers/kae:{tag}"}
    found: Raw = {"version": draw.choice((f"2.2.{number}", f"2.1.{number}", _DIGEST))}
    if style.per_kernel:
        if draw.random() < 0.7:
            found["version"] = f"2.2.{number}-{draw.choice((_FULL, _XYZ))}"
        else:
            found |= {"image": f"kae-{draw.choice((_XYZ, _FULL))}", "version": f"2.2.{number}"}
    if draw.random() < 0.3:
        found["repository"] = draw.choice(("registry.example.com/team", "mirror.example.com/a/b", "cr.openfuyao.cn/x/"))
    return found


def _overrides(draw: random.Random, style: _Style) -> Raw:
    found: Raw = {}
    if draw.random() < 0.7:
        found |= _image(draw, style)
    elif draw.random() < 0.3 and not style.whole:
        found["image"] = f"kae-driver-{draw.randrange(9)}"
    if draw.random() < 0.2:
        found["source"] = draw.choice(_SOURCES)
    if draw.random() < 0.12:
        found["state"] = draw.choice(("Absent", "Absent", "Present"))
    return found


def _mappings(draw: random.Random, kernels: Sequence[str], style: _Style) -> Iterator[Raw]:
    """Return mappings, each the first match of some kernel, which perhaps no node runs."""
    left = {matcher.clean(kernel) for kernel in machines.KERNELS}
    for number in range(draw.randint(1, 4)):
        given: Raw = {"name": f"k{number}"}
        if draw.random() < 0.3:
            given["literal"] = draw.choice(kernels if draw.random() < 0.7 else machines.KERNELS)
            taken = {matcher.clean(given["literal"])} & left
        else:
            given["regexp"] = draw.choice(_REGEXPS)
            taken = {kernel for kernel in left if re.search(given["regexp"], kernel)}
        if not taken:
            continue
        left -= taken
        mapping = given | _overrides(draw, style)
        if draw.random() < 0.5:
            own = [kernel for kernel in machines.KERNELS if matcher.clean(kernel) in taken]
            mapping["kernels"] = draw.sample(own, draw.randint(1, len(own)))
        yield mapping


def _members(draw: random.Random, scene: Scene) -> Raw:
    if draw.random() < 0.5:
        return {"inventorySelector": selector(draw, draw.choice(leaves(draw, 3)))}
    chosen = draw.sample(scene.names, min(len(scene.names), draw.randint(1, 12)))
    return {"nodes": sorted({*chosen, *(["gone-with-the-wind"] if draw.random() < 0.3 or not chosen else [])})}


def _group(draw: random.Random, name: str, cluster: str) -> Raw:
    found: Raw = {"name": name}
    if draw.random() < 0.3:
        found["clusters"] = _globs(draw, cluster, held=draw.random() < 0.5)
    return found


def _frozen(draw: random.Random, name: str, scene: Scene, style: _Style) -> Raw:
    overrides = _overrides(draw, style)
    if "version" not in overrides and overrides.get("state") != "Absent":
        overrides |= _image(draw, style)
    return _group(draw, name, scene.cluster) | _members(draw, scene) | overrides


def _wave(draw: random.Random, name: str, scene: Scene, style: _Style) -> Raw:
    if draw.random() < 0.6:
        chosen: Raw = {"percent": 1}
    else:
        chosen = {"nodes": []} if draw.random() < 0.3 else _members(draw, scene)
    return _group(draw, name, scene.cluster) | chosen | _overrides(draw, style)
