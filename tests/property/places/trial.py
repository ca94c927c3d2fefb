"""A trial: an installer at work, a place of its host that breaks at some moment, and what comes of it.

The installer is a process, started again as the kubelet does. While the place is broken it may fail, but it may neither
hang nor say Ready of a host that is not as asked. Once the place is mended, it comes to its end without a person.
"""

import contextlib
import functools
import json
import logging
import os
import random
import select
import signal
import time
from pathlib import Path
from typing import Any

from installer import loop
from installer.change import prepare
from installer.report import driver_state
from runtime import clocks, errors, killable, process, pulse
from tests.installer import crashes, machines
from tests.property import campaign
from tests.property.places import breaks

OPERATIONS = {
    "install": ("install", crashes.LUCKS[0]),
    "upgrade": ("upgrade", crashes.LUCKS[0]),
    "rollback": ("upgrade", crashes.LUCKS[1]),
    "removal": ("removal", crashes.LUCKS[0]),
}
_EVENTS = 44
"""So many steps begin or end in the longest of them."""

_DEADLINE_S = 60.0
_STARTS = 3
_CYCLES = 4
_FASTER = 1e6
"""The clock runs so fast that each start finds any pause over."""


def trial(seed: int, folder: Path) -> campaign.Result:
    """Have a place break under an installer, in an empty folder."""
    draw = random.Random(seed)  # noqa: S311 - trials are drawn again from their seed
    name, place = draw.choice(list(OPERATIONS)), draw.choice(breaks.PLACES)
    how, moment = draw.choice([*breaks.BREAKS, "link"]), draw.randrange(_EVENTS)
    result = campaign.Result(seed=seed, acts=(name, f"/{place}", how, f"moment {moment}"))
    _apart()
    os.environ["NODE_NAME"] = "kp920-1"
    operation, luck = OPERATIONS[name]
    case = crashes.Case(source="prebuilt", operation=operation, step=0, afterwards="restart", luck=luck)
    machine = machines.Machine(folder / "host")
    bench = crashes.Bench(machine, folder, case, crashes.SOURCES["prebuilt"])
    _carry_out(bench, place, how, moment, result, draw)
    result.counts.update([f"{name}, {how}"])
    return result


@functools.cache
def _apart() -> None:
    logging.disable()  # Of what fails here, the faults are told.
    breaks.apart()


def _carry_out(  # noqa: PLR0913 - what was drawn
    bench: crashes.Bench, place: str, how: str, moment: int, result: campaign.Result, draw: random.Random
) -> None:
    root = bench.machine.root
    volume = breaks.volume(root / place) if how not in ("link", "gone") else contextlib.nullcontext()
    with volume:
        with contextlib.ExitStack() as broken:

            def spoil() -> None:
                if how == "link":
                    breaks.move(root, place)
                else:
                    broken.enter_context(breaks.BREAKS[how](root / place, draw))

            said = _worked(bench, moment, spoil)
            for _ in range(_STARTS):
                if said is None:
                    result.faults.append("it hangs")
                    return
                said = _worked(bench)
            # What comes back with its folder was not there.
            judged = _is_right(bench) if how == "gone" else None
        if said is not None and said["ready"] and not (_is_right(bench) if judged is None else judged):
            result.faults.append(f"it said {said['state']}, and the host is wrong: {said['reason']}")
        for _ in range(_STARTS):
            said = _worked(bench)
        result.counts.update([f"in the end {said['state']}" if said else "in the end it hangs"])
        if not _is_right(bench):
            result.faults.append(f"it does not recover: {said}")


def _is_right(bench: crashes.Bench) -> bool:
    if bench.case.operation == "removal":
        return bench.is_clean()
    return bench.has(bench.wished()[0] if bench.case.luck == crashes.LUCKS[0] else crashes.OLD)


def _worked(bench: crashes.Bench, moment: int = -1, spoil: Any = None) -> dict[str, Any] | None:
    """Have an installer work until it rests or ends; return what it said last, None where it had to be killed."""
    answers, telling = os.pipe()
    going, letting = os.pipe()
    if not (child := os.fork()):
        _work(bench, moment, telling, going)
    os.close(telling)
    os.close(going)
    said: dict[str, Any] = {"state": "", "ready": False, "reason": "it ended"}
    try:
        end_s, heard = time.monotonic() + _DEADLINE_S, b""
        while True:
            if not select.select([answers], [], [], max(0, end_s - time.monotonic()))[0]:
                return None
            if not (chunk := os.read(answers, 1 << 16)):
                break
            heard += chunk
            while b"\n" in heard:
                line, _, heard = heard.partition(b"\n")
                if line == b"now":
                    spoil()
                    spoil = None
                    os.write(letting, b"+")
                else:
                    said = json.loads(line)
        if spoil is not None:  # It ended before its moment came.
            spoil()
        return said
    finally:
        os.close(answers)
        os.close(letting)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


class _Shown(driver_state.DriverState):
    """The state of an installer, which waits for what happens at a moment."""

    def __init__(self, moment: int, telling: int, going: int) -> None:
        super().__init__()
        self._left, self._telling, self._going = moment, telling, going

    def step(self, name: str, event: str, seconds: float) -> None:
        super().step(name, event, seconds)
        self.pass_moment()

    def pass_moment(self) -> None:
        if self._left == 0:
            os.write(self._telling, b"now\n")
            os.read(self._going, 1)
        self._left -= 1


def _work(bench: crashes.Bench, moment: int, telling: int, going: int) -> None:
    code = 1
    try:
        killable.PATIENCE_S, pulse.LIMIT_S, pulse._LOOK_S = 1.0, 3.0, 0.2
        prepare._WITHDRAWN_S, prepare._ADMITTED_S = 0.1, 0.01
        boot_s = clocks.since_boot_s
        clocks.since_boot_s = lambda: boot_s() * _FASTER
        shown = _Shown(moment, telling, going)
        shown.pass_moment()
        with pulse.watched(bench.machine.host.stop, lambda _: os._exit(3)):
            version, changes = bench.wished()
            parts = bench._installer(version, **changes).parts
            running = loop.Loop(parts.host, parts.settings, parts.changer, parts.digest, shown)
            for _ in range(_CYCLES):
                if running.cycle() > 0:
                    break
        said = {"state": shown.state, "ready": shown.ready, "reason": shown.reason}
        os.write(telling, f"{json.dumps(said)}\n".encode())
        code = 0
    except (errors.Failure, OSError, process.Unkillable) as failure:
        said = {"state": "", "ready": False, "reason": str(failure)}
        os.write(telling, f"{json.dumps(said)}\n".encode())
    finally:
        os._exit(code)
