"""Power cuts: QEMU is killed in a step of a driver's change, and powered on again; the host's end is judged.

`python -m tests.vm.power_cuts --count 40` cuts an upgrade in each of its steps, then a rollback in each of its own, and
goes on with moments drawn from the seed.
"""

import argparse
import contextlib
import itertools
import json
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.vm import artifacts, host, machine

PAIR, SPOILED = ("2.0.1", "2.0.2"), "probe"
"""A host changes from the one of the pair that it has to the other; the spoiled one is always rolled back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    spoiled: bool = False
    step: str
    occurrence: int = 1
    """A rollback has steps with the names of those before it."""

    after_s: float = 0.0
    """From the step's beginning."""

    def __str__(self) -> str:
        change = "rollback" if self.spoiled else "upgrade"
        which = "" if self.occurrence == 1 else f" ({self.occurrence})"
        return f"{change}, {self.after_s:.2f} s into {self.step}{which}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    before: str
    asked: str
    at_boot: dict[str, str]
    """The versions of the modules that udev loaded at the boot after the cut."""

    said: host.Said
    """The state in which the next installer came to rest."""

    in_the_end: dict[str, str]
    by_udev: dict[str, str]
    """The versions that udev loads when it looks at all devices again."""

    leftovers: tuple[str, ...]
    """Files that only a change in progress has."""

    def faults(self) -> tuple[str, ...]:
        names = (self.before,) if self.asked == SPOILED else (self.before, self.asked)
        sound = [dict.fromkeys(artifacts.MODULES, artifacts.DRIVERS[name].says) for name in names]
        wrong = []
        if self.at_boot not in ({}, *sound):
            wrong.append(f"The boot loads {self.at_boot}.")
        if self.in_the_end not in sound:
            wrong.append(f"The host ends with {self.in_the_end}.")
        if self.by_udev != self.in_the_end:
            wrong.append(f"udev loads {self.by_udev} afterwards.")
        if self.said.state not in ("Ready", "Failed"):
            wrong.append("The installer does not come to rest.")
        wrong += [f"{path} is left." for path in self.leftovers]
        return (*wrong, str(self.said)) if wrong else ()

    def __str__(self) -> str:
        booted, ended = (", ".join(sorted(set(loaded.values()))) for loaded in (self.at_boot, self.in_the_end))
        return f"the boot loads {booted or 'none'}, the end is {self.said.state} with {ended or 'none'}"


def cut(running: host.Host, chosen: Cut) -> Outcome:
    """Have a host with a driver of the pair change it; pull the plug, power on, and look at what becomes of it."""
    guest = running.guest
    before, other = PAIR if running.loaded()["uacce"] == PAIR[0] else PAIR[::-1]
    asked = SPOILED if chosen.spoiled else other
    _empty_store(running)
    running.ask_for(asked)
    said_before = len(guest.console.read_bytes())
    running.begin(asked, log="/dev/ttyS0")
    _wait_for(guest.console, said_before, chosen)
    time.sleep(chosen.after_s)
    running.cut_power()
    at_boot = running.loaded()
    said = running.install(asked)
    in_the_end = running.loaded()
    places = "/run/kae/driver-changing /etc/modprobe.d/*kae*"
    leftovers = guest.ask(f"ls -d {places} 2>/dev/null").output.split()
    return Outcome(
        before=before,
        asked=asked,
        at_boot=at_boot,
        said=said,
        in_the_end=in_the_end,
        by_udev=running.coldplug(),
        leftovers=tuple(leftovers),
    )


def _empty_store(running: host.Host) -> None:
    """Remove all drivers but the installed one from the store, so that the change has the steps that stage its own."""
    kept = json.loads(running.guest.run("cat /var/lib/kae/driver.json"))["installed"]["id"]
    running.guest.run(f"find /var/lib/kae/drivers -mindepth 1 -maxdepth 1 -not -name {kept} -exec rm -r {{}} +")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    name: str
    occurrence: int
    seconds: float


def cuts(upgrade: list[Step], rollback: list[Step], seed: int) -> Iterator[Cut]:
    """Yield each step's beginning, then moments at random, without end."""
    for step in upgrade:
        yield Cut(step=step.name, occurrence=step.occurrence)
    failed = next(number for number, step in enumerate(rollback) if step.name == "prove-driver")
    for step in rollback[failed:]:
        yield Cut(spoiled=True, step=step.name, occurrence=step.occurrence)
    draw = random.Random(seed)  # noqa: S311 - a run is repeated by its seed
    while True:
        spoiled = draw.random() < 0.3
        step = draw.choice(rollback if spoiled else upgrade)
        after_s = draw.uniform(0, step.seconds)
        yield Cut(spoiled=spoiled, step=step.name, occurrence=step.occurrence, after_s=after_s)


class Bench:
    """A host that has a driver of the pair, one after the other; a new one where a cut left the last one broken."""

    def __init__(self, parts: artifacts.Artifacts, folder: Path) -> None:
        self._parts, self._folder = parts, folder
        self._stack = contextlib.ExitStack()
        self._host: host.Host | None = None

    def host(self) -> host.Host:
        if self._host is None:
            folder = Path(tempfile.mkdtemp(dir=self._folder))
            self._host = host.Host(self._stack.enter_context(machine.Machine(self._parts, folder)))
            self._host.have(PAIR[0])
        return self._host

    def discard(self) -> None:
        self._host = None
        self._stack.close()


def steps(running: host.Host, driver: str) -> list[Step]:
    """Return the steps of a change to a driver, a rollback's included."""
    with running.installing(driver) as installer:
        installer.wait_for_rest()
        ended = [line for line in installer.log('"step": ') if "seconds" in line]
    names = [line["step"] for line in ended]
    return [
        Step(name=line["step"], occurrence=names[: number + 1].count(line["step"]), seconds=line["seconds"])
        for number, line in enumerate(ended)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.vm.power_cuts", description=__doc__)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip", type=int, default=0, help="leave out the first ones")
    options = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="kae-vm-") as folder:
        bench = Bench(artifacts.make(Path(folder)), Path(folder))
        with contextlib.ExitStack() as stack:
            stack.callback(bench.discard)
            known = cuts(steps(bench.host(), PAIR[1]), steps(bench.host(), SPOILED), options.seed)
            bench.host().install(PAIR[1])  # What failed is not tried again before another driver is asked for.
            for number, chosen in enumerate(itertools.islice(known, options.skip, options.count), options.skip):
                wrong += not _judged(bench, number, chosen)
    sys.stdout.write(f"{options.count - options.skip} power cuts, {wrong} with a fault\n")
    return 1 if wrong else 0


def _judged(bench: Bench, number: int, chosen: Cut) -> bool:
    began = time.monotonic()
    try:
        outcome = cut(bench.host(), chosen)
    except machine.Failed as failure:
        faults: tuple[str, ...] = (str(failure),)
        ended = "nothing more is heard"
    else:
        faults, ended = outcome.faults(), str(outcome)
        if outcome.said.state == "Failed" and not faults:
            # A change that failed is not tried again before another one is asked for.
            bench.host().install(outcome.before)
    took_s = time.monotonic() - began
    sys.stdout.write(f"{number:3} {chosen}: {ended} ({took_s:.0f} s)\n")
    sys.stdout.writelines(f"    WRONG: {fault}\n" for fault in faults)
    sys.stdout.flush()
    if faults:
        bench.discard()
    return not faults


def _wait_for(console: Path, start: int, chosen: Cut) -> None:
    """Wait until the installer's log on the console says that a step begins."""
    wanted = f'"step": "{chosen.step}"'.encode()
    lines = 2 * chosen.occurrence - 1  # Each step before has a line for its end, too.
    end_s = time.monotonic() + host.REST_S
    with console.open("rb") as log:
        log.seek(start)
        said = b""
        while said.count(wanted) < lines:
            if time.monotonic() > end_s or re.search(rb'"state": "(?!Changing)', said):
                raise machine.Failed(f"The step {chosen.step} did not come: {said[-2000:].decode(errors='replace')}")
            said += log.read()
            time.sleep(0.005)


if __name__ == "__main__":
    sys.exit(main())
