"""The guest: start it, run commands in it as root, pull its plugs."""

import contextlib
import json
import os
import shlex
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.vm import artifacts

COMMAND_LINE = (
    "root=/dev/nvme0n1 rw console=ttyS0 panic=1 net.ifnames=0 loglevel=5 systemd.show_status=0 mitigations=off audit=0"
    " tsc=unstable clocksource=hpet"
)
"""panic=1: a second after a panic the machine boots again, as most hosts of a cluster are told to.

Without the last two a guest whose host is busy measures its clock wrongly, and its seconds last minutes.
"""

NODES = (
    *("-object", "memory-backend-ram,id=m0,size=512M", "-object", "memory-backend-ram,id=m1,size=512M"),
    *("-numa", "node,nodeid=0,cpus=0,memdev=m0", "-numa", "node,nodeid=1,cpus=1,memdev=m1"),
)
"""Two NUMA nodes, as a machine with two sockets has them."""

CPUS = {"kvm": "host", "tcg": "Nehalem"}
"""A plain one for TCG: each feature more has the guest load modules for it."""

BOOT_S = 600
"""A boot takes ten seconds by TCG; on a busy host it takes minutes."""

COMMAND_S = 240
"""Most commands take a second by TCG."""


class Failed(AssertionError):  # noqa: N818 - a story failed
    """A command of the guest ended with an error, or the guest does not answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command printed, both streams in one; code 124: killed at its time, -1: could not even be killed."""

    code: int
    output: str


class Machine:
    """A guest with 2 CPUs, 2 NUMA nodes, 1 GiB and a disk of its own over the image; gone when the block ends."""

    def __init__(
        self, parts: artifacts.Artifacts, folder: Path, *, extra: Sequence[str] = (), append: str = ""
    ) -> None:
        """`extra` goes to QEMU, `append` to the kernel; KVM is taken where it can be, else TCG."""
        folder.mkdir(parents=True, exist_ok=True)
        self._disk = folder / "disk.qcow2"
        self.console = folder / "console.log"
        self.accelerator = _accelerator()
        self.release = parts.release
        """The kernel that the next start runs."""
        self._parts, self._folder = parts, folder
        self._extra, self._append = extra, append
        self._process: subprocess.Popen[bytes] | None = None
        self._last = 0
        self._answers: dict[int, Answer] = {}
        self._boots: list[str] = []
        self._rest = b""

    def __enter__(self) -> Self:
        base = ("-F", "raw", "-b", str(self._parts.root))
        subprocess.run(("qemu-img", "create", "-q", "-f", "qcow2", *base, str(self._disk)), check=True)
        try:
            self.power_on()
        except BaseException:
            self.power_off()
            raise
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.power_off()
        self._disk.unlink()

    def power_on(self) -> None:
        """Start the machine and wait for its agent; its disk is as it was."""
        sockets = {name: self._folder / f"{name}.sock" for name in ("command", "qmp")}
        for path in sockets.values():
            path.unlink(missing_ok=True)
        with (self._folder / "qemu.log").open("ab") as log:
            self._process = subprocess.Popen(self._command(sockets), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._rest = b""
        self._port = _connected(sockets["command"], self._process)
        with _connected(sockets["qmp"], self._process) as qmp:
            self._qmp = qmp.makefile("rw")
        try:
            self._qmp.readline()
            self.qmp("qmp_capabilities")
        except (OSError, ValueError):
            raise Failed(f"QEMU does not start: {(self._folder / 'qemu.log').read_text()}") from None
        self.wait_for_boot(len(self._boots) + 1)

    def _command(self, sockets: dict[str, Path]) -> list[str]:
        disks = ["-drive", f"file={self._disk},if=none,id=root,cache=unsafe"]
        # One controller: with two the kernel may number them either way.
        disks += ["-device", "nvme,id=disks,serial=disks", "-device", "nvme-ns,bus=disks,nsid=1,drive=root"]
        disks += ["-drive", f"file={self._parts.payload},if=none,id=payload,format=raw,readonly=on"]
        disks += ["-device", "nvme-ns,bus=disks,nsid=2,drive=payload"]
        ports = {"-serial": "command", "-qmp": "qmp"}
        return [
            *("setpriv", "--pdeathsig", "KILL"),  # It ends with the tests, however these end.
            "qemu-system-x86_64",
            *("-machine", f"q35,accel={self.accelerator}", "-cpu", CPUS[self.accelerator]),
            *("-m", "1G", "-smp", "2,sockets=2", *NODES, "-display", "none", "-nodefaults"),
            *("-kernel", str(self._parts.kernels[self.release]), "-append", f"{COMMAND_LINE} {self._append}"),
            *("-chardev", f"file,id=console,path={self.console},append=on", "-serial", "chardev:console"),
            *(word for flag, name in ports.items() for word in (flag, f"unix:{sockets[name]},server=on,wait=off")),
            *("-nic", "user,model=virtio-net-pci", *disks, *self._extra),
        ]

    def power_off(self) -> None:
        """As when the power fails: what was not written to the disk is lost."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._port.close()
            self._qmp.close()
            self._process = None

    @property
    def boots(self) -> tuple[str, ...]:
        return tuple(self._boots)

    def wait_for_boot(self, number: int, timeout_s: float = BOOT_S) -> None:
        self._read_until(lambda: len(self._boots) >= number, timeout_s, f"boot {number}")

    def reboot(self) -> None:
        number = len(self._boots) + 1
        self.start("systemctl reboot")
        self.wait_for_boot(number)

    def start(self, command: str, timeout_s: float = COMMAND_S) -> int:
        """Begin a command; `answer` takes the number."""
        self._last += 1
        request = {"id": self._last, "command": command, "timeout": timeout_s}
        self._port.sendall(json.dumps(request).encode() + b"\n")
        return self._last

    def answer(self, number: int, timeout_s: float = COMMAND_S) -> Answer:
        # A busy host has the guest's clock run behind.
        self._read_until(lambda: number in self._answers, timeout_s + 60, f"command {number}")
        return self._answers.pop(number)

    def ask(self, command: str, timeout_s: float = COMMAND_S) -> Answer:
        return self.answer(self.start(command, timeout_s), timeout_s)

    def run(self, command: str, timeout_s: float = COMMAND_S) -> str:
        answer = self.ask(command, timeout_s)
        if answer.code:
            raise Failed(f"'{command}' ended with {answer.code}: {answer.output}")
        return answer.output

    def read(self, path: str) -> str:
        """Return the content of a file of the guest; that of one that is not there is empty."""
        return self.ask(f"cat {shlex.quote(path)} 2>/dev/null").output

    def write(self, path: str, content: str) -> None:
        quoted = shlex.quote(path)
        self.run(f'mkdir -p "$(dirname {quoted})" && printf %s {shlex.quote(content)} >{quoted}')

    def wait_until(self, command: str, timeout_s: float = COMMAND_S) -> str:
        """Run a command until it ends well, and return what it printed."""
        end_s = time.monotonic() + timeout_s
        while (answer := self.ask(command)).code:
            if time.monotonic() > end_s:
                raise Failed(f"'{command}' still ends with {answer.code} after {timeout_s} s: {answer.output}")
            time.sleep(0.3)
        return answer.output

    def kernel_log(self) -> str:
        return self.run("dmesg")

    def qmp(self, command: str, **arguments: Any) -> Any:
        self._qmp.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self._qmp.flush()
        while True:
            said = json.loads(self._qmp.readline())
            if "error" in said:
                raise Failed(f"{command}: {said['error']['desc']}")
            if "event" not in said:
                return said["return"]

    def _read_until(self, done: Callable[[], bool], timeout_s: float, what: str) -> None:
        end_s = time.monotonic() + timeout_s
        while not done():
            self._port.settimeout(max(0.01, end_s - time.monotonic()))
            try:
                data = self._port.recv(1 << 16)
            except TimeoutError:
                data = b""
            if not data:
                raise Failed(f"No answer to {what} within {timeout_s} s. The console ends with:\n{self._last_words()}")
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                with contextlib.suppress(ValueError):
                    said = json.loads(line[line.index(b"{") :])
                    if said["id"]:
                        self._answers[said["id"]] = Answer(said["code"], said["output"])
                    else:
                        self._boots.append(said["output"])

    def _last_words(self) -> str:
        return "\n".join(self.console.read_text(errors="replace").splitlines()[-20:])


def _accelerator() -> str:
    # /dev/kvm alone says nothing: with kvm_pvm, as in some clouds, no kernel of a distribution comes up.
    sound = any(Path(f"/sys/module/{name}").exists() for name in ("kvm_intel", "kvm_amd"))
    return "kvm" if sound and os.access("/dev/kvm", os.R_OK | os.W_OK) else "tcg"


def _connected(path: Path, process: "subprocess.Popen[bytes]") -> socket.socket:
    end_s = time.monotonic() + 120
    while True:
        port = socket.socket(socket.AF_UNIX)
        try:
            port.connect(os.path.relpath(path))  # The name of a socket has 107 bytes at most.
        except OSError:
            port.close()
            if time.monotonic() > end_s or process.poll() is not None:
                log = (path.parent / "qemu.log").read_text()
                raise Failed(f"QEMU does not start: {log}") from None
            time.sleep(0.05)
        else:
            return port
