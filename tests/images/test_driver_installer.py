"""The image of the driver installer holds what its program needs, and no driver."""

from pathlib import Path

from tests.images import stores
from tests.installer import settings, sourcetrees

IMAGE = stores.named("kae-driver-installer")
RELEASE = "6.6.0-28.0.0.34.oe2403.aarch64"


def test_it_says_that_a_folder_is_no_host(store: stores.Store, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(settings.text(settings.config()))
    folder = tmp_path / "folder"
    folder.mkdir()
    arguments = (f"--config={config}", f"--host-root={folder}")

    done = store.run(IMAGE, "python", "-m", "installer", "plan", *arguments, folder=tmp_path)

    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("installer: ")
    assert "Traceback" not in done.stderr
    assert "/proc/sys/kernel/osrelease" in done.stderr
    assert list(folder.iterdir()) == []


def test_it_finds_programs_of_its_own_where_it_looks_for_them(store: stores.Store) -> None:
    done = store.run(IMAGE, "sh", "-c", "command -v chroot gcc make ld && ldconfig -p | grep -F libelf.so.1")

    assert (done.returncode, done.stderr) == (0, "")


def test_it_has_what_is_imported_only_when_it_is_needed(store: stores.Store) -> None:
    done = store.run(IMAGE, "python", "-c", "import grpc, kubernetes.client, kubernetes.config, re2, tabulate")

    assert (done.returncode, done.stderr) == (0, "")


def test_it_compiles_a_driver_into_a_folder_of_the_host(store: stores.Store, tmp_path: Path) -> None:
    source, headers, scratch = (tmp_path / name for name in ("source", "headers", "tmp"))
    sourcetrees.write_driver(source, "2.0.1")
    sourcetrees.write_kernel_devel(headers, RELEASE)
    scratch.mkdir()

    # The container's root, and /tmp with it, cannot be written: the compiler's scratch lies on the host, too.
    make = ("env", f"TMPDIR={scratch}", "make", "-C", str(source), f"KERNEL_PATH={headers}")
    done = store.run(IMAGE, *make, folder=tmp_path)

    assert done.returncode == 0, done.stderr
    assert RELEASE.encode() in (source / "hisi_hpre.ko").read_bytes()


def test_it_brings_no_driver(store: stores.Store) -> None:
    folders = ("/opt/lib", "/opt/src", "/opt/kae")

    done = store.run(IMAGE, "sh", "-c", f"ls -d {' '.join(folders)}")

    assert done.stdout == ""
    assert done.stderr.count("No such file or directory") == len(folders)
