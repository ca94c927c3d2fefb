"""The interface DRA under kills and power cuts, with claims held: `python -m tests.device_plugin.dra_kills --count 40`.

The program is a process of its own, which kills itself before or after the nth change of a file of its claims or of
CDI, half written or whole. After a power cut, /run is empty, devices have other numbers, and the kubelet prepares the
claims of its pods again; after a kill, the pods run on. Then the program starts again, and all has to be well.
"""

import argparse
import asyncio
import contextlib
import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from tests.device_plugin import dra_faults, dra_nodes, settings
from tests.kube import apiserver

_MOMENTS = 36
"""Changes of files in a run of `_work`, about."""
_GONE_S = 60.0

_FUSE = """
import os, signal, sys
last, half, folders = int(os.environ["FUSE"]), os.environ["FUSE_HALF"], tuple(os.environ["FUSE_FOLDERS"].split(":"))
moments = 0
def blow(event, arguments):
    global moments
    if event not in ("open", "os.rename", "os.remove") or not str(arguments[0]).startswith(folders):
        return
    if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)):
        return
    moments += 1
    if moments == last:
        if half and os.path.exists(arguments[0]) and event != "os.remove":
            os.truncate(arguments[0], os.path.getsize(arguments[0]) // 2)
        os.kill(os.getpid(), signal.SIGKILL)
if last:
    sys.addaudithook(blow)
"""
_BEGIN = f"""{_FUSE}
from pathlib import Path
from device_plugin import cli
from device_plugin.dra import api_server
api_server.ApiServer.of_pod.__func__.__defaults__ = (Path(os.environ["ACCOUNT"]),)
from device_plugin.dra import claim_service, driver, publisher
publisher._PAUSE_S, publisher._LONGEST_PAUSE_S, driver._HELD_S, claim_service.RETRY_S = 0.01, 0.1, 0.05, 0.01
sys.exit(cli.main(sys.argv[1:]))
"""


@contextlib.asynccontextmanager
async def program(node: dra_nodes.Node, last: int = 0, *, half: bool = False) -> AsyncIterator[subprocess.Popen[bytes]]:
    """The program as a process of its own, which is killed at the end with all that it started.

    It kills itself at the `last` change of a file, of which `half` is there then; 0: at none.
    """
    where = node.where
    environment = {
        "NODE_NAME": "n",
        "ACCOUNT": str(node.folder),
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(node.server.port),
        "FUSE": str(last),
        "FUSE_HALF": "1" if half else "",
        "FUSE_FOLDERS": f"{where.claims}:{where.cdi}:{where.run}/.claims",
    }
    (node.folder / "config.json").write_text(settings.text(settings.settings(interface="DRA")))
    pairs = {
        "--config": node.folder / "config.json",
        "--sysfs": where.sysfs,
        "--dev": where.dev,
        "--run-dir": where.run,
        "--kubelet-dir": where.kubelet,
        "--cdi-dir": where.cdi,
        "--program-dir": node.folder / "program",
        "--rescan-seconds": "0.2",
    }
    arguments = [str(word) for pair in pairs.items() for word in pair]
    with (node.folder / "log").open("ab") as log:
        running = subprocess.Popen(
            [sys.executable, "-c", _BEGIN, *arguments],
            env={**os.environ, **environment},
            stderr=log,
            start_new_session=True,
        )
    try:
        yield running
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        await asyncio.to_thread(running.wait)


@contextlib.asynccontextmanager
async def node(folder: Path) -> AsyncIterator[dra_nodes.Node]:
    """A node whose API server speaks TLS, as `program` needs it."""
    certificate = apiserver.certificate(folder)
    (folder / "ca.crt").symlink_to(certificate.name)
    async with dra_nodes.made(folder, certificate) as made:
        yield made


async def _work(trial: dra_faults.Trial, running: subprocess.Popen[bytes]) -> None:
    """Have pods come, go, and come by force until the program is dead or enough was done."""
    for turn in range(10):
        trial.schedule()
        for _ in range(20):
            if running.poll() is not None:
                return
            await trial.admit()
            await trial.end()
            if not trial.pending and not trial.ending and trial.node.server.devices:
                break
            await asyncio.sleep(0.02)
        if turn % 3 == 2:
            trial.stop_pod(by_force=turn == 8)


def _cut(trial: dra_faults.Trial) -> None:
    """Take away what a power cut takes: all of /run and the kubelet's sockets. Pods start again with their claims."""
    where = trial.node.where
    for folder in (where.run, where.cdi, where.sockets):
        shutil.rmtree(folder, ignore_errors=True)
    where.run.mkdir(parents=True)
    trial.node.host.renumber()
    trial.pending += [name for name in trial.running if name not in trial.ending]
    trial.running.clear()


def _judge(trial: dra_faults.Trial) -> None:
    """Fail where a file is not whole, or a running pod's claim is forgotten."""
    where = trial.node.where
    for path in where.cdi.glob("*.json"):
        msgspec.json.decode(path.read_bytes())
    known = json.loads(where.claims.read_text())["claims"] if where.claims.exists() else {}
    # Of one that ends, the answer may have been lost.
    for name, device in ((name, trial.running[name]) for name in trial.running if name not in trial.ending):
        claim = known.get(f"uid-of-{name}", {})
        if not claim.get("isPrepared") or [each["device"] for each in claim["devices"]] != [device]:
            raise dra_faults.WrongError(f"{name} runs with {device}, and the file has {claim}")


async def run(seed: int) -> Counter[str]:
    """Kill the program once, start it again, and judge; return what was done. Raises `WrongError`, or TimeoutError."""
    rand = random.Random(seed)  # noqa: S311 - it is to be the same each time
    folder = Path(tempfile.mkdtemp(prefix="kae-", dir="/tmp"))
    try:
        async with node(folder) as made:
            trial = dra_faults.Trial(made, rand)
            async with program(made, rand.randrange(1, _MOMENTS), half=rand.random() < 0.5) as running:
                await _work(trial, running)
                trial.counts["in a change of a file" if running.poll() is not None else "at rest"] += 1
            trial.counts["held"] += len(trial.running)
            await trial.kubelet.close()
            trial.kubelet = dra_faults.Kubelet(made)
            if is_cut := rand.random() < 0.5:
                _cut(trial)
            trial.counts["power cuts" if is_cut else "kills"] += 1
            _judge(trial)
            try:
                async with program(made):
                    async with asyncio.timeout(_GONE_S):
                        while len(made.server.devices) != len(made.host.states()):
                            await asyncio.sleep(0.02)
                    for _ in range(3):
                        trial.schedule()
                    _judge(trial)
                    await trial.mend()
                    _judge(trial)
            finally:
                await trial.kubelet.close()
        return trial.counts
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    total: Counter[str] = Counter()
    for number in range(options.count):
        total += asyncio.run(run(options.seed + number))
    told = ", ".join(f"{count} {name}" for name, count in sorted(total.items()))
    sys.stdout.write(f"{options.count} ends, 0 wrong; {told}\n")


if __name__ == "__main__":
    main()
