"""Whatever recipe and policy the compiler accepts, the programs on the nodes accept what it makes of them."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from compiler import diagnostics, pipeline
from runtime import device_plugin_config, driver_config, errors, shapes
from tests import builders, effort

EACH = 40
LONG_DOMAIN = ".".join(["d" * 60] * 3)
RESOURCES = ("x.com/a", "x.com/a-b", "x.com/B_c.d", f"x.com/{'r' * 63}", f"{LONG_DOMAIN}/{'r' * 17}", "x.com/c")
PARTS = ("a", "b", "b-c", "x" * 20)
NODES = ("/dev/a", "/dev/b", "/dev/b*", "/dev/a/[!0-9]", f"/dev/{'x' * 195}", "/dev/vfio")
FILES = ("/opt/a", "/opt/a/lib.so", "/opt/a*", "/usr/lib[46]?/b.so", "/etc/a,b@c+d:e", f"/opt/{'x' * 195}")
TARGETS = ("/dev/", "/dev/a", "/opt/", "/opt/a", "/x/y", "/sys/class/uacce")
VARIABLES = ("LD_PRELOAD", "MODE", "_a", "X" * 200)
TEXTS = ("", "1", "é\n\x7f", "/opt/a/lib.so", "x" * 4096)
COUNTS, SHARES = (1, 781, 782, 10000), (1, 10, 11, 128)
SCALARS = (0, -1, 2**31, 2**31 - 1, True, False, "", "a b\\", "x" * 500)


class Made:
    """A recipe and a policy of it, made by chance out of values at the borders of their fields."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - not for secrets
        self.properties: dict[str, Any] = {}
        self.values: dict[str, Any] = {}
        self.kinds = [
            {"kind": kind, "vendor": "19e5", **self.some(devices=["d100"], virtual=["d101"]), "classes": ["0200"]}
            for kind in self.picked(PARTS)
        ]
        self.recipe = self._recipe()
        self.policy = self._policy()

    def picked(self, of: tuple[Any, ...], least: int = 0, most: int = 2) -> list[Any]:
        """A few different ones."""
        return self.chance.sample(of, self.chance.randint(least, min(most, len(of))))

    def some(self, **fields: Any) -> dict[str, Any]:
        """Some of these fields; of a function, what it returns."""
        kept = {name.rstrip("_"): value for name, value in fields.items() if self.chance.random() < 0.5}
        return {name: value() if callable(value) else value for name, value in kept.items()}

    def field(self, value: Any, schema: dict[str, Any]) -> Any:
        """The value, or a parameter that has it by default or by the policy."""
        if self.chance.random() < 0.6:
            return value
        name = f"p{len(self.properties)}"
        by_policy = self.chance.random() < 0.5
        self.properties[name] = {**schema, **({} if by_policy else {"default": value})}
        if by_policy:
            self.values[name] = value
        return f"${{values.{name}}}"

    def variables(self) -> dict[str, str]:
        """Environment variables."""
        return {name: self.chance.choice(TEXTS) for name in self.picked(VARIABLES)}

    def _recipe(self) -> dict[str, Any]:
        match: dict[str, Any] = {"pci": self.kinds} if self.kinds else {"all": {}}
        spec = {
            "title": "x",
            "match": match,
            "images": {**builders.IMAGES, "modules": builders.IMAGES["installer"]},
            "driver": self._driver(),
            "devicePlugin": {
                "image": "device-plugin",
                "resources": [self._resource(name) for name in self.picked(RESOURCES, 1, 3)],
            },
        }
        required = sorted(self.values)
        return {**spec, "parameters": {"properties": self.properties, **({"required": required} if required else {})}}

    def _driver(self) -> dict[str, Any]:
        self.modules = [
            {
                "name": name,
                **self.some(optional=True, replaces=["old", name], network=True),
                "parameters": {"n": {"type": "integer"}, "s": {"type": "string"}, "b": {"type": "boolean"}},
            }
            for name in self.picked(("a", "B_c", "m" * 55), 1, 3)
        ]
        payloads = {"payloads": [{"image": "modules", "paths": ["/opt/lib/modules", "/opt/a:b"]}]}
        files: dict[str, Any] = {
            "files": [{"from": "/opt/a:b/c", "to": self.chance.choice(("/opt/a", f"/opt/{'x' * 195}"))}]
        }
        return {
            "image": "installer",
            "modules": self.modules,
            **self.some(nodes=["/dev/a", f"/dev/{'x' * 195}"], sources=lambda: self.chance.choice(SOURCES)),
            **payloads,
            **self.chance.choice((files, {})),
        }

    def _resource(self, name: str) -> dict[str, Any]:
        sort = self.chance.choice(("token", "token", "char", *(("uacce", "vfio") if self.kinds else ())))
        integer = {"type": "integer"}
        kind = {"kind": self.chance.choice(self.kinds)["kind"]} if sort in ("uacce", "vfio") else {}
        fields: dict[str, Any] = {"name": name, "class": sort, **kind}
        if sort == "token":
            fields["count"] = self.field(self.chance.choice(COUNTS), integer)
            profiles = {profile: self.variables() for profile in self.picked(PARTS)}
            fields |= self.some(profiles=lambda: self.field(profiles, PROFILES))
        if sort == "char":
            fields["groups"] = [{"paths": [self._node(limit=128)]} for _ in range(self.chance.randint(0, 2))]
        if sort != "vfio":
            fields |= self.some(shares=lambda: self.field(self.chance.choice(SHARES), integer))
        inject = [self._injection() for _ in range(self.chance.randint(0, 2))]
        return {**fields, **self.some(requires=["/opt/a", "/dev/b"]), "inject": inject}

    def _injection(self) -> dict[str, Any]:
        return self.some(
            when=lambda: self.field(self.chance.random() < 0.8, {"type": "boolean"}),
            nodes=lambda: [self._node() for _ in range(self.chance.randint(0, 2))],
            mounts=lambda: [self._at(FILES, readOnly=False) for _ in range(self.chance.randint(0, 2))],
            env=lambda: self.field(self.variables(), ENV),
            preload=lambda: self.picked(("/opt/a/lib.so", "/opt/b,c@d+e")),
            files=lambda: [self._file() for _ in range(self.chance.randint(0, 2))],
        )

    def _at(self, paths: tuple[str, ...], **more: Any) -> dict[str, Any]:
        target = {"as": self.chance.choice(TARGETS)} if self.chance.random() < 0.3 else {}
        return {"path": self.chance.choice(paths), **target, **self.some(optional=True, **more)}

    def _node(self, **more: Any) -> dict[str, Any]:
        return self._at(NODES, permissions=self.chance.choice(("r", "rwm")), **more)

    def _file(self) -> dict[str, Any]:
        text = self.field(self.chance.choice(TEXTS), {"type": "string"})
        return {
            "name": self.chance.choice(PARTS),
            "as": self.chance.choice(("/etc/a", "/etc/b", "/opt/a")),
            "text": text,
        }

    def _policy(self) -> dict[str, Any]:
        parameters = {
            module["name"]: {
                name: value
                for name, of in (("n", int), ("s", str), ("b", bool))
                for value in self.picked(tuple(value for value in SCALARS if type(value) is of), 0, 1)
            }
            for module in self.modules
        }
        driver = self.some(
            state=lambda: self.chance.choice(("Present", "Absent")),
            installPolicy="Always",
            modules=[module["name"] for module in self.modules],
            moduleParameters=parameters,
            network={"force": True},
            enabledCleanup=True,
            drain=lambda: {"timeoutSeconds": self.chance.choice((1, 86400))},
            metrics={"enabled": True, "port": 65535},
        )
        plugin = self.some(allocationPolicy="Packed", metrics={"enabled": True, "port": 1})
        return {"recipe": "made", "values": self.values, "driver": driver, "devicePlugin": plugin}


SOURCES = (["prebuilt"], ["inTree", "build"], ["build"])
ENV = {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 8}
PROFILES = {"type": "object", "additionalProperties": ENV, "maxProperties": 8}
SHAPES: dict[str, Any] = {"driver": driver_config.Config, "device-plugin": device_plugin_config.Config}


def compiled(made: Made) -> dict[str, str] | None:
    """The files of the one cluster of a project, None for a project that the compiler refuses."""
    found = [
        builders.document(builders.raw("Recipe", "made", made.recipe), "recipes/made/recipe.yaml"),
        builders.document(builders.raw("DevicePolicy", "lab", made.policy), "policies/lab.yaml"),
        builders.document(builders.raw("KAECluster", "east", {"kubernetesVersion": "1.31"}), "policies/east.yaml"),
    ]
    fleet, findings = pipeline.read(found, builders.judge())
    if diagnostics.has_errors(findings):
        return None
    planned, findings = pipeline.plan_cluster(fleet, fleet.clusters[0])
    return None if diagnostics.has_errors(findings) else dict(builders.compiled(planned).files)


def configs(files: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The program and the text of each config."""
    for path, text in files.items():
        for program in SHAPES:
            if path.startswith(f"made/daemonset-made-{program}-"):
                item = yaml.load(text, yaml.CSafeLoader)
                yield program, item["spec"]["template"]["metadata"]["annotations"]["device.openfuyao.com/config"]


@pytest.mark.seeded
@pytest.mark.parametrize("batch", range(effort.examples(gate=1, long=10)))
def test_no_program_refuses_what_the_compiler_accepts(batch: int, tmp_path: Path) -> None:
    read = 0
    for seed in range(batch * EACH, (batch + 1) * EACH):
        made = Made(seed)
        for program, text in configs(compiled(made) or {}):
            (tmp_path / "config.json").write_text(text, "utf-8")
            try:
                shapes.load(tmp_path / "config.json", SHAPES[program])
            except errors.ConfigError as error:
                pytest.fail(f"seed {seed}: {error}\n{json.dumps([made.recipe, made.policy], indent=1)}")
            read += 1

    assert read >= EACH // 4
