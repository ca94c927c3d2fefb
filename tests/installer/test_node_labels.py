"""What the installer tells NFD's worker of its host: a file of its own, which says what is loaded, and ends."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from compiler.planning import loaded
from installer.report import driver_state, node_labels
from runtime import driver_labels, errors
from tests import builders
from tests.installer import settings, stacks
from tests.installer.machines import Machine
from tests.property import nfd_rules

FILE = f"{driver_labels.FOLDER}/kae"
HEAD = re.compile(r"# \+expiry-time=([0-9T:-]+Z)\n")


def told(machine: Machine, file: str = FILE) -> dict[str, str] | None:
    """Return the features in a file; None where there is none."""
    path = machine.host.path(file)
    if not path.exists():
        return None
    lines = path.read_text().splitlines()
    features = [line for line in lines if not line.startswith("#")]
    assert lines.count("# +no-label") == len(features)
    return dict(line.split("=") for line in features)


def of_kae(version: str | None, state: str) -> dict[str, str]:
    return {**({"kae.driver-version": version} if version else {}), "kae.driver-state": state}


def test_every_state_of_the_installer_has_one_of_the_label() -> None:
    assert set(node_labels._STATES) == set(driver_state.STATES)
    assert set(node_labels._STATES.values()) == set(driver_labels.STATES)


def test_a_host_tells_what_it_had_during_a_change_and_what_it_has_after_it(machine: Machine, image: Path) -> None:
    made = settings.installer(machine, image)

    made.loop.cycle()
    assert told(machine) == of_kae(None, "Pending")
    made.loop.cycle()
    assert told(machine) == of_kae("2.0.1", "Ready")
    assert machine.host.path(FILE).stat().st_mode & 0o777 == 0o644


@pytest.mark.usefixtures("installed")
def test_a_driver_that_stays_behind_is_told_with_its_own_version(machine: Machine, newer: Path) -> None:
    made = settings.installer(machine, newer, driver_version="2.0.2")
    machine.host.path("/run/kae/driver-changing").unlink(missing_ok=True)
    (newer / "opt").rename(newer / "gone")

    shown = made.settle()

    assert shown.state == "Failed"
    assert told(machine) == of_kae("2.0.1", "Failed")


@pytest.mark.usefixtures("foreign")
def test_the_driver_of_others_is_told_with_the_version_of_its_modules(machine: Machine, image: Path) -> None:
    assert settings.installer(machine, image).settle().state == "Foreign"

    assert told(machine) == of_kae("2.0.0", "Foreign")


@pytest.mark.usefixtures("installed")
def test_a_driver_that_others_loaded_in_place_of_ours_is_not_told_as_ours(machine: Machine, image: Path) -> None:
    current = settings.installer(machine, image).parts.report().current
    assert node_labels.loaded(current) == "2.0.1"
    machine.unload()
    assert node_labels.loaded(settings.installer(machine, image).parts.report().current) == ""

    machine.add_driver("2.0.0", "updates/kae")
    machine.load()

    assert node_labels.loaded(settings.installer(machine, image).parts.report().current) == "2.0.0"


@pytest.mark.usefixtures("installed")
def test_a_driver_that_is_removed_leaves_no_file(machine: Machine, image: Path) -> None:
    settings.installer(machine, image).settle()
    machine.host.write(f"{driver_labels.FOLDER}/other", "x\n")
    assert told(machine) == of_kae("2.0.1", "Ready")

    shown = settings.installer(machine, image, state="Absent").settle()

    assert (shown.state, told(machine)) == ("Ready", None)
    assert machine.host.path(f"{driver_labels.FOLDER}/other").exists()


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("left", "renewed"),
    [
        (timedelta(minutes=55), False),
        (timedelta(minutes=25), True),
        (timedelta(minutes=-5), True),
        (timedelta(1), True),
    ],
)
def test_the_file_is_written_anew_where_half_of_its_life_is_over(
    machine: Machine, image: Path, left: timedelta, renewed: bool
) -> None:
    made = settings.installer(machine, image)
    path = machine.host.path(FILE)
    path.unlink()  # That of the fixture may be minutes old.
    made.settle()
    text = path.read_text()
    whole = HEAD.match(text)
    assert whole is not None
    life = datetime.fromisoformat(whole[1]) - datetime.now(UTC)
    assert timedelta(minutes=58) < life <= timedelta(hours=1)
    stated = datetime.now(UTC) + left
    path.write_text(text.replace(whole[1], f"{stated:%Y-%m-%dT%H:%M:%SZ}"))
    before = path.read_text()

    made.settle()

    assert (path.read_text() != before) is renewed


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("damage", ["", "# +expiry-time=soon\n", "# +expiry-time=2026-01-01\n", "\n\n"])
def test_a_damaged_file_is_written_anew(machine: Machine, image: Path, damage: str) -> None:
    made = settings.installer(machine, image)
    made.settle()
    path = machine.host.path(FILE)
    path.write_text(damage + path.read_text().partition("\n")[2])

    made.settle()

    assert HEAD.match(path.read_text())


@pytest.mark.usefixtures("installed")
def test_a_file_that_nobody_renews_has_no_end(machine: Machine, image: Path) -> None:
    made = settings.installer(machine, image)
    made.settle()

    node_labels.publish(machine.host, made.parts.settings, made.shown, expires=False)

    path = machine.host.path(FILE)
    assert not HEAD.match(path.read_text())
    assert told(machine) == of_kae("2.0.1", "Ready")
    written = path.stat().st_ino
    node_labels.publish(machine.host, made.parts.settings, made.shown, expires=False)
    assert path.stat().st_ino == written


@pytest.mark.usefixtures("installed")
def test_a_file_that_cannot_be_written_ends_nothing(
    machine: Machine, image: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = settings.installer(machine, image)
    write = machine.host.write

    def refuse(absolute: str, text: str, *, mode: int = 0o644) -> None:
        if absolute == FILE:
            raise errors.Failure("No space.")
        write(absolute, text, mode=mode)

    machine.host.remove(FILE)
    monkeypatch.setattr(machine.host, "write", refuse)

    assert made.settle().state == "Ready"
    assert "No space." in caplog.text


def test_recipes_tell_in_files_of_their_own(machine: Machine, image: Path, tmp_path: Path) -> None:
    payload = stacks.payload(tmp_path, "modules", stacks.kmod_files("1.0"))

    settings.installed(machine, image)
    settings.installed(machine, payload, **stacks.KMOD | {"driver_version": "sha256:" + "a" * 64})

    assert told(machine) == of_kae("2.0.1", "Ready")
    other = told(machine, f"{driver_labels.FOLDER}/simple-kmod")
    assert other is not None
    assert other["simple-kmod.driver-version"].startswith("sha256_aaaa")
    assert len(other["simple-kmod.driver-version"]) == 63


def test_what_a_host_tells_becomes_the_labels_that_a_plan_compares(machine: Machine, image: Path) -> None:
    policy = builders.policy("tls", driver={"version": "2.3.0"}, devicePlugin={"version": "1.0"})
    rules = [item for path, item in builders.objects([policy]).items() if path.startswith("node-feature-rule/")]
    settings.installed(machine, image, driver_version="2.2.0+git")

    files = {path.name: path.read_text() for path in machine.host.path(driver_labels.FOLDER).iterdir()}
    features = nfd_rules.local(files, datetime.now(UTC))
    labels = nfd_rules.labels(rules, nfd_rules.Features(attributes={"local.feature": features}, instances={}))
    node = builders.kubernetes_node("a", builders.HPRE | labels)

    assert labels == {"openfuyao.com/kae.driver-version": "2.2.0_git", "openfuyao.com/kae.driver-state": "Ready"}
    (decision,) = builders.view([policy], builders.reduced(node).nodes)[0].builtin.decisions
    known = loaded.of(decision)
    assert known is not None
    assert known.sentence == "loaded 2.2.0_git, wants 2.3.0"
