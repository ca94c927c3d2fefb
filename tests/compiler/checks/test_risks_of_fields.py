"""Every field of the language: the risk that tells where it gives power to what runs as root, or why it gives none."""

import copy
import fnmatch
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from compiler import pipeline
from compiler.changes import difference, intent, sides
from compiler.checks import risks
from tests import builders

Raw = dict[str, Any]

KINDS = ("KAEPolicy", "DevicePolicy", "Recipe", "KAECluster")
PACKAGES = {"packages": {"names": ["kae"], "repositories": ["https://a.example.com/r"]}}
WATCHER = {
    "enabled": True,
    "image": "registry.example.com/kae/kae-watcher:1.2.0",
    "secretName": "git",
    "repository": {"url": "https://git.example.com/fleet.git"},
}
ARGO = {"engine": "argocd", "repository": {"url": "https://git.example.com/fleet.git"}}
FLUX = {**ARGO, "engine": "flux"}
DEVICE = {"name": "example.com/lab", "class": "char", "groups": [{"paths": [{"path": "/dev/lab*"}]}]}
TOKEN = {"name": "example.com/lab", "class": "token", "count": 4}
FILE = {"name": "conf", "as": "/etc/lab.conf", "text": "a"}
GAIN, REGISTRY, REPOSITORY = "privilege-gained", "registry-changed", "repository-changed"


def at(path: str, value: Any, below: Mapping[str, Any] | None = None) -> Raw:
    """Return the fields of `below` with a value at a dotted path."""
    found = copy.deepcopy(dict(below or {}))
    *way, last = path.split(".")
    part = found
    for key in way:
        part = part.setdefault(key, {})
    part[last] = value
    return found


def injecting(**inject: Any) -> Raw:
    return {"devicePlugin": {"resources": [{**TOKEN, "inject": [inject]}]}}


def of_group(**path: Any) -> Raw:
    return {"devicePlugin": {"resources": [{**DEVICE, "groups": [{"paths": [{"path": "/dev/lab*", **path}]}]}]}}


def running(pod: Raw | None = None, container: Raw | None = None, **program: Any) -> Raw:
    """Return a recipe's program with these fields of its pod and of its only container."""
    only = {"name": "helper", "image": "installer", **(container or {})}
    return {"programs": [{"name": "helper", "pod": {**(pod or {}), "containers": [only]}, **program}]}


Case = tuple[str, str, Raw, Raw, str]
"""Kind, field, what is there before and after, and the code that tells."""


def of(  # noqa: PLR0913 - a row of the table
    kind: str, field: str, before: Any, after: Any, code: str = GAIN, beside: Raw | None = None
) -> Case:
    """Return a case of a field with two values, None for none; `beside` are other fields."""
    name = field.replace(".[]", "")
    was, now = (dict(beside or {}) if value is None else at(name, value, beside) for value in (before, after))
    return kind, field, was, now, code


def cases() -> Iterator[Case]:
    yield from _of_programs()
    yield from _of_injections()
    yield from _of_sources()
    yield from _of_device_policy()
    yield from _of_recipe()
    yield from _of_cluster()


def _of_programs() -> Iterator[Case]:
    for program in ("driver", "devicePlugin"):
        field = f"{program}.pullSecrets"
        yield of("KAEPolicy", field, [{"name": "a"}], [{"name": "b"}])
        yield of("KAEPolicy", f"{program}.repository", "a.example.com/x", "b.example.com/x", REGISTRY)
        yield of("KAEPolicy", f"{program}.repository", "a.example.com/x", "a.example.com/y", REPOSITORY)
        yield of("KAEPolicy", f"{program}.version", "2.2.0", "latest", "mutable-tag")
    yield of("KAEPolicy", "driver.image", "kae-driver", "other", REPOSITORY)
    yield of("KAEPolicy", "devicePlugin.image", None, "other/kae-device-plugin", REPOSITORY)
    for name, old, new in (
        ("LD_PRELOAD", "liba.so", "libb.so"),
        ("https_proxy", "http://a:1", "http://b:1"),
        ("MODPROBE_OPTIONS", "-v", "-f"),
        ("RPM_CONFIGDIR", "/usr/lib/rpm", "/opt/rpm"),
    ):
        yield of("KAEPolicy", "driver.env", [{"name": name, "value": old}], [{"name": name, "value": new}])
    yield of("KAEPolicy", "driver.env", None, [{"name": "LD_PRELOAD", "value": "liba.so"}])
    yield of("KAEPolicy", "driver.deviceNodes", {"mode": "0660", "group": 5}, {"mode": "0666", "group": 5})
    yield of("KAEPolicy", "driver.deviceNodes", {"mode": "0660", "group": 5}, {"mode": "0660", "group": 6})
    alone = {"driver": {"enabled": False}}
    nodes = {"mode": "0660", "group": 5}
    yield of("KAEPolicy", "devicePlugin.deviceNodes", nodes, {**nodes, "mode": "0666"}, beside=alone)
    yield of("KAEPolicy", "devicePlugin.deviceNodes", nodes, {**nodes, "group": 6}, beside=alone)
    yield of("KAEPolicy", "devicePlugin.mode.hpre", None, "vfio")
    yield of("KAEPolicy", "driver.enabled", False, True)
    yield of("KAEPolicy", "devicePlugin.enabled", False, True)
    yield of("KAEPolicy", "driver.drain.enabled", False, True)


def _of_injections() -> Iterator[Case]:
    inject = "devicePlugin.inject"
    yield of("KAEPolicy", f"{inject}.env", {"LD_PRELOAD": "liba.so"}, {"LD_PRELOAD": "libb.so"})
    yield of("KAEPolicy", f"{inject}.env", {"PYTHONSTARTUP": "a.py"}, {"PYTHONSTARTUP": "b.py"})
    for name, old, new in (
        ("NVIDIA_VISIBLE_DEVICES", "0", "all"),
        ("NVIDIA_DRIVER_CAPABILITIES", "compute", "all"),
        ("LOCALDOMAIN", "a.example", "evil.example"),
        ("KUBERNETES_SERVICE_HOST", "10.0.0.1", "api.evil.example"),
        ("PAGER", "less", "other"),
    ):
        yield of("KAEPolicy", f"{inject}.env", {name: old}, {name: new})
    yield of("KAEPolicy", f"{inject}.libraries", None, True)
    yield of("KAEPolicy", f"{inject}.librariesPath", None, "/usr/local/lib", beside=at(f"{inject}.libraries", True))
    yield of("KAEPolicy", f"{inject}.maskSysfs", None, False)
    yield of("KAEPolicy", f"{inject}.mounts", None, {"/etc/x": "/etc/x"})
    with_libraries = at(f"{inject}.libraries", True)
    yield of("KAEPolicy", f"{inject}.opensslConf", None, "3.0", beside=with_libraries)
    conf = at(f"{inject}.opensslConf", "3.0", with_libraries)
    yield of("KAEPolicy", f"{inject}.opensslSettings", None, {"dynamic_path": "x.so"}, beside=conf)


def _of_sources() -> Iterator[Case]:
    for kind in ("KAEPolicy", "DevicePolicy"):
        yield of(kind, "kubeletDir", None, "/var/lib/k0s/kubelet")
        source = "driver.source.packages"
        packages = {"driver": {"source": copy.deepcopy(PACKAGES)}}
        yield of(
            kind,
            f"{source}.repositories",
            ["https://a.example.com/r"],
            ["https://b.example.com/r"],
            REPOSITORY,
            packages,
        )
        yield of(kind, f"{source}.gpgCheck", True, False, "signatures-off", packages)
        yield of(kind, f"{source}.credentialsSecret", "a", "b", GAIN, packages)
        build = "driver.source.build"
        yield of(kind, f"{build}.repositories", ["https://a.example.com/r"], ["https://b.example.com/r"], REPOSITORY)
        yield of(
            kind, f"{build}.credentialsSecret", "a", "b", GAIN, at(f"{build}.repositories", ["https://a.example.com/r"])
        )


def _of_device_policy() -> Iterator[Case]:
    yield of("DevicePolicy", "pullSecrets", [{"name": "a"}], [{"name": "b"}])
    yield of("DevicePolicy", "images", None, {"installer": {"repository": "b.example.com/x"}}, REGISTRY)
    yield of("DevicePolicy", "images", None, {"device-plugin": {"repository": "b.example.com/x"}}, REGISTRY)
    yield of("DevicePolicy", "driver.network.force", None, True, "network-forced")
    yield of("DevicePolicy", "values", {"preload": "liba.so"}, {"preload": "libb.so"})
    yield of("DevicePolicy", "driver.enabled", False, True)
    yield of("DevicePolicy", "devicePlugin.enabled", False, True)


def _of_recipe() -> Iterator[Case]:
    resources, inject = "devicePlugin.resources.[]", "devicePlugin.resources.[].inject.[]"
    moved = {name: {**image, "repository": "b.example.com/x"} for name, image in builders.IMAGES.items()}
    yield ("Recipe", "images", {}, {"images": moved}, REGISTRY)
    for part, before, after in (
        ("env", {"LD_PRELOAD": "liba.so"}, {"LD_PRELOAD": "libb.so"}),
        ("preload", ["/opt/a.so"], ["/opt/b.so"]),
        ("files", [FILE], [{**FILE, "text": "b"}]),
        ("files", [FILE], [{**FILE, "as": "/etc/ld.so.preload"}]),
        ("mounts", [{"path": "/opt/a"}], [{"path": "/opt/b"}]),
        ("mounts", [{"path": "/opt/a"}], [{"path": "/opt/a", "readOnly": False}]),
        ("mounts", [{"path": "/opt/a"}], [{"path": "/opt/a", "as": "/usr/lib"}]),
        ("nodes", [{"path": "/dev/a"}], [{"path": "/dev/b"}]),
        ("nodes", [{"path": "/dev/a", "permissions": "r"}], [{"path": "/dev/a", "permissions": "rw"}]),
        ("nodes", [{"path": "/dev/a"}], [{"path": "/dev/a", "as": "/dev/null2"}]),
    ):
        yield ("Recipe", f"{inject}.{part}", injecting(**{part: before}), injecting(**{part: after}), GAIN)
    preload = {"preload": ["/opt/a.so"]}
    yield ("Recipe", f"{inject}.when", injecting(when=False, **preload), injecting(when=True, **preload), GAIN)
    path = f"{resources}.groups.[].paths.[]"
    yield ("Recipe", f"{path}.path", of_group(), of_group(path="/dev/lib*"), GAIN)
    yield ("Recipe", f"{path}.as", of_group(), of_group(**{"as": "/dev/x/"}), GAIN)
    yield ("Recipe", f"{path}.permissions", of_group(permissions="r"), of_group(), GAIN)
    was, now = (
        {"devicePlugin": {"resources": [{**TOKEN, "profiles": {"a": {"LD_PRELOAD": value}}}]}} for value in "xy"
    )
    yield "Recipe", f"{resources}.profiles", was, now, GAIN
    required = {"devicePlugin": {"resources": [{**TOKEN, "requires": ["/opt/new/x/y"]}]}}
    yield ("Recipe", f"{resources}.requires", {}, required, GAIN)
    pod, own = "programs.[].pod", "programs.[].pod.containers.[]"
    sys, mounted = {"name": "sys", "hostPath": {"path": "/sys"}}, {"volumeMounts": [{"name": "sys", "mountPath": "/s"}]}
    reads = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]
    for field, before, after in (
        (f"{pod}.hostNetwork", running(), running({"hostNetwork": True})),
        (
            f"{pod}.volumes",
            running(),
            running({"volumes": [sys]}, mounted),
        ),
        (f"{own}.securityContext", running(), running(None, {"securityContext": {"privileged": True}})),
        (
            f"{own}.env",
            running(None, {"env": [{"name": "LD_PRELOAD", "value": "liba.so"}]}),
            running(None, {"env": [{"name": "LD_PRELOAD", "value": "libb.so"}]}),
        ),
        ("programs.[].clusterRules", running(), running(clusterRules=reads)),
        ("programs.[].rules", running(), running(rules=[{**reads[0], "resources": ["configmaps"]}])),
    ):
        yield ("Recipe", field, before, after, GAIN)


def _of_cluster() -> Iterator[Case]:
    kind = "KAECluster"
    mirrors = [[{"from": "cr.openfuyao.cn/openfuyao", "to": f"{host}.example.com/x"}] for host in "ab"]
    yield of(kind, "images.mirrors", mirrors[0], mirrors[1], REGISTRY)
    yield of(kind, "nfd.image.repository", None, "b.example.com/nfd", REGISTRY)
    yield of(kind, "nfd.pullSecrets", [{"name": "a"}], [{"name": "b"}])
    yield of(kind, "nfd.enabled", False, True)
    yield of(kind, "networkPolicies.enabled", True, False)
    yield of(kind, "networkPolicies.apiServerPorts", [443], [443, 22], beside=at("networkPolicies.enabled", True))
    yield of(kind, "psa.enabled", False, True)
    yield of(kind, "platform", "kubernetes", "openshift")
    yield of(kind, "kubernetesVersion", "1.31", "1.29", "guard-off")
    yield of(kind, "watcher.enabled", False, True, beside={"watcher": {**WATCHER}})
    watcher = {"watcher": {**WATCHER}}
    yield of(kind, "watcher.image", None, "b.example.com/kae-watcher:1.2.0", REGISTRY, watcher)
    yield of(kind, "watcher.secretName", "git", "other", GAIN, watcher)
    yield of(kind, "watcher.pullSecrets", None, [{"name": "b"}], GAIN, watcher)
    yield of(kind, "watcher.pushOptions", None, ["merge_request.create"], GAIN, watcher)
    for field, value in (("url", "https://b.example.com/x.git"), ("branch", "other")):
        yield of(kind, f"watcher.repository.{field}", None, value, GAIN, watcher)
    proxies = [[{"name": "HTTPS_PROXY", "value": f"http://{host}:1"}] for host in "ab"]
    yield of(kind, "watcher.env", proxies[0], proxies[1], GAIN, watcher)
    for name in ("KUBERNETES_SERVICE_HOST", "LOCALDOMAIN"):
        yield of(kind, "watcher.env", None, [{"name": name, "value": "api.evil.example"}], GAIN, watcher)
    signing = {"format": "ssh", "secretName": "key"}
    yield of(kind, "watcher.signing", None, signing, GAIN, watcher)
    for gitops in (ARGO, FLUX):
        part = {"gitops": dict(gitops)}
        for field, value in (("url", "https://b.example.com/x.git"), ("revision", "other"), ("path", "other")):
            yield of(kind, f"gitops.repository.{field}", None, value, GAIN, part)
    argo, flux = {"gitops": dict(ARGO)}, {"gitops": dict(FLUX)}
    yield of(kind, "gitops.argocd.project", None, "default", GAIN, argo)
    yield of(kind, "gitops.argocd.destination", None, {"server": "https://b.example.com"}, GAIN, argo)
    yield of(kind, "gitops.argocd.destination", None, {"name": "other"}, GAIN, argo)
    yield of(kind, "gitops.flux.secretRef", None, {"name": "b"}, GAIN, flux)
    yield of(kind, "gitops.flux.sourceRef", {"name": "a"}, {"name": "b"}, GAIN, flux)
    yield of(kind, "gitops.flux.kubeConfig", None, {"secretRef": {"name": "b"}}, GAIN, flux)


CASES = tuple(cases())

NAMED = "it names or selects: what comes to which nodes is an effect"
CONTENT = "other content by the same writers is an effect"
SIZE = "how much, when and how fast"
NONE = "no byte of a program that runs as root depends on it"
RENDERED = "what it gives is read off the rendered objects, by tests/property/programs"
LATER = "what is allowed by it is told when somebody uses it"
HELD = "the rights of the device plugin are told, and a guard comes with them"
POOLS = "as in the driver itself, by pools"
OTHERS: Mapping[str, Mapping[str, str]] = {
    "KAEPolicy": {
        "*.clusters*|clusters*|default|nodeSelector*|operator*|daemonSets.tolerations*": NAMED,
        "daemonSets.labels|daemonSets.priorityClassName|*.resources.*|*.maxUnavailable|*.allocationPolicy": SIZE,
        "*.metrics.*|devicePlugin.sharing*|devicePlugin.mode.*|*.pullPolicy|driver.drain.timeoutSeconds": SIZE,
        "driver.rollout.max*|driver.rollout.min*": SIZE,
        "driver.kernelMappings*|driver.rollout.waves*|driver.rollout.frozen*": POOLS,
        "driver.moduleParameters|driver.sriov*|driver.state|driver.source.inTree|driver.source.prebuilt": CONTENT,
        "driver.source.packages.names*|driver.presentWhen|driver.enabledCleanup": CONTENT,
        "devicePlugin.interface|devicePlugin.dra*": HELD,
    },
    "DevicePolicy": {
        "*.clusters*|clusters*|default|nodeSelector*|daemonSets.tolerations*|recipe": NAMED,
        "daemonSets.labels|daemonSets.priorityClassName|*.resources.*|*.maxUnavailable|*.allocationPolicy": SIZE,
        "*.metrics.*|pullPolicy|driver.drain.*|rollout.max*|rollout.min*": SIZE,
        "kernelMappings*|rollout.waves*|rollout.frozen*": POOLS,
        "driver.moduleParameters|driver.modules*|driver.state|driver.source.inTree|driver.source.prebuilt": CONTENT,
        "driver.source.packages.names*|driver.installPolicy|driver.enabledCleanup": CONTENT,
        "devicePlugin.interface|devicePlugin.dra*": HELD,
        "programs*": RENDERED,
    },
    "Recipe": {
        "match*|claims*|title|exclusive*|parameters*": NAMED,
        "devicePlugin.resources.[].class|*.count|*.kind|*.shares|*.limit|*.optional": SIZE,
        "*.groups.[].vendor|*.groups.[].driver": NAMED,
        "devicePlugin.resources.[].name": NAMED,
        "*.files.[].name": NONE,
        "driver*|devicePlugin.image": CONTENT,
        "programs*|admission*": RENDERED,
    },
    "KAECluster": {
        "namespace*|crd*|monitoring*|nfd.nodefeaturerules|gitops.engine|gitops.*.namespace": NAMED,
        "nfd.image.tag|nfd.image.digest": CONTENT,
        "*.resources.*|*.priorityClassName|*.tolerations*|*.nodeSelector*|*.pullPolicy": SIZE,
        "gitops.*.prune|gitops.*.selfHeal|gitops.*.interval": SIZE,
        "recipes.refuse*": LATER,
        "watcher.author*|watcher.i*|watcher.m*|watcher.quiet*|watcher.removal*|watcher.schedule": NONE,
        "watcher.repository.path": NONE,
    },
}
"""Why other fields need no risk, by globs of their paths."""


def _fields(kind: str, folder: Path) -> Iterator[str]:
    """Yield the path of every field of a kind below its spec, with [] for the items of lists."""
    schema = json.loads((folder / f"schemas/{kind.lower()}.json").read_text("utf-8"))

    def walk(part: Raw, path: tuple[str, ...]) -> Iterator[str]:
        part = schema["$defs"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part
        if "anyOf" in part:
            for one in part["anyOf"]:
                yield from walk(one, path) if one.get("type") != "null" else ()
        elif part.get("properties"):
            for key, value in part["properties"].items():
                yield from walk(value, (*path, key))
        elif part.get("type") == "array":
            yield from walk(part["items"], (*path, "[]"))
        else:
            yield ".".join(path[1:])

    yield from (field for field in walk({**schema, "properties": {"spec": schema["properties"]["spec"]}}, ()) if field)


@pytest.mark.parametrize("kind", KINDS)
def test_each_field_has_a_risk_or_a_reason_for_none(kind: str, repository_root: Path) -> None:
    told = tuple(field for own, field, *_ in CASES if own == kind)
    globs = [glob for each in OTHERS[kind] for glob in each.split("|")]
    fields = list(dict.fromkeys(_fields(kind, repository_root)))

    open_ = [
        field
        for field in fields
        if not any(f"{field}.".startswith(f"{one}.") for one in told)
        and not any(fnmatch.fnmatchcase(field, glob.replace("[]", "[[]]")) for glob in globs)
    ]

    assert len(fields) > 40
    assert open_ == []


@pytest.mark.parametrize(("kind", "field", "before", "after", "code"), CASES)
def test_a_field_that_gives_power_is_told(kind: str, field: str, before: Raw, after: Raw, code: str) -> None:
    del field
    (was, written), (now, rewritten) = (_side(kind, each) for each in (before, after))
    basis = difference.Basis(changed=intent.changes(written, rewritten), render=builders.renderer())

    found = risks.compared(was, now, basis)

    assert found
    assert code in {risk.finding.code for risk in found.risks}


def _side(kind: str, given: Raw) -> tuple[sides.Planned, Sequence[Any]]:
    spec: dict[str, Raw] = {each: {} for each in KINDS} | {kind: given}
    place = builders.cluster(**{"kubernetesVersion": "1.31", **spec["KAECluster"]})
    documents = [place.source]
    policies = []
    if kind in ("KAEPolicy", "KAECluster"):
        policies = [builders.policy("tls", **_joined({"driver": {"version": "2.2.0"}}, spec["KAEPolicy"]))]
    else:
        installer = {
            "image": "installer",
            "modules": [{"name": "lab", "network": True}],
            "sources": ["prebuilt", "packages", "build"],
        }
        plain = {
            "driver": installer,
            "devicePlugin": {"resources": [{**TOKEN, "inject": [{"env": {"LD_PRELOAD": "${values.preload}"}}]}]},
        }
        plain["parameters"] = {"properties": {"preload": {"type": "string", "default": "x", "maxLength": 20}}}
        recipe = builders.recipe("lab", **{**plain, **spec["Recipe"]})
        policies = [builders.device_policy("lab", recipe, **spec["DevicePolicy"])]
        documents.append(recipe)
    documents.extend(policy.source for policy in policies)
    planned, _ = builders.view(policies, [builders.node("n1"), builders.node("n2")], place)
    return sides.of_plan(planned, pipeline.manifests_of(planned)), documents


def _joined(one: Raw, other: Raw) -> Raw:
    """Return the fields of both, the other's over those of the one."""
    return {
        key: _joined(one[key], other[key])
        if key in one and key in other and isinstance(one[key], dict)
        else (other if key in other else one)[key]
        for key in {**one, **other}
    }
