"""What the frame of programs refuses, as a table of attacks, and what vendors need."""

from typing import Any

import pytest

from compiler.checks import frame

KUBELET = "/var/lib/kubelet"


def of_path(path: str, kubelet: str = KUBELET) -> list[str]:
    return [message for _, message, _, _ in frame.host_path((), path, kubelet)]


@pytest.mark.parametrize(
    "path",
    [
        *("/", "//", "/.", "/var", "/var/", "/var/lib", "/run", "/etc", "/home", "/dev", "/root/x"),
        *("/proc", "/proc/1/root", "/etc/kubernetes", "/etc/kubernetes/pki/ca.key", "/var/lib/etcd", "/opt/../etc/ssh"),
        *("/var/run/containerd", "/var/run/../run/crio/crio.sock", "/run/docker.sock", "//run//containerd"),
        *("/dev/sda", "/dev/mem", "/dev/mapper", "/var/lib/kubelet", "/var/lib/kubelet/pki", "/var/lib/kubelet/pods"),
        *("/var/lib/kubelet/plugins", "/var/lib/kubelet/device-plugins/..", "/var/lib/kubelet/plugins/../pods"),
        *("/var/lib/kae", "/run/kae-driver", "/run/systemd", "/var/lib/containers"),
    ],
)
def test_a_path_to_keys_disks_or_runtimes_or_around_them_is_refused(path: str) -> None:
    assert len(of_path(path)) == 1


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/dev/dri",
            "/dev/char",
            "/dev/vfio",
            "/dev/sgx_enclave",
            "/sys",
            "/sys/kernel/debug",
            "/var/log",
            "/run/cdi",
        ),
        *("/var/run/cdi", "/run/vendor", "/opt/vendor", "/usr/lib/wsl", "/lib/modules", "/dev/accel"),
        *("/var/lib/kubelet/device-plugins", "/var/lib/kubelet/plugins_registry", "/var/lib/kubelet/plugins/vendor"),
    ],
)
def test_what_vendors_need_of_a_node_is_not_refused(path: str) -> None:
    assert of_path(path) == []


def test_the_folder_of_another_kubelet_is_refused_but_for_its_sockets() -> None:
    assert of_path("/data/kubelet", "/data/kubelet") != []
    assert of_path("/data", "/data/kubelet") != []
    assert of_path("/data/kubelet/device-plugins", "/data/kubelet") == []
    assert of_path("/data/kubelet", KUBELET) == []


def of_rule(group: str, resource: str, *verbs: str, names: tuple[str, ...] = (), status: bool = False) -> list[str]:
    rule: dict[str, Any] = {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}
    rules = [rule | ({"resourceNames": list(names)} if names else {})]
    return [message for _, message, _, _ in frame.of_rules((), rules, writes_status=status)]


@pytest.mark.parametrize(
    ("group", "resource", "verb"),
    [
        *(("", "secrets", verb) for verb in ("get", "list", "watch")),
        *(("", "pods", verb) for verb in ("create", "delete", "patch", "update", "deletecollection", "*")),
        *(("", resource, "create") for resource in ("pods/exec", "pods/attach", "pods/portforward", "pods/eviction")),
        *(("", resource, "get") for resource in ("pods/exec", "pods/log", "nodes/proxy", "nodes/metrics")),
        *(("", "pods/ephemeralcontainers", verb) for verb in ("patch", "update")),
        ("", "serviceaccounts/token", "create"),
        ("", "serviceaccounts", "impersonate"),
        *(("", "nodes", verb) for verb in ("patch", "update", "delete", "create")),
        *(("", "nodes/status", verb) for verb in ("patch", "update")),
        ("", "*", "get"),
        ("*", "secrets", "get"),
        ("*", "pods", "get"),
        *(("apps", "daemonsets", verb) for verb in ("create", "patch")),
        ("coordination.k8s.io", "leases", "update"),
        *(("rbac.authorization.k8s.io", "clusterroles", verb) for verb in ("bind", "escalate", "create")),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "create"),
        ("certificates.k8s.io", "certificatesigningrequests", "create"),
        ("certificates.k8s.io", "certificatesigningrequests/approval", "update"),
        ("", "namespaces", "patch"),
        ("", "configmaps", "create"),
    ],
)
def test_a_right_that_is_not_listed_is_refused(group: str, resource: str, verb: str) -> None:
    assert len(of_rule(group, resource, verb)) == 1
    assert len(of_rule(group, resource, verb, names=("mine",))) == 1


@pytest.mark.parametrize(
    ("group", "resource", "verb"),
    [
        *(("", "pods", verb) for verb in ("get", "list", "watch")),
        ("", "nodes", "get"),
        ("", "configmaps", "watch"),
        ("", "events", "create"),
        ("events.k8s.io", "events", "patch"),
        ("nfd.k8s-sigs.io", "nodefeatures", "update"),
        ("resource.k8s.io", "resourceslices", "delete"),
        ("example.com", "devices", "list"),
    ],
)
def test_a_right_to_read_or_to_say_something_is_not_refused(group: str, resource: str, verb: str) -> None:
    assert of_rule(group, resource, verb) == []


def test_the_status_of_nodes_is_written_where_the_recipe_says_so() -> None:
    assert of_rule("", "nodes/status", "patch", status=True) == []
    assert of_rule("", "nodes", "patch", status=True) != []


def test_a_pod_outside_of_the_types_for_containers_is_refused() -> None:
    pod = {"containers": [{"securityContext": {"seLinuxOptions": {"type": "spc_t"}}}]}

    ((place, *_),) = frame.of_pod(pod, KUBELET)

    assert place == ("containers", 0, "securityContext", "seLinuxOptions", "type")
