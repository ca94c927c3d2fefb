"""The recipe of docs/driver-image.md: an image of the installer with a driver, its source and its licence."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from installer.host import chroot
from tests import in_process, project
from tests.cluster.nodes import images
from tests.failures import projects
from tests.host import roots, rpms
from tests.images import inputs, kaesource, librarytrees, stores
from tests.installer import homes, sourcetrees

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
    folder = tmp_path_factory.mktemp("packages")
    with roots.opened(folder / "root", roots.debian()) as root:
        host = chroot.Host(root, homes.KAE)
        rpms.build(host, [rpms.Package(name="kae-driver")], "/srv/built")
        shutil.copytree(host.path("/srv/built"), folder / "rpms")
    return folder / "rpms"


def build(store: stores.Store, kae: Path, version: str = "2.0.2", kernels: tuple[str, ...] = KERNELS) -> str:
    store.build_driver(kae / "checkout", version, kernels, [kae / kernel for kernel in KERNELS])
    return stores.named("kae-driver-installer", version)


def files_in(store: stores.Store, image: str, *folders: str) -> set[str]:
    done = store.run(image, "find", *folders, "-type", "f")
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_the_image_has_modules_for_each_kernel_and_the_source_with_its_licence(store: stores.Store, kae: Path) -> None:
    image = build(store, kae)

    modules = {f"/opt/lib/modules/{kernel}/{name}.ko" for kernel in KERNELS for name in NAMES}
    assert files_in(store, image, "/opt/lib") == modules
    source = files_in(store, image, "/opt/src/kae")
    assert {"/opt/src/kae/Makefile", "/opt/src/kae/KAEKernelDriver/hisi_zip.c"} <= source
    assert not [name for name in source if name.endswith(".ko")]
    text = store.run(image, "cat", "/usr/share/doc/kae/GPL-2.0.txt").stdout
    assert "GNU GENERAL PUBLIC LICENSE" in text
    # Those of the installer, upon which it is built.
    licences = {f"{stores.LICENCES}/{name}" for name in ("LICENSE", "THIRD_PARTY.txt")}
    assert files_in(store, image, stores.LICENCES) == licences


def test_the_labels_say_what_is_in_the_image(store: stores.Store, kae: Path) -> None:
    labels = store.inspected(build(store, kae))["Labels"]

    assert labels["org.opencontainers.image.version"] == "2.0.2"
    assert "GPL-2.0-only" in labels["org.opencontainers.image.licenses"]
    ours = {key.partition("/")[2]: text for key, text in labels.items() if key.startswith("device.openfuyao.com/")}
    kernels = " ".join(KERNELS)
    assert ours == {"driver-version": "2.0.2", "driver-kernels": kernels, "driver-sources": "build prebuilt"}


def test_preflight_reads_an_archive_of_the_image(store: stores.Store, kae: Path, tmp_path: Path) -> None:
    image = build(store, kae)
    for kind in ("oci", "docker"):
        store.save(image, tmp_path / f"{kind}.tar", kind)
    source = "2.0.2\n    repository: localhost\n    source: {prebuilt: {}}\n"
    policy = projects.POLICY.replace("2.2.0\n", source)
    project.write(tmp_path, {"policies/east.yaml": projects.CLUSTER, "policies/tls.yaml": policy})

    def preflight(archive: str, *kernels: str) -> in_process.Answer:
        nodes = [projects.node(f"kp-{number}") for number in range(len(kernels))]
        for node, kernel in zip(nodes, kernels, strict=True):
            node["status"]["nodeInfo"]["kernelVersion"] = kernel
        project.write(tmp_path, {"inventory/east.json": projects.inventory(*nodes)})
        return in_process.kae(tmp_path, "preflight", "--image", archive)

    for archive in ("oci.tar", "docker.tar"):
        served, unserved = preflight(archive, *KERNELS), preflight(archive, *KERNELS, "5.10.0-999.aarch64")

        assert served.code == 0, served.err
        assert "cluster east, policy tls, pool tls: 2 nodes by prebuilt" in served.out
        assert unserved.code == 1
        assert unserved.err.count("error[image-driver-kernel]") == 1


def test_an_image_for_the_source_build_needs_no_headers(store: stores.Store, kae: Path) -> None:
    image = build(store, kae, "2.0.3", ())

    labels = store.inspected(image)["Labels"]
    assert labels["device.openfuyao.com/driver-sources"] == "build"
    assert "/opt/src/kae/Makefile" in files_in(store, image, "/opt/src/kae")


def test_two_builds_give_one_image(store: stores.Store, kae: Path) -> None:
    first = store.inspected(build(store, kae))["Id"]

    assert store.inspected(build(store, kae))["Id"] == first


def test_modes_and_leftovers_of_a_checkout_change_nothing(store: stores.Store, kae: Path, tmp_path: Path) -> None:
    clean = store.inspected(build(store, kae))["Id"]
    shutil.copytree(kae / "checkout", tmp_path / "checkout")
    for name in ("hisi_old.ko", "hisi_zip.o", ".hisi_zip.o.cmd", "hisi_zip.mod.c", "Module.symvers"):
        (tmp_path / "checkout/KAEKernelDriver" / name).write_text("of another kernel\n")
    for path in (tmp_path / "checkout").rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)

    store.build_driver(tmp_path / "checkout", "2.0.2", KERNELS, [kae / kernel for kernel in KERNELS])

    assert store.inspected(stores.named("kae-driver-installer", "2.0.2"))["Id"] == clean


def test_each_line_of_kernels_has_its_own_tree(store: stores.Store, kae: Path, tmp_path: Path) -> None:
    for line in ("5.10", "6.6"):
        sourcetrees.write_driver(tmp_path / f"KAEKernelDriver/KAEKernelDriver-OLK-{line}", f"2.0.4-{line}")
    store.build_driver(tmp_path, "2.0.4", KERNELS, [kae / kernel for kernel in KERNELS])
    image = stores.named("kae-driver-installer", "2.0.4")

    source = files_in(store, image, "/opt/src/kae")
    assert {f"/opt/src/kae/{line}/Makefile" for line in ("5.10", "6.6")} <= source
    for kernel, line in zip(KERNELS, ("5.10", "6.6"), strict=True):
        done = store.run(image, "grep", "-c", f"2.0.4-{line}", f"/opt/lib/modules/{kernel}/hisi_zip.ko")
        assert done.returncode == 0


@pytest.mark.parametrize(
    ("kernels", "said"),
    [
        (("5.10.0-999.aarch64",), "There are no headers for kernel 5.10.0-999.aarch64"),
        (("newest",), "'newest' is no kernel as 'uname -r' prints it"),
        ((f"{KERNELS[0]}/../../kae",), "is no kernel as 'uname -r' prints it"),
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
    held = files_in(store, image, "/opt/packages")
    assert {"/opt/packages/kae-driver-2.0.1-1.noarch.rpm", "/opt/packages/repodata/repomd.xml"} <= held
    inspected = store.inspected(image)
    assert inspected["Labels"]["device.openfuyao.com/driver-sources"] == "build packages"
    store.build_driver(kae / "checkout", "2.0.7", (), (), *further)
    assert store.inspected(image)["Id"] == inspected["Id"]


def test_a_folder_without_packages_ends_the_build(store: stores.Store, kae: Path, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="There is no rpm in the folder PACKAGES"):
        store.build_driver(kae / "checkout", "2.0.5", (), (), f"PACKAGES={tmp_path}")


def test_a_builder_without_further_contexts_is_refused(tmp_path: Path) -> None:
    # As podman before 4.2 prints it.
    (tmp_path / "podman").write_text("#!/bin/sh\necho '--build-arg argument=value'\n")
    (tmp_path / "podman").chmod(0o755)
    given = ("KAE=.", "DRIVER_VERSION=2.0.2", "INSTALLER_IMAGE=localhost/kae-driver-installer:1")
    command = ("make", "--no-print-directory", f"--directory={inputs.ROOT}", "driver-image", *given)

    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode != 0
    assert "knows no --build-context: docs/driver-image.md says which versions do." in done.stderr


@pytest.fixture
def libraries(kae: Path, tmp_path: Path) -> Path:
    shutil.copytree(kae / "checkout", tmp_path / "checkout")
    librarytrees.write_uadk(tmp_path / "checkout/uadk")
    librarytrees.write_engine(tmp_path / "checkout/KAEOpensslEngine", ">= 3.0")
    return tmp_path / "checkout"


@pytest.fixture(scope="module")
def autotools(store: stores.Store) -> str:
    name = stores.named("autotools")
    store.take(images.debian_root(librarytrees.PACKAGES), name)
    return f"BUILD_IMAGE={name}"


def test_the_libraries_of_the_checkout_are_compiled(store: stores.Store, libraries: Path, autotools: str) -> None:
    store.build_driver(libraries, "2.0.8", (), (), autotools)
    image = stores.named("kae-driver-installer", "2.0.8")

    compiled = {"libwd.so.2.4.0", "libhisi_zip.so.2.4.0", "engines-3.0/kae.so.2.0.2"}
    assert files_in(store, image, "/opt/kae") == {f"/opt/kae/lib/{name}" for name in compiled}
    links = store.run(image, "find", "/opt/kae", "-type", "l").stdout.split()
    assert {"/opt/kae/lib/libwd.so", "/opt/kae/lib/libhisi_zip.so", "/opt/kae/lib/engines-3.0/kae.so"} <= set(links)
    licences = {"GPL-2.0.txt", "uadk/LICENSE", "KAEOpensslEngine/LICENSE"}
    assert files_in(store, image, "/usr/share/doc/kae") == {f"/usr/share/doc/kae/{name}" for name in licences}
    first = store.inspected(image)["Id"]
    (libraries / "uadk/wd.lo").write_text("of another compiler\n")
    store.build_driver(libraries, "2.0.8", (), (), autotools)
    assert store.inspected(image)["Id"] == first


def test_an_engine_for_another_openssl_ends_the_build_and_can_be_left_out(
    store: stores.Store, libraries: Path, autotools: str
) -> None:
    shutil.rmtree(libraries / "KAEOpensslEngine")
    librarytrees.write_engine(libraries / "KAEOpensslEngine", "< 3.0 libcrypto >= 1.1")

    said = r"asks for: libcrypto < 3\.0 libcrypto >= 1\.1\. Take another BUILD_IMAGE"
    with pytest.raises(AssertionError, match=said):
        store.build_driver(libraries, "2.0.9", (), (), autotools)
    store.build_driver(libraries, "2.0.9", (), (), autotools, "LIBRARIES=uadk")

    held = files_in(store, stores.named("kae-driver-installer", "2.0.9"), "/opt/kae")
    assert "/opt/kae/lib/libwd.so.2.4.0" in held
    assert not [name for name in held if "engines" in name]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "BUILD_IMAGE lacks autoreconf libtoolize pkg-config numa.h openssl/engine.h, which compile LIBRARIES"),
        ("zlib", "LIBRARIES is 'zlib': give 'uadk engine', 'uadk' or 'none'"),
    ],
)
def test_libraries_that_do_not_compile_end_a_build(store: stores.Store, libraries: Path, given: str, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        store.build_driver(libraries, "2.0.5", (), (), f"LIBRARIES={given}")


def test_libraries_are_left_out_where_they_are_not_wanted(store: stores.Store, libraries: Path) -> None:
    store.build_driver(libraries, "2.0.10", (), (), "LIBRARIES=none")

    listed = store.run(stores.named("kae-driver-installer", "2.0.10"), "ls", "/opt").stdout.split()
    assert "src" in listed
    assert "kae" not in listed


def test_libraries_that_the_checkout_lacks_end_the_build(store: stores.Store, kae: Path, autotools: str) -> None:
    with pytest.raises(AssertionError, match="There is no folder uadk in the checkout of KAE"):
        store.build_driver(kae / "checkout", "2.0.5", (), (), autotools, "LIBRARIES=uadk")


def test_the_real_source_gives_modules_for_each_kernel_and_libraries(store: stores.Store) -> None:
    image = kaesource.build(store)

    expected = {f"/opt/lib/modules/{kernel}/{name}.ko" for kernel in kaesource.kernels() for name in NAMES}
    assert files_in(store, image, "/opt/lib") == expected
    libraries = store.run(image, "ls", "/opt/kae/lib").stdout.split()
    assert {"libwd.so", "libwd_comp.so", "libwd_crypto.so", "libhisi_hpre.so"} <= set(libraries) or not (
        kaesource.has_libraries()
    )
    first = store.inspected(image)["Id"]
    assert store.inspected(kaesource.build(store))["Id"] == first
