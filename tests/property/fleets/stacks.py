"""Random DevicePolicies of a few recipes, whose policies share the nodes of a fleet with each other and with KAE's."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

from tests.property import lowered, matcher
from tests.property.fleets import documents, machines

Raw = documents.Raw

_SOURCES = ["prebuilt", "build", "inTree", "packages"]
_DRIVER: Raw = {"image": "installer", "sources": _SOURCES}


def _images(*names: str) -> Raw:
    called = {"plugin": "kae-device-plugin"}
    return {
        name: {"repository": "registry.example.com/team", "image": called.get(name, name), "version": "1.0"}
        for name in names
    }


def _recipe(name: str, match: Raw, **spec: Any) -> Raw:
    return documents.document("Recipe", name, {"title": name, "match": match, **spec})


def _payloads(*names: str) -> Raw:
    return {"payloads": [{"image": name, "paths": ["/opt/lib/modules"]} for name in names]}


RECIPES: Sequence[Raw] = (
    _recipe(
        "nic",
        {"pci": [{"kind": "sfc", "vendor": "1924", "devices": ["0b03"], "virtual": ["1b03"], "classes": ["0200"]}]},
        images=_images("installer", "modules", "user", "plugin"),
        driver={
            **_DRIVER,
            **_payloads("modules", "user"),
            "version": "user",
            "modules": [{"name": "sfc", "optional": True}, {"name": "onload"}],
        },
        devicePlugin={"image": "plugin", "resources": [{"name": "x.com/nic", "class": "token", "count": 4}]},
    ),
    _recipe(
        "kmod",
        {"all": {}},
        images=_images("installer", "modules"),
        driver={
            **_DRIVER,
            **_payloads("modules"),
            "version": "modules",
            "modules": [{"name": "kmod"}, {"name": "sfc", "optional": True}],
        },
    ),
    _recipe(
        "store",
        {"labels": {"example.com/disk": ["ssd"]}},
        images=_images("installer"),
        driver={**_DRIVER, "modules": [{"name": "store"}]},
    ),
    _recipe(
        "new",
        {
            "features": [
                {"feature": "kernel.version", "matchExpressions": {"full": {"op": "InRegexp", "value": ["oe24"]}}}
            ]
        },
        images=_images("plugin"),
        devicePlugin={"image": "plugin", "resources": [{"name": "x.com/new", "class": "token", "count": 1}]},
    ),
)
"""One for each way to know the nodes: PCI functions, none, labels of others, features of NFD."""


def drawn(draw: random.Random, scene: documents.Scene) -> Iterator[Raw]:
    """Yield policies of some recipes; those of a recipe select no node twice."""
    for recipe in RECIPES:
        name = recipe["metadata"]["name"]
        if draw.random() < 0.4:
            continue
        terms = documents.leaves(draw, draw.randint(1, 5))
        for number, term in enumerate(terms):
            if draw.random() < 0.8:
                found = _spec(draw, scene, recipe)
                if term or draw.random() < 0.5:
                    found["nodeSelector"] = documents.selector(draw, term)
                yield documents.document("DevicePolicy", f"{name}-{number}", found)
        # Its terms are judged against those of other recipes too, where they share a module: by tests of claims.
        if draw.random() < 0.4 and name not in SHARING:
            yield documents.document("DevicePolicy", f"{name}-others", {**_spec(draw, scene, recipe), "default": True})


SHARING = ("nic", "kmod")
"""Recipes that may load one module."""


def _spec(draw: random.Random, scene: documents.Scene, recipe: Raw) -> Raw:
    given = documents.spec(draw, scene)
    found: Raw = {key: given[key] for key in ("clusters", "daemonSets") if key in given}
    found["recipe"] = recipe["metadata"]["name"]
    if "devicePlugin" in recipe["spec"]:
        image, enabled = recipe["spec"]["devicePlugin"]["image"], given["devicePlugin"].get("enabled", True)
        found["devicePlugin"] = {"enabled": enabled}
        found["images"] = {image: {"version": draw.choice(("1.4", "1.5"))}}
    if "driver" in recipe["spec"]:
        _drive(draw, given["driver"], recipe["spec"]["driver"], found)
        own = lowered.spec(recipe, {"spec": found})
        for mapping in found.get("kernelMappings", ()):
            # Kernels are listed only for a mapping whose images are named after them.
            judged = next(one for one in own["driver"]["kernelMappings"] if one["name"] == mapping["name"])
            if not matcher.per_kernel(own, judged):
                mapping.pop("kernels", None)
    return found


def _drive(draw: random.Random, given: Raw, driver: Raw, found: Raw) -> None:
    """Add a driver that was drawn for KAE to a policy, and overrides of the images that KAE does not have."""
    counting: str = driver["version"] if "version" in driver else driver["image"]
    payloads = tuple(one["image"] for one in driver.get("payloads", ()) if one["image"] != counting)
    own = _layer(draw, given, counting)
    found["images"] = {**found.get("images", {}), **own["images"]}
    found["driver"] = own["driver"] | ({"enabled": given["enabled"]} if "enabled" in given else {})
    if any(module["name"] == "sfc" for module in driver["modules"]) and draw.random() < 0.2:
        found["driver"]["modules"] = [module["name"] for module in driver["modules"]]
    mappings = [_layer(draw, one, counting) for one in given.get("kernelMappings", ())]
    for mapping in mappings:
        mapping["images"].update(_payloads_of(draw, payloads, "7-${KERNEL_FULL_VERSION}"))
    if mappings:
        found["kernelMappings"] = mappings
    rollout = given.get("rollout", {"waves": (), "frozen": ()})
    found["rollout"] = {
        "waves": [_layer(draw, one, counting) for one in rollout["waves"]],
        "frozen": [_pinned(_layer(draw, one, counting), (counting, *payloads)) for one in rollout["frozen"]],
    }
    for wave in found["rollout"]["waves"]:
        wave["images"].update(_payloads_of(draw, payloads, f"8.{draw.randrange(9)}"))


def _payloads_of(draw: random.Random, names: Sequence[str], version: str) -> Raw:
    return {name: {"version": version} for name in names if draw.random() < 0.3}


def _pinned(layer: Raw, names: Sequence[str]) -> Raw:
    for name in names:
        layer["images"][name] = {"version": "2.9", **layer["images"].get(name, {})}
    return layer


def _layer(draw: random.Random, given: Raw, counting: str) -> Raw:
    """Return overrides of KAE's driver as a DevicePolicy has them."""
    parts = {part: given[part] for part in ("repository", "image", "version") if part in given}
    if parts.get("version") == "":
        parts = {"version": f"3.{draw.randrange(9)}"}
    plain = ("name", "regexp", "literal", "kernels", "nodes", "inventorySelector", "clusters", "percent")
    return {
        **{key: given[key] for key in plain if key in given},
        "images": {counting: parts} if parts else {},
        "driver": {key: given[key] for key in ("source", "state") if key in given},
    }


def cards(draw: random.Random) -> tuple[int, int]:
    """Return the physical and virtual functions of a machine's network cards."""
    return draw.choice(((0, 0), (0, 0), (1, 0), (2, 0), (2, 4), (0, 1)))


def labels(machine: machines.Machine) -> dict[str, str]:
    """Return the labels that rules of these recipes give a machine."""
    found: dict[str, str] = {}
    if not machine.reported:
        return found
    for function, count in zip(("pf", "vf"), machine.cards, strict=True):
        if count:
            found |= {f"openfuyao.com/nic.sfc.{function}": str(count)}
            found |= dict.fromkeys(("openfuyao.com/nic.present", "openfuyao.com/nic.sfc.present"), "true")
    return found | ({"openfuyao.com/new.present": "true"} if "oe24" in machine.kernel else {})
