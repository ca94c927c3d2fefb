"""The example fleet as one of DevicePolicies, and what they say in other words than KAEPolicies."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.property.fleets import documents, machines
from tests.property.walk import files

Raw = Mapping[str, Any]

_NAME = "kunpeng"
PROGRAMS = ("exporter", "agent")
"""Vendors' programs: the first one is of pools, the other of policies."""

_OURS = {"driver": "modules", "devicePlugin": "plugin"}
_IMAGES = _OURS | {name: name for name in PROGRAMS}
"""The images whose versions are those of the components."""

_KINDS = [
    {"kind": kind, "vendor": "19e5", "devices": [physical], "virtual": [virtual]}
    for kind, (physical, virtual) in machines.IDS.items()
]
_MARK = 'Object{metadata: Object.metadata{annotations: {"agent.example.com/mark": "1"}}}'
_REPOSITORY = "registry.example.com/kunpeng"
"""Of the images that are not kae's."""

_SPEC: Raw = {
    "title": "The devices of KAE",
    "match": {"pci": _KINDS},
    "parameters": {
        "properties": {
            "export": {"type": "boolean", "default": True},
            "level": {"type": "integer", "minimum": 0, "maximum": 9, "default": 1},
        }
    },
    "images": {
        name: {"image": image, "version": "1.0.0"} | ({} if image.startswith("kae-") else {"repository": _REPOSITORY})
        for name, image in (
            ("installer", "kunpeng-installer"),
            ("modules", "kunpeng-modules"),
            ("plugin", "kae-device-plugin"),
            *((name, f"kunpeng-{name}") for name in PROGRAMS),
        )
    },
    "driver": {
        "image": "installer",
        "version": "modules",
        "payloads": [{"image": "modules", "paths": ["/opt/lib/modules"]}],
        "modules": [
            {"name": "uacce"},
            {"name": "hisi_hpre"},
            {"name": "hisi_sec2", "optional": True},
            {"name": "hisi_zip", "optional": True},
        ],
    },
    "devicePlugin": {
        "image": "plugin",
        "resources": [{"name": f"example.com/{kind}", "class": "uacce", "kind": kind} for kind in machines.IDS],
    },
    "programs": [
        {
            "name": "exporter",
            "per": "pool",
            "when": {"export": True},
            "pod": {"containers": [{"name": "exporter", "image": "exporter", "args": ["-level=${values.level}"]}]},
        },
        {
            "name": "agent",
            "offers": ["agent.example.com/unit"],
            "pod": {"containers": [{"name": "agent", "image": "agent"}]},
        },
    ],
    "admission": [
        {
            "name": "mark",
            "title": "A pod with agent.example.com/unit has its annotation",
            "resources": ["agent.example.com/unit"],
            "mutations": [{"applyConfiguration": _MARK}],
        }
    ],
}


def rewrite(folder: Path) -> None:
    """Rewrite a fleet of KAEPolicies as one of DevicePolicies of a recipe with KAE's devices."""
    for path in files.policies(folder):
        data = yaml.safe_load(path.read_text())
        policy = documents.document("DevicePolicy", data["metadata"]["name"], _device_policy(data["spec"]))
        path.write_text(files.dumped(policy, flow=None))
    path = folder / f"recipes/{_NAME}/recipe.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(files.dumped(documents.document("Recipe", _NAME, dict(_SPEC)), flow=None))
    label(folder, "kae", _NAME)
    for cluster in folder.glob("policies/clusters/*.yaml"):
        files.document(cluster, lambda spec: spec.update(kubernetesVersion="1.36"))


def label(folder: Path, before: str, after: str) -> None:
    """Label the devices of all nodes for another recipe."""
    for path in folder.glob("inventory/*.json"):
        path.write_text(path.read_text().replace(f"openfuyao.com/{before}.", f"openfuyao.com/{after}."))


def _device_policy(given: Raw) -> dict[str, Any]:
    driver, plugin = given["driver"], given["devicePlugin"]
    rollout = driver.get("rollout", {})
    groups = {sort: [_layer(group) for group in rollout[sort]] for sort in ("frozen", "waves") if sort in rollout}
    return {
        "recipe": _NAME,
        **{key: given[key] for key in ("clusters", "default", "nodeSelector", "daemonSets") if key in given},
        "images": {_OURS[part]: {"version": given[part]["version"]} for part in _OURS if "version" in given[part]},
        "driver": {key: driver[key] for key in ("enabled", "metrics", "drain") if key in driver},
        "devicePlugin": {key: plugin[key] for key in ("metrics", "resources", "allocationPolicy") if key in plugin},
        "kernelMappings": [_layer(mapping) for mapping in driver.get("kernelMappings", ())],
        "rollout": {**rollout, **groups},
        "programs": {"agent": {"maxUnavailable": 2}},
    }


def _layer(given: Raw) -> Raw:
    found = dict(given)
    version = found.pop("version", None)
    # As images of modules mostly are, those of a mapping are named after kernels.
    suffix = "-${KERNEL_FULL_VERSION}" if "regexp" in given else ""
    return found | ({"images": {_IMAGES["driver"]: {"version": f"{version}{suffix}"}}} if version else {})


def version(spec: Raw, version: str) -> Raw:
    """Return the version of a driver as a mapping, a wave or a frozen group of a policy has it."""
    given = {"version": version}
    return _layer(given) if "recipe" in spec else given


def set_version(spec: dict[str, Any], component: str, version: str) -> None:
    """Set the version of a component of a policy."""
    images = spec.setdefault("images", {}) if "recipe" in spec else spec
    images.setdefault(_IMAGES[component] if "recipe" in spec else component, {})["version"] = version


def paced(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a policy that has mappings, waves and frozen groups."""
    found: dict[str, Any] = spec if "recipe" in spec else spec.setdefault("driver", {})
    return found
