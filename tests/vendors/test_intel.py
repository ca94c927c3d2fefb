"""Our pods and rules for Intel's devices are those of Intel's operator for the same settings, at the same release.

What is the compiler's in every pod, by what a policy says (name, account, affinity, tolerations, pull policy), is left
out of both; so are names of containers and volumes. The settings of our recipes that the operator lacks are not tried.
"""

import json
import pprint
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import in_process, project
from tests.vendors import intel

pytestmark = pytest.mark.long

HEAD = {"apiVersion": "device.openfuyao.com/v1alpha1"}
OWNED = frozenset(
    (
        *("affinity", "automountServiceAccountToken", "enableServiceLinks", "imagePullSecrets", "nodeSelector"),
        *("priorityClassName", "serviceAccountName", "tolerations"),
    )
)
"""Fields of a pod that are the policy's, or the compiler's for all pods."""

FRAME = {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}
"""What the compiler adds to a pod that says nothing of it."""

FREE = frozenset(("name", "imagePullPolicy", "terminationMessagePath", "terminationMessagePolicy"))
"""Fields of a container that say nothing of what it does, or are the policy's."""


def image(name: str) -> str:
    return f"docker.io/intel/{name}:{intel.RELEASE}"


QAT, INIT = {"image": image("intel-qat-plugin")}, {"initImage": image("intel-qat-initcontainer")}
DSA, IDXD = {"image": image("intel-dsa-plugin")}, {"initImage": image("intel-idxd-config-initcontainer")}
IAA, GPU, NPU = ({"image": image(f"intel-{kind}-plugin")} for kind in ("iaa", "gpu", "npu"))
SGX = {"image": image("intel-sgx-plugin")}
GEN4 = "4940 4942 4944"

CASES: Mapping[str, Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]] = {
    "Qat": (
        (QAT, {"provision": False}),
        ({**QAT, "logLevel": 4, "maxNumDevices": 128}, {"provision": False, "logLevel": 4, "maxNumDevices": 128}),
        ({**QAT, "dpdkDriver": "igb_uio"}, {"provision": False, "dpdkDriver": "igb_uio"}),
        (
            {**QAT, "kernelVfDrivers": ["c6xxvf", "d15xxvf"], "preferredAllocationPolicy": "packed"},
            {"provision": False, "kernelVfDrivers": ["c6xxvf", "d15xxvf"], "preferredAllocationPolicy": "packed"},
        ),
        (
            {**QAT, **INIT, "kernelVfDrivers": ["4xxxvf"], "provisioningConfig": "qat"},
            {"kernelVfDrivers": ["4xxxvf"], "services": "sym;asym", "physicalFunctions": GEN4},
        ),
    ),
    "Gpu": (
        (GPU, {}),
        ({**GPU, "logLevel": 2, "sharedDevNum": 10}, {"logLevel": 2, "sharedDevNum": 10}),
        (
            {**GPU, "enableMonitoring": True, "monitoringMode": "split"},
            {"enableMonitoring": True, "monitoringMode": "split"},
        ),
        ({**GPU, "allowIDs": "0x56c0,0x56c1"}, {"allowIDs": ["0x56c0", "0x56c1"]}),
        (
            {**GPU, "denyIDs": "0x4680", "bypathMode": "all", "preferredAllocationPolicy": "balanced"},
            {"denyIDs": ["0x4680"], "bypathMode": "all", "preferredAllocationPolicy": "balanced"},
        ),
    ),
    "Sgx": (
        (SGX, {}),
        ({**SGX, "enclaveLimit": 20, "provisionLimit": 3}, {"enclaveLimit": 20, "provisionLimit": 3}),
        ({**SGX, "logLevel": 10}, {"logLevel": 10}),
        ({**SGX, "dcapInfraResources": True}, {"dcapInfraResources": True}),
        ({**SGX, "enclaveLimit": 110, "logLevel": 1}, {"enclaveLimit": 110, "logLevel": 1}),
    ),
    "Dsa": (
        (DSA, {}),
        ({**DSA, "driver": "vfio-pci"}, {"driver": "vfio-pci"}),
        ({**DSA, "sharedDevNum": 8, "logLevel": 3}, {"sharedDevNum": 8, "logLevel": 3}),
        ({**DSA, **IDXD, "provisioningConfig": "dsa"}, {"provision": True, "configuration": "[]"}),
        (
            {**DSA, **IDXD, "driver": "vfio-pci", "provisioningConfig": "dsa"},
            {"provision": True, "driver": "vfio-pci", "configuration": "[]"},
        ),
    ),
    "Iaa": (
        (IAA, {}),
        ({**IAA, "sharedDevNum": 10}, {"sharedDevNum": 10}),
        ({**IAA, "logLevel": 5}, {"logLevel": 5}),
        ({**IAA, **IDXD, "provisioningConfig": "iaa"}, {"provision": True, "configuration": "[]"}),
        (
            {**IAA, **IDXD, "provisioningConfig": "iaa", "sharedDevNum": 2},
            {"provision": True, "configuration": "[]", "sharedDevNum": 2},
        ),
    ),
    "Npu": (
        (NPU, {}),
        ({**NPU, "sharedDevNum": 4}, {"sharedDevNum": 4}),
        ({**NPU, "logLevel": 2}, {"logLevel": 2}),
        ({**NPU, "sharedDevNum": 1000}, {"sharedDevNum": 1000}),
        ({**NPU, "sharedDevNum": 2, "logLevel": 4}, {"sharedDevNum": 2, "logLevel": 4}),
    ),
}
"""By kind of the operator: the spec of its object, and the values of our policy."""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return intel.checkout(tmp_path_factory.mktemp("vendor"))


def compiled(folder: Path, recipe: str, values: Mapping[str, Any], root: Path) -> Path:
    """Return the output for a policy of a recipe, with a node that it takes."""
    labels = {f"openfuyao.com/{recipe}.present": "true", "kubernetes.io/arch": "amd64"}
    kind = recipe.removeprefix("intel-")
    labels |= {f"openfuyao.com/{recipe}.{kind}.present": "true", f"openfuyao.com/{recipe}.{kind}.pf": "1"}
    info = {"architecture": "amd64", "kernelVersion": "6.8.0-45-generic", "kubeletVersion": "v1.36.0"}
    node = {"kind": "Node", "metadata": {"name": "n1", "labels": labels}, "status": {"nodeInfo": info}}
    spec = {"recipe": recipe, "values": values}
    documents = {
        f"recipes/{recipe}/recipe.yaml": (root / f"templates/recipes/{recipe}/recipe.yaml").read_text("utf-8"),
        "policies/one.yaml": json.dumps({**HEAD, "kind": "DevicePolicy", "metadata": {"name": "one"}, "spec": spec}),
        "policies/east.yaml": json.dumps(
            {**HEAD, "kind": "KAECluster", "metadata": {"name": "east"}, "spec": {"kubernetesVersion": "1.36"}}
        ),
        "inventory/east.json": json.dumps({"apiVersion": "v1", "kind": "List", "items": [node]}),
    }
    answer = in_process.kae(project.write(folder, documents), "compile", "-q")
    assert answer.code == 0, answer.err
    return folder / "output/east"


def plain(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod without what is owned, each mount with its volume in place of that one's name."""
    volumes = {volume["name"]: _source(volume) for volume in pod.get("volumes", ())}
    rest = {key: value for key, value in pod.items() if key not in {*OWNED, "volumes", "containers", "initContainers"}}
    return {
        **FRAME,
        **{key: value for key, value in rest.items() if value not in (None, {}, [], "")},
        "containers": [_container(one, volumes) for one in pod["containers"]],
        "initContainers": [_container(one, volumes) for one in pod.get("initContainers") or ()],
    }


def _source(volume: Mapping[str, Any]) -> object:
    """Return what a volume is; files of the user are a ConfigMap there, and annotations of the pod here."""
    if not volume.keys().isdisjoint({"configMap", "downwardAPI"}):
        return "files"
    (source,) = ((key, value) for key, value in volume.items() if key != "name")
    kind, fields = source
    return kind, {key: value for key, value in (fields or {}).items() if value not in (None, "")}


def _container(container: Mapping[str, Any], volumes: Mapping[str, object]) -> dict[str, Any]:
    mounts = {
        mount["mountPath"]: (volumes[mount["name"]], mount.get("readOnly", False))
        for mount in container.get("volumeMounts", ())
    }
    # Of driver vfio-pci the operator changes the volume, and of its mount a copy (NewDaemonSet of dsa/controller.go):
    # its container has /dev/vfio under the other name, where the plugin does not look.
    if (mount := mounts.get("/dev/dsa")) and mount[0] == ("hostPath", {"path": "/dev/vfio"}):
        mounts["/dev/vfio"] = mounts.pop("/dev/dsa")
    made = {key: value for key, value in container.items() if key not in FREE and value not in (None, {}, [])}
    made["volumeMounts"] = mounts
    made["args"] = list(_flags(container.get("args", ())))
    made["env"] = sorted((one["name"], _value(one)) for one in container.get("env", ()))
    return made


def _value(variable: Mapping[str, Any]) -> str:
    field = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
    return f"${{{field}}}" if field else variable.get("value", "")


def _flags(words: Sequence[str]) -> Iterator[str]:
    """Yield flags with their values: the operator gives them as two words, which flag of Go takes as one."""
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        has_value = "=" not in word and waiting and not waiting[0].startswith("-")
        yield f"{word}={waiting.pop(0)}" if has_value else word


@pytest.mark.parametrize("kind", CASES)
def test_a_pod_is_the_one_of_the_vendors_operator(
    kind: str, source: Path, repository_root: Path, tmp_path: Path
) -> None:
    recipe = f"intel-{kind.lower()}"
    theirs = intel.pods(source, kind, [spec for spec, _ in CASES[kind]])

    for index, (_, values) in enumerate(CASES[kind]):
        output = compiled(tmp_path / str(index), recipe, values, repository_root)
        (path,) = output.glob(f"**/daemonset-{recipe}-plugin-*.yaml")
        ours = yaml.load(path.read_text("utf-8"), yaml.CSafeLoader)["spec"]["template"]["spec"]

        one, other = plain(ours), plain(theirs[index])
        assert one == other, f"{values}:\n{pprint.pformat(one)}\n{pprint.pformat(other)}"


@pytest.mark.parametrize("kind", CASES)
def test_nodes_are_found_by_the_vendors_rule(kind: str, source: Path, repository_root: Path, tmp_path: Path) -> None:
    recipe = f"intel-{kind.lower()}"
    theirs = intel.rules(source)[f"intel.{kind.lower()}"]

    output = compiled(tmp_path, recipe, {"services": "dc"} if kind == "Qat" else {}, repository_root)
    path = output / f"node-feature-rule/nodefeaturerule-{recipe}.yaml"
    ours = yaml.load(path.read_text("utf-8"), yaml.CSafeLoader)["spec"]["rules"]

    (discovering,) = (rule for rule in ours if f"openfuyao.com/{recipe}.present" in rule.get("labels", {}))
    assert _conditions(discovering) == _conditions(theirs)
    offered = [rule["extendedResources"] for rule in ours if "extendedResources" in rule]
    assert offered == ([theirs["extendedResources"]] if "extendedResources" in theirs else [])


def _conditions(rule: Mapping[str, Any]) -> list[list[str]]:
    """Return the alternatives of which one has to hold, each as sorted texts."""
    always = rule.get("matchFeatures", ())
    alternatives = [each["matchFeatures"] for each in rule.get("matchAny", ())] or [()]
    return sorted(_terms([*always, *each]) for each in alternatives)


def _terms(terms: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted(
        json.dumps([term["feature"], name, {**test, "value": sorted(test.get("value", ()))}], sort_keys=True)
        for term in terms
        for name, test in term["matchExpressions"].items()
    )
