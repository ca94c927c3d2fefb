"""The command line: exit codes, clear words for what is wrong, a log of JSON lines, and a prompt end."""

import concurrent.futures
import contextlib
import json
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from runtime import logs, signals
from tests import builders, waits
from tests.kube import apiserver
from tests.watcher import remotes, servers, settings
from watcher import cli, loop

ROOT = Path(__file__).parents[2]
HANG_S = 600
BEGINS = "kae-watcher of no release (config version 2) begins."


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """An API server with a node, a repository, and what a watcher is told of them."""

    folder: Path
    server: apiserver.ApiServer
    remote: remotes.Remote

    def options(self, *more: str, url: str | None = None, **changes: Any) -> list[str]:
        """Return the command-line options, with these fields of the config changed."""
        pairs = {
            "--config": settings.config(self.folder, url or self.remote.url, **changes),
            "--kubeconfig": self.server.kubeconfig,
            "--secrets": self.folder / "secrets",
            "--signing": self.folder / "signing",
            "--scratch": self.folder / "scratch",
            "--program-dir": self.folder / "program",
        }
        return [*(str(word) for pair in pairs.items() for word in pair), *more]

    @property
    def program(self) -> Path:
        return self.folder / "program"

    def subjects(self, branch: str = "main") -> list[str]:
        """The subjects of our commits on a branch, the oldest first."""
        found = self.remote("log", "--reverse", "--format=%an %s", branch).splitlines()
        return [line.removeprefix("kae-watcher ") for line in found if line.startswith("kae-watcher ")]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    (tmp_path / "program").mkdir()
    with apiserver.serving(tmp_path) as server:
        server.state.second_s = 0.1
        server.put(builders.kubernetes_node("a"))
        yield Bench(folder=tmp_path, server=server, remote=remotes.Remote(tmp_path / "remote.git"))


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> "queue.Queue[threading.Event]":
    """What ends a program of this process, which sets up no signals, when it has begun."""
    begun = queue.Queue[threading.Event]()
    monkeypatch.setattr(signals, "set_on_signals", begun.put)
    return begun


@pytest.fixture
def here(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, stop: "queue.Queue[threading.Event]"
) -> pytest.LogCaptureFixture:
    """The log of the program in this process, where it sets up neither signals nor log handlers."""
    monkeypatch.setattr(logs, "start", lambda _: None)
    caplog.set_level("INFO", "watcher")
    return caplog


@contextlib.contextmanager
def started(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """The program in a process of its own, which is gone at the end, whatever happens."""
    command = [sys.executable, "-m", "watcher", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def running(
    stop: "queue.Queue[threading.Event]", monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> Iterator[None]:
    """The program in a thread of this process, which ends well after the block."""
    monkeypatch.setattr(loop, "_AGAIN_S", dict.fromkeys(loop._AGAIN_S, (0.05, 0.05)))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        ended = pool.submit(cli.main, arguments)
        try:
            yield
        finally:
            stop.get(timeout=HANG_S).set()
        assert ended.result() == 0


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def terminated(process: "subprocess.Popen[str]") -> list[dict[str, Any]]:
    """End a program by SIGTERM, which ends it well; return its log."""
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=HANG_S)
    assert process.returncode == 0
    assert out == ""
    return lines_of(err)


def is_ready(bench: Bench) -> bool:
    return (bench.program / "ready").exists()


def told(bench: Bench) -> str:
    file = bench.program / "unready"
    return file.read_text().strip() if file.exists() else ""


@pytest.mark.parametrize("mode", [[], ["--once"]])
@pytest.mark.parametrize("content", [None, "", "{", "[]", '{"version": 2}', '{"version": 1}'])
def test_a_config_that_is_none_ends_with_1_and_a_line(
    content: str | None, mode: list[str], tmp_path: Path, here: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "config.json"
    if content is not None:
        file.write_text(content)

    code = cli.main(["--config", str(file), *mode])

    (message,) = here.messages
    assert code == 1
    assert message.startswith(f"The config '{file}' ")


def failed(here: pytest.LogCaptureFixture, options: list[str]) -> str:
    """Return the one line of a call that ends with 3."""
    assert cli.main(options) == 3
    (message,) = here.messages
    return message


def test_without_a_kubeconfig_it_ends_with_3(bench: Bench, here: pytest.LogCaptureFixture) -> None:
    bench.server.kubeconfig.unlink()

    said = failed(here, bench.options("--once"))

    assert said == f"'{bench.server.kubeconfig}' cannot be read: No such file or directory."


def test_without_an_api_server_it_ends_with_3(bench: Bench, here: pytest.LogCaptureFixture) -> None:
    bench.server.down()

    said = failed(here, bench.options("--once"))

    assert said == f"the API server at {bench.server.address} cannot be reached: Connection refused."


def test_without_the_right_to_list_it_ends_with_3(bench: Bench, here: pytest.LogCaptureFixture) -> None:
    bench.server.state.forbidden.add("list nodes")

    assert failed(here, bench.options("--once")).startswith(
        f"the API server at {bench.server.address} did not list nodes, as the credentials do not allow it (403): "
    )


def test_a_repository_that_is_not_there_ends_with_3(bench: Bench, here: pytest.LogCaptureFixture) -> None:
    url = f"file://{bench.folder}/none.git"

    assert failed(here, bench.options("--once", url=url)).startswith(f"'git ls-remote' failed on '{url}': ")


def test_a_program_folder_that_is_not_there_ends_with_3(bench: Bench, here: pytest.LogCaptureFixture) -> None:
    bench.program.rmdir()

    said = failed(here, bench.options())

    assert said.startswith(f"'{bench.program}/")
    assert said.endswith("' cannot be changed: No such file or directory.")


def test_a_port_that_is_taken_ends_with_3(bench: Bench, here: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as taken:
        port = taken.getsockname()[1]
        said = failed(here, bench.options(metrics={"port": port}))

    assert said == f"Metrics cannot be served at port {port}: Address already in use."


def test_once_it_commits_what_there_is_and_ends(bench: Bench, here: pytest.LogCaptureFixture) -> None:
    bench.server.put(builders.kubernetes_node("b"))
    options = bench.options("--once", quietSeconds=86400, minCommitSeconds=86400)

    codes = [cli.main(options), cli.main(options)]
    bench.server.put(builders.kubernetes_node("c"))
    codes.append(cli.main(options))

    assert codes == [0, 0, 0]
    assert bench.subjects() == ["inventory(east): 2 nodes joined", "inventory(east): 1 node joined"]
    said = [message for message in here.messages if not message.startswith("Committed: ")]
    assert said == ["Committed.", "Nothing was committed.", "Committed."]


def test_once_a_loss_that_is_too_large_is_refused_with_4_and_all_else_is_committed(
    bench: Bench, here: pytest.LogCaptureFixture
) -> None:
    bench.server.put(*(builders.kubernetes_node(name) for name in "bcd"))
    options = bench.options("--once", maxLossPercent=49)
    first = cli.main(options)
    for name in "abc":
        bench.server.delete("v1", "Node", name)
    bench.server.put(builders.kubernetes_node("new"))

    second = cli.main(options)

    assert (first, second) == (0, 4)
    said = (
        "Too much is lost, so it is not committed: 3 of 4 nodes lost something within 24 hours; now a (gone), b (gone)"
    )
    assert any(message.startswith(said) for message in here.messages)
    assert bench.subjects() == ["inventory(east): 4 nodes joined", "inventory(east): 1 node joined"]


def test_once_a_page_that_is_forgotten_in_the_middle_commits_nothing(
    bench: Bench, here: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("compiler.kube.reader.PAGE", 1)
    bench.server.put(builders.kubernetes_node("b"))
    bench.server.state.when_asked = lambda _: bench.server.forget()

    code = cli.main(bench.options("--once"))

    assert code == 3
    assert "410" in here.messages[-1]
    assert bench.subjects() == []


def test_it_works_until_sigterm_and_logs_lines_of_json(bench: Bench) -> None:
    with started(*bench.options()) as process:
        waits.until(lambda: is_ready(bench))
        bench.server.put(builders.kubernetes_node("b"))
        waits.until(lambda: len(bench.subjects()) == 2)
        asked = len(bench.server.state.requests)
        waits.until(lambda: len(bench.server.state.requests) > asked)  # The push has ended for the watcher as well.

        log = terminated(process)

    assert bench.subjects() == ["inventory(east): 1 node joined"] * 2
    assert [record["message"] for record in log] == [
        BEGINS,
        *["Committed: inventory(east): 1 node joined"] * 2,
        "Ended as told.",
    ]
    assert {record["level"] for record in log} == {"info"}
    assert all(record.keys() >= {"time", "level", "logger", "message", "program"} for record in log)
    assert log[2]["commit"] == bench.remote.tip()
    assert not is_ready(bench)
    watches = re.findall(r"timeoutSeconds=(\d+)", " ".join(bench.server.state.requests))
    assert max(map(int, watches)) < 10  # The kubelet kills after 30 seconds what waits for the end of one.


def test_it_tells_what_fails_once_and_goes_on_when_the_cause_is_gone(
    bench: Bench, here: pytest.LogCaptureFixture, stop: "queue.Queue[threading.Event]", monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.server.state.forbidden.add("list nodes")
    with running(stop, monkeypatch, bench.options()):
        waits.until(lambda: "list nodes" in told(bench))
        said = told(bench)
        before = len(bench.server.state.requests)
        waits.until(lambda: len(bench.server.state.requests) > before + 1)
        bench.server.state.forbidden.clear()
        waits.until(lambda: is_ready(bench))

    assert "did not list nodes, as the credentials do not allow it (403): " in said
    assert [record.message for record in here.records if record.levelname == "ERROR"] == [said]
    assert "What failed works again: nodes." in here.messages
    assert bench.subjects() == ["inventory(east): 1 node joined"]


def test_push_options_of_the_config_arrive_at_the_server(bench: Bench, here: pytest.LogCaptureFixture) -> None:
    bench.remote.configure("receive.advertisePushOptions", "true")
    bench.remote.set_hook("pre-receive", 'echo "$GIT_PUSH_OPTION_COUNT $GIT_PUSH_OPTION_0 $GIT_PUSH_OPTION_1" > told')

    code = cli.main(bench.options("--once", pushOptions=["merge_request.create", "merge_request.title=a $(b) c"]))

    assert code == 0
    assert (bench.remote.path / "told").read_text() == "2 merge_request.create merge_request.title=a $(b) c\n"


def test_metrics_are_served_where_they_are_asked_for(
    bench: Bench, here: pytest.LogCaptureFixture, stop: "queue.Queue[threading.Event]", monkeypatch: pytest.MonkeyPatch
) -> None:
    port = servers.free_port()
    with running(stop, monkeypatch, bench.options(metrics={"port": port})):
        waits.until(lambda: is_ready(bench))
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=HANG_S) as answer:
            text = answer.read().decode()

    assert "\nkae_watcher_nodes 1.0\n" in text
    assert "\nkae_watcher_commits_total 1.0\n" in text


@pytest.mark.long
def test_sigterm_ends_it_while_git_gets_no_answer(bench: Bench) -> None:
    with servers.web(bench.folder) as web:
        web.rules.deaf = True
        with started(*bench.options(url=f"{web.url}/remote.git")) as process:
            waits.until(lambda: bool(web.rules.requests))

            log = terminated(process)

    assert [record["message"] for record in log] == [BEGINS, "Ended as told."]


@pytest.mark.long
def test_a_failure_in_a_process_of_its_own_is_one_more_line_without_a_traceback(bench: Bench) -> None:
    bench.server.down()

    command = (sys.executable, "-m", "watcher", *bench.options("--once"))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    first, record = lines_of(done.stderr)
    assert done.returncode == 3
    assert done.stdout == ""
    assert first["message"] == BEGINS
    assert (record["level"], record["program"]) == ("critical", "watcher")
    assert "Traceback" not in done.stderr
    assert list(bench.program.iterdir()) == []


_IMPORTS = """
import importlib, itertools, json, pathlib, sys
for path in itertools.chain(*(pathlib.Path(program).rglob("*.py") for program in sys.argv[1:])):
    if path.stem != "__main__":
        importlib.import_module(".".join(path.with_suffix("").parts))
print(json.dumps({name: getattr(module, "__file__", None) for name, module in sys.modules.items()}))
"""


def imported(*programs: str) -> dict[str, str]:
    done = subprocess.run((sys.executable, "-c", _IMPORTS, *programs), cwd=ROOT, capture_output=True, check=True)
    modules: dict[str, str] = json.loads(done.stdout)
    return modules


def test_its_own_modules_import_no_pydantic() -> None:
    assert [name for name in imported("watcher") if name.startswith("pydantic")] == []


def test_of_the_compiler_images_have_what_the_watcher_and_the_installer_import() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()

    modules = imported("watcher", "installer")

    shipped = [ROOT / line[1:] for line in lines if line.startswith("!compiler/")]
    files = {file for path in shipped for file in (path.rglob("*.py") if path.is_dir() else [path])}
    own = {Path(file) for name, file in modules.items() if name.partition(".")[0] == "compiler"}
    # The version of a checkout is none of an image, which KAE_VERSION tells.
    assert own - {ROOT / "compiler/_version.py"} == files
