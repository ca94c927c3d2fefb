"""The Kubernetes API over HTTP: status codes and JSON, nothing in between, and quicker than a kubectl a question."""

import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.cluster.local import waiting

_TYPES = {"PATCH": "application/merge-patch+json"}
_APPLY = "application/apply-patch+yaml"
_ANSWER_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    body: Any
    """Parsed JSON; the text itself where it is none, as of /readyz."""
    warnings: tuple[str, ...] = ()


class Api:
    """The API server, asked as the administrator, or with a token in his place."""

    def __init__(self, address: str, pki: Path, *, token: str = "") -> None:
        self.token = token
        self._address, self._pki = address, pki
        self._tls = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        if not token:
            self._tls.load_cert_chain(pki / "admin.crt", pki / "admin.key")

    def with_token(self, token: str) -> Self:
        return type(self)(self._address, self._pki, token=token)

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Answer:
        """Send a request; return any status. A PATCH is a merge patch (RFC 7396)."""
        kind = _TYPES.get(method, "application/json")
        return self.send(method, path, None if body is None else json.dumps(body).encode(), kind)

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        answer = self.request(method, path, body)
        assert answer.status in (200, 201), f"{method} {path}: {answer}"
        return answer.body

    def apply(self, path: str, text: str, manager: str, *, dry_run: bool = False) -> Answer:
        """Apply YAML server-side, in strict mode; a dry run keeps nothing, and takes what another manager owns."""
        query = f"fieldManager={manager}&fieldValidation=Strict{'&dryRun=All&force=true' if dry_run else ''}"
        return self.send("PATCH", f"{path}?{query}", text.encode(), _APPLY)

    def send(self, method: str, path: str, content: bytes | None, kind: str) -> Answer:
        connection = http.client.HTTPSConnection(self._address, timeout=_ANSWER_S, context=self._tls)
        try:
            headers = {"Accept": "application/json", "Content-Type": kind}
            headers |= {"Authorization": f"Bearer {self.token}"} if self.token else {}
            connection.request(method, path, body=content, headers=headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        is_json = "json" in answer.headers.get("Content-Type", "")
        warnings = tuple(answer.headers.get_all("Warning") or ())
        return Answer(status=answer.status, body=json.loads(text) if is_json else text, warnings=warnings)

    def get(self, path: str) -> Any:
        """Return the object at this path, or None where there is none; raise NotYet where the answer is another one."""
        answer = self.request("GET", path)
        if answer.status not in (200, 404):
            raise waiting.NotYet(f"GET {path}: {answer}")
        return answer.body if answer.status == 200 else None

    def is_ready(self) -> bool:
        try:
            return self.request("GET", "/readyz").status == 200
        except OSError:
            return False
