"""The image of the device plugin runs as its DaemonSet has it run."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.device_plugin import machines, settings
from tests.images import inputs, stores

_UNCOMPILED = """
import importlib.util, pathlib, sysconfig
for top in ("/app", sysconfig.get_path("purelib")):
    for source in pathlib.Path(top).rglob("*.py"):
        compiled = pathlib.Path(importlib.util.cache_from_source(source))
        # Flags 1: with a hash of the source that nobody compares (PEP 552).
        if not compiled.exists() or compiled.read_bytes()[4:8] != b"\\1\\0\\0\\0":
            print(source)
"""


def test_another_checkout_at_another_time_gives_the_same_image(
    store: stores.Store, device_plugin: str, tmp_path: Path
) -> None:
    for source in inputs.sources():
        copy = tmp_path / source.relative_to(inputs.ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)
        copy.chmod(0o600)  # As with another umask.

    store.build(tmp_path, "copied")

    (first,) = json.loads(store.inspected(device_plugin))
    (second,) = json.loads(store.inspected(device_plugin.replace(":1", ":copied")))
    assert second["RootFS"]["Layers"] == first["RootFS"]["Layers"]
    assert second["Id"] == first["Id"]


def test_the_image_keeps_nothing_of_where_packages_came_from(store: stores.Store, device_plugin: str) -> None:
    (image,) = json.loads(store.inspected(device_plugin))

    assert "PIP_" not in json.dumps([image["Config"], image["History"]])
    assert "wheels" not in json.dumps([image["Config"], image["History"]])


def test_every_module_is_compiled_for_good(store: stores.Store, device_plugin: str) -> None:
    done = store.run(device_plugin, "python", "-c", _UNCOMPILED)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_it_lists_what_the_sources_list(store: stores.Store, device_plugin: str, tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(settings.text(settings.settings()))
    folders = (f"--sysfs={host.sysfs}", f"--dev={host.dev}", f"--run-dir={host.run}", f"--kubelet-dir={host.kubelet}")
    arguments = ("-m", "device_plugin", "list", f"--config={config}", *folders, "--output=json")
    expected = subprocess.run((sys.executable, *arguments), cwd=inputs.ROOT, capture_output=True, text=True, check=True)

    done = store.run(device_plugin, "python", *arguments, folder=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert "0000:79:00.0" in done.stdout
    assert json.loads(done.stdout) == json.loads(expected.stdout)


def test_the_probe_judges_a_beat(store: stores.Store, device_plugin: str, tmp_path: Path) -> None:
    probe = ("python", "-m", "runtime.probe", "alive", "--program-dir", str(tmp_path))
    (tmp_path / "alive").write_text(str(time.monotonic()))
    fresh = store.run(device_plugin, *probe, folder=tmp_path)
    (tmp_path / "alive").write_text(str(time.monotonic() - 60))

    old = store.run(device_plugin, *probe, folder=tmp_path)

    assert (fresh.returncode, fresh.stdout, fresh.stderr) == (0, "", "")
    assert old.returncode == 1
    assert "seconds old" in old.stdout


def test_nothing_of_the_root_can_be_written(store: stores.Store, device_plugin: str) -> None:
    done = store.run(device_plugin, "python", "-c", "open('/app/file', 'w')")

    assert "Read-only file system" in done.stderr


def test_it_says_what_is_wrong_before_it_serves(store: stores.Store, device_plugin: str) -> None:
    done = store.run(device_plugin, "python", "-m", "device_plugin", "--config=/absent.json")

    assert done.returncode == 1
    assert "/absent.json" in done.stdout + done.stderr
