"""Table 1 of the KAE Operator's guide, in its order, each row set in the chart's values, imported and compiled.

Where an option has no meaning here, a test shows what `kae import` says instead.
"""

import fnmatch
import functools
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from compiler import diagnostics, pipeline
from compiler.migrate import operator_values, translation
from tests import builders

TABLE: tuple[tuple[str, Any], ...] = (
    ("nfd.enabled", True),
    ("nfd.nodefeaturerules", False),
    ("node-feature-discovery.image.repository", "registry.k8s.io/nfd/node-feature-discovery"),
    ("node-feature-discovery.image.pullPolicy", "IfNotPresent"),
    ("node-feature-discovery.image.tag", "v0.16.4"),
    ("operator.enabledHPRE", True),
    ("operator.enabledSEC", False),
    ("operator.enabledZIP", False),
    ("operator.upgradeCRD", False),
    ("operator.cleanupCRD", False),
    ("operator.image", "cr.openfuyao.cn/openfuyao/kae-operator"),
    ("operator.version", "latest"),
    ("operator.pullPolicy", "IfNotPresent"),
    ("daemonSets.labels", {}),
    ("daemonSets.tolerations", []),
    ("driver.enabled", True),
    ("driver.enabledCleanup", False),
    ("driver.repository", "cr.openfuyao.cn/openfuyao"),
    ("driver.image", "kae-driver-installer"),
    ("driver.version", "latest"),
    ("driver.env", [{"name": "INSTALL_POLICY", "value": "IfNotPresent"}]),
    ("devicePlugin.enabled", True),
    ("devicePlugin.repository", "cr.openfuyao.cn/openfuyao"),
    ("devicePlugin.image", "kae-device-plugin"),
    ("devicePlugin.version", "latest"),
    ("psa.enabled", False),
)
"""Every row's option and its default."""

DRIVER = "driver/daemonset-kae-driver-kae.yaml"
DEVICE_PLUGIN = "device-plugin/daemonset-kae-device-plugin-kae.yaml"
NAMESPACE = "namespace/namespace-kae-operator.yaml"
NFD_PODS = ("nfd/daemonset-nfd-worker.yaml", "nfd/deployment-nfd-gc.yaml", "nfd/deployment-nfd-master.yaml")
CRD = "crds/customresourcedefinition-nodefeaturerules.nfd.k8s-sigs.io.yaml"
TOLERATION = {"key": "dedicated", "operator": "Equal", "value": "kae", "effect": "NoSchedule"}

Objects = dict[str, Any]
"""The objects of a cluster by their files."""


def nested(options: dict[str, Any]) -> dict[str, Any]:
    """Values as the chart nests them, from options as `--set` writes them."""
    values: dict[str, Any] = {}
    for option, value in options.items():
        *above, last = option.split(".")
        section = values
        for name in above:
            section = section.setdefault(name, {})
        section[last] = value
    return values


def imported(options: dict[str, Any]) -> tuple[str, list[diagnostics.Diagnostic]]:
    """Return the documents that `kae import` prints for these options, and its findings."""
    values = builders.document(nested(options), "values.json")
    objects, notes = operator_values.translated([values], translation.Names(cluster="east"), builders.judge())
    return translation.text(objects), notes


def compiled(options: dict[str, Any], engine: str = "none") -> Objects:
    """The objects that these options come to, through the whole line."""
    text, _ = imported(options)
    policy, cluster = yaml.load_all(text, Loader=yaml.CSafeLoader)
    cluster["spec"]["gitops"] = {"engine": engine}
    fleet, notes = pipeline.read([builders.document(policy), builders.document(cluster)], builders.judge())
    assert not diagnostics.has_errors(notes)
    return builders.objects(fleet.policies, (), fleet.clusters[0])


@functools.cache
def usual() -> Objects:
    """The objects for an operator without any option."""
    return compiled({})


def changed(objects: Objects) -> set[str]:
    """The files that differ from the usual ones, or are gone, or new."""
    before = usual()
    return {path for path in objects.keys() | before.keys() if objects.get(path) != before.get(path)}


def container(workload: Any) -> Any:
    """The one container of a workload."""
    (only,) = workload["spec"]["template"]["spec"]["containers"]
    return only


def config(workload: Any) -> Any:
    """The config of a program of ours."""
    return json.loads(workload["spec"]["template"]["metadata"]["annotations"]["device.openfuyao.com/config"])


def kinds(workload: Any) -> set[str]:
    """The labels by which a DaemonSet knows a node that it serves."""
    affinity = workload["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return {term["matchExpressions"][0]["key"] for term in terms}


ROWS: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
    ("nfd.enabled", False, ("nfd/", "crds/", "node-feature-rule/")),
    ("nfd.nodefeaturerules", True, ()),
    ("node-feature-discovery.image.repository", "mirror.example.com/nfd", NFD_PODS),
    ("node-feature-discovery.image.pullPolicy", "Always", NFD_PODS),
    ("node-feature-discovery.image.tag", "v0.17.3", NFD_PODS),
    ("operator.enabledHPRE", False, (DRIVER, DEVICE_PLUGIN)),
    ("operator.enabledSEC", True, (DRIVER, DEVICE_PLUGIN)),
    ("operator.enabledZIP", True, (DRIVER, DEVICE_PLUGIN)),
    ("operator.upgradeCRD", True, ()),
    ("operator.cleanupCRD", True, ()),
    ("operator.image", "example.com/operator", ()),
    ("operator.version", "v24.09", ()),
    ("operator.pullPolicy", "Always", ()),
    ("daemonSets.labels", {"example.com/team": "kae"}, (DRIVER, DEVICE_PLUGIN)),
    ("daemonSets.tolerations", [TOLERATION], (DRIVER, DEVICE_PLUGIN, "nfd/daemonset-nfd-worker.yaml")),
    ("driver.enabled", False, ("driver/", "guard/", "node-feature-rule/nodefeaturerule-kae.yaml")),
    # Its rights outlive the policy, so it has a Role of its own.
    ("driver.enabledCleanup", True, (DRIVER, "driver/role-", "driver/clusterrolebinding-")),
    ("driver.repository", "docker.io/example", (DRIVER,)),
    ("driver.image", "own-driver", (DRIVER,)),
    ("driver.version", "0.1", (DRIVER,)),
    ("driver.env", [{"name": "INSTALL_POLICY", "value": "Always"}], (DRIVER,)),
    ("devicePlugin.enabled", False, ("device-plugin/",)),
    ("devicePlugin.repository", "docker.io/example", (DEVICE_PLUGIN,)),
    ("devicePlugin.image", "own-plugin", (DEVICE_PLUGIN,)),
    ("devicePlugin.version", "0.1", (DEVICE_PLUGIN,)),
    ("psa.enabled", True, (NAMESPACE,)),
)
"""Every row's option with another value, and how the paths of the files begin that it changes."""


def test_every_row_is_tried_and_is_an_option_that_import_knows() -> None:
    options = [option for option, _ in TABLE]

    assert [option for option, *_ in ROWS] == options
    assert {tuple(option.split(".")) for option in options} <= operator_values.OPTIONS.keys()


@pytest.mark.parametrize(("option", "value", "beginnings"), ROWS, ids=[option for option, *_ in ROWS])
def test_a_row_changes_the_files_that_it_is_about(option: str, value: object, beginnings: tuple[str, ...]) -> None:
    # A cluster without any device would have no driver.
    more = {"operator.enabledZIP": True} if option == "operator.enabledHPRE" else {}

    objects = compiled({option: value, **more})

    assert changed(objects) == {path for path in objects.keys() | usual().keys() if path.startswith(beginnings)}


def test_the_default_of_each_row_is_the_default_here() -> None:
    # The variable of driver.env is on the pod when somebody wrote it; what it says is the default.
    env = dict(TABLE)["driver.env"]

    assert config(compiled({"driver.env": env})[DRIVER]) == config(usual()[DRIVER])
    assert changed(compiled({option: default for option, default in TABLE if option != "driver.env"})) == set()


def test_nodefeaturerules_keeps_the_rules_for_somebody_elses_nfd() -> None:
    objects = compiled({"nfd.enabled": False, "nfd.nodefeaturerules": True})

    rule = "node-feature-rule/nodefeaturerule-kae.yaml"
    assert objects[rule] == usual()[rule]
    assert not any(path.startswith("nfd/") for path in objects)


OPERATOR = "cr.openfuyao.cn/openfuyao"


@pytest.mark.parametrize(
    ("options", "paths", "image"),
    [
        ({"node-feature-discovery.image.repository": "example.com/nfd"}, NFD_PODS, "example.com/nfd:v0.16.4"),
        (
            {"node-feature-discovery.image.tag": "v0.17.3"},
            NFD_PODS,
            "registry.k8s.io/nfd/node-feature-discovery:v0.17.3",
        ),
        ({"driver.repository": "docker.io/example"}, [DRIVER], "docker.io/example/kae-driver-installer:latest"),
        ({"driver.image": "own-driver"}, [DRIVER], f"{OPERATOR}/own-driver:latest"),
        ({"driver.image": "own", "driver.repository": "", "driver.version": ""}, [DRIVER], "own"),
        ({"driver.version": "0.1"}, [DRIVER], f"{OPERATOR}/kae-driver-installer:0.1"),
        ({"devicePlugin.repository": "example.com"}, [DEVICE_PLUGIN], "example.com/kae-device-plugin:latest"),
        ({"devicePlugin.image": "own-plugin"}, [DEVICE_PLUGIN], f"{OPERATOR}/own-plugin:latest"),
        (
            {"devicePlugin.image": "own", "devicePlugin.repository": "", "devicePlugin.version": ""},
            [DEVICE_PLUGIN],
            "own",
        ),
        ({"devicePlugin.version": "0.1"}, [DEVICE_PLUGIN], f"{OPERATOR}/kae-device-plugin:0.1"),
    ],
)
def test_an_image_is_a_repository_a_name_and_a_version_or_the_name_alone(
    options: dict[str, Any], paths: list[str], image: str
) -> None:
    objects = compiled(options)

    assert {container(objects[path])["image"] for path in paths} == {image}


def test_the_pull_policy_of_nfd_is_that_of_its_pods() -> None:
    objects = compiled({"node-feature-discovery.image.pullPolicy": "Always"})

    assert {container(objects[path])["imagePullPolicy"] for path in NFD_PODS} == {"Always"}


@pytest.mark.parametrize(
    ("options", "offered"),
    [
        ({"operator.enabledHPRE": False, "operator.enabledZIP": True}, ["zip"]),
        ({"operator.enabledSEC": True}, ["hpre", "sec"]),
        ({"operator.enabledZIP": True}, ["hpre", "zip"]),
    ],
)
def test_the_kinds_of_devices_that_are_enabled_are_offered(options: dict[str, bool], offered: list[str]) -> None:
    objects = compiled(options)

    for path in (DRIVER, DEVICE_PLUGIN):
        assert kinds(objects[path]) == {f"openfuyao.com/kae.{kind}.present" for kind in offered}
    resources = [resource["name"] for resource in config(objects[DEVICE_PLUGIN])["resources"]]
    assert resources == [f"openfuyao.com/kae.{kind}" for kind in offered]


@pytest.mark.parametrize(
    ("option", "value", "message", "note"),
    [
        ("operator.enabledSEC", True, "means something else here", "offered as openfuyao.com/kae.sec"),
        ("operator.enabledZIP", True, "means something else here", "offered as openfuyao.com/kae.zip"),
        ("operator.upgradeCRD", True, "is not carried over", "Definitions are manifests here"),
        ("operator.cleanupCRD", True, "means something else here", "'crd.cleanup'"),
        ("operator.image", "example.com/operator", "is not carried over", "There is no controller"),
        ("operator.version", "v24.09", "is not carried over", "There is no controller"),
        ("operator.pullPolicy", "Always", "is not carried over", "There is no controller"),
    ],
)
def test_import_says_what_has_another_meaning_or_none_here(option: str, value: object, message: str, note: str) -> None:
    _, findings = imported({option: value})

    assert not diagnostics.has_errors(findings)
    notes = {finding.message: " ".join(finding.notes) for finding in findings}
    assert note in notes[f"'{option}' {message}."]


@pytest.mark.parametrize(
    ("engine", "key", "stays"),
    [
        ("argocd", "argocd.argoproj.io/sync-options", "Prune=false"),
        ("flux", "kustomize.toolkit.fluxcd.io/prune", "disabled"),
    ],
)
def test_cleanupcrd_lets_the_engine_delete_the_definitions(engine: str, key: str, stays: str) -> None:
    kept = compiled({}, engine)[CRD]["metadata"]["annotations"]
    cleaned = compiled({"operator.cleanupCRD": True}, engine)[CRD]["metadata"].get("annotations", {})

    assert stays in kept[key]
    assert stays not in cleaned.get(key, "")


def test_labels_and_tolerations_of_daemonsets_are_those_of_their_pods() -> None:
    objects = compiled({"daemonSets.labels": {"example.com/team": "kae"}, "daemonSets.tolerations": [TOLERATION]})

    for path in (DRIVER, DEVICE_PLUGIN):
        assert objects[path]["spec"]["template"]["metadata"]["labels"]["example.com/team"] == "kae"
        assert objects[path]["spec"]["selector"] == usual()[path]["spec"]["selector"]
    for path in (DRIVER, DEVICE_PLUGIN, "nfd/daemonset-nfd-worker.yaml"):
        assert TOLERATION in objects[path]["spec"]["template"]["spec"]["tolerations"]


def test_enabledcleanup_tells_the_installer_to_clean_up_and_gives_it_time() -> None:
    now, before = compiled({"driver.enabledCleanup": True})[DRIVER], usual()[DRIVER]

    assert config(now)["enabledCleanup"] is True
    grace_s, before_s = (each["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] for each in (now, before))
    assert grace_s > before_s


def test_the_version_of_the_driver_is_the_one_that_the_installer_provides() -> None:
    assert config(compiled({"driver.version": "0.1"})[DRIVER])["driverVersion"] == "0.1"


@pytest.mark.parametrize(
    "env", [[{"name": "INSTALL_POLICY", "value": "Always"}], {"INSTALL_POLICY": "Always"}, "Always"]
)
def test_install_policy_always_replaces_a_driver_that_is_there(env: object) -> None:
    driver = compiled({"driver.env": env})[DRIVER]

    assert {"name": "INSTALL_POLICY", "value": "Always"} in container(driver)["env"]
    assert config(driver)["installPolicy"] == "Always"


def test_psa_labels_the_namespace_as_privileged() -> None:
    labels = compiled({"psa.enabled": True})[NAMESPACE]["metadata"]["labels"]

    levels = {labels[f"pod-security.kubernetes.io/{mode}"] for mode in ("enforce", "audit", "warn")}
    assert levels == {"privileged"}


def test_each_row_of_table_1_says_where_the_option_goes(repository_root: Path) -> None:
    page = (repository_root / "docs/coming-from-kae-operator.md").read_text()
    rows = [
        (re.findall("`([^`]+)`", left), here) for left, here in re.findall(r"^\| (`.*) \| (.*) \|$", page, re.MULTILINE)
    ]

    for option, _ in TABLE:
        (here,) = (here for patterns, here in rows if any(fnmatch.fnmatchcase(option, each) for each in patterns))
        known = operator_values.OPTIONS[tuple(option.split("."))]
        target = ".".join(map(str, known.target[1:])) if known.kind else ""
        if known.kind is None:
            assert here.startswith("nothing: ")
        elif here.endswith("the same name"):
            assert (here.partition(",")[0], target) == (known.kind, option)
        else:
            kind, _, named = here.partition(" ")
            assert kind == known.kind
            assert fnmatch.fnmatchcase(target, named.strip("`"))
