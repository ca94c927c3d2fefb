"""NetworkPolicies: the ports at which each program is reached, and those that it reaches."""

from typing import Any

import pytest

from compiler.fleet import definitions
from tests import builders

WATCHER: dict[str, Any] = {
    "enabled": True,
    "repository": {"url": "https://git.test/inventory.git"},
    "secretName": "git",  # the name of a Secret
}
API = {443, 6443}


def allowed(name: str, *policies: definitions.Policy, **cluster: Any) -> tuple[set[int], set[int]]:
    """The TCP ports at which a program is reached, and those that it reaches but for the resolver's."""
    spec = {"networkPolicies": {"enabled": True}} | cluster
    objects = builders.objects(policies, (), builders.cluster(**spec))
    policy = objects[f"network-policies/networkpolicy-{name}.yaml"]["spec"]
    assert policy["podSelector"] == {"matchLabels": {"app.kubernetes.io/name": name}}
    assert policy["policyTypes"] == ["Ingress", "Egress"]

    def tcp(direction: str) -> set[int]:
        rules = policy.get(direction, [])
        return {port["port"] for rule in rules for port in rule["ports"] if port["protocol"] == "TCP"}

    return tcp("ingress"), tcp("egress") - {53}


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("https://git.test/i.git", 443),
        ("http://git.test/i.git", 80),
        ("https://git.test:8443/i.git", 8443),
        ("ssh://git@git.test/i.git", 22),
        ("ssh://git@[2001:db8::1]:2222/i.git", 2222),
        ("git@git.test:fleet/i.git", 22),
        ("https://[1.2]/no-address.git", 443),
        ("https://git.test:65535/i.git", 65535),
    ],
)
def test_a_watcher_reaches_the_api_server_and_its_repository(url: str, port: int) -> None:
    spec = WATCHER | {"repository": {"url": url}}

    assert allowed("kae-watcher", watcher=spec) == (set(), API | {port})


@pytest.mark.parametrize(
    ("value", "port"),
    [
        ("http://proxy.test:3128", 3128),
        ("proxy.test:3128", 3128),
        ("https://proxy.test", 443),
        ("http://proxy.test", 1080),
        ("socks5h://proxy.test", 1080),
        ("http://$(NODE_IP):3128/", 3128),
        ("HTTPS://[2001:db8::1]:8443", 8443),
    ],
)
def test_a_proxy_is_reached_at_its_port(value: str, port: int) -> None:
    env = [{"name": "https_proxy", "value": value}, {"name": "NO_PROXY", "value": "intern.test:99"}]

    assert allowed("kae-watcher", watcher=WATCHER | {"env": env}) == (set(), API | {port})


@pytest.mark.parametrize(("mode", "served"), [("Deployment", {9512}), ("CronJob", set())])
def test_a_watcher_is_reached_where_it_serves_metrics(mode: str, served: set[int]) -> None:
    peers = allowed("kae-watcher", watcher=WATCHER | {"mode": mode}, monitoring={"enabled": True})

    assert peers == (served, API)


def test_a_device_plugin_reaches_nothing_and_is_reached_for_its_metrics_alone() -> None:
    quiet = builders.policy("a", nodeSelector={"matchLabels": {"pool": "a"}})
    scraped = builders.policy(
        "b", nodeSelector={"matchLabels": {"pool": "b"}}, devicePlugin={"metrics": {"enabled": True, "port": 9600}}
    )

    assert allowed("kae-device-plugin", quiet) == (set(), set())
    assert allowed("kae-device-plugin", quiet, scraped) == ({9600}, set())


NAMED = {"names": ["kae"], "repositories": ["https://a.test:8443/kae", "http://b.test/kae", "file:///srv/kae"]}


@pytest.mark.parametrize(
    ("driver", "more"),
    [
        ({"source": {"build": {}}}, {80}),
        ({"source": {"packages": NAMED}, "version": "2.2.0"}, {80, 8443}),
        ({"source": {"prebuilt": {}}}, set()),
        ({"source": {"inTree": {}}}, set()),
        ({"source": {"packages": NAMED}, "state": "Absent"}, set()),
        ({"source": {"build": {}}, "env": [{"name": "http_proxy", "value": "http://p.test:3128"}]}, {80, 3128}),
    ],
)
def test_an_installer_reaches_the_api_server_and_package_repositories(driver: dict[str, Any], more: set[int]) -> None:
    assert allowed("kae-driver", builders.policy(driver=driver)) == (set(), API | more)


def test_an_installer_reaches_what_any_of_its_pools_needs() -> None:
    waves = [{"name": "first", "percent": 10, "source": {"packages": NAMED}}]
    policy = builders.policy(driver={"version": "2.2.0", "source": {"prebuilt": {}}, "rollout": {"waves": waves}})

    assert allowed("kae-driver", policy) == (set(), API | {80, 8443})


@pytest.mark.parametrize(
    ("name", "tag", "served"),
    [
        ("nfd-master", "v0.16.4", {8081, 8082}),
        ("nfd-worker", "v0.17.0", {8081, 8082}),
        ("nfd-gc", "v0.17.0", {8081}),
        ("nfd-master", "v0.18.0", {8080}),
        ("nfd-worker", "v0.19.0", {8080}),
        ("nfd-gc", "v0.18.0", {8080}),
    ],
)
def test_nfd_reaches_the_api_server_and_is_reached_where_its_pods_listen(name: str, tag: str, served: set[int]) -> None:
    objects = builders.objects((), (), builders.cluster(nfd={"image": {"tag": tag}}))
    (workload,) = (data for path, data in objects.items() if path.startswith("nfd/d") and path.endswith(f"{name}.yaml"))
    ports = {port["containerPort"] for port in workload["spec"]["template"]["spec"]["containers"][0]["ports"]}

    assert served == ports
    assert allowed(name, nfd={"image": {"tag": tag}}) == (served, API)


def test_only_a_program_that_looks_names_up_reaches_a_resolver() -> None:
    objects = builders.objects(
        [builders.policy(driver={"source": {"prebuilt": {}}})],
        (),
        builders.cluster(networkPolicies={"enabled": True, "apiServerPorts": [6443]}, watcher=WATCHER),
    )

    asking = {
        data["metadata"]["name"]
        for path, data in objects.items()
        if path.startswith("network-policies/")
        if any(
            port == {"port": 53, "protocol": "UDP"} for rule in data["spec"].get("egress", ()) for port in rule["ports"]
        )
    }
    assert asking == {"kae-watcher"}


def test_the_resolver_of_openshift_listens_at_another_port() -> None:
    assert allowed("kae-watcher", watcher=WATCHER, platform="openshift") == (set(), API | {5353})


def test_every_pod_of_ours_has_a_policy() -> None:
    cluster = builders.cluster(networkPolicies={"enabled": True}, watcher=WATCHER)
    objects = builders.objects([builders.policy()], (), cluster)

    pods = {
        data["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/name"]
        for data in objects.values()
        if data["kind"] in ("DaemonSet", "Deployment")
    }

    assert {data["metadata"]["name"] for data in objects.values() if data["kind"] == "NetworkPolicy"} == pods
