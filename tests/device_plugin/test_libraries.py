"""What the host's libraries lack, which a container would only notice by working in software."""

import logging
from pathlib import Path

import pytest

from device_plugin import plugin, report
from device_plugin.host import paths, reading_process, resources
from device_plugin.kubelet import openssl
from runtime import device_plugin_config as config
from tests.device_plugin import machines, settings
from tests.device_plugin.hangs import Hangs

NOTHING = (
    "'{}' of the host has no libwd.so, so containers get no KAE libraries: install them there, or name their folder in"
    " devicePlugin.inject.librariesPath."
)


def missing(where: paths.Paths, path: str | None = None, *, conf: openssl.Generation | None = None) -> list[str]:
    """What the folder lacks, for two resources."""
    inject = config.Inject(libraries=config.Libraries(path=path), openssl=config.OpenSsl(conf=conf))
    return resources.missing_libraries(where, settings.every(inject=inject))


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")


@pytest.mark.parametrize("folder", ["/opt/kae/lib", "/usr/local/lib"])
def test_a_folder_without_libraries_is_named(folder: str, tmp_path: Path) -> None:
    where = settings.where(machines.bare_metal(tmp_path))
    path = None if folder == "/opt/kae/lib" else folder

    assert missing(where, path, conf="3.0") == [NOTHING.format(folder)]
    put(where.on_host(folder), "libwd.so.2")
    assert missing(where, path, conf="3.0") == [
        f"'{folder}/engines-3.0/kae.so' of the host is not there, so OpenSSL works in software:"
        " install KAE's engine there."
    ]
    put(where.on_host(folder), "engines-3.0/kae.so")
    assert missing(where, path, conf="3.0") == []


def test_the_installers_link_is_followed(tmp_path: Path) -> None:
    where = settings.where(machines.bare_metal(tmp_path))
    put(tmp_path / "opt/.kae-1f2e", "lib/libwd.so")
    (tmp_path / "opt/kae").symlink_to(".kae-1f2e")

    assert missing(where) == []


@pytest.mark.parametrize("target", ["libwd.so.9", "/opt/uadk/lib/libwd.so.2", "../../../opt/uadk/lib/libwd.so.2"])
def test_a_link_that_leads_nowhere_in_a_container_is_no_library(target: str, tmp_path: Path) -> None:
    where = settings.where(machines.bare_metal(tmp_path))
    put(where.on_host("/usr/local/lib"), "libwd.so.bak", "engines-3.0/notes")
    put(where.on_host("/opt/uadk/lib"), "libwd.so.2")
    link = where.on_host("/usr/local/lib/libwd.so")
    link.symlink_to(target)
    assert missing(where, "/usr/local/lib", conf="3.0") == [NOTHING.format("/usr/local/lib")]

    put(where.on_host("/usr/local/lib"), "libwd.so.2.5.0", "engines-3.0/kae.so.2")
    where.on_host("/usr/local/lib/engines-3.0/kae.so").symlink_to("kae.so.2")
    assert missing(where, "/usr/local/lib", conf="3.0") == []


def test_a_folder_that_is_a_link_to_elsewhere_is_not_told_to_be_empty(tmp_path: Path) -> None:
    where = settings.where(machines.bare_metal(tmp_path))
    where.on_host("/usr/local").mkdir(parents=True)
    where.on_host("/usr/local/lib").symlink_to("/opt/uadk/lib")

    assert missing(where, "/usr/local/lib") == [
        "'/usr/local/lib' of the host is a link to '/opt/uadk/lib', where the plugin does not see whether KAE's"
        " libraries are: name that folder in devicePlugin.inject.librariesPath."
    ]


def test_without_libraries_nothing_is_missing(tmp_path: Path) -> None:
    stated = settings.every(inject=config.Inject(openssl=config.OpenSsl(conf="3.0")))

    assert resources.missing_libraries(settings.where(machines.bare_metal(tmp_path)), stated) == []


async def test_a_folder_that_does_not_answer_holds_up_nothing_and_is_named(tmp_path: Path, hangs: Hangs) -> None:
    where = settings.where(machines.bare_metal(tmp_path))
    inject = settings.inject(libraries=config.Libraries(path="/usr/local/lib"))
    stated = settings.settings(*settings.every(inject=inject))
    node = plugin.Plugin(where, stated)

    # As on a network file system whose server is gone.
    with hangs.of(reading_process.LIBRARIES):
        await node.look()

    assert len(node.devices) == 6
    assert "'/usr/local/lib' of the host does not answer: is its file system there?" in where.report.read_text()


async def test_what_is_missing_is_logged_once_and_listed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    where = settings.where(machines.bare_metal(tmp_path))
    stated = settings.settings(*settings.every(inject=settings.inject(libraries=config.Libraries())))
    node = plugin.Plugin(where, stated)

    await node.look()
    await node.look()

    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == [NOTHING.format("/opt/kae/lib")]
    assert warnings[0] in (await report.current(where, stated)).notes
