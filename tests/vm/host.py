"""The guest as a host of a cluster: installers run in it as their DaemonSet would have them."""

import contextlib
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import yaml

from tests.vm import artifacts, machine

ENVIRONMENT = (
    "NODE_NAME=kae-vm NODE_ADDRESSES=10.0.2.15 PYTHONPATH=/payload/project:/payload/site PYTHONDONTWRITEBYTECODE=1"
)
CONFIG = "/etc/kae/config.json"
DAEMON_SET = artifacts.REPOSITORY / "output/east/driver/daemonset-kae-driver-storage--oe2403.yaml"
REST_S = 480
"""An installer comes to rest within ten seconds by TCG, and later on a busy host."""

_ANNOTATION = "device.openfuyao.com/config"


@dataclass(frozen=True, slots=True)
class Said:
    state: str
    message: str


class Installer:
    """An installer at work, as a unit of systemd; its log is a file."""

    def __init__(self, guest: machine.Machine, unit: str) -> None:
        self._guest = guest
        self.unit = unit

    def log(self, containing: str = "") -> list[dict[str, Any]]:
        lines = self._guest.ask(f"grep -F '{containing}' /run/{self.unit}.log").output.splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    @property
    def said(self) -> Said:
        line = self._guest.ask(f"grep -F '\"state\": ' /run/{self.unit}.log | tail -n 1").output
        logged = json.loads(line or "{}")
        return Said(logged.get("state", ""), logged.get("message", ""))

    def wait_for_rest(self, timeout_s: float = REST_S) -> Said:
        """Return the first state that is another than Changing."""
        return self._wait("grep -F '\"state\": ' {log} | tail -n 1 | grep -vF '\"Changing\"'", timeout_s)

    def wait_for(self, state: str, timeout_s: float = REST_S) -> Said:
        return self._wait(f"grep -F '\"state\": ' {{log}} | tail -n 1 | grep -F '\"{state}\"'", timeout_s)

    def wait_for_step(self, step: str, timeout_s: float = REST_S) -> None:
        self._wait(f'grep -F \'"step": "{step}"\' {{log}}', timeout_s)

    def stop(self, timeout_s: float = 300) -> None:
        self._guest.run(f"systemctl stop {self.unit}", timeout_s)

    def _wait(self, command: str, timeout_s: float) -> Said:
        try:
            self._guest.wait_until(command.format(log=f"/run/{self.unit}.log"), timeout_s)
        except machine.Failed as failure:
            log = self._guest.read(f"/run/{self.unit}.log")
            raise machine.Failed(f"{failure}\nThe installer's log:\n{log}") from None
        return self.said


class Host:
    """A guest with the host's root mounted at /host and the folders of a pod."""

    def __init__(self, guest: machine.Machine) -> None:
        self.guest = guest
        self._units = itertools.count(1)
        self.prepare()

    def prepare(self) -> None:
        """Mount after a boot what the kubelet would mount."""
        self.guest.run("mkdir -p /host /run/program; mountpoint -q /payload || mount /payload")
        # Slave, as the volume is: else what is unmounted below /host at a shutdown goes from the root, too.
        self.guest.run("mountpoint -q /host || { mount --rbind / /host && mount --make-rslave /host; }")

    def reboot(self) -> None:
        self.guest.reboot()
        self.prepare()

    def boot_kernel(self, release: str) -> None:
        self.guest.release = release
        self.guest.run("sync")
        self.cut_power()

    def cut_power(self) -> None:
        self.guest.power_off()
        self.guest.power_on()
        self.prepare()

    def ask_for(self, driver: str, **changes: Any) -> None:
        """Write the config of a policy that asks for a driver of `artifacts.DRIVERS`, with these changes."""
        version = artifacts.DRIVERS[driver].version
        self.guest.write(CONFIG, json.dumps({**config(), "driverVersion": version, **changes}))

    def begin(self, driver: str, *, log: str = "", options: str = "") -> Installer:
        """Start an installer of `artifacts.DRIVERS`, or of an image in the guest; a boot ends it, or `stop`."""
        unit = f"installer-{len(self.guest.boots)}-{next(self._units)}"
        output = " ".join(
            f"--property=Standard{name}=append:{log or f'/run/{unit}.log'}" for name in ("Output", "Error")
        )
        # mixed: else SIGTERM goes to the programs that the installer runs, too.
        properties = f"--property=KillMode=mixed {output}"
        command = f"env {ENVIRONMENT} {_command(driver)} {options}"
        self.guest.run(f"systemd-run -q --unit={unit} {properties} {command}")
        return Installer(self.guest, unit)

    @contextlib.contextmanager
    def installing(self, driver: str, *, options: str = "", **changes: Any) -> Iterator[Installer]:
        """Ask for a driver, and have an installer, with further options, at work until the block ends."""
        self.ask_for(driver, **changes)
        installer = self.begin(driver, options=options)
        yield installer
        installer.stop()

    def install(self, driver: str, **changes: Any) -> Said:
        with self.installing(driver, **changes) as installer:
            return installer.wait_for_rest()

    def have(self, driver: str) -> None:
        """Have a driver installed, and nothing else on the host: where a test begins."""
        if set(self.loaded().items()) != {(name, artifacts.DRIVERS[driver].says) for name in artifacts.MODULES}:
            said = self.install(driver)
            assert said.state == "Ready", said

    def command(self, name: str, driver: str = "2.0.1", timeout_s: float = machine.COMMAND_S) -> machine.Answer:
        return self.guest.ask(f"env {ENVIRONMENT} {_command(driver)} {name}", timeout_s)

    def loaded(self, names: Sequence[str] = artifacts.MODULES) -> dict[str, str]:
        paths = " ".join(f"/sys/module/{name}/version" for name in names)  # From the lowest up.
        lines = self.guest.ask(f"grep . {paths} 2>/dev/null").output.splitlines()
        return {path.split("/")[3]: version for path, version in (line.split(":", 1) for line in lines)}

    def entries(self, module: str = "") -> list[str]:
        """Return the devices of the class uacce, which have a module's name."""
        return self.guest.ask(f"ls /sys/class/uacce 2>/dev/null | grep '^{module}'").output.split()

    def files(self) -> list[str]:
        """Return the paths of all that installers put on a host, but for their state in /var/lib/kae."""
        places = "/lib/modules/*/updates /etc/modprobe.d /etc/udev/rules.d/*kae* /opt"
        return sorted(self.guest.ask(f"find {places} -not -type d 2>/dev/null").output.split())

    def coldplug(self) -> dict[str, str]:
        """Unload the driver, have udev look at all devices as at a boot, and return what is loaded."""
        # A udevd that runs looks for a new modprobe.d only every three seconds; a boot starts another one.
        self.guest.run("udevadm control --reload")
        self.guest.run(f"rmmod {' '.join(reversed(tuple(self.loaded())))}")
        # Without a reload udev looks at /etc/modprobe.d every three seconds at most.
        self.guest.run("udevadm control --reload && udevadm trigger --action=add && udevadm settle")
        return self.loaded()

    def open(self, device: str) -> str:
        """Have a process open a device and keep it open; `systemctl kill` takes the unit's name."""
        return self._hold(device, "")

    def map(self, device: str) -> str:
        """Have a process map a device and close its descriptor."""
        # By libc: mmap of Python keeps a copy of the descriptor.
        mapped = "libc = ctypes.CDLL(None); libc.mmap.restype = ctypes.c_void_p; libc.mmap(None, 4096, 3, 1, held, 0)"
        return self._hold(device, f"{mapped}; os.close(held)")

    def _hold(self, device: str, then: str) -> str:
        unit = f"holder-{next(self._units)}"
        program = f"import ctypes, os, time; held = os.open('/dev/{device}', os.O_RDWR); {then or 'pass'}"
        program += f"; open('/run/{unit}', 'w'); time.sleep(1e6)"
        self.guest.run(f'systemd-run -q --unit={unit} python3 -c "{program}"')
        self.guest.wait_until(f"test -e /run/{unit}")
        return unit


def config() -> dict[str, Any]:
    """Return the config of an example's DaemonSet, for modules of the image, for any kernel, and without VFs."""
    annotations = yaml.safe_load(DAEMON_SET.read_text())["spec"]["template"]["metadata"]["annotations"]
    written: dict[str, Any] = json.loads(annotations[_ANNOTATION])
    kept = {name: value for name, value in written.items() if name not in ("kernels", "metrics", "sriov")}
    return {**kept, "source": {"prebuilt": {}}, "drain": {"enabled": True, "timeoutSeconds": 5}}


def _command(driver: str) -> str:
    # A path stays as it is.
    return f"python3 -m installer --image-root {PurePosixPath('/payload/images', driver)} --config {CONFIG}"
