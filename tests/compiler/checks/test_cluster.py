"""Rules for one cluster: what breaks each, and what is just within it."""

from typing import Any

import pytest

from compiler.checks import cluster
from tests import builders

REPOSITORY = {"url": "https://git.test/fleet.git"}
SSH = {"url": "ssh://git@git.test/fleet.git"}
WATCHER = {
    "enabled": True,
    "image": "r.test/watcher:1",
    "repository": {"url": "https://git.test/i.git"},
    "secretName": "git",
}


def codes(**spec: Any) -> list[str]:
    return builders.codes(list(cluster.findings(builders.cluster(**spec))))


def test_the_tag_of_an_nfd_that_is_not_ours_does_not_matter() -> None:
    image = {"tag": "v0.15.0"}

    assert codes(nfd={"image": image}) == ["nfd-release"]
    assert codes(nfd={"image": image, "enabled": False}) == []


@pytest.mark.parametrize(("version", "code"), [("1.24", ["kubernetes-release"]), ("1.25", []), ("v1.99.1", [])])
def test_a_stated_release_is_one_that_is_rendered_for(version: str, code: list[str]) -> None:
    assert codes(kubernetesVersion=version) == code


@pytest.mark.parametrize(
    ("gitops", "code"),
    [
        ({}, []),
        ({"engine": "argocd"}, ["bootstrap-incomplete"]),
        ({"engine": "flux"}, ["bootstrap-incomplete"]),
        ({"engine": "argocd", "repository": REPOSITORY}, []),
        ({"engine": "flux", "repository": REPOSITORY}, []),
        ({"engine": "flux", "flux": {"sourceRef": {"name": "fleet"}}}, []),
        ({"engine": "flux", "repository": SSH}, ["bootstrap-incomplete"]),
        ({"engine": "flux", "repository": SSH, "flux": {"secretRef": {"name": "git"}}}, []),
        ({"engine": "flux", "repository": SSH, "flux": {"sourceRef": {"name": "fleet"}}}, []),
        ({"engine": "argocd", "repository": SSH}, []),
        ({"engine": "flux", "repository": {"url": "git@git.test:fleet.git"}}, ["conflicting-settings"]),
        ({"engine": "flux", "repository": {"url": "file:///srv/fleet"}}, ["conflicting-settings"]),
        ({"engine": "argocd", "repository": {"url": "git@git.test:fleet.git"}}, []),
        ({"engine": "argocd", "flux": {"sourceRef": {"name": "fleet"}}}, ["bootstrap-incomplete"]),
        ({"argocd": {"destination": {"name": "a", "server": "https://a"}}}, ["conflicting-settings"]),
        ({"flux": {"sourceRef": {"name": "fleet"}, "secretRef": {"name": "git"}}}, ["conflicting-settings"]),
    ],
)
def test_settings_of_an_engine_agree_and_name_a_repository(gitops: dict[str, Any], code: list[str]) -> None:
    assert codes(gitops=gitops) == code


OCI = {"flux": {"sourceRef": {"kind": "OCIRepository", "name": "fleet"}}}


@pytest.mark.parametrize(
    ("path", "output", "gitops", "code"),
    [
        (None, "output", {}, []),
        ("output/east", "output", {}, []),
        ("fleets/kae/output/east", "output", {}, []),
        ("gen/out/east", "gen/out", {}, []),
        ("deploy/east", "../deploy", {}, []),
        ("srv/deploy/east", "/mnt/deploy", {}, []),
        ("output/west", "output", {}, ["engine-path"]),
        ("output", "output", {}, ["engine-path"]),
        ("east", "output", {}, ["engine-path"]),
        ("output/east/driver", "output", {}, ["engine-path"]),
        ("youtput/east", "output", {}, ["engine-path"]),
        ("out/east", "gen/out", {}, ["engine-path"]),
        ("output/east", "manifests", {}, ["engine-path"]),
        ("clusters/east", "output", {"engine": "flux", **OCI}, []),
        ("clusters/east", "output", {"engine": "flux"}, ["engine-path"]),
        ("clusters/east", "output", {"engine": "none"}, []),
    ],
)
def test_an_engine_applies_the_folder_that_is_compiled(
    path: str | None, output: str, gitops: dict[str, Any], code: list[str]
) -> None:
    repository = REPOSITORY | ({"path": path} if path else {})
    item = builders.cluster(gitops={"engine": "argocd", "repository": repository, **gitops})

    assert builders.codes(list(cluster.findings(item, output))) == code


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"nfd": {"image": {"repository": "https://r.test/nfd"}}}, "NFD's image 'https://r.test/nfd'"),
        ({"watcher": {**WATCHER, "image": "https://r.test/w:1"}}, "The watcher's image 'https://r.test/w:1'"),
        ({"images": {"mirrors": [{"from": "oci://a.test", "to": "b.test"}]}}, "The prefix 'oci://a.test'"),
        ({"images": {"mirrors": [{"from": "a.test", "to": "https://b.test/x/"}]}}, "The prefix 'https://b.test/x'"),
    ],
)
def test_an_image_with_a_scheme_is_no_reference(spec: dict[str, Any], message: str) -> None:
    (one,) = cluster.findings(builders.cluster(**spec))

    assert (one.code, one.message) == ("image-reference", f"{message} is not an image reference.")
    assert "an image reference has no scheme" in one.hint


@pytest.mark.parametrize(
    "spec",
    [
        {"nfd": {"enabled": False, "image": {"repository": "https://r.test/nfd"}}},
        {"watcher": {"image": "https://r.test/watcher:1"}},
        {"images": {"mirrors": [{"from": "a.test/x/", "to": "b.test:5000/y"}]}},
    ],
)
def test_images_that_are_not_deployed_and_prefixes_of_images_are_fine(spec: dict[str, Any]) -> None:
    assert codes(**spec) == []


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, []),
        ({"repository": None}, ["watcher-incomplete"]),
        ({"secretName": None}, ["watcher-incomplete"]),
        ({"repository": None, "secretName": None}, ["watcher-incomplete"] * 2),
        ({"image": "r.test/watcher"}, ["mutable-tag"]),
        ({"enabled": False, "repository": None, "image": "r.test/watcher"}, []),
    ],
)
def test_a_watcher_that_is_enabled_is_complete(change: dict[str, Any], code: list[str]) -> None:
    spec = {key: value for key, value in {**WATCHER, **change}.items() if value is not None}

    assert codes(watcher=spec) == code


def test_a_cluster_without_a_document_has_no_faults() -> None:
    item = builders.cluster()

    assert list(cluster.findings(type(item)(name=item.name, spec=item.spec, source=None))) == []


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"tolerations": [{"operator": "Equal"}]}, ["toleration"]),
        ({"pullSecrets": [{"name": "a"}, {"name": "a"}]}, ["duplicate-name"]),
        ({"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}, ["selector-values"]),
        (
            {
                "nodeSelector": {
                    "matchLabels": {"a": "1"},
                    "matchExpressions": [{"key": "a", "operator": "DoesNotExist"}],
                }
            },
            ["selector-never-matches"],
        ),
        ({"nodeSelector": {"matchLabels": {"openfuyao.com/kae.hpre.vf": "3"}}}, ["selector-on-effect"]),
        ({"nodeSelector": {"matchLabels": {"openfuyao.com/kae.driver-state": "Ready"}}}, ["selector-on-effect"]),
    ],
)
@pytest.mark.parametrize("program", ["nfd", "watcher"])
def test_the_pods_of_nfd_and_of_the_watcher_are_judged_as_those_of_policies(
    program: str, change: dict[str, Any], code: list[str]
) -> None:
    assert codes(**{program: change}) == code


@pytest.mark.parametrize("path", [("watcher",), ("nfd", "master"), ("nfd", "worker"), ("nfd", "gc")])
def test_amounts_of_the_watcher_and_of_nfd_are_those_that_the_api_server_takes(path: tuple[str, ...]) -> None:
    resources = {"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}}
    spec: dict[str, Any] = {"resources": resources}
    for name in reversed(path):
        spec = {name: spec}

    assert codes(**spec) == ["resource-amount"]


@pytest.mark.parametrize(
    ("env", "code"),
    [
        ([{"name": "HTTPS_PROXY", "value": "http://proxy.test:3128"}], []),
        ([{"name": "HTTPS_PROXY", "value": "http://me:word@proxy.test:3128"}], ["env-credentials"]),
        ([{"name": "A"}, {"name": "A"}], ["duplicate-name"]),
        ([{"name": "HOME", "value": "/"}], ["duplicate-name"]),
    ],
)
def test_watcher_variables_hold_no_credentials_and_are_set_once(env: list[dict[str, str]], code: list[str]) -> None:
    assert codes(watcher={"env": env}) == code


@pytest.mark.parametrize("value", ["http://proxy.test:65536", "http://[proxy.test", "proxy.test:abc", "http://"])
def test_a_proxy_without_a_possible_port_is_an_error_also_in_network_policies(value: str) -> None:
    watcher = WATCHER | {"env": [{"name": "HTTPS_PROXY", "value": value}]}

    assert codes(watcher=watcher, networkPolicies={"enabled": True}) == ["proxy-url"]


@pytest.mark.parametrize("value", ["", "http://proxy.test", "proxy.test:3128", "socks5h://[2001:db8::1]:1080/"])
def test_a_proxy_may_be_empty_and_lack_scheme_or_port(value: str) -> None:
    assert codes(watcher=WATCHER | {"env": [{"name": "all_proxy", "value": value}]}) == []


@pytest.mark.parametrize("schedule", ["60 * * * *", "* * 0 * *", "* * * 13 *", "* * * * 7", "*/0 * * * *"])
def test_a_schedule_has_the_numbers_that_the_api_server_takes(schedule: str) -> None:
    document = builders.document(builders.raw("KAECluster", "east", {"watcher": {"schedule": schedule}}))

    assert [finding.code for finding in builders.judge().judge(document)[1]] == ["invalid-value"]


@pytest.mark.parametrize("schedule", ["*/5 * * * *", "0,30 8-18/2 1,15 1-12 1-5", "59 23 31 12 0", "07 02 * * *"])
def test_a_schedule_may_list_ranges_and_steps(schedule: str) -> None:
    document = builders.document(builders.raw("KAECluster", "east", {"watcher": {"schedule": schedule}}))

    assert not builders.judge().judge(document)[1]
