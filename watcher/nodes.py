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
        self._marks: dict[str, int] = {}
        """A hash of each node's metadata that enters the inventory, which tells a change from a heartbeat."""
        self._version = ""

    def list(self, at_page: Callable[[], None]) -> tuple[snapshot.Node, ...]:
        """Return all nodes as they are at one moment; call `at_page` at each page.

        Raises:
            client.Gone: The server dropped that moment in between.
        """
        found, marks, version = [], {}, ""
        for page in self._cluster.pages():
            at_page()
            version = page.resource_version
            for raw in page.items:
                found.append(self._reducer.node(raw))
                marks[raw["metadata"]["name"]] = self._reducer.mark(raw["metadata"])
        self._marks, self._version = marks, version
        return tuple(found)

    def changed(self, seconds: int, *, until_first: bool) -> set[str]:
        """Watch for so long; return the nodes of which something changed that enters the inventory.

        With `until_first` it ends with the first change. What needs the whole node, such as a taint, is not seen.

        Raises:
            client.Gone: The server has forgotten the last version: list again.
        """
        names: set[str] = set()
        watch = self._cluster.watch(self._version, seconds)
        try:
            for event in watch:
                metadata = event.object["metadata"]
                name = metadata.get("name") if event.type != "BOOKMARK" else None
                mark = None if event.type == "DELETED" else self._reducer.mark(metadata)
                if name is None or self._marks.get(name) == mark:
                    continue
                names.add(name)
                if mark is None:
                    del self._marks[name]
                else:
                    self._marks[name] = mark
                if until_first:
                    break
        finally:
            self._version = watch.resource_version
        return names
