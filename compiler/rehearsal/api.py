"""Requests of a rehearsal to the API server, which writes objects of any kind."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from compiler.kube import client

MERGE = "application/merge-patch+json"
_APPLY = "application/apply-patch+yaml"
_MANAGER = "kae-rehearse"
_GONE, _TAKEN, _BUSY = 404, 409, 429
_PAGE = "500"
_TRIES = 60
"""Seconds for which a server may say that it is busy."""

Object = Mapping[str, Any]


class Api:
    """An API server. Threads may share it."""

    def __init__(self, connection: client.Connection) -> None:
        """Take the connection; a kind that is known is not asked for again."""
        self._connection = connection
        self._kinds: dict[str, Mapping[str, tuple[str, bool]]] = {}

    @property
    def host(self) -> str:
        """The server's URL."""
        return self._connection.host

    def ask(self, method: str, path: str, body: Object | None = None, content: str = client.JSON) -> client.Answer:
        """Return the answer to a request, whatever its status; the path may have a query. Raises WorldError."""
        plain, _, query = path.partition("?")
        pairs = dict(pair.split("=", 1) for pair in query.split("&")) if query else {}
        request = client.Request(
            action=f"{method} {plain}", path=plain, method=method, query=pairs, body=body, content=content
        )
        for _ in range(_TRIES):
            if (answer := self._connection.ask(request)).status != _BUSY:
                return answer
            time.sleep(1)
        raise self._connection.refusal(request.action, answer)

    def do(self, method: str, path: str, body: Object | None = None, content: str = client.JSON) -> None:
        """Send a request; it may find that the object is gone, or is there already. Raises WorldError."""
        answer = self.ask(method, path, body, content)
        if not answer.ok and answer.status not in (_GONE, _TAKEN):
            raise self._connection.refusal(f"{method} {path}", answer)

    def items(self, path: str) -> Sequence[Object]:
        """Return all objects of a list. Raises WorldError."""
        return [*self._items(path)]

    def _items(self, path: str) -> Iterator[Object]:
        token = ""
        while True:
            query = {"limit": _PAGE, **({"continue": token} if token else {})}
            body = self._connection.get(client.Request(action=f"list {path}", path=path, query=query))
            yield from body.get("items") or ()
            token = body["metadata"].get("continue") or ""
            if not token:
                return

    def path(self, item: Object) -> str | None:
        """Return the path of an object; None where the server does not know its kind."""
        version, metadata = item["apiVersion"], item["metadata"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        known = self._known(root, item["kind"])
        if known is None:
            return None
        plural, is_namespaced = known
        inside = f"namespaces/{metadata['namespace']}/" if is_namespaced else ""
        return f"{root}/{inside}{plural}/{metadata['name']}"

    def _known(self, root: str, kind: str) -> tuple[str, bool] | None:
        # A definition may bring it yet, to a group that has others.
        if kind not in self._kinds.get(root, ()):
            answer = self.ask("GET", root)
            self._kinds[root] = {
                each["kind"]: (each["name"], bool(each["namespaced"]))
                for each in answer.body.get("resources") or ()
                if "/" not in each["name"]
            }
        return self._kinds[root].get(kind)

    def has(self, item: Object) -> bool:
        """Return whether an object is there. Raises WorldError."""
        path = self.path(item)
        if path is None:
            return False
        answer = self.ask("GET", path)
        if not answer.ok and not answer.missing:
            raise self._connection.refusal(f"get {path}", answer)
        return answer.ok

    def apply(self, path: str, item: Object) -> str:
        """Apply an object server-side, as an engine does; return why the server refuses it, or nothing."""
        answer = self.ask("PATCH", f"{path}?fieldManager={_MANAGER}&force=true", item, _APPLY)
        return "" if answer.ok else answer.message
