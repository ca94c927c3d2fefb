"""The drivers that the files of a version 1 output deploy."""

import json

import pytest

from compiler.formats import canonical
from compiler.output import index_file, workloads

PATH = "driver/daemonset-kae-driver-tls.yaml"


def daemon_set(config: str) -> bytes:
    template = {"metadata": {"annotations": {"device.openfuyao.com/config": config}}}
    return canonical.dump_yaml({"kind": "DaemonSet", "spec": {"template": template}}).encode()


@pytest.mark.parametrize("state", ["Present", "Absent"])
def test_a_driver_is_read_from_the_config_in_its_pod_template(state: index_file.State) -> None:
    config = {"policy": "tls", "pool": "canary", "state": state, "driverVersion": "2.2.0"}

    listed = list(workloads.workloads({PATH: daemon_set(json.dumps(config, indent=2))}))

    assert listed == [index_file.Workload(file=PATH, component="driver", policy="tls", pool="canary", state=state)]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"a: {",
        b"a: 1\n",
        b"spec: []\n",
        daemon_set("{"),
        daemon_set("[]"),
        daemon_set("{}"),
        daemon_set('{"policy": 1, "pool": "tls", "state": "Present"}'),
        daemon_set('{"policy": "tls", "pool": "tls", "state": "gone"}'),
    ],
)
def test_a_file_that_was_edited_beyond_reading_deploys_no_driver(content: bytes) -> None:
    assert list(workloads.workloads({PATH: content})) == []
