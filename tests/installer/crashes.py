"""Crash cases: the installer is killed after every single step and restarted, and the end state of the host is checked.

`python -m tests.installer.crashes` runs the whole matrix: each source, install, upgrade and removal, each step, then
a restart, or a reboot and then a restart, with a new driver that works, and with one that turns out not to.

After a restart the change is resumed. A reboot in the middle of a change is a crash of the host: the driver before it
is back, and the installer says Failed.
"""

import argparse
import contextlib
import itertools
import logging
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Collection, Iterator
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from installer import change_steps
from installer.decide import decision
from installer.host import host_state, record
from installer.report import driver_state
from runtime import driver_config, errors
from tests.installer import homes, layouts, machines, modulefiles, settings, sourcetrees

OLD, NEW, SPOILED = "2.0.1", "2.0.2", "4.1"
"""Releases of the driver; the last one installs well and does not load."""

SOURCES = {"prebuilt": settings.PREBUILT, "build": settings.BUILD, "inTree": settings.IN_TREE}
"""Those that need no root."""

OPERATIONS = ("install", "upgrade", "removal")
AFTERWARDS = ("restart", "reboot")
LUCKS = ("it loads", "it does not load")
ALL = tuple(itertools.product(AFTERWARDS, LUCKS))
HALF = (("restart", LUCKS[0]), ("reboot", LUCKS[1]))
"""Each of both at least once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One kill."""

    source: str
    operation: str
    step: int
    """The number of the step after which it comes."""
    afterwards: str
    luck: str

    def __str__(self) -> str:
        return f"{self.source}, {self.operation}, killed after step {self.step}, {self.afterwards}, {self.luck}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The end state of a host after a case."""

    case: Case
    killed_after: str
    """The step's name; empty where the change has fewer steps."""
    ended: str
    """new, old or none; anything else is a fault."""
    wrong: str
    """The faults of the end state; empty where there are none."""
    crashed: bool = False
    """True when the host went down between the start of the change and its record."""


class Bench:
    """A machine, and images with an old, a new and a spoiled driver."""

    def __init__(self, machine: machines.Machine, images: Path, case: Case, source: driver_config.Source) -> None:
        """Brings the machine to where the operation begins."""
        self.case = case
        self.machine = machine
        self._images = images
        self._source = source
        for version in (OLD, NEW, SPOILED):
            machine.add_image(images / version, version)
        spoil(images / SPOILED, machine.kernel)
        if case.source == "build":
            add_headers(machine)
        if case.operation != "install":
            self.finish(OLD)

    def finish(self, version: str, **changes: Any) -> driver_state.DriverState:
        """An installer works until it has nothing more to do; how the host stands then."""
        made = self._installer(version, **changes)
        with contextlib.closing(made.parts):
            made.parts.resume()
            return made.settle()

    def killed(self) -> str:
        """An installer begins the operation, and is killed after the case's step, whose name is the answer."""
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            try:
                self._work_until_killed(writer)
            except BaseException:
                # Nothing of the parent's may go on in the child.
                traceback.print_exc()
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            name = pipe.read()
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) == bool(name), f"{self.case}: it ended by itself"
        return name

    def wished(self) -> tuple[str, dict[str, Any]]:
        """Return the image version and the config changes that the operation asks for."""
        if self.case.operation == "removal":
            return OLD, {"state": "Absent"}
        if self.case.luck != LUCKS[0]:
            return SPOILED, {}
        return (NEW if self.case.operation == "upgrade" else OLD), {}

    def has(self, version: str) -> bool:
        """Return whether a driver is whole: its modules are loaded, its files in place, all devices have entries."""
        loaded = {name: module[0] for name, module in self.machine.loaded().items()}
        in_tree = self.case.source == "inTree"
        expected = None if in_tree else version
        libraries = self.machine.host.path(f"{homes.KAE.home.files}/lib/libwd.so.2")
        return (
            set(loaded) == set(modulefiles.DRIVER)
            and set(loaded.values()) == {expected}
            and len(self.machine.entries()) == len(layouts.two_sockets())
            and set(self.machine.nodes().values()) == {0o666}
            and libraries.is_file()
            and libraries.read_text().strip().endswith(version)
        )

    def is_clean(self) -> bool:
        """Return whether nothing of a driver is left but the kernel's own."""
        host = self.machine.host
        modules = [path for path in host.path("/lib/modules").glob("*/*/**/*.ko") if "/kernel/" not in str(path)]
        libraries = [path for path in host.path(homes.KAE.home.files).rglob("*") if path.is_file()]
        return not (modules or libraries or self.machine.entries() or host.path(homes.KAE.rule).exists())

    def _installer(self, version: str, **changes: Any) -> settings.Installer:
        image = self._images / version
        # The kernel's own modules know no other.
        mode = 1 if self._source.in_tree is not None else 2
        changes["module_parameters"] = settings.parameters(uacce_mode=mode, pf_q_num=256)
        return settings.installer(self.machine, image, source=self._source, driver_version=version, **changes)

    def _work_until_killed(self, writer: int) -> None:
        taken = itertools.count(1)

        def kill(step: change_steps.Step, event: str, _: float) -> None:
            if event == "done" and next(taken) == self.case.step:
                os.write(writer, step.name.encode())
                os.kill(os.getpid(), signal.SIGKILL)

        version, changes = self.wished()
        parts = self._installer(version, **changes).parts
        parts.resume()
        current = host_state.read(self.machine.host, parts.settings)
        decided = decision.decide(parts.settings, current, parts.digest)
        with contextlib.suppress(errors.Failure):
            parts.changer.run(current, decided, kill)


def spoil(image: Path, kernel: str) -> None:
    """Makes a driver that installs well and does not load: one module was built against others."""
    (image / f"opt/lib/modules/{kernel}/hisi_zip.ko").write_bytes(spoiled_module(image.name, kernel))
    source = image / "opt/src/kae/hisi_zip.c"
    source.write_text(source.read_text().replace(f'MODULE_INFO(kmi, "{image.name}")', 'MODULE_INFO(kmi, "others")'))


def spoiled_module(version: str, kernel: str) -> bytes:
    """The file of a module hisi_zip that does not load beside the others of its version."""
    return modulefiles.ModuleFile(name="hisi_zip", version=version, kernel=kernel, kmi="others").elf()


def add_headers(machine: machines.Machine) -> None:
    """Installs kernel-devel of the running kernel."""
    folder = f"usr/src/kernels/{machine.kernel}"
    sourcetrees.write_kernel_devel(machine.root / folder, machine.kernel)
    (machine.root / f"lib/modules/{machine.kernel}/build").symlink_to(f"/{folder}")


def result(bench: Bench) -> Result:
    """Carries a case out."""
    case = bench.case
    version, changes = bench.wished()
    name = bench.killed()
    if not name:
        return Result(case=case, killed_after="", ended="", wrong="")
    crashed = case.afterwards == "reboot" and record.read(bench.machine.host).change is not None
    if case.afterwards == "reboot":
        bench.machine.reboot()
    shown = bench.finish(version, **changes)
    wrong = "; ".join(_wrongs(bench, shown, crashed=crashed))
    return Result(case=case, killed_after=name, ended=_ended(bench), wrong=wrong, crashed=crashed)


def _ended(bench: Bench) -> str:
    if bench.has(bench.wished()[0]) and bench.case.operation != "removal":
        return "new"
    if bench.case.operation != "install" and bench.has(OLD):
        return "old"
    return "none" if bench.is_clean() else "half"


def _wrongs(bench: Bench, shown: driver_state.DriverState, *, crashed: bool) -> Iterator[str]:
    ended = _ended(bench)
    works = bench.case.luck == LUCKS[0] and not crashed
    before = "none" if bench.case.operation == "install" else "old"
    after = "none" if bench.case.operation == "removal" else "new"
    recorded = record.read(bench.machine.host)
    if ended != (after if works else before):
        yield f"it ended with {ended}, {shown.state}: {shown.reason}"
    if bench.machine.host.path(homes.KAE.changing).exists():
        yield "driver-changing stays"
    if bench.machine.host.path(homes.KAE.blocked).exists():
        yield "no boot loads the driver"
    if recorded.change is not None:
        yield "the change is not ended in the record"
    if crashed and not shown.reason.startswith("The host went down during the "):
        yield f"it does not say that the host went down: {shown.reason}"
    if shown.ready != works:
        yield f"it says {shown.state}: {shown.reason}"


def cases(source: str, operation: str, step: int, pairs: Collection[tuple[str, str]] = ALL) -> Iterator[Case]:
    """Every case of one step, for pairs of what comes afterwards and of luck."""
    for afterwards, luck in pairs:
        # A removal cannot turn out badly by its modules, nor can the kernel's own be exchanged for others.
        if luck == LUCKS[0] or (operation != "removal" and source != "inTree"):
            yield Case(source=source, operation=operation, step=step, afterwards=afterwards, luck=luck)


def matrix(batch: Callable[[int], list[Case]], run: Callable[[list[Case]], list[Result]]) -> list[Result]:
    """Step after step, until no operation of the batch has that many."""
    found: list[Result] = []
    for step in itertools.count(1):
        results = [made for made in run(batch(step)) if made.killed_after]
        if not results:
            break
        found += results
    return found


def every(sources: Collection[str], step: int) -> list[Case]:
    """Every case of one step of every operation."""
    return [case for pair in itertools.product(sources, OPERATIONS) for case in cases(*pair, step)]


def alone(case: Case) -> Result:
    """Carries a case out on a machine that needs no root."""
    # A disk spends most of the time on making the hosts' small files.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - a folder of our own in it
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        machine = machines.Machine(Path(folder) / "host")
        return result(Bench(machine, Path(folder), case, SOURCES[case.source]))


def main() -> int:
    """Prints the matrix, and what went wrong; 1 where something did."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", action="append", choices=tuple(SOURCES))
    sources = tuple(parser.parse_args().source or SOURCES)
    logging.disable()  # The drivers that do not load are all told of below.
    began = time.monotonic()
    with futures.ProcessPoolExecutor() as pool:
        results = matrix(lambda step: every(sources, step), lambda batch: list(pool.map(alone, batch)))
    for line in table(results):
        sys.stdout.write(f"{line}\n")
    wrong = [made for made in results if made.wrong]
    for made in wrong:
        sys.stdout.write(f"WRONG {made.case} ({made.killed_after}): {made.wrong}\n")
    sys.stdout.write(f"{len(results)} kills, {len(wrong)} wrong, {time.monotonic() - began:.0f} s\n")
    return 1 if wrong else 0


def table(results: list[Result]) -> Iterator[str]:
    """One line an operation of a source: how many kills, and what the hosts ended with."""
    groups: dict[tuple[str, str, str, str], list[str]] = {}
    for made in results:
        case = made.case
        groups.setdefault((case.source, case.operation, case.afterwards, case.luck), []).append(made.ended)
    for key, ended in groups.items():
        counts = ", ".join(f"{ended.count(word)} {word}" for word in dict.fromkeys(ended))
        yield f"{key[0]:9} {key[1]:8} {key[2]:8} {key[3]:16} {len(ended):3} kills: {counts}"


if __name__ == "__main__":
    sys.exit(main())
