"""A walk: edits in a folder, each compiled against the output of the last accepted state, and judged."""

import json
import random
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests import in_process, project
from tests.property import campaign, matcher
from tests.property.walk import edits, files, judge, recipes

ROOT = Path(__file__).parents[3]
_BEHIND = (
    *("thaws-nodes", "removes-drivers", "removes-device-plugins", "removes-programs", "moves-namespace"),
    "drops-protection",
)
LENGTH = 25
"""Edits from the example fleet on; then the next walk begins."""

SCOPE = re.compile(r"kae compile --accept ([^`]+)`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a compile says."""

    code: int
    removals: frozenset[str]
    """The scopes that are refused."""
    faults: bool
    """True where documents have errors."""
    text: str


def walked(chosen: tuple[int, int], folder: Path, *, of_recipes: bool = False) -> campaign.Result:
    """Walk from a seed for a number of edits, through an empty folder."""
    seed, length = chosen
    draw = random.Random(seed)  # noqa: S311 - walks are drawn again from their seed
    prepared(draw, folder, of_recipes=of_recipes)
    harmless, mistakes = edits.HARMLESS, edits.MISTAKES
    if of_recipes:
        harmless, mistakes = edits.HARMLESS_OF_RECIPES, edits.MISTAKES_OF_RECIPES
    result = campaign.Result(seed=seed)
    for number in range(length):
        sorts = harmless if draw.random() < 0.4 else mistakes
        sort = draw.choice(sorted(sorts))
        kept, recipe = documents(folder), files.recipe(folder)
        if sorts[sort](draw, folder):
            outcome = _stepped(draw, folder, result, f"edit {number} ({sort})", kept)
            result.counts[f"{sort}: {outcome}"] += 1
            if outcome == "stopped" and sorts is harmless:
                result.faults.append(f"edit {number} ({sort}): a harmless edit is stopped")
            if files.recipe(folder) != recipe:  # NFD labels the nodes anew.
                recipes.label(folder, recipe, files.recipe(folder))
            elif sort == "match other devices" and outcome in ("compiled", "accepted"):
                _relabelled(folder)
    return result


def _relabelled(folder: Path) -> None:
    """Take the labels from the nodes that no rule of the output gives them any more."""
    domain = f"openfuyao.com/{files.recipe(folder)}."
    for path in folder.glob("inventory/*.json"):
        rules = judge.outputs(folder / "output").get(path.stem, judge.Output()).rules
        data = json.loads(path.read_text() or '{"items": []}')
        for node in data["items"]:
            given = judge.labelled_node(rules, node)["metadata"]["labels"]
            labels = node["metadata"]["labels"]
            gone = [key for key in labels if key.startswith(domain) and ".deploy." not in key and key not in given]
            for key in gone:
                del labels[key]
        path.write_text(json.dumps(data, indent=1))


def prepared(draw: random.Random, folder: Path, *, of_recipes: bool = False) -> None:
    """Copy the example fleet, with inventories as kubectl prints them; half of the fleets are three times as large."""
    shutil.copytree(ROOT / "policies", folder / "policies")
    (folder / "inventory").mkdir()
    copies = draw.choice((1, 3))
    for path in sorted((ROOT / "inventory").glob("*.json")):
        items = [_named(node, number) for node in _nodes(path) for number in range(copies)]
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        (folder / "inventory" / path.name).write_text(text)
    if draw.random() < 0.5:
        tls = folder / "policies/tls.yaml"
        zone = "inventorySelector: {matchLabels: {topology.kubernetes.io/zone: w3}}"
        tls.write_text(tls.read_text().replace("nodes: [kp920-w3-03, kp920-w3-04]", zone))
    if of_recipes:
        recipes.rewrite(folder)
    assert compiled(folder).code == 0


def _nodes(path: Path) -> list[dict[str, Any]]:
    """Return the nodes of an inventory as the API server prints them."""
    data = json.loads(path.read_text())
    if data["kind"] == "List":
        return [dict(item) for item in data["items"]]
    return [_expanded(node, data["spec"]["profiles"][node["profile"]]) for node in data["spec"]["nodes"]]


def _expanded(node: Mapping[str, Any], profile: Mapping[str, Any]) -> dict[str, Any]:
    info = {key: profile[key] for key in ("architecture", "kernelVersion", "kubeletVersion", "osImage")}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node["name"],
            "labels": {"kubernetes.io/hostname": node["name"], **profile["labels"], **node.get("labels", {})},
        },
        "spec": {"taints": profile.get("taints", [])},
        "status": {"nodeInfo": info},
    }


def _named(node: dict[str, Any], number: int) -> dict[str, Any]:
    name = node["metadata"]["name"] + (f"-{number}" if number else "")
    labels = node["metadata"]["labels"] | {"kubernetes.io/hostname": name}
    return {**node, "metadata": {"name": name, "labels": labels}}


def compiled(folder: Path, *accepted: str, output: str = "output") -> Said:
    """Compile without the cache."""
    accepts = [part for scope in accepted for part in ("--accept", scope)]
    answer = in_process.kae(folder, "compile", "--no-cache", "-o", "json", "--output-dir", output, *accepts)
    found = json.loads(answer.out)["diagnostics"]
    errors = [item for item in found if item["severity"] == "error"]
    scopes = {scope[1] for item in errors if (scope := SCOPE.search(item.get("hint") or ""))}
    return Said(
        code=answer.code, removals=frozenset(scopes), faults=len(errors) > len(scopes), text=answer.out + answer.err
    )


def documents(folder: Path) -> dict[str, bytes]:
    """Return the files that people edit."""
    return {
        f"{top}/{name}": content
        for top in ("policies", "recipes", "inventory")
        for name, content in project.tree(folder / top).items()
    }


def reverted(folder: Path, kept: Mapping[str, bytes]) -> None:
    for name in documents(folder).keys() - kept.keys():
        (folder / name).unlink()
    project.write(folder, kept)


def _stepped(draw: random.Random, folder: Path, result: campaign.Result, place: str, kept: Mapping[str, bytes]) -> str:
    """Compile an edit and judge it; return what came of it."""
    output = project.tree(folder / "output")
    before = _states(kept, judge.outputs(folder / "output"))
    said = compiled(folder)
    if said.code and project.tree(folder / "output") != output:
        result.faults.append(f"{place}: stopped, but it wrote")
    if said.faults:
        reverted(folder, kept)
        return "refused"
    fresh = folder / "fresh"
    shutil.rmtree(fresh, ignore_errors=True)
    empty = [scope for scope in said.removals if scope.startswith("inventory-empty")]
    if compiled(folder, *empty, output="fresh").code:
        result.faults.append(f"{place}: stopped without an output to lose: {said.text}")
        reverted(folder, kept)
        return "stopped"
    after = _states(documents(folder), judge.outputs(fresh))
    without_bytes = {Path(name).stem for name, text in documents(folder).items() if not text}
    result.faults += [f"{place}: {fault}" for fault in _compared(said, before, after, without_bytes)]
    if said.code and draw.random() < 0.6:
        reverted(folder, kept)
        return "stopped"
    if said.code and compiled(folder, *_accepted(said.removals, before)).code:
        result.faults.append(f"{place}: still stopped although {sorted(said.removals)} are accepted")
        reverted(folder, kept)
        return "stopped"
    for scope in empty:
        _restored(folder, scope.partition(":")[2])
    if project.tree(folder / "output") != project.tree(fresh):
        result.faults.append(f"{place}: the output is not what a compile into an empty folder writes")
    return "accepted" if said.code else "compiled"


def _restored(folder: Path, cluster: str) -> None:
    """Delete an inventory of no bytes, as each compile would ask for it again."""
    for path in _inventories(cluster):
        if (folder / path).exists() and not (folder / path).stat().st_size:
            (folder / path).unlink()


def _accepted(scopes: frozenset[str], before: Mapping[str, judge.State]) -> list[str]:
    """Return the scopes to accept: behind an inventory of no bytes, all that its cluster loses."""
    more = [
        f"{code}:{scope.partition(':')[2]}"
        for scope in scopes
        if scope.startswith("inventory-empty:")
        for code in _BEHIND
    ]
    assert before or not scopes
    return [*sorted(scopes), *more]


def _inventories(cluster: str) -> Iterator[str]:
    return (f"inventory/{cluster}.{suffix}" for suffix in ("json", "yml", "yaml"))


def _states(files: Mapping[str, bytes], outputs: Mapping[str, judge.Output]) -> dict[str, judge.State]:
    """Return the state of each cluster with output."""
    read = [data for name, text in files.items() if name.endswith(".yaml") for data in yaml.safe_load_all(text) if data]
    policies = [data for data in read if data["kind"] in ("KAEPolicy", "DevicePolicy")]
    found = {}
    for name, output in outputs.items():
        text = next((files[path] for path in _inventories(name) if path in files), b"")
        own = {one["metadata"]["name"]: one["spec"] for one in matcher.holding(name, policies)}
        nodes = tuple(json.loads(text)["items"]) if text else ()
        found[name] = judge.State(output=output, nodes=nodes, policies=own)
    return found


def _compared(
    said: Said, before: Mapping[str, judge.State], after: Mapping[str, judge.State], empty: set[str]
) -> list[str]:
    """Return what a compile should have said, and what it should not; `empty` has the inventories of no bytes."""
    removals, allowed, silent = set[str](), set[str](), set[str]()
    for cluster, state in before.items():
        verdict = judge.judged(cluster, state, after[cluster]) if cluster in after else judge.removed(cluster, state)
        removals |= verdict.removals
        allowed |= verdict.allowed
        silent |= {f"a smaller loss of {policy}" for policy in verdict.left_out if f"'{policy}'" not in said.text}
        kept = after[cluster].output.admission if cluster in after else frozenset()
        silent |= {f"the loss of {name}" for name in state.output.admission - kept if f'"{name}"' not in said.text}
    # An inventory of no bytes is refused before anything is compiled.
    early = {scope.partition(":")[2] for scope in said.removals if scope.startswith("inventory-empty:")} & empty
    removals |= {f"inventory-empty:{cluster}" for cluster in early}
    unsaid = set() if early else (removals - said.removals) | (set() if said.code else silent)
    false = said.removals - removals - allowed
    return [*(f"{scope} is not said" for scope in sorted(unsaid)), *(f"{scope} is said" for scope in sorted(false))]
