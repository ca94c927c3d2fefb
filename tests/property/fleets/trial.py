"""One fleet compiled, and its plan and manifests compared with what independent judges make of the same fleet."""

import dataclasses
import functools
import itertools
import json
import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from compiler import diagnostics, pipeline
from compiler.inventory import reduction
from compiler.planning import plan
from tests import builders
from tests.property import campaign, matcher, nfd_rules, selection
from tests.property import daemonset_controller as controller
from tests.property.fleets import fleet as fleets
from tests.property.fleets import machines, stacks

Object = Mapping[str, Any]

BATCH = 25
"""Fleets that are tried before what was rendered is forgotten."""

_OVERLAP = re.compile(r"Policies '(.+)' and '(.+)' can both match one node\.")
_NO_DEFAULT = ("default-too-complex", "selector-never-matches")
"""Why a default policy is refused on account of all others; no other policy here matches nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """The plan and the objects of a compiled fleet."""

    view: plan.RecipePlan
    rules: tuple[Object, ...]
    drivers: tuple[Object, ...]
    plugins: tuple[Object, ...]


def of_kae(seed: int) -> campaign.Result:
    """Try the fleet of a seed."""
    return _tried(seed, fleets.drawn(seed))


def of_recipes(seed: int) -> campaign.Result:
    """Try the fleet of a seed with policies of several recipes."""
    return _tried(seed, fleets.with_recipes(seed))


def _tried(seed: int, fleet: fleets.Fleet) -> campaign.Result:
    """Compile a fleet and judge it; policies that must be refused are removed first."""
    if seed % BATCH == 0:
        builders.renderer.cache_clear()
    counts: Counter[str] = Counter(fleets=1)
    while True:
        view, errors = viewed(fleet)
        faults = list(unexpected(fleet, errors))
        if faults or not errors:
            break
        codes = Counter(error.code for error in errors)
        counts["overlaps found"] += codes["policy-overlap"]
        counts["defaults refused"] += sum(codes[code] for code in _NO_DEFAULT)
        fleet = without(
            fleet, _defaults(fleet) if codes["policy-overlap"] == 0 else {pair[1] for pair in overlaps(fleet)}
        )
    for recipe in (None, *recipes_of(fleet)) if not faults else ():
        done, answers = compiled(view, recipe), expected(fleet, recipe)
        counts.update(counted(fleet, done, answers))
        faults += disagreements(fleet, done, answers)
    return campaign.Result(seed=seed, counts=counts, faults=faults)


def _defaults(fleet: fleets.Fleet) -> set[str]:
    return {policy["metadata"]["name"] for policy in fleet.policies if policy["spec"].get("default")}


_View = tuple[plan.Plan, list[diagnostics.Diagnostic]]

_recent: deque[tuple[fleets.Fleet, _View]] = deque(maxlen=4)
"""The last fleets that were viewed: a trial views each again for every comparison."""


def viewed(fleet: fleets.Fleet) -> _View:
    """Return the plan of a fleet, and the errors."""
    for known, view in _recent:
        if known is fleet:
            return view
    _recent.append((fleet, _viewed(fleet)))
    return _recent[-1][1]


def _viewed(fleet: fleets.Fleet) -> _View:
    read = [
        builders.document(data, f"policies/{number}.yaml")
        for number, data in enumerate((fleet.cluster, *fleet.policies))
    ]
    read += [builders.document(data, f"recipes/{data['metadata']['name']}/recipe.yaml") for data in fleet.recipes]
    found, findings = pipeline.read(read, builders.judge())
    (cluster,) = found.clusters
    nodes = reduction.of_kubernetes(cluster.name, f"inventory/{cluster.name}.json", fleet.nodes)
    view, more = pipeline.plan_cluster(structs.replace(found, inventories={cluster.name: nodes}), cluster)
    return view, [finding for finding in (*findings, *more) if diagnostics.has_errors([finding])]


def without(fleet: fleets.Fleet, names: set[str]) -> fleets.Fleet:
    """Return the fleet without these policies."""
    left = tuple(policy for policy in fleet.policies if policy["metadata"]["name"] not in names)
    return dataclasses.replace(fleet, policies=left)


def compiled(view: plan.Plan, recipe: Object | None = None) -> Compiled:
    """Return the objects of a view that decide what runs where, and the plan and the DaemonSets of a recipe."""
    name = recipe["metadata"]["name"] if recipe else "kae"
    found: dict[str, list[Object]] = {"node-feature-rule": [], "driver": [], "device-plugin": []}
    for manifest in pipeline.manifests_of(view).manifests:
        if manifest.component in found:
            found[manifest.component].append(builders.renderer()(manifest))
    daemonsets = {
        component: tuple(item for item in items if item["kind"] == "DaemonSet" and _app(item) == f"{name}-{component}")
        for component, items in found.items()
    }
    return Compiled(
        view=next(one for one in view.recipes if one.recipe.name == name),
        rules=tuple(found["node-feature-rule"]),
        drivers=daemonsets["driver"],
        plugins=daemonsets["device-plugin"],
    )


def _app(item: Object) -> str:
    found: str = item["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"]
    return found


def overlaps(fleet: fleets.Fleet) -> set[tuple[str, str]]:
    """Return the pairs of policies that one node could match: of one recipe, or of two that may load one module."""
    found = {
        (recipe and recipe["metadata"]["name"], name): spec
        for recipe in (None, *recipes_of(fleet))
        for name, spec in matcher.specs(fleet.cluster, fleet.policies, recipe).items()
    }
    sfc = {policy["metadata"]["name"] for policy in fleet.policies if _loads(policy, "sfc")}
    chosen = sorted((name, recipe or "", spec) for (recipe, name), spec in found.items() if not spec.get("default"))
    return {
        (one, other)
        for (one, first, left), (other, second, right) in itertools.combinations(chosen, 2)
        if (first == second or {one, other} <= sfc)
        and selection.witness(left.get("nodeSelector"), right.get("nodeSelector"))
    }


def recipes_of(fleet: fleets.Fleet) -> list[Object]:
    """Return the recipes that the cluster has policies of."""
    return [recipe for recipe in fleet.recipes if matcher.specs(fleet.cluster, fleet.policies, recipe)]


def _loads(policy: Object, module: str) -> bool:
    driver: Object = policy["spec"].get("driver", {})
    return driver.get("enabled", True) and module in driver.get("modules", ())


def unexpected(fleet: fleets.Fleet, errors: list[diagnostics.Diagnostic]) -> Iterator[str]:
    """Yield overlaps that are not reported, and errors that are not expected."""
    shapes = [(error, _OVERLAP.fullmatch(error.message)) for error in errors]
    reported = {shape.groups() for _, shape in shapes if shape}
    for pair in overlaps(fleet) ^ reported:
        yield f"policies {pair} overlap for one of compiler and judge alone"
    for error, shape in shapes:
        if not shape and error.code not in _NO_DEFAULT:
            yield f"refused, {error.code}: {error.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The judge's answers, in the fleet's order."""

    nodes: tuple[matcher.Answer, ...]
    later: tuple[matcher.Answer, ...]
    torn: tuple[str, ...]
    """Whatever two policies match."""


def expected(fleet: fleets.Fleet, recipe: Object | None = None) -> Expected:
    """Return the independent judge's answer for each node, about a recipe or about KAE."""
    judge = matcher.Matcher(fleet.cluster, fleet.policies, fleet.nodes, recipe)
    later = [machine.node(labels(fleet, machine)) for machine in fleet.later]
    return Expected(
        nodes=tuple(map(judge.answer, fleet.nodes)),
        later=tuple(map(judge.answer, later)),
        torn=tuple(node["metadata"]["name"] for node in (*fleet.nodes, *later) if len(judge.policies(node)) > 1),
    )


def labels(fleet: fleets.Fleet, machine: machines.Machine) -> dict[str, str]:
    """Return the labels of a machine's hardware: of KAE's devices, and of the recipes that have policies."""
    names = [recipe["metadata"]["name"] for recipe in recipes_of(fleet)]
    found = stacks.labels(machine)
    own = {key: found[key] for key in found if any(key.startswith(f"openfuyao.com/{name}.") for name in names)}
    return {**machine.device_labels, **own}


def disagreements(fleet: fleets.Fleet, done: Compiled, answers: Expected) -> Iterator[str]:
    """Yield where plan, rules and DaemonSets disagree with the judges."""
    yield from (f"{name}: two policies match it" for name in answers.torn)
    yield from _plan(fleet, done, answers)
    yield from _groups(done)
    for machine, answer in zip(fleet.hosts + fleet.later, answers.nodes + answers.later, strict=True):
        yield from _placement(done, machine, answer, labels(fleet, machine))


def _plan(fleet: fleets.Fleet, done: Compiled, answers: Expected) -> Iterator[str]:
    """Yield nodes whose decision is not the judge's, or that do not have exactly one."""
    names = [node["metadata"]["name"] for node in fleet.nodes]
    judged = Counter(name for decision in done.view.decisions for name in decision.names)
    if judged != Counter(names):
        yield f"lost or judged twice: {sorted((judged - Counter(names)) + (Counter(names) - judged))}"
        return
    decisions = {name: decision for decision in done.view.decisions for name in decision.names}
    for name, answer in zip(names, answers.nodes, strict=True):
        decision = decisions[name]
        said = matcher.Answer(
            policy=decision.policy.name if decision.policy else None,
            pool=decision.pool.name if decision.pool else None,
            driver=decision.driver.image,
            device_plugin=decision.device_plugin.image,
            state=decision.pool.driver.state if decision.pool else None,
            source=decision.pool.driver.source.name if decision.pool else None,
            installer=decision.pool.images[0][1] if decision.pool else None,
            payloads=tuple(image for _, image in decision.pool.images[1:]) if decision.pool else (),
        )
        if said != answer:
            yield f"{name}: the plan says {said}, the judge {answer}"


def _groups(done: Compiled) -> Iterator[str]:
    """Yield groups of a policy that share a node, and objects that share a name."""
    for division in done.view.divisions:
        listed = Counter(name for group in division.groups for name in group.nodes)
        yield from (f"{division.policy.name}: two groups list {name}" for name, count in listed.items() if count > 1)
    names = Counter(item["metadata"]["name"] for item in (*done.drivers, *done.plugins, *done.rules))
    yield from (f"two objects are called {name}" for name, count in names.items() if count > 1)


def _placement(
    done: Compiled, machine: machines.Machine, answer: matcher.Answer, hardware: Mapping[str, str]
) -> Iterator[str]:
    """Yield machines whose NFD labels bring other DaemonSets than the judge says."""
    given = nfd_rules.labels(done.rules, machine.features)
    about = {key: value for key, value in given.items() if ".pool." not in key}
    if about != hardware:
        yield f"{machine.name}: the rules say {about}, its devices {hardware}"
    node = machine.node(given)
    drivers = [installer(item, machine) for item in done.drivers if controller.runs_on(item, node)]
    wanted = (answer.policy, answer.pool, answer.installer, answer.payloads, answer.state, answer.source)
    if drivers != ([wanted] if answer.driver else []):
        yield f"{machine.name}: driver DaemonSets bring {drivers}, the judge says {wanted}"
    plugins = [_image(item) for item in done.plugins if controller.runs_on(item, node)]
    if plugins != ([answer.device_plugin] if answer.device_plugin else []):
        yield f"{machine.name}: device plugins {plugins}, the judge says {answer.device_plugin}"


def installer(daemonset: Object, machine: machines.Machine) -> tuple[object, ...]:
    """Return policy, pool, images, state and source of an installer; no state where another pool has the kernel."""
    config = _config(daemonset["spec"]["template"]["metadata"]["annotations"]["device.openfuyao.com/config"])
    labels = daemonset["spec"]["selector"]["matchLabels"]
    kernel = matcher.clean(machine.kernel)
    own = config.get("kernels", {"pattern": ""})
    misled = any(re.search(pattern, kernel) for pattern in own.get("unless", ()))
    state = config["state"] if re.search(own["pattern"], kernel) and not misled else None
    copies = daemonset["spec"]["template"]["spec"].get("initContainers", ())
    payloads = tuple(one["image"] for one in copies if one["name"].startswith("payload-"))
    found = (labels["device.openfuyao.com/policy"], labels["device.openfuyao.com/pool"], _image(daemonset))
    return (*found, payloads, state, next(iter(config["source"])))


@functools.lru_cache(maxsize=2000)
def _config(text: str) -> Any:
    return json.loads(text)


def _image(daemonset: Object) -> str:
    image: str = daemonset["spec"]["template"]["spec"]["containers"][0]["image"]
    return image


def counted(fleet: fleets.Fleet, done: Compiled, answers: Expected) -> Counter[str]:
    """Return how often each thing occurred."""
    divisions = [division for division in done.view.divisions if division.policy.installed]
    groups = [group for division in divisions for group in division.groups if group.declared is not None]
    listed = {(entry.policy.name, name) for entry in divisions for group in entry.groups for name in group.nodes}
    nodes = answers.nodes
    return Counter(
        {
            "policies": len(done.view.divisions),
            "frozen groups": sum(group.sort == "frozen" for group in groups),
            "waves": sum(group.sort == "wave" for group in groups),
            "mappings": sum(len(division.policy.mappings) for division in divisions),
            "pools": sum(len(division.pools) for division in divisions),
            "pools of one kernel": sum(bool(p.kernels and p.kernels.kernel) for d in divisions for p in d.pools),
            "NodeFeatureRules": len(done.rules),
            "driver DaemonSets": len(done.drivers),
            "nodes": len(nodes),
            "nodes with a policy": sum(answer.policy is not None for answer in nodes),
            "nodes in pools": sum(answer.pool is not None for answer in nodes),
            "nodes in waves and frozen groups": sum(
                answer.pool is not None and (answer.policy, machine.name) in listed
                for machine, answer in zip(fleet.hosts, nodes, strict=True)
            ),
            "nodes whose driver goes": sum(answer.state == "Absent" for answer in nodes),
            "nodes without a pool for their kernel": sum(
                len(decision.nodes) for decision in done.view.decisions if "mapping" in decision.driver.reason
            ),
            "nodes with a device plugin": sum(answer.device_plugin is not None for answer in nodes),
            "machines after the compile": len(answers.later),
            "of these in pools": sum(answer.pool is not None for answer in answers.later),
        }
    )
