"""Objects for the GitOps engines: nothing waits for hardware, nothing precious is pruned, nothing is substituted."""

import fnmatch
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from compiler.fleet import definitions
from compiler.rendering import gitops
from tests import builders
from tests.golden import trees

WAVE = "argocd.argoproj.io/sync-wave"
SYNC = "argocd.argoproj.io/sync-options"
COMPARE = "argocd.argoproj.io/compare-options"
PRUNE = "kustomize.toolkit.fluxcd.io/prune"
SUBSTITUTE = "kustomize.toolkit.fluxcd.io/substitute"
APPLICATION = "bootstrap/application-kae-east.yaml"
PROJECT = "bootstrap/appproject-kae-east.yaml"
KUSTOMIZATION = "bootstrap/kustomization-kae-east.yaml"
URL = "https://git.test/fleet.git"

EVERYTHING: dict[str, Any] = {
    "platform": "openshift",
    "networkPolicies": {"enabled": True},
    "monitoring": {"enabled": True},
    "watcher": {
        "enabled": True,
        "mode": "CronJob",
        "repository": {"url": "https://git.test/i.git"},
        "secretName": "git",  # the name of a Secret
    },
}
PACKAGES = {"source": {"packages": {"names": ["kae-${DRIVER_VERSION}"]}}, "version": "2.2.0"}


def applied(engine: str, *policies: definitions.Policy, **cluster: Any) -> dict[str, Any]:
    """Return the files that an engine applies for a cluster with every component."""
    spec: dict[str, Any] = EVERYTHING | {"gitops": {"engine": engine}} | cluster
    chosen = policies or (builders.policy("tls", driver={"metrics": {"enabled": True}}),)
    objects = builders.objects(chosen, (), builders.cluster(**spec))
    return {path: data for path, data in objects.items() if not path.startswith("bootstrap/")}


def annotations(data: Any, prefixes: tuple[str, ...] = ("argocd.argoproj.io", "kustomize.toolkit")) -> dict[str, str]:
    every = data["metadata"].get("annotations", {})
    return {key: value for key, value in every.items() if key.startswith(prefixes)}


def bootstrap(**spec: Any) -> dict[str, Any]:
    objects = builders.objects((), (), builders.cluster(gitops=spec))
    return {path: data for path, data in objects.items() if path.startswith("bootstrap/")}


def test_without_an_engine_no_object_speaks_to_one() -> None:
    objects = applied("none")

    assert builders.components(objects) >= {"namespace", "crds", "nfd", "guard", "driver", "watcher", "monitoring"}
    assert [path for path, data in objects.items() if annotations(data)] == []
    assert bootstrap(engine="none", repository={"url": URL}) == {}


def test_every_workload_is_in_the_last_wave_and_all_else_before_it() -> None:
    waves = {path: (data["kind"], int(annotations(data).get(WAVE, "0"))) for path, data in applied("argocd").items()}

    workloads = {wave for kind, wave in waves.values() if kind in ("CronJob", "DaemonSet", "Deployment")}
    others = {wave for kind, wave in waves.values() if kind not in ("CronJob", "DaemonSet", "Deployment")}
    assert workloads == {0}
    assert max(others) < 0


def test_what_others_need_comes_first() -> None:
    waves = {data["kind"]: int(annotations(data).get(WAVE, "0")) for data in applied("argocd").values()}

    assert waves["Namespace"] < waves["CustomResourceDefinition"] < waves["NodeFeatureRule"] < waves["DaemonSet"]


def test_large_kinds_rights_and_the_guard_are_applied_by_the_server_and_no_others() -> None:
    kinds = {
        data["kind"] for data in applied("argocd").values() if "ServerSideApply=true" in annotations(data).get(SYNC, "")
    }

    rights = {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "SecurityContextConstraints"}
    guard = {"NetworkPolicy", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    assert kinds == {"CustomResourceDefinition", "NodeFeatureRule"} | rights | guard


@pytest.mark.parametrize("engine", ["argocd", "flux"])
@pytest.mark.parametrize(
    ("cleanup", "kept"), [(False, {"Namespace", "CustomResourceDefinition"}), (True, {"Namespace"})]
)
def test_the_namespace_is_never_pruned_and_definitions_only_where_that_is_wanted(
    engine: str, cleanup: bool, kept: set[str]
) -> None:
    objects = applied(engine, crd={"cleanup": cleanup})

    never = {
        data["kind"]
        for data in objects.values()
        if "Prune=false,Delete=false" in annotations(data).get(SYNC, "") or annotations(data).get(PRUNE) == "disabled"
    }

    assert never == kept


def kept(engine: str, *policies: definitions.Policy) -> set[str]:
    """The files of the driver whose objects the engine does not delete when they leave the output."""
    files = {path: data for path, data in applied(engine, *policies).items() if path.startswith(("driver/", "guard/"))}
    return {
        path.partition("/")[2].removesuffix(".yaml")
        for path, data in files.items()
        if "Prune=false,Delete=false" in annotations(data).get(SYNC, "") or annotations(data).get(PRUNE) == "disabled"
    }


TLS = {"nodeSelector": {"matchLabels": {"pool": "tls"}}}
CLEANS = builders.policy("tls", **TLS, driver={"enabledCleanup": True})
CLEANS_WITHOUT_A_DRAIN = builders.policy("tls", **TLS, driver={"enabledCleanup": True, "drain": {"enabled": False}})
OTHER = builders.policy("vm", nodeSelector={"matchLabels": {"pool": "vm"}})
ROLE = {f"{kind}-kae-driver{policy}" for kind in ("serviceaccount", "role", "rolebinding") for policy in ("", "-tls")}
EVICTION = {
    *("clusterrole-kae-driver", "clusterrolebinding-kae-driver", "clusterrolebinding-kae-driver-tls"),
    *("validatingadmissionpolicy-kae-driver", "validatingadmissionpolicybinding-kae-driver"),
    *("validatingadmissionpolicy-kae-driver-leases", "validatingadmissionpolicybinding-kae-driver-leases"),
}


@pytest.mark.parametrize("engine", ["argocd", "flux"])
@pytest.mark.parametrize(
    ("policies", "rights"),
    [
        ((OTHER,), set()),
        ((CLEANS,), ROLE | EVICTION),
        ((CLEANS, OTHER), ROLE | EVICTION),
        ((CLEANS_WITHOUT_A_DRAIN, OTHER), ROLE),
    ],
)
def test_the_rights_of_a_cleanup_outlive_its_policy(
    engine: str, policies: tuple[definitions.Policy, ...], rights: set[str]
) -> None:
    assert kept(engine, *policies) == rights


def test_what_argo_cd_keeps_is_no_difference_to_it() -> None:
    compared = {data["kind"] for data in applied("argocd").values() if COMPARE in annotations(data)}

    assert compared == {"Namespace", "CustomResourceDefinition"}


def test_flux_is_told_not_to_substitute_in_what_holds_a_variable() -> None:
    objects = applied("flux", builders.policy("tls", driver=PACKAGES))

    told = {path for path, data in objects.items() if annotations(data).get(SUBSTITUTE) == "disabled"}
    assert told == {path for path, data in objects.items() if "${" in str(data)}
    assert "driver/daemonset-kae-driver-tls.yaml" in told


def test_each_engine_gets_its_own_annotations_only() -> None:
    for engine, foreign in (("argocd", "kustomize.toolkit"), ("flux", "argocd.argoproj.io")):
        for data in applied(engine, builders.policy("tls", driver=PACKAGES)).values():
            assert annotations(data, (foreign,)) == {}


def test_an_annotation_of_the_object_itself_stays() -> None:
    data = {"kind": "Namespace", "metadata": {"name": "x", "annotations": {"own": "1"}}}

    assert gitops.annotated(data, "argocd", kept=True)["metadata"]["annotations"]["own"] == "1"
    assert data["metadata"] == {"name": "x", "annotations": {"own": "1"}}


def test_argo_cd_gets_an_application_and_a_project() -> None:
    objects = bootstrap(engine="argocd", repository={"url": URL, "revision": "prod"})

    application = objects[APPLICATION]["spec"]
    assert set(objects) == {APPLICATION, PROJECT}
    assert application["project"] == objects[PROJECT]["metadata"]["name"] == "kae-east"
    assert application["source"] == {"repoURL": URL, "targetRevision": "prod", "path": "output/east"}
    assert application["destination"] == {"server": "https://kubernetes.default.svc", "namespace": "kae-operator"}
    assert objects[PROJECT]["spec"]["sourceRepos"] == [URL]


@pytest.mark.parametrize(
    ("destination", "written"),
    [({"server": "https://10.0.0.1:6443"}, ("server", "https://10.0.0.1:6443")), ({"name": "east"}, ("name", "east"))],
)
def test_the_destination_is_the_one_that_argo_cd_knows(destination: dict[str, str], written: tuple[str, str]) -> None:
    objects = bootstrap(engine="argocd", repository={"url": URL}, argocd={"destination": destination})

    for target in (objects[APPLICATION]["spec"]["destination"], objects[PROJECT]["spec"]["destinations"][0]):
        assert {key: value for key, value in target.items() if key != "namespace"} == dict([written])


@pytest.mark.parametrize("engine", ["argocd", "flux"])
def test_without_a_repository_there_is_no_bootstrap(engine: str) -> None:
    assert bootstrap(engine=engine) == {}


def test_a_path_of_the_repository_is_written_as_each_engine_wants_it() -> None:
    repository = {"url": URL, "path": "fleet/east"}

    argo = bootstrap(engine="argocd", repository=repository)[APPLICATION]
    flux = bootstrap(engine="flux", repository=repository)[KUSTOMIZATION]

    assert argo["spec"]["source"]["path"] == "fleet/east"
    assert flux["spec"]["path"] == "./fleet/east"


def kinds_in_output() -> Iterator[tuple[str, str]]:
    """Yield group and kind of every object in the example fleet and the golden trees, apart from bootstrap/."""
    for files in trees.every().values():
        for path in fnmatch.filter(files, "*/*.yaml"):
            if not path.startswith("bootstrap/"):
                data = yaml.load(files[path], yaml.CSafeLoader)
                yield data["apiVersion"].rpartition("/")[0], data["kind"]


def test_the_project_allows_every_kind_that_is_ever_emitted_and_no_other() -> None:
    project = bootstrap(engine="argocd", repository={"url": URL})[PROJECT]["spec"]
    emitted = {
        (data["apiVersion"].rpartition("/")[0], data["kind"])
        for nfd in ({"enabled": True}, {"enabled": False, "nodefeaturerules": True})
        for data in applied("argocd", nfd=nfd).values()
    }

    allowed = {
        (item["group"], item["kind"])
        for field in ("clusterResourceWhitelist", "namespaceResourceWhitelist")
        for item in project[field]
    }

    assert emitted | set(kinds_in_output()) == allowed


def test_the_project_tells_namespaced_kinds_from_others() -> None:
    project = bootstrap(engine="argocd", repository={"url": URL})[PROJECT]["spec"]

    namespaced = {data["kind"] for data in applied("argocd").values() if "namespace" in data["metadata"]}

    assert {item["kind"] for item in project["namespaceResourceWhitelist"]} == namespaced
