"""The programs' configs: full ones, what is changed in them, and the texts that the compiler writes."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.model import config as compiled
from compiler.model import watcher as documents
from compiler.rendering import program_configs
from device_plugin import config as device_plugin_config
from installer import config as installer_config
from tests import builders, mutations
from watcher import config as watcher_config

Data = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program's config, as its schema and its decoder understand it."""

    name: str
    language: mutations.Language[Any]
    fulls: Sequence[tuple[Data, mutations.Position]]
    """Configs that have every field together; each is changed below its position."""
    values: Sequence[Any]
    """A value of every type, of every choice, and around every bound, beside those of every program."""
    keys: Sequence[str]
    """Fields that no object has, or not this one."""
    nullable: Sequence[mutations.Position]
    """Where the decoder reads more than the compiler writes: it takes null for an absent field."""
    integers: Sequence[mutations.Position]
    """Positions of whole numbers in the first full config."""
    definitions: Mapping[str, Sequence[mutations.Position]]
    """The positions at which a definition of the schema may be."""
    written: Callable[[], Iterator[str]]
    """Configs of policies, as the compiler writes them."""
    file: str
    """The names of the files with its configs in output/ and the golden cases."""
    references: Sequence[mutations.Position] = ()
    """Positions of names and of what they name: the decoder looks them up, as no schema can."""

    def objects(self) -> Iterator[tuple[Data, Data, mutations.Position]]:
        """Yield each object of a definition of the schema: the definition, the object's config and its position."""
        schema = self.language.schema
        definitions = [(schema["$defs"][name], positions) for name, positions in self.definitions.items()]
        for (definition, positions), (full, _) in itertools.product([(schema, [()]), *definitions], self.fulls):
            known = set(mutations.positions(full))
            yield from ((definition, full, position) for position in positions if position in known)


_VALUES: tuple[Any, ...] = (
    *(None, True, False, [], {}, [None], [""], {"x": 1}),
    *(-1, 0, 1, 2, 65535, 65536, 10**30, 0.5),
    *("", "x", "é", "x\n", "1", "true", "a/b", "a b"),
)
"""Values for every program."""

_PLUGIN_POLICIES: tuple[dict[str, Any], ...] = (
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


def _plugins() -> Iterator[str]:
    for spec in _PLUGIN_POLICIES:
        yield program_configs.device_plugin(builders.policy("tls", **spec), cluster_name="east")


PLUGIN: Data = {
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
"""A config of KAE with every field."""
_INJECT: Data = {
    "nodes": [{"path": "/dev/onload*", "as": "/dev/", "permissions": "rwm", "optional": True}],
    "mounts": [
        {"path": "/opt/onload/usr/lib64/libonload*.so*", "as": "/usr/lib64/", "readOnly": False, "optional": True}
    ],
    "env": {"EF_POLL_USEC": "100000"},
    "preload": ["/usr/lib64/libonload.so"],
    "files": [{"name": "onload-conf", "as": "/etc/onload.conf", "text": "fast = 1\n"}],
}

PLUGIN_OF_RECIPE: Data = {
    "version": 1,
    "cluster": "east",
    "policy": "desk",
    "recipe": "onload",
    "kinds": [
        {"name": "sfc", "vendor": "1924", "devices": ["0b03"], "virtual": ["1b03"], "classes": ["0200"]},
        {"name": "qat", "vendor": "8086", "devices": ["4940"]},
    ],
    "resources": [
        {
            "name": "amd.com/onload",
            "class": "token",
            "count": 40,
            "shares": 1,
            "requires": ["/dev/onload"],
            "inject": _INJECT,
        },
        {
            "name": "example.com/npu",
            "class": "char",
            "groups": [
                {
                    "paths": [
                        {"path": "/dev/npu[0-9]", "as": "/dev/", "permissions": "r", "limit": 2, "optional": True},
                        {"path": "/dev/npu-control"},
                    ]
                }
            ],
            "shares": 2,
            "requires": [],
            "inject": {},
        },
        {"name": "example.com/vf", "class": "vfio", "kind": "sfc", "requires": [], "inject": {}},
        {"name": "example.com/qat", "class": "uacce", "kind": "qat", "shares": 2, "requires": ["/x"], "inject": {}},
    ],
    "allocationPolicy": "Packed",
    "metrics": {"port": 9510},
}
"""A config of a recipe with every field."""

DEVICE_PLUGIN = Program(
    name="device-plugin",
    language=mutations.Language("device-plugin-config", device_plugin_config.Config),
    fulls=((PLUGIN, ()), (PLUGIN_OF_RECIPE, ())),
    values=(
        *_VALUES,
        *(128, 129, 1000, 1001, 10000, 10001, ["/dev/x"], ["x"]),
        *("hpre", "Hpre", "19e5", "19E5", "Balanced", "balanced", "1.1", "2.0", "token", "char", "rr", "mrw", "rwmr"),
        *("/", "/dev", "/dev/", "/dev/x", "/dev/*", "/opt/x", "/opt/../x", "/opt/x/", "/opt//x", "x/y", "/opt/*"),
        *("/opt/a:b", "/opt/a b"),
    ),
    keys=("x", "", "mask_sysfs", "Version"),
    nullable=(
        ("metrics",),
        ("deviceNodes",),
        ("deviceNodes", "group"),
        ("kinds", 1, "mode"),
        *(("inject", name) for name in ("librariesPath", "opensslConf", "opensslSettings", "env", "mounts")),
        *(("resources", 0, "inject", part, 0, "as") for part in ("nodes", "mounts")),
        ("resources", 1, "groups", 0, "paths", 0, "as"),
    ),
    integers=(("version",), ("sharing", "hpre"), ("metrics", "port")),
    definitions={
        "Inject": [("inject",)],
        "Kind": [("kinds", 0), ("kinds", 1)],
        "MetricsEndpoint": [("metrics",)],
        "DeviceNodes": [("deviceNodes",)],
        "TokenResource": [("resources", 0)],
        "CharResource": [("resources", 1)],
        "VfioResource": [("resources", 2)],
        "UacceResource": [("resources", 3)],
        "DeviceGroup": [("resources", 1, "groups", 0)],
        "GroupPath": [("resources", 1, "groups", 0, "paths", 0)],
        "ResourceInject": [("resources", 0, "inject")],
        "InjectedNode": [("resources", 0, "inject", "nodes", 0)],
        "InjectedMount": [("resources", 0, "inject", "mounts", 0)],
        "InjectedFile": [("resources", 0, "inject", "files", 0)],
    },
    written=_plugins,
    file="daemonset-kae-device-plugin-*.yaml",
    references=(
        ("kinds",),
        *(position for index in (0, 1) for position in (("kinds", index), ("kinds", index, "name"))),
        *(("resources", index, "kind") for index in (2, 3)),
    ),
)

_DRIVER_POLICIES: tuple[dict[str, Any], ...] = (
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


def configs_of_driver(spec: Data) -> Iterator[str]:
    """Yield the config of each pool of a policy."""
    itself = compiled.DaemonSetRef(namespace="kae", name="kae-driver-tls")
    (division,) = builders.view([builders.policy("tls", **spec)])[0].divisions
    for pool in division.pools:
        yield program_configs.driver(division.policy, pool, cluster_name="east", daemonset=itself, leases=("a", "b"))


def _drivers() -> Iterator[str]:
    return itertools.chain.from_iterable(map(configs_of_driver, _DRIVER_POLICIES))


DRIVER: Data = {
    "version": 1,
    "cluster": "east",
    "policy": "tls",
    "pool": "tls",
    "vendor": "19e5",
    "kinds": PLUGIN["kinds"],
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
"""A config of KAE with every field."""

_OF_KAE = ("vendor", "presentWhen", "deviceNodes")
DRIVER_OF_RECIPE: Data = {key: value for key, value in DRIVER.items() if key not in _OF_KAE} | {
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

SOURCES: Mapping[str, Data] = {
    "build": {"repositories": ["file:///opt/rpm"], "credentialsSecret": "kae-mirror"},
    "packages": DRIVER["source"]["packages"],
    "prebuilt": {},
    "inTree": {},
}

INSTALLER = Program(
    name="installer",
    language=mutations.Language("driver-config", installer_config.Config),
    fulls=(
        (DRIVER, ()),
        (DRIVER_OF_RECIPE, ()),
        *((DRIVER | {"source": {name: source}}, ("source",)) for name, source in SOURCES.items()),
    ),
    values=(
        *_VALUES,
        *(63, 64, 86400, 86401, 2**31 - 1, 2**31, "x" * 55, "x" * 56, "x" * 64),
        *("hpre", "Hpre", "hisi_hpre", "hisi-hpre", "19e5", "19E5", "kmod-lab", "kmod--lab", "none", "vfio"),
        *("Present", "Absent", "present", "Always", "IfNotPresent", "Loaded", "Serving", "0660", "0666"),
        *("/opt/x", "/opt", "/opt/../x", "/opt/.../x", "/dev/x/y", "/dev", "x/y", 'a"b', "${X}", "a;b"),
        *("file:///x", "file://x", "http://x", "http://x y", "ftp://x"),
    ),
    keys=("x", "", "driver_version", "Version", "gpgCheck"),
    nullable=(
        ("kernels",),
        ("metrics",),
        ("presentWhen",),
        ("deviceNodes", "group"),
        ("kinds", 1, "mode"),
        *(("source", name, "credentialsSecret") for name in ("packages", "build")),
    ),
    integers=(
        ("version",),
        ("sriov", "hpre"),
        ("metrics", "port"),
        ("drain", "timeoutSeconds"),
        ("deviceNodes", "group"),
    ),
    definitions={
        "BuildSource": [("source", "build")],
        "DaemonSetRef": [("daemonSet",)],
        "DeviceNodes": [("deviceNodes",)],
        "Drain": [("drain",)],
        "InTreeSource": [("source", "inTree")],
        "Kernels": [("kernels",)],
        "HostFiles": [("files", 0)],
        "Kind": [("kinds", 0), ("kinds", 1)],
        "Lease": [("leases",)],
        "MetricsEndpoint": [("metrics",)],
        "ModuleRule": [("moduleRules", "sfc")],
        "PackagesSource": [("source", "packages")],
        "Payload": [("payloads", 0)],
        "PrebuiltSource": [("source", "prebuilt")],
        "Source": [("source",)],
    },
    written=_drivers,
    file="daemonset-kae-driver-*.yaml",
)

URLS = (
    "https://git.example.com/fleet.git",
    "http://git.example.com:8080/fleet.git",
    "ssh://git@git.example.com:2222/fleet.git",
    "git@git.example.com:team/fleet.git",
    "file:///srv/git/fleet.git",
)

_WATCHERS: tuple[dict[str, Any], ...] = (
    {},
    {"interval": "1s", "quietSeconds": 0, "removalQuietSeconds": 0, "minCommitSeconds": 1, "maxLossPercent": 0},
    # The longest duration that can be written.
    {"interval": "99999999999999h", "quietSeconds": 86400, "removalQuietSeconds": 86400, "minCommitSeconds": 86400},
    {
        "maxLossPercent": 100,
        "ignoreLabels": ["example.com/*", "a?"],
        "author": {"name": "é" * 200, "email": "a@b"},
        "messageTemplate": "{summary}\n\né",
        "signing": {"format": "ssh", "secretName": "key"},
    },
)


def config_of_watcher(spec: Data, port: int | None = None) -> str:
    """Return the config of a cluster's watcher."""
    repository = documents.WatcherRepository(url=URLS[0])
    return program_configs.watcher(builders.cluster("east", watcher=spec), repository, port)


def _watchers() -> Iterator[str]:
    return itertools.starmap(config_of_watcher, itertools.product(_WATCHERS, (None, 65535)))


FULL_WATCHER: Data = {
    "version": 1,
    "cluster": "east",
    "repository": {"url": "https://git.example.com/fleet.git", "branch": "fleet/main", "path": "inventory"},
    "intervalSeconds": 600,
    "quietSeconds": 10,
    "removalQuietSeconds": 600,
    "minCommitSeconds": 60,
    "maxLossPercent": 10,
    "maxLossNodes": 1,
    "labels": ["feature.node.kubernetes.io/"],
    "ignoreLabels": ["example.com/*"],
    "author": {"name": "kae-watcher", "email": "kae@example.com"},
    "messageTemplate": "inventory({cluster}): {summary}",
    "signing": "ssh",
    "pushOptions": ["merge_request.create"],
    "metrics": {"port": 9512},
}
"""A config with every field."""

WATCHER = Program(
    name="watcher",
    language=mutations.Language("watcher-config", watcher_config.Config),
    fulls=((FULL_WATCHER, ()),),
    values=(
        *_VALUES,
        *(["a b"], ["é"], 100, 101, 86400, 86401, 10**18, 10**18 + 1, 10**400),
        *("X", "x" * 50, "x" * 51, "x" * 200, "x" * 201, "x" * 250, "x" * 251, "x" * 2000, "x" * 2001),
        *("a.b", "a..b", "-a", "a-", "a*b", "ssh", "gpg", "pgp", "SSH", *URLS, "git://git.example.com/fleet.git"),
        *("file://x", "https://a b", "a@b", "@b", "a@b c", f"https://{'x' * 493}"),
    ),
    keys=("x", "", "interval_seconds", "Version", "secretName"),
    nullable=(("signing",), ("metrics",)),
    integers=(("version",), ("quietSeconds",), ("intervalSeconds",), ("metrics", "port")),
    definitions={"Author": [("author",)], "MetricsEndpoint": [("metrics",)], "WatcherRepository": [("repository",)]},
    written=_watchers,
    file="deployment-kae-watcher.yaml",
)

PROGRAMS = (DEVICE_PLUGIN, INSTALLER, WATCHER)
