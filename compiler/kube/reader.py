"""Read a live cluster: its nodes by page and as they change, and objects of any kind."""

import http
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import structs

from compiler.kube import client, credentials, pods

PAGE = 100
"""Items per page: 100 real nodes are some megabytes."""

WATCH_S = 120
"""The duration of a watch, which the server is asked to keep."""

MARGIN_S = 10
"""The server ends a watch in time; one that is silent for so much longer has lost its server."""

_NODES = "/api/v1/nodes"
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

T = TypeVar("T")


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a list."""

    items: Sequence[Mapping[str, Any]]
    """Objects as the API server prints them."""
    resource_version: str
    """The version that all pages of the list show, and from which a watch continues."""


class Event(NamedTuple):
    """An ADDED, MODIFIED or DELETED object; a BOOKMARK has a newer resourceVersion and nothing else."""

    type: str
    object: Mapping[str, Any]


class Watch:
    """An iterator of the events after a resourceVersion; it can be iterated once.

    It ends when the server ends the watch, which is usual. It raises `client.Gone` where the server no longer has the
    resourceVersion, `client.Unreachable` where the connection breaks, and `client.Refused` otherwise.
    """

    def __init__(self, connection: client.Connection, resource_version: str, timeout_s: int) -> None:
        self.resource_version = resource_version
        """The version of the last event that the caller has finished with; the next watch starts from it."""
        self._connection = connection
        self._timeout_s = timeout_s

    def __iter__(self) -> Iterator[Event]:
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self.resource_version,
            "timeoutSeconds": str(self._timeout_s),
        }
        request = client.Request(action="watch nodes", path=_NODES, query=query, accept=_METADATA)
        for line in self._lines(request):
            event = self._event(line)
            yield event
            metadata = event.object.get("metadata") or {}
            self.resource_version = metadata.get("resourceVersion") or self.resource_version

    def _lines(self, request: client.Request) -> Iterator[bytes]:
        with self._connection.opened(request, self._timeout_s + MARGIN_S) as response:
            if response.status >= http.HTTPStatus.BAD_REQUEST:
                refusal = client.Answer.of(response.status, response.read())
                raise self._connection.refusal(request.action, refusal)
            rest = b""
            for part in response.stream(None, decode_content=True):
                *lines, rest = (rest + part).split(b"\n")
                yield from lines
        if rest:
            host = self._connection.host
            raise client.Unreachable(f"the API server at {host} ended the connection in the middle of an event.")

    def _event(self, line: bytes) -> Event:
        body = client.parsed(line)
        kind, node = body.get("type"), body.get("object")
        if not isinstance(kind, str) or not isinstance(node, dict):
            raise client.Unreachable(f"the server at {self._connection.host} does not send watch events.")
        if kind == "ERROR":
            refusal = client.Answer.of(_status(node), json.dumps(node).encode())
            raise self._connection.refusal("continue to watch nodes", refusal)
        metadata = node.get("metadata")
        if not isinstance(metadata, dict) or not isinstance("" if kind == "BOOKMARK" else metadata.get("name"), str):
            raise client.Unreachable(f"the server at {self._connection.host} does not send watch events.")
        return Event(kind, node)


class Cluster:
    """A cluster that a kubeconfig names, or without one the pod's own cluster. Threads may share it.

    Several kubeconfigs count as one.

    Every method raises `credentials.NoClient` or `credentials.NoAccess` without a client or credentials,
    `client.Unreachable` without an answer, and `client.Refused` or a subclass where the server refuses: each is a
    WorldError of one sentence. Callers may retry; a retry reads the credentials again.
    """

    def __init__(
        self,
        kubeconfig: Path | Sequence[Path] | None = None,
        context: str | None = None,
        *,
        service_account: Path = credentials.SERVICE_ACCOUNT,
        agent: str = "kae",
        timeouts: client.Timeouts = client.TIMEOUTS,
    ) -> None:
        """Store the settings; the first request connects."""
        if kubeconfig is None:
            load = credentials.of_pod(service_account)
        else:
            load = credentials.of_files([kubeconfig] if isinstance(kubeconfig, Path) else kubeconfig, context)
        self._connection = client.Connection(load, agent, timeouts)
        self._kinds: dict[str, Mapping[str, tuple[str, bool]]] = {}
        self.pods = pods.Pods(self._connection)

    @property
    def host(self) -> str:
        """The API server's URL."""
        return self._connection.host

    def close(self) -> None:
        """Drop the connections; the next request opens new ones."""
        self._connection.close()

    def version(self) -> Mapping[str, Any]:
        """Return what the API server says of its release."""
        return self._connection.get(client.Request(action="tell its version", path="/version"))

    def pages(self, size: int | None = None) -> Iterator[Page]:
        """Yield all Nodes of one resourceVersion, page by page.

        Raises:
            client.Gone: The server dropped that version in between: discard the pages and start again.
        """
        request = client.Request(action="list nodes", path=_NODES)
        return self._pages(request, size or PAGE)

    def snapshot(self, reduce: Callable[[Mapping[str, Any]], T]) -> tuple[T, ...]:
        """Return the reduction of every Node, all of one resourceVersion; start again where the server drops it.

        Raises:
            client.Gone: Three times in a row.
        """
        for last_attempt in (False, False, True):
            try:
                return tuple(reduce(item) for page in self.pages() for item in page.items)
            except client.Gone:
                if last_attempt:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def watch(self, resource_version: str, timeout_s: int = WATCH_S) -> Watch:
        """Return a watch of the Nodes' metadata after a resourceVersion; its iteration sends the request."""
        return Watch(self._connection, resource_version, timeout_s)

    def object(self, api_version: str, kind: str, name: str, namespace: str = "") -> Mapping[str, Any] | None:
        """Return an object as it is now; None where it or its kind does not exist in the cluster."""
        request = self._request("get", api_version, kind, namespace, name)
        try:
            return None if request is None else self._connection.get(request)
        except client.Missing:
            return None

    def objects(
        self, api_version: str, kind: str, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Iterator[Mapping[str, Any]]:
        """Yield a kind's objects that match the selectors, one page in memory at a time; none of unknown kinds."""
        selectors = {"labelSelector": labels, "fieldSelector": fields}
        yield from self._items(self._request("list", api_version, kind, namespace), selectors, client.JSON)

    def metadata(
        self, api_version: str, kind: str, namespace: str = "", *, labels: str = ""
    ) -> Iterator[Mapping[str, Any]]:
        """Yield the same objects as `objects`, reduced to their metadata."""
        request = self._request("list", api_version, kind, namespace)
        yield from self._items(request, {"labelSelector": labels}, _METADATA_LIST)

    def _items(
        self, request: client.Request | None, selectors: Mapping[str, str], accept: str
    ) -> Iterator[Mapping[str, Any]]:
        query = {name: value for name, value in selectors.items() if value}
        if request is not None:
            for page in self._pages(structs.replace(request, query=query, accept=accept), PAGE):
                yield from page.items

    def _request(self, verb: str, api_version: str, kind: str, namespace: str, name: str = "") -> client.Request | None:
        known = self._known(api_version).get(kind)
        if known is None:
            return None
        plural, namespaced = known
        inside = f"namespaces/{{namespace}}/{plural}" if namespaced and namespace else plural
        group = api_version.partition("/")[0] if "/" in api_version else ""
        resource = f"{plural}.{group}" if group else plural
        where = f" in namespace {namespace}" if namespaced and namespace else ""
        return client.Request(
            action=f"{verb} {resource}{f' {name}' if name else ''}{where}",
            path=f"{_root(api_version)}/{inside}{'/{name}' if name else ''}",
            names={"namespace": namespace, "name": name},
        )

    def _known(self, api_version: str) -> Mapping[str, tuple[str, bool]]:
        """Return the plural and the namespaced flag of each kind; empty for an unknown group or version."""
        if api_version not in self._kinds:
            request = client.Request(action=f"list the kinds of {api_version}", path=_root(api_version))
            try:
                resources = self._connection.get(request).get("resources") or ()
            except client.Refused as error:
                if error.status != http.HTTPStatus.NOT_FOUND:
                    raise
                resources = ()
            self._kinds[api_version] = {
                item["kind"]: (item["name"], bool(item["namespaced"])) for item in resources if "/" not in item["name"]
            }
        return self._kinds[api_version]

    def _pages(self, request: client.Request, size: int) -> Iterator[Page]:
        token = version = ""
        while True:
            query = {**request.query, "limit": str(size), **({"continue": token} if token else {})}
            body = self._connection.get(structs.replace(request, query=query))
            metadata, items = body.get("metadata"), body.get("items") or ()
            if not isinstance(metadata, dict) or "items" not in body or not all(map(_is_named, items)):
                sentence = f"the answer of {self.host} to the request to {request.action} is not a list."
                raise client.Refused(sentence, status=http.HTTPStatus.OK)
            version = version or str(metadata.get("resourceVersion") or "")
            token = str(metadata.get("continue") or "")
            yield Page(items=items, resource_version=version)
            del body, items  # Else two pages would be in memory.
            if not token:
                return


def _root(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def _is_named(data: object) -> bool:
    metadata = data.get("metadata") if isinstance(data, dict) else None
    return isinstance(metadata, dict) and isinstance(metadata.get("name"), str)


def _status(status: Mapping[str, Any]) -> int:
    code = status.get("code")
    return code if isinstance(code, int) else http.HTTPStatus.INTERNAL_SERVER_ERROR
