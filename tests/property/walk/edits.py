"""Random edits of a fleet's files: mistakes, and what people do every day."""

import copy
import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.property.fleets import documents
from tests.property.walk import files, recipes

Edit = Callable[[random.Random, Path], bool]
"""Edits a folder at random; False where it found nothing to edit."""

_WORDS = re.compile(r"(?:name: |recipe: |pool: |zone: |values: \[|clusters: \[|nodes: \[)\"?\*?([a-z0-9-]{2,})")
_LISTS = (("driver", "modules"), ("devicePlugin", "resources"))
_SUFFIXES = (".YAML", ".yml", ".yaml~", ".bak")


def _delete(draw: random.Random, folder: Path) -> bool:
    path = files.one(draw, files.documents(folder))
    if path:
        path.unlink()
    return path is not None


def _rename(draw: random.Random, folder: Path) -> bool:
    path = files.one(draw, files.documents(folder))
    if path:
        stem = draw.choice((path.stem, path.stem, f"{path.stem}-2"))
        path.rename(path.with_name(stem + draw.choice((path.suffix, *_SUFFIXES))))
    return path is not None


def _empty(draw: random.Random, folder: Path) -> bool:
    path = files.one(draw, files.documents(folder))
    if path:
        path.write_text("")
    return path is not None


def _truncate(draw: random.Random, folder: Path) -> bool:
    path = files.one(draw, files.documents(folder))
    if path:
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(lines[: draw.randrange(len(lines) + 1)]))
    return path is not None


def _typo(draw: random.Random, folder: Path) -> bool:
    """Swap two characters of a name, of a selector's value or of a list of clusters."""
    path = files.one(draw, files.texts(folder))
    found = list(_WORDS.finditer(path.read_text())) if path else []
    if not path or not found:
        return False
    start, end = draw.choice(found).span(1)
    at = draw.randrange(start, end - 1)
    text = path.read_text()
    path.write_text(text[:at] + text[at + 1] + text[at] + text[at + 2 :])
    return True


def _relabel(draw: random.Random, folder: Path) -> bool:
    def edit(nodes: list[dict[str, Any]]) -> None:
        key = draw.choice(("pool", "pool", "topology.kubernetes.io/zone"))
        value = draw.choice(("tls", "storage", "vm", "other", None))
        for node in files.some(draw, nodes):
            node["metadata"]["labels"].pop(key, None)
            node["metadata"]["labels"] |= {key: value} if value else {}

    return files.nodes(draw, folder, edit)


def _opt_out(draw: random.Random, folder: Path) -> bool:
    recipe = files.recipe(folder)
    parts = ("driver", "device-plugin", *(() if recipe == "kae" else recipes.PROGRAMS))

    def edit(nodes: list[dict[str, Any]]) -> None:
        for node in files.some(draw, nodes):
            node["metadata"]["labels"][f"openfuyao.com/{recipe}.deploy.{draw.choice(parts)}"] = "false"

    return files.nodes(draw, folder, edit)


def _taint(draw: random.Random, folder: Path) -> bool:
    def edit(nodes: list[dict[str, Any]]) -> None:
        taint = {"key": "dedicated", "value": draw.choice(("tls", "db")), "effect": "NoSchedule"}
        for node in files.some(draw, nodes):
            node.setdefault("spec", {})["taints"] = [taint]

    return files.nodes(draw, folder, edit)


def _lose_nodes(draw: random.Random, folder: Path) -> bool:
    def edit(nodes: list[dict[str, Any]]) -> None:
        for node in files.some(draw, nodes):
            nodes.remove(node)

    return files.nodes(draw, folder, edit)


def _boot_kernel(draw: random.Random, folder: Path) -> bool:
    def edit(nodes: list[dict[str, Any]]) -> None:
        kernel = draw.choice(("5.10.0-216.0.0.115.oe2203sp4.aarch64", "6.6.0-28.0.0.34.oe2403.aarch64", "6.12.0-1"))
        for node in files.some(draw, nodes):
            node["status"]["nodeInfo"]["kernelVersion"] = kernel

    return files.nodes(draw, folder, edit)


def _narrow(draw: random.Random, folder: Path) -> bool:
    """Take single nodes, or a rack, from a policy."""

    def edit(spec: dict[str, Any]) -> None:
        zones = draw.sample(("rack1", "rack2", "w1", "w2", "w3"), draw.choice((1, 1, 2)))
        names = [f"kp920-{draw.choice(('rack1', 'rack2', 'w1', 'w2', 'w3'))}-0{draw.randrange(1, 9)}" for _ in range(3)]
        zone = {"key": "topology.kubernetes.io/zone", "operator": "NotIn", "values": zones}
        host = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": names}
        selector = spec.setdefault("nodeSelector", {})
        selector["matchExpressions"] = [*selector.get("matchExpressions", ()), draw.choice((zone, host, host))]

    return files.policy(draw, folder, edit)


def _switch_off(draw: random.Random, folder: Path) -> bool:
    def edit(spec: dict[str, Any]) -> None:
        match draw.randrange(6):
            case 0:
                spec.setdefault("driver", {})["enabled"] = False
            case 1:
                spec.setdefault("devicePlugin", {})["enabled"] = False
            case 2 if "recipe" in spec:
                spec.setdefault("driver", {})["modules"] = ["uacce", "hisi_hpre"]
            case 2:
                spec["operator"] = {"enabledHPRE": False, "enabledZIP": True}
            case 3:
                spec.setdefault("driver", {})["state"] = "Absent"
            case 4:
                spec.get("daemonSets", {}).pop("tolerations", None)
            case _:
                spec["clusters"] = [draw.choice(("east", "west", "lab"))]

    return files.policy(draw, folder, edit)


def _kernel_mapping(draw: random.Random, folder: Path) -> bool:
    def edit(spec: dict[str, Any]) -> None:
        mappings = recipes.paced(spec).get("kernelMappings")
        if mappings:
            mappings[-1]["regexp"] = draw.choice((r"\.oe2503\.", r"^6\.", "oe2403$"))

    return files.policy(draw, folder, edit)


def _thaw(draw: random.Random, folder: Path) -> bool:
    """Edit a frozen entry, or drop it, as a person does."""

    def edit(spec: dict[str, Any]) -> None:
        rollout = recipes.paced(spec).get("rollout", {})
        frozen = rollout.get("frozen")
        if frozen and draw.random() < 0.5:
            frozen[0] = {"name": frozen[0]["name"], "nodes": ["kp920-w3-04"], **recipes.version(spec, "2.1.0")}
        elif frozen:
            del rollout["frozen"]

    return files.policy(draw, folder, edit)


def _change_cluster(draw: random.Random, folder: Path) -> bool:
    def edit(spec: dict[str, Any]) -> None:
        match draw.randrange(5):
            case 0:
                spec["namespace"] = draw.choice(("kae-prod", "kae-operator"))
            case 1:
                spec.pop("gitops", None)
            case 2:
                spec["nfd"] = {"enabled": False, "nodefeaturerules": draw.choice((True, False))}
            case 3:
                spec["kubernetesVersion"] = "1.30"
            case _:
                spec.pop("psa", None)

    return files.cluster(draw, folder, edit)


def _comment(draw: random.Random, folder: Path) -> bool:
    path = files.one(draw, files.texts(folder))
    if path:
        path.write_text(f"{path.read_text()}# Reviewed on day {draw.randrange(1000)}.\n")
    return path is not None


def _reorder(draw: random.Random, folder: Path) -> bool:
    if draw.random() < 0.5:
        return files.nodes(draw, folder, lambda nodes: nodes.reverse())
    return files.policy(draw, folder, lambda spec: [spec.update({key: spec.pop(key)}) for key in sorted(spec)])


def _move_file(draw: random.Random, folder: Path) -> bool:
    path = files.one(draw, files.policies(folder))
    if path:
        path.rename(path.with_name(f"{path.stem}-{draw.randrange(1000)}.yaml"))
    return path is not None


def _join(draw: random.Random, folder: Path) -> bool:
    def edit(nodes: list[dict[str, Any]]) -> None:
        for node in draw.sample(nodes, min(3, len(nodes))):
            name = f"{node['metadata']['name']}-{draw.randrange(10000)}"
            twin = copy.deepcopy(node)
            twin["metadata"]["name"] = twin["metadata"]["labels"]["kubernetes.io/hostname"] = name
            nodes.append(twin)

    return files.nodes(draw, folder, edit)


def _bump(draw: random.Random, folder: Path) -> bool:
    def edit(spec: dict[str, Any]) -> None:
        component = draw.choice(("driver", "devicePlugin", *(recipes.PROGRAMS if "recipe" in spec else ())))
        recipes.set_version(spec, component, f"2.{draw.randrange(10)}.{draw.randrange(10)}")

    return files.policy(draw, folder, edit)


def _mirror(draw: random.Random, folder: Path) -> bool:
    mirror = {"from": "cr.openfuyao.cn/openfuyao", "to": f"registry-{draw.randrange(9)}.example.com/openfuyao"}
    return files.cluster(draw, folder, lambda spec: spec.update(images={"mirrors": [mirror]}))


def _new_policy(draw: random.Random, folder: Path) -> bool:
    name, recipe = f"new-{draw.randrange(1000)}", files.recipe(folder)
    spec: dict[str, Any] = {"nodeSelector": {"matchLabels": {"pool": name}}}
    spec |= {} if recipe == "kae" else {"recipe": recipe}
    recipes.set_version(spec, "driver", "2.2.0")
    recipes.set_version(spec, "devicePlugin", "1.4.1")
    data = documents.document("KAEPolicy" if recipe == "kae" else "DevicePolicy", name, spec)
    (folder / f"policies/{name}.yaml").write_text(yaml.safe_dump(data))
    return True


def _wave(draw: random.Random, folder: Path) -> bool:
    name = f"wave-{draw.randrange(100)}"

    def edit(spec: dict[str, Any]) -> None:
        waves = recipes.paced(spec).setdefault("rollout", {}).setdefault("waves", [])
        wave = {"name": name, "percent": 10, **recipes.version(spec, "2.9.0")}
        waves[:] = [one for one in waves if "clusters" in one] + [wave]

    return files.policy(draw, folder, edit)


def _reserve(draw: random.Random, folder: Path) -> bool:
    """Add a wave that has no node yet."""
    name = f"wave-{draw.randrange(100)}"

    def edit(spec: dict[str, Any]) -> None:
        waves = recipes.paced(spec).setdefault("rollout", {}).setdefault("waves", [])
        waves[:] = [one for one in waves if one["name"] != name]
        waves.append({"name": name, "nodes": [], **recipes.version(spec, "2.9.0")})

    return files.policy(draw, folder, edit)


def _name_node(draw: random.Random, folder: Path) -> bool:
    """Name one more node of a wave, mostly the first one."""

    def edit(spec: dict[str, Any]) -> None:
        waves = recipes.paced(spec).get("rollout", {}).get("waves", ())
        for wave in [one for one in waves if "nodes" in one][:1]:
            name = f"kp920-{draw.choice(('rack1', 'rack2', 'w1', 'w2', 'w3'))}-0{draw.randrange(1, 9)}"
            wave["nodes"] = sorted({*wave["nodes"], name})

    return files.policy(draw, folder, edit)


def _clear_wave(draw: random.Random, folder: Path) -> bool:
    """Take all nodes out of a wave."""

    def edit(spec: dict[str, Any]) -> None:
        for wave in recipes.paced(spec).get("rollout", {}).get("waves", ()):
            wave["nodes"] = []
            wave.pop("percent", None)
            wave.pop("inventorySelector", None)

    return files.policy(draw, folder, edit)


def _drop_part(draw: random.Random, folder: Path) -> bool:
    """Drop a module, a resource or a kind of devices with its resources from a recipe."""

    def edit(spec: dict[str, Any]) -> None:
        modules, resources = (spec.get(part, {}).get(field, []) for part, field in _LISTS)
        kinds = spec["match"]["pci"]
        chosen = draw.choice([one for one in (modules, resources, kinds) if one])
        gone = chosen.pop(draw.randrange(len(chosen)))
        if chosen is kinds:
            resources[:] = [one for one in resources if one["kind"] != gone["kind"]]

    return files.document(files.one(draw, files.recipes(folder)), edit)


def _rematch(draw: random.Random, folder: Path) -> bool:
    """Have a recipe match other devices, more of them or fewer."""

    def edit(spec: dict[str, Any]) -> None:
        kind = draw.choice(spec["match"]["pci"])
        match draw.randrange(4):
            case 0:
                kind["devices"] = ["ffff"]
            case 1:
                kind["devices"] = sorted({*kind["devices"], "ffff"})
            case 2:
                kind.pop("virtual", None)
            case 3:
                kind["classes"] = ["1200"]

    return files.document(files.one(draw, files.recipes(folder)), edit)


def _drop_component(draw: random.Random, folder: Path) -> bool:
    """Drop a component from a recipe, and what policies say of it."""
    path = files.one(draw, files.recipes(folder))
    parts = [part for part in ("driver", "devicePlugin") if path and f"\n  {part}:\n" in path.read_text()]
    if not path or not parts:
        return False
    part = draw.choice(parts)
    said = (part, "kernelMappings", "rollout") if part == "driver" else (part,)
    for each in (path, *files.policies(folder)):
        files.document(each, lambda spec: [spec.pop(field, None) for field in said])
    return True


def _rename_recipe(draw: random.Random, folder: Path) -> bool:
    """Rename a recipe, mostly in its policies too."""
    path = files.one(draw, files.recipes(folder))
    if path:
        before = path.parent.name
        after = f"{before.partition('-')[0]}-{draw.randrange(100)}"
        for text in [path, *(files.policies(folder) if draw.random() < 0.7 else ())]:
            text.write_text(re.sub(f"(?<=: ){before}(?=[\n}}])", after, text.read_text()))
        target = folder / "recipes" / after / path.name
        target.parent.mkdir(exist_ok=True)
        path.rename(target)
    return path is not None


def _bump_recipe(draw: random.Random, folder: Path) -> bool:
    def edit(spec: dict[str, Any]) -> None:
        for image in files.some(draw, list(spec["images"].values())):
            image["version"] = f"1.{draw.randrange(10)}.{draw.randrange(10)}"

    return files.document(files.one(draw, files.recipes(folder)), edit)


def _drop_program(draw: random.Random, folder: Path) -> bool:
    """Drop a program from a recipe, mostly with what policies say of it."""
    path, gone = files.one(draw, files.recipes(folder)), set[str]()

    def edit(spec: dict[str, Any]) -> None:
        programs = spec["programs"]
        program = draw.choice(programs)
        programs.remove(program)
        gone.add(program["name"])
        if program.get("offers"):
            spec.pop("admission", None)
        else:  # A parameter of a recipe stands in some field.
            spec.pop("parameters", None)

    if not path or "\n  programs:\n" not in path.read_text() or not files.document(path, edit):
        return False
    if draw.random() < 0.8:
        for each in files.policies(folder):
            files.document(each, lambda spec: [spec.get("programs", {}).pop(name, None) for name in gone])
            files.document(each, lambda spec: spec.pop("values", None))
    return True


def _change_program(draw: random.Random, folder: Path) -> bool:
    """Have a program run elsewhere, or on a condition."""

    def edit(spec: dict[str, Any]) -> None:
        program = draw.choice(spec["programs"])
        match draw.randrange(4):
            case 0:
                program["architectures"] = [draw.choice(("amd64", "arm64"))]
            case 1:
                program["when"] = {"export": False}
            case 2:
                program["per"] = draw.choice(("policy", "pool"))
            case _:
                program["name"] = f"{program['name']}-2"

    return files.document(files.one(draw, files.recipes(folder)), edit)


def _switch_program(draw: random.Random, folder: Path) -> bool:
    def edit(spec: dict[str, Any]) -> None:
        match draw.randrange(3):
            case 0:
                spec.setdefault("programs", {})[draw.choice(recipes.PROGRAMS)] = {"enabled": False}
            case 1:
                spec.setdefault("values", {})["export"] = False
            case _:
                groups = recipes.paced(spec).get("rollout", {})
                for group in (*groups.get("waves", ()), *groups.get("frozen", ())):
                    group.setdefault("values", {})["export"] = False

    return files.policy(draw, folder, edit)


def _drop_admission(draw: random.Random, folder: Path) -> bool:
    return files.document(files.one(draw, files.recipes(folder)), lambda spec: spec.pop("admission"))


def _repod(draw: random.Random, folder: Path) -> bool:
    """Change the pod of a program."""

    def edit(spec: dict[str, Any]) -> None:
        container = draw.choice(spec["programs"])["pod"]["containers"][0]
        # A parameter of a recipe stands in some field.
        kept = [argument for argument in container.get("args", ()) if "$" in argument]
        container["args"] = [*kept, f"-v={draw.randrange(9)}"]

    return files.document(files.one(draw, files.recipes(folder)), edit)


def _level(draw: random.Random, folder: Path) -> bool:
    """Set a value of a policy, or of its waves alone."""
    level = draw.randrange(10)

    def edit(spec: dict[str, Any]) -> None:
        waves = recipes.paced(spec).get("rollout", {}).get("waves", ())
        for one in draw.choice(([spec], waves)):
            one.setdefault("values", {})["level"] = level

    return files.policy(draw, folder, edit)


def _wave_of_program(draw: random.Random, folder: Path) -> bool:
    name = f"wave-{draw.randrange(100)}"

    def edit(spec: dict[str, Any]) -> None:
        waves = recipes.paced(spec).setdefault("rollout", {}).setdefault("waves", [])
        images = {"exporter": {"version": f"3.{draw.randrange(10)}.0"}}
        waves[:] = [one for one in waves if "clusters" in one] + [{"name": name, "percent": 10, "images": images}]

    return files.policy(draw, folder, edit)


MISTAKES: Mapping[str, Edit] = {
    "delete a file": _delete,
    "rename a file": _rename,
    "mistype a word": _typo,
    "empty a file": _empty,
    "truncate a file": _truncate,
    "relabel nodes": _relabel,
    "opt nodes out": _opt_out,
    "taint nodes": _taint,
    "lose nodes": _lose_nodes,
    "boot a kernel": _boot_kernel,
    "narrow a selector": _narrow,
    "switch something off": _switch_off,
    "change a mapping": _kernel_mapping,
    "edit a frozen entry": _thaw,
    "change a cluster": _change_cluster,
}
HARMLESS: Mapping[str, Edit] = {
    "comment": _comment,
    "reorder": _reorder,
    "move a policy to another file": _move_file,
    "add nodes": _join,
    "change a version": _bump,
    "change a mirror": _mirror,
    "add a policy": _new_policy,
    "add a wave": _wave,
    "reserve a wave": _reserve,
    "name a node of a wave": _name_node,
    "clear waves": _clear_wave,
}
"""Edits that take nothing away, so no removal may be said of them."""

MISTAKES_OF_RECIPES: Mapping[str, Edit] = {
    **MISTAKES,
    "change a program": _change_program,
    "drop a component of a recipe": _drop_component,
    "drop a program": _drop_program,
    "drop what the API server adds": _drop_admission,
    "drop a part of a recipe": _drop_part,
    "match other devices": _rematch,
    "rename a recipe": _rename_recipe,
    "switch a program off": _switch_program,
}
HARMLESS_OF_RECIPES: Mapping[str, Edit] = {
    **HARMLESS,
    "add a wave of a program": _wave_of_program,
    "change a program's pod": _repod,
    "change a recipe's versions": _bump_recipe,
    "change a value": _level,
}
"""The same, for a fleet of DevicePolicies."""
