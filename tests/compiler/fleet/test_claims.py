"""Claims: policies of different recipes share nodes, unless one node would get something twice."""

import fnmatch
import itertools
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from compiler.fleet import assignment, claims, definitions
from tests import builders, effort


def driver(*modules: Mapping[str, Any] | str, **more: Any) -> dict[str, Any]:
    named = [{"name": module} if isinstance(module, str) else module for module in modules]
    return {"image": "installer", "modules": named, **more}


def plugin(*resources: Mapping[str, Any] | str) -> dict[str, Any]:
    return {
        "resources": [
            {"class": "token", "count": 4, **({"name": one} if isinstance(one, str) else one)} for one in resources
        ]
    }


def met(one: Mapping[str, Any], other: Mapping[str, Any], policy: Mapping[str, Any] | None = None) -> str | None:
    """Return what two recipes with these specs cannot both have on a node; `policy` is the spec of the second one's."""
    first = builders.device_policy("a", builders.recipe("one", **one))
    second = builders.device_policy("b", builders.recipe("other", **other), **(policy or {}))
    return claims.common(claims.of(first), claims.of(second))


def test_recipes_that_have_nothing_in_common_do_not_meet() -> None:
    assert met({"driver": driver("a"), "devicePlugin": plugin("x.com/a")}, {"driver": driver("b")}) is None


def test_a_module_is_loaded_once() -> None:
    assert met({"driver": driver("sfc")}, {"driver": driver("b", "sfc")}) == "Both load module 'sfc'."


def test_a_module_that_another_replaces_is_not_loaded() -> None:
    replacing = driver({"name": "own", "replaces": ["sfc"]})

    assert met({"driver": driver("sfc")}, {"driver": replacing}) == "Both load or replace module 'sfc'."


OPTIONAL = {"driver": driver({"name": "sfc", "optional": True}, "b")}


@pytest.mark.parametrize(
    ("policy", "is_claimed"),
    [
        ({}, False),
        ({"driver": {"modules": ["sfc", "b"]}}, True),
        ({"driver": {"modules": ["sfc", "b"], "enabled": False}}, False),
        ({"kernelMappings": [{"name": "el8", "regexp": "el8", "driver": {"modules": ["sfc", "b"]}}]}, True),
        ({"rollout": {"waves": [{"name": "w", "percent": 5, "driver": {"modules": ["sfc", "b"]}}]}}, True),
        ({"rollout": {"frozen": [{"name": "f", "nodes": ["n"], "driver": {"modules": ["sfc", "b"]}}]}}, True),
    ],
)
def test_a_module_is_claimed_where_any_part_of_a_policy_loads_it(policy: dict[str, Any], is_claimed: bool) -> None:
    assert met({"driver": driver("sfc")}, OPTIONAL, policy) == ("Both load module 'sfc'." if is_claimed else None)


def test_a_resource_is_offered_once_and_so_is_each_profile() -> None:
    with_profile = plugin({"name": "x.com/a", "profiles": {"fast": {"A": "1"}}})

    assert met({"devicePlugin": plugin("x.com/a")}, {"devicePlugin": with_profile}) == "Both offer 'x.com/a'."
    assert met({"devicePlugin": plugin("x.com/a-fast")}, {"devicePlugin": with_profile}) == "Both offer 'x.com/a-fast'."


def counting(**extended: str) -> dict[str, Any]:
    return {
        "match": {
            "pci": [{"kind": "a", "vendor": "19e5"}],
            "extended": {f"x.com/{one}": extended[one] for one in extended},
        }
    }


def test_what_nfd_counts_for_two_recipes_is_one_resource() -> None:
    program = {"name": "p", "offers": ["x.com/*"], "pod": {"containers": [{"name": "p", "image": "p"}]}}
    offering = {"programs": [program], "images": {"p": {"repository": "r.example", "image": "p", "version": "1"}}}

    assert met(counting(a="4"), counting(a="5")) == "Both offer 'x.com/a'."
    assert met(counting(a="4"), counting(b="4")) is None
    assert met(counting(a="4"), {"devicePlugin": plugin("x.com/a")}) == "Both offer 'x.com/a'."
    assert met(counting(a="4"), offering) == "Both offer 'x.com/a'."


@pytest.mark.parametrize(
    ("path", "is_met"), [("/opt/a", True), ("/opt/a/b", True), ("/opt/ab", False), ("/opt/b", False)]
)
def test_who_puts_a_folder_on_the_host_claims_all_that_is_in_it(path: str, is_met: bool) -> None:
    one, other = (driver(name, files=[{"from": "/x", "to": to}]) for name, to in (("a", "/opt/a"), ("b", path)))

    assert (met({"driver": one}, {"driver": other}) is not None) is is_met
    assert (met({"driver": other}, {"driver": one}) is not None) is is_met


def test_a_recipe_states_what_else_a_node_has_once() -> None:
    stated = {"claims": ["socket:/run/x.sock", "path:/opt/x", "x.com/a"]}
    parts = {"driver": driver("a")}

    assert met(parts | stated, {"driver": driver("b"), "claims": ["socket:/run/x.sock"]}) == (
        "Both claim the socket '/run/x.sock'."
    )
    files = driver("b", files=[{"from": "/x", "to": "/opt/x"}])
    assert met(parts | stated, {"driver": files}) == "Both claim the path '/opt/x'."
    assert met(parts | stated, {"devicePlugin": plugin("x.com/a")}) == "Both offer 'x.com/a'."


@pytest.mark.parametrize(
    ("spec", "recipe", "common"),
    [
        ({}, {"driver": driver("hisi_hpre")}, "Both load module 'hisi_hpre'."),
        ({}, {"driver": driver("uacce")}, "Both load module 'uacce'."),
        ({}, {"driver": driver("hisi_zip")}, None),
        ({"operator": {"enabledZIP": True}}, {"driver": driver("hisi_zip")}, "Both load module 'hisi_zip'."),
        ({"driver": {"enabled": False}}, {"driver": driver("hisi_hpre")}, None),
        ({}, {"devicePlugin": plugin("openfuyao.com/kae.hpre")}, "Both offer 'openfuyao.com/kae.hpre'."),
        ({"devicePlugin": {"enabled": False}}, {"devicePlugin": plugin("openfuyao.com/kae.hpre")}, None),
    ],
)
def test_kae_claims_the_modules_and_resources_of_its_kinds(
    spec: dict[str, Any], recipe: dict[str, Any], common: str | None
) -> None:
    other = builders.device_policy("b", builders.recipe("other", **recipe))

    assert claims.common(claims.of(builders.policy("a", **spec)), claims.of(other)) == common


def test_a_profile_is_a_resource_with_variables_of_its_own() -> None:
    spec = plugin(
        {"name": "x.com/a", "profiles": {"fast": {"A": "2"}}, "inject": [{"when": False}, {"env": {"A": "1"}}]}
    )

    plugin_of = builders.device_policy("a", builders.recipe("one", devicePlugin=spec)).plugin

    assert plugin_of is not None
    assert [(one.name, one.inject.env) for one in plugin_of.resources] == [
        ("x.com/a", {"A": "1"}),
        ("x.com/a-fast", {"A": "2"}),
    ]


LABELS = ("pool", "zone", "desk")
VALUES = (None, "a", "b")
MODULES = ("m0", "m1", "m2", "m3")


def random_fleet(draw: random.Random) -> list[definitions.Policy]:
    """Return policies of KAE and of recipes that share a few modules, with selectors of a few labels."""
    kinds = [
        builders.recipe(f"r{number}", driver=driver(*({"name": module, "optional": True} for module in MODULES)))
        for number in range(draw.randint(1, 3))
    ]
    policies = []
    for number in range(draw.randint(2, 5)):
        keys = draw.sample(LABELS, draw.randint(0, 2))
        chosen = [draw.choice([_listed(draw, key), {"key": key, "operator": "Exists"}]) for key in keys]
        spec: dict[str, Any] = (
            {"nodeSelector": {"matchExpressions": chosen}} if draw.random() < 0.8 else {"default": True}
        )
        if draw.random() < 0.2:
            policies.append(builders.policy(f"p{number}", **spec))
            continue
        spec["driver"] = {"modules": draw.sample(MODULES, draw.randint(0, 2))}
        policies.append(builders.device_policy(f"p{number}", draw.choice(kinds), **spec))
    return policies


def _listed(draw: random.Random, key: str) -> dict[str, Any]:
    return {"key": key, "operator": draw.choice(("In", "NotIn")), "values": draw.sample(["a", "b"], draw.randint(1, 2))}


def nodes() -> list[dict[str, str]]:
    """Every node that the selectors can tell from others: a label is absent, `a`, `b` or another word."""
    values = itertools.product((*VALUES, "other"), repeat=len(LABELS))
    return [{key: value for key, value in zip(LABELS, chosen, strict=True) if value is not None} for chosen in values]


def matches(policy: definitions.Policy, policies: Sequence[definitions.Policy], labels: Mapping[str, str]) -> bool:
    """Judge a node by the documents: a default policy takes what no other policy of its recipe matches."""
    spec = policy.source.data["spec"]
    if spec.get("default"):
        own = (one for one in policies if one.recipe.name == policy.recipe.name)
        return not any(not one.source.data["spec"].get("default") and matches(one, policies, labels) for one in own)
    return all(_holds(one, labels.get(one["key"])) for one in spec["nodeSelector"]["matchExpressions"])


def _holds(requirement: Mapping[str, Any], value: str | None) -> bool:
    if requirement["operator"] == "Exists":
        return value is not None
    values: list[str] = requirement["values"]
    return (value in values) is (requirement["operator"] == "In")


def collide(one: definitions.Policy, other: definitions.Policy) -> bool:
    """Judge two policies by their documents: one recipe, or a module that both load."""
    if one.recipe.name == other.recipe.name:
        return True
    modules = (set(policy.source.data["spec"].get("driver", {}).get("modules", ())) for policy in (one, other))
    return bool(set.intersection(*modules))


@pytest.mark.seeded
def test_policies_overlap_exactly_where_a_node_would_get_something_twice() -> None:
    wrong = [seed for seed in range(effort.examples(gate=60, long=300)) if not is_as_brute_force_has_it(seed)]

    assert wrong == [], "These seeds of random_fleet have other overlaps than brute force finds."


def is_as_brute_force_has_it(seed: int) -> bool:
    """Return whether a fleet has the overlaps that brute force finds, each with the labels of such a node."""
    policies = random_fleet(random.Random(seed))  # noqa: S311 - The same each time.
    kept = [
        policy
        for index, policy in enumerate(policies)
        if not policy.is_default
        or all(one.recipe.name != policy.recipe.name or not one.is_default for one in policies[:index])
    ]

    overlaps = list(claims.overlaps(assignment.assign(kept).policies))
    expected = {
        frozenset((one.name, other.name))
        for one, other in itertools.combinations(kept, 2)
        if collide(one, other)
        and any(matches(one, kept, labels) and matches(other, kept, labels) for labels in nodes())
    }
    witnessed = (matches(policy, kept, dict(labels)) for one, other, labels, _ in overlaps for policy in (one, other))
    pairs = {frozenset((one.name, other.name)) for one, other, _, _ in overlaps}
    return pairs == expected and len(overlaps) == len(expected) and all(witnessed)


NUMBER = itertools.count()


def char(path: str) -> dict[str, Any]:
    group = {"paths": [{"path": path}]}
    return {"devicePlugin": {"resources": [{"name": f"x.com/c{next(NUMBER)}", "class": "char", "groups": [group]}]}}


def injecting(path: str, **more: Any) -> dict[str, Any]:
    inject = [{"nodes": [{"path": path, **more}]}]
    return {"devicePlugin": plugin({"name": f"x.com/t{next(NUMBER)}", "inject": inject})}


@pytest.mark.parametrize(
    ("one", "other", "node"),
    [
        (char("/dev/npu0"), char("/dev/npu0"), "/dev/npu0"),
        (char("/dev/npu*"), injecting("/dev/npu0"), "/dev/npu0"),
        (injecting("/dev/onload*"), char("/dev/on*_epoll"), "/dev/on*_epoll"),
        (injecting("/dev/a?c"), injecting("/dev/[ab][b-d]c", optional=True), "/dev/[ab][b-d]c"),
        (char("/dev/npu[0-3]"), char("/dev/npu[4-7]"), None),
        (char("/dev/npu*"), char("/dev/npu/0"), None),
        (char("/dev/npu*"), injecting("/dev/gpu0"), None),
        (injecting("/dev/vfio/vfio"), injecting("/dev/vfio/vfio"), None),
        (injecting("/dev/vfio/*"), injecting("/dev/vfio/1*"), "/dev/vfio/*"),
    ],
)
def test_a_device_node_is_handed_out_by_one_recipe(
    one: dict[str, Any], other: dict[str, Any], node: str | None
) -> None:
    said = node and f"Both hand out the device node '{node}'."

    assert met(one, other) == met(other, one) == said


def test_device_nodes_are_nobodys_where_no_device_plugin_of_ours_runs() -> None:
    assert met(char("/dev/npu0"), char("/dev/npu0"), {"devicePlugin": {"enabled": False}}) is None


def test_a_recipe_takes_no_device_nodes_of_kae() -> None:
    other = builders.device_policy("b", builders.recipe("other", **injecting("/dev/hisi_hpre-[0-9]")))

    assert claims.common(claims.of(builders.policy("a")), claims.of(other)) == (
        "Both hand out the device node '/dev/hisi_hpre-*'."
    )


GLOBS = ("a", "b", "*", "?", "[!a]", "[ab]")


def test_globs_meet_where_a_name_matches_both() -> None:
    globs = ["".join(parts) for size in range(1, 4) for parts in itertools.product(GLOBS, repeat=size)]
    names = ["".join(parts) for size in range(7) for parts in itertools.product("abc", repeat=size)]
    matched = {glob: {name for name in names if fnmatch.fnmatchcase(name, glob)} for glob in globs}
    draw = random.Random(4)  # noqa: S311 - It is to be the same each time.

    for _ in range(effort.examples(gate=150, long=5_000)):
        one, other = draw.choice(globs), draw.choice(globs)
        said = met(injecting(f"/dev/x{one}"), injecting(f"/dev/x{other}"))
        assert (said is not None) == (not matched[one].isdisjoint(matched[other])), (one, other)


def test_policies_that_meet_by_a_glob_alone_overlap_on_the_nodes_that_both_match() -> None:
    one = builders.device_policy(
        "a", builders.recipe("one", **char("/dev/npu*")), nodeSelector={"matchLabels": {"p": "1"}}
    )
    recipe = builders.recipe("other", **injecting("/dev/npu0"))
    there, elsewhere = (
        builders.device_policy(name, recipe, nodeSelector={"matchLabels": {key: "2"}})
        for name, key in (("b", "q"), ("c", "p"))
    )
    assigned = assignment.assign([one, there, elsewhere]).policies

    found = [(left.name, right.name, why) for left, right, _, why in claims.overlaps(assigned) if left.name != "b"]

    assert found == [("a", "b", "Both hand out the device node '/dev/npu0'.")]
