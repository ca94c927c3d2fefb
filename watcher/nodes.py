"""Read the nodes of a cluster: full lists, and between them a watch of metadata that tells when to list again."""

from collections.abc import Callable

from compiler.inventory import reduction, snapshot
from compiler.kube import reader


class Nodes:
    """The nodes of a cluster. Methods raise the errors of `reader.Cluster`."""

    def __init__(self, cluster: reader.Cluster, reducer: reduction.Reducer) -> None:
        """Ask nothing yet."""
        self._cluster = cluster
        self._reducer = reducer
        self._marks: dict[str, int | None] = {}
        """A hash of each node's metadata that enters the inventory, which tells a change from a heartbeat."""
        self._version = ""

    def list(self, at_page: Callable[[], None]) -> tuple[snapshot.Node, ...]:
        """Return all nodes as of one moment; raise `client.Gone` if the server dropped it between two pages."""
        found, marks, version = [], dict[str, int | None](), ""
        for page in self._cluster.pages():
            at_page()
            version = page.resource_version
            for raw in page.items:
                found.append(self._reducer.node(raw))
                marks[raw["metadata"]["name"]] = self._reducer.mark(raw["metadata"])
        self._marks, self._version = marks, version
        return tuple(found)

    def changed(self, seconds: int) -> set[str]:
        """Watch for so long; return the nodes of which something changed that enters the inventory."""
        # What needs the whole node, such as a taint, is not seen. A watch that fails is repeated from where it began,
        # but after `client.Gone` the nodes have to be listed again.
        marks: dict[str, int | None] = {}
        watch = self._cluster.watch(self._version, seconds)
        for event in watch:
            metadata = event.object["metadata"]
            if event.type != "BOOKMARK":
                marks[metadata["name"]] = None if event.type == "DELETED" else self._reducer.mark(metadata)
        names = {name for name, mark in marks.items() if self._marks.get(name) != mark}
        self._marks |= marks
        self._version = watch.resource_version
        return names
