"""The device plugin reads the configs that the compiler writes; tests/runtime/test_configs.py tests the schema."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from compiler.rendering import program_configs
from device_plugin import config
from runtime import shapes
from tests import builders, mutations
from tests.device_plugin import recipe_config

ROOT = Path(__file__).parents[2]
POLICIES: tuple[dict[str, Any], ...] = (
    {},
    {"operator": {"enabledHPRE": False, "enabledSEC": True, "enabledZIP": True}},
    {
        "operator": {"enabledSEC": True, "enabledZIP": True},
        "devicePlugin": {
            "sharing": {"hpre": 128, "zip": 2},
            "allocationPolicy": "Packed",
            "inject": {"maskSysfs": False, "libraries": True, "opensslConf": "1.1"},
            "metrics": {"enabled": True, "port": 65535},
        },
    },
    {
        "driver": {"enabled": False},
        "devicePlugin": {
            "mode": {"hpre": "vfio"},
            "deviceNodes": {"mode": "0660", "group": 994},
            "inject": {
                "libraries": True,
                "librariesPath": "/usr/local/lib",
                "opensslConf": "3.0",
                "opensslSettings": {"KAE_CMD_ENABLE_SM4": "0"},
                "env": {"KAE_LOG_LEVEL": "debug"},
                "mounts": {"/etc/kae": "/etc/kae-of-the-host"},
            },
        },
    },
)

FULL: dict[str, Any] = {
    "version": 1,
    "cluster": "east",
    "policy": "tls",
    "vendor": "19e5",
    "kinds": [
        {"name": "hpre", "resource": "openfuyao.com/kae.hpre", "pf": "a258", "vf": "a259", "module": "hisi_hpre"},
        {
            "name": "zip",
            "resource": "openfuyao.com/kae.zip.vfio",
            "pf": "a250",
            "vf": "a251",
            "module": "hisi_zip",
            "mode": "vfio",
        },
    ],
    "sharing": {"hpre": 1, "zip": 2},
    "allocationPolicy": "Balanced",
    "inject": {
        "maskSysfs": True,
        "libraries": False,
        "librariesPath": "/usr/local/lib",
        "opensslConf": "3.0",
        "opensslSettings": {"KAE_CMD_ENABLE_SM4": "0"},
        "env": {"KAE_LOG_LEVEL": "debug"},
        "mounts": {"/etc/kae": "/etc/kae-of-the-host"},
    },
    "deviceNodes": {"mode": "0660", "group": 994},
    "metrics": {"port": 9510},
}
"""A config with every field; what is changed in it below, one thing at a time, is judged by both sides."""
FULLS = (FULL, recipe_config.RECIPE)

# A value of every type, of every choice, and around every bound.
VALUES: tuple[Any, ...] = (
    *recipe_config.VALUES,
    *(None, True, False, [], {}, [None], {"x": 1}),
    *(-1, 0, 1, 2, 128, 129, 65535, 65536, 10**30, 0.5),
    *(
        "",
        "x",
        "hpre",
        "Hpre",
        "19e5",
        "19E5",
        "a/b",
        "a b",
        "é",
        "x\n",
        "1",
        "true",
        "Balanced",
        "balanced",
        "1.1",
        "2.0",
    ),
)

KEYS = ("x", "", "mask_sysfs", "Version")
"""Fields that no object has, or not this one."""

# Where the decoder reads more than the compiler writes: it takes null for an absent field.
NULLABLE = (
    *recipe_config.NULLABLE,
    *(("metrics",), ("deviceNodes",), ("deviceNodes", "group"), ("kinds", 1, "mode")),
    *(("inject", name) for name in ("librariesPath", "opensslConf", "opensslSettings", "env", "mounts")),
)

LANGUAGE = mutations.Language("device-plugin-config", config.Config)
REFERENCES = recipe_config.REFERENCES
DEFINITIONS = recipe_config.DEFINITIONS | {
    "Inject": FULL["inject"],
    "Kind": FULL["kinds"][1] | {"vendor": "1924", "devices": [], "virtual": [], "classes": ["0200"]},
    "MetricsEndpoint": FULL["metrics"],
    "DeviceNodes": FULL["deviceNodes"],
}
"""An object of the full config for each definition of the schema."""
INTEGERS = (("version",), ("sharing", "hpre"), ("metrics", "port"))
"""Positions of whole numbers."""


@pytest.mark.parametrize("spec", POLICIES)
def test_what_the_compiler_writes_is_read_back_without_loss(spec: dict[str, Any]) -> None:
    text = program_configs.device_plugin(builders.policy("tls", **spec), cluster_name="east")

    found = msgspec.json.decode(text, type=config.Config, strict=True)

    LANGUAGE.judge.validate(json.loads(text))
    assert without_nulls(msgspec.to_builtins(found)) == json.loads(text)


def without_nulls(data: Any) -> Any:
    """Data as the compiler writes it, which leaves out what is absent."""
    if isinstance(data, dict):
        return {key: without_nulls(value) for key, value in data.items() if value not in (None, ())}
    return [without_nulls(value) for value in data] if isinstance(data, list | tuple) else data


def test_the_fields_are_those_of_the_full_config() -> None:
    found = LANGUAGE.decoded(FULL)

    assert found == config.Config(
        version=1,
        cluster="east",
        policy="tls",
        vendor="19e5",
        kinds=(
            shapes.Kind(name="hpre", resource="openfuyao.com/kae.hpre", pf="a258", vf="a259", module="hisi_hpre"),
            shapes.Kind(
                name="zip", resource="openfuyao.com/kae.zip.vfio", pf="a250", vf="a251", module="hisi_zip", mode="vfio"
            ),
        ),
        sharing={"hpre": 1, "zip": 2},
        allocation_policy="Balanced",
        inject=config.Inject(
            mask_sysfs=True,
            libraries=False,
            libraries_path="/usr/local/lib",
            openssl_conf="3.0",
            openssl_settings={"KAE_CMD_ENABLE_SM4": "0"},
            env={"KAE_LOG_LEVEL": "debug"},
            mounts={"/etc/kae": "/etc/kae-of-the-host"},
        ),
        device_nodes=shapes.DeviceNodes(mode="0660", group=994),
        metrics=shapes.MetricsEndpoint(port=9510),
    )


def test_what_is_absent_has_the_default_of_the_schema() -> None:
    smallest = mutations.without(FULL, ("metrics",)) | {"inject": {}}

    found = LANGUAGE.decoded(smallest)

    properties = LANGUAGE.schema["$defs"]["Inject"]["properties"]
    assert found
    assert found.metrics is None
    assert found.inject == config.Inject(
        mask_sysfs=properties["maskSysfs"]["default"], libraries=properties["libraries"]["default"], openssl_conf=None
    )
