"""The programs' configs: full ones, what is changed in them, and the texts that the compiler writes."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.fleet import clusters
from compiler.rendering import program_configs
from runtime import device_plugin_config, driver_config, watcher_config
from tests import builders, mutations

Data = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program's config, as its schema and its decoder understand it."""

    name: str
    language: mutations.Language
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
        root = [(schema, [()])] if "properties" in schema else []
        definitions = [(schema["$defs"][name], positions) for name, positions in self.definitions.items()]
        for (definition, positions), (full, _) in itertools.product([*root, *definitions], self.fulls):
            of_class = definition["properties"].get("class", {}).get("const")
            for position in set(positions).intersection(mutations.positions(full)):
                if of_class in (None, mutations.at(full, position).get("class")):
                    yield definition, full, position


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
        policy = builders.policy("tls", **spec)
        if policy.plugin is not None:
            yield program_configs.device_plugin(builders.cluster(), policy, policy.plugin)


_INJECT: Data = {
    "nodes": [{"path": "/dev/onload*", "as": "/dev/", "permissions": "rwm", "optional": True}],
    "mounts": [
        {
            "path": "/opt/onload/usr/lib64/libonload*.so*",
            "as": "/usr/lib64/",
            "readOnly": False,
            "optional": True,
            "checked": True,
        }
    ],
    "env": {"EF_POLL_USEC": "100000"},
    "preload": ["/usr/lib64/libonload.so"],
    "files": [{"name": "onload-conf", "as": "/etc/onload.conf", "text": "fast = 1\n"}],
    "libraries": {"path": "/usr/local/lib"},
    "openssl": {"conf": "3.0", "settings": {"KAE_CMD_ENABLE_SM4": "0"}},
}

PLUGIN: Data = {
    "version": 2,
    "cluster": "east",
    "policy": "desk",
    "recipe": "onload",
    "home": {
        "state": "/var/lib/kae/recipes/onload",
        "run": "/run/kae/recipes/onload",
        "prefix": "kae-onload",
        "tree": ".kae.onload~",
        "options": "kae-onload-",
        "files": "/opt/onload",
    },
    "kinds": [
        {"name": "sfc", "vendor": "1924", "devices": ["0b03"], "virtual": ["1b03"], "classes": ["0200"]},
        {"name": "qat", "vendor": "8086", "devices": ["4940"], "module": "qat_4xxx"},
    ],
    "resources": [
        {
            "name": "amd.com/onload",
            "class": "token",
            "socket": "onload",
            "count": 40,
            "shares": 1,
            "requires": ["/dev/onload"],
            "inject": _INJECT,
        },
        {
            "name": "example.com/npu",
            "class": "char",
            "socket": "npu",
            "groups": [
                {
                    "paths": [
                        {"path": "/dev/npu[0-9]", "as": "/dev/", "permissions": "r", "limit": 2, "optional": True},
                        {"path": "/dev/npu-control"},
                    ],
                    "vendor": "19e5",
                    "driver": "npu-drv",
                }
            ],
            "shares": 2,
            "requires": [],
            "inject": {},
        },
        {
            "name": "example.com/vf",
            "class": "vfio",
            "socket": "",
            "kind": "sfc",
            "shares": 1,
            "requires": [],
            "inject": {},
        },
        {
            "name": "example.com/qat",
            "class": "uacce",
            "socket": "qat",
            "kind": "qat",
            "shares": 2,
            "requires": ["/x"],
            "inject": {},
            "maskSysfs": True,
            "deviceNodes": {"mode": "0660", "group": 994},
        },
    ],
    "allocationPolicy": "Packed",
    "interface": "DevicePlugin",
    "dra": {"queues": "Shared"},
    "metrics": {"port": 9510},
}
"""A config with every field of each object."""

DEVICE_PLUGIN = Program(
    name="device-plugin",
    language=mutations.Language("device-plugin-config", device_plugin_config.Config),
    fulls=((PLUGIN, ()),),
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
        ("resources", 3, "deviceNodes"),
        ("resources", 3, "deviceNodes", "group"),
        *(("resources", 0, "inject", name) for name in ("libraries", "openssl")),
        *(("resources", 0, "inject", *place) for place in (("libraries", "path"), ("openssl", "conf"))),
        *(("resources", 0, "inject", part, 0, "as") for part in ("nodes", "mounts")),
        ("resources", 1, "groups", 0, "paths", 0, "as"),
        *(("resources", 1, "groups", 0, name) for name in ("vendor", "driver")),
    ),
    integers=(("version",), ("resources", 0, "shares"), ("metrics", "port")),
    definitions={
        "Home": [("home",)],
        "Inject": [("resources", 0, "inject")],
        "Kind": [("kinds", 0), ("kinds", 1)],
        "MetricsEndpoint": [("metrics",)],
        "DeviceNodes": [("resources", 3, "deviceNodes")],
        "Libraries": [("resources", 0, "inject", "libraries")],
        "OpenSsl": [("resources", 0, "inject", "openssl")],
        "Token": [("resources", 0)],
        "Char": [("resources", 1)],
        "Vfio": [("resources", 2)],
        "Uacce": [("resources", 3)],
        "DeviceGroup": [("resources", 1, "groups", 0)],
        "GroupPath": [("resources", 1, "groups", 0, "paths", 0)],
        "InjectedNode": [("resources", 0, "inject", "nodes", 0)],
        "InjectedMount": [("resources", 0, "inject", "mounts", 0)],
        "InjectedFile": [("resources", 0, "inject", "files", 0)],
        "Dra": [("dra",)],
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
    {"driver": {"source": {"packages": {"names": ["kae"], "repositories": ["file:///opt/rpm"], "gpgCheck": False}}}},
    *({"driver": {"source": {name: {}}}} for name in ("build", "prebuilt")),
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
    (division,) = builders.view([builders.policy("tls", **spec)])[0].divisions
    for pool in division.pools:
        yield program_configs.driver(builders.cluster(), division, pool, daemon_set="kae-driver-tls", leases=("a", "b"))


def _drivers() -> Iterator[str]:
    return itertools.chain.from_iterable(map(configs_of_driver, _DRIVER_POLICIES))


SOURCES: Mapping[str, Data] = {
    "build": {"repositories": ["file:///opt/rpm"], "credentialsSecret": "kae-mirror"},
    "packages": {
        "names": ["kae-driver-${DRIVER_VERSION}"],
        "repositories": ["https://mirror.example.com/kae", "file:///opt/kae"],
        "credentialsSecret": "kae-mirror",
        "gpgCheck": False,
    },
    "prebuilt": {},
    "inTree": {},
}
DRIVER_OF_RECIPE: Data = {
    "version": 2,
    "class": "none",
    "cluster": "east",
    "policy": "desk",
    "pool": "desk",
    "recipe": "onload",
    "home": PLUGIN["home"],
    "kinds": PLUGIN["kinds"],
    "daemonSet": {"namespace": "kae-operator", "name": "onload-driver-desk"},
    "state": "Present",
    "driverVersion": "2.0.1",
    "installPolicy": "IfNotPresent",
    "enabledCleanup": False,
    "kernels": {"pattern": r"^5\.10\.", "unless": [r"sp1\."], "system": "openEuler", "versions": ["22.03"]},
    "source": {"packages": SOURCES["packages"]},
    "modules": [
        {"name": "sfc", "parameters": {"flag": True, "text": "a b", "number": 7}},
        {"name": "onload", "replaces": ["onload"], "network": True},
    ],
    "leftOut": ["sfc_char"],
    "above": ["sfc_vfio"],
    "related": ["sfc_ptp"],
    "networkForce": True,
    "payloads": [{"name": "user", "paths": ["/opt/onload"]}],
    "nodes": ["/dev/onload"],
    "files": [{"from": "/opt/onload", "to": "/opt/onload"}],
    "resources": ["amd.com/onload"],
    "programs": "device.openfuyao.com/after=onload-driver",
    "drain": {"enabled": True, "timeoutSeconds": 300},
    "leases": {"namespace": "kae-operator", "names": ["onload-driver-desk-1"]},
    "metrics": {"port": 9511},
}
"""A config of a driver of the class none with every field."""

DRIVER: Data = DRIVER_OF_RECIPE | {
    "class": "uacce",
    "presentWhen": "Loaded",
    "sriov": {"sfc": 63},
    "deviceNodes": {"mode": "0660", "group": 994},
}
"""A config of a driver of the class uacce with every field."""

INSTALLER = Program(
    name="installer",
    language=mutations.Language("driver-config", driver_config.Config),
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
        ("deviceNodes", "group"),
        *(("source", name, "credentialsSecret") for name in ("packages", "build")),
    ),
    integers=(
        ("version",),
        ("sriov", "sfc"),
        ("metrics", "port"),
        ("drain", "timeoutSeconds"),
        ("deviceNodes", "group"),
    ),
    definitions={
        "Build": [("source", "build")],
        "DaemonSet": [("daemonSet",)],
        "DeviceNodes": [("deviceNodes",)],
        "Drain": [("drain",)],
        "InTree": [("source", "inTree")],
        "Kernels": [("kernels",)],
        "HostFiles": [("files", 0)],
        "Kind": [("kinds", 0), ("kinds", 1)],
        "Home": [("home",)],
        "Leases": [("leases",)],
        "MetricsEndpoint": [("metrics",)],
        "Module": [("modules", 0), ("modules", 1)],
        "Packages": [("source", "packages")],
        "Payload": [("payloads", 0)],
        "Plain": [()],
        "Prebuilt": [("source", "prebuilt")],
        "Source": [("source",)],
        "Uacce": [()],
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
    repository = clusters.WatcherRepository(url=URLS[0], branch="main", path="inventory")
    return program_configs.watcher(builders.cluster("east", watcher=spec), repository, port)


def _watchers() -> Iterator[str]:
    return itertools.starmap(config_of_watcher, itertools.product(_WATCHERS, (None, 65535)))


FULL_WATCHER: Data = {
    "version": 2,
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
    definitions={"Author": [("author",)], "MetricsEndpoint": [("metrics",)], "Repository": [("repository",)]},
    written=_watchers,
    file="deployment-kae-watcher.yaml",
)

PROGRAMS = (DEVICE_PLUGIN, INSTALLER, WATCHER)
