"""Configs of the programs: each meets its schema, and agrees with the policy."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jsonschema
import pytest

from compiler import kae
from tests import builders

ANNOTATION = "device.openfuyao.com/config"
DRIVER = "driver/daemonset-kae-driver-tls.yaml"
PLUGIN = "device-plugin/daemonset-kae-device-plugin-tls.yaml"
WATCHER = "watcher/deployment-kae-watcher.yaml"
EVERY_KIND = MappingProxyType({kind.switch: True for kind in kae.KINDS})
DIGEST = f"sha256:{'0' * 64}"

GIT = {"enabled": True, "repository": {"url": "https://git.test/i.git"}, "secretName": "git"}


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


def watcher(**spec: Any) -> Any:
    return config(builders.objects([], (), builders.cluster(**spec)), WATCHER, "watcher-config")


def test_a_kind_that_is_not_enabled_has_no_parameters_and_no_virtual_functions() -> None:
    settings = driver({}, moduleParameters={"hisi_zip": {"pf_q_num": 512}}, sriov={"hpre": 4, "zip": 8})

    parameters = {"pf_q_num": 256, "uacce_mode": 2}
    assert settings["modules"][2:] == [{"name": "hisi_hpre", "parameters": parameters}]
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
    assert watcher(watcher=GIT | {"interval": duration})["intervalSeconds"] == seconds
