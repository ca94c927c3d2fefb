"""A client of the API server, as small as its few requests are: one connection for each, on the event loop.

The official client would double the program's memory.
"""

import asyncio
import base64
import binascii
import contextlib
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from runtime import errors

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The folder of a pod's token and of the API server's authority."""

_WITHIN_S = 10.0
"""The longest time of a request."""

WATCH_S = 240
"""The length of a watch, after which all is read again."""

_Object = TypeVar("_Object")

_UNREADABLE = (OSError, EOFError, ValueError, LookupError, asyncio.LimitOverrunError)
"""The errors of an answer that breaks off, or is none of HTTP; a proxy may give one."""

_HEAD_BYTES = 1 << 16
_BODY_BYTES = 64 << 20


class ApiError(errors.Failure):
    """The API server is away, or refuses; `status` is its HTTP status, 0 without an answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        self.status = status
        super().__init__(message)


def read(answer: object, kind: type[_Object]) -> _Object:
    """Return an answer as an object of a kind; raises `ApiError` for another one."""
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise ApiError(f"The API server answers with something else than was asked for: {error}.") from error


class ApiServer:
    """The API server of the cluster; the token is read for each request, as the kubelet replaces it."""

    def __init__(self, host: str, port: int, token: Path, authority: Path | None) -> None:
        """Takes no authority for a server without TLS, as in tests."""
        self._host, self._port, self._token, self._authority = host, port, token, authority

    @classmethod
    def of_pod(cls, folder: Path = SERVICE_ACCOUNT) -> "ApiServer":
        """Return the API server of the cluster of this pod; raises `errors.Failure` outside of one."""
        host = os.environ.get("KUBERNETES_SERVICE_HOST")
        if not host:
            raise errors.Failure("The interface DRA needs the API server, and KUBERNETES_SERVICE_HOST is not set.")
        port = int(os.environ.get("KUBERNETES_SERVICE_PORT", "443"))
        return cls(host, port, folder / "token", folder / "ca.crt")

    def node_uid(self) -> str | None:
        """Return the uid of the node that the token is bound to (KEP-4193); None where it is bound to none."""
        try:
            payload = self._token.read_text().split(".")[1]
            claims = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
            return str(claims["kubernetes.io"]["node"]["uid"])
        except (OSError, IndexError, KeyError, TypeError, binascii.Error, UnicodeError, msgspec.MsgspecError):
            return None

    async def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the object that answers a request; raises `ApiError`."""
        try:
            async with asyncio.timeout(_WITHIN_S), self._answer(method, path, body) as (status, reader, headers):
                data = b"".join([part async for part in _body(reader, headers)])
        except _UNREADABLE as error:
            raise self._away(error) from error
        try:
            answer: dict[str, Any] = msgspec.json.decode(data or b"{}", type=dict)
        except msgspec.MsgspecError as error:
            raise ApiError(f"The API server answers with {status}, and no JSON.", status) from error
        if status >= 300:
            said = str(answer.get("message", "")).rstrip(".") or "no reason"
            raise ApiError(f"The API server refuses ({status}): {said}.", status)
        return answer

    async def changed(self, path: str) -> None:
        """Return at the first event of a watch, or at its end; raises `ApiError`."""
        try:
            async with asyncio.timeout(WATCH_S + 2 * _WITHIN_S):
                async with self._answer("GET", path, None) as (status, reader, headers):
                    if status >= 300:
                        raise ApiError(f"The API server refuses a watch ({status}).", status)
                    async for _ in _body(reader, headers):
                        return
        except _UNREADABLE as error:
            raise self._away(error) from error

    def _away(self, error: BaseException) -> ApiError:
        why = str(error) or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)
        return ApiError(f"The API server at {self._host}:{self._port} does not answer: {why}.")

    @contextlib.asynccontextmanager
    async def _answer(
        self, method: str, path: str, body: Mapping[str, Any] | None
    ) -> "AsyncIterator[tuple[int, asyncio.StreamReader, Mapping[str, str]]]":
        data = b"" if body is None else msgspec.json.encode(body)
        token = self._token.read_text().strip() if self._token.is_file() else ""
        host = f"[{self._host}]" if ":" in self._host else self._host
        lines = [
            f"{method} {path} HTTP/1.1",
            f"Host: {host}:{self._port}",
            "Accept: application/json",
            "Connection: close",
            "User-Agent: kae-device-plugin",
            *([f"Authorization: Bearer {token}"] if token else []),
            *(["Content-Type: application/json", f"Content-Length: {len(data)}"] if data else []),
        ]
        # The authority is read for each request, too; it is replaced as clusters get another one.
        context = ssl.create_default_context(cafile=str(self._authority)) if self._authority else None
        reader, writer = await asyncio.open_connection(self._host, self._port, ssl=context, limit=_HEAD_BYTES)
        try:
            writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + data)
            await writer.drain()
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            fields = (line.partition(":") for line in head[1:] if line)
            headers = {name.strip().lower(): value.strip() for name, _, value in fields}
            yield int(head[0].split()[1]), reader, headers
        finally:
            writer.transport.abort()


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
    """Yield the parts of a body as they come (RFC 9112, section 7.1)."""
    if headers.get("transfer-encoding", "").lower() != "chunked":
        if (length := headers.get("content-length")) is not None:
            yield await reader.readexactly(_bounded(int(length)))
        else:
            yield await reader.read(_BODY_BYTES)
        return
    total = 0
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        total = _bounded(total + size)
        yield await reader.readexactly(size)
        await reader.readexactly(2)


def _bounded(size: int) -> int:
    if not 0 <= size <= _BODY_BYTES:
        raise ValueError(f"an answer of {size} bytes")
    return size
