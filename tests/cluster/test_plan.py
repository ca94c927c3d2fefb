"""`kae plan` before the real DaemonSet controller: the pods that it makes are those that the plan foretells."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests import in_process, project
from tests.cluster.control import control_plane as control_planes
from tests.cluster.control import objects as kinds
from tests.cluster.simulated import fleets, placements, stages
from tests.property.fleets import machines

NODES = 200
SETS = range(20)


@pytest.fixture(scope="module")
def hosts() -> Sequence[machines.Machine]:
    return fleets.hosts(random.Random(0), NODES)  # noqa: S311 - They are to be the same each time.


@pytest.fixture(scope="module")
def opened(
    control_plane: control_planes.ControlPlane,
    objects: kinds.Objects,
    hosts: Sequence[machines.Machine],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[stages.Stage]:
    with stages.without_kubelets(control_plane, objects, hosts, tmp_path_factory.mktemp("devices")) as stage:
        yield stage


@pytest.fixture
def stage(opened: stages.Stage) -> Iterator[stages.Stage]:
    """No DaemonSet and no pod is there before, and none is left."""
    yield opened
    opened.clear()


def compiled(folder: Path, seed: int, stage: stages.Stage, hosts: Sequence[machines.Machine]) -> Path:
    """Return the project with the first policies of the seed that compile and reach a node."""
    draw = random.Random(seed)  # noqa: S311 - They are to be the same each time.
    for attempt in range(20):
        root = project.write(folder / str(attempt), stage.documents(*fleets.policies(draw, hosts)))
        if in_process.kae(root, "compile").code == 0 and placements.foretold(root):
            return root
    raise AssertionError(f"No policies of seed {seed} compile and reach a node.")


@pytest.mark.parametrize("seed", SETS)
def test_the_pods_that_the_controller_makes_are_those_that_the_plan_foretells(
    seed: int, stage: stages.Stage, hosts: Sequence[machines.Machine], tmp_path: Path
) -> None:
    root = compiled(tmp_path, seed, stage, hosts)

    stage.apply(root)
    stage.wait_for(placements.foretold(root))

    assert stage.placed() == placements.foretold(root)
