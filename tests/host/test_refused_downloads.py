"""Downloads that come to nothing, and the sentence for each."""

import re
import subprocess
from collections.abc import Sequence

import pytest

from installer.host import chroot, package_errors, rpm
from tests.host import repositories
from tests.host.repositories import FIRST, ODD, STRANGE, UNSIGNED

NEW = "/var/lib/kae/new"


def download(host: chroot.Host, *names: str, asked: Sequence[str] = (FIRST,)) -> None:
    rpm.download(host, names, asked, True, NEW)


def refusal(host: chroot.Host, *names: str, asked: Sequence[str] = (FIRST,)) -> str:
    """What people are told, of a class of its own."""
    with pytest.raises(package_errors.PackageFailure) as caught:
        download(host, *names, asked=asked)
    assert type(caught.value) is not package_errors.Refused
    return str(caught.value)


def test_an_unsigned_package_is_refused(host: chroot.Host) -> None:
    assert refusal(host, "kae-driver", asked=(UNSIGNED,)) == (
        "Package 'kae-driver-2.0.1-1.noarch.rpm' is not signed: take a signed one, sign it with rpmsign, or set"
        " gpgCheck: false."
    )


def test_a_package_of_a_stranger_is_refused_until_his_key_is_imported(host: chroot.Host) -> None:
    shown = host.run("gpg", "--show-keys", "--with-colons", "/etc/pki/rpm-gpg/RPM-GPG-KEY-stranger")
    key = re.findall(r"^pub:.*?:(\w{16}):", shown, re.MULTILINE)[0]

    assert refusal(host, "kae-driver", asked=(STRANGE,)) == (
        f"Package 'kae-driver-2.0.1-1.noarch.rpm' is signed with key {key[-8:].lower()}, which the host does not trust:"
        " if you do, run 'rpm --import' with its public key on the host."
    )
    host.run("rpm", "--import", "/etc/pki/rpm-gpg/RPM-GPG-KEY-stranger")
    download(host, "kae-driver", asked=(STRANGE,))


def test_a_stranger_is_not_trusted_because_his_repository_names_his_key(host: chroot.Host) -> None:
    key = "file:///etc/pki/rpm-gpg/RPM-GPG-KEY-stranger"
    host.write("/etc/yum.repos.d/node.repo", f"[node]\nname=node\nbaseurl={STRANGE}\ngpgcheck=1\ngpgkey={key}\n")
    before = rpm.installed(host, ("gpg-pubkey",))

    assert "which the host does not trust" in refusal(host, "kae-driver", asked=())
    assert rpm.installed(host, ("gpg-pubkey",)) == before


def test_a_repository_that_says_gpgcheck_0_does_not_decide(host: chroot.Host) -> None:
    host.write("/etc/yum.repos.d/node.repo", f"[node]\nname=node\nbaseurl={UNSIGNED}\ngpgcheck=0\n")

    assert "is not signed" in refusal(host, "kae-driver", asked=())


@pytest.mark.parametrize("part", ["header", "payload"])
def test_a_package_that_was_altered_after_it_was_signed_is_refused(host: chroot.Host, part: str) -> None:
    folder = repositories.copy(host)
    path = host.path(f"{folder}/kae-driver-2.0.1-1.noarch.rpm")
    content = bytearray(path.read_bytes())
    content[content.index(b"Apache-2.0") if part == "header" else -100] ^= 1
    path.write_bytes(content)

    with pytest.raises(package_errors.Altered) as caught:
        rpm.check_signatures(host, [f"{folder}/kae-driver-2.0.1-1.noarch.rpm"])
    assert str(caught.value) == (
        "Package 'kae-driver-2.0.1-1.noarch.rpm' is damaged, or was altered after it was signed: fetch it anew."
    )


def test_a_file_that_is_no_package_is_refused(host: chroot.Host) -> None:
    host.write("/srv/page.rpm", "<html>404</html>\n")

    with pytest.raises(package_errors.Altered):
        rpm.check_signatures(host, ["/srv/page.rpm"])
    with pytest.raises(package_errors.PackageFailure):
        rpm.described(host, ["/srv/page.rpm"])


def test_a_package_that_is_nowhere_is_named_with_the_repositories(host: chroot.Host) -> None:
    assert refusal(host, "kae-driver-9.9-1", "kae-openssl-2.0.1-1", asked=(FIRST, ODD)) == (
        f"There is no package kae-driver-9.9-1 in '{FIRST}' and '{ODD}'."
    )


def test_a_package_that_the_repositories_of_the_node_lack_is_named(host: chroot.Host) -> None:
    host.write("/etc/yum.repos.d/node.repo", f"[node]\nname=node\nbaseurl={FIRST}\n")

    assert refusal(host, "kae-driver-9.9-1", asked=()) == (
        "There is no package kae-driver-9.9-1 in the node's own repositories."
    )


def test_a_node_without_repositories_has_no_package(host: chroot.Host) -> None:
    assert refusal(host, "kae-driver", asked=()) == "There is no package kae-driver in the node's own repositories."


def test_a_repository_that_the_node_ignores_is_named_where_a_package_is_missing(host: chroot.Host) -> None:
    text = f"[away]\nname=away\nbaseurl=file:///nowhere\nskip_if_unavailable=1\n[node]\nname=node\nbaseurl={FIRST}\n"
    host.write("/etc/yum.repos.d/node.repo", text)

    assert refusal(host, "kae-driver-9.9-1", asked=()) == (
        "There is no package kae-driver-9.9-1 in the node's own repositories (of them away could not be reached)."
    )


def test_a_package_that_the_node_hides_is_named(host: chroot.Host) -> None:
    host.write("/etc/dnf/dnf.conf", "[main]\nexcludepkgs=kae-*\n")

    assert refusal(host, "kae-driver") == (
        "The host's dnf configuration hides kae-driver: look for exclude= and versionlock there."
    )


def test_an_installed_package_that_no_repository_has_is_named(host: chroot.Host) -> None:
    rpm.install(host, (repositories.file("kae-driver-2.0.2-1"),))

    assert refusal(host, "kae-driver") == (
        f"Package kae-driver-2.0.2-1.noarch is on the host, but not in '{FIRST}', so it cannot be kept for a way back:"
        " put it there, or name another version."
    )


def test_a_repository_that_is_not_there_is_named(host: chroot.Host) -> None:
    assert refusal(host, "kae-driver", asked=(FIRST, "file:///mnt/iso")) == (
        "The repository 'file:///mnt/iso' cannot be used: Couldn't read a file:// file for"
        " file:///mnt/iso/repodata/repomd.xml."
    )


def test_a_mirror_that_does_not_answer_is_named(host: chroot.Host) -> None:
    found = refusal(host, "kae-driver", asked=("http://127.0.0.1:9/openEuler",))

    assert found.startswith("The repository 'http://127.0.0.1:9/openEuler' cannot be used: Couldn't connect to server")


def test_a_repository_with_a_damaged_index_is_named(host: chroot.Host) -> None:
    folder = repositories.copy(host)
    (primary,) = host.path(f"{folder}/repodata").glob("*primary.xml.*")
    primary.write_bytes(b"nothing")

    assert refusal(host, "kae-driver", asked=(f"file://{folder}",)) == (
        f"The repository 'file://{folder}' cannot be used: repodata/{primary.name} is not what its index says; make the"
        " index anew with createrepo_c."
    )


def test_a_repository_with_an_index_that_is_no_xml_is_named(host: chroot.Host) -> None:
    folder = repositories.copy(host)
    host.write(f"{folder}/repodata/repomd.xml", "<html>Log in</html>\n")

    assert refusal(host, "kae-driver", asked=(f"file://{folder}",)).startswith(
        f"The repository 'file://{folder}' cannot be used: "
    )


@pytest.mark.parametrize("spoil", ["truncate", "remove"])
def test_a_repository_whose_package_is_not_that_of_its_index_is_named(host: chroot.Host, spoil: str) -> None:
    folder = repositories.copy(host)
    path = host.path(f"{folder}/kae-driver-2.0.1-1.noarch.rpm")
    path.write_bytes(path.read_bytes()[:3000])
    if spoil == "remove":
        path.unlink()

    assert refusal(host, "kae-driver", asked=(f"file://{folder}",)) == (
        f"The repository 'file://{folder}' cannot be used: its package kae-driver-2.0.1-1.noarch is missing, or not the"
        " one of its index; make the index anew with createrepo_c."
    )


def test_a_mirror_that_lacks_a_package_of_its_index_is_named(host: chroot.Host) -> None:
    folder = repositories.copy(host)
    host.remove(f"{folder}/kae-driver-2.0.1-1.noarch.rpm")

    with repositories.mirror(host.path(folder)) as url:
        found = refusal(host, "kae-driver", asked=(url,))

    package = "kae-driver-2.0.1-1.noarch.rpm"
    assert found == f"The repository '{url}' cannot be used: {package}: Status code: 404 for {url}/{package}."


def test_a_dependency_that_nobody_has_is_named(host: chroot.Host) -> None:
    assert refusal(host, "kae-driver-3.2", asked=(ODD,)) == (
        "The packages do not fit the host: nothing provides libnuma >= 3 needed by kae-driver-3.2-1.noarch."
    )


def test_a_conflict_with_a_package_of_the_host_is_named(host: chroot.Host) -> None:
    found = refusal(host, "kae-driver-3.3", asked=(ODD,))

    assert found.startswith("The packages do not fit the host: ")
    assert "kae-driver-3.3-1.noarch conflicts with libnuma" in found


def test_a_full_disk_is_named(host: chroot.Host) -> None:
    host.path(NEW).mkdir(parents=True)
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(host.path(NEW))), check=True)

    assert refusal(host, "kae-driver-3.4", asked=(ODD,)) == (
        "There is no room for the packages on the host: No space left on device."
    )


def test_a_host_without_package_manager_is_named_so(host: chroot.Host) -> None:
    host.remove("/usr/bin/dnf")

    assert refusal(host, "kae-driver") == (
        "The host has no dnf and no yum, which packages need: install it, or choose another source."
    )


def test_a_rpm_database_that_cannot_be_read_is_named(host: chroot.Host) -> None:
    for path in host.path("/var/lib/rpm").iterdir():
        path.write_bytes(b"nothing")

    assert refusal(host, "kae-driver").startswith("The host's rpm database cannot be read (cannot open Packages")
