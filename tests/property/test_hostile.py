"""Whatever a project holds, no command reads or writes anything outside of it, and every command ends in a sentence."""

import random
from pathlib import Path

import pytest

from compiler.project import links
from tests import effort
from tests.property import campaign
from tests.property.hostile import acts, trees

pytestmark = pytest.mark.long


@pytest.mark.seeded
@pytest.mark.parametrize("seed", range(5, 5 + effort.examples(gate=3, long=20)))  # `make hostile` goes further
def test_in_a_hostile_tree_every_command_ends_in_a_sentence(seed: int) -> None:
    assert campaign.in_memory(trees.visit, seed).faults == []


def _link(_: random.Random, folder: Path) -> None:
    (folder / "policies/a.yaml").symlink_to("../../outside/secret")


def test_a_compiler_that_follows_links_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acts, "ACTS", {"link": _link})
    monkeypatch.setattr(links, "is_inside", lambda *_: True)

    assert {fault.rpartition(": ")[2] for fault in trees.visit(1, tmp_path).faults} == {"it prints a secret"}
