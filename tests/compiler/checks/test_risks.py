"""The risks of a change: each rule fires on its own document, and is silent on its near miss."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from compiler import pipeline
from compiler.changes import acceptance, difference, intent, sides
from compiler.checks import risks as risk_checks
from compiler.fleet import definitions, examples
from compiler.formats import documents
from compiler.inventory import snapshot
from tests import builders

NAMES = [f"kp-{number}" for number in range(1, 5)]
OLDER_KERNEL = "5.10.0-136.12.0.86.oe2203sp1.aarch64"

Spec = Mapping[str, Any]


def made(spec: Spec | None, cluster: Spec, nodes: Sequence[snapshot.Node], name: str) -> tuple[sides.Planned, Any]:
    """Return a cluster with one policy, or with none, and its documents."""
    place = builders.cluster(**{"kubernetesVersion": "1.31", **cluster})
    policies: list[definitions.Policy] = [] if spec is None else [builders.policy(name, **spec)]
    planned, _ = builders.view(policies, nodes, place)
    written = [*(policy.source for policy in policies), place.source]
    return sides.of_plan(planned, pipeline.manifests_of(planned)), written


def basis(before: Sequence[documents.Document], after: Sequence[documents.Document]) -> difference.Basis:
    return difference.Basis(changed=intent.changes(before, after), render=builders.renderer())


def risks(  # noqa: PLR0913 - both sides of each input
    before: Spec | None,
    after: Spec | None,
    *,
    cluster_before: Spec = {},  # noqa: B006 - never changed
    cluster: Spec = {},  # noqa: B006 - never changed
    nodes_before: Sequence[snapshot.Node] | None = None,
    nodes: Sequence[snapshot.Node] | None = None,
    name: str = "tls",
) -> dict[str, acceptance.Acceptable]:
    """Return the risks of a change from one policy, and from the settings of its cluster, to others, by code."""
    every = [builders.node(each) for each in NAMES] if nodes is None else nodes
    was, written = made(before, cluster_before, every if nodes_before is None else nodes_before, "tls")
    now, rewritten = made(after, cluster, every, name)
    compared = risk_checks.compared(was, now, basis(written, rewritten))
    return {} if compared is None else {risk.finding.code: risk for risk in compared.risks}


def spec(version: str = "2.2.0", **driver: Any) -> dict[str, Any]:
    return {"driver": {"version": version, **driver}, "devicePlugin": {"version": "1.4.1"}}


def waves(rest: str, **versions: str) -> dict[str, Any]:
    items = [
        {"name": name, "nodes": [node], "version": version}
        for node, (name, version) in zip(NAMES, versions.items(), strict=False)
    ]
    return spec(rest, rollout={"waves": items})


def frozen(version: str, rest: str = "2.2.0", **driver: Any) -> dict[str, Any]:
    group = {"name": "sick", "nodes": NAMES[:1], "version": version}
    return spec(rest, rollout={"frozen": [group]}, **driver)


PLAIN = spec()
BIG_STEP = spec("2.3.0")


@pytest.mark.parametrize(
    ("before", "after", "codes"),
    [
        pytest.param(PLAIN, BIG_STEP, {"large-step"}, id="all nodes"),
        pytest.param(waves("2.2.0", a="2.2.0", b="2.2.0"), waves("2.3.0", a="2.2.0", b="2.2.0"), set(), id="half"),
        pytest.param(PLAIN, spec(moduleParameters={"hisi_hpre": {"pf_q_num": 128}}), {"large-step"}, id="reloads"),
        pytest.param(PLAIN, spec(env=[{"name": "LOG", "value": "debug"}]), set(), id="new pods, the same driver"),
        pytest.param(None, PLAIN, set(), id="first install"),
    ],
)
def test_more_than_half_of_the_nodes_at_once_is_a_large_step(before: Spec | None, after: Spec, codes: set[str]) -> None:
    assert risks(before, after).keys() & {"large-step"} == codes


def wave(name: str, nodes: Sequence[str], version: str = "2.2.0", rest: str = "2.3.0") -> dict[str, Any]:
    return spec(rest, rollout={"waves": [{"name": name, "nodes": nodes, "version": version}]})


PACED = {"maxUnavailable": 2}


@pytest.mark.parametrize(
    ("before", "after", "is_told"),
    [
        pytest.param(
            PLAIN, wave("canary", NAMES[:2], version="2.3.0", rest="2.2.0"), True, id="a wave and its version"
        ),
        pytest.param(wave("canary", NAMES[:2], version="2.3.0", rest="2.2.0"), PLAIN, True, id="the way back"),
        pytest.param(PLAIN, wave("canary", NAMES[:1], version="2.3.0", rest="2.2.0"), False, id="one node"),
        pytest.param(PLAIN, wave("canary", NAMES[:2], rest="2.2.0"), False, id="a wave with what they have"),
        pytest.param(
            wave("canary", NAMES[:2], rest="2.2.0"),
            wave("canary", NAMES[:2], version="2.3.0", rest="2.2.0"),
            False,
            id="a version where they are",
        ),
        pytest.param(
            spec(rollout=PACED),
            spec(rollout={**PACED, "waves": [{"name": "canary", "nodes": NAMES[:2], "version": "2.3.0"}]}),
            False,
            id="as many as maxUnavailable",
        ),
        pytest.param(
            PLAIN, spec(rollout={"frozen": [{"name": "x", "nodes": NAMES[:2], "version": "2.1.0"}]}), True, id="frozen"
        ),
        pytest.param(
            spec(kernelMappings=[{"name": "all", "regexp": "."}]),
            spec(kernelMappings=[{"name": "new", "regexp": "5", "version": "2.3.0"}, {"name": "all", "regexp": "."}]),
            True,
            id="a mapping",
        ),
        pytest.param(None, wave("canary", NAMES[:2], version="2.3.0"), False, id="first install"),
    ],
)
def test_nodes_that_come_to_a_daemon_set_with_another_driver_are_not_paced(
    before: Spec | None, after: Spec, *, is_told: bool
) -> None:
    assert ("pace-bypassed" in risks(before, after)) == is_told


@pytest.mark.parametrize(("count", "codes"), [(1, set()), (2, {"large-step"})])
def test_one_node_is_never_a_large_step(count: int, codes: set[str]) -> None:
    assert risks(PLAIN, BIG_STEP, nodes=[builders.node(name) for name in NAMES[:count]]).keys() == codes


def test_nodes_that_join_make_no_large_step_small() -> None:
    before, joined = ([builders.node(f"kp-{number}") for number in range(count)] for count in (4, 40))

    assert "large-step" in risks(PLAIN, waves("2.3.0"), nodes_before=before, nodes=joined)


@pytest.mark.parametrize(
    ("after", "skipped"),
    [
        pytest.param(wave("canary", []), True, id="emptied"),
        pytest.param(wave("pilot", NAMES[1:2]), True, id="another one"),
        pytest.param(spec("2.3.0", rollout={"frozen": [{"name": "x", "nodes": NAMES[:1], "version": "2.2.0"}]}), True),
        pytest.param(wave("pilot", NAMES[:1]), True, id="renamed"),
        pytest.param(wave("pilot", NAMES[1:2], version="2.3.0", rest="2.2.0"), False, id="another one is the first"),
        pytest.param(wave("canary", NAMES[:1], version="2.3.0", rest="2.2.0"), False, id="it is the first"),
    ],
)
def test_a_wave_that_a_change_takes_away_has_shown_nothing(after: Spec, *, skipped: bool) -> None:
    assert ("waves-skipped" in risks(wave("canary", NAMES[:1], rest="2.2.0"), after)) == skipped


TRIED = wave("canary", NAMES[:2], version="2.3.0", rest="2.2.0")


def loaded(version: str, state: str = "Ready") -> list[snapshot.Node]:
    """Return the nodes, of which the first has this driver by its labels."""
    labels = {"openfuyao.com/kae.driver-version": version, "openfuyao.com/kae.driver-state": state}
    return [builders.node(name, labels if name == NAMES[0] else {}) for name in NAMES]


@pytest.mark.parametrize(
    ("before", "after", "nodes", "said"),
    [
        (TRIED, wave("canary", NAMES[:2], "2.3.0"), loaded("2.2.0", "Failed"), "1 node (kp-1) loaded 2.2.0 (Failed), "),
        (TRIED, wave("canary", NAMES[:2], "2.3.0"), loaded("2.2.0"), "1 node (kp-1) loaded 2.2.0, wants 2.3.0."),
        (TRIED, wave("canary", NAMES[:2], "2.3.0"), loaded("2.3.0"), ""),
        (TRIED, wave("canary", NAMES[:2], "2.3.0"), None, ""),
        (TRIED, TRIED, loaded("2.2.0", "Failed"), ""),
        (wave("canary", [], "2.3.0", "2.2.0"), wave("canary", [], "2.3.0"), None, "it has no node with a driver."),
        (wave("canary", [], "2.2.0", "2.2.0"), wave("canary", [], "2.2.0"), None, ""),
        (wave("canary", NAMES[:2], rest="2.2.0"), wave("canary", NAMES[:2], "2.3.0"), loaded("2.2.0"), ""),
    ],
    ids=["failed", "not done", "done", "no labels", "nothing comes", "no node", "another version", "as well"],
)
def test_a_wave_whose_nodes_have_not_its_driver_has_shown_nothing(
    before: Spec, after: Spec, nodes: Sequence[snapshot.Node] | None, said: str
) -> None:
    found = risks(before, after, nodes=nodes).get("wave-unproven")

    assert (found is not None) == bool(said)
    assert found is None or f"comes to rest of policy 'tls', and wave canary has not shown that it works: {said}" in (
        found.finding.message
    )


def test_a_wave_that_goes_after_it_had_the_driver_is_not_skipped() -> None:
    shown = wave("canary", NAMES[:1], version="2.3.0", rest="2.2.0")

    assert "waves-skipped" not in risks(shown, wave("canary", []))
    assert "waves-skipped" not in risks(shown, BIG_STEP, name="renamed")
    assert "waves-skipped" in risks(wave("canary", NAMES[:1], rest="2.2.0"), BIG_STEP, name="renamed")


@pytest.mark.parametrize(
    ("before", "after", "skipped"),
    [
        pytest.param(waves("2.2.0", a="2.2.0"), waves("2.3.0", a="2.2.0"), True, id="the wave keeps the old one"),
        pytest.param(waves("2.2.0", a="2.2.0"), waves("2.3.0", a="2.3.0"), True, id="together with the wave"),
        pytest.param(
            waves("2.2.0", a="2.2.0", b="2.2.0"), waves("2.2.0", a="2.2.0", b="2.3.0"), True, id="second wave"
        ),
        pytest.param(waves("2.2.0", a="2.2.0"), BIG_STEP, True, id="the waves go in the same step"),
        pytest.param(waves("2.2.0", a="2.2.0"), waves("2.2.0", a="2.3.0"), False, id="the wave alone"),
        pytest.param(waves("2.2.0", a="2.3.0"), waves("2.3.0", a="2.3.0"), False, id="the wave has it"),
        pytest.param(waves("2.2.0", a="2.4.0"), waves("2.3.0", a="2.4.0"), False, id="the wave has a newer one"),
        pytest.param(waves("2.2.0", a="2.3.0"), BIG_STEP, False, id="the waves go, and had it"),
        pytest.param(PLAIN, BIG_STEP, False, id="no waves"),
        pytest.param(
            waves("2.2.0", a="2.2.0"),
            waves("2.2.0", a="2.2.0") | {"operator": {"enabledSEC": True}},
            False,
            id="no wave could bring it",
        ),
    ],
)
def test_a_driver_comes_to_a_wave_before_those_after_it(before: Spec, after: Spec, *, skipped: bool) -> None:
    assert ("waves-skipped" in risks(before, after)) == skipped


def test_a_wave_without_a_node_of_these_kernels_has_nothing_to_show() -> None:
    old, new = (
        spec(
            kernelMappings=[
                {"name": "sp1", "regexp": "oe2203sp1", "version": version},
                {"name": "sp4", "regexp": "oe2203sp4", "version": "2.2.0"},
            ],
            rollout={"waves": [{"name": "canary", "nodes": NAMES[:1]}]},
        )
        for version in ("2.1.0", "2.2.0")
    )
    older = builders.profile(kernel_version=OLDER_KERNEL)
    nodes = [builders.node(NAMES[0]), *(builders.node(name, machine=older) for name in NAMES[1:])]

    assert "waves-skipped" not in risks(old, new, nodes=nodes)
    assert "waves-skipped" in risks(old, new, nodes=[builders.node(name, machine=older) for name in NAMES])


@pytest.mark.parametrize(
    ("before", "after", "touched"),
    [
        pytest.param(frozen("2.1.0"), frozen("2.0.0"), True, id="another version"),
        pytest.param(frozen("2.1.0"), PLAIN, True, id="thawed"),
        pytest.param(frozen("2.1.0"), frozen("2.1.0", sriov={"hpre": 2}), True, id="a setting of the policy"),
        pytest.param(frozen("2.1.0"), frozen("2.1.0", state="Absent"), True, id="removed"),
        pytest.param(frozen("2.1.0"), frozen("2.1.0", rest="2.3.0"), False, id="the rest alone"),
        pytest.param(frozen("2.2.0"), PLAIN, False, id="thawed, at the version of the rest"),
        pytest.param(PLAIN, frozen("2.1.0"), False, id="frozen from now on"),
        pytest.param(
            frozen("2.1.0"), frozen("2.1.0", env=[{"name": "LOG", "value": "debug"}]), False, id="new pods alone"
        ),
    ],
)
def test_a_change_leaves_the_drivers_of_frozen_groups(before: Spec, after: Spec, *, touched: bool) -> None:
    assert ("frozen-touched" in risks(before, after)) == touched


@pytest.mark.parametrize(
    ("after", "removed"),
    [
        pytest.param(spec(state="Absent"), True, id="absent"),
        pytest.param(spec(enabled=False), True, id="without installers"),
        pytest.param(None, True, id="without a policy"),
        pytest.param(spec("2.3.0"), False, id="another version"),
    ],
)
def test_a_driver_that_nodes_lose_is_told(after: Spec | None, *, removed: bool) -> None:
    assert ("driver-removed" in risks(PLAIN, after)) == removed


def test_a_node_that_leaves_the_inventory_loses_no_driver() -> None:
    nodes = [builders.node(name) for name in NAMES]

    assert risks(PLAIN, PLAIN, nodes_before=nodes, nodes=nodes[1:]) == {}


@pytest.mark.parametrize(
    ("before", "told"),
    [
        (PLAIN, "driver-removed"),
        (frozen("2.1.0"), "driver-removed"),
        (spec(state="Absent"), None),
        (spec(enabled=False), "program-removed"),
    ],
)
def test_drivers_or_plugins_are_out_of_sight_when_all_nodes_leave_the_inventory(before: Spec, told: str | None) -> None:
    nodes = [builders.node(name) for name in NAMES]

    lost = risks(before, before, nodes_before=nodes, nodes=())

    assert lost.keys() == ({told} if told else set())
    assert all("Restore the inventory" in str(risk.finding.hint) for risk in lost.values())


def test_a_device_plugin_that_goes_is_told_with_what_pods_wait_for() -> None:
    lost = risks(PLAIN, {"driver": {"version": "2.2.0"}, "devicePlugin": {"version": "1.4.1", "enabled": False}})

    assert lost.keys() == {"program-removed"}
    assert lost["program-removed"].finding.message.startswith("The device plugin of policy 'tls' is taken from ")


def test_a_device_plugin_goes_with_its_policy_in_a_risk_of_its_own() -> None:
    assert risks(PLAIN, None).keys() == {"driver-removed", "program-removed"}


def test_a_kind_that_is_no_longer_offered_is_told() -> None:
    labels = {**builders.HPRE, "openfuyao.com/kae.hpre.pf": "1"}
    labels |= {"openfuyao.com/kae.sec.present": "true", "openfuyao.com/kae.sec.pf": "1"}
    every = [builders.node(name, machine=builders.profile(labels)) for name in NAMES]
    both, one = ({**PLAIN, "operator": {"enabledSEC": True, "enabledHPRE": hpre}} for hpre in (True, False))
    lost = risks(both, one, nodes_before=every, nodes=every)

    assert "program-removed" not in lost
    assert "openfuyao.com/kae.hpre on " in lost["resource-withdrawn"].finding.message


def test_a_policy_with_another_name_loses_no_driver() -> None:
    assert risks(PLAIN, PLAIN, name="web").keys() == set()


@pytest.mark.parametrize(
    ("before", "after", "older"),
    [
        ("2.10.0", "2.9.0", True),
        ("v2.2.0", "2.1", True),
        ("2.9.0", "2.10.0", False),
        ("2.2", "2.2.0", False),
        ("2.3.0", "2.3.0-rc1", False),
        ("2.3.0", f"sha256:{'0' * 64}", False),
        ("stable", "2.1.0", False),
    ],
)
def test_an_older_release_is_a_downgrade_where_the_order_is_known(before: str, after: str, *, older: bool) -> None:
    assert ("driver-downgrade" in risks(spec(before), spec(after))) == older


INSTALLER = "kae-driver-installer:2.2.0"
"""It holds the user space of every driver of KAE, whatever its modules come out of."""


def of_packages(version: str, *names: str) -> dict[str, Any]:
    return spec(version, source={"packages": {"names": names}})


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (of_packages("2.2.0", "uacce-2.3.0-1"), of_packages("2.3.0", "uacce-2.2.0-1"), "uacce-2.2.0-1"),
        (of_packages("2.3.0", "uacce-2.3.0"), of_packages("2.3.0", "kae-2.2.0"), None),
        (of_packages("2.3.0", "uacce"), of_packages("2.3.0", "uacce2"), None),
        (of_packages("2.3.0", "u-${DRIVER_VERSION}"), of_packages("2.2.0", "u-${DRIVER_VERSION}"), "2.2.0"),
        *(
            (of_packages("2.3.0", was), of_packages("2.3.0", now), told)
            for was, now, told in (
                ("kmod-kae-5.10.0-2.3.0", "kmod-kae-5.10.0-2.1.0", "kmod-kae-5.10.0-2.1.0"),
                ("kmod-kae-5.10.0-2.1.0", "kmod-kae-5.10.0-2.3.0", None),
                ("python3-3-kae-2.3.0", "python3-3-kae-2.1.0", "python3-3-kae-2.1.0"),
                ("uacce-2.3.0-9", "uacce-2.3.0-3", "uacce-2.3.0-3"),
                ("uacce-2.3.0-9.oe2203.aarch64", "uacce-2.3.0-10.oe2203", None),
                ("uacce-2.3.0-9.aarch64", "uacce-2.3.0-9", None),
                ("uacce-2.3.0-9", "uacce-2.3.0", None),
                ("uacce-2.10", "uacce-2.9", "uacce-2.9"),
                ("uacce-2.3~rc1", "uacce-2.3", None),
                ("uacce-2.3", "uacce-2.3~rc1", "uacce-2.3~rc1"),
                ("uacce-2.3.0a", "uacce-2.3.0.1", None),
                ("uacce-2.3.0-1", "uacce-2.2.0-9", "uacce-2.2.0-9"),
            )
        ),
        (
            of_packages("2.3.0", "kmod-5.10.0-2.3.0", "kmod-6.6.0-2.3.0"),
            of_packages("2.3.0", "kmod-6.6.0-2.3.0", "kmod-5.10.0-2.3.0"),
            None,
        ),
        (
            of_packages("2.3.0", "kmod-5.10.0-2.3.0", "kmod-6.6.0-2.3.0"),
            of_packages("2.3.0", "kmod-6.6.0-2.1.0", "kmod-5.10.0-2.3.0"),
            "kmod-6.6.0-2.1.0",
        ),
        (of_packages("2.3.0", "uacce"), spec("2.2.0"), INSTALLER),
        (of_packages("2.3.0", "uacce"), of_packages("2.2.0", "uacce-2.3.0"), INSTALLER),
        (spec("2.3.0", source={"prebuilt": {}}), spec("2.2.0", source={"inTree": {}}), INSTALLER),
    ],
)
def test_a_downgrade_compares_what_the_driver_comes_out_of(before: Spec, after: Spec, told: str | None) -> None:
    risk = risks(before, after).get("driver-downgrade")

    assert risk is None if told is None else risk is not None and f" to {told} on" in risk.finding.message


@pytest.mark.parametrize(
    ("before", "after", "older"),
    [("lab:2.3.0", "lab:2.2.0", True), ("lab:2.2.0", "lab:2.3.0", False), ("lab:2.3.0", "other:2.2.0", False)],
)
def test_an_older_image_with_modules_is_a_downgrade_whatever_the_version_is(
    before: str, after: str, *, older: bool
) -> None:
    was, now = ({"images": {"modules": _image(image)}} for image in (before, after))

    assert ("driver-downgrade" in risks_of_recipe(was, now)) == older


def _image(image: str) -> dict[str, str]:
    return {"image": f"registry.example.com/{image}", "repository": "", "version": ""}


def risks_of_recipe(before: Spec, after: Spec) -> set[str]:
    """Return the risks of a change of a policy whose recipe has modules in one image, and the version in another."""

    def of(policy: Spec) -> tuple[sides.Planned, Any]:
        software = {
            "image": "installer",
            "version": "user",
            "modules": [{"name": "a"}, {"name": "b", "optional": True}],
        }
        payloads = [{"image": "modules", "paths": ["/opt/lib/modules"]}, {"image": "user", "paths": ["/opt/user"]}]
        images = {**builders.IMAGES, "modules": _image("modules:1.0"), "user": _image("user:1.0")}
        recipe = builders.recipe("lab", driver={**software, "payloads": payloads}, images=images)
        made_of, place = builders.device_policy("lab", recipe, **policy), builders.cluster()
        planned, _ = builders.view([made_of], [builders.node(name) for name in NAMES], place)
        return sides.of_plan(planned, pipeline.manifests_of(planned)), [made_of.source, place.source]

    (was, written), (now, rewritten) = of(before), of(after)
    compared = risk_checks.compared(was, now, basis(written, rewritten))
    assert compared
    return {risk.finding.code for risk in compared.risks}


def of_waves(canary: Spec, early: Spec, **rest: Any) -> dict[str, Any]:
    groups = [{"name": "canary", "nodes": NAMES[:1], **canary}, {"name": "early", "nodes": NAMES[1:3], **early}]
    return {"rollout": {"waves": groups}, **rest}


MODULES = {"images": {"modules": _image("modules:2.0")}}


@pytest.mark.parametrize(
    ("after", "skipped"),
    [
        pytest.param(of_waves({}, MODULES), True, id="the second wave"),
        pytest.param(of_waves(MODULES, {}), False, id="the first wave"),
        pytest.param(MODULES, True, id="the waves go"),
        pytest.param(of_waves({"driver": {"modules": ["a"]}}, {}, driver={"modules": ["a", "b"]}), True, id="a module"),
    ],
)
def test_a_wave_shows_the_modules_and_not_the_version_alone(after: Spec, *, skipped: bool) -> None:
    before = of_waves({}, {}, driver={"modules": ["a"]}) if "driver" in after else of_waves({}, {})

    assert ("waves-skipped" in risks_of_recipe(before, after)) == skipped


def test_an_absent_driver_that_comes_back_goes_back_to_nothing() -> None:
    assert "driver-downgrade" not in risks(spec("2.3.0", state="Absent"), spec("2.2.0"))


DIGESTS = [f"sha256:{digit * 64}" for digit in "abc"]


def test_a_wave_has_shown_what_it_had_until_the_change() -> None:
    first, second, third = DIGESTS

    assert "waves-skipped" not in risks(waves(first, a=second), waves(second, a=third))
    assert "waves-skipped" in risks(waves(first, a=first), waves(second, a=third))


def test_nodes_without_a_driver_are_none_that_go_on_working() -> None:
    mapping = {"name": "old", "regexp": "oe2203sp1", "state": "Absent"}
    old, new = (
        spec(version, kernelMappings=[mapping, {"name": "rest", "regexp": "."}], rollout={"maxParallel": 2})
        for version in ("2.2.0", "2.3.0")
    )
    bare = builders.profile(kernel_version=OLDER_KERNEL)
    nodes = [builders.node(f"a-{number}") for number in range(2)]
    nodes += [builders.node(f"b-{number}", machine=bare) for number in range(9)]

    assert {"large-step", "drain-unbounded"} <= risks(old, new, nodes=nodes).keys()


def parallel(most: int, **driver: Any) -> dict[str, Any]:
    """Return a policy of which so many hosts may drain at a time."""
    return spec(rollout={"maxParallel": most}, **driver)


@pytest.mark.parametrize(
    ("before", "after", "unbounded"),
    [
        pytest.param(PLAIN, parallel(4), True, id="as many as nodes"),
        pytest.param(parallel(4), parallel(4, version="2.3.0"), True, id="a swap at an old pace"),
        pytest.param(parallel(4, drain={"enabled": False}), parallel(4), True, id="evictions begin"),
        pytest.param(PLAIN, parallel(3), False, id="one fewer"),
        pytest.param(PLAIN, parallel(4, drain={"enabled": False}), False, id="nobody is evicted"),
        pytest.param(parallel(4), parallel(4, env=[{"name": "LOG", "value": "1"}]), False, id="nothing drains"),
    ],
)
def test_all_hosts_of_a_policy_do_not_drain_at_a_time(before: Spec, after: Spec, *, unbounded: bool) -> None:
    assert ("drain-unbounded" in risks(before, after)) == unbounded


def test_a_policy_of_one_node_drains_it() -> None:
    assert "drain-unbounded" not in risks(PLAIN, parallel(4), nodes=[builders.node()])


UNDRAINED = spec(drain={"enabled": False})
OLD = {"kubernetesVersion": "1.29"}
DRAINED = spec(drain={"enabled": True})


@pytest.mark.parametrize(
    ("before", "after", "cluster_before", "cluster", "off"),
    [
        pytest.param(DRAINED, DRAINED, {}, OLD, True, id="the guard goes"),
        pytest.param(UNDRAINED, DRAINED, OLD, OLD, True, id="evictions begin without it"),
        pytest.param(DRAINED, UNDRAINED, {}, OLD, False, id="it goes with the evictions"),
        pytest.param(DRAINED, DRAINED, OLD, {"kubernetesVersion": "1.28"}, False, id="it was not there"),
        pytest.param(UNDRAINED, DRAINED, {}, {}, False, id="evictions begin with it"),
    ],
)
def test_evictions_stay_confined(before: Spec, after: Spec, cluster_before: Spec, cluster: Spec, *, off: bool) -> None:
    assert ("guard-off" in risks(before, after, cluster_before=cluster_before, cluster=cluster)) == off


NO_NFD = {"nfd": {"enabled": False}}


@pytest.mark.parametrize(
    ("cluster_before", "cluster", "codes"),
    [
        pytest.param({}, NO_NFD, {"crd-pruned"}, id="without an engine"),
        pytest.param({}, {"namespace": "kae-prod"}, {"namespace-pruned"}, id="another namespace"),
        pytest.param(NO_NFD, {}, set(), id="they come"),
        *(
            pytest.param({"gitops": {"engine": engine}}, {"gitops": {"engine": engine}, **other}, set(), id=engine)
            for engine in ("argocd", "flux")
            for other in (NO_NFD, {"namespace": "kae-prod"})
        ),
    ],
)
def test_what_an_engine_would_delete_with_all_that_is_in_it_is_told(
    cluster_before: Spec, cluster: Spec, codes: set[str]
) -> None:
    told = risks(PLAIN, PLAIN, cluster_before=cluster_before, cluster=cluster)

    assert told.keys() & {"crd-pruned", "namespace-pruned"} == codes


EAST = builders.cluster(kubernetesVersion="1.31")
PLUGIN_OFF = {**spec(), "devicePlugin": {"enabled": False}}
MIRROR = {"images": {"mirrors": [{"from": "cr.openfuyao.cn", "to": "mirror.example.com/fuyao"}]}}


@pytest.mark.parametrize(
    ("after", "cluster", "changed"),
    [
        pytest.param(spec(repository="registry.example.com/kae"), {}, True, id="of a driver"),
        pytest.param(waves("2.2.0", a="2.2.0") | {}, MIRROR, True, id="by a mirror"),
        pytest.param(spec(repository="cr.openfuyao.cn/team"), {}, False, id="another folder of it"),
        pytest.param(spec("2.3.0"), {}, False, id="another version"),
        pytest.param(waves("2.2.0", a="2.2.0"), {}, False, id="a new DaemonSet of it"),
    ],
)
def test_a_registry_that_is_new_is_told(after: Spec, cluster: Spec, *, changed: bool) -> None:
    assert ("registry-changed" in risks(PLAIN, after, cluster=cluster)) == changed


REPOSITORY = spec(repository="cr.openfuyao.cn/team")
MIRRORED = {"images": {"mirrors": [{"from": "cr.openfuyao.cn", "to": "cr.openfuyao.cn/mirror"}]}}
NFD = {"nfd": {"image": {"repository": "registry.k8s.io/team/node-feature-discovery"}}}


def packages(*urls: str, **more: Any) -> dict[str, Any]:
    return spec(source={"packages": {"names": ["kae_driver"], "repositories": list(urls), **more}})


A, B = "https://a.example.com/kae", "https://a.example.com/team"
PACKAGES = packages(A)


@pytest.mark.parametrize(
    ("before", "after", "cluster_before", "cluster", "changed"),
    [
        pytest.param(PLAIN, REPOSITORY, {}, {}, True, id="of a driver"),
        pytest.param(PLAIN, spec(image="kae-driver"), {}, {}, True, id="another image of the registry"),
        pytest.param(PLAIN, {**PLAIN, "devicePlugin": {"image": "mine"}}, {}, {}, True, id="of a device plugin"),
        pytest.param(PLAIN, PLAIN, {}, MIRRORED, True, id="a mirror"),
        pytest.param(PLAIN, PLAIN, MIRRORED, {}, True, id="a mirror that goes"),
        pytest.param(PLAIN, PLAIN, {}, NFD, True, id="of NFD"),
        pytest.param(PLAIN, waves("2.2.0", a="2.2.0"), {}, {}, False, id="a new DaemonSet"),
        pytest.param(REPOSITORY, waves("2.2.0", a="2.2.0"), {}, {}, True, id="a new DaemonSet of another one"),
        pytest.param(PLUGIN_OFF, PLAIN, {}, {}, True, id="a device plugin that is switched on"),
        pytest.param(PLAIN, spec("2.3.0"), {}, {}, False, id="another version"),
        pytest.param(PLAIN, spec("sha256:" + "ab" * 32), {}, {}, False, id="a digest of it"),
        pytest.param(PACKAGES, packages(B), {}, {}, True, id="packages"),
        pytest.param(PACKAGES, packages(A.replace("https", "http")), {}, {}, True, id="packages over plain http"),
        pytest.param(packages(A.replace("https", "http")), PACKAGES, {}, {}, False, id="packages over https"),
        pytest.param(PACKAGES, packages(A, B), {}, {}, True, id="further packages"),
        pytest.param(packages(A, B), packages(f"{B}/"), {}, {}, False, id="fewer packages"),
        pytest.param(PACKAGES, packages(), {}, {}, True, id="packages of the nodes' own repositories"),
        pytest.param(
            spec(source={"build": {"repositories": [A]}}), spec(source={"build": {}}), {}, {}, True, id="headers"
        ),
        pytest.param(PLAIN, spec(source={"prebuilt": {}}), {}, {}, False, id="another source of the image"),
    ],
)
def test_a_repository_that_is_new_is_told(
    before: Spec, after: Spec, cluster_before: Spec, cluster: Spec, *, changed: bool
) -> None:
    told = risks(before, after, cluster_before=cluster_before, cluster=cluster)

    assert ("repository-changed" in told) == changed
    assert "registry-changed" not in told


def test_nodes_that_documents_move_to_pods_of_another_repository_are_told() -> None:
    wave = {"name": "a", "nodes": [NAMES[0]], "version": "2.2.0", "repository": "cr.openfuyao.cn/team"}
    waved = spec(rollout={"waves": [wave]})
    renamed = spec(rollout={"waves": [{**wave, "nodes": [NAMES[1]]}]})

    assert {"repository-changed"} <= risks(waved, renamed).keys()
    assert "repository-changed" not in risks(waved, waved, nodes_before=[builders.node(NAMES[0])])


def test_a_policy_that_is_renamed_comes_from_where_it_came_from() -> None:
    assert risks(REPOSITORY, REPOSITORY, name="other").keys().isdisjoint({"repository-changed", "registry-changed"})


@pytest.mark.parametrize(
    ("before", "after", "off"),
    [
        (PACKAGES, packages(A, gpgCheck=False), True),
        (packages(A, gpgCheck=False), packages(A, gpgCheck=False, credentialsSecret="mirror"), False),
        (packages(A, gpgCheck=False), PACKAGES, False),
        (PLAIN, packages(gpgCheck=False), True),
    ],
)
def test_packages_whose_signatures_are_no_longer_checked_are_told(before: Spec, after: Spec, *, off: bool) -> None:
    assert ("signatures-off" in risks(before, after)) == off


@pytest.mark.parametrize(
    ("before", "after", "forced"), [(False, True, True), (True, True, False), (True, False, False)]
)
def test_a_swap_under_the_traffic_of_the_node_is_told(before: bool, after: bool, forced: bool) -> None:
    recipe = builders.recipe("nic", driver={"image": "installer", "modules": [{"name": "nic", "network": True}]})
    plans = (
        builders.view([builders.device_policy("nic", recipe, driver={"network": {"force": each}})], (), EAST)[0]
        for each in (before, after)
    )
    was, now = (sides.of_plan(each, pipeline.manifests_of(each)) for each in plans)

    compared = risk_checks.compared(was, now, basis([], []))

    told = {risk.finding.code for risk in compared.risks} if compared else set[str]()
    assert ("network-forced" in told) == forced


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (PLAIN, spec("latest"), True),
        (spec("latest"), spec("latest", sriov={"hpre": 1}), False),
        (spec("latest"), PLAIN, False),
    ],
)
def test_an_image_that_can_move_is_told_when_it_comes(before: Spec, after: Spec, *, told: bool) -> None:
    assert ("mutable-tag" in risks(before, after)) == told


WATCHER = {
    "watcher": {
        "enabled": True,
        "image": "cr.openfuyao.cn/openfuyao/kae-watcher:1.0.0",
        "secretName": "kae-git",
        "repository": {"url": "https://git.example.com/fleet.git"},
    }
}
PLUGIN_ONLY = spec(enabled=False)
INJECTING = {**PLAIN, "devicePlugin": {"version": "1.4.1", "inject": {"env": {"OPENSSL_CONF": "/var/run/x"}}}}


@pytest.mark.parametrize(
    ("before", "after", "cluster", "gained"),
    [
        pytest.param(UNDRAINED, DRAINED, {}, "may create pods/eviction in every namespace", id="evictions"),
        pytest.param(PLUGIN_ONLY, PLAIN, {}, "container installer is privileged", id="the first driver"),
        pytest.param(PLAIN, PLAIN, WATCHER, "reads Secret kae-git", id="the watcher"),
        pytest.param(PLAIN, waves("2.2.0", a="2.2.0"), {}, None, id="another DaemonSet of the driver"),
        pytest.param(PLAIN, parallel(3), {}, None, id="more Leases"),
        pytest.param(DRAINED, UNDRAINED, {}, None, id="one that is lost"),
        pytest.param(PLAIN, spec(repository="registry.example.com/kae"), {}, None, id="a registry"),
        pytest.param(PLAIN, INJECTING, {}, "sets OPENSSL_CONF=/var/run/x in pods", id="a variable of pods"),
        pytest.param(INJECTING, PLAIN, {}, None, id="a variable that pods lose"),
        pytest.param(PLAIN, spec(env=[{"name": "LOG", "value": "debug"}]), {}, None, id="a variable of the program"),
        pytest.param(PLAIN, PLAIN, {"networkPolicies": {"enabled": True}}, None, id="NetworkPolicies"),
    ],
)
def test_a_new_privilege_of_a_component_is_told(before: Spec, after: Spec, cluster: Spec, gained: str | None) -> None:
    risk = risks(before, after, cluster=cluster).get("privilege-gained")

    assert risk is None if gained is None else risk is not None and gained in "\n".join(risk.finding.notes)


def test_network_policies_that_go_with_their_programs_are_no_risk() -> None:
    confined = {"networkPolicies": {"enabled": True}}
    pairs = (
        ({**confined, **WATCHER}, confined),
        ({**confined, "nfd": {"enabled": True}}, {**confined, "nfd": {"enabled": False}}),
    )
    for before, after in pairs:
        assert "privilege-gained" not in risks(PLAIN, PLAIN, cluster_before=before, cluster=after)


def test_programs_that_lose_their_network_policies_are_told_by_name() -> None:
    confined, free = {"networkPolicies": {"enabled": True}}, {"networkPolicies": {"enabled": False}}

    risk = risks(PLAIN, PLAIN, cluster_before=confined, cluster=free)["privilege-gained"]

    told = "NetworkPolicy kae-driver: its pods are reached, and reach others, by any connection."
    assert told in risk.finding.notes


def test_a_new_cluster_has_no_risks() -> None:
    now, written = made(parallel(9, version="latest"), {}, [builders.node(name) for name in NAMES], "tls")

    compared = risk_checks.compared(None, now, basis([], written))

    assert compared is not None
    assert {risk.finding.code for risk in compared.risks} == {"mutable-tag", "drain-unbounded"}


def test_a_node_that_stands_for_others_counts_as_all_of_them() -> None:
    was, written = made(PLAIN, {}, [builders.node("kp-1")], "tls")
    now, rewritten = made(parallel(5, version="2.3.0"), {}, [builders.node("kp-1")], "tls")
    members = {"kp-1": " ".join(f"kp-{number}" for number in range(1, 7))}

    known = replace(basis(written, rewritten), known=examples.Examples(b"", members))
    compared = risk_checks.compared(was, now, known)

    assert compared is not None
    (risk,) = compared.risks
    assert "6 of its 6 nodes" in risk.finding.message


@pytest.mark.parametrize(
    ("effect", "before", "after", "barred"),
    [
        ("NoSchedule", PLAIN, BIG_STEP, ("kp-1",)),
        ("NoSchedule", waves("2.2.0", a="2.2.0"), waves("2.2.0", a="2.3.0"), ("kp-1",)),
        ("NoSchedule", waves("2.2.0", a="2.2.0"), waves("2.3.0", a="2.2.0"), ()),
        ("NoExecute", PLAIN, BIG_STEP, ()),
        ("NoSchedule", PLAIN, PLAIN, ()),
    ],
)
def test_nodes_whose_pods_go_with_their_template_as_a_taint_lets_no_other_come_are_told(
    effect: str, before: Spec, after: Spec, barred: tuple[str, ...]
) -> None:
    tainted = builders.profile(taints=[builders.taint(f"maintenance=yes:{effect}")])
    nodes = [builders.node(NAMES[0], machine=tainted), *map(builders.node, NAMES[1:])]
    (was, written), (now, rewritten) = (made(each, {}, nodes, "tls") for each in (before, after))

    found = difference.of_cluster(was, now, basis(written, rewritten))

    assert (found.barred if found else ()) == barred


def test_the_account_of_one_more_policy_is_no_other_privilege() -> None:
    one, two = (builders.policy(name, nodeSelector={"matchLabels": {"pool": name}}) for name in ("tls", "vm"))
    nodes, place = [builders.node(labels={"pool": "tls"})], builders.cluster(kubernetesVersion="1.31")
    plans = [builders.view(policies, nodes, place)[0] for policies in ([one], [one, two])]
    was, now = (sides.of_plan(planned, pipeline.manifests_of(planned)) for planned in plans)

    texts = [each.source for each in (one, place, two) if each.source]
    compared = risk_checks.compared(was, now, basis(texts[:2], texts))

    assert compared
    assert "privilege-gained" not in {risk.finding.code for risk in compared.risks}
    assert any(pair.ref.name == "kae-driver-vm" for pair in compared.objects)
