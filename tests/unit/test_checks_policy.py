"""Rules for one policy: what breaks each, where it is shown, and what is just within it."""

from typing import Any

import pytest

from compiler import diagnostics
from compiler.checks import policy
from tests import builders

SHA = f"sha256:{'0' * 64}"


def found(**spec: Any) -> list[diagnostics.Diagnostic]:
    """What is wrong with a policy whose images are pinned, unless it says otherwise."""
    pinned = {name: builders.PINNED[name] | spec.get(name, {}) for name in builders.PINNED}
    return list(policy.faults(builders.policy(**{**spec, **pinned})))


def codes(**spec: Any) -> list[str]:
    """The codes of what is wrong with a policy."""
    return builders.codes(found(**spec))


def only(**spec: Any) -> diagnostics.Diagnostic:
    """The one thing that is wrong with a policy."""
    (diagnostic,) = found(**spec)
    return diagnostic


def test_a_pinned_policy_of_defaults_is_sound() -> None:
    assert codes() == []


def test_a_kind_is_enabled() -> None:
    assert codes(operator={"enabledHPRE": False}) == ["no-kind-enabled"]
    assert codes(operator={"enabledHPRE": False, "enabledZIP": True}) == []


def test_the_default_has_no_selector() -> None:
    selector = {"matchLabels": {"pool": "tls"}}

    assert codes(default=True, nodeSelector=selector) == ["default-with-selector"]
    assert codes(default=True) == []
    assert codes(nodeSelector=selector) == []


@pytest.mark.parametrize(
    ("requirement", "code"),
    [
        ({"operator": "In"}, ["selector-values"]),
        ({"operator": "Exists", "values": ["a"]}, ["selector-values"]),
        ({"operator": "Gt", "values": ["a"]}, ["selector-values"]),
        ({"operator": "Gt", "values": ["1", "2"]}, ["selector-values"]),
        ({"operator": "In", "values": ["a"]}, []),
        ({"operator": "DoesNotExist"}, []),
        ({"operator": "Lt", "values": ["5"]}, []),
        ({"operator": "Lt", "values": ["0"]}, ["selector-never-matches"]),
    ],
)
def test_a_requirement_has_the_values_that_its_operator_needs(requirement: dict[str, Any], code: list[str]) -> None:
    assert codes(nodeSelector={"matchExpressions": [{"key": "pool"} | requirement]}) == code


def test_a_selector_that_contradicts_itself_is_shown_by_its_key() -> None:
    diagnostic = only(
        nodeSelector={
            "matchLabels": {"pool": "tls", "zone": "1"},
            "matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["1"]}],
        }
    )

    assert diagnostic.code == "selector-never-matches"
    assert "'zone'" in diagnostic.notes[0]


@pytest.mark.parametrize(
    ("toleration", "field"),
    [
        ({"operator": "Equal"}, "operator"),
        ({"effect": "NoSchedule"}, None),
        ({"key": "a", "operator": "Exists", "value": "1"}, "value"),
        ({"key": "a", "tolerationSeconds": 5, "effect": "NoSchedule"}, "tolerationSeconds"),
        ({"key": "a", "tolerationSeconds": 5}, "tolerationSeconds"),
    ],
)
def test_a_toleration_that_the_api_server_refuses_is_shown_at_its_field(
    toleration: dict[str, Any], field: str | None
) -> None:
    diagnostic = only(daemonSets={"tolerations": [{"operator": "Exists"}, toleration]})

    assert diagnostic.code == "toleration"
    if field:
        assert str(toleration[field]) in diagnostic.span.text


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists"},
        {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0},
        {"key": "a"},
        {"key": "a", "value": "1", "effect": "PreferNoSchedule"},
        {"key": "a", "operator": "Exists", "value": ""},
    ],
)
def test_a_toleration_that_the_api_server_accepts_is_sound(toleration: dict[str, Any]) -> None:
    assert codes(daemonSets={"tolerations": [toleration]}) == []


def test_labels_of_the_compiler_are_not_replaced() -> None:
    own = ("app.kubernetes.io/name", "device.openfuyao.com/policy", "device.openfuyao.com/pool")

    assert codes(daemonSets={"labels": dict.fromkeys(own, "x")}) == ["reserved-label"] * 3
    assert codes(daemonSets={"labels": {"team": "edge"}}) == []


@pytest.mark.parametrize(
    ("part", "code"),
    [
        ({"version": "2.2.0"}, []),
        ({"version": SHA}, []),
        ({"version": "latest"}, ["mutable-tag"]),
        ({"repository": "", "version": "2.2.0"}, ["image-reference"]),
        ({"repository": "r.test/x", "version": ""}, ["image-reference"]),
        ({"repository": "", "version": "", "image": "r.test/x:1"}, []),
        ({"repository": "", "version": "", "image": "r.test/x"}, ["mutable-tag"]),
        ({"repository": "", "version": "", "image": "r.test/x:latest"}, ["mutable-tag"]),
        ({"repository": "", "version": "", "image": f"r.test/x@{SHA}"}, []),
        ({"repository": "", "version": "", "image": ""}, ["image-reference"]),
        ({"repository": "R.test/X"}, ["image-reference"]),
        ({"version": "sha256:0"}, ["image-reference"]),
        ({"version": "-1"}, ["image-reference"]),
        ({"repository": "r.test:5000/a//b"}, ["image-reference"]),
        ({"repository": "r.test:5000/a/b/"}, []),
    ],
)
@pytest.mark.parametrize("name", ["driver", "devicePlugin"])
def test_parts_of_an_image_name_one_that_is_pinned(name: str, part: dict[str, Any], code: list[str]) -> None:
    assert codes(**{name: part}) == code


def test_an_image_that_is_not_used_is_not_judged() -> None:
    assert codes(driver={"enabled": False, "version": "latest"}) == []


@pytest.mark.parametrize(
    ("env", "code"),
    [
        ([("INSTALL_POLICY", "Always")], []),
        ([("INSTALL_POLICY", "Sometimes")], ["install-policy"]),
        ([("INSTALL_POLICY", "")], ["install-policy"]),
        ([("A", "1"), ("B", "1")], []),
        ([("A", "1"), ("A", "1")], ["duplicate-name"]),
        ([("NODE_NAME", "x")], ["duplicate-name"]),
    ],
)
def test_the_environment_names_each_variable_once(env: list[tuple[str, str]], code: list[str]) -> None:
    variables = [{"name": name, "value": value} for name, value in env]

    assert codes(driver={"env": variables}) == code


@pytest.mark.parametrize(
    ("parameters", "sound"),
    [
        ({"hisi_hpre": {"pf_q_num": 2}}, True),
        ({"hisi_hpre": {"pf_q_num": 1}}, False),
        ({"hisi_hpre": {"pf_q_num": 1024}}, True),
        ({"hisi_hpre": {"pf_q_num": 1025}}, False),
        ({"hisi_sec2": {"ctx_q_num": 32}}, True),
        ({"hisi_sec2": {"ctx_q_num": 3}}, False),
        ({"hisi_zip": {"ctx_q_num": 2}}, False),
        ({"hisi_qm": {}}, False),
        ({"hisi_hpre": {"uacce_mode": 2}}, True),
        ({"hisi_hpre": {"uacce_mode": 3}}, False),
    ],
)
def test_a_parameter_is_known_and_in_its_range(parameters: dict[str, dict[str, int]], sound: bool) -> None:
    assert codes(driver={"moduleParameters": parameters}) == ([] if sound else ["module-parameter"])


def test_the_kernels_own_modules_know_fewer_modes() -> None:
    driver = {"source": {"inTree": {}}, "moduleParameters": {"hisi_hpre": {"uacce_mode": 2}}}

    assert only(driver=driver).code == "module-parameter"


@pytest.mark.parametrize(
    ("driver", "code"),
    [
        ({"sriov": {"hpre": 63}}, []),
        ({"sriov": {"hpre": 63}, "moduleParameters": {"hisi_hpre": {"pf_q_num": 961}}}, []),
        ({"sriov": {"hpre": 63}, "moduleParameters": {"hisi_hpre": {"pf_q_num": 962}}}, ["sriov-over-hardware"]),
        ({"sriov": {"hpre": 63}, "moduleParameters": {"hisi_zip": {"pf_q_num": 1024}}}, []),
        ({"sriov": {"hpre": 0}, "moduleParameters": {"hisi_hpre": {"pf_q_num": 1024}}}, []),
        ({"sriov": {"hpre": 1}, "enabled": False}, ["sriov-without-driver"]),
    ],
)
def test_virtual_functions_find_a_driver_and_a_queue_each(driver: dict[str, Any], code: list[str]) -> None:
    assert codes(driver=driver) == code


@pytest.mark.parametrize(("value", "sound"), [(0, False), ("0%", False), (1, True), ("1%", True), ("100%", True)])
def test_a_pod_at_least_may_be_replaced_at_a_time(value: int | str, sound: bool) -> None:
    expected = [] if sound else ["unavailable-zero"]

    assert codes(driver={"rollout": {"maxUnavailable": value}}) == expected
    assert codes(devicePlugin={"maxUnavailable": value}) == expected


@pytest.mark.parametrize(("version", "sound"), [("2.2.0", True), (SHA, False), ("latest", False)])
def test_a_package_named_after_the_driver_needs_its_release(version: str, sound: bool) -> None:
    source = {"packages": {"names": ["kae-${DRIVER_VERSION}"]}}

    assert ("driver-version" in codes(driver={"version": version, "source": source})) is not sound


def test_a_setting_that_is_not_written_is_shown_at_the_name() -> None:
    item = builders.policy("tls", default=True)

    assert policy.place(item.source, "spec", "driver", "version") == item.source.span("metadata", "name")
    assert policy.place(item.source, "spec", "default").text == "  default: true"
