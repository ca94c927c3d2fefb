"""A recipe with programs and policies of it, made by chance."""

import random
import re
from collections.abc import Sequence
from typing import Any

VALUES: dict[str, tuple[dict[str, Any], tuple[Any, ...]]] = {
    "boolean": ({"type": "boolean"}, (True, False)),
    "integer": ({"type": "integer", "minimum": 0, "maximum": 9999}, (0, 1, 80, 9999)),
    "string": (
        {"type": "string", "maxLength": 60},
        ("", "a", "${values.p0}", "$${HOME}", "$(POD)", "{{ x }}", "é: #", "${", "a\nb"),
    ),
    "enum": ({"type": "string", "enum": ["a", "b", "${values.p0}"]}, ("a", "b", "${values.p0}")),
    "array": (
        {"type": "array", "maxItems": 4, "items": {"type": "string"}},
        ([], ["a"], ["a", "${values.p1}", "$(X)"]),
    ),
    "object": (
        {"type": "object", "maxProperties": 4, "additionalProperties": {"type": "string"}},
        ({}, {"a": "x"}, {"b": "${key}", "a": "${values.p0}"}),
    ),
}
"""The schema of each sort of parameters, and values of it that look like something else."""

LITERALS = ("", "-x", "$5", "$(NAME)", "$$(X)", "$${HOME}", "$$", "{{ y }}", "}", "a=")
"""Texts around references; the fifth from the end is a plain ${HOME}."""
PATHS = ("/sys", "/dev/dri", "/run/vendor", "/var/log", "/opt/a", "/var/run/cdi")
RULES = (
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
    {"apiGroups": [""], "resources": ["nodes", "configmaps"], "verbs": ["watch"]},
    {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["a", "b"]},
)
CAPABILITIES = ("SYS_ADMIN", "NET_ADMIN", "SYS_RAWIO")


def _named(data: Any) -> set[str]:
    """The parameters that a program names in texts and conditions; what a condition compares with is no text."""
    if isinstance(data, str):
        return set(re.findall(r"(?<!\$)\$\{values\.(\w+)\}", data))
    if isinstance(data, list):
        return set().union(*map(_named, data))
    if not isinstance(data, dict):
        return set()
    when = data.get("when")
    asked = set(when) if isinstance(when, dict) else _named(when)
    return asked.union(*(_named(value) for key, value in data.items() if key != "when"))


class Made:
    """A recipe of this name and its policies, each with a wave; `given` has the values of a policy."""

    def __init__(self, seed: int) -> None:
        """Make them."""
        self.chance = random.Random(seed)  # noqa: S311 - not for secrets
        self.name = self.chance.choice(("net", "net-card", "x"))
        sorts = [self.chance.choice(list(VALUES)) for _ in range(self.chance.randint(3, 7))]
        self.sorts = {f"p{number}": sort for number, sort in enumerate(sorts)}
        self.properties = {name: self._schema(sort) for name, sort in self.sorts.items()}
        self.programs = [
            self._program(name) for name in self.chance.sample(("plugin", "b", "helper9"), self._some(1, 2))
        ]
        self.programs[0]["files"] = {
            "used": {"all.json": {"json": {name: f"${{values.{name}}}" for name in self.sorts}}}
        }
        self.recipe = {
            "title": "A vendor",
            "match": {"all": {}},
            "parameters": {"properties": self.properties},
            "images": {
                name: {"repository": f"{name}.example.com/v", "image": f"image-{name}", "version": "1"}
                for name in ("first", "second")
            },
            "programs": self.programs,
        }
        self.policies = {name: self._policy(name) for name in ("lab", "web")[: self._some(1, 2)]}

    def _some(self, least: int, most: int) -> int:
        return self.chance.randint(least, most)

    def _schema(self, sort: str) -> dict[str, Any]:
        schema, values = VALUES[sort]
        return {**schema, **({"default": self.chance.choice(values)} if self.chance.random() < 0.5 else {})}

    def _values(self) -> dict[str, Any]:
        chosen = [name for name in self.sorts if self.chance.random() < 0.5]
        return {name: self.chance.choice(VALUES[self.sorts[name]][1]) for name in chosen}

    def _policy(self, name: str) -> dict[str, Any]:
        pooled = [program["name"] for program in self.programs if program.get("per") == "pool"]
        named = {own for program in self.programs if program["per"] == "pool" for own in _named(program)}
        values = {own: value for own, value in self._values().items() if own in named}
        wave = {"name": "canary", "nodes": [f"{name}-1"], "values": values}
        spec = {
            "recipe": self.name,
            "nodeSelector": {"matchLabels": {"set": name}},
            "values": self._values(),
            "daemonSets": {"labels": {"team": name}},
        }
        return {**spec, **({"rollout": {"waves": [wave]}} if pooled and self.chance.random() < 0.7 else {})}

    def _reference(self) -> str:
        texts = [name for name, sort in self.sorts.items() if sort not in ("object",)]
        facts = ["policy.name", "pool.name", "cluster.name", "namespace", "kubeletDir", "images.first"]
        if not texts or self.chance.random() < 0.25:
            return self.chance.choice(facts)
        return f"values.{self.chance.choice(texts)}"

    def text(self) -> str:
        """A text with a few references."""
        parts = [self.chance.choice(LITERALS)]
        for _ in range(self._some(0, 2)):
            # `$` directly before a reference would make it a plain text.
            parts += [f"=${{{self._reference()}}}", self.chance.choice(LITERALS)]
        return "".join(parts)

    def _when(self) -> Any:
        name = self.chance.choice(list(self.sorts))
        if self.chance.random() < 0.4:
            return f"${{values.{name}}}"
        _, values = VALUES[self.sorts[name]]
        if self.sorts[name] in ("array", "object"):
            return {name: None}
        some: Sequence[Any] = self.chance.sample(values, self._some(1, 2))
        wanted = [*some, *([None] if self.chance.random() < 0.3 else [])]
        return {name: wanted if self.chance.random() < 0.7 else wanted[0]}

    def _sometimes(self, value: dict[str, Any]) -> dict[str, Any]:
        return {**value, **({"when": self._when()} if self.chance.random() < 0.3 else {})}

    def _arguments(self) -> list[Any]:
        made: list[Any] = [f"x{self.text()}" for _ in range(self._some(0, 3))]
        if self.chance.random() < 0.5:
            value: Any = self.text() if self.chance.random() < 0.5 else [self.text(), "-z"]
            made.insert(self._some(0, len(made)), {"when": self._when(), "value": value})
        return made

    def _container(self, name: str, volumes: Sequence[dict[str, Any]]) -> dict[str, Any]:
        security: dict[str, Any] = {}
        if self.chance.random() < 0.4:
            security["privileged"] = self.chance.choice((True, False, {"when": self._when(), "value": True}))
        if self.chance.random() < 0.4:
            security["capabilities"] = {"add": [self.chance.choice(CAPABILITIES)], "drop": ["ALL"]}
        mounts = [
            {
                "name": volume["name"],
                "mountPath": f"/m/{volume['name']}",
                "readOnly": self.chance.random() < 0.5,
                **({"when": volume["when"]} if "when" in volume else {}),
            }
            for volume in volumes
            if self.chance.random() < 0.8
        ]
        env = [self._sometimes({"name": f"E{number}", "value": self.text()}) for number in range(self._some(0, 3))]
        made = {
            "name": name,
            "image": self.chance.choice(("first", "second")),
            "args": self._arguments(),
            "env": env,
            "securityContext": security,
            "volumeMounts": mounts,
        }
        return {field: value for field, value in made.items() if value or field in ("name", "image")}

    def _program(self, name: str) -> dict[str, Any]:
        volumes = [
            self._sometimes({"name": f"v{number}", "hostPath": {"path": self.chance.choice(PATHS)}})
            for number in range(self._some(0, 3))
        ]
        pod: dict[str, Any] = {"containers": [self._container("main", volumes)], "volumes": volumes}
        if self.chance.random() < 0.5:
            pod["initContainers"] = [self._sometimes(self._container("init", volumes))]
        for field in ("hostPID", "hostNetwork", "hostIPC"):
            if self.chance.random() < 0.2:
                pod[field] = self.chance.choice((True, False, {"when": self._when(), "value": True}))
        made = {
            "name": name,
            "per": self.chance.choice(("pool", "policy")),
            "pod": {field: value for field, value in pod.items() if value != []},
            "rules": self.chance.sample(RULES, self._some(0, 2)),
            "clusterRules": self.chance.sample(RULES, self._some(0, 1)),
        }
        return self._sometimes(made) if self.chance.random() < 0.3 else made
