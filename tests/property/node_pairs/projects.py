"""Random projects of one policy, of KAE or of a recipe with five modules, and edits of what decides over a driver."""

import json
import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests import builders
from tests.installer import machines

KERNELS = (machines.KERNEL, "6.6.0-28.0.0.34.oe2403.aarch64")
IDS = {"hpre": "a258", "sec": "a255", "zip": "a250"}
MODULES = {"hpre": "hisi_hpre", "sec": "hisi_sec2", "zip": "hisi_zip"}

LAB = ("lab_core", "lab_dev", "lab_net", "lab_more", "lab_last")
"""The modules of the recipe; lab_net needs lab_core."""
NODES = ("/dev/lab0", "/dev/lab1")
"""The device nodes that lab_dev makes."""
OLD = ("lab_dev", "old_dev")
"""The kernel's own modules that lab_dev may replace."""
RESOURCE = "example.com/lab"


@dataclass
class Project:
    """The documents of a project, and the node that they are for."""

    of_kae: bool
    recipe: dict[str, Any]
    policy: dict[str, Any]
    cluster: dict[str, Any]
    kinds: tuple[str, ...]
    """Of KAE's devices, those that the node has."""
    kernel: str = KERNELS[0]
    unrelated: int = 0
    edits: list[str] = field(default_factory=list)
    has_policy: bool = True
    is_known: bool = True
    """The inventory has the node; else it has another one, without any device."""
    has_hardware: bool = True

    def needed(self, modules: Collection[str]) -> frozenset[str]:
        """Return those of these modules that the node needs: those of its devices, and all others."""
        idle = {module for kind, module in MODULES.items() if kind not in self.kinds}
        return frozenset(modules) - idle

    def write(self, folder: Path) -> None:
        """Write the documents and the inventory to a folder."""
        kind = "KAEPolicy" if self.of_kae else "DevicePolicy"
        documents = {
            "policies/lab.yaml": (kind, "lab", self.policy),
            "policies/east.yaml": ("KAECluster", "east", self.cluster),
        }
        if not self.of_kae:
            documents["recipes/lab/recipe.yaml"] = ("Recipe", "lab", self.recipe)
        if not self.has_policy:
            del documents["policies/lab.yaml"]
            (folder / "policies/lab.yaml").unlink(missing_ok=True)
        for path, (sort, name, spec) in documents.items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            text = yaml.safe_dump(json.loads(json.dumps(builders.raw(sort, name, spec))), sort_keys=False)
            place.write_text(text)
        (folder / "inventory").mkdir(exist_ok=True)
        (folder / "inventory/east.json").write_text(
            json.dumps({"apiVersion": "v1", "kind": "List", "items": [self.node] if self.is_known else [_other()]})
        )

    @property
    def node(self) -> dict[str, Any]:
        """The node as the API server prints it."""
        labels = {"kubernetes.io/hostname": "n1", "kubernetes.io/arch": "arm64", "pool": f"p{self.unrelated}"}
        labels["feature.node.kubernetes.io/cpu-model.vendor_id"] = "HiSilicon"
        if not self.has_hardware:
            labels["feature.node.kubernetes.io/pci-0200.present"] = "true"
        elif self.of_kae:
            labels["openfuyao.com/kae.present"] = "true"
            for kind in self.kinds:
                labels |= {f"openfuyao.com/kae.{kind}.present": "true", f"openfuyao.com/kae.{kind}.pf": "2"}
        else:
            labels["openfuyao.com/lab.present"] = "true"
        return _node("n1", labels, self.kernel)


def _node(name: str, labels: Mapping[str, str], kernel: str) -> dict[str, Any]:
    info = {
        "architecture": "arm64",
        "kernelVersion": kernel,
        "kubeletVersion": "v1.36.1",
        "osImage": "openEuler",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {"nodeInfo": info},
    }


def _other() -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": "n2", "feature.node.kubernetes.io/pci-0200.present": "true"}
    return _node("n2", labels, KERNELS[0])


RELEASES = ("1.31", "1.36")
"""Of Kubernetes: installers stay with the first one, and end with their work with the other one."""


def _image(name: str, version: str = "1.0") -> dict[str, str]:
    return {"repository": "registry.example.com/lab", "image": name, "version": version}


def kae(draw: random.Random) -> Project:
    """Return a project with a KAEPolicy."""
    policy: dict[str, Any] = {
        "operator": {"enabledHPRE": True, "enabledSEC": draw.random() < 0.7, "enabledZIP": draw.random() < 0.7},
        "driver": {"version": "2.2.0", "source": {"prebuilt": {}}, "drain": {"timeoutSeconds": 60}},
        "devicePlugin": {"version": "1.4.1"},
    }
    kinds = tuple(sorted({"hpre", *draw.sample(sorted(IDS), 2)}))
    return Project(True, {}, policy, {"kubernetesVersion": draw.choice(RELEASES)}, kinds)


_AGENT: Mapping[str, Any] = {"name": "agent", "image": "agent"}
"""The container of a vendor's program."""


def lab(draw: random.Random) -> Project:
    """Return a project with a DevicePolicy and its recipe."""
    modules = [
        {"name": name, "optional": True, "parameters": {"num": {"type": "integer"}, "text": {"type": "string"}}}
        for name in (*draw.sample(LAB[:1], draw.randrange(2)), LAB[1], *draw.sample(LAB[2:], draw.randrange(3)))
    ]
    recipe: dict[str, Any] = {
        "title": "lab",
        "match": {"all": {}},
        "images": {name: _image(name) for name in ("installer", "modules", "user")}
        | {"plugin": _image("kae-device-plugin")},
        "driver": {
            "image": "installer",
            "version": draw.choice(("modules", "user")),
            "sources": ["prebuilt", "inTree"],
            "payloads": [
                {"image": "modules", "paths": ["/opt/lib/modules"]},
                {"image": "user", "paths": ["/opt/user"]},
            ],
            "modules": modules,
            "nodes": list(NODES[: draw.randrange(3)]),
        },
        "devicePlugin": {"image": "plugin", "resources": [{"name": RESOURCE, "class": "token", "count": 4}]},
    }
    if draw.random() < 0.8:
        recipe["driver"]["files"] = [{"from": "/opt/user/a", "to": "/opt/lab/a"}]
    if draw.random() < 0.5:
        recipe["images"]["agent"] = _image("agent")
        recipe["programs"] = [
            {"name": "agent", "per": draw.choice(("policy", "pool")), "pod": {"containers": [dict(_AGENT)]}}
        ]
    source = draw.choice((*("prebuilt",) * 7, "inTree"))
    driver = {"source": {source: {}}, "drain": {"timeoutSeconds": 60}}
    driver["modules"] = [module["name"] for module in modules]
    return Project(False, recipe, {"recipe": "lab", "driver": driver}, {"kubernetesVersion": draw.choice(RELEASES)}, ())


Edit = Callable[[random.Random, Project], bool]


def _version(draw: random.Random, project: Project) -> bool:
    if project.of_kae:
        project.policy["driver"]["version"] = f"2.2.{draw.randrange(1, 9)}"
    else:
        version = f"1.{draw.randrange(1, 9)}"
        alone = "user" if project.recipe["driver"].get("files") else "modules"
        for name in draw.choice((*(("modules", "user"),) * 9, ("modules",), (alone,), ("installer",))):
            project.recipe["images"][name]["version"] = version
    return True


def _which_version(draw: random.Random, project: Project) -> bool:
    del draw
    if not project.of_kae:
        driver = project.recipe["driver"]
        driver["version"] = "user" if driver["version"] == "modules" else "modules"
    return not project.of_kae


def _mirror(draw: random.Random, project: Project) -> bool:
    source = "cr.openfuyao.cn/openfuyao" if project.of_kae else "registry.example.com/lab"
    project.cluster["images"] = {"mirrors": [{"from": source, "to": f"mirror{draw.randrange(9)}.example.com/x"}]}
    return True


def _parameter(draw: random.Random, project: Project) -> bool:
    """Add, change or remove a parameter of a module."""
    driver = project.policy["driver"]
    names = [MODULES[kind] for kind in IDS] if project.of_kae else driver["modules"]
    given = driver.setdefault("moduleParameters", {})
    if given and draw.random() < 0.5:
        name = draw.choice(sorted(given))
        given[name].pop(draw.choice(sorted(given[name])))
        if not given[name]:
            del given[name]
        return True
    name = draw.choice(names)
    key, value = (
        ("pf_q_num", draw.choice((128, 256, 512)))
        if project.of_kae
        else draw.choice((("num", draw.randrange(3)), ("text", draw.choice(("x", "y z")))))
    )
    given.setdefault(name, {})[key] = value
    return True


def _modules(draw: random.Random, project: Project) -> bool:
    """Name other modules: in the recipe and its policy, or the kinds of KAE's devices."""
    if project.of_kae:
        if draw.random() < 0.5:  # Kinds are seldom switched.
            return False
        kind = draw.choice(("enabledSEC", "enabledZIP", "enabledHPRE"))
        operator = project.policy["operator"]
        operator[kind] = not operator[kind]
        return any(operator.values())
    names = project.policy["driver"]["modules"]
    known = [module["name"] for module in project.recipe["driver"]["modules"]]
    if draw.random() < 0.5 and len(names) > 1:
        gone = draw.choice([name for name in names if name != "lab_dev"] or [""])
        if not gone:
            return False
        names.remove(gone)
        project.policy["driver"].get("moduleParameters", {}).pop(gone, None)
        return True
    missing = [name for name in known if name not in names]
    if not missing:
        new = [name for name in LAB if name not in known]
        if not new:
            return False
        missing = [draw.choice(new)]
        rules = {"optional": True, "parameters": {"num": {"type": "integer"}, "text": {"type": "string"}}}
        project.recipe["driver"]["modules"].append({"name": missing[0], **rules})
    names.append(draw.choice(missing))
    return True


def _replaces(draw: random.Random, project: Project) -> bool:
    if project.of_kae:
        return False
    (module,) = (one for one in project.recipe["driver"]["modules"] if one["name"] == "lab_dev")
    if "replaces" in module:
        del module["replaces"]
    else:
        module["replaces"] = draw.choice((["old_dev"], ["lab_dev", "old_dev"]))
    return True


def _nodes(draw: random.Random, project: Project) -> bool:
    if not project.of_kae:
        project.recipe["driver"]["nodes"] = list(NODES[: draw.randrange(3)])
    return not project.of_kae


def _files(draw: random.Random, project: Project) -> bool:
    if project.of_kae:
        return False
    driver = project.recipe["driver"]
    driver["files"] = [
        {"from": f"/opt/user/{name}", "to": f"/opt/lab/{name}"} for name in draw.choice(("a", "ab", "b"))
    ]
    return True


def _payloads(draw: random.Random, project: Project) -> bool:
    if project.of_kae:
        return False
    paths = project.recipe["driver"]["payloads"][draw.randrange(2)]["paths"]
    paths[1:] = draw.choice(([], ["/opt/more"], ["/opt/other"]))
    return True


def _functions(draw: random.Random, project: Project) -> bool:
    if not project.of_kae:
        return False
    counts = project.policy["driver"].setdefault("sriov", {})
    kind = draw.choice(sorted(IDS))
    if kind in counts:  # Nobody takes away what nobody has made.
        counts[kind] = draw.randrange(4)
    else:
        counts[kind] = draw.randrange(1, 4)
    return True


def _state(draw: random.Random, project: Project) -> bool:
    driver = project.policy["driver"]
    match draw.randrange(4):
        case 0:
            driver["state"] = "Absent"
        case 1 if project.of_kae and draw.random() < 0.15:
            driver["env"] = [{"name": "INSTALL_POLICY", "value": "Always"}]
        case 1 if draw.random() < 0.15:
            driver["installPolicy"] = "Always"
        case 2 if project.of_kae:
            driver["presentWhen"] = draw.choice(("Loaded", "Serving"))
        case _:
            driver["source"] = draw.choice(({"prebuilt": {}}, {"prebuilt": {}}, {"inTree": {}}))
    return True


def _pace(draw: random.Random, project: Project) -> bool:
    """Change what concerns no driver: metrics, the pace, the drain, modes of device nodes, what stays on a node."""
    driver = project.policy["driver"]
    match draw.randrange(5):
        case 4:
            project.cluster["kubernetesVersion"] = draw.choice(RELEASES)
        case 0:
            driver["metrics"] = {"enabled": True, "port": draw.choice((9611, 9700))}
        case 1:
            driver.setdefault("rollout", {})["maxUnavailable"] = draw.randrange(2, 5)
        case 2:
            driver["drain"] = {"timeoutSeconds": draw.choice((60, 90))}
        case _ if project.of_kae:
            driver["deviceNodes"] = {"mode": draw.choice(("0660", "0666"))}
        case _:
            driver["enabledCleanup"] = True
    return True


def _program(draw: random.Random, project: Project) -> bool:
    """Change a vendor's program: what it is, whether it comes after the driver, and whether it is there."""
    if not project.recipe.get("programs"):
        return False
    (program,) = project.recipe["programs"]
    match draw.randrange(4):
        case 0:
            project.recipe["images"]["agent"]["version"] = f"1.{draw.randrange(1, 9)}"
        case 1:
            program["pod"]["containers"] = [{**_AGENT, "args": [f"-v={draw.randrange(9)}"]}]
        case 2 if "after" in program:
            del program["after"]
        case 2:
            program["after"] = "driver"
        case _:
            given = project.policy.setdefault("programs", {}).setdefault("agent", {"enabled": True})
            given["enabled"] = not given["enabled"]
    return True


def _kernel(draw: random.Random, project: Project) -> bool:
    del draw
    project.kernel = KERNELS[1]
    return True


EDITS: Mapping[str, tuple[Edit, int]] = {
    "a version": (_version, 36),
    "the image of the version": (_which_version, 12),
    "a mirror": (_mirror, 1),
    "a parameter": (_parameter, 36),
    "modules": (_modules, 30),
    "modules to replace": (_replaces, 1),
    "device nodes": (_nodes, 1),
    "files": (_files, 15),
    "payloads": (_payloads, 1),
    "virtual functions": (_functions, 18),
    "state, source, policy": (_state, 18),
    "the pace": (_pace, 30),
    "a program": (_program, 30),
    "a kernel": (_kernel, 18),
}
"""The edits, each with how often it is made, about as people do."""


def edit(draw: random.Random, project: Project, most: int) -> list[str]:
    """Make up to so many edits, and return what they were."""
    weights = [often for _, often in EDITS.values()]
    sorts = dict.fromkeys(draw.choices(list(EDITS), weights, k=draw.randrange(1, most + 1)))
    if "a kernel" in sorts and draw.random() < 0.95:  # Mostly the watcher commits it, and nothing else.
        sorts = {"a kernel": None}
    return [sort for sort in sorts if EDITS[sort][0](draw, project)]
