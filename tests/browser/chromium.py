"""Chromium without a window, driven by the DevTools protocol (https://chromedevtools.github.io/devtools-protocol/)."""

import base64
import contextlib
import json
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import websocket

from tests import tools

NAMES = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",  # Root has none, and pages of the tests are our own.
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
)


class Page:
    def __init__(self, address: str) -> None:
        self._socket = websocket.create_connection(address, timeout=60)
        self._number = 0
        self.events: list[dict[str, Any]] = []
        """The events of the protocol, such as messages of the console and requests."""
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> "Page":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == self._number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result
            self.events.append(message)

    def open(self, url: str) -> None:
        """Load a page, and wait until its script is done."""
        self.call("Page.navigate", url=url)
        self.wait("document.documentElement?.dataset.ready")

    def visit(self, url: str) -> None:
        """Load a page that is not ours to mark, and wait until all of it is there."""
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def wait_for_address(self, beginning: str) -> None:
        """Wait until the page is another one."""
        for _ in range(200):
            with contextlib.suppress(AssertionError):  # Between two pages there is none that could be asked.
                history = self.call("Page.getNavigationHistory")
                if str(history["entries"][history["currentIndex"]]["url"]).startswith(beginning):
                    return
            time.sleep(0.1)
        raise AssertionError(f"{beginning} is not the page")

    def wait(self, expression: str, seconds: float = 60) -> Any:
        """Return the value of an expression as soon as it is true."""
        end = time.monotonic() + seconds
        while not (value := self.value(expression)):
            assert time.monotonic() < end, f"{expression} did not become true"
            time.sleep(0.02)
        return value

    def value(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def key(self, key: str, code: int) -> None:
        """Press a key, given by its name and its number on a keyboard of Windows."""
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    def resize(self, width: int, height: int, *, dark: bool = False, scale: float = 1) -> None:
        """Give the window a size in CSS pixels, and the person a preference for dark or light."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    def pdf(self, path: Path) -> None:
        answer = self.call("Page.printToPDF", printBackground=False, paperWidth=8.27, paperHeight=11.69)
        path.write_bytes(base64.b64decode(answer["data"]))

    def faults(self) -> list[str]:
        kinds = ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")
        return [json.dumps(event) for event in self.events if event["method"] in kinds]

    def requests(self) -> list[str]:
        sent = (event for event in self.events if event["method"] == "Network.requestWillBeSent")
        return [event["params"]["request"]["url"] for event in sent]


@contextlib.contextmanager
def page() -> Iterator[Page]:
    program = next(filter(None, map(shutil.which, NAMES)), None) or tools.require("chromium", "chromium")
    with tempfile.TemporaryDirectory(prefix="kae-browser-", ignore_cleanup_errors=True) as folder:
        call = [program, *_ARGUMENTS, f"--user-data-dir={folder}", "about:blank"]
        with subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            try:
                with Page(_address(process)) as opened:
                    yield opened
            finally:
                process.terminate()


def _address(process: "subprocess.Popen[str]") -> str:
    """Return the address of the first page, from what the browser prints when it is up."""
    assert process.stderr
    for line in process.stderr:
        if listening := re.search(r"DevTools listening on ws://([^/]+)/", line):
            with urllib.request.urlopen(f"http://{listening[1]}/json/list", timeout=20) as answer:
                pages = json.load(answer)
            return str(next(one["webSocketDebuggerUrl"] for one in pages if one["type"] == "page"))
    raise AssertionError("The browser ended before it listened.")
