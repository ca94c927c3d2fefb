"""A live cluster, as far as the compiler and the watcher ask it: nodes by page, one by one and as they change."""

import http
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from compiler.kube import client, credentials, node_watch

PAGE = 100
"""Items of a page: 100 real nodes are some megabytes."""

_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A part of a list."""

    items: Sequence[Mapping[str, Any]]
    """As the API server prints them."""
    resource_version: str
    """The state of the cluster that all pages of the list show, and from which a watch goes on."""


class Cluster:
    """A cluster, by way of a kubeconfig, or of a pod's service account where none is named. Threads may share it.

    Every method raises `access.NoClient` and `access.NoAccess` where nobody can be asked, `connection.Unreachable`
    where nobody answers and `connection.Refused`, or one of its kinds, where the answer is no: each is a WorldError
    of one sentence. What failed can be asked again; credentials are read anew then.
    """

    def __init__(
        self,
        kubeconfig: Path | None = None,
        context: str | None = None,
        *,
        service_account: Path = credentials.SERVICE_ACCOUNT,
        agent: str = "kae",
    ) -> None:
        """Asks nobody yet."""
        load = credentials.of_pod(service_account) if kubeconfig is None else credentials.of_file(kubeconfig, context)
        self._connection = client.Connection(load, agent)
        self._kinds: dict[str, Mapping[str, tuple[str, bool]]] = {}

    @property
    def host(self) -> str:
        """The API server's URL."""
        return self._connection.host

    def close(self) -> None:
        """Drops the connections; the next question opens new ones."""
        self._connection.close()

    def pages(self, size: int | None = None) -> Iterator[Page]:
        """All Nodes, page by page, as they were at one moment.

        Raises:
            connection.Gone: The moment is forgotten in the middle of it: what came is of no use, begin again.
        """
        question = client.Question(wish="list nodes", path=node_watch.NODES)
        return self._pages(question, size or PAGE)

    def snapshot(self, reduce: Callable[[Mapping[str, Any]], T]) -> tuple[T, ...]:
        """What is made of every Node, as all were at one moment; a moment that is forgotten is left for a new one.

        Raises:
            connection.Gone: Three times running.
        """
        for last in (False, False, True):
            try:
                return tuple(reduce(item) for page in self.pages() for item in page.items)
            except client.Gone:
                if last:
                    raise
        raise AssertionError("the last try ends it")

    def node(self, name: str) -> Mapping[str, Any] | None:
        """A Node as it is now; None where it is gone."""
        question = client.Question(
            wish=f"get the node {name}", path=f"{node_watch.NODES}/{{name}}", names={"name": name}
        )
        return self._object(question)

    def watch(self, resource_version: str, timeout_s: int = node_watch.WATCH_S) -> node_watch.Watch:
        """What happens to Nodes after that state, as metadata only; nobody is asked before the first is taken."""
        return node_watch.Watch(self._connection, resource_version, timeout_s)

    def object(self, api_version: str, kind: str, name: str, namespace: str = "") -> Mapping[str, Any] | None:
        """An object as it is now; None where there is none, or where the cluster does not know its kind."""
        question = self._question("get", api_version, kind, namespace, name)
        return None if question is None else self._object(question)

    def objects(
        self, api_version: str, kind: str, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Iterator[Mapping[str, Any]]:
        """The objects of a kind that selectors choose, a page in memory at a time; none where the kind is unknown."""
        question = self._question("list", api_version, kind, namespace, query=_selectors(labels, fields))
        if question is not None:
            for page in self._pages(question, PAGE):
                yield from page.items

    def metadata(
        self, api_version: str, kind: str, namespace: str = "", *, labels: str = ""
    ) -> Iterator[Mapping[str, Any]]:
        """As `objects`, but nothing except each one's metadata."""
        question = self._question(
            "list", api_version, kind, namespace, query=_selectors(labels, ""), accept=_METADATA_LIST
        )
        if question is not None:
            for page in self._pages(question, PAGE):
                yield from page.items

    def _question(
        self, verb: str, api_version: str, kind: str, namespace: str, name: str = "", **more: Any
    ) -> client.Question | None:
        found = self._known(api_version).get(kind)
        if found is None:
            return None
        plural, namespaced = found
        inside = f"namespaces/{{namespace}}/{plural}" if namespaced and namespace else plural
        group = api_version.partition("/")[0] if "/" in api_version else ""
        resource = f"{plural}.{group}" if group else plural
        where = f" in namespace {namespace}" if namespaced and namespace else ""
        return client.Question(
            wish=f"{verb} {resource}{f' {name}' if name else ''}{where}",
            path=f"{_root(api_version)}/{inside}{'/{name}' if name else ''}",
            names={"namespace": namespace, "name": name},
            **more,
        )

    def _known(self, api_version: str) -> Mapping[str, tuple[str, bool]]:
        """Plural, and whether it is namespaced, by kind; empty for a group or version that the cluster has not."""
        if api_version not in self._kinds:
            question = client.Question(wish=f"tell the kinds of {api_version}", path=_root(api_version))
            try:
                found = self._connection.get(question).get("resources") or ()
            except client.Refused as error:
                if error.status != http.HTTPStatus.NOT_FOUND:
                    raise
                found = ()
            self._kinds[api_version] = {
                item["kind"]: (item["name"], bool(item["namespaced"])) for item in found if "/" not in item["name"]
            }
        return self._kinds[api_version]

    def _object(self, question: client.Question) -> Mapping[str, Any] | None:
        try:
            return self._connection.get(question)
        except client.Missing:
            return None

    def _pages(self, question: client.Question, size: int) -> Iterator[Page]:
        token = version = ""
        while True:
            query = {**question.query, "limit": str(size), **({"continue": token} if token else {})}
            asked = client.Question(
                wish=question.wish, path=question.path, names=question.names, query=query, accept=question.accept
            )
            page, token = self._page(asked)
            version = version or page.resource_version
            yield Page(items=page.items, resource_version=version)
            del page  # Before the next one is there.
            if not token:
                return

    def _page(self, question: client.Question) -> tuple[Page, str]:
        body = self._connection.get(question)
        metadata, items = body.get("metadata"), body.get("items") or ()
        if not isinstance(metadata, dict) or "items" not in body or not all(map(_is_named, items)):
            raise client.Refused(f"what {self.host} answers to the wish to {question.wish} is no list.", status=200)
        version = str(metadata.get("resourceVersion") or "")
        return Page(items=items, resource_version=version), str(metadata.get("continue") or "")


def _root(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def _selectors(labels: str, fields: str) -> Mapping[str, str]:
    found = {"labelSelector": labels, "fieldSelector": fields}
    return {name: value for name, value in found.items() if value}


def _is_named(item: object) -> bool:
    metadata = item.get("metadata") if isinstance(item, dict) else None
    return isinstance(metadata, dict) and isinstance(metadata.get("name"), str)
