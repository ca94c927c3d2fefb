"""Configs of the programs: each meets its schema, and agrees with the policy."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jsonschema
import pytest

from compiler import devices
from compiler.fleet import definitions
from tests import builders

ANNOTATION = "device.openfuyao.com/config"
DRIVER = "driver/daemonset-kae-driver-tls.yaml"
PLUGIN = "device-plugin/daemonset-kae-device-plugin-tls.yaml"
WATCHER = "watcher/deployment-kae-watcher.yaml"
EVERY_KIND = MappingProxyType({kind.switch: True for kind in devices.KINDS})
DIGEST = f"sha256:{'0' * 64}"

POLICIES: tuple[dict[str, Any], ...] = (
    {},
    {"operator": {"enabledSEC": True, "enabledZIP": True}, "default": True},
    {
        "driver": {
            "version": DIGEST,
            "state": "Absent",
            "enabledCleanup": True,
            "env": [{"name": "INSTALL_POLICY", "value": "Always"}, {"name": "HTTP_PROXY", "value": "http://p:1"}],
            "source": {"packages": {"names": ["kae"], "repositories": ["file:///opt/rpm"], "gpgCheck": False}},
            "moduleParameters": {"hisi_zip": {"pf_q_num": 512}},
            "sriov": {"hpre": 4, "zip": 0},
            "rollout": {"maxParallel": 3},
            "drain": {"enabled": False, "timeoutSeconds": 5},
            "metrics": {"enabled": True, "port": 1},
        },
        "devicePlugin": {
            "sharing": {"hpre": 128},
            "allocationPolicy": "Packed",
            "inject": {"maskSysfs": False, "libraries": True, "opensslConf": "3.0"},
            "metrics": {"enabled": True},
        },
    },
    *({"driver": {"source": {name: {}}}} for name in ("build", "prebuilt", "inTree")),
)
CLUSTERS: tuple[dict[str, Any], ...] = (
    {"watcher": {"enabled": True, "repository": {"url": "https://git.test/i.git"}, "secretName": "git"}},
    {
        "watcher": {
            "enabled": True,
            "repository": {"url": "ssh://git@git.test/i.git", "branch": "nodes", "path": "a/b"},
            "secretName": "git",
            "interval": "1h30m",
            "ignoreLabels": ["a", "b/*"],
            "signing": {"format": "ssh", "secretName": "key"},
            "messageTemplate": "nodes of {cluster}",
            "author": {"name": "N", "email": "n@example.com"},
        },
        "monitoring": {"enabled": True},
    },
)


@cache
def schema(name: str) -> Any:
    return json.loads((Path(__file__).parents[3] / "schemas" / f"{name}.json").read_text("utf-8"))


def config(objects: dict[str, Any], path: str, name: str) -> Any:
    """The config in a workload's pod template, which its schema accepts."""
    settings = json.loads(objects[path]["spec"]["template"]["metadata"]["annotations"][ANNOTATION])
    jsonschema.Draft202012Validator(schema(name)).validate(settings)
    return settings


def driver(operator: Mapping[str, bool] = EVERY_KIND, **spec: Any) -> Any:
    policy = builders.policy("tls", operator=dict(operator), driver=spec)
    return config(builders.objects([policy]), DRIVER, "driver-config")


def plugin(policy: definitions.Policy) -> Any:
    return config(builders.objects([policy]), PLUGIN, "device-plugin-config")


def watcher(**spec: Any) -> Any:
    return config(builders.objects([], (), builders.cluster(**spec)), WATCHER, "watcher-config")


@pytest.mark.parametrize("spec", POLICIES)
def test_the_configs_of_every_policy_meet_their_schemas(spec: dict[str, Any]) -> None:
    objects = builders.objects([builders.policy("tls", **spec)])

    assert config(objects, DRIVER, "driver-config")["policy"] == "tls"
    assert config(objects, PLUGIN, "device-plugin-config")["policy"] == "tls"


@pytest.mark.parametrize("spec", CLUSTERS)
def test_the_watchers_config_meets_its_schema(spec: dict[str, Any]) -> None:
    assert watcher(**spec)["cluster"] == "east"


def test_a_kind_that_is_not_enabled_has_no_parameters_and_no_virtual_functions() -> None:
    settings = driver({}, moduleParameters={"hisi_zip": {"pf_q_num": 512}}, sriov={"hpre": 4, "zip": 8})

    assert settings["moduleParameters"] == {"hisi_hpre": {"pf_q_num": 256, "uacce_mode": 2}}
    assert settings["sriov"] == {"hpre": 4}


@pytest.mark.parametrize(
    ("spec", "version"),
    [
        ({"version": "2.2.0"}, "2.2.0"),
        ({"version": DIGEST}, DIGEST),
        ({"repository": "", "version": "", "image": "registry.test:5000/x:2.1"}, "2.1"),
        ({"repository": "", "version": "", "image": f"registry.test/x@{DIGEST}"}, DIGEST),
    ],
)
def test_the_version_of_the_driver_is_that_of_its_image(spec: dict[str, Any], version: str) -> None:
    assert driver(**spec)["driverVersion"] == version


@pytest.mark.parametrize(
    ("duration", "seconds"), [("90s", 90), ("10m", 600), ("1h30m", 5400), ("1h1m1s", 3661), ("0h00m1s", 1)]
)
def test_a_duration_is_told_in_seconds(duration: str, seconds: int) -> None:
    spec = CLUSTERS[0]["watcher"] | {"interval": duration}

    assert watcher(watcher=spec)["intervalSeconds"] == seconds
