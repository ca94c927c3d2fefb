"""Whatever a project holds, no command reads or writes anything outside of it, and every command ends in a sentence."""

import random
from pathlib import Path

import pytest

from compiler.project import links
from tests import in_process
from tests.property.hostile import acts, trees


@pytest.mark.parametrize("seed", range(8))  # `make hostile` goes further
def test_in_a_hostile_tree_every_command_ends_in_a_sentence_and_leaves_the_rest_alone(seed: int) -> None:
    assert trees.visited(seed).wrongs == []


def _link(_: random.Random, folder: Path) -> None:
    (folder / "policies/a.yaml").symlink_to("../../outside/secret")


def _write(_: random.Random, folder: Path) -> None:
    (folder / "policies/a.yaml").write_text("a: b: c\n")


def test_a_compiler_that_follows_links_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acts, "ACTS", {"link": _link})
    monkeypatch.setattr(links, "is_inside", lambda *_: True)

    assert {wrong.rpartition(": ")[2] for wrong in trees.visit(1, tmp_path).wrongs} == {"it prints a secret"}


def test_a_command_that_writes_beside_the_project_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(folder: Path, _: tuple[str, ...]) -> tuple[in_process.Answer, str]:
        (folder.parent / "outside/new").write_text("")
        return in_process.Answer(1, "", "a sentence."), ""

    monkeypatch.setattr(acts, "ACTS", {"write": _write})
    monkeypatch.setattr(trees, "_answer", answer)

    assert "it wrote beside output/ and the cache" in trees.visit(1, tmp_path).wrongs[0]
