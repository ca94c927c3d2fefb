"""A small fleet of two clusters, and the changes that people make to it."""

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

Change = Callable[[random.Random, Path], object]
"""Changes the documents in a folder."""

CLUSTERS = ("east", "west")
_API_VERSION = "device.openfuyao.com/v1alpha1"
_NAMES = ("archive", "backup", "cache", "db", "edge", "mail", "queue", "search", "storage", "tls", "vm", "web")
_KERNELS = {"0e220300": "5.10.0-216.0.0.115.oe2203sp4.aarch64", "0e240300": "6.6.0-28.0.0.34.oe2403.aarch64"}
_MAPPINGS = (
    {"name": "oe2203", "regexp": r"\.oe2203sp[1-4]\."},
    {"name": "oe2403", "regexp": r"\.oe2403(sp[0-9])?\."},
    {"name": "oe2503", "regexp": r"\.oe2503\."},
)


def write(draw: random.Random, folder: Path) -> None:
    """Write the documents of a fleet with four to seven policies."""
    policies = sorted(draw.sample(_NAMES, draw.randint(4, 7)))
    for name in policies:
        _write(folder / f"policies/{name}.yaml", "KAEPolicy", name, _policy(draw, name))
    for cluster in CLUSTERS:
        repository = {"url": "https://git.example.com/platform/kae.git"}
        gitops = {"engine": draw.choice(("argocd", "flux")), "repository": repository}
        spec = {"kubernetesVersion": "1.31", "gitops": gitops}
        _write(folder / f"policies/clusters/{cluster}.yaml", "KAECluster", cluster, spec)
        places = [(zone, number) for zone in (1, 2) for number in range(6)]
        nodes = {
            f"{cluster}-{zone}-{number:02}": _node(draw, policies[(zone * 6 + number) % len(policies)])
            for zone, number in places
        }
        _write_nodes(folder, cluster, nodes)


def _policy(draw: random.Random, name: str) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "nodeSelector": {"matchLabels": {"pool": name}},
        "driver": {"version": f"2.{draw.randrange(3)}.{draw.randrange(3)}"},
        "devicePlugin": {"version": f"1.4.{draw.randrange(3)}"},
    }
    match draw.randrange(4):
        case 0:
            spec["driver"]["kernelMappings"] = [dict(mapping) for mapping in _MAPPINGS[:2]]
        case 1:
            spec["driver"]["rollout"] = {"waves": [{"name": "canary", "percent": 30, "version": "2.3.0"}]}
    return spec


def _node(draw: random.Random, pool: str) -> dict[str, Any]:
    return {"labels": {"pool": pool}, "profile": draw.choice(sorted(_KERNELS))}


def _write(path: Path, kind: str, name: str, spec: Mapping[str, Any]) -> None:
    data = {"apiVersion": _API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(data, sort_keys=False))


def _write_nodes(folder: Path, cluster: str, nodes: Mapping[str, Mapping[str, Any]]) -> None:
    """Write an inventory as `kae inventory` does: a line for each node and each profile."""
    lines = [json.dumps({**node, "name": name}, sort_keys=True) for name, node in sorted(nodes.items())]
    profiles = [f'"{name}":{json.dumps(_profile(kernel))}' for name, kernel in sorted(_KERNELS.items())]
    head = json.dumps({"apiVersion": _API_VERSION, "kind": "NodeInventory", "metadata": {"name": cluster}})
    text = f'{head[:-1]},\n"spec":{{"nodes":[\n{_lines(lines)}\n],"profiles":{{\n{_lines(profiles)}\n}}}}}}\n'
    path = folder / f"inventory/{cluster}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def _lines(lines: list[str]) -> str:
    return ",\n".join(lines)


def _profile(kernel: str) -> dict[str, Any]:
    return {
        "architecture": "arm64",
        "discovered": True,
        "kernelVersion": kernel,
        "kubeletVersion": "v1.31.0",
        "labels": {"openfuyao.com/kae.hpre.present": "true", "openfuyao.com/kae.present": "true"},
        "osImage": "openEuler 22.03 (LTS-SP4)",
    }


def _policies(folder: Path) -> list[Path]:
    return sorted((folder / "policies").glob("*.yaml"))


def _edit(path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    data = yaml.safe_load(path.read_text())
    edit(data["spec"])
    path.write_text(yaml.safe_dump(data, sort_keys=False))


def _edit_policy(draw: random.Random, folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    _edit(draw.choice(_policies(folder)), edit)


def _edit_nodes(draw: random.Random, folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    cluster = draw.choice(CLUSTERS)
    data = json.loads((folder / f"inventory/{cluster}.json").read_text())
    nodes = {node.pop("name"): node for node in data["spec"]["nodes"]}
    edit(nodes)
    _write_nodes(folder, cluster, nodes)


def _bump_driver(draw: random.Random, folder: Path) -> None:
    version = f"2.{draw.randrange(3, 9)}.{draw.randrange(9)}"
    _edit_policy(draw, folder, lambda spec: spec["driver"].update(version=version))


def _bump_device_plugin(draw: random.Random, folder: Path) -> None:
    version = f"1.{draw.randrange(5, 9)}.{draw.randrange(9)}"
    _edit_policy(draw, folder, lambda spec: spec["devicePlugin"].update(version=version))


def _change_image(draw: random.Random, folder: Path) -> None:
    repository = f"registry-{draw.randrange(9)}.example.com/kae"
    _edit_policy(draw, folder, lambda spec: spec["driver"].update(repository=repository))


def _add_policy(draw: random.Random, folder: Path) -> None:
    taken = {path.stem for path in _policies(folder)}
    name = draw.choice([name for name in _NAMES if name not in taken])
    _write(folder / f"policies/{name}.yaml", "KAEPolicy", name, _policy(draw, name))

    def join(nodes: dict[str, Any]) -> None:
        for number in range(2):
            nodes[f"{name}-{number:02}"] = _node(draw, name)

    _edit_nodes(draw, folder, join)


def _remove_policy(draw: random.Random, folder: Path) -> None:
    draw.choice(_policies(folder)).unlink()


def _add_pool(draw: random.Random, folder: Path) -> None:
    _edit_policy(draw, folder, lambda spec: spec["driver"].update(kernelMappings=[dict(item) for item in _MAPPINGS]))


def _add_wave(draw: random.Random, folder: Path) -> None:
    wave = {"name": f"wave-{draw.randrange(100)}", "percent": draw.choice((20, 40)), "version": "2.9.0"}
    _edit_policy(draw, folder, lambda spec: spec["driver"].update(rollout={"waves": [wave]}))


def _label(draw: random.Random, folder: Path) -> None:
    labels = {f"team-{draw.randrange(9)}": "edge"}
    _edit_policy(draw, folder, lambda spec: spec.update(daemonSets={"labels": labels}))


def _restrict(draw: random.Random, folder: Path) -> None:
    """Change a policy's kinds of devices or its clusters."""
    kinds = {"operator": {"enabledHPRE": True, "enabledSEC": True}}
    change = draw.choice((kinds, {"clusters": [draw.choice(CLUSTERS)]}))
    _edit_policy(draw, folder, lambda spec: spec.update(change))


def _change_cluster(draw: random.Random, folder: Path) -> None:
    mirror = {"from": "cr.openfuyao.cn/openfuyao", "to": f"mirror-{draw.randrange(9)}.example.com/openfuyao"}
    change: dict[str, Any] = draw.choice(
        (
            {"images": {"mirrors": [mirror]}},
            {"psa": {"enabled": True}},
            {"nfd": {"enabled": False, "nodefeaturerules": True}},
            {"kubernetesVersion": "1.32"},
            {"monitoring": {"enabled": True}},
        )
    )
    _edit(folder / f"policies/clusters/{draw.choice(CLUSTERS)}.yaml", lambda spec: spec.update(change))


def _add_nodes(draw: random.Random, folder: Path) -> None:
    pools = [path.stem for path in _policies(folder)]

    def join(nodes: dict[str, Any]) -> None:
        for name in draw.sample(sorted(nodes), 2):
            nodes[f"{name}-{draw.randrange(100)}"] = _node(draw, draw.choice(pools))

    _edit_nodes(draw, folder, join)


def _relabel_nodes(draw: random.Random, folder: Path) -> None:
    pools = [path.stem for path in _policies(folder)]

    def relabel(nodes: dict[str, Any]) -> None:
        for name in draw.sample(sorted(nodes), 2):
            nodes[name] = _node(draw, draw.choice(pools))

    _edit_nodes(draw, folder, relabel)


def _remove_cluster(draw: random.Random, folder: Path) -> None:
    cluster = draw.choice(CLUSTERS)
    (folder / f"policies/clusters/{cluster}.yaml").unlink()
    (folder / f"inventory/{cluster}.json").unlink()


CHANGES: Mapping[str, tuple[int, Change]] = {
    "bump a driver": (5, _bump_driver),
    "bump a device plugin": (3, _bump_device_plugin),
    "change an image": (1, _change_image),
    "add a policy": (2, _add_policy),
    "remove a policy": (2, _remove_policy),
    "add a pool": (1, _add_pool),
    "add a wave": (1, _add_wave),
    "label DaemonSets": (1, _label),
    "restrict a policy": (1, _restrict),
    "change a cluster": (3, _change_cluster),
    "add nodes": (2, _add_nodes),
    "relabel nodes": (1, _relabel_nodes),
    "remove a cluster": (1, _remove_cluster),
}
"""Changes with the weight of each."""
