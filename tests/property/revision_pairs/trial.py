"""A trial: two commits of a random fleet, their outputs, and the answer of `kae diff`."""

import itertools
import json
import math
import random
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compiler.inventory import canonical_form, reduction
from compiler.inventory.snapshot import ClusterName
from tests import in_process, revisions
from tests.property import campaign
from tests.property.revision_pairs import judge
from tests.property.walk import edits, files, steps

_EDITS = 3
"""The most edits between two commits."""
_TRIES = 20


def _module_parameters(draw: random.Random, folder: Path) -> bool:
    queues = {"hisi_hpre": {"pf_q_num": draw.choice((128, 512))}}
    return files.policy(draw, folder, lambda spec: spec.setdefault("driver", {}).update(moduleParameters=queues))


def _pace(draw: random.Random, folder: Path) -> bool:
    pace = draw.choice(({"maxUnavailable": 3}, {"minReadySeconds": 7}, {"maxParallel": 4}))
    return files.policy(draw, folder, lambda spec: spec.setdefault("driver", {}).setdefault("rollout", {}).update(pace))


def _share(draw: random.Random, folder: Path) -> bool:
    sharing = {"hpre": draw.choice((2, 4))}
    return files.policy(draw, folder, lambda spec: spec.setdefault("devicePlugin", {}).update(sharing=sharing))


def _rename_policy(draw: random.Random, folder: Path) -> bool:
    path = files.one(draw, files.policies(folder))
    if path and path.read_text().startswith(("apiVersion", "#")):
        name = f"renamed-{draw.randrange(100)}"
        lines = path.read_text().splitlines(keepends=True)
        index = next(number for number, line in enumerate(lines) if line.startswith("metadata:"))
        at = next(number for number in range(index, len(lines)) if "name:" in lines[number])
        lines[at] = lines[at].partition("name:")[0] + f"name: {name}" + ("}\n" if "{" in lines[at] else "\n")
        path.write_text("".join(lines))
    return path is not None


SORTS: Mapping[str, edits.Edit] = {
    **edits.MISTAKES,
    **edits.HARMLESS,
    "change module parameters": _module_parameters,
    "change the pace": _pace,
    "share devices": _share,
    "rename a policy": _rename_policy,
}


SORTS_OF_RECIPES: Mapping[str, edits.Edit] = {
    name: edit
    for name, edit in {
        **edits.MISTAKES_OF_RECIPES,
        **edits.HARMLESS_OF_RECIPES,
        "rename a policy": _rename_policy,
    }.items()
    # What another match takes is not known before NFD has labelled the nodes anew, and `kae diff` says so.
    if name not in ("drop a part of a recipe", "match other devices", "rename a recipe")
}
"""The same, for a fleet of DevicePolicies of a recipe with vendors' programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two commits of the folder `repository`, and the clusters of their outputs."""

    sorts: Sequence[str]
    before: Mapping[str, judge.Cluster]
    after: Mapping[str, judge.Cluster]


def pair(seed: int, folder: Path) -> Pair | None:
    """Make two commits in an empty folder; none where no edit compiles.

    Every second fleet has DevicePolicies of a recipe.
    """
    draw = random.Random(seed)  # noqa: S311 - trials are drawn again from their seed
    work, repository, of_recipes = folder / "work", folder / "repository", seed % 2 == 1
    every = SORTS_OF_RECIPES if of_recipes else SORTS
    work.mkdir()
    steps.prepared(draw, work, of_recipes=of_recipes)
    shutil.rmtree(work / "output")
    is_canonical = draw.random() < 0.7
    committed(work, repository, folder / "before", is_canonical=is_canonical)
    before = _clusters(work, folder / "before")
    for _ in range(_TRIES):
        kept = steps.documents(work)
        sorts = draw.sample(sorted(every), draw.randrange(1, _EDITS + 1))
        made = [every[sort](draw, work) for sort in sorts]
        if any(made) and committed(work, repository, folder / "after", is_canonical=is_canonical):
            return Pair(sorts=sorts, before=before, after=_clusters(work, folder / "after"))
        steps.reverted(work, kept)
    return None


def trial(seed: int, folder: Path) -> campaign.Result:
    """Make two commits in an empty folder, and compare what `kae diff` claims with their outputs."""
    made = pair(seed, folder)
    if made is None:
        return campaign.Result(seed=seed, faults=["no edit compiles"])
    repository, before, after = folder / "repository", made.before, made.after
    answer = in_process.kae(repository, "diff", "HEAD~1", "--to", "HEAD", "-o", "json")
    faults = [answer.err] if answer.code else list(disagreements(json.loads(answer.out), before, after))
    forecast = in_process.kae(repository, "simulate", "HEAD~1", "--to", "HEAD", "-o", "json", "--runs", "1")
    if not answer.code:
        said = [] if forecast.code else json.loads(forecast.out)["clusters"]
        faults += [forecast.err] if forecast.code else list(unsimulated(json.loads(answer.out), said))
    known = ((side.get(name, judge.NOTHING) for side in (before, after)) for name in {**before, **after})
    differs = any(itertools.starmap(judge.pods, known))
    counts = Counter([*made.sorts, *["pairs that change pods"] * differs])
    return campaign.Result(seed=seed, acts=tuple(made.sorts), counts=counts, faults=faults)


def committed(work: Path, repository: Path, output: Path, *, is_canonical: bool) -> bool:
    """Commit the documents, compile them, and return whether they compile; if they do not, nothing is committed."""
    shutil.rmtree(output, ignore_errors=True)
    if not brought(work, repository, is_canonical=is_canonical) or steps.compiled(repository, output=str(output)).code:
        return False
    revisions.commit(repository)
    return True


def brought(work: Path, repository: Path, *, is_canonical: bool) -> bool:
    """Copy the documents, with inventories as `kae inventory` writes them where they are canonical and can be read."""
    for name in ("policies", "recipes", "inventory"):
        shutil.rmtree(repository / name, ignore_errors=True)
        if (work / name).exists():
            shutil.copytree(work / name, repository / name)
    for path in (repository / "inventory").glob("*.json") if is_canonical else ():
        if not path.read_text().strip().startswith("{"):
            return False
        try:
            items = json.loads(path.read_text())["items"]
        except ValueError:
            return False
        path.write_text(canonical_form.text(reduction.of_kubernetes(ClusterName(path.stem), path.name, items)))
    return True


def _clusters(work: Path, output: Path) -> dict[str, judge.Cluster]:
    return {
        path.parent.name: judge.cluster(path.parent, _nodes(work, path.parent.name))
        for path in output.glob("*/index.json")
    }


def _nodes(work: Path, cluster: str) -> list[Any]:
    paths = [path for path in (work / "inventory").glob(f"{cluster}.*") if path.suffix in (".json", ".yaml", ".yml")]
    return [item for path in paths if path.read_text().strip() for item in json.loads(path.read_text())["items"]]


def disagreements(
    answer: Any, before: Mapping[str, judge.Cluster], after: Mapping[str, judge.Cluster]
) -> Iterator[str]:
    """Yield where an answer and two outputs disagree."""
    for name in sorted(before.keys() | after.keys()):
        was = before.get(name, judge.NOTHING)
        now = judge.settled(was, after.get(name, judge.NOTHING))
        claimed = [item for item in answer["pods"] if item["cluster"] == name]
        keyed = {(item["kind"], item["namespace"], item["name"]): item for item in claimed}
        pods = {
            key: tuple(frozenset(item[fate]) for fate in ("created", "replaced", "deleted"))
            for key, item in keyed.items()
            if key[0] == "DaemonSet"
        }
        yield from _compared(f"{name}: pods", pods, judge.pods(was, now))
        fates = {key: item["fate"] for key, item in keyed.items() if key[0] == "Deployment"}
        yield from _compared(f"{name}: deployments", fates, judge.deployments(was, now))
        effects = [effect for effect in answer["effects"] if effect["cluster"] == name]
        yield from _on_nodes(name, effects, was, now)
        yield from _paced(name, effects, was, now)
        told = {
            risk["policy"]
            for risk in answer["risks"]
            if (risk["code"], risk["cluster"]) == ("pace-bypassed", name) and "of program" not in risk["message"]
        }
        yield from _compared(f"{name}: pace-bypassed", told, _unpaced(effects, was, now))


def _paced(name: str, effects: list[Any], was: judge.Cluster, now: judge.Cluster) -> Iterator[str]:
    """Yield where a change says of nodes that their DaemonSet replaces their pods, and it is another one."""
    for effect in (each for each in effects if each["drain"]):
        sets = [_driver_sets(side, effect) for side in (was, now)]
        same = {node: sets[0].get(node) == sets[1].get(node) for node in effect["nodes"]}
        yield from _compared(f"{name}: rolls", dict.fromkeys(same, effect["drain"]["rolls"]), same)


def _driver_sets(side: judge.Cluster, effect: Any) -> Mapping[str, judge.Workload]:
    return {node: item["name"] for node, item in judge.programs(side, f"{effect.get('recipe', 'kae')}-driver").items()}


def _unpaced(effects: list[Any], was: judge.Cluster, now: judge.Cluster) -> set[str]:
    """Return the policies that bring more nodes to a DaemonSet with another driver than its maxUnavailable."""
    coming: dict[tuple[str, judge.Workload], int] = {}
    for effect in (each for each in effects if each["drain"] and each["before"] and each["after"]):
        earlier, later = (_driver_sets(side, effect) for side in (was, now))
        for node in effect["nodes"]:
            if node in earlier and node in later and earlier[node] != later[node]:
                key = effect["after"]["policy"], later[node]
                coming[key] = coming.get(key, 0) + 1
    found = set()
    for (policy, workload), number in coming.items():
        most = str(now.workloads[workload]["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"])
        size = len(now.nodes[workload])
        share = math.ceil(int(most.removesuffix("%")) * size / 100) if most.endswith("%") else int(most)
        found |= {policy} if number > max(1, share) else set()
    return found


_CHANGING = ("installs", "swaps", "may-swap", "reloads", "functions", "removes")


def unsimulated(answer: Any, simulated: Any) -> Iterator[str]:
    """Yield where `kae simulate` has other hosts and pods than `kae diff`: each pod that comes is of one of them."""
    known = {cluster["name"]: (cluster["hosts"], cluster["pods"]) for cluster in simulated}
    for name in (cluster["name"] for cluster in answer["clusters"]):
        effects = [effect for effect in answer["effects"] if effect["cluster"] == name and effect["driverPod"]]
        changing = [effect for effect in effects if effect["driver"] in _CHANGING]
        hosts = sum(len(effect["nodes"]) for effect in changing)
        # An installer that cleans up does so as it goes.
        going = sum(len(effect["nodes"]) for effect in changing if effect["driverPod"] == "deleted")
        sets = (item for item in answer["pods"] if item["cluster"] == name and item["kind"] == "DaemonSet")
        coming = sum(len(item["created"]) + len(item["replaced"]) for item in sets)
        yield from _compared(f"{name}: hosts and pods", known.get(name, (0, 0)), (hosts, coming - (hosts - going)))


def _on_nodes(name: str, effects: list[Any], was: judge.Cluster, now: judge.Cluster) -> Iterator[str]:
    every = effects
    recipes = {effect["recipe"] for effect in effects if "recipe" in effect}
    if recipes:
        # Of nodes that come and go it tells as of KAE's too, of which this fleet has no policy.
        others = [effect for effect in effects if "recipe" not in effect]
        effects = [effect for effect in effects if "recipe" in effect]
        if len(recipes) > 1 or any(effect[side] and effect[side]["policy"] for effect in others for side in _SIDES):
            yield f"{name}: a fleet of one recipe has effects of others"
    by_node = {node: effect for effect in effects for node in effect["nodes"]}
    if len(by_node) != sum(len(effect["nodes"]) for effect in effects):
        yield f"{name}: a node has two effects"
    for program in _programs(was, now):
        part = program.partition("-")[2]
        field, pod = _FIELDS.get(part, ("programs", "programPods"))
        fates = {node: _of(effect, pod, part) for node, effect in by_node.items()}
        real_fates = judge.fates(was, now, program)
        yield from _compared(f"{name}: {pod} {part}", {node: fate for node, fate in fates.items() if fate}, real_fates)
        for side, known in zip(_SIDES, (was, now), strict=True):
            real = judge.programs(known, program)
            images = {node: _of(effect[side], field, part) for node, effect in by_node.items() if effect[side]}
            yield from _compared(
                f"{name}: {field} {side}",
                {node: image for node, image in images.items() if image},
                {node: item["image"] for node, item in real.items() if node in by_node},
            )
            owners = {node: effect[side]["policy"] for node, effect in by_node.items() if effect[side]}
            policies = {node: item["policy"] for node, item in real.items() if node in owners}
            yield from _compared(f"{name}: policy {side}", {node: owners[node] for node in policies}, policies)
            if part == "driver":
                pools = {node: effect[side]["pool"] for node, effect in by_node.items() if effect[side]}
                placed = {node: item["config"]["pool"] for node, item in real.items() if node in pools}
                # A program has pools too, where no driver is.
                claimed = {
                    n: p for n, p in pools.items() if p and (n in placed or not by_node[n][side].get("programs"))
                }
                yield from _compared(f"{name}: pool {side}", claimed, placed)
    for side, word, moved in (("before", "joins", now.known - was.known), ("after", "leaves", was.known - now.known)):
        named = {node for effect in every if not effect[side] for node in effect["nodes"]}
        yield from _compared(f"{name}: {word}", named, set(moved))


_SIDES = ("before", "after")
_FIELDS = {"driver": ("driver", "driverPod"), "device-plugin": ("devicePlugin", "devicePluginPod")}


def _programs(was: judge.Cluster, now: judge.Cluster) -> list[str]:
    """Return the names of all programs of nodes, ours of each recipe and those of vendors."""
    found = {
        item["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/name"]
        for side in (was, now)
        for (kind, _, _), item in side.workloads.items()
        if kind == "DaemonSet"
        if "device.openfuyao.com/policy" in item["spec"]["template"]["metadata"]["labels"]
    }
    return sorted(found)


def _of(claims: Any, field: str, part: str) -> Any:
    """Return what an effect or a placement claims of a program."""
    return claims.get(field, {}).get(part) if field in ("programs", "programPods") else claims[field]


def _compared(what: str, claimed: Any, real: Any) -> Iterator[str]:
    if claimed != real:
        yield f"{what}: claimed {_sorted(claimed)}, but it is {_sorted(real)}"


def _sorted(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_sorted(item)}" for key, item in sorted(value.items())) + "}"
    if isinstance(value, set | frozenset):
        return str(sorted(value))
    return f"({', '.join(map(_sorted, value))})" if isinstance(value, tuple) else str(value)
