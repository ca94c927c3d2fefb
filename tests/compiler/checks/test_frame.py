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
        *("/lib/systemd/system", "/usr/lib/udev/rules.d", "/lib/modprobe.d", "/run/nri/nri.sock", "/lib"),
        *("/var/lib/kubelet/plugins/kubernetes.io/csi", "/var/lib/kubelet/plugins/kubernetes.*", "/etc/containerd"),
        *("/var/lib/kae", "/run/kae-driver", "/run/systemd", "/var/lib/containers"),
    ],
)
def test_a_path_to_keys_disks_or_runtimes_or_around_them_is_refused(path: str) -> None:
    assert len(of_path(path)) == 1


REFUSED = """
/etc/kubernetes/admin.conf /proc/1/environ /var/lib/kubelet/pki/kubelet.key /run/containerd/containerd.sock
/run/cri-dockerd.sock /run/crio/crio.sock /run/docker/plugins /run/docker.sock /run/buildkit/buildkitd.sock
/run/dockershim.sock /run/isulad.sock /run/k0s/containerd.sock /run/k3s/containerd /run/podman/podman.sock
/run/user/1000/podman/podman.sock /run/user/1000/docker.sock /run/user/1000/containerd /etc/cni/net.d
/etc/rancher/k3s/k3s.yaml /home/core/.kube/config /var/lib/etcd/member /var/lib/k0s/pki /var/lib/rancher/k3s
/var/snap/k8s/common /var/snap/microk8s/current /etc/containers/auth.json /etc/docker/key.json /etc/gshadow-
/etc/isulad/daemon.json /etc/krb5.keytab /etc/pki/consumer/key.pem /etc/pki/entitlement/1-key.pem
/etc/pki/tls/private/host.key /etc/shadow /etc/shadow- /etc/ssh/ssh_host_rsa_key /etc/ssl/private/host.key
/etc/wireguard/wg0.conf /home/core/.ssh/id_rsa /root/.ssh /usr/etc/shadow /var/lib/cloud/instance /dev/tpmrm0
/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs /var/lib/containers/storage /var/lib/docker/overlay2
/var/lib/isulad/storage /ostree/deploy /sysroot/ostree /dev/bcache0 /dev/block/8:0 /dev/bsg/0:0:0:0
/dev/disk/by-id /dev/dm-0 /dev/drbd0 /dev/hda /dev/hda1 /dev/loop0 /dev/mapper/root /dev/md/0 /dev/md127
/dev/mmcblk0 /dev/mtd0 /dev/mtdblock0 /dev/nbd0 /dev/ng0n1 /dev/nvme0n1 /dev/pmem0 /dev/raw/raw1 /dev/rbd0
/dev/root /dev/sdb1 /dev/sg0 /dev/vda /dev/xvda /dev/dasda /dev/fd0 /dev/sr0 /dev/ublkb0 /dev/zd0 /dev/zram0
/dev/centos/root /dev/fedora_host/root /dev/openeuler/root /dev/rhel/root /dev/vg0/data /dev/core /dev/cpu/0/msr
/dev/dax0.0 /dev/kmem /dev/mem /dev/oldmem /dev/port /run/kae/recipes /run/kae-driver/installer.lock
/run/kae-features.d/kae /var/lib/kae/driver.json /etc/cron.d /etc/crontab /etc/ld.so.preload /etc/modprobe.d/x.conf
/etc/sudoers /etc/sudoers.d /etc/systemd/system /etc/udev/rules.d /usr/lib/systemd/system /var/spool/cron/root
/run/dbus/system_bus_socket /run/systemd/private
"""
"""A path below each one that nobody gets, as it is called on hosts."""


@pytest.mark.parametrize("path", REFUSED.split())
def test_nothing_of_a_host_that_gives_it_away_goes_to_a_program(path: str) -> None:
    assert len(of_path(path)) == 1
    assert len(of_path(path.replace("/run/", "/var/run/", 1))) == 1


@pytest.mark.parametrize(
    ("pod", "place"),
    [
        ({"securityContext": {"seLinuxOptions": {"type": "spc_t"}}}, ("securityContext", "seLinuxOptions", "type")),
        (
            {"initContainers": [{"securityContext": {"seLinuxOptions": {"type": "spc_t"}}}]},
            ("initContainers", 0, "securityContext", "seLinuxOptions", "type"),
        ),
        ({"hostPID": True, "shareProcessNamespace": True}, ("shareProcessNamespace",)),
    ],
)
def test_what_frees_a_pod_of_its_bounds_is_refused_wherever_it_stands(
    pod: dict[str, Any], place: tuple[Any, ...]
) -> None:
    assert [at for at, *_ in frame.of_pod(pod, KUBELET)] == [place]


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
