"""One story on a real cluster: a commit brings a driver to a node, another one changes it, a revert changes it back.

Git host, jobs, GitOps engine, control plane, kubelet, container runtime and images are real; the hardware is fake, and
NFD is played by tests/property/nfd_rules.py. `make test-loop` runs it by itself, with Argo CD and with Flux
(KAE_LOOP_ENGINE): the cluster begins from nothing. ACCEPT=1 keeps the run's record, from which docs/tour.md is written.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import project
from tests.cluster.local import instances
from tests.cluster.loop import record, world
from tests.cluster.loop.story import Story


@pytest.fixture
def story(
    request: pytest.FixtureRequest, instance: instances.Instance, engine_programs: None, tmp_path: Path
) -> Iterator[Story]:
    """Everything is at work, and nothing has been committed yet."""
    if any(item.path != request.path for item in request.session.items):
        pytest.skip("Other tests of this run use the cluster, and this one begins it anew: run `make test-loop`.")
    with world.opened(instance, os.environ.get("KAE_LOOP_ENGINE") or "argocd", tmp_path) as made:
        yield made


def test_a_commit_changes_the_driver_of_a_node_and_its_revert_changes_it_back(story: Story) -> None:
    told = record.of(story)

    if project.accepting():
        record.keep(told)
    assert record.unmeasured(told) == record.unmeasured(record.kept())
