"""The command line: exit codes, clear words for what is wrong, and looks that change nothing."""

import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from installer import cli, loop
from installer.drain import device_holders
from installer.host import chroot
from installer.report import left, reporter
from runtime import driver_config, signals
from tests.installer import homes, podresources, settings, stacks
from tests.installer import kernel as behind
from tests.installer.machines import Machine
from tests.kube.apiserver import ApiServer

ROOT = Path(__file__).parents[2]
DEADLINE_S = 20


@pytest.fixture(autouse=True)
def on_fake_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, too, the host's programs run without chroot; its signals are not the program's."""
    monkeypatch.setattr(chroot, "Host", functools.partial(behind.Host, inside=True))
    monkeypatch.setattr(signals, "set_on_signals", lambda _: None)


def options(machine: Machine, image: Path, stated: driver_config.Config | None = None) -> list[str]:
    """Return the command-line options for a fake host."""
    folder = image.parent
    file = folder / "config.json"
    file.write_text(settings.text(stated or settings.config()))
    (folder / "program").mkdir(exist_ok=True)
    pairs = {
        "--config": file,
        "--host-root": machine.root,
        "--image-root": image,
        "--program-dir": folder / "program",
        "--kubeconfig": folder / "kubeconfig",
    }
    return [str(word) for pair in pairs.items() for word in pair]


def start(*arguments: str, before: tuple[str, ...] = ()) -> "subprocess.Popen[str]":
    """The program in a process of its own."""
    command = [*before, sys.executable, "-c", behind.MAIN, *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(*arguments: str, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run the program in a process of its own and return its result."""
    with start(*arguments, before=before) as process:
        out, err = process.communicate(timeout=DEADLINE_S)
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


# Calls.


@pytest.mark.parametrize("command", ["plan", "status", "remove"])
def test_options_mean_the_same_before_and_after_the_command(
    command: str, machine: Machine, image: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = options(machine, image, settings.config(state="Absent"))

    codes = cli.main([command, *arguments]), cli.main([*arguments, command])

    out = capsys.readouterr().out
    assert codes == (0, 0)
    assert out[: len(out) // 2] == out[len(out) // 2 :]


def test_the_kubelet_is_asked_in_the_folder_that_is_named(
    machine: Machine, image: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(device_holders.IN_POD, "10.96.0.1")
    folder = Path("/var/lib/k0s/kubelet")
    with podresources.serving(machine.root, folder) as kubelet:
        kubelet.give("shop/checkout", "nginx", settings.RESOURCE, "0000:79:00.0")

        cli.main(["status", *options(machine, image), "--kubelet-dir", str(folder)])
        named = capsys.readouterr().out
        cli.main(["status", *options(machine, image)])

    assert "shop/checkout" in named
    assert "The device holders are unknown: " in capsys.readouterr().out


# What is wrong.


@pytest.mark.parametrize("command", ["plan", "status", "remove"])
@pytest.mark.parametrize("content", [None, "", "{", "[]", '{"version": 2}', '{"version": 1}'])
def test_a_config_that_is_none_ends_with_1_and_a_line(
    content: str | None, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.json"
    if content is not None:
        file.write_text(content)

    code = cli.main([command, "--config", str(file), "--host-root", str(tmp_path)])

    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"installer: The config '{file}' ")


@pytest.mark.usefixtures("installed")
def test_a_config_newer_than_the_installer_disturbs_nobody(machine: Machine, image: Path, server: ApiServer) -> None:
    arguments = options(machine, image, settings.config(driver_version="2.1.0"))
    file = image.parent / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"version": 3, "aNewField": True}))
    before = machine.files(), machine.loaded()

    done = run(*arguments)

    *_, last = map(json.loads, done.stderr.splitlines())
    assert (done.returncode, done.stdout, last["level"]) == (1, "", "critical")
    assert last["message"].startswith(f"The config '{file}' has version 3, and this program reads version 2: a newer ")
    assert (server.state.requests, (machine.files(), machine.loaded())) == ([], before)


@pytest.mark.parametrize("command", ["plan", "status", "retry", "remove"])
def test_a_folder_that_is_no_host_ends_with_3_and_a_line(
    command: str, machine: Machine, image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()

    code = cli.main([command, *options(machine, image), "--host-root", str(tmp_path / "empty")])

    said = f"installer: '{tmp_path}/empty' is not the root of a host: it has no /proc/sys/kernel/osrelease.\n"
    assert (code, *capsys.readouterr()) == (3, "", said)


def test_an_unreadable_record_ends_with_3_and_advice(
    machine: Machine, image: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.host.write("/var/lib/kae/driver.json", '{"version": 1, "installed": {')

    code = cli.main(["status", *options(machine, image)])

    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert err.startswith("installer: The record '/var/lib/kae/driver.json' on the host cannot be read (")
    assert err.endswith("move it away if the driver is not ours.\n")


@pytest.mark.parametrize(("missing", "code"), [("--config", 1), ("--host-root", 3)])
def test_a_program_that_cannot_begin_says_its_version_and_why(
    missing: str, code: int, machine: Machine, image: Path, tmp_path: Path
) -> None:
    answer = run(*options(machine, image), missing, str(tmp_path / "none"))

    first, said = map(json.loads, answer.stderr.splitlines())
    assert (answer.returncode, answer.stdout) == (code, "")
    assert first["message"] == "kae-driver-installer of no release (config version 2) begins."
    assert (said["level"], said["program"]) == ("critical", "installer")
    assert str(tmp_path / "none") in said["message"]


# Looks.


@pytest.mark.parametrize("command", ["plan", "status"])
@pytest.mark.usefixtures("installed")
def test_a_look_changes_nothing_and_needs_no_privilege(command: str, machine: Machine, image: Path) -> None:
    machine.hold(4711, "hisi_hpre-0")
    # Root without capabilities is a user as others are, to whom this host belongs.
    powerless = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()
    assert not powerless or shutil.which("setpriv")
    arguments = options(machine, image, settings.config(source=settings.BUILD))
    before = machine.files(), machine.files("run")

    text = run(command, *arguments, before=powerless)
    data = run(command, *arguments, "-o", "json", before=powerless)

    assert (text.returncode, text.stderr, data.returncode, data.stderr) == (0, "", 0, "")
    assert "process 4711 (openssl)" in text.stdout
    assert json.loads(data.stdout)["verdict"] == "change"
    assert (machine.files(), machine.files("run")) == before


@pytest.mark.parametrize("command", ["plan", "status"])
def test_a_look_does_not_wait_for_a_driver_whose_remove_waits(command: str, machine: Machine, image: Path) -> None:
    for attribute in machine.root.glob("sys/devices/**/sriov_numvfs"):
        # The kernel reads it under the lock that remove holds: a pipe without a writer makes its reader wait, too.
        attribute.unlink()
        os.mkfifo(attribute)

    assert run(command, *options(machine, image)).returncode == 0


def test_status_and_plan_tell_programs_alike(machine: Machine, image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*options(machine, image), "-o", "json"]

    assert [cli.main([command, *arguments]) for command in ("status", "plan")] == [0, 0]

    out = capsys.readouterr().out
    assert out[: len(out) // 2] == out[len(out) // 2 :]


# A repair.


def test_retry_ends_the_pause_of_a_failure(machine: Machine, image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine.fail("depmod", "depmod: ERROR: No space left on device", times=1)
    made = settings.installer(machine, image)
    for _ in range(2):
        made.loop.cycle()
    assert (made.shown.state, made.shown.changes["failed"]) == ("Failed", 1)

    code = cli.main(["retry", *options(machine, image)])

    assert (code, *capsys.readouterr()) == (0, "The installer tries again within a minute.\n", "")
    assert made.settle().state == "Ready"


def test_a_retry_without_a_pause_does_not_end_a_later_one(machine: Machine, image: Path) -> None:
    assert cli.main(["retry", *options(machine, image)]) == 0
    machine.fail("depmod", "depmod: ERROR: No space left on device", times=1)
    made = settings.installer(machine, image)

    for _ in range(3):
        made.loop.cycle()

    assert (made.shown.state, made.shown.changes["failed"]) == ("Failed", 1)


# Removal.


@pytest.mark.parametrize("blocked", [False, True])
@pytest.mark.usefixtures("installed")
def test_remove_removes_our_driver_also_where_it_is_kept_from_udev(
    blocked: bool, machine: Machine, image: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if blocked:
        machine.host.write(homes.KAE.blocked, "blacklist hisi_qm\n")

    code = cli.main(["remove", *options(machine, image)])

    said = "Ready: No driver of recipe kae is installed, as the policy asks.\n"
    assert (code, *capsys.readouterr(), machine.loaded()) == (0, said, "", {})


@pytest.mark.usefixtures("installed")
def test_remove_answers_programs_with_the_host_after_it(
    machine: Machine, image: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = cli.main(["remove", *options(machine, image), "-o", "json"])

    data = json.loads(capsys.readouterr().out)
    assert (code, data["verdict"], data["installed"], data["steps"]) == (0, "right", None, [])


@pytest.mark.usefixtures("foreign")
def test_remove_leaves_a_driver_of_others(machine: Machine, image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["remove", *options(machine, image)])

    said = "Foreign: A driver that others installed is at work; we remove only what we installed.\n"
    assert (code, *capsys.readouterr()) == (0, said, "")
    assert settings.versions(machine) == {"2.0.0"}


@pytest.mark.usefixtures("installed")
def test_remove_needs_a_lease_to_disturb_users(
    machine: Machine, image: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.hold(4711, "hisi_hpre-0")

    code = cli.main(["remove", *options(machine, image)])

    out, err = capsys.readouterr()
    assert (code, err, settings.versions(machine)) == (3, "", {"2.0.1"})
    assert out.startswith("Queued: No Lease can be taken, and devices are in use: ")


@pytest.mark.usefixtures("installed")
def test_remove_while_an_installer_works_does_nothing_and_says_what_to_do_instead(
    machine: Machine, image: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.calls()
    with loop.lock(machine.host):
        code = cli.main(["remove", *options(machine, image)])

    out, err = capsys.readouterr()
    assert (code, out, settings.changes_made(machine)) == (3, "", [])
    assert err == (
        "installer: The installer of this host is at work: to remove the driver, set driver.state to Absent in its"
        " policy.\n"
    )


# At work.


def ready(folder: Path, process: "subprocess.Popen[str]") -> str:
    """Return the content of the readiness file as soon as it exists."""
    file = folder / "program/ready"
    deadline = time.monotonic() + DEADLINE_S
    while not file.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "it is never ready"
        time.sleep(0.02)
    return file.read_text().strip()


def test_it_works_until_sigterm_with_metrics_and_a_log_of_json(machine: Machine, image: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments = options(machine, image, settings.config(metrics={"port": port}))

    with start(*arguments) as process:
        said = ready(tmp_path, process)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=DEADLINE_S) as answer:
            metrics = answer.read().decode()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=DEADLINE_S)

    lines = [json.loads(line) for line in err.splitlines()]
    assert (process.returncode, out, said) == (0, "", "The driver 2.0.1 is loaded and verified.")
    assert 'kae_driver_state{state="Ready"} 1.0' in metrics
    assert [line["state"] for line in lines if "state" in line] == ["Changing", "Ready"]
    assert [line["step"] for line in lines if "seconds" in line][-1] == "end-change"
    assert lines[-1]["message"] == "The installer ends, as a signal asked."
    assert not (tmp_path / "program/ready").exists()
    assert settings.versions(machine) == {"2.0.1"}


# Recipes.


@pytest.fixture
def of_recipe(machine: Machine, tmp_path: Path) -> list[str]:
    """The options for the installer of simple-kmod on a host with KAE's driver."""
    machine.add_image(tmp_path / "kae", "2.0.1")
    settings.installed(machine, tmp_path / "kae")
    image = stacks.payload(tmp_path / "image", "modules", stacks.kmod_files("1.0"))
    settings.installed(machine, image, **stacks.KMOD)
    stated = settings.config(**stacks.KMOD)
    return [*options(machine, image, stated), "--payload-dir", str(image / "payload")]


def test_status_of_a_recipe_names_other_drivers(of_recipe: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["status", *of_recipe, "--recipe", "simple-kmod"]) == 0

    words = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "Recipe simple-kmod" in words
    assert "Policy lab, pool lab: driver 1.0 from prebuilt, install policy IfNotPresent" in words
    assert "Decision RIGHT" in words
    assert "Others kae: 2.0.1 from prebuilt." in words
    assert "simple_procfs_kmod 1.0 number=7 1.0 updates/kae-simple-kmod/simple_procfs_kmod.ko" in words


def test_a_command_for_another_recipe_is_refused(of_recipe: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", *of_recipe, "--recipe", "onload"]) == 3

    assert capsys.readouterr().err == (
        "installer: The config is that of recipe simple-kmod, not of onload: call the installer in a pod of"
        " onload-driver. Drivers on this host: kae, simple-kmod.\n"
    )


def test_remove_takes_the_driver_of_its_recipe_alone(
    of_recipe: list[str], machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["remove", *of_recipe]) == 0

    assert capsys.readouterr().out == "Ready: No driver of recipe simple-kmod is installed, as the policy asks.\n"
    assert set(machine.loaded()) == set(settings.config().names)


def test_status_for_programs_tells_the_device_nodes_of_a_recipe(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = stacks.onload(tmp_path / "image", "8.1")
    settings.installed(machine, image, **stacks.ONLOAD)
    stated = options(machine, image, settings.config(**stacks.ONLOAD))

    assert cli.main(["status", *stated, "-o", "json"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert told["recipe"] == "onload"
    assert [(node["path"], node["there"]) for node in told["nodes"]] == [("/dev/onload", True)]
    assert [module["name"] for module in told["modules"]] == ["sfc", "onload", "sfc_char", "sfc_resource"]


# An installer that ends with its work.


def test_an_installer_that_ends_is_done_once_the_driver_is_right(machine: Machine, image: Path, tmp_path: Path) -> None:
    with socket.create_server(("", 0)) as reporters:  # It has the port of the metrics.
        config = settings.config(metrics={"port": reporters.getsockname()[1]})
        done = run("--until-right", *options(machine, image, config))

    found = left.read(tmp_path / "program")
    assert (done.returncode, settings.versions(machine)) == (0, {"2.0.1"})
    assert found is not None
    assert (found.shown.state, found.at_work) == ("Ready", False)


def test_an_installer_that_is_ended_before_is_not_done(machine: Machine, image: Path, tmp_path: Path) -> None:
    shutil.rmtree(image / "opt/lib/modules")
    folder = tmp_path / "program"

    with start("--until-right", *options(machine, image)) as process:
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            found = left.read(folder)
            if found is not None and found.shown.state == "Failed":
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=DEADLINE_S)

    assert found is not None
    assert "The image holds no modules" in found.shown.reason
    assert (process.returncode, found.at_work) == (3, True)


def test_in_the_reporters_container_the_program_is_the_reporter(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "installer", "remove", "--config", str(tmp_path / "config.json")]
    (tmp_path / "config.json").write_text(settings.text(settings.config()))

    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, reporter.FOLDER: str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 3
    assert done.stderr.startswith("installer: The reporter has no rights: ")
