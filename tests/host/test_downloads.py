"""Downloads of the installer by the host's real dnf."""

from collections.abc import Sequence

import pytest

from installer.host import chroot, rpm
from tests.host import repositories
from tests.host.repositories import BOTH, FIRST, ODD, UNSIGNED

NEW = "/var/lib/kae/new"


def download(host: chroot.Host, *names: str, asked: Sequence[str] = (BOTH,), gpg_check: bool = True) -> list[str]:
    paths = rpm.download(host, names, rpm.Repositories(asked), gpg_check, NEW)
    assert sorted(paths) == sorted(f"{NEW}/{path.name}" for path in host.path(NEW).iterdir())
    return [path.removeprefix(f"{NEW}/").removesuffix(".noarch.rpm") for path in paths]


def test_a_package_comes_with_what_it_needs_and_nothing_is_installed(host: chroot.Host) -> None:
    assert download(host, "kae-openssl-2.0.1-1", asked=(FIRST,)) == ["kae-driver-2.0.1-1", "kae-openssl-2.0.1-1"]
    assert rpm.installed(host, ("kae-driver", "kae-openssl")) == {}


def test_a_name_without_a_version_means_the_newest(host: chroot.Host) -> None:
    rpm.install(host, (repositories.file("kae-driver-2.0.1-1"),))

    assert download(host, "kae-driver") == ["kae-driver-2.0.2-1"]


def test_what_is_installed_already_is_downloaded_like_the_rest(host: chroot.Host) -> None:
    rpm.install(host, (repositories.file("kae-driver-2.0.1-1"),))

    assert download(host, "kae-driver-2.0.1-1", "kae-zip-2.0.1-1") == ["kae-driver-2.0.1-1", "kae-zip-2.0.1-1"]


def test_an_older_version_than_the_installed_one_is_downloaded(host: chroot.Host) -> None:
    rpm.install(host, (repositories.file("kae-driver-2.0.2-1"),))

    assert download(host, "kae-driver-2.0.1-1") == ["kae-driver-2.0.1-1"]


def test_several_repositories_are_asked_together(host: chroot.Host) -> None:
    assert download(host, "kae-driver-2.0.1-1", "libuadk", asked=(FIRST, ODD)) == [
        "kae-driver-2.0.1-1",
        "libuadk-1.0-1",
    ]


def test_with_repositories_given_those_of_the_node_are_not_asked(host: chroot.Host) -> None:
    host.write("/etc/yum.repos.d/node.repo", "[node]\nname=node\nbaseurl=file:///nowhere\n")

    assert download(host, "kae-driver-2.0.1-1", asked=(FIRST,)) == ["kae-driver-2.0.1-1"]


def test_without_repositories_those_of_the_node_are_asked(host: chroot.Host) -> None:
    host.write("/etc/yum.repos.d/node.repo", f"[node]\nname=node\nbaseurl={FIRST}\n")

    assert download(host, "kae-driver", asked=()) == ["kae-driver-2.0.1-1"]


@pytest.mark.parametrize("asked", [("file:///srv/copy-of-first",), ()])
def test_what_was_added_to_a_repository_is_found_at_once(host: chroot.Host, asked: tuple[str, ...]) -> None:
    folder = repositories.copy(host)
    host.write("/etc/yum.repos.d/node.repo", f"[node]\nname=node\nbaseurl=file://{folder}\n")
    assert download(host, "kae-driver", asked=asked) == ["kae-driver-2.0.1-1"]
    host.remove_folder(NEW)
    repositories.put(host, folder, [repositories.file("kae-driver-2.0.2-1")])
    repositories.index(host, folder)

    assert download(host, "kae-driver", asked=asked) == ["kae-driver-2.0.2-1"]


def test_nothing_of_given_repositories_stays_in_the_cache_of_the_host(host: chroot.Host) -> None:
    before = sorted(host.path("/var/cache").rglob("*"))

    download(host, "kae-driver")

    assert sorted(host.path("/var/cache").rglob("*")) == before


def test_a_file_is_called_what_its_package_is(host: chroot.Host) -> None:
    folder = repositories.copy(host, "unsigned")
    host.path(f"{folder}/kae-driver-2.0.1-1.noarch.rpm").rename(host.path(f"{folder}/driver.rpm"))
    repositories.index(host, folder)

    assert download(host, "kae-driver", asked=(f"file://{folder}",), gpg_check=False) == ["kae-driver-2.0.1-1"]


def test_yum_serves_where_there_is_no_dnf(host: chroot.Host) -> None:
    host.path("/usr/bin/dnf").rename(host.path("/usr/bin/yum"))

    assert download(host, "kae-driver-2.0.1-1") == ["kae-driver-2.0.1-1"]


def test_an_unsigned_package_comes_where_nobody_asks_for_signatures(host: chroot.Host) -> None:
    assert download(host, "kae-driver", asked=(UNSIGNED,), gpg_check=False) == ["kae-driver-2.0.1-1"]


def test_packages_come_from_a_mirror(host: chroot.Host) -> None:
    with repositories.mirror(host.path("/srv/both")) as url:
        assert download(host, "kae-driver-2.0.1-1", asked=(url,)) == ["kae-driver-2.0.1-1"]
