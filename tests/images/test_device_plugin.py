"""The image of the device plugin runs as its DaemonSet has it run."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from tests.device_plugin import machines, settings
from tests.images import inputs, stores

IMAGE = stores.named("kae-device-plugin")


def test_it_lists_what_the_sources_list(store: stores.Store, tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(settings.text(settings.settings()))
    folders = (f"--sysfs={host.sysfs}", f"--dev={host.dev}", f"--run-dir={host.run}", f"--kubelet-dir={host.kubelet}")
    arguments = ("-m", "device_plugin", "list", f"--config={config}", *folders, "--output=json")
    environment = os.environ | {"KAE_VERSION": stores.VERSION}  # As the image has it.
    expected = subprocess.run(
        (sys.executable, *arguments), cwd=inputs.ROOT, env=environment, capture_output=True, text=True, check=True
    )

    done = store.run(IMAGE, "python", *arguments, folder=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert "0000:79:00.0" in done.stdout
    assert json.loads(done.stdout) == json.loads(expected.stdout)


def test_the_probe_judges_a_beat(store: stores.Store, tmp_path: Path) -> None:
    probe = ("python", "-m", "runtime.probe", "alive", "--program-dir", str(tmp_path))
    (tmp_path / "alive").write_text(str(time.monotonic()))
    fresh = store.run(IMAGE, *probe, folder=tmp_path)
    (tmp_path / "alive").write_text(str(time.monotonic() - 60))

    old = store.run(IMAGE, *probe, folder=tmp_path)

    assert (fresh.returncode, fresh.stdout, fresh.stderr) == (0, "", "")
    assert old.returncode == 1
    assert "seconds old" in old.stdout
