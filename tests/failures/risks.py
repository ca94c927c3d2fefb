"""The changes that earn a risk, each as documents before it and after it."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tests import project, revisions
from tests.failures import projects

_DRIVER = "    version: 2.2.0\n"
_WAVE = f"""\
{_DRIVER}    rollout:
      waves:
        - name: canary
          nodes: [kp-1]
          version: 2.2.0
"""
_PAIR = _WAVE.replace("[kp-1]\n          version: 2.2.0", "[kp-1, kp-2]\n          version: 2.3.0")
_TRIED = _WAVE.replace("          version: 2.2.0", "          version: 2.3.0")
_FROZEN = f"""\
{_DRIVER}    rollout:
      frozen:
        - name: sick
          nodes: [kp-1]
          version: 2.1.0
"""
_NFD = "  nfd:\n    enabled: false\n"


def _driver(text: str) -> dict[str, str]:
    """Return the policy with these lines in place of its driver's version."""
    return {"policies/tls.yaml": projects.POLICY.replace(_DRIVER, text)}


def _cluster(text: str) -> dict[str, str]:
    """Return the cluster with these lines in its spec."""
    return {"policies/east.yaml": projects.CLUSTER + text}


_NODES = projects.inventory(*(projects.node(f"kp-{number}") for number in range(1, 5)))


def _failed() -> str:
    """Return the inventory whose first node has its former driver, by its labels, as the change failed."""
    labels = {"openfuyao.com/kae.driver-version": "2.2.0", "openfuyao.com/kae.driver-state": "Failed"}
    nodes = [projects.node(f"kp-{number}", **(labels if number == 1 else {})) for number in range(1, 5)]
    return projects.inventory(*nodes)


_ONE_NODE = {"inventory/east.json": projects.inventory(projects.node("kp-1"))}


def _dra(text: str) -> dict[str, str]:
    """Return the policy with the interface DRA and these lines, in a cluster and on a node that have it."""
    plugin = "  devicePlugin:\n    version: 1.4.1\n"
    node = projects.node("kp-1")
    node["status"]["nodeInfo"] |= {"kubeletVersion": "v1.36.3", "containerRuntimeVersion": "containerd://2.1.4"}
    return {
        "policies/tls.yaml": projects.POLICY.replace(plugin, f"{plugin}    interface: DRA\n{text}"),
        "policies/east.yaml": projects.CLUSTER.replace("1.31", "1.36"),
        "inventory/east.json": projects.inventory(node),
    }


def _packages(url: str, more: str = "") -> dict[str, str]:
    """Return the policy of one node with packages from a repository."""
    source = f"    source:\n      packages:\n        names: [kae_driver]\n        repositories: [{url}]\n{more}"
    return {**_driver(_DRIVER + source), **_ONE_NODE}


_RECIPE = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: Recipe
metadata:
  name: nic
spec:
  title: A network stack
  match: {all: {}}
  images:
    installer: {repository: registry.example.com/kae, image: kae-driver-installer, version: 2.3.0}
  driver:
    image: installer
    modules: [{name: nic, network: true}]
"""


def _written(release: str) -> dict[str, str]:
    """Return an object of the output as a release of kae made it."""
    text = f"kind: PodMonitor\nrelease: {release}\n"
    return {"output/east/monitoring/podmonitor-kae-driver.yaml": text, "output/east/index.json": "{}\n"}


def _network(driver: str) -> dict[str, str]:
    """Return a policy of a recipe whose module has the node's network, with these lines."""
    head = "apiVersion: device.openfuyao.com/v1alpha1\nkind: DevicePolicy\nmetadata:\n  name: nic\n"
    return {"recipes/nic/recipe.yaml": _RECIPE, "policies/nic.yaml": f"{head}spec:\n  recipe: nic\n{driver}"}


def _offering(resource: str) -> dict[str, str]:
    """Return a recipe with a program that offers a resource."""
    own = projects.program()
    return {name: text.replace("disrupts: true", f"offers: [{resource}]") for name, text in own.items()}


def _adding(variables: str) -> dict[str, str]:
    """Return a recipe that has the API server add variables to pods that ask for its resource."""
    own = _offering("example.com/net")
    own["policies/east.yaml"] = projects.CLUSTER.replace("1.31", "1.36")
    own["recipes/net/recipe.yaml"] += f"""\
  admission:
    - name: ask
      resources: [example.com/net]
      mutations:
        - applyConfiguration: >-
            Object{{spec: Object.spec{{containers: object.spec.containers.map(c, Object.spec.containers{{
            name: c.name, env: [{variables}]}})}}}}
"""
    return own


_VARIABLE = 'Object.spec.containers.env{name: "NET_LEVEL", value: "2"}'

_INDEX = {
    "output/east/index.json": '{"version": 2, "complete": true, "declared": true, "hasNodes": true, "files": [], '
    '"workloads": []}\n'
}

_MIRROR = "https://mirror.example.com/kae"

_BASE = {**_driver(_DRIVER), **_cluster(""), "inventory/east.json": _NODES}

CHANGES: Mapping[str, tuple[dict[str, str], dict[str, str]]] = MappingProxyType(
    {
        "privilege-gained": (_driver(f"{_DRIVER}    drain:\n      enabled: false\n"), _driver(_DRIVER)),
        "large-step": ({}, _driver(_DRIVER.replace("2.2.0", "2.3.0"))),
        "pace-bypassed": ({}, _driver(_PAIR)),
        "waves-skipped": (_driver(_WAVE), _driver(_WAVE.replace("2.2.0", "2.3.0"))),
        "wave-unproven": (
            {**_driver(_TRIED), "inventory/east.json": _failed()},
            _driver(_TRIED.replace(_DRIVER, "    version: 2.3.0\n", 1)),
        ),
        "frozen-touched": (_driver(_FROZEN), _driver(_FROZEN.replace("2.1.0", "2.2.0"))),
        "driver-removed": ({}, _driver(f"{_DRIVER}    state: Absent\n")),
        "claims-unended": (_dra(""), _dra("    enabled: false\n")),
        "program-removed": (projects.program(), projects.program("  programs: {plugin: {enabled: false}}\n")),
        "resource-withdrawn": (_offering("example.com/net"), _offering("example.com/nets")),
        "admission-withdrawn": (_adding(_VARIABLE), _adding("")),
        "match-changed": (projects.npu(), projects.npu("d802, d803")),
        "program-disrupts": (projects.program(), projects.program("  values: {level: 2}\n")),
        "driver-downgrade": (_driver(_WAVE), _driver(_WAVE.replace("      version: 2.2.0", "      version: 2.1.0"))),
        "drain-unbounded": ({}, _driver(f"{_DRIVER}    rollout:\n      maxParallel: 10\n")),
        "guard-off": ({}, {"policies/east.yaml": projects.CLUSTER.replace("1.31", "1.29")}),
        "crd-pruned": ({}, _cluster(_NFD)),
        "namespace-pruned": ({}, _cluster("  namespace: kae-prod\n")),
        "registry-changed": (_ONE_NODE, _driver(f"    repository: registry.example.com/kae\n{_DRIVER}")),
        "repository-changed": (
            {**_packages(_MIRROR), **_cluster("")},
            {
                **_packages("http://mirror.example.com/kae"),
                **_cluster("  images:\n    mirrors:\n      - {from: cr.openfuyao.cn, to: cr.openfuyao.cn/mirror}\n"),
            },
        ),
        "signatures-off": (_packages(_MIRROR), _packages(_MIRROR, "        gpgCheck: false\n")),
        "output-moved": (_INDEX, {"kae.yaml": "output: rendered\n", **dict.fromkeys(_INDEX, "")}),
        "output-unexplained": (_written("2.2.0"), _written("2.2.1")),
        "network-forced": (_network(""), _network("  driver:\n    network: {force: true}\n")),
    }
)
"""By code, what differs from a project with one cluster, one policy and four nodes; an empty file is none."""


def prepare(code: str, folder: Path) -> None:
    """Commit the documents before a change in an empty folder, and make the change."""
    before, after = CHANGES[code]
    project.write(folder, {**_BASE, **before})
    revisions.commit(folder)
    project.write(folder, after)
    for name in (name for name, text in after.items() if not text):
        (folder / name).unlink()
