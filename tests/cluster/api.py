"""The Kubernetes API over HTTP: status codes and JSON, nothing in between, and quicker than a kubectl a question."""

import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TYPES = {"PATCH": "application/merge-patch+json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the API server said."""

    status: int
    body: Any
    """Parsed JSON; the text itself where it is none, as of /readyz."""


class Api:
    """The API server, asked as the administrator."""

    def __init__(self, address: str, pki: Path) -> None:
        self._address = address
        self._tls = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        self._tls.load_cert_chain(pki / "admin.crt", pki / "admin.key")

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Answer:
        """Asks, without judging the status. A PATCH is a merge patch (RFC 7396).

        Raises:
            OSError: There is no API server.
        """
        connection = http.client.HTTPSConnection(self._address, timeout=30, context=self._tls)
        try:
            headers = {"Accept": "application/json", "Content-Type": _TYPES.get(method, "application/json")}
            connection.request(method, path, body=None if body is None else json.dumps(body), headers=headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        is_json = "json" in answer.headers.get("Content-Type", "")
        return Answer(status=answer.status, body=json.loads(text) if is_json else text)

    def get(self, path: str) -> Any:
        """The object at this path, or None where there is none.

        Raises:
            AssertionError: The API server answers neither 200 nor 404.
        """
        answer = self.request("GET", path)
        assert answer.status in (200, 404), f"GET {path}: {answer}"
        return answer.body if answer.status == 200 else None

    def is_ready(self) -> bool:
        """Whether the API server answers, and says that it is ready."""
        try:
            return self.request("GET", "/readyz").status == 200
        except OSError:
            return False
