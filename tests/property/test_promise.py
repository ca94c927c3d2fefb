"""The plan is a promise: it equals what the DaemonSet controller does with the manifests and the same nodes."""

import json
from typing import Any

import hypothesis
import yaml
from hypothesis import strategies as st

from compiler import diagnostics
from compiler.fleet import definitions
from compiler.inventory import canonical_form, snapshot
from compiler.planning import plan
from tests import builders, effort
from tests.property import daemonset_controller as controller

KEYS = ("pool", "gen", "zone")
VALUES = ("a", "b", "", "1", "5", "05")
KIND = "openfuyao.com/kae"
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
TAINT_KEYS = (
    "dedicated",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/out-of-service",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "node.cloudprovider.kubernetes.io/shutdown",
    "node.kubernetes.io/unschedulable",
)

REQUIREMENTS = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": sorted(values)},
        st.sampled_from(KEYS),
        st.sampled_from(("In", "NotIn")),
        st.sets(st.sampled_from(VALUES), min_size=1, max_size=3),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator},
        st.sampled_from((*KEYS, "kubernetes.io/hostname")),
        st.sampled_from(("Exists", "DoesNotExist")),
    ),
    st.builds(
        lambda operator, limit: {"key": "gen", "operator": operator, "values": [limit]},
        st.sampled_from(("Gt", "Lt")),
        st.sampled_from(("0", "1", "4", "6")),
    ),
)
TOLERATIONS = st.one_of(
    st.builds(
        lambda key, value, effect: {"key": key, "value": value} | ({"effect": effect} if effect else {}),
        st.sampled_from(TAINT_KEYS),
        st.sampled_from(("", "x")),
        st.sampled_from((*EFFECTS, None)),
    ),
    st.builds(
        lambda key, effect: {"key": key, "operator": "Exists"} | ({"effect": effect} if effect else {}),
        st.sampled_from(TAINT_KEYS),
        st.sampled_from((*EFFECTS, None)),
    ),
    st.just({"operator": "Exists"}),
)
TAINTS = st.builds(
    lambda key, value, effect: {"key": key, "value": value, "effect": effect},
    st.sampled_from(TAINT_KEYS[:-1]),
    st.sampled_from(("", "x")),
    st.sampled_from(EFFECTS),
)
CORDONED = {"key": TAINT_KEYS[-1], "effect": "NoSchedule"}


@st.composite
def specs(draw: st.DrawFn, pool: str | None) -> dict[str, Any]:
    """A policy's spec; with `pool` it selects by it, so that it stays apart from the others."""
    requirements = draw(st.lists(REQUIREMENTS, max_size=1 if pool else 2))
    if pool is not None:
        requirements.append({"key": "pool", "operator": "In", "values": [pool]})
    kinds = draw(st.sampled_from([(True, False, False), (True, True, False), (False, True, True)]))
    return {
        "nodeSelector": {"matchExpressions": requirements},
        "operator": dict(zip(("enabledHPRE", "enabledSEC", "enabledZIP"), kinds, strict=True)),
        "daemonSets": {"tolerations": draw(st.lists(TOLERATIONS, max_size=2))},
        "driver": {"enabled": draw(st.booleans()), "version": "2.2.0"},
        "devicePlugin": {"enabled": draw(st.booleans()), "version": "1.4.1"},
    }


@st.composite
def policies(draw: st.DrawFn) -> list[definitions.Policy]:
    """Policies without a fault: one for any selector, or some that are apart, perhaps with a default."""
    apart = draw(st.booleans())
    pools = ("a", "b") if apart else (None,)
    chosen = [(f"policy-{index}", draw(specs(pool))) for index, pool in enumerate(pools)]
    if draw(st.booleans()):
        rest = draw(specs(None))
        del rest["nodeSelector"]
        chosen.append(("rest", rest | {"default": True}))
    return [builders.policy(name, **spec) for name, spec in chosen]


@st.composite
def machines(draw: st.DrawFn) -> tuple[dict[str, str], list[dict[str, str]]]:
    """Draw the part that nodes can share: the labels of a machine, mostly one with HPRE devices, and its taints."""
    labels = {f"{KIND}.hpre.present": draw(st.sampled_from(("true", "true", "true", "false")))}
    for kind in draw(st.sets(st.sampled_from(("sec", "zip")))):
        labels[f"{KIND}.{kind}.present"] = "true"
    return labels, draw(st.one_of(st.just([]), st.lists(TAINTS, max_size=2)))


OWN = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(("a", "b", "a", "b", "", "1", "5", "x")))
OPT_OUTS = st.dictionaries(
    st.sampled_from((f"{KIND}.deploy.driver", f"{KIND}.deploy.device-plugin")), st.sampled_from(("false", "true"))
)


@st.composite
def items(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Nodes as the API server prints them, on one or two machines."""
    kinds = draw(st.lists(machines(), min_size=1, max_size=2))
    found = []
    for index in range(draw(st.integers(1, 8))):
        machine, taints = kinds[index % len(kinds)]
        cordoned = draw(st.sampled_from(([], [], [CORDONED])))
        item = builders.kubernetes_node(f"node-{index}", taints=[*taints, *cordoned])
        hostname = draw(st.sampled_from(({}, {"kubernetes.io/hostname": f"node-{index}"})))
        out = draw(st.one_of(st.just({}), OPT_OUTS))
        item["metadata"]["labels"] = {**machine, **draw(OWN), **hostname, **out}
        found.append(item)
    return found


def viewed(chosen: list[definitions.Policy], nodes: tuple[snapshot.Node, ...]) -> plan.Plan:
    """The policies on the nodes, if nothing is wrong with them."""
    seen, notes = builders.view(chosen, nodes)
    hypothesis.assume(not diagnostics.has_errors(notes))
    return seen


@hypothesis.settings(max_examples=effort.examples(gate=12, long=80))
@hypothesis.given(policies(), items())
def test_the_plan_is_what_the_daemonset_controller_does(
    chosen: list[definitions.Policy], nodes: list[dict[str, Any]]
) -> None:
    seen = viewed(chosen, builders.reduced(*nodes).nodes)
    files = builders.compiled(seen).files
    daemonsets = [
        (path.partition("/")[0], yaml.load(text, yaml.CSafeLoader))
        for path, text in files
        if path.startswith(("driver/daemonset", "device-plugin/daemonset"))
    ]

    promised = {
        name: {"driver": verdict.driver.image, "device-plugin": verdict.device_plugin.image}
        for verdict in seen.decisions
        for name in verdict.names
    }

    for node in nodes:
        done: dict[str, list[str]] = {"driver": [], "device-plugin": []}
        for component, daemonset in daemonsets:
            if controller.runs_on(daemonset, node):
                done[component].append(daemonset["spec"]["template"]["spec"]["containers"][0]["image"])
        expected = promised[node["metadata"]["name"]]
        assert done == {component: [image] if image else [] for component, image in expected.items()}


@hypothesis.settings(max_examples=effort.examples(gate=8, long=60))
@hypothesis.given(policies(), items())
def test_nodes_judged_together_are_as_one_by_one(chosen: list[definitions.Policy], nodes: list[dict[str, Any]]) -> None:
    reduced = builders.reduced(*nodes)

    together = viewed(chosen, reduced.nodes).decisions
    alone = [viewed(chosen, (node,)).decisions[0] for node in reduced.nodes]

    by_name = {name: said(verdict) for verdict in together for name in verdict.names}
    assert by_name == {verdict.node.name: said(verdict) for verdict in alone}


def said(verdict: plan.Decision) -> tuple[object, ...]:
    """Everything that a verdict says of a node."""
    policy = verdict.policy.name if verdict.policy else None
    return policy, verdict.why, verdict.pool, verdict.driver, verdict.device_plugin, verdict.resources


@hypothesis.settings(max_examples=effort.examples(gate=8, long=60))
@hypothesis.given(policies(), items())
def test_kubectls_answer_and_its_canonical_form_come_to_the_same(
    chosen: list[definitions.Policy], nodes: list[dict[str, Any]]
) -> None:
    raw = builders.reduced(*nodes)
    canonical = canonical_form.of_document(raw.file, json.loads(canonical_form.text(raw)))

    one, other = viewed(chosen, raw.nodes), viewed(chosen, canonical.nodes)

    assert by_names(one) == by_names(other)
    assert builders.compiled(one).files == builders.compiled(other).files


def by_names(seen: plan.Plan) -> dict[tuple[str, ...], tuple[object, ...]]:
    """Everything that the verdicts say, by their nodes."""
    return {tuple(verdict.names): said(verdict) for verdict in seen.decisions}
