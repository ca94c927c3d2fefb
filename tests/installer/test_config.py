"""The installer reads the configs that the compiler writes; tests/runtime/test_configs.py tests the schema."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from compiler.model import config as compiled
from compiler.rendering import program_configs
from installer import config
from runtime import shapes
from tests import builders, mutations
from tests.installer import settings

ROOT = Path(__file__).parents[2]
POLICIES: tuple[dict[str, Any], ...] = (
    {},
    {"driver": {"version": "2.0.1", "source": {"packages": {"names": ["kae-driver-${DRIVER_VERSION}"]}}}},
    {
        "operator": {"enabledSEC": True, "enabledZIP": True},
        "driver": {
            "state": "Absent",
            "enabledCleanup": True,
            "env": [{"name": "INSTALL_POLICY", "value": "Always"}],
            "source": {"inTree": {}},
            "moduleParameters": {"hisi_zip": {"perf_mode": 1}},
            "sriov": {"hpre": 63, "zip": 0},
            "deviceNodes": {"mode": "0660", "group": 994},
            "rollout": {"maxParallel": 3},
            "drain": {"enabled": False, "timeoutSeconds": 86400},
            "metrics": {"enabled": True, "port": 65535},
        },
    },
    {
        "driver": {
            "version": "2.0.1",
            "kernelMappings": [
                {"name": "old", "regexp": "oe2203"},
                {"name": "new", "literal": "6.6.0-1.oe2403", "version": "2.0.1-${KERNEL_FULL_VERSION}"},
            ],
            "rollout": {"waves": [{"name": "canary", "percent": 5}]},
        }
    },
)

FULL: dict[str, Any] = {
    "version": 1,
    "cluster": "east",
    "policy": "tls",
    "pool": "tls",
    "vendor": "19e5",
    "kinds": [
        {"name": "hpre", "resource": "openfuyao.com/kae.hpre", "pf": "a258", "vf": "a259", "module": "hisi_hpre"},
        {
            "name": "zip",
            "resource": "openfuyao.com/kae.zip",
            "pf": "a250",
            "vf": "a251",
            "module": "hisi_zip",
            "mode": "vfio",
        },
    ],
    "daemonSet": {"namespace": "kae-operator", "name": "kae-driver-tls"},
    "state": "Present",
    "driverVersion": "2.0.1",
    "installPolicy": "IfNotPresent",
    "presentWhen": "Loaded",
    "enabledCleanup": False,
    "kernels": {"pattern": r"^5\.10\.", "unless": [r"sp1\."]},
    "source": {
        "packages": {
            "names": ["kae-driver-${DRIVER_VERSION}"],
            "repositories": ["https://mirror.example.com/kae", "file:///opt/kae"],
            "credentialsSecret": "kae-mirror",
            "gpgCheck": False,
        }
    },
    "modules": ["uacce", "hisi_qm", "hisi_hpre"],
    "moduleParameters": {"hisi_hpre": {"uacce_mode": 2, "pf_q_num": 256}},
    "sriov": {"hpre": 63},
    "deviceNodes": {"mode": "0660", "group": 994},
    "drain": {"enabled": True, "timeoutSeconds": 300},
    "leases": {"namespace": "kae-operator", "names": ["kae-driver-tls-0"]},
    "metrics": {"port": 9511},
}
"""A config of KAE with every field; what is changed in it below, one thing at a time, is judged by both sides."""

_OF_KAE = ("vendor", "presentWhen", "deviceNodes")
RECIPE: dict[str, Any] = {key: value for key, value in FULL.items() if key not in _OF_KAE} | {
    "recipe": "onload",
    "class": "none",
    "kinds": [{"name": "sfc", "vendor": "1924", "devices": ["0b03"], "virtual": ["1b03"], "classes": ["0200"]}],
    "source": {"prebuilt": {}},
    "sriov": {},
    "modules": ["sfc", "onload"],
    "moduleParameters": {"onload": {"flag": True, "text": "a b", "number": 7}},
    "moduleRules": {"sfc": {"replaces": ["sfc"], "network": True}},
    "leftOut": ["sfc_char"],
    "networkForce": True,
    "payloads": [{"name": "user", "paths": ["/opt/onload"]}],
    "nodes": ["/dev/onload"],
    "files": [{"from": "/opt/onload", "to": "/opt/onload"}],
    "resources": ["amd.com/onload"],
}
"""A config of a recipe with every field."""

FULLS = (FULL, RECIPE)

SOURCES: dict[str, dict[str, Any]] = {
    "build": {"repositories": ["file:///opt/rpm"], "credentialsSecret": "kae-mirror"},
    "packages": FULL["source"]["packages"],
    "prebuilt": {},
    "inTree": {},
}

# A value of every type, of every choice, and around every bound.
VALUES: tuple[Any, ...] = (
    *(None, True, False, [], {}, [None], [""], {"x": 1}),
    *(-1, 0, 1, 2, 63, 64, 65535, 65536, 86400, 86401, 2**31 - 1, 2**31, 10**30, 0.5),
    *("", "x", "hpre", "Hpre", "hisi_hpre", "hisi-hpre", "x" * 55, "x" * 56, "x" * 64, "19e5", "19E5", "a/b", "a b"),
    *("é", "x\n", "1", "true", "Present", "Absent", "present", "Always", "IfNotPresent", "file:///x", "file://x"),
    *("/opt/x", "/opt", "/opt/../x", "/opt/.../x", "/dev/x/y", "/dev", "x/y", 'a"b', "kmod-lab", "kmod--lab", "none"),
    *("http://x", "http://x y", "ftp://x", "${X}", "a;b", "0660", "0666", "Loaded", "Serving", "vfio"),
)

KEYS = ("x", "", "driver_version", "Version", "gpgCheck")
"""Fields that no object has, or not this one."""

# Where the decoder reads more than the compiler writes: it takes null for an absent field.
NULLABLE = (
    ("kernels",),
    ("metrics",),
    ("presentWhen",),
    ("deviceNodes", "group"),
    ("kinds", 1, "mode"),
    ("source", "packages", "credentialsSecret"),
)

LANGUAGE = mutations.Language("driver-config", config.Config)
DEFINITIONS = {
    "BuildSource": SOURCES["build"],
    "DaemonSetRef": FULL["daemonSet"],
    "DeviceNodes": FULL["deviceNodes"],
    "Drain": FULL["drain"],
    "InTreeSource": SOURCES["inTree"],
    "Kernels": FULL["kernels"],
    "HostFiles": RECIPE["files"][0],
    "Kind": FULL["kinds"][1] | RECIPE["kinds"][0],
    "Lease": FULL["leases"],
    "MetricsEndpoint": FULL["metrics"],
    "ModuleRule": RECIPE["moduleRules"]["sfc"],
    "PackagesSource": SOURCES["packages"],
    "Payload": RECIPE["payloads"][0],
    "PrebuiltSource": SOURCES["prebuilt"],
    "Source": SOURCES,
}
"""An object of the full config for each definition of the schema."""
INTEGERS = (("version",), ("sriov", "hpre"), ("metrics", "port"), ("drain", "timeoutSeconds"), ("deviceNodes", "group"))
"""Positions of whole numbers."""


@pytest.mark.parametrize("spec", POLICIES)
def test_what_the_compiler_writes_is_read_back_without_loss(spec: dict[str, Any]) -> None:
    (division,) = builders.view([builders.policy("tls", **spec)])[0].divisions
    itself = compiled.DaemonSetRef(namespace="kae", name="kae-driver-tls")
    for pool in division.pools:
        text = program_configs.driver(division.policy, pool, cluster_name="east", daemonset=itself, leases=("a", "b"))

        found = msgspec.json.decode(text, type=config.Config, strict=True)

        LANGUAGE.judge.validate(json.loads(text))
        # The compiler leaves this default out, so that it rolls no pod.
        assert json.loads(settings.text(found)) == {"deviceNodes": {"mode": "0666"}} | json.loads(text)


def test_the_fields_are_those_of_the_full_config() -> None:
    found = LANGUAGE.decoded(FULL)

    assert found == config.Config(
        version=1,
        cluster="east",
        policy="tls",
        pool="tls",
        vendor="19e5",
        kinds=(
            shapes.Kind(name="hpre", resource="openfuyao.com/kae.hpre", pf="a258", vf="a259", module="hisi_hpre"),
            shapes.Kind(
                name="zip", resource="openfuyao.com/kae.zip", pf="a250", vf="a251", module="hisi_zip", mode="vfio"
            ),
        ),
        daemon_set=config.DaemonSet(namespace="kae-operator", name="kae-driver-tls"),
        state="Present",
        driver_version="2.0.1",
        install_policy="IfNotPresent",
        present_when="Loaded",
        enabled_cleanup=False,
        kernels=config.Kernels(pattern=r"^5\.10\.", unless=(r"sp1\.",)),
        source=config.Source(
            packages=config.Packages(
                names=("kae-driver-${DRIVER_VERSION}",),
                repositories=("https://mirror.example.com/kae", "file:///opt/kae"),
                credentials_secret="kae-mirror",  # noqa: S106 - its name
                gpg_check=False,
            )
        ),
        modules=("uacce", "hisi_qm", "hisi_hpre"),
        module_parameters={"hisi_hpre": {"uacce_mode": 2, "pf_q_num": 256}},
        sriov={"hpre": 63},
        device_nodes=shapes.DeviceNodes(mode="0660", group=994),
        drain=config.Drain(enabled=True, timeout_seconds=300),
        leases=config.Leases(namespace="kae-operator", names=("kae-driver-tls-0",)),
        metrics=shapes.MetricsEndpoint(port=9511),
    )


def test_the_fields_of_a_recipe_are_those_of_its_full_config() -> None:
    found = LANGUAGE.decoded(RECIPE)

    assert found
    assert (found.recipe, found.class_, found.vendor) == ("onload", "none", "")
    assert found.kinds == (
        shapes.Kind(name="sfc", vendor="1924", devices=("0b03",), virtual=("1b03",), classes=("0200",)),
    )
    assert found.module_parameters == {"onload": {"flag": True, "text": "a b", "number": 7}}
    assert found.module_rules == {"sfc": config.ModuleRule(replaces=("sfc",), network=True)}
    assert found.network_force
    assert found.left_out == ("sfc_char",)
    assert found.payloads == (config.Payload(name="user", paths=("/opt/onload",)),)
    assert found.nodes == ("/dev/onload",)
    assert found.files == (config.HostFiles(from_="/opt/onload", to="/opt/onload"),)
    assert found.resources == ("amd.com/onload",)


def test_what_is_absent_has_the_default_of_the_schema() -> None:
    smallest = FULL | {"drain": {}, "kernels": {"pattern": "x"}, "source": {"packages": {"names": ["kae"]}}}
    for name in ("version", "metrics", "moduleParameters", "sriov"):
        del smallest[name]

    found = LANGUAGE.decoded(smallest)

    properties = {name: definition["properties"] for name, definition in LANGUAGE.schema["$defs"].items()}
    top, drain, packages = LANGUAGE.schema["properties"], properties["Drain"], properties["PackagesSource"]
    assert found
    assert found.version == top["version"]["default"]
    assert found.metrics is None
    assert found.module_parameters == top["moduleParameters"]["default"]
    assert found.sriov == top["sriov"]["default"]
    assert found.drain == config.Drain(
        enabled=drain["enabled"]["default"], timeout_seconds=drain["timeoutSeconds"]["default"]
    )
    assert found.kernels == config.Kernels(pattern="x", unless=tuple(properties["Kernels"]["unless"]["default"]))
    assert found.source.packages == config.Packages(
        names=("kae",),
        repositories=tuple(packages["repositories"]["default"]),
        gpg_check=packages["gpgCheck"]["default"],
    )


def test_a_config_without_kernels_is_for_every_kernel() -> None:
    found = LANGUAGE.decoded(mutations.without(FULL, ("kernels",)))

    assert LANGUAGE.judge.is_valid(mutations.without(FULL, ("kernels",)))
    assert found
    assert found.kernels is None


@pytest.mark.parametrize("name", SOURCES)
def test_they_agree_on_every_change_of_a_source(name: str) -> None:
    full = FULL | {"source": {name: SOURCES[name]}}

    verdicts = [
        (LANGUAGE.judge.is_valid(data), LANGUAGE.decoded(data) is not None)
        for path, change, data in mutations.mutants(full, VALUES, KEYS, ("source",))
        if (path[-1], change) != ("credentialsSecret", "is null")
    ]

    assert LANGUAGE.decoded(full)
    assert {allowed == read for allowed, read in verdicts} == {True}
    assert {allowed for allowed, _ in verdicts} == {True, False}


@pytest.mark.parametrize("other", SOURCES)
@pytest.mark.parametrize("name", SOURCES)
def test_a_source_is_exactly_one_for_both(name: str, other: str) -> None:
    data = FULL | {"source": {name: SOURCES[name], other: SOURCES[other]}}

    assert LANGUAGE.judge.is_valid(data) is (LANGUAGE.decoded(data) is not None) is (name == other)


def test_a_source_that_is_null_is_absent_for_the_decoder_alone() -> None:
    data = FULL | {"source": {"prebuilt": {}, "build": None}}

    assert not LANGUAGE.judge.is_valid(data)
    assert LANGUAGE.decoded(data)


@pytest.mark.parametrize(
    ("data", "valid"),
    [
        (FULL | {"kinds": []}, False),
        (FULL | {"kinds": RECIPE["kinds"]}, False),
        (FULL | {"class": "none"}, False),
        (RECIPE | {"kinds": []}, True),
        (RECIPE | {"kinds": FULL["kinds"]}, False),
        (RECIPE | {"vendor": "19e5"}, False),
        (RECIPE | {"sriov": {"sfc": 1}}, False),
        (RECIPE | {"deviceNodes": {"mode": "0660"}}, False),
        (RECIPE | {"presentWhen": "Loaded"}, False),
        (RECIPE | {"kinds": [{"name": "sfc", "vendor": "1924"}]}, False),
        (RECIPE | {"kinds": [{"name": "sfc", "vendor": "1924", "devices": [], "classes": ["0200"]}]}, True),
        (RECIPE | {"kinds": [{"name": "sfc", "vendor": "1924", "classes": ["0200"]}]}, True),
    ],
)
def test_kae_needs_kinds_and_a_recipe_has_kinds_of_its_own_form_or_none(data: dict[str, Any], valid: bool) -> None:
    assert LANGUAGE.judge.is_valid(data) is (LANGUAGE.decoded(data) is not None) is valid
