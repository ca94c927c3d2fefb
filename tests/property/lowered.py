"""DevicePolicies as the matcher reads KAEPolicies, from the documents as people write them: plain data to plain data.

The driver of a DevicePolicy is made of several images. Here the one whose version counts has the fields of a KAEPolicy,
and each part of the others is a field of its own, `modules/version`, so that overrides replace it like any other.
"""

from collections.abc import Iterator, Mapping
from typing import Any

Raw = Mapping[str, Any]

_PARTS = ("repository", "image", "version")


def spec(recipe: Raw, policy: Raw) -> dict[str, Any]:
    """Return the spec of a DevicePolicy of a recipe as that of a KAEPolicy."""
    name, own, given = recipe["metadata"]["name"], recipe["spec"], policy["spec"]
    domain = f"openfuyao.com/{name}"
    found = {key: given[key] for key in ("clusters", "nodeSelector", "default", "daemonSets") if key in given}
    plugin = own.get("devicePlugin")
    return {
        **found,
        "domain": domain,
        "found": "pci" in own["match"] or "features" in own["match"],
        "hardware": _hardware(domain, own["match"]),
        "driver": _driver(own, given) if "driver" in own else {"enabled": False},
        "devicePlugin": {"enabled": False}
        if plugin is None
        else {**own["images"][plugin["image"]], **_of(given, plugin["image"]), **given.get("devicePlugin", {})},
    }


def _hardware(domain: str, match: Raw) -> list[dict[str, list[str]]]:
    """Return labels with their values; the nodes with the hardware have all of any of these."""
    if "pci" in match:
        return [{f"{domain}.{kind['kind']}.present": ["true"]} for kind in match["pci"]]
    return [{f"{domain}.present": ["true"]} if "features" in match else dict(match.get("labels", {}))]


def _of(layer: Raw, name: str) -> Raw:
    found: Raw = layer.get("images", {}).get(name, {})
    return found


def _driver(recipe: Raw, given: Raw) -> dict[str, Any]:
    driver: Raw = recipe["driver"]
    counting = driver.get("version", driver["image"])
    others = list(dict.fromkeys([driver["image"], *(one["image"] for one in driver.get("payloads", ()))]))
    top = {"images": recipe["images"], "driver": {"source": {driver["sources"][0]: {}}}}
    rollout = given.get("rollout", {})
    return {
        "enabled": given.get("driver", {}).get("enabled", True),
        "state": "Present",
        **dict(_fields(top, counting, others)),
        **dict(_fields(given, counting, others)),
        "installer": driver["image"],
        "payloads": others[1:]
        if driver["image"] not in (one["image"] for one in driver.get("payloads", ()))
        else others,
        "kernelMappings": [_layer(one, counting, others) for one in given.get("kernelMappings", ())],
        "rollout": {
            field: [_layer(one, counting, others) for one in rollout.get(field, ())] for field in ("frozen", "waves")
        },
    }


def _layer(layer: Raw, counting: str, others: list[str]) -> dict[str, Any]:
    plain = {key: value for key, value in layer.items() if key not in ("images", "driver")}
    return {**plain, **dict(_fields(layer, counting, others))}


def _fields(layer: Raw, counting: str, others: list[str]) -> Iterator[tuple[str, Any]]:
    yield from ((key, value) for key, value in layer.get("driver", {}).items() if key in ("source", "state"))
    yield from _of(layer, counting).items()
    for name in others:
        yield from ((f"{name}/{part}", value) for part, value in _of(layer, name).items())
