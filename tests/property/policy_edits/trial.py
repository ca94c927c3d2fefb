"""A trial: a random fleet in files of any style, a policy of it, and each command that edits it.

The judge shares no code with the commands: it reads the files by PyYAML, knows comments by their numbers, and compares
DaemonSets of compiles into empty folders.
"""

import copy
import dataclasses
import difflib
import json
import random
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from compiler import diagnostics
from tests import in_process, project, revisions
from tests.property import campaign
from tests.property.fleets import fleet as fleets
from tests.property.fleets import trial as fleet_trial
from tests.property.policy_edits import written

Raw = dict[str, Any]

_NODES = 15
_POLICIES = 4
_CHOOSING = ("name", "nodes", "inventorySelector", "percent", "clusters")
_REFUSALS = (
    *("hides '", "has nothing of its own", "is empty.", "the nodes differ: ", "is in frozen group '"),
    *(
        "holds a comment",
        "brings nothing that a part",
        "has `state: Present`",
        "are frozen already",
        "has no node of policy",
        "have not what the last",
        "cannot be changed without other",
    ),
)
"""Why a command may decline."""
_COMMENT = re.compile(r"# (c[0-9]+):")


@dataclasses.dataclass(frozen=True, slots=True)
class Scene:
    """A project in a repository, and the policy that is edited."""

    draw: random.Random
    repository: Path
    folder: Path
    file: Path
    name: str
    nodes: tuple[Raw, ...]

    @property
    def text(self) -> str:
        return self.file.read_bytes().decode() if self.file.exists() else ""

    def documents(self) -> list[Raw]:
        return _read(self.text, is_json=self.file.suffix == ".json")

    def policy(self) -> Raw:
        return next(each for each in self.documents() if each["metadata"]["name"] == self.name)

    def rollout(self) -> Raw:
        found: Raw = _above(self.policy()).get("rollout", {})
        return found

    def compiled(self) -> dict[tuple[str, str], Raw] | str:
        """Return the DaemonSets of a policy by program and pool, or what is wrong."""
        output = self.folder / "fresh"
        shutil.rmtree(output, ignore_errors=True)
        answer = in_process.kae(self.repository, "compile", "--no-cache", "--output-dir", str(output))
        if answer.code:
            return answer.err
        read = [yaml.load(path.read_text(), yaml.CSafeLoader) for path in output.glob("*/*/daemonset-*.yaml")]
        found = {}
        for item in read:
            labels = item["spec"]["selector"]["matchLabels"]
            if labels.get("device.openfuyao.com/policy") == self.name:
                key = labels["app.kubernetes.io/name"], labels.get("device.openfuyao.com/pool", "")
                found[key] = item
        return found

    def planned(self) -> dict[str, Raw]:
        """Return the nodes of the policy as `kae plan` has them."""
        data = json.loads(in_process.kae(self.repository, "plan", "-o", "json").out)
        return {each["name"]: each for each in _within(data["clusters"]) if each.get("policy") == self.name}


def _within(data: Any) -> Iterator[Raw]:
    """Yield the nodes in an answer."""
    if isinstance(data, list):
        for each in data:
            yield from _within(each)
    elif isinstance(data, dict):
        if "reasons" in data:
            yield data
        for each in data.values():
            yield from _within(each)


def _above(policy: Raw) -> Raw:
    """Return what has `rollout` in a policy."""
    spec: Raw = policy["spec"]
    return spec if "recipe" in spec else spec.setdefault("driver", {})


def trial(seed: int, folder: Path) -> campaign.Result:
    """Edit policies of a random fleet in an empty folder by each command."""
    draw = random.Random(f"edits {seed}")  # noqa: S311 - trials are drawn again from their seed
    result = campaign.Result(seed=seed)
    whole = fleets.with_recipes(seed)
    fleet = _sound(dataclasses.replace(whole, nodes=whole.nodes[:_NODES]))
    if not fleet.policies:
        result.counts["without policies"] += 1
        return result
    repository = folder / "repository"
    files = _written(draw, fleet)
    project.write(repository, files)
    revisions.commit(repository)
    if (said := in_process.kae(repository, "compile", "--no-cache", "--output-dir", str(folder / "first"))).code:
        result.faults.append(f"the fleet does not compile: {said.err}")
        return result
    names = [policy["metadata"]["name"] for policy in fleet.policies]
    known = [name for name in names if names.count(name) == 1]
    for name in draw.sample(known, min(1, len(known))):
        file = next(path for path in files if path.startswith("policies/") and _holds(path, files[path], name))
        scene = Scene(draw, repository, folder, repository / file, name, fleet.nodes)
        for act, command in ACTS.items():
            before = scene.text
            for outcome in command(scene):
                kind = "ok" if outcome in ("ok", "refused", "nothing") else "fault"
                result.counts[f"{act}: {outcome if kind == 'ok' else 'fault'}"] += 1
                if kind == "fault":
                    result.faults.append(f"{act} {name}: {outcome}")
            scene.file.write_bytes(before.encode())
            revisions.git(repository, "reset", "--hard", "--quiet", "HEAD")
    return result


def _holds(path: str, text: str, name: str) -> bool:
    return any(each["metadata"]["name"] == name for each in _read(text, is_json=path.endswith(".json")))


def _read(text: str, *, is_json: bool) -> list[Raw]:
    """Return the documents of a text; PyYAML alone refuses tabs."""
    if is_json:
        return [json.loads(text)] if text else []
    return [each for each in yaml.safe_load_all(text) if each]


def _sound(fleet: fleets.Fleet) -> fleets.Fleet:
    """Return a fleet without policies that must be refused, and with few others, those with waves before all."""
    while True:
        _, errors = fleet_trial.viewed(fleet)
        if not errors:
            break
        overlapping = {pair[1] for pair in fleet_trial.overlaps(fleet)}
        defaults = {each["metadata"]["name"] for each in fleet.policies if each["spec"].get("default")}
        fleet = fleet_trial.without(fleet, overlapping or defaults)
    ranked = sorted(fleet.policies, key=lambda each: -len(str(_above(copy.deepcopy(each)).get("rollout", ""))))
    kept = {each["metadata"]["name"] for each in (*ranked[: _POLICIES // 2], *fleet.policies[: _POLICIES // 2])}
    others = {each["metadata"]["name"] for each in fleet.policies} - kept
    return fleet_trial.without(fleet, others) if others else fleet


def _written(draw: random.Random, fleet: fleets.Fleet) -> dict[str, str]:
    """Return the files of a fleet."""
    files = {
        f"inventory/{fleet.cluster['metadata']['name']}.json": json.dumps(
            {"apiVersion": "v1", "kind": "List", "items": fleet.nodes}
        ),
        **{f"recipes/{each['metadata']['name']}/recipe.yaml": yaml.safe_dump(each) for each in fleet.recipes},
    }
    left = [_tidied(draw, each) for each in (fleet.cluster, *fleet.policies)]
    while left:
        size = draw.choice((1, 1, 2, 3))
        some, left = left[:size], left[size:]
        name = f"policies/{len(files)}"
        if len(some) == 1 and draw.random() < 0.15:
            files[f"{name}.json"] = json.dumps(some[0], indent=draw.choice((None, 1, 2, "\t")))
        else:
            files[f"{name}.yaml"] = written.Hand(draw).text(some)
    return files


def _tidied(draw: random.Random, document: Raw) -> Raw:
    """Return a document without most of its empty lists and mappings, which people seldom write."""
    document = copy.deepcopy(document)
    if document["kind"] == "KAECluster" or draw.random() < 0.1:
        return document
    above = _above(document)
    for field in ("waves", "frozen"):
        if not above.get("rollout", {}).get(field, True):
            del above["rollout"][field]
    if not above.get("rollout", True):
        del above["rollout"]
    if not document["spec"].get("driver", True):
        del document["spec"]["driver"]
    return document


def _run(scene: Scene, *words: str) -> tuple[str, in_process.Answer]:
    """Run a command; return 'ok' where it wrote and what it said holds, 'refused' where it may, or what is wrong."""
    before = scene.text
    is_checked = scene.draw.random() < 0.3
    check = in_process.kae(scene.repository, *words, "--check") if is_checked else None
    if scene.text != before:
        return "--check has written", check or in_process.Answer(0, "", "")
    answer = in_process.kae(scene.repository, *words)
    if check is not None and (check.out, check.err) != (answer.out, answer.err):
        return f"--check says something else: {check} {answer}", answer
    if answer.code:
        expected = answer.code == 1 and any(reason in answer.err for reason in _REFUSALS)
        if scene.text != before:
            return f"refused, but it wrote: {answer.err}", answer
        return "refused" if expected else f"refused: {answer.err}{answer.out}", answer
    if "has already\n" in answer.out:
        return ("ok" if scene.text == before else "it writes what is there"), answer
    differs = in_process.kae(scene.repository, "diff")
    # The edit also says what a compile will say of it.
    if differs.out not in answer.out or any(line not in answer.err for line in differs.err.splitlines()[:-1]):
        return f"diff says something else: {differs.out} {answer.out}", answer
    return "ok", answer


def _unlike(scene: Scene, before: str, deleted: int) -> Iterator[str]:
    """Yield what an edit has lost of a text, of which it may replace so many lines."""
    after = scene.text
    if _COMMENT.findall(before) != _COMMENT.findall(after):
        yield f"comments differ: {_COMMENT.findall(before)} {_COMMENT.findall(after)}"
    if "\r\n" in before and re.search(r"(?<!\r)\n", after):
        yield "line ends differ"
    if before.endswith("\n") != after.endswith("\n"):
        yield "the last line ends otherwise"
    old, new = before.splitlines(), after.splitlines()
    gone = sum(
        high - low
        for tag, low, high, _, _ in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if tag in ("delete", "replace")
    )
    if gone > deleted:
        yield f"{gone} lines are other ones, at most {deleted} may be"


def _promote(scene: Scene) -> Iterator[str]:
    for wave in scene.rollout().get("waves", []):
        text, old, documents = scene.text, scene.compiled(), scene.documents()
        assert isinstance(old, dict)
        outcome, answer = _run(scene, "promote", f"{scene.name}/{wave['name']}")
        if outcome == "ok" and " has already" not in answer.out:
            outcome = "; ".join(_promoted(scene, wave, text, old, documents)) or "ok"
        yield outcome
        scene.file.write_bytes(text.encode())


def _promoted(
    scene: Scene, wave: Raw, text: str, old: dict[tuple[str, str], Raw], documents: list[Raw]
) -> Iterator[str]:
    own = {key: value for key, value in wave.items() if key not in _CHOOSING}
    for each in documents:
        if each["metadata"]["name"] == scene.name:
            _overlay(_above(each), own, ("images", "driver", "values") if "recipe" in each["spec"] else ())
    if documents != scene.documents():
        yield f"the data are others: {scene.documents()}"
    leaves = sum(len(value) if isinstance(value, dict) else 1 for value in own.values())
    yield from _unlike(scene, text, 3 * leaves)
    new = scene.compiled()
    if isinstance(new, str):
        yield new
        return
    for key, item in old.items():
        app, pool = key
        group, _, rest = pool.partition("--")
        if group != wave["name"]:
            continue
        if new.get(key) != item:
            yield f"{key} of the wave changes"
        counterpart = new.get((app, f"rest--{rest}" if rest else "rest"))
        if counterpart is None or _normal(counterpart) != _normal(item):
            yield f"{key}: the rest has not what the wave has"


def _overlay(onto: Raw, own: Raw, deep: tuple[str, ...]) -> None:
    for key, value in own.items():
        if key not in deep:
            onto[key] = value
        elif value:
            _overlay(onto.setdefault(key, {}), value, tuple(value) if key == "images" else ())


def _normal(item: Raw) -> str:
    """Return a DaemonSet without the name of its pool."""
    pool = item["spec"]["selector"]["matchLabels"]["device.openfuyao.com/pool"]
    text = json.dumps(item, sort_keys=True)
    return re.sub(rf'(?<=--){re.escape(pool)}(?=\\?")|(?<="){re.escape(pool)}(?=\\?")', "POOL", text)


def _meaning(item: Raw) -> tuple[Raw, list[str]]:
    """Return what a DaemonSet brings: its config, but for its own name, and its images."""
    template = item["spec"]["template"]
    config = json.loads(template["metadata"]["annotations"].get("device.openfuyao.com/config", "{}"))
    pod = template["spec"]
    images = [each["image"] for each in (*pod.get("initContainers", ()), *pod["containers"])]
    return {key: value for key, value in config.items() if key not in ("daemonSet", "pool")}, images


def _freeze(scene: Scene) -> Iterator[str]:
    planned = scene.planned()
    if not planned:
        yield "nothing"
        return
    nodes = scene.draw.sample(sorted(planned), min(len(planned), scene.draw.choice((1, 1, 2))))
    text, old, documents = scene.text, scene.compiled(), scene.documents()
    assert isinstance(old, dict)
    outcome, _ = _run(scene, "freeze", scene.name, "batch", *(word for node in nodes for word in ("--node", node)))
    if outcome == "ok":
        faults = [*_added(scene, nodes, documents), *_unlike(scene, text, 1), *_moved(scene, nodes, old, planned)]
        outcome, _ = _run(scene, "thaw", scene.name, "batch")
        faults += [] if outcome == "ok" else [f"thaw: {outcome}"]
        faults += [] if scene.text == text else ["freeze and thaw are not the identity"]
        outcome = "; ".join(faults) or "ok"
    yield outcome


def _added(scene: Scene, nodes: list[str], documents: list[Raw]) -> Iterator[str]:
    """Yield what is wrong with the data of the documents but for one frozen group more."""
    after, frozen = scene.documents(), scene.rollout()["frozen"][-1]
    if frozen["name"] != "batch" or frozen["nodes"] != nodes:
        yield f"it freezes {frozen}"
    for each in after:
        if each["metadata"]["name"] == scene.name:
            _pruned(each, _above(each)["rollout"]["frozen"])
    if after != documents:
        yield f"the data are others: {after}"


def _moved(
    scene: Scene, nodes: list[str], old: Mapping[tuple[str, str], Raw], planned: Mapping[str, Raw]
) -> Iterator[str]:
    """Yield which nodes do not keep what they had."""
    new, now = scene.compiled(), scene.planned()
    if isinstance(new, str):
        yield new
        return
    for node in nodes:
        was, pool = planned[node]["pool"], now[node]["pool"]
        apps = [app for app, name in old if name == was and pool]
        yield from (f"{node} gets another {app}" for app in apps if _meaning(old[app, was]) != _meaning(new[app, pool]))
        if {**planned[node], "pool": "", "reasons": ""} != {**now[node], "pool": "", "reasons": ""}:
            yield f"{node} changes: {planned[node]} {now[node]}"


def _pruned(document: Raw, frozen: list[Raw]) -> None:
    """Take the last frozen group away, and what is empty then."""
    del frozen[-1]
    above = _above(document)
    if not frozen:
        del above["rollout"]["frozen"]
    if not above["rollout"]:
        del above["rollout"]
    if not document["spec"].get("driver", {"enabled": True}) and "recipe" not in document["spec"]:
        del document["spec"]["driver"]


def _thaw(scene: Scene) -> Iterator[str]:
    for number, group in reversed([*enumerate(scene.rollout().get("frozen", []))]):
        text, documents = scene.text, scene.documents()
        outcome, _ = _run(scene, "thaw", scene.name, group["name"])
        if outcome == "ok":
            for each in documents:
                if each["metadata"]["name"] == scene.name:
                    frozen = _above(each)["rollout"]["frozen"]
                    frozen.append(frozen.pop(number))
                    _pruned(each, frozen)
            faults = [] if documents == scene.documents() else [f"the data are others: {scene.documents()}"]
            faults += _unlike(scene, text, len(json.dumps(group, indent=1).splitlines()) + 12)
            faults += [new] if isinstance(new := scene.compiled(), str) else []
            outcome = "; ".join(faults) or "ok"
        yield outcome
        scene.file.write_bytes(text.encode())


def _compile(scene: Scene) -> None:
    """Write the output, whatever that takes away."""
    every = (word for code in sorted(diagnostics.ACCEPTABLE) for word in ("--accept", code))
    made = in_process.kae(scene.repository, "compile", *every)
    assert made.code == 0, made.err


def _retire(scene: Scene) -> Iterator[str]:
    # Of a policy that is Absent already the first call is the second step.
    _compile(scene)
    revisions.commit(scene.repository)
    text, documents = scene.text, scene.documents()
    outcome, answer = _run(scene, "retire", scene.name)
    if outcome == "ok" and " deleted; " not in answer.out:
        policy = next(each for each in documents if each["metadata"]["name"] == scene.name)
        policy["spec"].setdefault("driver", {})["state"] = "Absent"
        faults = [] if documents == scene.documents() else [f"the data are others: {scene.documents()}"]
        faults += _unlike(scene, text, 1)
        faults += [new] if isinstance(new := scene.compiled(), str) else []
        outcome = "; ".join(faults) or "ok"
        yield outcome
        again = in_process.kae(scene.repository, "retire", scene.name)
        if again.code != 1 or "is in no commit yet" not in again.err:
            yield f"it goes on before a commit: {again}"
        head = revisions.git(scene.repository, "rev-parse", "HEAD").strip()
        _compile(scene)
        revisions.commit(scene.repository)
        yield from _deleted(scene, documents)
        revisions.git(scene.repository, "reset", "--hard", "--quiet", head)
        return
    yield outcome


def _deleted(scene: Scene, documents: list[Raw]) -> Iterator[str]:
    """Yield how the second step goes, with a label of the driver and without."""
    planned, text = scene.planned(), scene.text
    if planned:
        node, recipe = sorted(planned)[0], scene.policy()["spec"].get("recipe", "kae")
        (inventory,) = scene.repository.glob("inventory/*.json")
        kept = inventory.read_text()
        data = json.loads(kept)
        for item in data["items"]:
            if item["metadata"]["name"] == node:
                item["metadata"]["labels"][f"openfuyao.com/{recipe}.driver-version"] = "2.2.0"
        inventory.write_text(json.dumps(data))
        refused = in_process.kae(scene.repository, "retire", scene.name)
        if refused.code != 1 or f"/{node} (2.2.0" not in refused.err or scene.text != text:
            yield f"it is deleted in spite of a label: {refused}"
        inventory.write_text(kept)
    outcome, _ = _run(scene, "retire", scene.name)
    left = [each for each in documents if each["metadata"]["name"] != scene.name]
    if outcome == "ok" and (scene.documents() != left or scene.file.exists() != bool(left)):
        outcome = f"the documents are others: {scene.text}"
    lost = {comment for comment in _COMMENT.findall(text) if comment not in _COMMENT.findall(scene.text)}
    own = [] if scene.file.suffix == ".json" else _COMMENT.findall(_around(text, scene.name))
    if outcome == "ok" and not lost <= {*own}:
        outcome = f"comments of others are gone: {lost - {*own}}"
    yield outcome


def _around(text: str, name: str) -> str:
    """Return the part of a file with a policy, between two marks."""
    parts = re.split(r"(?m)^---\r?$", text)
    return next((part for part in parts if f"{name}" in part and _holds("", part, name)), text)


ACTS: Mapping[str, Callable[[Scene], Iterator[str]]] = {
    "promote": _promote,
    "freeze": _freeze,
    "thaw": _thaw,
    "retire": _retire,
}
