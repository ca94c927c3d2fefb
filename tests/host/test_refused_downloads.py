"""Downloads that fail: the words of the host's dnf and rpmkeys reach the user."""

import re
import subprocess
from collections.abc import Sequence

import pytest

from installer.host import chroot, rpm
from runtime import errors
from tests.host import repositories
from tests.host.repositories import FIRST, ODD, STRANGE, UNSIGNED

NEW = "/var/lib/kae/new"


def download(host: chroot.Host, *names: str, asked: Sequence[str] = (FIRST,)) -> None:
    rpm.download(host, names, rpm.Repositories(asked), True, NEW)


def refusal(host: chroot.Host, *names: str, asked: Sequence[str] = (FIRST,)) -> str:
    with pytest.raises(errors.Failure) as caught:
        download(host, *names, asked=asked)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_unsigned_package_is_refused(host: chroot.Host) -> None:
    assert refusal(host, "kae-driver", asked=(UNSIGNED,)).startswith(
        "Package 'kae-driver-2.0.1-1.noarch.rpm' has no valid signature of a key that the host trusts: sign it, run"
        " 'rpm --import' with the public key on the host, or set gpgCheck: false. rpmkeys says: "
    )


def test_a_package_of_a_stranger_is_refused_until_his_key_is_imported(host: chroot.Host) -> None:
    shown = host.run("gpg", "--show-keys", "--with-colons", "/etc/pki/rpm-gpg/RPM-GPG-KEY-stranger")
    key = re.findall(r"^pub:.*?:(\w{16}):", shown, re.MULTILINE)[0]

    assert f"key ID {key[-8:].lower()}: NOKEY" in refusal(host, "kae-driver", asked=(STRANGE,))
    host.run("rpm", "--import", "/etc/pki/rpm-gpg/RPM-GPG-KEY-stranger")
    download(host, "kae-driver", asked=(STRANGE,))


def test_a_stranger_is_not_trusted_because_his_repository_names_his_key(host: chroot.Host) -> None:
    key = "file:///etc/pki/rpm-gpg/RPM-GPG-KEY-stranger"
    host.write("/etc/yum.repos.d/node.repo", f"[node]\nname=node\nbaseurl={STRANGE}\ngpgcheck=1\ngpgkey={key}\n")
    before = rpm.installed(host, ("gpg-pubkey",))

    assert ": NOKEY" in refusal(host, "kae-driver", asked=())
    assert rpm.installed(host, ("gpg-pubkey",)) == before


def test_a_repository_that_says_gpgcheck_0_does_not_decide(host: chroot.Host) -> None:
    host.write("/etc/yum.repos.d/node.repo", f"[node]\nname=node\nbaseurl={UNSIGNED}\ngpgcheck=0\n")

    assert "has no valid signature" in refusal(host, "kae-driver", asked=())


@pytest.mark.parametrize("part", ["header", "payload"])
def test_a_package_that_was_altered_after_it_was_signed_is_refused(host: chroot.Host, part: str) -> None:
    folder = repositories.copy(host)
    path = host.path(f"{folder}/kae-driver-2.0.1-1.noarch.rpm")
    content = bytearray(path.read_bytes())
    content[content.index(b"Apache-2.0") if part == "header" else -100] ^= 1
    path.write_bytes(content)

    with pytest.raises(errors.Failure, match=r"1\.noarch\.rpm' has no valid .*: BAD"):
        rpm.check_signatures(host, [f"{folder}/kae-driver-2.0.1-1.noarch.rpm"])


def test_a_file_that_is_no_package_is_refused(host: chroot.Host) -> None:
    host.write("/srv/page.rpm", "<html>404</html>\n")

    with pytest.raises(errors.Failure, match="has no valid signature"):
        rpm.check_signatures(host, ["/srv/page.rpm"])
    with pytest.raises(errors.Failure):
        rpm.described(host, ["/srv/page.rpm"])


@pytest.mark.parametrize(
    ("name", "asked", "words"),
    [
        ("kae-driver-9.9-1", (FIRST, ODD), "Unable to find a match: kae-driver-9.9-1"),
        ("kae-driver", (), "There are no enabled repositories"),
        ("kae-driver", (FIRST, "file:///mnt/iso"), "Couldn't read a file:// file for file:///mnt/iso/repodata/"),
        ("kae-driver", ("http://127.0.0.1:9/openEuler",), "Couldn't connect to server"),
        ("kae-driver-3.2", (ODD,), "nothing provides libnuma >= 3 needed by kae-driver-3.2-1.noarch"),
        ("kae-driver-3.3", (ODD,), "kae-driver-3.3-1.noarch conflicts with libnuma"),
    ],
)
def test_the_words_of_dnf_are_quoted(host: chroot.Host, name: str, asked: Sequence[str], words: str) -> None:
    reason = refusal(host, name, asked=asked)

    assert reason.startswith("The host's dnf refuses: ")
    assert words in reason


def test_a_repository_that_the_node_ignores_is_named_where_a_package_is_missing(host: chroot.Host) -> None:
    text = f"[away]\nname=away\nbaseurl=file:///nowhere\nskip_if_unavailable=1\n[node]\nname=node\nbaseurl={FIRST}\n"
    host.write("/etc/yum.repos.d/node.repo", text)

    assert "Ignoring repositories: away" in refusal(host, "kae-driver-9.9-1", asked=())


def test_a_package_that_the_node_hides_is_named(host: chroot.Host) -> None:
    host.write("/etc/dnf/dnf.conf", "[main]\nexcludepkgs=kae-*\n")

    assert "filtered out by exclude filtering for argument: kae-driver" in refusal(host, "kae-driver")


def test_an_installed_package_that_no_repository_has_is_named(host: chroot.Host) -> None:
    rpm.install(host, (repositories.file("kae-driver-2.0.2-1"),))

    assert "Installed package kae-driver-2.0.2-1.noarch not available" in refusal(host, "kae-driver")


@pytest.mark.parametrize(
    ("damaged", "words"), [("primary", "checksum doesn't match"), ("repomd", "Failed to download metadata for repo")]
)
def test_a_repository_with_a_damaged_index_is_named(host: chroot.Host, damaged: str, words: str) -> None:
    folder = repositories.copy(host)
    for path in host.path(f"{folder}/repodata").glob(f"*{damaged}.xml*"):
        path.write_bytes(b"<html>Log in</html>\n")

    reason = refusal(host, "kae-driver", asked=(f"file://{folder}",))

    assert f"'file://{folder}'" in reason
    assert words in reason


@pytest.mark.parametrize("spoil", ["truncate", "remove"])
def test_a_repository_whose_package_is_not_that_of_its_index_is_named(host: chroot.Host, spoil: str) -> None:
    folder = repositories.copy(host)
    path = host.path(f"{folder}/kae-driver-2.0.1-1.noarch.rpm")
    path.write_bytes(path.read_bytes()[:3000])
    if spoil == "remove":
        path.unlink()

    words = f"from local repository 'file://{folder}' has incorrect checksum"
    assert words in refusal(host, "kae-driver", asked=(f"file://{folder}",))


def test_a_mirror_that_lacks_a_package_of_its_index_is_named(host: chroot.Host) -> None:
    folder = repositories.copy(host)
    package = "kae-driver-2.0.1-1.noarch.rpm"
    host.remove(f"{folder}/{package}")

    with repositories.mirror(host.path(folder)) as url:
        assert f"Status code: 404 for {url}/{package}" in refusal(host, "kae-driver", asked=(url,))


def test_a_full_disk_is_named(host: chroot.Host) -> None:
    host.path(NEW).mkdir(parents=True)
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(host.path(NEW))), check=True)

    assert "No space left on device" in refusal(host, "kae-driver-3.4", asked=(ODD,))


def test_a_host_without_package_manager_is_named_so(host: chroot.Host) -> None:
    host.remove("/usr/bin/dnf")

    assert refusal(host, "kae-driver") == (
        "The host has no dnf and no yum, which packages need: install it, or choose another source."
    )


def test_a_rpm_database_that_cannot_be_read_is_named(host: chroot.Host) -> None:
    for path in host.path("/var/lib/rpm").iterdir():
        path.write_bytes(b"nothing")

    assert "cannot open Packages" in refusal(host, "kae-driver")
