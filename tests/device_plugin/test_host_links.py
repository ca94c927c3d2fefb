"""The host paths that answers name: right at every moment, and never replaced under a container."""

import os
import random
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import inotify_simple
import pytest

from device_plugin import host_links
from device_plugin.host import paths
from device_plugin.kubelet import openssl
from runtime import files
from tests import effort
from tests.device_plugin import hosts, kernel, machines, settings

HPRE = "0000:79:00.0"
NAME, OTHER = "hisi_hpre-30976", "hisi_hpre-47360"


def publish(host: hosts.Host) -> paths.Paths:
    where = settings.where(host)
    host_links.prepare(where, settings.settings())
    host_links.publish(where, settings.offered(host))
    return where


def leads(folder: Path) -> dict[str, str]:
    """The links of a folder, by name."""
    return {path.name: str(path.readlink()) for path in sorted(folder.iterdir())}


def nodes(host: hosts.Host) -> dict[str, str]:
    """Where the links to device nodes should lead, by name."""
    return {
        paths.published_name(now.function.kind.module, address): f"/dev/{now.entry}"
        for address, now in host.states().items()
    }


def state(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Everything below a folder that shows whether it was touched."""
    return {
        str(path.relative_to(folder)): (status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
        for path in (folder, *folder.rglob("*"))
        for status in [path.lstat()]
    }


def test_a_device_has_a_link_to_its_node_and_an_entry_under_its_own_name(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)

    where = publish(host)

    assert leads(where.links)[NAME] == "/dev/hisi_hpre-2"
    assert leads(where.shown)[NAME] == f"/run/kae/uacce/given/{NAME}/device"
    assert leads(where.given / NAME) == {"device": f"/sys/devices/pci0000:78/0000:78:00.0/{HPRE}/uacce/hisi_hpre-2"}
    assert {len(leads(folder)) for folder in (where.links, where.shown)} == {len(list(where.given.iterdir()))} == {6}


def test_every_openssl_cnf_is_there_whatever_is_configured(tmp_path: Path) -> None:
    where = publish(machines.bare_metal(tmp_path))

    assert {path.parent.name: path.read_text() for path in where.openssl.glob("*/openssl.cnf")} == {
        variant.name: openssl.text(variant) for variant in openssl.variants()
    }


def test_publishing_again_writes_nothing(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    host.set_vfs(HPRE, 8)
    where = publish(host)
    before = state(where.run)

    publish(host)

    assert state(where.run) == before


def test_an_openssl_cnf_of_another_version_is_replaced(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    where = publish(host)
    file = where.openssl / "3.0-host/openssl.cnf"
    fine = file.read_text()
    folder = file.parent.stat().st_ino
    file.write_text("old")

    publish(host)

    assert file.read_text() == fine
    assert file.parent.stat().st_ino == folder
    assert [path.name for path in file.parent.iterdir()] == ["openssl.cnf"]


def test_folders_are_changed_in_place_whatever_becomes_of_the_devices(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    where = publish(host)
    folders = [where.links, where.shown, where.given, *where.given.iterdir()]
    before = [folder.stat().st_ino for folder in folders]

    for change in (host.renumber, lambda: host.unplug(HPRE), lambda: host.replug(HPRE), host.unload, host.load):
        change()
        publish(host)

    assert [folder.stat().st_ino for folder in folders] == before
    assert leads(where.links) == nodes(host)
    entries = {name: Path((where.given / name / "device").readlink()).name for name in nodes(host)}
    assert {name: f"/dev/{entry}" for name, entry in entries.items()} == nodes(host)


def test_an_unplugged_device_leads_nowhere(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    publish(host)

    host.unplug(HPRE)
    where = publish(host)

    assert NAME not in leads(where.links)
    assert leads(where.given / NAME) == {}
    # It leads to what is not there, and stays as it is for the case that the device comes back.
    assert not (where.shown / NAME).exists()


def wrong_node(host: hosts.Host) -> None:
    host.node(HPRE).unlink()
    host.node(HPRE).symlink_to("/dev/zero")


@pytest.mark.parametrize(
    "fault",
    [
        lambda host: host.unbind(HPRE),
        lambda host: (host.sysfs / "class/uacce/hisi_hpre-2/algorithms").unlink(),
        wrong_node,
        lambda host: host.remove_node(HPRE),
    ],
)
def test_a_device_that_no_container_can_use_has_no_link(fault: Callable[[hosts.Host], None], tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    publish(host)

    fault(host)
    where = publish(host)

    assert NAME not in leads(where.links)
    assert OTHER in leads(where.links)


def test_an_isolated_device_keeps_its_link_for_those_who_have_it(tmp_path: Path) -> None:
    where = publish(machines.one_isolated(tmp_path))

    assert leads(where.links)[NAME] == "/dev/hisi_hpre-2"


def test_links_of_a_predecessor_that_are_wrong_are_removed(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    where = publish(host)
    (where.links / "0000:01:00.0").symlink_to("/dev/hisi_hpre-9")
    (where.links / f".{NAME}.new").symlink_to("/dev/hisi_hpre-3")
    (where.links / "notes").write_text("x")
    (where.given / "hisi_hpre-256").mkdir()
    (where.given / "hisi_hpre-256/device").symlink_to("/sys/devices/gone")
    before = leads(publish(machines.bare_metal(tmp_path / "fresh")).links)

    publish(host)

    assert leads(where.links) == before
    assert leads(where.given / "hisi_hpre-256") == {}


def test_what_a_killed_predecessor_had_begun_is_no_obstacle(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    where = publish(host)
    for path in (where.links / NAME, where.given / NAME / "device", where.shown / NAME):
        path.unlink()
        path.with_name(f".{path.name}.new").symlink_to("/nowhere")
    (where.openssl / "3.0-host/.openssl.cnf.new").write_text("half")
    (where.openssl / "3.0-host/openssl.cnf").unlink()

    publish(host)

    assert (leads(where.links)[NAME], sorted(leads(where.given / NAME))) == ("/dev/hisi_hpre-2", ["device"])
    assert NAME in leads(where.shown)
    assert [path.name for path in (where.openssl / "3.0-host").iterdir()] == ["openssl.cnf"]


def test_foreign_things_among_the_given_are_harmless(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    where = publish(host)
    (where.given / "made-by-the-runtime").mkdir()
    (where.given / "strange/device").mkdir(parents=True)
    (where.given / "file").write_text("x")

    publish(host)

    assert {"made-by-the-runtime", "strange", "file"} < {path.name for path in where.given.iterdir()}


IN_THE_WAY = (
    f"dev/{NAME}",
    f"dev/{HPRE}",
    "dev/hisi_hpre-256",
    "dev/0000:01:00.0",
    f"uacce/given/{NAME}/device",
    f"uacce/class/{NAME}",
    "openssl/3.0-host/openssl.cnf",
    "device-plugin.lock",
    "devices.json",
    # A killed plugin leaves a file or a link there.
    f"uacce/class/.{NAME}.new",
    "openssl/3.0-host/.openssl.cnf.new",
    ".devices.json.new",
)


def test_folders_in_place_of_links_and_files_are_moved_away(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    host = machines.bare_metal(tmp_path)
    for place in IN_THE_WAY:
        # As a container runtime makes one of a host path that is not there.
        (host.run / place / place.replace("/", "-")).mkdir(parents=True)

    where = publish(host)
    host_links.write_report(where, b"{}")

    assert leads(where.links) == nodes(host)
    assert len(leads(where.shown)) == 6
    assert len(leads(where.given / NAME)) == 1
    assert where.report.read_bytes() == b"{}"
    assert (where.openssl / "3.0-host/openssl.cnf").is_file()
    assert not where.lock.exists()
    moved = {content.name: folder for folder in where.moved.iterdir() for content in folder.iterdir()}
    assert {record.getMessage() for record in caplog.records} == {
        f"'{host.run / place}' was in the way of the plugin's own, and is now '{moved[place.replace('/', '-')]}'."
        for place in IN_THE_WAY
    }


@pytest.mark.parametrize("place", ["run/kae/uacce", "run/kae/uacce/given"])
def test_a_file_in_the_place_of_a_folder_is_moved_away(place: str, tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text("in the way")

    where = publish(host)

    assert [path.read_text() for path in where.moved.iterdir()] == ["in the way"]
    assert len(leads(where.given / NAME)) == 1


@pytest.mark.parametrize("place", ["run/kae/dev", f"run/kae/uacce/given/{NAME}"])
def test_a_link_in_the_place_of_a_folder_is_moved_away_and_what_it_leads_to_stays(place: str, tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "notes").write_text("x")
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).symlink_to(theirs)

    where = publish(host)

    assert [path.name for path in theirs.iterdir()] == ["notes"]
    assert not (tmp_path / place).is_symlink()
    assert len(leads(where.links)) == 6
    assert len(leads(where.given / NAME)) == 1


def test_a_lock_that_is_no_file_is_moved_away(tmp_path: Path) -> None:
    where = settings.where(machines.bare_metal(tmp_path))
    where.lock.symlink_to("/etc/hostname")

    host_links.prepare(where, settings.settings())

    files.Lock(where.lock).close()
    (moved,) = where.moved.iterdir()
    assert str(moved.readlink()) == "/etc/hostname"


def test_a_pipe_in_the_place_of_a_file_is_replaced_and_not_read(tmp_path: Path) -> None:
    where = publish(machines.bare_metal(tmp_path))
    os.mkfifo(where.report)

    host_links.write_report(where, b"{}")

    assert where.report.read_bytes() == b"{}"


def test_what_is_in_the_way_of_what_is_moved_away_is_moved_too(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    (host.run / "moved-away").write_text("in the way of what is moved away")
    (host.run / "dev").write_text("in the way")

    where = publish(host)

    assert len(leads(where.links)) == 6
    (beside,) = host.run.glob("moved-away-*")
    assert beside.read_text() == "in the way of what is moved away"
    assert [path.read_text() for path in where.moved.iterdir()] == ["in the way"]


def test_wrong_nodes_go_first_and_right_ones_come_last(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    where = publish(host)
    host.renumber()
    watching = inotify_simple.INotify()
    flags = inotify_simple.flags
    watched = {
        watching.add_watch(str(folder), flags.DELETE | flags.MOVED_TO): folder
        for folder in (where.links, where.shown, *where.given.iterdir())
    }
    (where.shown / NAME).unlink()

    publish(host)

    # Of the sort: what was removed or put in place, and whether it leads to a node.
    steps = [(watched[event.wd] == where.links, bool(event.mask & flags.DELETE)) for event in watching.read(timeout=0)]
    watching.close()
    order = list(dict.fromkeys(steps[1:]))
    assert steps[0] == (False, True)
    assert order == [(True, True), (False, False), (True, False)]
    assert [steps.count(step) for step in order] == [6, 7, 6]


def owner(host: hosts.Host, node: str) -> str | None:
    try:
        return (host.sysfs / "class/uacce" / node / "device").resolve(strict=True).name
    except FileNotFoundError:
        return None


def misled(host: hosts.Host, links: Mapping[str, Path]) -> Iterable[str]:
    """Devices whose link, the same before and after, led to another device's node in between."""
    for address, link in links.items():
        try:
            before, target = link.lstat(), link.readlink()
            found = owner(host, target.name)
            same = os.path.samestat(before, link.lstat())
        except FileNotFoundError:
            continue
        if same and found not in (None, address):
            yield f"{link.name} led to {target}, which is {found}"


@pytest.mark.seeded
def test_no_link_ever_leads_to_another_devices_node(tmp_path: Path) -> None:
    told: list[Callable[[], object]] = []

    def tell(_: kernel.Event) -> None:
        for act in told:
            act()

    host = machines.bare_metal(tmp_path, tell=tell)
    where = publish(host)
    links = {
        address: where.links / paths.published_name(now.function.kind.module, address)
        for address, now in host.states().items()
    }
    # As at work: every event of the kernel is followed by a look.
    told.append(lambda: host_links.publish(where, settings.offered(host)))
    wrong: list[str] = []
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            wrong.extend(misled(host, links))

    reader = threading.Thread(target=watch)
    reader.start()
    try:
        shuffle(host, rounds=effort.examples(gate=2, long=20))
    finally:
        done.set()
        reader.join()

    assert wrong == []
    assert leads(where.links) == nodes(host)


def shuffle(host: hosts.Host, rounds: int) -> None:
    """Takes every driver away and brings it back, with numbers in another order each time."""
    dice = random.Random(7)  # noqa: S311 - the order is no secret
    numbers = list(range(6))
    for _ in range(rounds):
        addresses = list(host.states())
        dice.shuffle(addresses)
        for address in addresses:
            host.unbind(address)
        dice.shuffle(numbers)
        for address, number in zip(addresses, numbers, strict=True):
            host.bind(address, number=number)
