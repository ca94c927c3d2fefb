"""The reporter: it says how a host is whose installer has ended, and when the pod has to be started over."""

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from installer.decide import decision
from installer.host import host_state
from installer.report import left, reporter
from runtime import files, signals, state
from tests.device_plugin.functions import Function
from tests.installer import layouts, settings
from tests.installer.machines import Machine

RIGHT = "The driver 2.0.1 is loaded and verified."


class Pod:
    """The programs of one pod on a host: an installer that ends, and the reporter."""

    def __init__(self, machine: Machine, folder: Path, boot: settings.Boot) -> None:
        self.machine, self.boot, self.config = machine, boot, settings.config()
        self.programs, self.own = folder / "program", folder / "report"
        for path in (self.programs, self.own):
            path.mkdir()

    def install(self) -> settings.Installer:
        """Run the installer until it ends, long after the one before."""
        self.boot.now_s += left.QUIET_S
        made = self.begin()
        made.loop.run(state.ProgramDir(self.programs))
        made.parts.close()
        return made

    def begin(self, **changes: Any) -> settings.Installer:
        """Return an installer that has begun."""
        stated = settings.config(**changes) if changes else self.config
        made = settings.installer(self.machine, self.machine.image(stated.driver_version), stated=stated)
        made.parts.leave_to_reporter(left.Keeper(self.programs))
        return made

    def prove(self) -> None:
        """Run an installer that ends at this time."""
        made = self.begin()
        made.settle()
        assert made.loop.keeper is not None
        assert made.shown.host is not None
        made.loop.keeper.end(made.shown.host)
        made.parts.close()

    def report(self) -> reporter.Reporter:
        """Start a reporter."""
        return reporter.Reporter(self.machine.host, self.config, self.programs, self.own)

    def left(self) -> left.Left:
        """Return what the installer has left."""
        found = left.read(self.programs)
        assert found is not None
        return found

    def asked(self) -> list[str]:
        """Return the lines of what the reporter asks for."""
        return (self.own / reporter.ASKED).read_text().splitlines()

    def readiness(self) -> tuple[bool, str]:
        """Return whether the pod is ready, and the words of the probe."""
        ready = self.own / "ready"
        return ready.exists(), (ready if ready.exists() else self.own / "unready").read_text().strip()


@pytest.fixture
def pod(machine: Machine, tmp_path: Path, boot: settings.Boot) -> Pod:
    """A pod of the host, whose programs have not begun."""
    return Pod(machine, tmp_path, boot)


def starts_over(reporting: reporter.Reporter, looks: int = 2) -> list[bool]:
    """Return the answers of looks."""
    return [reporting.look() for _ in range(looks)]


def test_the_installer_ends_with_its_work_and_the_reporter_is_ready(pod: Pod) -> None:
    reporting = pod.report()
    before = (reporting.look(), pod.readiness())

    made = pod.install()

    assert before == (False, (False, left.UNSEEN))
    assert made.shown.state == "Ready"
    assert not pod.left().at_work
    assert starts_over(reporting) == [False, False]
    assert pod.readiness() == (True, RIGHT)


def test_a_module_that_goes_starts_the_pod_over_and_the_installer_loads_it_again(pod: Pod) -> None:
    pod.install()
    reporting = pod.report()
    reporting.look()

    pod.machine.unload()
    seen = [reporting.look(), pod.readiness()[0], reporting.look()]

    # One look may be in the middle of a load by hand.
    assert seen == [False, True, True]
    assert pod.readiness() == (False, "Module uacce is not loaded. The installer starts over.")
    assert pod.asked() == [left.ended(pod.left()), "Module uacce is not loaded."]
    again = pod.report()
    waits = (again.look(), pod.readiness())
    made = pod.begin()
    made.loop.cycle()
    works = (again.look(), pod.readiness())
    made.parts.close()
    assert waits == (False, (False, left.UNSEEN))
    assert works == (False, (False, made.shown.reason))
    pod.install()
    assert starts_over(again) == [False, False]
    assert pod.readiness() == (True, RIGHT)


def test_virtual_functions_that_go_start_the_pod_over(pod: Pod) -> None:
    pod.config = settings.config(sriov={"hpre": 2})
    pod.install()
    reporting = pod.report()
    reporting.look()

    pod.machine.host.write_attribute("/sys/bus/pci/devices/0000:79:00.0/sriov_numvfs", "0")

    assert starts_over(reporting) == [False, True]
    assert pod.readiness()[1].startswith("Device 0000:79:00.0 has 0 virtual functions, not 2.")


def test_a_new_device_starts_the_pod_over(pod: Pod) -> None:
    pod.install()
    reporting = pod.report()
    reporting.look()

    layouts.plug_in(pod.machine.root, Function(address="0000:f9:00.0", kind=layouts.two_sockets()[0].kind))

    assert reporting.look()
    assert pod.asked()[1:] == ["Device 0000:f9:00.0 is new."]
    assert reporting.shown.ready
    # Of the next reporter nobody says that it is ready before it has looked.
    assert pod.readiness() == (False, f"{RIGHT} Without an entry in /sys/class/uacce: zip 0000:f9:00.0.")


def test_a_reporter_that_is_ended_as_it_asks_leaves_nothing_that_says_ready(
    pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod.install()
    reporting = pod.report()
    reporting.look()
    pod.machine.unload()
    reporting.look()

    written = files.replaced

    @contextlib.contextmanager
    def replaced(path: Path) -> Iterator[Path]:
        with written(path) as fresh:
            yield fresh
        if path.name == reporter.ASKED:
            raise KeyboardInterrupt

    monkeypatch.setattr(files, "replaced", replaced)
    with pytest.raises(KeyboardInterrupt):
        reporting.look()

    assert pod.asked()
    assert not pod.readiness()[0]


def test_a_reporter_that_waits_for_the_installer_looks_each_second(pod: Pod) -> None:
    pod.install()
    reporting = pod.report()
    at_rest = (reporting.look(), reporting.pause_s)
    pod.machine.unload()
    starts_over(reporting)
    again = pod.report()
    waits = (again.look(), again.pause_s)
    pod.install()

    assert (at_rest, waits) == ((False, reporter.LOOK_S), (False, 1.0))
    assert (again.look(), again.pause_s) == (False, reporter.LOOK_S)
    assert pod.readiness() == (True, RIGHT)


def test_what_is_wrong_again_waits_longer_each_time(pod: Pod, boot: settings.Boot) -> None:
    waits = []
    for _ in range(10):
        pod.prove()
        waits.append(max(0, pod.left().due_s() - boot.now_s))
        boot.now_s = pod.left().due_s()

    assert waits == [0, 10, 20, 40, 80, 160, 320, 600, 600, 600]
    boot.now_s += left.QUIET_S
    pod.prove()
    assert pod.left().due_s() == boot.now_s


def test_a_pod_that_waits_to_be_started_over_says_for_how_long(pod: Pod, boot: settings.Boot) -> None:
    pod.prove()
    pod.prove()
    reporting = pod.report()
    pod.machine.unload()

    waited = starts_over(reporting, 3)
    said, shown = pod.readiness(), reporting.shown.state
    boot.now_s += 10
    then = reporting.look()

    assert waited == [False, False, False]
    assert said == (False, "Module uacce is not loaded. It was so before; the installer starts over in 10 s.")
    assert (shown, then) == ("Failed", True)


def test_a_repair_that_did_not_last_disturbs_nobody_again_for_a_while(pod: Pod, boot: settings.Boot) -> None:
    pod.prove()
    pod.machine.unload()
    boot.now_s += 30

    made = pod.begin()
    made.loop.cycle()
    reporting = pod.report()

    assert made.shown.state == "Failed"
    assert made.shown.reason.startswith("It was repaired a moment ago, and is broken again: ")
    assert starts_over(reporting) == [False, False]
    assert pod.readiness() == (False, made.shown.reason)
    boot.now_s += 600
    assert made.settle().state == "Ready"
    made.parts.close()


def test_a_person_has_the_installer_look_at_once(
    pod: Pod, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        pod.prove()
    reporting = pod.report()
    quiet = reporting.look()

    code = answer(pod, "retry", monkeypatch)

    assert (quiet, code, capsys.readouterr().out) == (False, 0, "The installer starts over within seconds.\n")
    assert reporting.look()
    pod.install()
    assert not pod.report().look()


@pytest.mark.parametrize("also", [True, False], ids=["the reporter too", "pause alone"])
def test_a_kubelet_that_does_not_start_the_installer_over_is_told_of(also: bool, pod: Pod, boot: settings.Boot) -> None:
    pod.install()
    pod.machine.unload()
    reporting = pod.report()
    assert reporting.look()

    again = pod.report() if also else reporting
    soon = starts_over(again)
    said = pod.readiness()
    boot.now_s += 61
    late = again.look()

    assert (soon, late) == ([False, False], False)
    assert said == (False, left.UNSEEN)
    if also:  # The pod is started over: an image may take long to come.
        assert pod.readiness() == said
    else:
        assert again.shown.state == "Failed"
        assert "RestartAllContainersOnContainerExits" in pod.readiness()[1]


def test_an_installer_that_fails_before_its_first_look_has_begun(pod: Pod) -> None:
    pod.install()
    left.Keeper(pod.programs)
    pod.machine.unload()

    assert starts_over(pod.report()) == [False, False]
    assert pod.readiness() == (False, left.UNSEEN)


def test_while_the_installer_works_its_words_are_shown(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    pod.install()
    made = pod.begin(driver_version="2.0.2")
    reporting = pod.report()
    begun = (reporting.look(), pod.readiness())

    made.loop.cycle()
    pod.machine.unload()

    assert begun == (False, (False, left.UNSEEN))
    assert starts_over(reporting) == [False, False]
    assert pod.readiness() == (False, made.shown.reason)
    assert answer(pod, "retry", monkeypatch) == 3
    made.parts.close()


def test_the_counters_go_on_and_the_reporter_has_every_metric(pod: Pod) -> None:
    pod.install()
    shutil.rmtree(pod.own)
    pod.own.mkdir()
    pod.machine.unload()
    made = pod.install()
    reporting = pod.report()
    reporting.look()

    theirs, ours = ({one.name: one for one in found} for found in (made.shown.families(None), reporting.families()))

    assert made.shown.changes["succeeded"] == 2
    assert {name: list(one.values) for name, one in ours.items()} == {
        name: list(one.values) for name, one in theirs.items()
    }


def test_a_driver_of_others_stays_and_its_loss_is_seen(foreign: Machine, pod: Pod) -> None:
    del foreign
    pod.install()
    reporting = pod.report()
    right = (reporting.look(), pod.readiness()[0], reporting.shown.state)

    pod.machine.unload()

    assert right == (False, True, "Foreign")
    assert starts_over(reporting) == [False, True]


@pytest.mark.parametrize("content", [b"", b"{", b'{"host": 1}', b"\xff"])
def test_what_cannot_be_read_is_not_ready(content: bytes, pod: Pod) -> None:
    pod.install()
    (pod.programs / left.NAME).write_bytes(content)

    assert starts_over(pod.report()) == [False, False]
    assert not pod.readiness()[0]
    pod.install()
    assert starts_over(pod.report()) == [False, False]


def test_a_parameter_that_root_alone_may_read_is_as_it_was_left(pod: Pod) -> None:
    pod.install()
    reporting = pod.report()
    parameter = pod.machine.root / "sys/module/hisi_zip/parameters/pf_q_num"
    parameter.unlink()  # Who may not read it sees no text.

    assert starts_over(reporting) == [False, False]
    parameter.write_text("64\n")
    assert starts_over(reporting) == [False, True]


def test_without_rights_is_judged_as_with_them(pod: Pod) -> None:
    pod.install()
    found = pod.left()
    assert found.shown.host is not None
    settings.break_parameter(pod.machine)
    pod.machine.host.write_attribute("/sys/bus/pci/devices/0000:79:00.0/sriov_numvfs", "2")

    one = reporter.seen(pod.machine.host, pod.config, found.shown.host)
    other = host_state.read(pod.machine.host, pod.config)

    assert decision.decide(pod.config, one, found.digest) == decision.decide(pod.config, other, found.digest)
    assert one.loaded == other.loaded


@pytest.mark.parametrize("command", ["status", "plan"])
def test_the_reporter_answers_from_what_was_left(
    command: str, pod: Pod, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    none = answer(pod, command, monkeypatch)
    pod.install()
    right = answer(pod, command, monkeypatch)
    said = capsys.readouterr().out
    pod.machine.unload()
    wrong = answer(pod, command, monkeypatch)

    assert (none, right, wrong) == (3, 0, 0)
    assert RIGHT in said
    assert "The installer is about to start over: Module uacce is not loaded." in capsys.readouterr().out


def test_the_answers_are_json_too_and_the_driver_cannot_be_removed(
    pod: Pod, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pod.install()
    capsys.readouterr()

    codes = answer(pod, "status", monkeypatch, "-o", "json"), answer(pod, "remove", monkeypatch)

    assert codes == (0, 3)
    assert json.loads(capsys.readouterr().out)["verdict"] == "right"


def test_a_config_that_is_none_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = reporter.main(["status", "--config", str(tmp_path / "none.json")])

    assert (code, capsys.readouterr().err.count("\n")) == (1, 1)


def answer(pod: Pod, command: str, monkeypatch: pytest.MonkeyPatch, *more: str) -> int:
    """Call the reporter's program as `kubectl exec` does."""
    monkeypatch.setenv(reporter.FOLDER, str(pod.own))
    monkeypatch.setattr(signals, "set_on_signals", lambda _: None)
    file = pod.own.parent / "config.json"
    file.write_text(settings.text(pod.config))
    folders = ("--host-root", str(pod.machine.root), "--program-dir", str(pod.programs))
    return reporter.main([command, "--config", str(file), *folders, *more])
