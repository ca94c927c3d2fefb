"""Stand-ins of the APIs by which GitHub and GitLab take comments: paths, headers and pages as they document them."""

import http.server
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

PAGE = 100
_GRAPHQL = "/api/graphql"
TOKEN = "a-token"  # noqa: S105 - of a stand-in


class Request(NamedTuple):
    """A request that was answered."""

    method: str
    path: str
    body: Any


class CodeHost:
    """A pull request with comments, on one of the two hosts."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.url = url
        self.comments: list[dict[str, Any]] = []
        self.requests: list[Request] = []
        self.may_write = True
        self.login = "github-actions[bot]"
        """Whom GitHub takes the token for."""
        self.moved_to = ""
        """Where every request is sent on, if it is."""

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a job."""
        if self.name == "github":
            return {
                "GITHUB_ACTIONS": "true",
                "GITHUB_API_URL": f"{self.url}/api/v3",
                "GITHUB_GRAPHQL_URL": f"{self.url}/api/graphql",
                "GITHUB_REF": "refs/pull/7/merge",
                "GITHUB_REPOSITORY": "team/fleet",
                "GITHUB_RUN_ID": "42",
                "GITHUB_SERVER_URL": "https://github.example.com",
                "GITHUB_TOKEN": TOKEN,
            }
        return {
            "CI_API_V4_URL": f"{self.url}/api/v4",
            "CI_MERGE_REQUEST_IID": "7",
            "CI_MERGE_REQUEST_PROJECT_ID": "12",
            "CI_PIPELINE_URL": "https://gitlab.example.com/team/fleet/-/pipelines/42",
            "KAE_COMMENT_TOKEN": TOKEN,
        }

    def add(self, body: str | None, *, is_own: bool) -> dict[str, Any]:
        """Return a new comment, of the job's user or of another one."""
        number = 1000 + len(self.comments)
        made: dict[str, Any] = {"id": number, "body": body}
        if self.name == "github":
            made["user"] = {"login": self.login if is_own else "someone"}
        else:
            made |= {"author": {"id": 5 if is_own else 6}, "system": False}
        self.comments.append(made)
        return made

    def writes(self) -> list[str]:
        """Return the methods of the requests that write."""
        return [request.method for request in self.requests if request.method != "GET" and request.path != _GRAPHQL]

    def answer(self, request: Request, headers: Any) -> tuple[int, Any, bool]:
        """Return the status, the answer, and whether another page follows."""
        self.requests.append(request)
        if not self._is_authentic(headers):
            return 401, {}, False
        if (request.method, request.path) == ("POST", _GRAPHQL) and self.name == "github":
            assert request.body == {"query": "query { viewer { login } }"}
            return 200, {"data": {"viewer": {"login": self.login}}}, False
        if request.method != "GET" and not self.may_write:
            return 403, {"message": "Resource not accessible by integration"}, False
        split = urlsplit(request.path)
        listed, one, update = self._paths()
        if (request.method, split.path) == ("GET", "/api/v4/user"):
            return 200, {"id": 5}, False
        if (request.method, split.path) == ("GET", listed):
            query = {key: int(value[0]) for key, value in parse_qs(split.query).items()}
            size = min(query.get("per_page", 20), PAGE)
            end = size * query.get("page", 1)
            return 200, self.comments[end - size : end], end < len(self.comments)
        if (request.method, split.path) == ("POST", listed):
            return 201, self.add(request.body["body"], is_own=True), False
        named = re.fullmatch(rf"{one}/(\d+)", split.path)
        if request.method == update and named:
            (comment,) = (item for item in self.comments if item["id"] == int(named[1]))
            comment["body"] = request.body["body"]
            return 200, comment, False
        return 404, {"message": "Not Found"}, False

    def _is_authentic(self, headers: Any) -> bool:
        if self.name == "github":
            return bool(
                headers["Authorization"] == f"Bearer {TOKEN}"
                and headers["Accept"] == "application/vnd.github+json"
                and headers["X-GitHub-Api-Version"] == "2022-11-28"
                and headers["User-Agent"]
            )
        return bool(headers["PRIVATE-TOKEN"] == TOKEN)

    def _paths(self) -> tuple[str, str, str]:
        """Return the path of the comments, that of one, and the method of an update."""
        if self.name == "github":
            issues = "/api/v3/repos/team/fleet/issues"
            return f"{issues}/7/comments", f"{issues}/comments", "PATCH"
        notes = "/api/v4/projects/12/merge_requests/7/notes"
        return notes, notes, "PUT"


@contextmanager
def serving(name: str) -> Iterator[CodeHost]:
    """Serve a code host until the block ends."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def _serve(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "null")
            status, data, more = host.answer(Request(self.command, self.path, body), self.headers)
            self.send_response(307 if host.moved_to else status)
            if host.moved_to:
                self.send_header("Location", f"{host.moved_to}{self.path}")
            if more:
                self.send_header("Link", f'<{host.url}{urlsplit(self.path).path}?page=2>; rel="next"')
            self.end_headers()
            self.wfile.write(json.dumps(data).encode())

        do_GET = do_POST = do_PUT = do_PATCH = _serve  # noqa: N815 - as http.server calls them

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        host = CodeHost(name, f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield host
        finally:
            server.shutdown()
            thread.join()
