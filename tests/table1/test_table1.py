"""Table 1 of the KAE Operator's guide, in its order, each row set in the chart's values, imported and compiled.

Where an option has no meaning here, the test shows what `kae import` says instead.
"""

import functools
import json
from typing import Any

import pytest
import yaml

from compiler import diagnostics, pipeline, schema
from compiler.formats import canonical, decode
from compiler.migrate import drafts, operator_options, operator_values
from compiler.project import package_data
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
    text = json.dumps(nested(options))
    read, found = decode.decode("values.json", text.encode())
    assert found == []
    judge = schema.Judge(package_data.schemas())
    objects, notes = operator_values.translated(read, drafts.Names(cluster="east"), judge)
    return operator_values.text(objects), notes


def said(options: dict[str, Any]) -> dict[str, str]:
    """Return the messages of `kae import` with their notes."""
    _, notes = imported(options)
    assert not diagnostics.has_errors(notes)
    return {note.message: " ".join(note.notes) for note in notes}


def compiled(options: dict[str, Any], engine: str = "none") -> Objects:
    """The objects that these options come to, through the whole line."""
    text, _ = imported(options)
    policy, cluster = yaml.load_all(text, Loader=yaml.CSafeLoader)
    cluster["spec"]["gitops"] = {"engine": engine}
    text = f"{canonical.dump_yaml(policy)}---\n{canonical.dump_yaml(cluster)}"
    read, found = decode.decode("policies/imported.yaml", text.encode())
    fleet, notes = pipeline.read(read, schema.Judge(package_data.schemas()))
    view, more = pipeline.plan_cluster(fleet, fleet.clusters[0])
    assert not diagnostics.has_errors([*found, *notes, *more])
    files = builders.compiled(view).files
    return {path: yaml.load(text, Loader=yaml.CSafeLoader) for path, text in files if path.endswith(".yaml")}


@functools.cache
def usual() -> Objects:
    """The objects for an operator without any option."""
    return compiled({})


def changed(objects: Objects) -> set[str]:
    """The files that differ from the usual ones, or are gone, or new."""
    before = usual()
    listing = "kustomization.yaml"  # follows from the other files
    return {path for path in objects.keys() | before.keys() if objects.get(path) != before.get(path)} - {listing}


def container(found: Any) -> Any:
    """The one container of a workload."""
    (only,) = found["spec"]["template"]["spec"]["containers"]
    return only


def config(found: Any) -> Any:
    """The config of a program of ours."""
    return json.loads(found["spec"]["template"]["metadata"]["annotations"]["device.openfuyao.com/config"])


def kinds(found: Any) -> set[str]:
    """The labels by which a DaemonSet knows a node that it serves."""
    affinity = found["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return {term["matchExpressions"][0]["key"] for term in terms}


def test_nfd_enabled__false_leaves_nfd_and_its_definitions_out() -> None:
    objects = compiled({"nfd.enabled": False})

    assert changed(objects) == {path for path in usual() if path.startswith(("nfd/", "crds/", "node-feature-rule/"))}


def test_nfd_nodefeaturerules__true_keeps_the_rules_for_somebody_elses_nfd() -> None:
    objects = compiled({"nfd.enabled": False, "nfd.nodefeaturerules": True})

    rule = objects["node-feature-rule/nodefeaturerule-kae.yaml"]
    assert rule == usual()["node-feature-rule/nodefeaturerule-kae.yaml"]
    assert not any(path.startswith("nfd/") for path in objects)


def test_node_feature_discovery_image_repository__is_where_nfd_is_pulled_from() -> None:
    objects = compiled({"node-feature-discovery.image.repository": "mirror.example.com/nfd"})

    assert changed(objects) == set(NFD_PODS)
    assert {container(objects[path])["image"] for path in NFD_PODS} == {"mirror.example.com/nfd:v0.16.4"}


def test_node_feature_discovery_image_pullpolicy__is_that_of_nfds_pods() -> None:
    objects = compiled({"node-feature-discovery.image.pullPolicy": "Always"})

    assert changed(objects) == set(NFD_PODS)
    assert {container(objects[path])["imagePullPolicy"] for path in NFD_PODS} == {"Always"}


def test_node_feature_discovery_image_tag__is_the_release_of_nfd() -> None:
    objects = compiled({"node-feature-discovery.image.tag": "v0.17.3"})

    images = {container(objects[path])["image"] for path in NFD_PODS}
    assert images == {"registry.k8s.io/nfd/node-feature-discovery:v0.17.3"}


def test_operator_enabledhpre__false_offers_no_hpre_devices() -> None:
    objects = compiled({"operator.enabledHPRE": False, "operator.enabledZIP": True})

    for path in (DRIVER, DEVICE_PLUGIN):
        assert kinds(objects[path]) == {"openfuyao.com/kae.zip.present"}
    assert [kind["resource"] for kind in config(objects[DEVICE_PLUGIN])["kinds"]] == ["openfuyao.com/kae.zip"]


def test_operator_enabledsec__true_offers_sec_devices_which_the_operator_reserved() -> None:
    objects = compiled({"operator.enabledSEC": True})
    words = said({"operator.enabledSEC": True})

    assert changed(objects) == {DRIVER, DEVICE_PLUGIN}
    assert "openfuyao.com/kae.sec.present" in kinds(objects[DRIVER]) & kinds(objects[DEVICE_PLUGIN])
    assert "openfuyao.com/kae.sec" in [kind["resource"] for kind in config(objects[DEVICE_PLUGIN])["kinds"]]
    assert "offered as openfuyao.com/kae.sec" in words["'operator.enabledSEC' means something else here."]


def test_operator_enabledzip__true_offers_zip_devices_which_the_operator_reserved() -> None:
    objects = compiled({"operator.enabledZIP": True})
    words = said({"operator.enabledZIP": True})

    assert changed(objects) == {DRIVER, DEVICE_PLUGIN}
    assert "openfuyao.com/kae.zip.present" in kinds(objects[DRIVER]) & kinds(objects[DEVICE_PLUGIN])
    assert "openfuyao.com/kae.zip" in [kind["resource"] for kind in config(objects[DEVICE_PLUGIN])["kinds"]]
    assert "offered as openfuyao.com/kae.zip" in words["'operator.enabledZIP' means something else here."]


def test_operator_upgradecrd__has_no_meaning_as_definitions_are_manifests() -> None:
    objects = compiled({"operator.upgradeCRD": True})
    words = said({"operator.upgradeCRD": True})

    assert changed(objects) == set()
    assert "Definitions are manifests here" in words["'operator.upgradeCRD' is not carried over."]


@pytest.mark.parametrize("engine", ["argocd", "flux"])
def test_operator_cleanupcrd__true_lets_the_engine_delete_the_definitions(engine: str) -> None:
    kept = compiled({}, engine)[CRD]["metadata"]["annotations"]
    cleaned = compiled({"operator.cleanupCRD": True}, engine)[CRD]["metadata"].get("annotations", {})
    words = said({"operator.cleanupCRD": True})

    key, stays = {
        "argocd": ("argocd.argoproj.io/sync-options", "Prune=false"),
        "flux": ("kustomize.toolkit.fluxcd.io/prune", "disabled"),
    }[engine]
    assert stays in kept[key]
    assert stays not in cleaned.get(key, "")
    assert "'crd.cleanup'" in words["'operator.cleanupCRD' means something else here."]


def test_operator_image__has_no_meaning_as_there_is_no_controller() -> None:
    objects = compiled({"operator.image": "example.com/operator"})
    words = said({"operator.image": "example.com/operator"})

    assert changed(objects) == set()
    assert "There is no controller" in words["'operator.image' is not carried over."]


def test_operator_version__has_no_meaning_as_there_is_no_controller() -> None:
    objects = compiled({"operator.version": "v24.09"})
    words = said({"operator.version": "v24.09"})

    assert changed(objects) == set()
    assert "There is no controller" in words["'operator.version' is not carried over."]


def test_operator_pullpolicy__has_no_meaning_as_there_is_no_controller() -> None:
    objects = compiled({"operator.pullPolicy": "Always"})
    words = said({"operator.pullPolicy": "Always"})

    assert changed(objects) == set()
    assert "There is no controller" in words["'operator.pullPolicy' is not carried over."]


def test_daemonsets_labels__are_on_every_pod_of_ours_and_in_no_selector() -> None:
    objects = compiled({"daemonSets.labels": {"example.com/team": "kae"}})

    assert changed(objects) == {DRIVER, DEVICE_PLUGIN}
    for path in (DRIVER, DEVICE_PLUGIN):
        assert objects[path]["spec"]["template"]["metadata"]["labels"]["example.com/team"] == "kae"
        assert objects[path]["spec"]["selector"] == usual()[path]["spec"]["selector"]


def test_daemonsets_tolerations__are_those_of_every_pod_of_ours_and_of_nfds_workers() -> None:
    objects = compiled({"daemonSets.tolerations": [TOLERATION]})

    assert changed(objects) == {DRIVER, DEVICE_PLUGIN, "nfd/daemonset-nfd-worker.yaml"}
    for path in changed(objects):
        assert TOLERATION in objects[path]["spec"]["template"]["spec"]["tolerations"]


def test_driver_enabled__false_leaves_a_driver_that_is_installed_already_alone() -> None:
    objects = compiled({"driver.enabled": False})

    assert changed(objects) == {path for path in usual() if path.startswith(("driver/", "guard/"))}
    assert DEVICE_PLUGIN in objects


def test_driver_enabledcleanup__true_tells_the_installer_to_clean_up_and_gives_it_time() -> None:
    objects = compiled({"driver.enabledCleanup": True})

    # Its rights outlive the policy, so it has a Role of its own.
    rights = {f"driver/{kind}-kae-driver{policy}.yaml" for kind in ("role", "rolebinding") for policy in ("", "-kae")}
    assert changed(objects) == {DRIVER, *rights}
    assert config(objects[DRIVER])["enabledCleanup"] is True
    grace, before = (
        found[DRIVER]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] for found in (objects, usual())
    )
    assert grace > before


def test_driver_repository__is_where_the_driver_is_pulled_from() -> None:
    objects = compiled({"driver.repository": "docker.io/example"})

    assert changed(objects) == {DRIVER}
    assert container(objects[DRIVER])["image"] == "docker.io/example/kae-driver-installer:latest"


@pytest.mark.parametrize(
    ("more", "image"),
    [
        ({}, "cr.openfuyao.cn/openfuyao/own-driver:latest"),
        ({"driver.repository": "", "driver.version": ""}, "own-driver"),
    ],
)
def test_driver_image__is_a_name_or_the_whole_path_where_repository_and_version_are_empty(
    more: dict[str, str], image: str
) -> None:
    objects = compiled({"driver.image": "own-driver", **more})

    assert changed(objects) == {DRIVER}
    assert container(objects[DRIVER])["image"] == image


def test_driver_version__is_the_tag_of_the_image_and_what_the_installer_provides() -> None:
    objects = compiled({"driver.version": "0.1"})

    assert changed(objects) == {DRIVER}
    assert container(objects[DRIVER])["image"] == "cr.openfuyao.cn/openfuyao/kae-driver-installer:0.1"
    assert config(objects[DRIVER])["driverVersion"] == "0.1"


@pytest.mark.parametrize(
    "env", [[{"name": "INSTALL_POLICY", "value": "Always"}], {"INSTALL_POLICY": "Always"}, "Always"]
)
def test_driver_env__install_policy_always_replaces_a_driver_that_is_there(env: object) -> None:
    objects = compiled({"driver.env": env})

    assert changed(objects) == {DRIVER}
    assert {"name": "INSTALL_POLICY", "value": "Always"} in container(objects[DRIVER])["env"]
    assert config(objects[DRIVER])["installPolicy"] == "Always"


def test_deviceplugin_enabled__false_leaves_a_device_plugin_that_is_installed_already_alone() -> None:
    objects = compiled({"devicePlugin.enabled": False})

    assert changed(objects) == {path for path in usual() if path.startswith("device-plugin/")}
    assert DRIVER in objects


def test_deviceplugin_repository__is_where_the_device_plugin_is_pulled_from() -> None:
    objects = compiled({"devicePlugin.repository": "docker.io/example"})

    assert changed(objects) == {DEVICE_PLUGIN}
    assert container(objects[DEVICE_PLUGIN])["image"] == "docker.io/example/kae-device-plugin:latest"


@pytest.mark.parametrize(
    ("more", "image"),
    [
        ({}, "cr.openfuyao.cn/openfuyao/own-plugin:latest"),
        ({"devicePlugin.repository": "", "devicePlugin.version": ""}, "own-plugin"),
    ],
)
def test_deviceplugin_image__is_a_name_or_the_whole_path_where_repository_and_version_are_empty(
    more: dict[str, str], image: str
) -> None:
    objects = compiled({"devicePlugin.image": "own-plugin", **more})

    assert changed(objects) == {DEVICE_PLUGIN}
    assert container(objects[DEVICE_PLUGIN])["image"] == image


def test_deviceplugin_version__is_the_tag_of_the_image() -> None:
    objects = compiled({"devicePlugin.version": "0.1"})

    assert changed(objects) == {DEVICE_PLUGIN}
    assert container(objects[DEVICE_PLUGIN])["image"] == "cr.openfuyao.cn/openfuyao/kae-device-plugin:0.1"


def test_psa_enabled__true_labels_the_namespace_as_privileged() -> None:
    objects = compiled({"psa.enabled": True})

    assert changed(objects) == {NAMESPACE}
    labels = objects[NAMESPACE]["metadata"]["labels"]
    assert {
        mode: labels[f"pod-security.kubernetes.io/{mode}"] for mode in ("enforce", "audit", "warn")
    } == dict.fromkeys(("enforce", "audit", "warn"), "privileged")


def test_every_row_has_its_test_in_the_order_of_the_table() -> None:
    tests = (name.removeprefix("test_").partition("__") for name in globals() if name.startswith("test_"))
    rows = dict.fromkeys(row for row, separator, _ in tests if separator)

    assert list(rows) == [option.replace(".", "_").replace("-", "_").lower() for option, _ in TABLE]


def test_every_row_is_an_option_that_import_knows() -> None:
    rows = {tuple(option.split(".")) for option, _ in TABLE}

    assert rows <= operator_options.OPTIONS.keys()


def test_the_default_of_each_row_is_the_default_here() -> None:
    # The variable of driver.env is on the pod when somebody wrote it; what it says is the default.
    env = dict(TABLE)["driver.env"]

    assert config(compiled({"driver.env": env})[DRIVER]) == config(usual()[DRIVER])
    assert changed(compiled({option: default for option, default in TABLE if option != "driver.env"})) == set()
