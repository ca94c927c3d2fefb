"""One story on a real cluster: a commit brings a driver to a node, another one changes it, a revert changes it back.

Git host, jobs, GitOps engine, control plane, kubelet, container runtime and images are real; the hardware is fake, and
NFD is played by tests/property/nfd_rules.py. `make test-loop` runs it by itself, with Argo CD and with Flux
(KAE_LOOP_ENGINE): the cluster begins from nothing. ACCEPT=1 keeps the run's record, from which docs/tour.md is written.
"""

import gzip
import json
import os
import re
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from compiler.commands import support_bundle
from tests import in_process, project, tools
from tests.cluster.control import access
from tests.cluster.local import instances
from tests.cluster.loop import hardware, planted, record
from tests.cluster.loop.story import CLUSTER, HPRE, Story, opened

PLANNED = ("findings.txt", "plan.json", "plan.txt", "status.json", "status.txt", "difference.json")


@pytest.fixture(scope="module")
def story(
    request: pytest.FixtureRequest,
    instance: instances.Instance,
    engine_programs: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Story]:
    if any(item.path != request.path for item in request.session.items):
        tools.skip("Other tests of this run use the cluster, and this one begins it anew: run `make test-loop`.")
    engine = os.environ.get("KAE_LOOP_ENGINE") or "argocd"
    with opened(instance, engine, tmp_path_factory.mktemp("loop")) as made:
        yield made


@pytest.fixture(scope="module")
def told(story: Story) -> list[dict[str, Any]]:
    return record.of(story)


def test_a_commit_changes_the_driver_of_a_node_and_its_revert_changes_it_back(
    story: Story, told: list[dict[str, Any]]
) -> None:
    if project.accepting():
        record.keep(told, story)

    assert record.unmeasured(told) == record.unmeasured(record.kept())


# A support bundle


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    answer: in_process.Answer
    raw: str
    """The archive before it is unpacked."""
    texts: Mapping[str, str]


@pytest.fixture(scope="module")
def secrets(story: Story, told: list[dict[str, Any]]) -> Mapping[str, str]:
    return planted.plant(story)


@pytest.fixture(scope="module")
def whole(story: Story, secrets: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return bundle(story, tmp_path_factory.mktemp("bundle"))


def bundle(story: Story, folder: Path, without: tuple[str, str] = ("", "")) -> Bundle:
    target = folder / "bundle.tar.gz"
    objects = access.documented()
    (role,) = (item for item in objects if item["kind"] == "Role")
    for rule in access.rules_of_bundle():
        verbs = [verb for verb in rule["verbs"] if without not in [(name, verb) for name in rule["resources"]]]
        role["rules"] += [{**rule, "verbs": verbs}] if verbs else []
    with access.granted(story.plane, folder, objects) as kubeconfig:
        call = ("support-bundle", "--cluster", CLUSTER, "--kubeconfig", str(kubeconfig), "--output-file", str(target))
        answer = in_process.kae(story.fleet.folder, *call)
        (user,) = json.loads(kubeconfig.read_text())["users"]
    raw = gzip.decompress(target.read_bytes()).decode()
    assert user["user"]["token"] not in raw
    with tarfile.open(target) as packed:
        packed.extractall(folder, filter="data")
    texts = {path: content.decode() for path, content in project.tree(folder / support_bundle.FOLDER).items()}
    return Bundle(answer=answer, raw=raw, texts=texts)


def test_a_support_bundle_has_what_a_report_needs(story: Story, whole: Bundle) -> None:
    texts = whole.texts

    assert whole.answer.code == 0
    assert whole.answer.err == ""
    assert texts["errors.txt"] == "Nothing is missing.\n"
    assert set(PLANNED) < set(texts)
    assert "as planned" in texts["status.txt"]
    deviations = json.loads(texts["difference.json"])
    assert [item["name"] for item in deviations if item["state"] != "kept"] == ["planted"]
    assert "Started" in {event["reason"] for event in json.loads(texts["events.json"])}
    folder = f"nodes/{story.hardware.node.name}/"
    (installer,) = (text for path, text in texts.items() if re.fullmatch(f"{folder}.*-installer-status.txt", path))
    assert f"The driver {hardware.OLD} is loaded and verified." in installer
    (plugin,) = (text for path, text in texts.items() if re.fullmatch(f"{folder}.*-device-plugin-list.txt", path))
    assert HPRE in plugin
    logs = {path.rpartition("/")[2] for path in texts if path.startswith("logs/")}
    assert logs == {"device-plugin.log", "installer.log", "pause.log", "reporter.log", "smoke.log", "watcher.log"}


def test_no_secret_of_the_cluster_is_in_a_support_bundle(secrets: Mapping[str, str], whole: Bundle) -> None:
    assert [place for place, secret in secrets.items() if secret in whole.raw + whole.answer.out] == []
    # What stands beside them is there.
    assert " cloning https://" in "".join(text for path, text in whole.texts.items() if path.endswith("smoke.log"))
    assert "git fetch https://" in whole.texts["events.json"]
    assert "HTTPS_PROXY" in whole.texts["objects/Job.json"]


@pytest.mark.parametrize(
    ("right", "lost"),
    [
        (("pods/exec", "create"), ("nodes/", "the rights to get and create pods/exec")),
        (("pods/exec", "get"), ("nodes/", "the rights to get and create pods/exec")),
        (("pods/log", "get"), ("logs/", 'cannot get resource "pods/log"')),
        (("jobs", "list"), ("objects/Job.json", 'cannot list resource "jobs"')),
    ],
    ids="-".join,
)
def test_without_a_right_a_support_bundle_lacks_that_part_alone_and_says_so(
    story: Story, whole: Bundle, tmp_path: Path, right: tuple[str, str], lost: tuple[str, str]
) -> None:
    part, words = lost

    less = bundle(story, tmp_path, right)

    assert less.answer.code == 0
    assert set(less.texts) == {path for path in whole.texts if not path.startswith(part)}
    assert words in less.texts["errors.txt"]
    assert "missing: " in less.answer.err
