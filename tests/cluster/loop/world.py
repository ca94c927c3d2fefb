"""All that the story happens in: a cluster of one node with a GitOps engine, fake hardware, and a git host."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.cluster.control import control_plane as control_planes
from tests.cluster.control import manifests
from tests.cluster.control import objects as kinds
from tests.cluster.engines import argocd, flux
from tests.cluster.local import instances
from tests.cluster.loop import hardware, repositories
from tests.cluster.loop.story import DEBIAN, Story
from tests.cluster.nodes import images as image_store
from tests.cluster.nodes import node as nodes
from tests.images import archives

_Running = Callable[
    [control_planes.ControlPlane, kinds.Objects], contextlib.AbstractContextManager[argocd.ArgoCd | flux.Flux]
]
ENGINES: Mapping[str, _Running] = {"argocd": argocd.running, "flux": flux.running}


@contextlib.contextmanager
def opened(instance: instances.Instance, engine: str, folder: Path) -> Iterator[Story]:
    """Everything at work, before the first commit; the repositories are in the folder."""
    with contextlib.ExitStack() as stack:
        plane = stack.enter_context(control_planes.running(instance))
        objects = kinds.Objects(plane.api)
        objects.define(manifests.definitions_of_engines())
        objects.define([(item.data, item.text) for item in manifests.definitions_of_nfd()])
        node = stack.enter_context(nodes.running(plane))
        fake = hardware.Hardware(node, _images(node), folder / "images")
        roles = stack.enter_context(fake.working(objects))
        host = stack.enter_context(repositories.hosted(folder / "git", instance.address))
        yield Story(
            plane=plane,
            objects=objects,
            fleet=repositories.Fleet(folder, host),
            hardware=fake,
            programs=(*roles, node.kubelet),
            engine=stack.enter_context(ENGINES[engine](plane, objects)),
        )


def _images(node: nodes.Node) -> image_store.Images:
    images = image_store.Images(node.plane.instance)
    for name in ("kae-device-plugin", "kae-watcher"):
        images.load(f"localhost/{name}:1", archives.built_image(name))
    images.debian(DEBIAN)
    return images
