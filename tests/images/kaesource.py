"""KAE's own source: KAE_DRIVER_SOURCE names the folder KAEKernelDriver of a checkout; without it tests are skipped."""

from pathlib import Path

from tests import tools
from tests.cluster.nodes import images as debian
from tests.images import librarytrees, stores

VERSION = "2.0.6"
"""What the image says; the source itself has none."""


def checkout() -> Path:
    source = tools.require_setting("KAE_DRIVER_SOURCE", "the folder KAEKernelDriver of a checkout of KAE")
    return Path(source).resolve().parent


def kernels() -> tuple[str, ...]:
    """Return the kernels whose headers are here; without those of two, skip the test."""
    names = [path.name.removeprefix("linux-headers-") for path in Path("/usr/src").glob("linux-headers-*-cloud-amd64")]
    if len(names) < 2:
        tools.skip("Headers of two kernels are not here: apt-get install two of linux-headers-*-cloud-amd64.")
    return tuple(sorted(names))


def build(store: stores.Store) -> str:
    """Build an image with uadk, where the checkout has it, and modules for each kernel; the engine needs arm64."""
    place = stores.named("build")
    store.take(debian.debian_root(librarytrees.PACKAGES), place)
    libraries = "uadk" if has_libraries() else "none"
    mounted = [*Path("/usr/src").glob("linux-headers-*"), *Path("/usr/lib").glob("linux-kbuild-*")]
    store.build_driver(checkout(), VERSION, kernels(), mounted, f"BUILD_IMAGE={place}", f"LIBRARIES={libraries}")
    return stores.named("kae-driver-installer", VERSION)


def has_libraries() -> bool:
    return (checkout() / "uadk").is_dir()


def copied(store: stores.Store, image: str, folder: Path) -> Path:
    held = [f"/opt/{name}" for name in store.run(image, "ls", "/opt").stdout.split() if name != "venv"]
    (folder / "opt").mkdir()
    done = store.run(image, "cp", "-R", *held, str(folder / "opt"), folder=folder)
    assert done.returncode == 0, done.stderr
    return folder
