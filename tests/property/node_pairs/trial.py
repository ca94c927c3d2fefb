"""A trial: two commits of a random project, the answer of `kae diff`, and what an installer did on the node."""

import copy
import json
import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests import in_process, revisions
from tests.property import campaign
from tests.property import daemonset_controller as controller
from tests.property.node_pairs import hosts, projects

_TRIES = 20
_EDITS = 3


def trial(seed: int, folder: Path) -> campaign.Result:
    """Make two commits in an empty folder, and compare what `kae diff` says of the driver with what happens to it."""
    draw = random.Random(seed)  # noqa: S311 - trials are drawn again from their seed
    repository = folder / "repository"
    repository.mkdir()
    project = draw.choice((projects.kae, projects.lab, projects.lab))(draw)
    for _ in range(draw.randrange(3)):
        projects.EDITS[draw.choice(("a parameter", "a program", "modules to replace", "virtual functions"))][0](
            draw, project
        )
    first = committed(project, repository)
    if isinstance(first, str):
        return campaign.Result(seed=seed, faults=[f"the first project does not compile: {first}"])
    for _ in range(_TRIES):
        edited = copy.deepcopy(project)
        sorts = projects.edit(draw, edited, _EDITS)
        if not sorts:
            continue
        second = committed(edited, repository)
        if not isinstance(second, str):
            pair = _Pair(seed=seed, sorts=sorts, before=project, after=edited, brought=(first, second))
            return _compared(pair, folder, draw)
    return campaign.Result(seed=seed, faults=[f"no edit compiles: {second}"])


def committed(project: projects.Project, repository: Path) -> hosts.Wanted | str | None:
    """Commit a project and return what its output brings to the node, None for nothing, or why it does not compile."""
    project.write(repository)
    accepted = [part for what in ("drivers", "device-plugins", "programs") for part in ("--accept", f"removes-{what}")]
    answer = in_process.kae(repository, "compile", "--no-cache", "-q", *accepted)
    if answer.code:
        if (repository / ".git").exists():
            revisions.git(repository, "checkout", "--quiet", "--", ".")
        return answer.err
    revisions.commit(repository)
    every = daemon_sets(repository).values() if project.is_known else ()
    found = [hosts.wanted(item) for item in every if controller.runs_on(item, project.node)]
    assert len(found) < 2, "a node has two installers"
    return found[0] if found else None


def daemon_sets(repository: Path) -> Mapping[str, Any]:
    """Return the DaemonSets of installers in an output, by name."""
    paths = sorted(repository.glob("output/east/**/daemonset-*driver*.yaml"))
    objects = [yaml.load(path.read_text(), yaml.CSafeLoader) for path in paths]
    return {item["metadata"]["name"]: item for item in objects}


def effect(answer: str) -> dict[str, Any]:
    """Return the effect on the driver of the node in an answer of `kae diff`; nothing without one."""
    found = [item for item in json.loads(answer)["effects"] if "n1" in item["nodes"]]
    return next((item for item in found if item["driver"] or item["driverPod"]), {})


def _compared(pair: "_Pair", folder: Path, draw: random.Random) -> campaign.Result:
    answer = in_process.kae(folder / "repository", "diff", "HEAD~1", "--to", "HEAD", "-o", "json")
    result = campaign.Result(seed=pair.seed, acts=tuple(pair.sorts), faults=[answer.err] if answer.code else [])
    if answer.code:
        return result
    said = Said(effect(answer.out))
    was, now = pair.brought
    if was is None or now is None:
        result.counts.update({"pairs": 1, f"{said.work}, without an installer on a side": 1})
        result.faults.extend(said.faults_of_placement(had=was is not None, has=now is not None))
        return result
    with hosts.host(folder, pair.before, draw) as host:
        first = host.bring(was)
        if not first.ready:
            result.faults.append(f"the first config is not proved: {first.reason}")
            return result
        occupied = draw.random() < 0.5
        host.boot(pair.after.kernel)
        # An inventory may be older than the boot, after which the installer had time for the driver.
        if settled := said.boots and draw.random() < 0.5:
            host.bring(was)
        if occupied and (settled or not said.boots):
            host.occupy(was.config)
        happened = host.bring(now)
    if first.foreign:
        result.counts.update({"pairs": 1, "pairs with a driver of others": 1})
        result.faults.extend(
            f"{said.work} {said.reasons}: {fault}; {happened}" for fault in said.faults_of_safety(happened)
        )
        return result
    result.counts.update({"pairs": 1, "pairs with a pod": occupied, f"{now.config.recipe}: {said.work}": 1})
    if said.work == "may-swap":
        result.counts.update({"may": 1, f"may, for {said.reasons[0]}": 1})
    faults = (
        *said.faults(happened, pair.after.needed(now.config.names)),
        *said.faults_of_evictions(happened, occupied=occupied),
    )
    result.faults.extend(f"{said.work} {said.reasons}: {fault}; {happened}" for fault in faults)
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """Two projects, and what their outputs bring to the node."""

    seed: int
    sorts: list[str]
    before: projects.Project
    after: projects.Project
    brought: tuple[hosts.Wanted | None, hosts.Wanted | None]


class Said:
    """What `kae diff` says of the driver on the node."""

    def __init__(self, effect: dict[str, Any]) -> None:
        """Without an effect it says that nothing happens."""
        self.work: str | None = effect.get("driver")
        self.reasons: list[str] = effect.get("reasons", [])
        self._drains = effect.get("drain") is not None
        self.boots = "kernels" in effect
        self._may_swap = bool(set(self.reasons[1:]).difference(_ALONE.get(self.work or "", ())))

    def faults(self, happened: hosts.Happened, modules: Collection[str]) -> Iterator[str]:
        """Yield where it is not what happened to the modules and files of the driver."""
        if not happened.ready:
            yield "the installer does not come to an end"
        agrees = {
            "swaps": happened.unloaded or (self.boots and happened.loaded.issuperset(modules)),
            "reloads": happened.unloaded and (self._may_swap or not happened.files),
            "functions": happened.functions and (self._may_swap or not happened.unloaded),
            "removes": not happened.brought.intersection(modules),
            "installs": happened.loaded.issuperset(modules) if self.boots else bool(happened.loaded),
            "may-swap": True,
        }
        nothing = not (happened.unloaded or happened.functions or happened.files or happened.parameters)
        if not agrees.get(str(self.work), nothing):
            yield "that is not what happened"

    def faults_of_safety(self, happened: hosts.Happened) -> Iterator[str]:
        """Yield where it says that a driver stays that is taken out of use."""
        if (happened.unloaded or happened.evicted) and not self._drains:
            yield "the driver was taken out of use, of which nothing is said"

    def faults_of_placement(self, *, had: bool, has: bool) -> Iterator[str]:
        """Yield where it is not what follows from an installer that comes or goes."""
        if self.work not in (
            (None, "installs", "may-swap", "removes") if has else (None, "leaves", "removes", "cleared")
        ):
            yield f"{self.work}, with an installer {had} before and {has} after"
        if had != has and self.work is None:
            yield "an installer comes or goes, and nothing is said"

    def faults_of_evictions(self, happened: hosts.Happened, *, occupied: bool) -> Iterator[str]:
        """Yield where it says nothing of pods that were evicted, or the other way round."""
        disturbed = happened.unloaded or happened.functions
        if happened.evicted and not disturbed:
            yield "pods were evicted, and nothing was taken out of use"
        if disturbed and occupied and not (happened.evicted or self.boots):
            yield "the driver was taken out of use under a pod"
        if happened.evicted and not self._drains:
            yield "pods were evicted, of which nothing is said"


_ALONE = {"reloads": {"moduleParameters", "nodes"}, "functions": {"sriov"}}
"""The reasons for which no more is done than a work."""
