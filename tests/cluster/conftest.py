"""The cluster as fixtures: one control plane and one node a session, a namespace a test."""

from collections.abc import Generator, Iterator, Mapping, Sequence

import pytest

from tests import tools
from tests.cluster import watchers
from tests.cluster.control import control_plane as control_planes
from tests.cluster.control import manifests, pods
from tests.cluster.control import objects as kinds
from tests.cluster.engines import argocd, flux
from tests.cluster.local import instances, ownership, programs
from tests.cluster.nodes import images as image_store
from tests.cluster.nodes import node as nodes
from tests.cluster.nodes import plugin_node
from tests.cluster.simulated import stages
from tests.images import stores
from tests.property.fleets import machines


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """With `--dist loadgroup`, keep a file on one worker, and all with devices in the machine's /dev on the same."""
    shared = {item.path for item in items if _has_node(item) or item.path.name == "test_leftovers.py"}
    for item in items:
        item.add_marker(pytest.mark.xdist_group("node" if item.path in shared else item.path.name))


def _has_node(item: pytest.Item) -> bool:
    """Return whether a test has the real node; a parameter of that name is none."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return "node" in getattr(item, "fixturenames", ()) and "node" not in params


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of the kubelet's log below a test that failed on the node."""
    report = yield
    node = getattr(item, "funcargs", {}).get("node")
    # After the session its log is gone.
    if report.failed and report.when != "teardown" and isinstance(node, nodes.Node):
        report.sections.append(("The end of the kubelet's log", node.kubelet.log_tail(lines=40)))
    return report


@pytest.fixture(scope="session")
def instance() -> Iterator[instances.Instance]:
    """Own the session's cluster instance; skip or fail with the reason where there can be none."""
    tools.require_cluster(programs.obstacles())
    chosen = instances.configured()
    with ownership.of(chosen):
        yield chosen


@pytest.fixture(scope="session")
def control_plane(instance: instances.Instance) -> Iterator[control_planes.ControlPlane]:
    with control_planes.running(instance) as plane:
        yield plane


@pytest.fixture(scope="session")
def objects(control_plane: control_planes.ControlPlane) -> kinds.Objects:
    return kinds.Objects(control_plane.api)


@pytest.fixture(scope="session")
def engine_programs() -> None:
    tools.require_cluster(programs.lacking(programs.ENGINES))


@pytest.fixture(scope="session")
def definitions(objects: kinds.Objects, engine_programs: None) -> None:
    objects.define(manifests.definitions_of_engines())


@pytest.fixture(scope="module")
def engines(
    control_plane: control_planes.ControlPlane, objects: kinds.Objects, definitions: None
) -> Iterator[Mapping[str, argocd.ArgoCd | flux.Flux]]:
    with argocd.running(control_plane, objects) as argo, flux.running(control_plane, objects) as other:
        yield {"argocd": argo, "flux": other}


@pytest.fixture(scope="session")
def node(control_plane: control_planes.ControlPlane) -> Iterator[nodes.Node]:
    with nodes.running(control_plane) as ready:
        yield ready


@pytest.fixture(scope="session")
def images(node: nodes.Node) -> image_store.Images:
    return image_store.Images(node.plane.instance)


@pytest.fixture(scope="session")
def debian(images: image_store.Images) -> str:
    return images.debian()


@pytest.fixture(scope="module")
def deployed(
    node: nodes.Node, images: image_store.Images, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[plugin_node.Deployed]:
    images.load(plugin_node.IMAGE, stores.built_image())
    with plugin_node.deployed(node, tmp_path_factory.mktemp("project")) as made:
        yield made


@pytest.fixture(scope="module")
def opened(
    control_plane: control_planes.ControlPlane,
    objects: kinds.Objects,
    hosts: Sequence[machines.Machine],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[stages.Stage]:
    with stages.opened(control_plane, objects, hosts, tmp_path_factory.mktemp("devices")) as made:
        yield made


@pytest.fixture
def stage(opened: stages.Stage) -> Iterator[stages.Stage]:
    """The stage; no DaemonSet and no pod is there before, and none is left."""
    yield opened
    opened.clear()


@pytest.fixture
def namespace(control_plane: control_planes.ControlPlane) -> Iterator[pods.Namespace]:
    with pods.namespace(control_plane) as made:
        yield made


@pytest.fixture
def four_nodes(control_plane: control_planes.ControlPlane) -> Iterator[watchers.Nodes]:
    with watchers.four(control_plane) as made:
        yield made


@pytest.fixture(scope="module")
def installed(
    control_plane: control_planes.ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[watchers.Installed]:
    with watchers.installed(control_plane, tmp_path_factory.mktemp("watcher")) as made:
        yield made
