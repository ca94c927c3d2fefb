"""The Indexed Job of docs/scale.md on a real node: four pods compile a fleet, and push to a server of git."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml

from compiler.project.by_cluster import shard_files
from tests import in_process
from tests.cli import jobs, sharded
from tests.cli.jobs import World
from tests.cluster.control import pods
from tests.cluster.local import waiting
from tests.cluster.nodes import images as image_store
from tests.cluster.nodes import node as nodes
from tests.images import stores
from tests.watcher import servers

COUNT = 4
JOB = "kae-compile"
INDEX = "batch.kubernetes.io/job-completion-index"
USER, PASSWORD = "kae", "a secret \\ of $(two) words"


@pytest.fixture(scope="module")
def image(images: image_store.Images) -> str:
    return images.load("localhost/kae-compiler:1", stores.built_image("kae-compiler"))


@pytest.fixture
def world(tmp_path: Path, repository_root: Path) -> World:
    """A fleet with a change of its documents that is not yet compiled."""
    made = World(tmp_path, repository_root)
    sharded.begin(made, COUNT)
    made.git(made.bare, "config", "http.receivepack", "true")
    clone = made.clone("person")
    jobs.serve_sec(clone)
    made.commit(clone, "Serve SEC")
    made.git(clone, "push", "--quiet")
    return made


@pytest.fixture
def served(world: World, node: nodes.Node) -> Iterator[str]:
    """The URL of the fleet, on a server that pods reach, and that wants a password."""
    with servers.web(world.folder, address=node.plane.instance.address) as web:
        web.rules.demand_basic(USER, PASSWORD)
        yield f"{web.url}/{world.bare.name}"


@pytest.fixture
def emptied(namespace: pods.Namespace) -> Iterator[pods.Namespace]:
    """A namespace whose Jobs end before it does: their pods have a finalizer that the controller of Jobs removes."""
    yield namespace
    namespace.kubectl("delete", "jobs", "--all", "--cascade=foreground", "--wait=true")


def example(repository_root: Path, image: str, url: str) -> dict[str, Any]:
    job: dict[str, Any] = yaml.safe_load((repository_root / "docs/examples/shards/compile.yaml").read_text("utf-8"))
    del job["metadata"]["namespace"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    container |= {"image": image, "imagePullPolicy": "Never"}
    container["resources"]["requests"]["cpu"] = "100m"
    (repository,) = (variable for variable in container["env"] if variable["name"] == "REPOSITORY")
    repository["value"] = url
    return job


def apply(namespace: pods.Namespace, job: Mapping[str, Any]) -> None:
    credentials = (f"--from-literal=username={USER}", f"--from-literal=password={PASSWORD}")
    namespace.kubectl("create", "secret", "generic", "fleet-git", *credentials)
    namespace.apply(job)


def wait_for_end(namespace: pods.Namespace) -> Any:
    def status() -> Any:
        return json.loads(namespace.kubectl("get", "job", JOB, "-o", "json"))["status"]

    def ended() -> Any:
        told = status()
        ends = {entry["type"] for entry in told.get("conditions", ()) if entry["status"] == "True"}
        return told if ends & {"Complete", "Failed"} else None

    def explain() -> str:
        made = [str(pod["metadata"]["name"]) for pod in namespace.pods()]
        return "\n".join((json.dumps(status()), *(namespace.logs(name) for name in made), *namespace.events()))

    told = waiting.until("the end of the Job", ended, explain=explain)
    assert told.get("succeeded") == COUNT, explain()
    return told


def assert_compiled(world: World) -> None:
    """Assert that each shard has made one commit, and that all of them make what one compile makes."""
    shards = world.git(world.bare, "log", f"--format={sharded.SHARD}", f"--max-count={COUNT}", "main").split()
    assert sorted(shards) == [f"{index}/{COUNT}" for index in range(COUNT)]
    assert world.git(world.bare, "log", "-1", "--format=%s", f"main~{COUNT}") == "Serve SEC"
    assert world.git(world.bare, "rev-parse", "main:output") == sharded.tree_of_one_compile(world)
    assert world.git(world.bare, "fsck", "--full", "--strict", "--no-dangling") == ""


def test_four_pods_under_the_restricted_standard_make_what_one_compile_makes(
    emptied: pods.Namespace, repository_root: Path, world: World, served: str, image: str
) -> None:
    emptied.kubectl("label", "namespace", emptied.name, "pod-security.kubernetes.io/enforce=restricted")

    apply(emptied, example(repository_root, image, served))

    assert wait_for_end(emptied)["completedIndexes"] == f"0-{COUNT - 1}"
    assert_compiled(world)


def test_a_shard_that_is_refused_and_one_that_is_killed_are_tried_again(
    emptied: pods.Namespace, repository_root: Path, world: World, served: str, image: str
) -> None:
    hook = f"""read -r old new ref
case $(git log -1 --format='{sharded.SHARD}' "$new") in
1/*) [ -e refused ] || {{ touch refused; exit 1; }} ;;
2/*) [ -e held ] || {{ touch held; while [ ! -e killed ]; do sleep 0.1; done; exit 1; }} ;;
esac"""
    (world.bare / "hooks").mkdir(exist_ok=True)
    world.install(world.bare / "hooks/pre-receive", hook)
    findings = world.folder / "findings"
    findings.mkdir()
    findings.chmod(0o777)
    job = example(repository_root, image, served)
    (volume,) = (one for one in job["spec"]["template"]["spec"]["volumes"] if one["name"] == "findings")
    del volume["emptyDir"]
    volume["hostPath"] = {"path": str(findings)}

    apply(emptied, job)
    waiting.until("the push of shard 2", (world.bare / "held").exists)
    (killed,) = emptied.pods(f"{INDEX}=2")
    emptied.kubectl("delete", "pod", killed["metadata"]["name"], "--grace-period=1")
    (world.bare / "killed").touch()
    status = wait_for_end(emptied)

    assert (world.bare / "refused").exists()
    assert status["failed"] >= 1
    uids = {pod["metadata"]["uid"] for pod in emptied.pods(f"{INDEX}=2")}
    assert uids - {killed["metadata"]["uid"]}
    assert_compiled(world)
    files = sorted(findings.iterdir())
    (release,) = {json.loads(path.read_text())["release"] for path in files}
    # A verdict is given by the release that has compiled, and the image is of another version than this checkout.
    with mock.patch.object(shard_files, "__version__", release):
        merged = in_process.kae(world.clone("verdict"), "merge-findings", *map(str, files))
    assert merged.code == 0, merged.err
