"""A trial: an installer comes to a node or goes from it, and the host has, or has not, a driver of an earlier policy.

Nobody counts on a driver of a node that joins, or of one on which NFD had found no hardware: such hosts have none.
"""

import copy
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests import in_process
from tests.property import campaign
from tests.property.node_pairs import hosts, projects, trial


def _unknown(project: projects.Project) -> None:
    project.is_known = False


def _unfound(project: projects.Project) -> None:
    project.has_hardware = False


def _without_policy(project: projects.Project) -> None:
    project.has_policy = False


def _disabled(project: projects.Project) -> None:
    project.policy["driver"]["enabled"] = False


WITHOUT: Mapping[str, Callable[[projects.Project], None]] = {
    "the node is not in the inventory": _unknown,
    "NFD finds no hardware": _unfound,
    "there is no policy": _without_policy,
    "the driver counts as pre-installed": _disabled,
}
"""Why a node has no installer."""

_NEW = frozenset({"the node is not in the inventory", "NFD finds no hardware"})
"""The reasons for which nodes have no driver either."""


def of_campaign(seed: int, folder: Path) -> campaign.Result:
    """Make the trial of a campaign: each fifth is about an installer that comes or goes."""
    return (tried if seed % 5 == 0 else trial.trial)(seed, folder)


def tried(seed: int, folder: Path) -> campaign.Result:
    """Make commits in an empty folder, and compare what `kae diff` says of the last one with what happens to a host."""
    draw = random.Random(seed)  # noqa: S311 - trials are drawn again from their seed
    repository = folder / "repository"
    repository.mkdir()
    why, goes = draw.choice(tuple(WITHOUT)), draw.random() < 0.3
    # The recipe of the lab is for every hardware.
    project = draw.choice((projects.kae, projects.kae if why == "NFD finds no hardware" else projects.lab))(draw)
    if draw.random() < 0.5:
        project.policy["driver"]["enabledCleanup"] = True
    without, later = copy.deepcopy(project), copy.deepcopy(project)
    WITHOUT[why](without)
    projects.EDITS["a version"][0](draw, later)
    if draw.random() < 0.15:
        later.policy["driver"]["state"] = "Absent"
    steps = (project, without) if goes else (project, without, later)
    brought = [trial.committed(each, repository) for each in steps]
    result = campaign.Result(seed=seed, acts=(f"{'goes' if goes else 'comes'}: {why}",))
    if wrong := [each for each in brought if isinstance(each, str)]:
        result.faults.extend(wrong)
        return result
    answer = in_process.kae(repository, "diff", "HEAD~1", "--to", "HEAD", "-o", "json")
    said = trial.Said(trial.effect(answer.out))
    result.counts.update({"pairs": 1, f"{result.acts[0]}: {said.work}": 1})
    first, last = brought[0], brought[-1]
    assert isinstance(first, hosts.Wanted)
    with hosts.host(folder, project, draw, is_bare=goes or why in _NEW) as host:
        has_driver = goes or (why not in _NEW and draw.random() < 0.5)
        if has_driver:
            host.bring(first)
            if draw.random() < 0.5:
                host.occupy(first.config)
        if isinstance(last, hosts.Wanted):
            faults = _of_coming(said, host.bring(last), last, why)
        else:
            is_deleted = first.name not in trial.daemon_sets(repository)
            faults = _of_going(said, host.end(first, is_deleted=is_deleted), first, why)
        result.faults.extend(f"{said.work} {said.reasons}, {result.acts[0]}: {fault}" for fault in faults)
    return result


def _of_coming(said: trial.Said, happened: hosts.Happened, now: hosts.Wanted, why: str) -> Iterator[str]:
    """Yield where it is not what happened as an installer came."""
    if not happened.ready:
        yield f"the installer does not come to an end: {happened.reason}"
    yield from said.faults_of_safety(happened)
    if now.config.state == "Absent":
        if said.work not in ("removes", "cleared") or happened.brought.intersection(now.config.names):
            yield f"the driver is to be removed; {happened}"
    elif said.work not in ("installs", "may-swap"):
        yield "an installer comes, and nothing is said"
    elif said.work == "may-swap" and why in _NEW:
        yield "the node has no driver"
    elif said.work == "installs" and (happened.unloaded or not happened.loaded):
        yield f"that is not what happened: {happened}"


def _of_going(said: trial.Said, happened: hosts.Happened, was: hosts.Wanted, why: str) -> Iterator[str]:
    """Yield where it is not what happened as an installer went."""
    yield from said.faults_of_safety(happened)
    stays = bool(happened.brought.intersection(was.config.names))
    if was.config.source.in_tree is None and said.work == "removes" and stays:
        yield f"the driver stays: {happened}"
    if said.work in ("leaves", None) and (happened.unloaded or happened.files):
        yield f"the driver does not stay: {happened}"
    if said.work is None and why != "the node is not in the inventory":
        yield "an installer goes, and nothing is said"
