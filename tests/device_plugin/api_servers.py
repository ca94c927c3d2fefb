"""A stand-in API server for the interface DRA: slices and claims over real HTTP, with watches."""

import asyncio
import contextlib
import copy
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib import parse

from device_plugin.dra import api_server


def canonical(found: Any) -> Any:
    """Return quantities as the API server writes them: 1000 is 1k."""
    if isinstance(found, dict):
        return {key: canonical(value) for key, value in found.items()}
    if not (isinstance(found, str) and found.isdecimal() and int(found)):
        return found
    suffix, larger = "", iter("kMGTPE")
    while found.endswith("000"):
        found, suffix = found[:-3], next(larger)
    return found + suffix


class Server:
    """The objects, by name. Failures are those that a test sets."""

    def __init__(self, certificate: Path | None = None) -> None:
        self._tls = None
        if certificate:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(certificate, certificate.with_suffix(".key"))
        self.slices: dict[str, dict[str, Any]] = {}
        self.claims: dict[str, dict[str, Any]] = {}
        self.writes: list[str] = []
        """Each write as method and name."""
        self.reads: list[str] = []
        """The last part of the path of each read, such as a claim's name, as it is asked."""
        self.answers = asyncio.Event()
        """Reads of claims are answered while it is set."""
        self.answers.set()
        self.refusal: tuple[int, str] | None = None
        self.watch_refusal: int | None = None
        self.latency_s = 0.0
        self.drops: tuple[str, ...] = ()
        """Fields of devices that vanish, as those of features that are off."""
        self.taken: list[str] = []
        """Names of slices of other nodes."""
        self.port = 0
        self._version = 1
        self._changed: set[asyncio.Event] = set()
        self._server: asyncio.Server | None = None

    async def up(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]

    def down(self) -> None:
        assert self._server is not None
        self._server.close()
        self.tell()

    def client(self, folder: Path) -> api_server.ApiServer:
        return api_server.ApiServer("127.0.0.1", self.port, folder / "token", None)

    def tell(self) -> None:
        self._version += 1
        for event in self._changed:
            event.set()

    def wipe(self) -> None:
        """Delete all slices, as a kubelet that starts does."""
        self.slices.clear()
        self.tell()

    @property
    def devices(self) -> dict[str, dict[str, Any]]:
        """The devices of the newest generation, by name."""
        newest = max((item["spec"]["pool"]["generation"] for item in self.slices.values()), default=0)
        return {
            device["name"]: device
            for item in self.slices.values()
            if item["spec"]["pool"]["generation"] == newest
            for device in item["spec"]["devices"]
        }

    def allocate(
        self, name: str, *devices: str, node: str = "n", driver: str = "kae.openfuyao.com", **more: Any
    ) -> str:
        """Make a claim that was given devices by the scheduler; return its uid."""
        uid = f"uid-of-{name}"
        results = [
            {"request": "accelerator", "driver": driver, "pool": node, "device": device, **more} for device in devices
        ]
        self.claims[name] = {
            "metadata": {"name": name, "namespace": "default", "uid": uid},
            "status": {"allocation": {"devices": {"results": results}}},
        }
        return uid

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            method, target, _ = head[0].split()
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            body = json.loads(await reader.readexactly(int(headers.get("content-length", 0))) or b"{}")
            url = parse.urlsplit(target)
            if method == "GET":
                self.reads.append(url.path.rpartition("/")[2])
            if "/resourceclaims/" in url.path:
                await self.answers.wait()
            await asyncio.sleep(self.latency_s)
            if "watch=1" in url.query and self.watch_refusal is not None:
                writer.write(f"HTTP/1.1 {self.watch_refusal} X\r\nContent-Length: 0\r\n\r\n".encode())
            elif "watch=1" in url.query:
                await self._watch(writer, int(parse.parse_qs(url.query)["resourceVersion"][0]))
            else:
                status, answer = self._answer(method, url.path, body)
                data = json.dumps(answer).encode()
                writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
            await writer.drain()
        writer.close()

    async def _watch(self, writer: asyncio.StreamWriter, version: int) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        changed = asyncio.Event()
        self._changed.add(changed)
        if version == self._version:
            await changed.wait()
        self._changed.discard(changed)
        writer.write(b"2\r\n{}\r\n0\r\n\r\n")

    def _answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if self.refusal is not None:
            return self.refusal[0], {"message": self.refusal[1]}
        name = path.rpartition("/")[2]
        if "/resourceclaims/" in path:
            found = self.claims.get(name)
            return (200, found) if found else (404, {"message": f'resourceclaims "{name}" not found'})
        if method == "POST" and body["metadata"]["name"] in (*self.taken, *self.slices):
            return 409, {"message": f'resourceslices "{body["metadata"]["name"]}" already exists'}
        if method == "GET":
            return 200, {"metadata": {"resourceVersion": str(self._version)}, "items": list(self.slices.values())}
        self.writes.append(f"{method} {body['metadata']['name'] if method == 'POST' else name}")
        if method == "DELETE":
            if self.slices.pop(name, None) is None:
                return 404, {"message": "not found"}
            self.tell()
            return 200, {}
        stored = self._stored(body)
        self.slices[stored["metadata"]["name"]] = stored
        self.tell()
        return 201 if method == "POST" else 200, stored

    def _stored(self, body: dict[str, Any]) -> dict[str, Any]:
        stored = copy.deepcopy(body)
        for device in stored["spec"]["devices"]:
            if "capacity" in device:
                device["capacity"] = canonical(device["capacity"])
            for field in self.drops:
                device.pop(field, None)
            for taint in device.get("taints", ()):
                taint["timeAdded"] = "2026-01-01T00:00:00Z"
        stored["metadata"]["resourceVersion"] = str(self._version)
        return stored


@contextlib.asynccontextmanager
async def serving(certificate: Path | None = None) -> AsyncIterator[Server]:
    """Serve by TLS where a certificate is given, whose key lies beside it."""
    server = Server(certificate)
    await server.up()
    try:
        yield server
    finally:
        server.down()
