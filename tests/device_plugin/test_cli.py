"""The command line: exit codes, one clear line for what is wrong, and a list that changes nothing."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from device_plugin import cli
from runtime import files
from tests.device_plugin import hosts, machines, settings

ROOT = Path(__file__).parents[2]


def options(host: hosts.Host, folder: Path) -> list[str]:
    """Return the command-line options for a fake host, with a config for all kinds."""
    file = folder / "config.json"
    file.write_text(settings.text(settings.settings()))
    pairs = {
        "--config": file,
        "--sysfs": host.sysfs,
        "--dev": host.dev,
        "--run-dir": host.run,
        "--kubelet-dir": host.kubelet,
        "--program-dir": folder,
    }
    return [str(word) for pair in pairs.items() for word in pair]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "device_plugin", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve"],
        ["list", "more"],
        ["--no-such-option"],
        ["--conf", "x"],
        ["--config"],
        ["--rescan-seconds", "often"],
        ["list", "--output", "yaml"],
        ["--output", "json"],
    ],
)
def test_a_wrong_call_ends_with_2_and_how_it_would_be_right(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)

    out, err = capsys.readouterr()
    assert (caught.value.code, out) == (2, "")
    assert err.startswith("usage: python -m device_plugin")


def test_help_names_every_option_and_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["--help"])

    out, _ = capsys.readouterr()
    assert caught.value.code == 0
    for default in ("/etc/kae/config.json", "/sys", "/run/kae", "/var/lib/kubelet", "/run/program", "30"):
        assert f"(default: {default})" in " ".join(out.split())


def test_without_a_config_the_program_ends_with_1_and_says_why_in_its_log(tmp_path: Path) -> None:
    answer = run("--config", str(tmp_path / "none.json"))

    _, line = answer.stderr.splitlines()
    record = json.loads(line)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert record["level"] == "critical"
    assert record["message"].startswith(f"The config '{tmp_path}/none.json' cannot be read (No such file or directory)")


def test_without_a_config_the_list_ends_with_1_and_a_line_for_people(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = cli.main(["list", "--config", str(tmp_path / "none.json")])

    out, err = capsys.readouterr()
    assert (code, out) == (1, "")
    assert err.startswith(f"device_plugin: The config '{tmp_path}/none.json' cannot be read")
    assert err.count("\n") == 1


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": 2}', '{"version": 1}'])
def test_a_config_that_is_none_ends_the_list_with_1(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.json"
    file.write_text(content)

    assert cli.main(["list", "--config", str(file)]) == 1
    assert str(file) in capsys.readouterr().err


def test_the_list_works_in_a_process_of_its_own_and_changes_nothing(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    arguments = options(host, tmp_path)

    answer = run("list", *arguments)

    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.count("Healthy") == 6
    assert sorted(tmp_path.rglob("*")) == sorted([*before, tmp_path / "config.json"])


def test_a_list_does_not_wait_for_a_driver_whose_remove_waits(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    host.set_vfs("0000:79:00.0", 2)
    for folder in (host.sysfs / "bus/pci/devices").iterdir():
        # The kernel reads it under the lock that remove holds: a pipe without a writer makes its reader wait, too.
        (folder / "sriov_numvfs").unlink(missing_ok=True)
        os.mkfifo(folder / "sriov_numvfs")

    answer = run("list", *options(host, tmp_path))

    assert (answer.returncode, answer.stderr) == (0, "")
    assert "Its 2 virtual functions are offered in its place." in answer.stdout


def test_a_plugin_ends_when_told_while_a_read_hangs(short_path: Path) -> None:
    host = machines.bare_metal(short_path)
    (short_path / "program").mkdir()
    command = [sys.executable, "-m", "device_plugin", *options(host, short_path), "--rescan-seconds", "0.2"]
    with contextlib.ExitStack() as stack:
        stack.enter_context(host.hanging("0000:79:00.0"))
        process = stack.enter_context(subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE))
        stack.callback(process.kill)
        assert process.stderr is not None
        process.stderr.readline()  # its version
        assert b"does not answer" in process.stderr.readline()
        began = time.monotonic()
        process.terminate()

        assert process.wait(20) == 0
        assert time.monotonic() - began < 5


def test_a_plugin_that_is_killed_while_a_read_hangs_lets_go_of_its_lock_and_its_sockets(short_path: Path) -> None:
    host = machines.bare_metal(short_path)
    (short_path / "program").mkdir()
    command = [sys.executable, "-m", "device_plugin", *options(host, short_path)]
    with contextlib.ExitStack() as stack:
        stack.enter_context(host.hanging("0000:79:00.0"))
        process = stack.enter_context(subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL))
        stack.callback(process.kill)
        sockets = host.kubelet / "plugins_registry/kae"
        until(lambda: len(list(sockets.glob("*.sock"))) == 3)
        (reading,) = children(process.pid)
        # One that waits in the kernel keeps its descriptors and does not end, and so does one that is stopped.
        os.kill(reading, signal.SIGSTOP)
        try:
            kept = {str(link.readlink()).partition(":")[0] for link in Path(f"/proc/{reading}/fd").iterdir()}
            process.kill()
            process.wait(20)

            assert kept == {"socket", "/dev/null"}
            with contextlib.closing(files.Lock(host.run / "device-plugin.lock")) as lock:
                until(lock.acquire)
            for path in sockets.glob("*.sock"):
                with socket.socket(socket.AF_UNIX) as kubelet, pytest.raises(ConnectionRefusedError):
                    kubelet.connect(str(path))
        finally:
            os.kill(reading, signal.SIGCONT)
    until(lambda: not Path(f"/proc/{reading}").exists())


def children(parent: int) -> list[int]:
    """The processes that a process started."""
    tasks = Path(f"/proc/{parent}/task")
    return [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]


def until(true: Callable[[], bool]) -> None:
    """Wait for something."""
    end_s = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end_s
        time.sleep(0.02)


def test_options_mean_the_same_before_and_after_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = options(machines.bare_metal(tmp_path), tmp_path)

    assert cli.main(["list", *arguments, "-o", "json"]) == 0
    after = capsys.readouterr().out
    assert cli.main([*arguments, "list", "-o", "json"]) == 0

    assert capsys.readouterr().out == after
    assert len(json.loads(after)["devices"]) == 6


def test_a_run_folder_that_cannot_be_used_ends_the_program_with_1_and_its_name(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    host.run.rmdir()
    host.run.write_text("no folder")

    answer = run(*options(host, tmp_path))

    _, line = answer.stderr.splitlines()
    assert answer.returncode == 1
    assert json.loads(line)["message"] == f"'{host.run}/dev' cannot be changed: Not a directory."
