"""Answers that are not those of an API server, as proxies give them: the program goes on, and asks again."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from tests.device_plugin import dra_faults
from tests.device_plugin.dra_nodes import made, until

A = "hpre-0000-79-00-0"

ANSWERS = {
    "no status": b"HTTP/1.1\r\n\r\n",
    "a status in words": b"HTTP/1.1 fine\r\n\r\n",
    "an endless head": b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
    "an endless chunk's head": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 100_000,
    "an empty object": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    "a list": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
    "an empty item": b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"items":[{}]}',
    "a page": b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
    "a redirection": b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n",
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS.keys())
async def test_an_odd_answer_is_asked_for_again(
    answer: bytes, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dra_faults.quicken(monkeypatch.setattr)
    asked = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
        writer.close()
        asked.set()

    async with made(short_path) as node:
        real = node.server.port
        node.server.down()
        proxy = await asyncio.start_server(serve, "127.0.0.1", real)
        async with node.working(), node.kubelet() as kubelet:
            await asked.wait()
            node.server.allocate("c", A)
            assert "API server" in (await node.prepare(kubelet, "c")).error
            proxy.close()
            await node.server.up()
            await until(lambda: node.server.devices)
            assert (await node.prepare(kubelet, "c")).error == ""
