"""`kae plan` and `kae diff` before the real DaemonSet controller, which makes and replaces exactly their pods."""

import copy
import json
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import in_process, project, revisions
from tests.cluster.simulated import fleets, placements, stages

NODES = 30
SEED = 11

Policies = list[dict[str, Any]]
Pods = Mapping[tuple[str, str], str]
"""The uid of each pod, by DaemonSet and node."""


def _driver(policy: dict[str, Any], **fields: Any) -> None:
    policy["spec"].setdefault("driver", {}).update(fields)


def _device_plugin(policy: dict[str, Any], **fields: Any) -> None:
    policy["spec"].setdefault("devicePlugin", {}).update(fields)


REDRAW = "redraw"
EDITS: Mapping[str, Callable[[random.Random, dict[str, Any]], None]] = {
    "version": lambda draw, policy: _driver(policy, version=f"2.9.{draw.randrange(99)}"),
    "drain": lambda draw, policy: _driver(policy, drain={"timeoutSeconds": draw.randrange(9, 99)}),
    "sharing": lambda draw, policy: _device_plugin(policy, sharing={"hpre": draw.randrange(2, 9)}),
    "rename": lambda draw, policy: policy["metadata"].update(name=f"renamed-{draw.randrange(999)}"),
    "pace": lambda draw, policy: _device_plugin(policy, maxUnavailable=f"{draw.randrange(50, 99)}%"),
    "labels": lambda draw, policy: policy["spec"].update(daemonSets={"labels": {"team": f"t{draw.randrange(99)}"}}),
}
"""Edits of each policy; the pace touches no pod."""

SORTS = (*EDITS, REDRAW, "rename", "version", *[REDRAW] * 6)


class Fleet:
    def __init__(self, stage: stages.Stage, hosts: Sequence[Any], folder: Path) -> None:
        self.repository = folder / "repository"
        self._stage = stage
        self._hosts = hosts
        self._folder = folder
        self._draw = random.Random(SEED)  # noqa: S311 - drawn again from its seed
        self._policies: Policies = []

    def change(self, sort: str) -> None:
        """Edit the policies until they compile, commit and apply them, and wait for their pods."""
        for attempt in range(50):
            edited = self._edited(sort)
            documents = self._stage.documents(*edited)
            root = project.write(self._folder / f"{sort}-{self._draw.random()}-{attempt}", documents)
            if in_process.kae(root, "compile").code == 0:
                break
        else:
            pytest.fail(f"no edit of the sort '{sort}' compiles")
        for path in self.repository.glob("*/*.*"):
            path.unlink()
        revisions.commit(project.write(self.repository, documents), sort)
        self._policies = edited
        self._stage.apply(root)
        self._stage.wait_for(placements.foretold(root))

    def pods(self) -> Pods:
        return {(pod.daemon_set, pod.node): pod.uid for pod in self._stage.pods()}

    def claimed(self) -> Any:
        return json.loads(in_process.kae(self.repository, "diff", "HEAD~1", "--to", "HEAD", "-o", "json").out)["pods"]

    def _edited(self, sort: str) -> Policies:
        policies = copy.deepcopy(self._policies)
        if sort == REDRAW:
            policies = fleets.policies(self._draw, self._hosts)
        for policy in policies:
            if sort == REDRAW:
                _device_plugin(policy, maxUnavailable="100%")
            elif self._draw.random() < 0.7:  # Not every policy can have every edit.
                EDITS[sort](self._draw, policy)
            rollout = policy["spec"].setdefault("driver", {}).setdefault("rollout", {})
            rollout.update({"maxUnavailable": "100%", "minReadySeconds": 0})
        return policies


@pytest.fixture(scope="module")
def hosts() -> Sequence[Any]:
    return fleets.hosts(random.Random(SEED), NODES)  # noqa: S311 - drawn again from its seed


def test_the_controller_has_the_pods_of_the_plan_and_touches_those_of_the_difference(
    stage: stages.Stage, hosts: Sequence[Any], tmp_path: Path
) -> None:
    fleet = Fleet(stage, hosts, tmp_path)
    fleet.change(REDRAW)
    was = fleet.pods()

    for sort in SORTS:
        fleet.change(sort)
        now = fleet.pods()
        touched = real(was, now)
        sys.stdout.write(f"{sort}: {[(fate, len(keys)) for fate, keys in touched.items()]}\n")
        assert {fate: named(fleet.claimed(), fate) for fate in touched} == touched, sort
        was = now


def real(was: Pods, now: Pods) -> dict[str, set[tuple[str, str]]]:
    return {
        "created": set(now.keys() - was.keys()),
        "replaced": {key for key in was.keys() & now.keys() if was[key] != now[key]},
        "deleted": set(was.keys() - now.keys()),
    }


def named(claimed: Any, fate: str) -> set[tuple[str, str]]:
    return {(item["name"], node) for item in claimed for node in item[fate]}
