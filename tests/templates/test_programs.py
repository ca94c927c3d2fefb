"""Namespace, node programs, guard, watcher and bootstrap/: what their objects grant, ask for and omit."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from msgspec.structs import replace

from compiler.fleet import clusters as fleet_clusters
from compiler.formats import canonical
from compiler.kube import lease_objects
from compiler.rendering import ir, template_code, templates
from installer.report import reporter as reporting
from runtime import shapes, state
from tests.templates import clusters

Rendered = Callable[[str, object], Any]

VALUES = clusters.values("flux") | clusters.values("argocd")
ACCESS = replace(
    VALUES["driver/role-kae-driver"],
    leases=("kae-driver-tls-1", "kae-driver-tls-2"),
    daemonsets=("kae-driver-tls--canary",),
)
POOL = VALUES["driver/daemonset"]
PLUGIN = VALUES["device-plugin/daemonset"]
WATCHER = VALUES["watcher/workload-kae-watcher"]
GUARD = VALUES["guard/validatingadmissionpolicy-kae-driver"]
ARGO = VALUES["bootstrap/application"]
FLUX = VALUES["bootstrap/kustomization"]

LIBRARIES = ("libraries", "/opt")
SOCKETS = "/var/lib/kubelet/plugins_registry/kae"
WORKLOADS = (("driver/daemonset", POOL), ("device-plugin/daemonset", PLUGIN), ("watcher/workload-kae-watcher", WATCHER))


@pytest.fixture(scope="module")
def rendered(repository_root: Path) -> Rendered:
    """The object that a template makes of a value."""
    folder = repository_root / "templates"
    texts = {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in folder.glob("*/*.yaml")}
    renderer = templates.renderer(texts, template_code.functions(texts))

    def one(template: str, value: object) -> Any:
        component, name = template.split("/")
        return renderer(ir.Manifest(component=component, template=f"{name}.yaml", value=value))

    return one


def pod(workload: Any) -> Any:
    return workload["spec"]["template"]["spec"]


def container(workload: Any) -> Any:
    (only,) = pod(workload)["containers"]
    return only


def host_paths(workload: Any) -> dict[str, bool]:
    """Each path of the host that the container sees, and whether it may write there."""
    mounts = {mount["name"]: mount for mount in container(workload)["volumeMounts"]}
    return {
        volume["hostPath"]["path"]: not mounts[volume["name"]].get("readOnly", False)
        for volume in pod(workload)["volumes"]
        if "hostPath" in volume
    }


def grants(role: Any) -> set[tuple[str, str, tuple[str, ...]]]:
    """Verb, resource and the names that it is held to, () for every name."""
    return {
        (verb, resource, tuple(rule.get("resourceNames", ())))
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def leaves(value: Any) -> Iterator[Any]:
    """Every scalar and every empty list or mapping."""
    if isinstance(value, dict) and value:
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, list) and value:
        for item in value:
            yield from leaves(item)
    else:
        yield value


def test_every_object_says_what_made_it(rendered: Rendered) -> None:
    for template, value in VALUES.items():
        if not template.startswith(("crds/", "nfd/", "node-feature-rule/")):
            labels = rendered(template, value)["metadata"]["labels"]
            assert labels["app.kubernetes.io/part-of"] == "kae", template
            assert labels["app.kubernetes.io/managed-by"] == "kae", template


def test_an_installer_may_update_only_its_leases_and_look_only_at_its_daemonsets(rendered: Rendered) -> None:
    role = rendered("driver/role-kae-driver", ACCESS)

    assert grants(role) == {
        ("get", "leases", ACCESS.leases),
        ("update", "leases", ACCESS.leases),
        ("create", "leases", ()),
        ("get", "daemonsets", ACCESS.daemonsets),
    }


def test_an_empty_list_of_names_never_becomes_a_rule_for_every_name(rendered: Rendered) -> None:
    no_leases = rendered("driver/role-kae-driver", replace(ACCESS, leases=()))
    nothing = rendered("driver/role-kae-driver", replace(ACCESS, leases=(), daemonsets=()))

    assert grants(no_leases) == {("get", "daemonsets", ACCESS.daemonsets)}
    assert nothing["rules"] == []


def test_outside_its_namespace_an_installer_may_only_ask_for_evictions(rendered: Rendered) -> None:
    role = rendered("driver/clusterrole-kae-driver", ACCESS)

    assert grants(role) == {("create", "pods/eviction", ())}


@pytest.mark.parametrize(("template", "value"), WORKLOADS)
def test_a_program_finds_its_config_in_a_file_that_mirrors_the_annotation_of_its_pod(
    rendered: Rendered, template: str, value: Any
) -> None:
    awkward = canonical.dump_json({"text": '"quotes", ${braces}, {{ more }}\nand 19e5'})

    made = rendered(template, replace(value, config=awkward))

    annotations = made["spec"]["template"]["metadata"]["annotations"]
    (source,) = (volume["downwardAPI"] for volume in pod(made)["volumes"] if volume["name"] == "config")
    (mount,) = (mount for mount in container(made)["volumeMounts"] if mount["name"] == "config")
    command = container(made)["command"]
    assert annotations == {"device.openfuyao.com/config": awkward}
    assert json.loads(annotations["device.openfuyao.com/config"])["text"].endswith("19e5")
    (item,) = source["items"]
    assert item["fieldRef"]["fieldPath"] == "metadata.annotations['device.openfuyao.com/config']"
    assert command[command.index("--config") + 1] == f"{mount['mountPath']}/{item['path']}"


@pytest.mark.parametrize(("template", "value"), WORKLOADS)
def test_readiness_is_a_file_of_the_program_that_does_not_outlive_a_reboot(
    rendered: Rendered, template: str, value: object
) -> None:
    workload = rendered(template, value)

    volumes = {volume["name"]: volume for volume in pod(workload)["volumes"]}
    mounts = {mount["mountPath"]: mount["name"] for mount in container(workload)["volumeMounts"]}
    assert "cat /run/program/ready" in " ".join(container(workload)["readinessProbe"]["exec"]["command"])
    assert volumes[mounts["/run/program"]]["emptyDir"]["medium"] == "Memory"


@pytest.mark.parametrize(("template", "value"), [WORKLOADS[0], WORKLOADS[2]], ids=["installer", "watcher"])
def test_the_readiness_probe_says_why_a_program_does_not_do_its_work(
    rendered: Rendered, template: str, value: Any, tmp_path: Path
) -> None:
    command = container(rendered(template, value))["readinessProbe"]["exec"]["command"]
    words = [word.replace("/run/program", str(tmp_path)) for word in command]

    def probed() -> tuple[int, str]:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return done.returncode, done.stdout

    program = state.ProgramDir(tmp_path)
    code, said = probed()
    assert code == 1
    assert "unready" in said
    program.set_unready("No driver is loaded.")
    assert probed() == (1, "No driver is loaded.\n")
    program.set_ready("The driver 2.0.1 is loaded and proved.")
    assert probed() == (0, "The driver 2.0.1 is loaded and proved.\n")


def test_a_program_that_hangs_is_restarted_but_an_installer_never_is(rendered: Rendered) -> None:
    plugin = container(rendered("device-plugin/daemonset", PLUGIN))
    watcher = container(rendered("watcher/workload-kae-watcher", WATCHER))
    installer = container(rendered("driver/daemonset", POOL))

    for made, more in ((plugin, []), (watcher, ["--seconds", "3600"])):
        assert made["livenessProbe"]["exec"]["command"] == ["python", "-m", "runtime.probe", "alive", *more]
        assert made["livenessProbe"]["periodSeconds"] == 60
    assert "livenessProbe" not in installer


@pytest.mark.parametrize(("template", "value"), WORKLOADS[:2])
def test_optional_parts_that_are_empty_are_left_out(rendered: Rendered, template: str, value: object) -> None:
    workload = rendered(template, value)

    assert not {"tolerations", "imagePullSecrets", "hostNetwork", "hostIPC"} & set(pod(workload))
    assert "resources" not in container(workload)
    assert not [leaf for leaf in leaves(workload) if leaf in ({}, [], None)]


def test_an_installer_has_the_host_but_neither_its_network_nor_its_ipc(rendered: Rendered) -> None:
    workload = rendered("driver/daemonset", POOL)

    context = container(workload)["securityContext"]
    assert host_paths(workload) == {"/": True}
    assert pod(workload)["hostPID"] is True
    assert not {"hostNetwork", "hostIPC"} & set(pod(workload))
    (host,) = (mount for mount in container(workload)["volumeMounts"] if mount["name"] == "host")
    # The host can unmount what an installer sees.
    assert (host["mountPath"], host["mountPropagation"]) == ("/host", "HostToContainer")
    assert context["privileged"] is True
    assert context["runAsUser"] == 0
    assert context["readOnlyRootFilesystem"] is True


def test_an_installer_that_ends_leaves_programs_without_rights(rendered: Rendered) -> None:
    workload = rendered("driver/daemonset", replace(POOL, is_quiet=True, host_pid=False))

    spec = pod(workload)
    reporter, *copies, installer = spec["initContainers"]
    stay = [reporter, *spec["containers"]]
    assert (reporter["name"], installer["name"]) == ("reporter", "installer")
    assert all(one["name"].startswith("payload-") for one in copies)
    # A reporter in other hands cannot end an installer that is at work: pause is there only after it.
    (pause,) = spec["containers"]
    assert [one["name"] for one in (*stay, *copies, installer) if "restartPolicyRules" in one] == ["pause"]
    assert pause["restartPolicyRules"] == [
        {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
    ]
    assert all(mount["readOnly"] for mount in pause["volumeMounts"])
    assert reporter["env"] == [{"name": reporting.FOLDER, "value": "/run/report"}]
    assert not {"hostPID", "hostNetwork", "hostIPC"} & set(spec)
    assert spec["automountServiceAccountToken"] is False
    for one in stay:
        context = one["securityContext"]
        assert (context["runAsUser"], context["runAsNonRoot"], context["allowPrivilegeEscalation"]) == (
            65534,
            True,
            False,
        )
        assert (context["capabilities"], context["readOnlyRootFilesystem"]) == ({"drop": ["ALL"]}, True)
        mounts = one.get("volumeMounts", ())
        assert [mount["name"] for mount in mounts if not mount.get("readOnly")] in ([], ["report"])
        assert not {"token", "host", "credentials"} & {mount["name"] for mount in mounts}
    # The installer trusts nothing that the reporter writes.
    assert "report" not in {mount["name"] for mount in installer["volumeMounts"]}
    assert "ports" not in installer


@pytest.mark.parametrize(
    ("asked", "ended", "code"),
    [
        ("12.5\nModule x is not loaded.\n", "12.5\n", 42),
        ("9.0\nModule x is not loaded.\n", "12.5\n", None),  # By a reporter that saw the installer before.
        ("12.5", "12.5\n", None),
        ("", "", None),
        (None, "12.5\n", None),
        ("12.5\nModule x is not loaded.\n", None, None),
        (None, None, None),
        (Path("/dev/zero"), "12.5\n", None),
        (Path("pipe"), "12.5\n", None),
    ],
)
def test_pause_ends_where_the_reporter_asks_for_the_installer_that_ended(
    asked: str | Path | None, ended: str | None, code: int | None, rendered: Rendered, tmp_path: Path
) -> None:
    (pause,) = pod(rendered("driver/daemonset", replace(POOL, is_quiet=True)))["containers"]
    for name, text in (("report/asked", asked), ("program/ended", ended)):
        (tmp_path / name).parent.mkdir()
        if isinstance(text, Path):  # A reporter in other hands.
            os.mkfifo(tmp_path / "report/pipe")
            (tmp_path / name).symlink_to(text)
        elif text is not None:
            (tmp_path / name).write_text(text)
    command = [word.replace("/run/", f"{tmp_path}/").replace("sleep 2", "sleep 0.05") for word in pause["command"]]

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as shell:
        if code is None:
            with pytest.raises(subprocess.TimeoutExpired):
                shell.wait(0.3)
            shell.terminate()
        said, _ = shell.communicate(timeout=60)

    assert (shell.returncode, said) == ((0, "") if code is None else (code, "Module x is not loaded.\n"))


def test_only_programs_that_speak_to_the_api_server_have_a_token(rendered: Rendered) -> None:
    pods = {template: pod(rendered(template, value)) for template, value in WORKLOADS}
    accounts = [rendered(template, value) for template, value in VALUES.items() if "/serviceaccount-kae" in template]

    assert [name for name, made in pods.items() if made["automountServiceAccountToken"]] == [
        "driver/daemonset",
        "watcher/workload-kae-watcher",
    ]
    assert len(accounts) == 3
    assert not any(account["automountServiceAccountToken"] for account in accounts)


def test_a_device_plugin_is_root_without_any_right_of_root(rendered: Rendered) -> None:
    workload = rendered("device-plugin/daemonset", PLUGIN)

    context = container(workload)["securityContext"]
    assert context["runAsUser"] == 0
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["allowPrivilegeEscalation"] is False
    assert context["readOnlyRootFilesystem"] is True
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert "privileged" not in context
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod(workload))


def test_a_device_plugin_writes_to_two_folders_of_the_host_and_reads_its_devices(rendered: Rendered) -> None:
    workload = rendered("device-plugin/daemonset", PLUGIN)

    command = container(workload)["command"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container(workload)["volumeMounts"]}
    assert host_paths(workload) == {SOCKETS: True, "/run/kae": True, "/dev": False}
    assert command[command.index("--dev") + 1] == mounts["dev"]


def test_the_kubelet_finds_the_plugins_sockets_by_the_path_that_the_plugin_names(rendered: Rendered) -> None:
    settings = replace(PLUGIN.settings, kubelet_dir="/var/lib/k0s/kubelet")
    workload = rendered("device-plugin/daemonset", replace(PLUGIN, settings=settings))

    folder = "/var/lib/k0s/kubelet/plugins_registry/kae"
    assert host_paths(workload)[folder] is True
    assert folder in [mount["mountPath"] for mount in container(workload)["volumeMounts"]]


def test_a_device_plugin_sees_the_libraries_only_to_hand_them_out(rendered: Rendered) -> None:
    workload = rendered("device-plugin/daemonset", replace(PLUGIN, folders=(LIBRARIES,)))

    # /opt/kae is a link, and a mount of it would stay with the folder that it leads to now.
    assert host_paths(workload)["/opt"] is False
    assert "/host/opt" in [mount["mountPath"] for mount in container(workload)["volumeMounts"]]


def test_a_device_plugin_that_sets_modes_may_write_dev_and_is_in_the_group(rendered: Rendered) -> None:
    usual = rendered("device-plugin/daemonset", PLUGIN)
    workload = rendered("device-plugin/daemonset", replace(PLUGIN, device_nodes=shapes.DeviceNodes(group=994)))

    assert host_paths(usual)["/dev"] is False
    assert host_paths(workload)["/dev"] is True
    assert "securityContext" not in usual["spec"]["template"]["spec"]
    assert workload["spec"]["template"]["spec"]["securityContext"] == {"supplementalGroups": [994]}
    assert container(workload)["securityContext"] == container(usual)["securityContext"]


def test_the_guard_judges_the_evictions_of_the_installers_accounts_alone(rendered: Rendered) -> None:
    guard = replace(GUARD, namespace="accelerators")

    spec = rendered("guard/validatingadmissionpolicy-kae-driver", guard)["spec"]

    (condition,) = spec["matchConditions"]
    (rule,) = spec["matchConstraints"]["resourceRules"]
    accounts = "system:serviceaccount:accelerators:kae-driver-"
    assert condition["expression"] == f"(request.userInfo.username + '-').startsWith('{accounts}')"
    assert rule["apiGroups"] == [""]
    assert rule["resources"] == ["pods/eviction"]
    assert rule["operations"] == ["CREATE"]
    assert spec["failurePolicy"] == "Fail"


def test_the_guard_compares_the_node_of_the_token_with_the_node_of_the_pod(rendered: Rendered) -> None:
    spec = rendered("guard/validatingadmissionpolicy-kae-driver", GUARD)["spec"]

    (validation,) = spec["validations"]
    assert spec["paramKind"] == {"apiVersion": "v1", "kind": "Pod"}
    assert "params.metadata.name != request.name" in validation["expression"]
    assert "authentication.kubernetes.io/node-name" in validation["expression"]
    assert "params.spec.?nodeName" in validation["expression"]
    assert validation["reason"] == "Forbidden"


def test_the_guards_binding_denies_and_makes_every_pod_a_parameter(rendered: Rendered) -> None:
    binding = rendered("guard/validatingadmissionpolicybinding-kae-driver", GUARD)
    policy = rendered("guard/validatingadmissionpolicy-kae-driver", GUARD)

    spec = binding["spec"]
    assert spec["policyName"] == policy["metadata"]["name"]
    assert spec["validationActions"] == ["Deny"]
    assert spec["paramRef"] == {"parameterNotFoundAction": "Deny", "selector": {}}


def test_the_guard_of_leases_knows_the_mark_that_installers_write(rendered: Rendered) -> None:
    spec = rendered("guard/validatingadmissionpolicy-kae-driver-leases", GUARD)["spec"]
    binding = rendered("guard/validatingadmissionpolicybinding-kae-driver-leases", GUARD)["spec"]

    (rule,) = spec["matchConstraints"]["resourceRules"]
    (swaps,) = (variable["expression"] for variable in spec["variables"] if variable["name"] == "swaps")
    assert rule["operations"] == ["CREATE", "UPDATE"]
    assert rule["resources"] == ["leases"]
    assert f"'{lease_objects.SWAP}' in " in swaps
    assert binding["policyName"] == "kae-driver-leases"
    assert binding["validationActions"] == ["Deny"]


def test_a_watcher_may_read_nodes_and_nothing_else(rendered: Rendered) -> None:
    role = rendered("watcher/clusterrole-kae-watcher", WATCHER)
    binding = rendered("watcher/clusterrolebinding-kae-watcher", WATCHER)

    assert grants(role) == {(verb, "nodes", ()) for verb in ("list", "watch")}
    (subject,) = binding["subjects"]
    assert subject == {"kind": "ServiceAccount", "name": "kae-watcher", "namespace": "kae-operator"}
    assert binding["roleRef"]["name"] == role["metadata"]["name"]


def test_there_is_one_watcher_at_a_time_and_it_may_run_anywhere(rendered: Rendered) -> None:
    made = rendered("watcher/workload-kae-watcher", WATCHER)

    assert made["spec"]["replicas"] == 1
    assert made["spec"]["strategy"] == {"type": "Recreate"}
    assert not {"affinity", "nodeSelector", "tolerations"} & set(pod(made))


def test_a_cron_job_starts_one_watcher_at_a_time_which_commits_once(rendered: Rendered) -> None:
    spec = rendered("watcher/workload-kae-watcher", replace(WATCHER, schedule="*/5 * * * *"))["spec"]

    own = spec["jobTemplate"]["spec"]["template"]["spec"]
    assert spec["schedule"] == "*/5 * * * *"
    assert spec["concurrencyPolicy"] == "Forbid"
    assert spec["jobTemplate"]["spec"]["backoffLimit"] == 0
    assert own["restartPolicy"] == "Never"
    assert own["containers"][0]["args"] == ["--once"]
    assert not {"readinessProbe", "livenessProbe"} & set(own["containers"][0])


def test_a_watcher_is_an_ordinary_user_who_writes_to_scratch_folders_only(rendered: Rendered) -> None:
    made = rendered("watcher/workload-kae-watcher", WATCHER)

    user, own = pod(made)["securityContext"], container(made)["securityContext"]
    writable = {mount["mountPath"] for mount in container(made)["volumeMounts"] if not mount.get("readOnly", False)}
    (home,) = (variable["value"] for variable in container(made)["env"] if variable["name"] == "HOME")
    assert user["runAsNonRoot"] is True
    assert user["runAsUser"] > 0
    assert own == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True}
    assert writable == {"/run/program", home}
    folders = {volume["name"]: volume["emptyDir"] for volume in pod(made)["volumes"] if "emptyDir" in volume}
    assert folders == {"program": {"medium": "Memory", "sizeLimit": "8Mi"}, "scratch": {"sizeLimit": "1Gi"}}
    assert pod(made)["shareProcessNamespace"] is True  # Its sandbox collects what git leaves behind.
    assert not host_paths(made)


@pytest.mark.parametrize("signing", [None, "signing-key"])
def test_a_watchers_keys_are_readable_for_its_group_and_nobody_else(rendered: Rendered, signing: str | None) -> None:
    signs = fleet_clusters.Signing(format="ssh", secretName=signing) if signing else None
    made = rendered("watcher/workload-kae-watcher", replace(WATCHER, spec=replace(WATCHER.spec, signing=signs)))

    kubernetes_validate.validate(made, kubernetes_validate.latest_version(), strict=True)
    secrets = [volume["secret"] for volume in pod(made)["volumes"] if "secret" in volume]
    assert {secret["secretName"] for secret in secrets} == {"inventory-key", signing} - {None}
    assert {secret["defaultMode"] for secret in secrets} == {0o440}
    assert pod(made)["securityContext"]["fsGroup"] == pod(made)["securityContext"]["runAsGroup"]


def test_a_failed_sync_gives_way_to_the_next_commit_within_minutes(rendered: Rendered) -> None:
    retry = rendered("bootstrap/application", ARGO)["spec"]["syncPolicy"]["retry"]

    first, factor = int(retry["backoff"]["duration"].removesuffix("s")), retry["backoff"]["factor"]
    assert retry["limit"] > 0
    assert sum(first * factor**turn for turn in range(retry["limit"])) <= 300


def test_the_project_allows_one_repository_one_namespace_and_the_given_kinds(
    rendered: Rendered, repository_root: Path
) -> None:
    names = ("namespace/namespace", "monitoring/configmap-kae-dashboard", "driver/daemonset", "bootstrap/appproject")
    texts = {f"{name}.yaml": (repository_root / f"templates/{name}.yaml").read_text("utf-8") for name in names}
    item = templates.renderer(texts, template_code.functions(texts))(
        ir.Manifest(component="bootstrap", template="appproject.yaml", value=ARGO)
    )

    application = rendered("bootstrap/application", ARGO)
    spec = item["spec"]
    assert item["metadata"]["name"] == application["spec"]["project"]
    assert spec["sourceRepos"] == ["https://git.test/fleet.git"]
    assert spec["destinations"] == [application["spec"]["destination"]]
    assert spec["clusterResourceWhitelist"] == [{"group": "", "kind": "Namespace"}]
    assert spec["namespaceResourceWhitelist"] == [
        {"group": "", "kind": "ConfigMap"},
        {"group": "apps", "kind": "DaemonSet"},
    ]


def test_flux_applies_the_output_and_never_waits_for_hardware(rendered: Rendered) -> None:
    spec = rendered("bootstrap/kustomization", FLUX)["spec"]

    assert spec["path"] == "./output/east"
    assert spec["sourceRef"] == {"kind": "GitRepository", "name": "kae-east"}
    assert spec["wait"] is False
    assert spec["prune"] is True
    assert "kubeConfig" not in spec
