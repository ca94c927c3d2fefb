"""The command line: exit codes, one clear line for what is wrong, and a list that changes nothing."""

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from device_plugin import cli
from runtime import files
from tests import waits
from tests.device_plugin import hosts, machines, settings

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "device_plugin", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_without_a_config_the_program_ends_with_1_and_says_why_in_its_log(tmp_path: Path) -> None:
    answer = run("--config", str(tmp_path / "none.json"))

    _, line = answer.stderr.splitlines()
    record = json.loads(line)
    assert answer.returncode == 1
    assert answer.stdout == ""
    assert record["level"] == "critical"
    assert record["message"].startswith(f"The config '{tmp_path}/none.json' cannot be read (No such file or directory)")


def test_without_a_config_the_list_ends_with_1_and_a_line_for_people(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = cli.main(["list", "--config", str(tmp_path / "none.json")])

    out, err = capsys.readouterr()
    assert code == 1
    assert out == ""
    assert err.startswith(f"device_plugin: The config '{tmp_path}/none.json' cannot be read")
    assert err.count("\n") == 1


@pytest.mark.long
def test_the_list_works_in_a_process_of_its_own_and_changes_nothing(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    arguments = settings.options(host, tmp_path)

    answer = run("list", *arguments)

    assert answer.returncode == 0
    assert answer.stderr == ""
    assert answer.stdout.count("Healthy") == 6
    assert sorted(tmp_path.rglob("*")) == sorted([*before, tmp_path / "config.json"])


@pytest.mark.long
def test_a_list_does_not_wait_for_a_driver_whose_remove_waits(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    host.set_vfs("0000:79:00.0", 2)
    for folder in (host.sysfs / "bus/pci/devices").iterdir():
        # The kernel reads it under the lock that remove holds: a pipe without a writer makes its reader wait, too.
        (folder / "sriov_numvfs").unlink(missing_ok=True)
        os.mkfifo(folder / "sriov_numvfs")

    answer = run("list", *settings.options(host, tmp_path))

    assert answer.returncode == 0
    assert answer.stderr == ""
    assert "Its 2 virtual functions are offered in its place." in answer.stdout


@pytest.fixture
def hanging(short_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], hosts.Host]]:
    """A plugin in a process of its own that serves its sockets, and waits for a read that hangs."""
    host = machines.bare_metal(short_path)
    command = [sys.executable, "-m", "device_plugin", *settings.options(host, short_path), "--rescan-seconds", "0.1"]
    with contextlib.ExitStack() as stack:
        process = stack.enter_context(subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL))
        stack.callback(process.kill)
        waits.until(lambda: len(sockets(host)) == 3)
        pipe = stack.enter_context(host.hanging("0000:79:00.0"))
        waits.until(pipe.is_read)
        yield process, host


def sockets(host: hosts.Host) -> list[Path]:
    return list((host.kubelet / "plugins_registry/kae").glob("*.sock"))


def has_ended(process: int) -> bool:
    """Return whether a process is gone, or a zombie that init has not reaped yet."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_plugin_ends_when_told_while_a_read_hangs(hanging: tuple[subprocess.Popen[bytes], hosts.Host]) -> None:
    process, _ = hanging

    process.terminate()

    assert process.wait(60) == 0


def test_a_plugin_killed_while_a_read_hangs_lets_go_of_its_lock_and_sockets(
    hanging: tuple[subprocess.Popen[bytes], hosts.Host],
) -> None:
    process, host = hanging
    tasks = Path(f"/proc/{process.pid}/task")
    (reading,) = [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]
    # One that waits in the kernel keeps its descriptors and does not end, and so does one that is stopped.
    os.kill(reading, signal.SIGSTOP)
    try:
        links = [link for link in Path(f"/proc/{reading}/fd").iterdir() if not stat.S_ISFIFO(link.stat().st_mode)]
        kept = {str(link.readlink()).partition(":")[0] for link in links}
        process.kill()
        process.wait(60)

        assert kept == {"socket", "/dev/null"}
        with contextlib.closing(files.Lock(host.run / "device-plugin.lock")) as lock:
            waits.until(lock.acquire)
        for path in sockets(host):
            with socket.socket(socket.AF_UNIX) as kubelet, pytest.raises(ConnectionRefusedError):
                kubelet.connect(str(path))
    finally:
        os.kill(reading, signal.SIGCONT)
    waits.until(lambda: has_ended(reading))


def test_options_mean_the_same_before_and_after_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = settings.options(machines.bare_metal(tmp_path), tmp_path)

    assert cli.main(["list", *arguments, "-o", "json"]) == 0
    after = capsys.readouterr().out
    assert cli.main([*arguments, "list", "-o", "json"]) == 0

    assert capsys.readouterr().out == after
    assert len(json.loads(after)["devices"]) == 6
