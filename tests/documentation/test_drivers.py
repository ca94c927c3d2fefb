"""The pages on drivers say what holds: examples compile and work, explained sentences are those of the installer."""

import ast
import re
import runpy
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs import messages
from installer import cli, sources
from installer.host import digests
from runtime import driver_config
from tests import in_process, project
from tests.documentation import pages, sentences
from tests.installer import machines, settings

ROOT = pages.ROOT
PAGE = ROOT / "docs/drivers.md"
TROUBLES = ROOT / "docs/troubleshooting.md"
EXAMPLES = {path.stem: path for path in sorted((ROOT / "docs/examples/drivers").glob("*.yaml"))}
PROGRAM = sorted({*ROOT.glob("installer/**/*.py"), *ROOT.glob("runtime/*.py")} - {*ROOT.glob("runtime/api/*")})
CLIENT = sorted(ROOT.glob("compiler/kube/*.py"))
"""The installer writes its sentences with a capital first letter."""
STATUS = ROOT / "tests/installer/reports/failed.status.txt"

CLUSTER = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: KAECluster
metadata:
  name: east
spec:
  kubernetesVersion: "1.30"
"""

FAILURES = {"Failure", "ConfigError", "Blocked", "Queued", "Refused", "Unreachable", "Unkillable", "Fault", "__init__"}
"""The names of calls that take a sentence for people."""

LEAST = 15
"""Letters that a sentence must have beside its gaps, to be one."""


@pytest.fixture(scope="module")
def program() -> list[ast.Module]:
    """The sources of the installer, and of what it shares with others."""
    return [ast.parse(path.read_text("utf-8")) for path in PROGRAM]


def explained() -> list[str]:
    """The sentences of which docs/messages.md gives cause and remedy."""
    return messages.sentences("Driver installer")


def below(page: Path, heading: str) -> list[str]:
    """The sentences in the tables below a heading of a page."""
    return sentences.quoted(pages.chapter(pages.text_of(page), heading))


def driver(policy: Path) -> dict[str, Any]:
    """Return the driver of an example."""
    found: dict[str, Any] = yaml.safe_load(policy.read_text("utf-8"))["spec"]["driver"]
    return found


def told(policy: Path, folder: Path) -> driver_config.Config:
    """The installer's config that a policy becomes, where no warning stands against it."""
    project.write(folder, {"policies/policy.yaml": policy.read_text("utf-8"), "policies/cluster.yaml": CLUSTER})
    (folder / "inventory").mkdir()
    answer = in_process.kae(folder, "compile", "--strict")
    assert answer.code == 0, answer.err
    (manifest,) = folder.glob("output/east/driver/daemonset-*.yaml")
    template = yaml.safe_load(manifest.read_text("utf-8"))["spec"]["template"]
    path = folder / "config.json"
    path.write_text(template["metadata"]["annotations"]["device.openfuyao.com/config"], "utf-8")
    return driver_config.load(path)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_compiles_without_a_warning_to_what_the_installer_reads(name: str, tmp_path: Path) -> None:
    asked = driver(EXAMPLES[name])

    stated = told(EXAMPLES[name], tmp_path)

    assert [stated.source.name] == list(asked["source"])
    assert stated.driver_version == asked["version"]


def test_every_source_has_an_example() -> None:
    shown = {name for path in EXAMPLES.values() for name in driver(path)["source"]}

    assert shown == {"build", "packages", "prebuilt", "inTree"}


@pytest.mark.parametrize("name", ["prebuilt", "in-tree", "take-over", "remove"])
def test_a_host_with_a_driver_of_others_ends_as_an_example_says(name: str, tmp_path: Path) -> None:
    machine, image = machines.with_kae(tmp_path / "host", "2.0.0"), tmp_path / "image"
    machine.add_image(image, "2.0.2")
    stated = told(EXAMPLES[name], tmp_path / "project")

    shown = settings.installed(machine, image, stated=stated)

    replaced = name == "take-over"
    assert shown.state == ("Ready" if replaced else "Foreign")
    assert machine.loaded()["hisi_hpre"][0] == ("2.0.2" if replaced else "2.0.0")


@pytest.mark.parametrize("name", ["prebuilt", "in-tree"])
def test_a_host_without_a_driver_gets_what_an_example_asks_for(name: str, tmp_path: Path) -> None:
    machine, image = machines.Machine(tmp_path / "host"), tmp_path / "image"
    machine.add_image(image, "2.0.2")
    stated = told(EXAMPLES[name], tmp_path / "project")

    shown = settings.installed(machine, image, stated=stated)

    assert shown.reason == "The driver 2.0.2 is loaded and verified."
    assert machine.parameters("hisi_hpre")["pf_q_num"] == (512 if name == "prebuilt" else 256)
    assert len(machine.vfs("0000:75:00.0")) == (4 if name == "prebuilt" else 0)


def test_every_excerpt_of_a_policy_stands_in_an_example() -> None:
    examples = [path.read_text("utf-8") for path in EXAMPLES.values()]

    for block in pages.blocks(PAGE, "yaml"):
        places = [textwrap.indent(textwrap.dedent(block), " " * depth) for depth in range(0, 10, 2)]
        assert any(place in example for place in places for example in examples), block


def test_the_status_that_is_shown_is_that_of_a_host_on_which_an_upgrade_failed() -> None:
    (shown,) = pages.blocks(PAGE, "text")

    assert shown in STATUS.read_text("utf-8")


def test_every_sentence_that_is_explained_is_one_of_the_installer(program: list[ast.Module]) -> None:
    client = [text for path in CLIENT for text in sentences.texts(ast.parse(path.read_text("utf-8")))]
    known = [text for tree in program for text in sentences.texts(tree)]
    known += [text[:1].upper() + text[1:] for text in client]

    for sentence in (*explained(), *below(TROUBLES, "The driver")):
        assert len(sentence.replace(sentences.GAP, "")) >= LEAST, sentence
        assert any(sentences.says(text, sentence) for text in known), sentence


def test_every_failure_of_the_installer_is_explained(program: list[ast.Module]) -> None:
    made = {text for tree in program for text in sentences.failures(tree, FAILURES, LEAST)}

    assert {text for text in made if not any(sentences.says(text, one) for one in explained())} == set()


def test_a_sentence_that_nobody_says_is_noticed() -> None:
    (said,) = sentences.texts(ast.parse('f"Module {name} is not loaded."').body[0])

    assert sentences.says(said, "Module … is not loaded.")
    assert not sentences.says(said, "Module … is loaded.")


def test_every_command_of_the_installer_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    named = {word for page in pages.OURS for word in re.findall(r"-m installer (\w+)", pages.text_of(page))}

    for name in named:
        with pytest.raises(SystemExit) as ended:
            cli.main([name, "--help"])
        assert ended.value.code == 0, name
    assert {"plan", "retry", "status"} <= named


def test_the_made_up_source_of_contributing_fills_a_folder_of_the_store(tmp_path: Path) -> None:
    machine, image = machines.Machine(tmp_path / "host"), tmp_path / "image"
    machine.add_image(image, "2.0.1")
    (machine.root / "srv").mkdir()
    (image / "opt/lib/modules").rename(machine.root / "srv/kae")
    (source,) = (block for block in pages.blocks(ROOT / "CONTRIBUTING.md", "python") if "class Local:" in block)
    written = runpy.run_path(str(project.write(tmp_path, {"local.py": source}) / "local.py"))
    context = sources.Context(host=machine.host, image=image, settings=settings.config(), kernel=machine.kernel)
    made: sources.Source = written["Local"](context)
    assert made.fingerprint()
    assert not made.lacks()

    for step in made.steps("/var/lib/kae/drivers/.new"):
        step.act()

    staged = (machine.root / "var/lib/kae/drivers/.new/modules").iterdir()
    assert sorted(path.name for path in staged) == sorted(f"{name}.ko" for name in settings.config().names)
    assert made.fingerprint() != digests.of_folder(image / "opt/lib/modules")
