"""docs/watcher.md says what holds: its example compiles to what the watcher reads, explained sentences are its own."""

import argparse
import ast
import re
from pathlib import Path
from typing import get_type_hints

import pytest
import yaml

from compiler.fleet import clusters
from docs import messages, reference
from runtime import shapes
from runtime import watcher_config as config
from tests import in_process, project
from tests.documentation import pages, sentences
from tests.watcher import fleet
from watcher import cli, commit_message, loss_guard

ROOT = pages.ROOT
PAGE = ROOT / "docs/watcher.md"
TROUBLES = ROOT / "docs/troubleshooting.md"

WATCHER = sorted(ROOT.glob("watcher/**/*.py"))
TALK = [ROOT / f"compiler/kube/{name}.py" for name in ("client", "reader")]
PROGRAM = [*WATCHER, *TALK, ROOT / "compiler/kube/credentials.py", ROOT / "runtime/process.py"]

FAILURES = {
    "Failure",
    "ConfigError",
    "Failed",
    "LostRace",
    "Refused",
    "Unreadable",
    "Denied",
    "Unreachable",
    "Untrusted",
}
"""The names of calls that take a sentence for people; the message of Cancelled is never shown."""

LEAST = 12
"""Letters that a sentence must have beside its gaps, to be one."""


def gapped(text: str) -> str:
    """A text with gaps for the fields of str.format as well."""
    return re.sub(r"\{\w+\}", sentences.GAP, text)


def section(heading: str, level: str = "##") -> str:
    """Return the text below a heading of the page."""
    text = pages.text_of(PAGE).partition(f"\n{level} {heading}\n")[2]
    return re.split(rf"\n{level} ", text)[0]


def test_the_example_becomes_a_config_that_the_watcher_reads(tmp_path: Path) -> None:
    (document,) = pages.blocks(PAGE, "yaml")
    project.write(tmp_path, {"policies/cluster.yaml": document})
    (tmp_path / "inventory").mkdir()

    answer = in_process.kae(tmp_path, "compile")

    assert answer.code == 0, answer.err
    manifest = yaml.safe_load((tmp_path / "output/east/watcher/deployment-kae-watcher.yaml").read_text("utf-8"))
    path = tmp_path / "config.json"
    path.write_text(manifest["spec"]["template"]["metadata"]["annotations"]["device.openfuyao.com/config"], "utf-8")
    stated = shapes.load(path, config.Config)
    asked = yaml.safe_load(document)["spec"]["watcher"]
    assert (stated.repository.url, stated.signing) == (asked["repository"]["url"], asked["signing"]["format"])


def test_the_message_that_is_shown_is_one_of_the_watcher() -> None:
    (shown,) = pages.blocks(PAGE, "text")
    new = [fleet.node(f"kp920-rack2-0{number}") for number in (7, 8)]
    new.append(fleet.node("kp920-rack1-01", kernel_version="6.6.0"))

    old, after = ({node.name: node for node in nodes} for nodes in ([fleet.node("kp920-rack1-01")], new))
    trailer = loss_guard.judge(old, after, loss_guard.Rules(cluster="east", percent=10, nodes=1), lambda: ()).trailer
    text = commit_message.message("inventory({cluster}): {summary}", "east", old, after, trailer)

    assert shown == text


def test_every_sentence_that_is_explained_is_one_of_the_program() -> None:
    trees = [ast.parse(path.read_text("utf-8")) for path in PROGRAM]
    known = [gapped(text) for tree in trees for text in sentences.texts(tree)]
    troubles = pages.chapter(pages.text_of(TROUBLES), "The watcher")

    for sentence in (*messages.sentences("Watcher"), *sentences.quoted(troubles)):
        assert len(sentence.replace(sentences.GAP, "")) >= LEAST, sentence
        assert any(sentences.says(text, sentence) for text in known), sentence


def test_every_failure_of_the_watcher_is_explained() -> None:
    known = messages.sentences("Watcher")
    trees = [ast.parse(path.read_text("utf-8")) for path in (*WATCHER, *TALK)]
    made = {gapped(text) for tree in trees for text in sentences.failures(tree, FAILURES, LEAST)}

    shown = {one for one in made if len(one.replace(sentences.GAP, "")) >= LEAST}

    assert {one for one in shown if not any(sentences.says(one, each) for each in known)} == set()


def test_every_setting_is_explained_in_the_reference() -> None:
    rows = re.findall(r"^\| `watcher\.([\w.]+)` \|.*\| (.*) \|$", pages.text_of(reference.REFERENCE), re.MULTILINE)

    assert {name.partition(".")[0] for name, _ in rows} == set(get_type_hints(clusters.Watcher))
    assert [name for name, meaning in rows if not meaning] == []


def test_the_calls_that_are_shown_parse(capsys: pytest.CaptureFixture[str]) -> None:
    calls = re.findall(r"^    python -m watcher (.*)$", pages.text_of(PAGE), re.MULTILINE)

    for call in calls:
        assert isinstance(cli._parser().parse_args(call.split()), argparse.Namespace)
    assert calls
