"""Differences from the plan take few lines, however many nodes there are."""

from typing import Any

import pytest
from msgspec import structs

import compiler
from compiler.status import cluster_status, drift, live_objects, rollout
from compiler.status import text as status_text

WANTED = rollout.Wanted(namespace="n", name="kae-driver-tls", app="kae-driver", planned={})
EMPTY = cluster_status.ClusterStatus(
    cluster="east",
    server="https://east",
    output="fine",
    nodes=(),
    unknown=(),
    gone=(),
    rollouts=(),
    deployments=(),
    templates=(),
    leases=(),
    drifts=(),
)


PLUGIN = "registry.example.com/team/kae-device-plugin"
DIGEST = f"sha256:{'2' * 64}"


def problem(node: str, reason: str = "", kind: rollout.Kind = "missing", since: str = "") -> rollout.Problem:
    return rollout.Problem(kind=kind, node=node, pod="", reason=reason, since=since, image="")


def rolled_out(*problems: rollout.Problem, exists: bool = True, observed: bool = True) -> rollout.Rollout:
    return rollout.Rollout(
        wanted=WANTED, exists=exists, observed=observed, pods=0, ready=0, current=0, problems=problems, held_up_by=()
    )


def shown(**fields: object) -> list[str]:
    """The lines of a standing; a time is the number of seconds since it."""
    shown = structs.replace(EMPTY, **fields)
    return status_text.text(shown, lambda time: int(time) if time else None).splitlines()


def changed(wanted: object, live: object) -> list[str]:
    """The lines that a changed field adds to its object's."""
    ref = cluster_status.Ref(api_version="v1", kind="ConfigMap", namespace="n", name="a")
    change = drift.Change(path="data.x", wanted=wanted, live=live)
    lines = shown(drifts=(cluster_status.Drift(ref=ref, state="changed", file="f", changes=(change,)),))
    return lines[lines.index("  changed  ConfigMap n/a") + 1 :]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (7199, "119m"),
        (7200, "2h"),
        (172_799, "47h"),
        (172_800, "2d"),
        (None, "an unknown time"),
    ],
)
def test_an_age_is_written_as_kubectl_does(seconds: int | None, text: str) -> None:
    assert status_text.age(seconds) == text


def test_an_empty_cluster_without_wishes_is_as_planned() -> None:
    assert shown()[0] == "cluster east at https://east, 0 nodes: as planned"


def test_nodes_with_the_same_trouble_share_a_line() -> None:
    many = [problem(f"node-{number:02}", "no space", since=str(number)) for number in range(20)]

    lines = shown(rollouts=(rolled_out(*many, problem("other", "no image")),))

    named = ", ".join(f"node-{number:02}" for number in range(8))
    assert f"  kae-driver-tls on {named} and 12 more: no pod for 19s: no space" in lines
    assert "  kae-driver-tls on other: no pod: no image" in lines
    assert any(line.endswith("21 no pod") for line in lines)


@pytest.mark.parametrize(
    ("item", "state"),
    [
        (rolled_out(), "as planned"),
        (rolled_out(exists=False), "not there"),
        (rolled_out(observed=False), "its controller has not seen the last change"),
        (rolled_out(problem("a", kind="old"), problem("b"), problem("c")), "2 no pod, 1 old"),
    ],
)
def test_the_state_of_a_daemonset_is_said_in_few_words(item: rollout.Rollout, state: str) -> None:
    assert any(line.endswith(f"    {state}") for line in shown(rollouts=(item,)))


@pytest.mark.parametrize(
    ("wanted", "live", "text"),
    [
        ("a", "b", 'data.x: "b" instead of "a"'),
        ({"k": 1}, None, 'data.x: {"k": 1} is missing'),
        (None, True, "data.x: true is not in the output"),
        ("a", "ü" * 200, f'data.x: "{"ü" * 79}… instead of "a"'),
        ("a", "\x1b[2J", 'data.x: "\\u001b[2J" instead of "a"'),
    ],
)
def test_a_change_is_shown_with_both_values(wanted: object, live: object, text: str) -> None:
    assert changed(wanted, live) == [f"             {text}"]


def test_the_words_of_a_cluster_cannot_repaint_the_terminal() -> None:
    assert "  kae-driver-tls on a: no pod: \\x1b[2J" in shown(rollouts=(rolled_out(problem("a", "\x1b[2J")),))


@pytest.mark.parametrize(
    ("live", "line"),
    [
        ({}, "  kae-watcher: not there"),
        ({"found": True, "replicas": 1, "reason": "quota"}, "  kae-watcher: 0 of 1 available: quota"),
    ],
)
def test_a_deployment_that_is_not_up_is_named(live: dict[str, Any], line: str) -> None:
    lines = shown(deployments=(live_objects.Deployment(namespace="n", name="kae-watcher", **live),))

    assert line in lines
    assert lines[0].endswith("not as planned")


@pytest.mark.parametrize(
    ("output", "words"),
    [("old", "is not what the documents compile to"), ("incomplete", "interrupted"), ("edited", "edited by hand")],
)
def test_an_output_that_is_not_as_compiled_is_not_as_planned(output: str, words: str) -> None:
    lines = shown(output=output)

    assert lines[0].endswith("not as planned")
    assert words in lines[1]


def test_programs_of_other_releases_are_told_of_pods_and_of_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "__version__", "0.2.0")
    pods = structs.replace(rolled_out(), images=(f"{PLUGIN}:0.2.0", f"{PLUGIN}:0.1.0"))

    lines = shown(rollouts=(pods,), templates=(("kae-watcher", "kae-watcher:0.1.9"),))

    told = lines[lines.index("other releases:") :]
    assert "  kae-driver-tls runs 0.1.0 of kae, and this is 0.2.0" in told
    assert "  kae-watcher runs 0.1.9 of kae, and this is 0.2.0" in told


def test_a_program_by_another_digest_is_told_by_the_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "__version__", "0.2.0")
    other = cluster_status.Skew(name="kae-device-plugin-tls", image=f"{PLUGIN}@{DIGEST}", release="")
    monkeypatch.setattr(cluster_status.ClusterStatus, "skews", (other,))

    assert "  kae-device-plugin-tls runs kae-device-plugin@222222222222, and this is 0.2.0" in shown()


@pytest.mark.parametrize("kind", ["Deployment", "CronJob"])
def test_the_image_of_a_template_is_that_of_its_first_container(kind: str) -> None:
    spec = {"template": {"spec": {"containers": [{"image": "first"}, {"image": "second"}]}}}
    raw = {"kind": kind, "spec": {"jobTemplate": {"spec": spec}} if kind == "CronJob" else spec}

    assert live_objects.template_image(raw) == "first"
