"""Which policy, pool and images a node gets, written down a second time: slow, from the documents as people write them.

It shares no code with the compiler, reads policies as plain data and nodes as the API server prints them, and looks at
one node after the other. What a compile fixes (the members of waves and frozen groups, the kernels that are listed)
is fixed by the nodes that the matcher is made with; any node may be asked about afterwards.
"""

import fnmatch
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tests.property import lowered, selection

Raw = Mapping[str, Any]

_DOMAIN = "openfuyao.com/kae"
_NFDS = ("feature.node.kubernetes.io/", f"{_DOMAIN}.")
_OURS = re.compile(r"^openfuyao\.com/[a-z0-9-]+(\.[a-z0-9-]+)?\.(present|pf|vf)$")
_KINDS = {"hpre": ("enabledHPRE", True), "sec": ("enabledSEC", False), "zip": ("enabledZIP", False)}
_IMAGE = {"repository": "cr.openfuyao.cn/openfuyao", "version": "latest"}
_PLUGIN = {**_IMAGE, "image": "kae-device-plugin"}
_DRIVER = {**_IMAGE, "image": "kae-driver-installer", "state": "Present", "source": {"build": {}}}
"""The defaults of a policy."""

_FIELDS = ("version", "repository", "image", "source", "state")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The assignment of a node; None where there is nothing."""

    policy: str | None = None
    pool: str | None = None
    """Of the driver that lands there."""
    driver: str | None = None
    device_plugin: str | None = None
    state: str | None = None
    """The state that the driver's installer establishes."""
    source: str | None = None
    """The source of the driver, for the installer."""
    installer: str | None = None
    """The image of the driver's installer; KAE's is that of the driver."""
    payloads: tuple[str, ...] = ()
    """The images whose files the installer takes, by their names in the recipe."""


class Matcher:
    """The policies of a cluster as a compile with these nodes fixes them."""

    def __init__(self, cluster: Raw, policies: Iterable[Raw], nodes: Sequence[Raw], recipe: Raw | None = None) -> None:
        """Take the policies of any recipe, of which only those of this one count; without one, those of KAE."""
        self._name: str = cluster["metadata"]["name"]
        self._mirrors: Sequence[Raw] = cluster["spec"].get("images", {}).get("mirrors", ())
        self._policies = specs(cluster, policies, recipe)
        self._others = {name: spec for name, spec in self._policies.items() if not spec.get("default")}
        self._groups: dict[str, dict[str, Raw]] = {}
        self._kernels: dict[str, set[str]] = {}
        own: dict[str, list[Raw]] = {name: [] for name in self._policies}
        for node in nodes:
            for name in self.policies(node)[:1]:
                own[name].append(node)
        for name, members in own.items():
            self._kernels[name] = {cleaned(node) for node in members if self._may_serve(name, node)}
            self._groups[name] = self._grouped(name, members)

    def policies(self, node: Raw) -> list[str]:
        """The policies that match a node, by name; the default only where no other one does."""
        labels = _labels(node)
        found = [
            name for name, spec in sorted(self._others.items()) if selection.selects(spec.get("nodeSelector"), labels)
        ]
        if not found and all(selection.denies(spec.get("nodeSelector"), labels) for spec in self._others.values()):
            found = sorted(self._policies.keys() - self._others.keys())
        return found

    def answer(self, node: Raw) -> Answer:
        """Return the answer for a node, which may be one that the compile did not have."""
        name = next(iter(self.policies(node)), None)
        if name is None:
            return Answer()
        spec = self._policies[name]
        image = (
            self._image({**_PLUGIN, **spec.get("devicePlugin", {})})
            if _lands(spec, "devicePlugin", "device-plugin", node)
            else None
        )
        found = Answer(policy=name, device_plugin=image)
        return self._driven(name, node, found) if _lands(spec, "driver", "driver", node) else found

    def _driven(self, name: str, node: Raw, found: Answer) -> Answer:
        spec = self._policies[name]
        layers, parts = [_driver(spec)], []
        mapping = None
        if _driver(spec).get("kernelMappings"):
            mapping = self._mapping(name, cleaned(node))
            if mapping is None:
                return found
            layers.append(mapping)
            parts.append(_kernel_part(spec, mapping, cleaned(node)))
        if self._holding(_declared(spec)):
            group = self._groups[name].get(node["metadata"]["name"], {"name": "rest"})
            layers.append(group)
            parts.insert(0, group["name"])
        if parts and not _reported(_labels(node)):
            return found  # Its pool is known by a label, which NFD has not set.
        driver = _merged(layers)
        if mapping is not None and per_kernel(spec, mapping):
            images = (field for field in driver if _is_image(field))
            driver |= {field: _filled(driver[field], cleaned(node)) for field in images}
        own = spec.get("driver", {})
        installer = self._image(_part(driver, own["installer"]) if "installer" in own else driver)
        is_removed = driver["state"] == "Absent"
        taken = () if is_removed else own.get("payloads", ())
        return Answer(
            policy=name,
            pool="--".join(parts) or name,
            driver=installer if is_removed else self._image(driver),
            device_plugin=found.device_plugin,
            state=driver["state"],
            source=next(iter(driver["source"])),
            installer=installer,
            payloads=tuple(self._image(_part(driver, payload)) for payload in taken),
        )

    def _may_serve(self, name: str, node: Raw) -> bool:
        spec, labels = self._policies[name], _labels(node)
        return (spec.get("found", True) and not _reported(labels)) or _has_hardware(spec, labels)

    def _mapping(self, name: str, kernel: str) -> Raw | None:
        """The mapping that takes a kernel and has a pool for it."""
        spec = self._policies[name]
        mappings: Sequence[Raw] = _driver(spec).get("kernelMappings", ())
        mapping = next((mapping for mapping in mappings if _takes(mapping, kernel)), None)
        if mapping is None or not per_kernel(spec, mapping):
            return mapping
        known = self._kernels[name]
        if "literal" in mapping:
            known = {clean(mapping["literal"])}
        if "kernels" in mapping:
            known = {clean(listed) for listed in mapping["kernels"]}
        return mapping if kernel in known else None

    def _grouped(self, name: str, nodes: Sequence[Raw]) -> dict[str, Raw]:
        spec = self._policies[name]
        rollout = _driver(spec).get("rollout", {})
        found: dict[str, Raw] = {}
        for group in self._holding(rollout.get("frozen", ())):
            for member in _members(group, nodes):
                found.setdefault(member, group)
        thawed = [node for node in nodes if node["metadata"]["name"] not in found]
        order = sorted((bucket(node["metadata"]["name"]), node["metadata"]["name"]) for node in thawed)
        driven = {node["metadata"]["name"] for node in thawed if self._may_drive(name, node)}
        for wave in self._holding(rollout.get("waves", ())):
            members = set(_members(wave, nodes))
            if "percent" in wave:
                members = {one for place, one in order if place < Fraction(str(wave["percent"])) * 100}
                if not members & driven:
                    members |= {one for _, one in [pair for pair in order if pair[1] in driven][:1]}
            for member in members:
                found.setdefault(member, wave)
        return found

    def _holding(self, groups: Iterable[Raw]) -> list[Raw]:
        return [group for group in groups if _named(group.get("clusters"), self._name)]

    def _may_drive(self, name: str, node: Raw) -> bool:
        """One that NFD has not labelled yet may get the driver when it is; one that has opted out keeps its place."""
        spec = self._policies[name]
        if not selection.bears(spec.get("daemonSets", {}).get("tolerations", ()), node):
            return False
        mapped = _driver(spec).get("kernelMappings")
        return self._may_serve(name, node) and (not mapped or self._mapping(name, cleaned(node)) is not None)

    def _image(self, component: Raw) -> str:
        image: str = component["image"]
        if component["repository"] or component["version"]:
            joint = "@" if component["version"].startswith("sha256:") else ":"
            image = f"{component['repository'].rstrip('/')}/{image}{joint}{component['version']}"
        fitting = [mirror for mirror in self._mirrors if re.match(re.escape(mirror["from"]) + "([/:@]|$)", image)]
        if not fitting:
            return image
        longest = max(fitting, key=lambda mirror: len(mirror["from"]))
        return str(longest["to"]) + image[len(longest["from"]) :]


def specs(cluster: Raw, policies: Iterable[Raw], recipe: Raw | None = None) -> dict[str, Raw]:
    """Return the specs of the policies of a recipe, KAE's without one, that hold in a cluster, by name."""
    wanted = recipe and recipe["metadata"]["name"]
    held = holding(cluster["metadata"]["name"], policies)
    own = (policy for policy in held if policy["spec"].get("recipe") == wanted)
    return {policy["metadata"]["name"]: lowered.spec(recipe, policy) if recipe else policy["spec"] for policy in own}


def holding(cluster: str, policies: Iterable[Raw]) -> Iterator[Raw]:
    """Yield the policies of any recipe, and KAE's, that hold in a cluster."""
    return (policy for policy in policies if _named(policy["spec"].get("clusters"), cluster))


def bucket(name: str) -> int:
    """The place of a node in every wave that is a share."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], base=16) % 10000


def cleaned(node: Raw) -> str:
    """The node's kernel as NFD reports it."""
    return clean(node["status"]["nodeInfo"]["kernelVersion"])


def clean(kernel: str) -> str:
    """A kernel's version as NFD reports it."""
    letters = "".join(char if char.isascii() and (char.isalnum() or char in "-_.") else "_" for char in kernel)
    while letters[:1] in ("-", "_", "."):
        letters = letters[1:]
    while letters[-1:] in ("-", "_", "."):
        letters = letters[:-1]
    return letters


def _lands(spec: Raw, field: str, component: str, node: Raw) -> bool:
    """Return whether a component of a policy comes to a node of the policy."""
    labels = _labels(node)
    return (
        spec.get(field, {}).get("enabled", True)
        and labels.get(f"{_domain(spec)}.deploy.{component}") != "false"
        and _has_hardware(spec, labels)
        and selection.bears(spec.get("daemonSets", {}).get("tolerations", ()), node)
    )


def _labels(node: Raw) -> dict[str, str]:
    """The labels, but for those that our own rules for pools have left."""
    given = node["metadata"].get("labels", {})
    return {key: value for key, value in given.items() if not re.match(r"openfuyao\.com/[^.]+\.pool\.", key)}


def _reported(labels: Mapping[str, str]) -> bool:
    """Return whether NFD's worker has reported a node: some label is of NFD, or of our rules."""
    return any(key.startswith(_NFDS) or _OURS.search(key) for key in labels if ".deploy." not in key)


def _domain(spec: Raw) -> str:
    found: str = spec.get("domain", _DOMAIN)
    return found


def _has_hardware(spec: Raw, labels: Mapping[str, str]) -> bool:
    """Return whether a node has the labels of a policy's hardware: all of any alternative."""
    kinds = [{f"{_DOMAIN}.{kind}.present": ["true"]} for kind in _enabled(spec)]
    return any(all(labels.get(key) in values for key, values in one.items()) for one in spec.get("hardware", kinds))


def _enabled(spec: Raw) -> list[str]:
    operator = spec.get("operator", {})
    return [kind for kind, (switch, default) in _KINDS.items() if operator.get(switch, default)]


def _driver(spec: Raw) -> Raw:
    return {**_DRIVER, **spec.get("driver", {})}


def _declared(spec: Raw) -> list[Raw]:
    rollout = _driver(spec).get("rollout", {})
    return [*rollout.get("frozen", ()), *rollout.get("waves", ())]


def _named(globs: Sequence[str] | None, cluster: str) -> bool:
    return globs is None or any(fnmatch.fnmatchcase(cluster, glob) for glob in globs)


def _members(group: Raw, nodes: Iterable[Raw]) -> list[str]:
    if "inventorySelector" in group:
        return [
            node["metadata"]["name"] for node in nodes if selection.selects(group["inventorySelector"], _labels(node))
        ]
    return list(group.get("nodes", ()))


def _is_image(field: str) -> bool:
    """Return whether a field of a driver is a part of an image; `modules/version` is one of the image `modules`."""
    return "/" in field or field in ("version", "repository", "image")


def _part(driver: Raw, name: str) -> dict[str, str]:
    """Return an image of a driver by its name."""
    return {field.partition("/")[2]: value for field, value in driver.items() if field.startswith(f"{name}/")}


def _merged(layers: Iterable[Raw]) -> dict[str, Any]:
    """The fields of the last layer that has each."""
    found: dict[str, Any] = {}
    for layer in layers:
        found |= {field: value for field, value in layer.items() if field in _FIELDS or "/" in field}
    return found


def per_kernel(spec: Raw, mapping: Raw) -> bool:
    """Return whether images of a mapping are named after kernels."""
    drivers = [_merged([_driver(spec), mapping, layer]) for layer in ({}, *_declared(spec))]
    return any("${KERNEL_" in value for driver in drivers for field, value in driver.items() if _is_image(field))


def _kernel_part(spec: Raw, mapping: Raw, kernel: str) -> str:
    name: str = mapping["name"]
    return f"{name}--{hashlib.sha256(kernel.encode()).hexdigest()[:8]}" if per_kernel(spec, mapping) else name


def _takes(mapping: Raw, kernel: str) -> bool:
    if "literal" in mapping:
        return kernel == clean(mapping["literal"])
    return re.search(mapping["regexp"], kernel) is not None


def _filled(text: str, kernel: str) -> str:
    numbers = [re.sub(r"[^0-9].*", "", part) for part in kernel.split(".")[:3]]
    return text.replace("${KERNEL_FULL_VERSION}", kernel).replace("${KERNEL_XYZ}", ".".join(numbers))
