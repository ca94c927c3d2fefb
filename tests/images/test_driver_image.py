"""The recipe of docs/driver-image.md: an image of the installer with a driver, its source and its licence."""

import json
import os
import shutil
from pathlib import Path

import pytest

from installer.host import chroot
from tests import project
from tests.cluster.nodes import images
from tests.failures import projects
from tests.host import roots, rpms
from tests.images import stores
from tests.installer import sourcetrees

KERNELS = ("5.10.0-216.0.0.115.oe2203sp4.aarch64", "6.6.0-28.0.0.34.oe2403.aarch64")
NAMES = ("uacce", "hisi_qm", "hisi_hpre", "hisi_sec2", "hisi_zip")


@pytest.fixture(scope="module")
def kae(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout whose driver is a stub, with headers of each kernel beside it."""
    folder = tmp_path_factory.mktemp("kae")
    sourcetrees.write_driver(folder / "checkout/KAEKernelDriver", "2.0.2")
    for kernel in KERNELS:
        sourcetrees.write_kernel_devel(folder / kernel, kernel)
    return folder


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a package."""
    folder = tmp_path_factory.mktemp("packages")
    with roots.opened(folder / "root", roots.debian()) as root:
        host = chroot.Host(root)
        rpms.build(host, [rpms.Package(name="kae-driver")], "/srv/built")
        shutil.copytree(host.path("/srv/built"), folder / "rpms")
    return folder / "rpms"


def build(store: stores.Store, kae: Path, version: str = "2.0.2", kernels: tuple[str, ...] = KERNELS) -> str:
    """Build an image and return its name."""
    store.build_driver(kae / "checkout", version, kernels, [kae / kernel for kernel in KERNELS])
    return stores.named("kae-driver-installer", version)


def found(store: stores.Store, image: str, *folders: str) -> set[str]:
    """Return the files in folders of an image."""
    done = store.run(image, "find", *folders, "-type", "f")
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_the_image_has_modules_for_each_kernel_and_the_source_with_its_licence(store: stores.Store, kae: Path) -> None:
    image = build(store, kae)

    modules = {f"/opt/lib/modules/{kernel}/{name}.ko" for kernel in KERNELS for name in NAMES}
    assert found(store, image, "/opt/lib") == modules
    source = found(store, image, "/opt/src/kae")
    assert {"/opt/src/kae/Makefile", "/opt/src/kae/KAEKernelDriver/hisi_zip.c"} <= source
    assert not [name for name in source if name.endswith(".ko")]
    text = store.run(image, "cat", "/usr/share/doc/kae/GPL-2.0.txt").stdout
    assert "GNU GENERAL PUBLIC LICENSE" in text
    # Those of the installer, upon which it is built.
    assert found(store, image, "/usr/share/licenses/kae") == {
        f"/usr/share/licenses/kae/{name}" for name in ("LICENSE", "THIRD_PARTY.txt")
    }


def test_the_labels_say_what_is_in_the_image(store: stores.Store, kae: Path) -> None:
    labels = json.loads(store.inspected(build(store, kae)))[0]["Labels"]

    assert labels["org.opencontainers.image.version"] == "2.0.2"
    assert "GPL-2.0-only" in labels["org.opencontainers.image.licenses"]
    ours = {key.partition("/")[2]: text for key, text in labels.items() if key.startswith("device.openfuyao.com/")}
    assert ours == {
        "driver-version": "2.0.2",
        "driver-kernels": " ".join(KERNELS),
        "driver-sources": "build prebuilt",
    }


def test_preflight_reads_the_archive_of_the_image(store: stores.Store, kae: Path, tmp_path: Path) -> None:
    store.save_oci(build(store, kae), tmp_path / "driver.tar")
    source = "2.0.2\n    repository: localhost\n    source: {prebuilt: {}}\n"
    policy = projects.POLICY.replace("2.2.0\n", source)
    project.write(tmp_path, {"policies/east.yaml": projects.CLUSTER, "policies/tls.yaml": policy})

    def preflight(kernel: str) -> project.Answer:
        node = projects.node("kp-1")
        node["status"]["nodeInfo"]["kernelVersion"] = kernel
        project.write(tmp_path, {"inventory/east.json": projects.inventory(node)})
        return project.kae(tmp_path, "preflight", "--image", "driver.tar")

    served, unserved = preflight(KERNELS[0]), preflight("5.10.0-999.aarch64")

    assert (served.code, served.err) == (0, "")
    assert "cluster east, policy tls, pool tls: 1 node by prebuilt" in served.out
    assert (unserved.code, "error[image-driver-kernel]" in unserved.err) == (1, True)


def test_an_image_for_the_source_build_needs_no_headers(store: stores.Store, kae: Path) -> None:
    image = build(store, kae, "2.0.3", ())

    labels = json.loads(store.inspected(image))[0]["Labels"]
    assert labels["device.openfuyao.com/driver-sources"] == "build"
    assert "/opt/src/kae/Makefile" in found(store, image, "/opt/src/kae")


def test_two_builds_give_one_image(store: stores.Store, kae: Path) -> None:
    first = json.loads(store.inspected(build(store, kae)))[0]["Id"]

    assert json.loads(store.inspected(build(store, kae)))[0]["Id"] == first


def test_each_line_of_kernels_has_its_own_tree(store: stores.Store, kae: Path, tmp_path: Path) -> None:
    for line in ("5.10", "6.6"):
        sourcetrees.write_driver(tmp_path / f"KAEKernelDriver/KAEKernelDriver-OLK-{line}", f"2.0.4-{line}")
    store.build_driver(tmp_path, "2.0.4", KERNELS, [kae / kernel for kernel in KERNELS])
    image = stores.named("kae-driver-installer", "2.0.4")

    source = found(store, image, "/opt/src/kae")
    assert {f"/opt/src/kae/{line}/Makefile" for line in ("5.10", "6.6")} <= source
    for kernel, line in zip(KERNELS, ("5.10", "6.6"), strict=True):
        done = store.run(image, "grep", "-c", f"2.0.4-{line}", f"/opt/lib/modules/{kernel}/hisi_zip.ko")
        assert done.returncode == 0


@pytest.mark.parametrize(
    ("kernels", "said"),
    [
        (("5.10.0-999.aarch64",), "There are no headers for kernel 5.10.0-999.aarch64"),
        (("newest",), "There are no headers for kernel newest"),
    ],
)
def test_a_kernel_without_headers_ends_the_build(
    store: stores.Store, kae: Path, kernels: tuple[str, ...], said: str
) -> None:
    with pytest.raises(AssertionError, match=said):
        build(store, kae, "2.0.5", kernels)


def test_headers_of_another_kernel_end_the_build(store: stores.Store, kae: Path, tmp_path: Path) -> None:
    other = tmp_path / "5.10.0-999.aarch64"
    sourcetrees.write_kernel_devel(other, KERNELS[0])

    with pytest.raises(AssertionError, match=r"is not for kernel 5\.10\.0-999\.aarch64"):
        store.build_driver(kae / "checkout", "2.0.5", (other.name,), [other])


def test_a_folder_without_a_driver_ends_the_build(store: stores.Store, tmp_path: Path) -> None:
    (tmp_path / "README.md").touch()

    with pytest.raises(AssertionError, match="There is no folder KAEKernelDriver"):
        store.build_driver(tmp_path, "2.0.5", (), ())


def test_a_folder_of_packages_becomes_a_repository(store: stores.Store, kae: Path, packages: Path) -> None:
    store.take(images.debian_root(roots.PACKAGES), stores.named("createrepo"))
    further = (f"PACKAGES={packages}", f"BUILD_IMAGE={stores.named('createrepo')}")

    store.build_driver(kae / "checkout", "2.0.7", (), (), *further)

    image = stores.named("kae-driver-installer", "2.0.7")
    held = found(store, image, "/opt/packages")
    assert {"/opt/packages/kae-driver-2.0.1-1.noarch.rpm", "/opt/packages/repodata/repomd.xml"} <= held
    inspected = json.loads(store.inspected(image))[0]
    assert inspected["Labels"]["device.openfuyao.com/driver-sources"] == "build packages"
    store.build_driver(kae / "checkout", "2.0.7", (), (), *further)
    assert json.loads(store.inspected(image))[0]["Id"] == inspected["Id"]


def test_a_folder_without_packages_ends_the_build(store: stores.Store, kae: Path, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="There is no rpm in the folder PACKAGES"):
        store.build_driver(kae / "checkout", "2.0.5", (), (), f"PACKAGES={tmp_path}")


def test_the_real_source_gives_modules_for_each_kernel_with_headers(store: stores.Store, tmp_path: Path) -> None:
    source = os.environ.get("KAE_DRIVER_SOURCE")
    if not source:
        pytest.skip("KAE_DRIVER_SOURCE is not set: it names the folder KAEKernelDriver of a checkout of KAE.")
    headers = sorted(Path("/usr/src").glob("linux-headers-*-cloud-amd64"))
    if len(headers) < 2:
        pytest.skip("Headers of two kernels are not here: apt-get install two of linux-headers-*-cloud-amd64.")
    kernels = tuple(path.name.removeprefix("linux-headers-") for path in headers)
    shutil.copytree(source, tmp_path / "KAEKernelDriver")
    mounted = [*Path("/usr/src").glob("linux-headers-*"), *Path("/usr/lib").glob("linux-kbuild-*")]
    store.build_driver(tmp_path, "2.0.6", kernels, mounted)
    image = stores.named("kae-driver-installer", "2.0.6")

    expected = {f"/opt/lib/modules/{kernel}/{name}.ko" for kernel in kernels for name in NAMES}
    assert found(store, image, "/opt/lib") == expected
