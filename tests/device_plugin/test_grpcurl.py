"""An independent gRPC client, grpc-go's, speaks to the running plugin."""

import json
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.device_plugin import machines, settings

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.long


@pytest.fixture
def socket(short_path: Path) -> Iterator[Path]:
    host = machines.bare_metal(short_path)
    command = [sys.executable, "-m", "device_plugin", *settings.options(host, short_path)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as running:
        sockets = host.kubelet / "plugins_registry/kae"
        while not (found := list(sockets.glob("hpre-*.sock"))):
            assert running.poll() is None
            time.sleep(0.01)
        yield found[0]
        running.terminate()
        assert running.wait() == 0


def asked(socket: Path, proto: str, method: str, data: object = None) -> Any:
    grpcurl = Path(sysconfig.get_path("scripts")) / "grpcurl"
    options = ("-plaintext", "-unix", "-authority", "localhost", "-max-time", "1", "-import-path", str(ROOT))
    request = ("-proto", f"device_plugin/api/{proto}.proto", "-d", json.dumps(data or {}))
    command = [str(grpcurl), *options, *request, str(socket), method]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return json.JSONDecoder().raw_decode(done.stdout)[0] if done.stdout else done.stderr


def test_another_client_registers_lists_and_allocates(socket: Path) -> None:
    info = asked(socket, "pluginregistration_v1", "pluginregistration.Registration/GetInfo")
    options = asked(socket, "deviceplugin_v1beta1", "v1beta1.DevicePlugin/GetDevicePluginOptions")
    request = {"container_requests": [{"devices_ids": ["0000:79:00.0"]}]}
    answer = asked(socket, "deviceplugin_v1beta1", "v1beta1.DevicePlugin/Allocate", request)
    request = {"container_requests": [{"devices_ids": ["0000:76:00.0"]}]}
    refusal = asked(socket, "deviceplugin_v1beta1", "v1beta1.DevicePlugin/Allocate", request)
    # Last: when a stream ends, the plugin offers itself at another socket.
    devices = asked(socket, "deviceplugin_v1beta1", "v1beta1.DevicePlugin/ListAndWatch")

    assert info == {"type": "DevicePlugin", "name": "openfuyao.com/kae.hpre", "supportedVersions": ["v1beta1"]}
    assert options == {"getPreferredAllocationAvailable": True}
    assert [device["ID"] for device in devices["devices"]] == ["0000:79:00.0", "0000:b9:00.0"]
    (given,) = answer["containerResponses"]
    assert given["devices"][0]["containerPath"] == "/dev/hisi_hpre-30976"
    assert "FailedPrecondition" in refusal
    assert "Device 0000:76:00.0 of openfuyao.com/kae.hpre is not there." in refusal
