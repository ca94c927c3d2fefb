"""Rules for the programs of recipes, beyond the examples of tests/failures."""

import copy
from typing import Any

import pytest

from compiler import pipeline
from compiler.diagnostics import Diagnostic
from tests.builders import document, judge, raw

PARAMETERS: dict[str, Any] = {
    "extra": {"type": "boolean", "default": False},
    "level": {"type": "integer", "minimum": 0, "maximum": 9, "default": 1},
    "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
    "name": {"type": "string", "maxLength": 60},
    "ids": {"type": "array", "maxItems": 4, "items": {"type": "string"}, "default": []},
    "map": {"type": "object", "maxProperties": 4, "additionalProperties": {"type": "string"}, "default": {}},
}
PROGRAM: dict[str, Any] = {
    "name": "plugin",
    "per": "pool",
    "offers": ["example.com/net"],
    "pod": {"containers": [{"name": "plugin", "image": "plugin", "args": ["-v=${values.level}"]}]},
}
USED = [f"-{name}=${{values.{name}}}" for name in PARAMETERS if name != "map"]


def recipe(program: dict[str, Any] | None = None, pod: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A recipe whose program has these fields, its pod and its container others."""
    made = copy.deepcopy(PROGRAM) | copy.deepcopy(program or {})
    made["pod"] = {**made["pod"], **(pod or {})}
    # Every parameter stands somewhere.
    made["files"] = {"used": {"all": " ".join(USED), "map": {"json": "${values.map}"}}, **made.get("files", {})}
    made["files"]["used"]["map"] = {"json": {"map": "${values.map}"}}
    return {
        "title": "A network card",
        "match": {"all": {}},
        "parameters": {"properties": PARAMETERS},
        "images": {"plugin": {"repository": "r.example/net", "image": "plugin", "version": "1"}},
        "programs": [made],
        **more,
    }


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "plugin", "image": "plugin", **fields}]}


def mounted(path: str, **volume: Any) -> dict[str, Any]:
    """A pod with a volume of a path of the host."""
    return {"volumes": [{"name": "host", "hostPath": {"path": path}, **volume}]}


def judged(spec: dict[str, Any], policy: dict[str, Any] | None = None) -> list[Diagnostic]:
    given = [document(raw("Recipe", "net", spec), "recipes/net/recipe.yaml")]
    given.append(document(raw("KAECluster", "east", {"kubernetesVersion": "1.36"}), "policies/east.yaml"))
    if policy is not None:
        given.append(document(raw("DevicePolicy", "lab", {"recipe": "net", **policy}), "policies/lab.yaml"))
    return list(pipeline.read(given, judge())[1])


def codes(spec: dict[str, Any], policy: dict[str, Any] | None = None) -> list[str]:
    return sorted({each.code for each in judged(spec, policy)})


def test_a_recipe_with_a_program_alone_has_no_mistake() -> None:
    assert judged(recipe(), {}) == []


@pytest.mark.parametrize(
    ("pod", "code"),
    [
        (container(args=["${HOME}"]), "reference-syntax"),
        (container(args=["${values.nn}"]), "reference-name"),
        (container(args=[{"when": {"extra": False, "none": 1}, "value": "${values.nn}"}]), "reference-name"),
        (container(args=["${key}"]), "reference-name"),
        (container(args=["${kernel.full} ${arch}"]), "reference-name"),
        (container(args=["-x=${values.map}"]), "reference-type"),
        (container(securityContext={"privileged": "${values.level}"}), "reference-type"),
        (container(command=["sh", "-c", "run ${values.name}"]), "reference-type"),
        (container(command=["sh"], args=["-ec", "run ${values.name}"]), "reference-type"),
        (container(args=[{"when": {"mode": "c"}, "value": "x"}]), "invalid-value"),
        (mounted("${values.name}"), "reference-absent"),
        (mounted("/etc/kubernetes"), "privilege-refused"),
        (mounted("/run"), "privilege-refused"),
        (mounted("${kubeletDir}/pki"), "privilege-refused"),
        (container(securityContext={"seLinuxOptions": {"type": "spc_t"}}), "privilege-refused"),
        (container(volumeMounts=[{"name": "none", "mountPath": "/a"}]), "recipe-reference"),
        (container(image="other"), "recipe-reference"),
        ({"volumes": [{"name": "a", "files": {"name": "none"}}]}, "recipe-reference"),
        ({"volumes": [{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]}, "duplicate-name"),
        ({"volumes": [{"name": "a", "emptyDir": {}, "hostPath": {"path": "/sys"}}]}, "invalid-value"),
        ({"volumes": [{"name": "a"}]}, "invalid-value"),
        (
            container(env=[{"name": "A", "value": "", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]),
            "invalid-value",
        ),
        (container(livenessProbe={"periodSeconds": 5}), "invalid-value"),
        (container(restartPolicy="Always"), "invalid-value"),
        (container(when={"extra": True}), "program-incomplete"),
        # Fields that a recipe has not.
        (container(envFrom=[{"secretRef": {"name": "a"}}]), "unknown-field"),
        (container(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]), "unknown-field"),
        (container(ports=[{"containerPort": 80, "hostPort": 80}]), "unknown-field"),
        (container(livenessProbe={"httpGet": {"port": 80, "host": "1.2.3.4"}}), "unknown-field"),
        (container(securityContext={"procMount": "Unmasked"}), "unknown-field"),
        (container(securityContext={"seccompProfile": {"type": "Unconfined"}}), "invalid-value"),
        (container(securityContext={"appArmorProfile": {"type": "Unconfined"}}), "invalid-value"),
        (
            container(volumeMounts=[{"name": "a", "mountPath": "/a", "mountPropagation": "Bidirectional"}]),
            "invalid-value",
        ),
        (container(image="docker.io/a/b:1"), "invalid-value"),
        *(
            ({field: value}, "unknown-field")
            for field, value in (
                ("nodeSelector", {}),
                ("nodeName", "n"),
                ("tolerations", []),
                ("affinity", {}),
                ("serviceAccountName", "a"),
                ("automountServiceAccountToken", True),
                ("priorityClassName", "a"),
                ("imagePullSecrets", []),
                ("hostAliases", []),
                ("hostUsers", False),
                ("resourceClaims", []),
                ("schedulerName", "a"),
            )
        ),
        ({"securityContext": {"sysctls": []}}, "unknown-field"),
        *(
            ({"volumes": [{"name": "a", source: {}}]}, "unknown-field")
            for source in (
                "secret",
                "configMap",
                "projected",
                "csi",
                "ephemeral",
                "persistentVolumeClaim",
                "image",
                "nfs",
            )
        ),
    ],
)
def test_what_a_pod_of_a_recipe_cannot_have_is_found(pod: dict[str, Any], code: str) -> None:
    assert code in codes(recipe(pod=pod))


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ({"name": "driver"}, "reserved-name"),
        ({"name": "a-b"}, "invalid-value"),
        ({"after": "driver"}, "recipe-reference"),
        ({"offers": ["net"]}, "invalid-value"),
        ({"claims": ["path:dev"]}, "invalid-value"),
        ({"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]}, "privilege-refused"),
        ({"clusterRules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]}, "unknown-field"),
        ({"files": {"a": {"x": {"json": ["a"], "text": "b"}}}}, "reference-type"),
        ({"files": {"a": {"../x": "a"}}}, "invalid-value"),
        ({"files": {"a": {"x": "a" * 65000, "y": "a" * 65000, "z": "a" * 65000, "w": "a" * 65000}}}, "invalid-value"),
        ({"files": {"a": {"${key}": {"each": "${values.ids}", "text": "a"}}}}, "reference-type"),
        ({"when": {"nn": True}}, "reference-name"),
    ],
)
def test_what_a_program_cannot_say_is_found(program: dict[str, Any], code: str) -> None:
    assert code in codes(recipe(program))


def test_a_value_of_a_policy_is_judged_in_its_place_and_the_finding_names_the_policy() -> None:
    pod = mounted("/opt${values.name}", when="${values.name}")

    (found,) = judged(recipe(pod=pod), {"values": {"name": "/../etc/kubernetes"}})

    assert (found.code, found.span.file) == ("privilege-refused", "recipes/net/recipe.yaml")
    assert found.message == "A program may not have '/opt/../etc/kubernetes' of the node."
    assert found.notes[-1] == "This is so with the values of policy 'lab'."
    assert judged(recipe(pod=pod), {"values": {"name": "/net"}}) == []


def test_a_value_of_a_wave_is_judged_too() -> None:
    wave = {"name": "canary", "percent": 5, "values": {"name": "/../etc/kubernetes"}}
    pod = mounted("/opt${values.name}", when="${values.name}")

    assert codes(recipe(pod=pod), {"rollout": {"waves": [wave]}}) == ["privilege-refused"]


@pytest.mark.parametrize(
    ("program", "policy", "is_told"),
    [
        ({}, {"values": {"name": "/etc/ssh"}}, True),
        ({}, {"values": {"name": "/etc/ssh"}, "programs": {"plugin": {"enabled": False}}}, False),
        ({}, {"values": {"name": "/opt/v"}, "rollout": {"waves": [{"name": "a", "percent": 5}]}}, False),
        (
            {},
            {
                "values": {"name": "/etc/ssh"},
                "kernelMappings": [{"name": "every", "regexp": ".", "values": {"name": "/opt/v"}}],
            },
            False,
        ),
    ],
)
def test_a_program_is_judged_with_the_values_that_its_pods_have(
    program: dict[str, Any], policy: dict[str, Any], is_told: bool
) -> None:
    pod = {**container(), **mounted("${values.name}")}
    pod["volumes"][0]["when"] = "${values.name}"

    assert ("privilege-refused" in codes(recipe(program, pod=pod), policy)) == is_told


@pytest.mark.parametrize(
    ("per", "version", "is_told"),
    [("policy", "1-${KERNEL_FULL_VERSION}", True), ("policy", "1", False), ("pool", "1-${KERNEL_FULL_VERSION}", False)],
)
def test_a_program_once_a_policy_waits_by_an_image_of_all_kernels(per: str, version: str, *, is_told: bool) -> None:
    images = {
        "plugin": {"repository": "r.example/net", "image": "plugin", "version": "1"},
        "installer": {"repository": "r.example/kae", "image": "installer", "version": version},
    }
    driver = {"image": "installer", "modules": [{"name": "net"}]}
    kernels = {"kernels": ["6.6.0-1.aarch64"]} if "$" in version else {}
    policy = {"kernelMappings": [{"name": "every", "regexp": ".", **kernels}]}

    found = codes(recipe({"per": per, "after": "driver"}, driver=driver, images=images), policy)

    assert ("driver-differs" in found) == is_told


def test_a_program_once_a_policy_takes_nothing_of_a_wave() -> None:
    wave = {"name": "canary", "percent": 5, "values": {"level": 2}, "images": {"plugin": {"version": "2"}}}

    found = judged(recipe({"per": "policy"}), {"rollout": {"waves": [wave]}})
    assert [(finding.code, finding.message, finding.hint) for finding in found] == [
        (
            "override-unused",
            f"Wave 'canary' sets '{one}', which program 'plugin' has once in a policy.",
            f"Write per: pool for the program in the recipe, or set it in spec.{one.partition('.')[0]}.",
        )
        for one in ("values.level", "images.plugin")
    ]
    assert judged(recipe(), {"rollout": {"waves": [wave]}}) == []


def test_a_program_that_names_the_kernel_runs_in_pools_of_one() -> None:
    spec = recipe(pod=container(args=["${kernel.full} ${values.level}"]))
    mapping = {"name": "k", "regexp": "^6"}

    assert codes(spec, {}) == ["reference-absent"]
    assert codes(spec, {"kernelMappings": [mapping]}) == ["reference-absent"]
    named = {**mapping, "images": {"plugin": {"version": "${KERNEL_FULL_VERSION}"}}}
    assert codes(spec, {"kernelMappings": [named]}) == []


def test_a_program_that_names_the_system_runs_in_pools_of_one() -> None:
    spec = recipe(pod=container(args=["${os.id} ${os.version}"]))
    mapping = {"name": "k", "regexp": "^6"}

    assert codes(spec, {}) == ["reference-absent"]
    assert codes(spec, {"kernelMappings": [mapping]}) == ["reference-absent"]
    for system, found in (
        ({"id": "ubuntu"}, ["reference-absent"]),
        ({"id": "ubuntu", "versions": ["22.04", "24.04"]}, ["reference-absent"]),
        ({"id": "ubuntu", "versions": ["24.04"]}, []),
    ):
        assert codes(spec, {"kernelMappings": [{**mapping, "os": system}]}) == found
    assert codes(recipe({"per": "policy"}, pod=container(args=["${os.id}"]))) == ["reference-name"]


def admission(path: str) -> dict[str, Any]:
    """A recipe whose admission mounts a path of the node into pods."""
    volume = f'Object.spec.volumes{{name: "v", hostPath: Object.spec.volumes.hostPath{{path: "{path}"}}}}'
    mutation = {"applyConfiguration": f"Object{{spec: Object.spec{{volumes: [{volume}]}}}}"}
    return recipe(admission=[{"name": "a", "title": "A", "resources": ["example.com/net"], "mutations": [mutation]}])


@pytest.mark.parametrize(
    ("path", "folder", "is_refused"),
    [
        ("/var/lib/kubelet/device-plugins", None, True),
        ("/opt/kubelet/pods", None, False),
        ("/opt/kubelet/pods", "/opt/kubelet", True),
        ("/run/vendor", "/opt/kubelet", False),
    ],
)
def test_an_admission_gives_no_folder_of_the_kubelet_to_pods(
    path: str, folder: str | None, *, is_refused: bool
) -> None:
    policy = {"kubeletDir": folder} if folder else {}

    assert ("privilege-refused" in codes(admission(path), policy)) == is_refused


FREE = "echo ${values.name}"
SHELL = "A shell would read '${values.name}' as a part of its program."


@pytest.mark.parametrize(
    "fields",
    [
        {"args": ["-c", FREE]},
        {"command": ["sh", "-ceu"], "args": [FREE]},
        {"command": ["/bin/bash", "+o", "pipefail", "-c", FREE]},
        {"command": ["env", "busybox", "sh", "-xec", FREE]},
        {"command": ["sh"], "args": [{"when": "${values.name}", "value": ["-c", FREE]}]},
        {"command": ["${values.shell}", "-ec", FREE]},
        {"command": ["sh", "${values.flag}", FREE]},
        {"livenessProbe": {"exec": {"command": ["sh", "-c", FREE]}}},
        {"lifecycle": {"postStart": {"exec": {"command": ["sh", "-c", FREE]}}}},
    ],
)
def test_no_shell_reads_the_text_of_a_policy_wherever_its_command_stands(fields: dict[str, Any]) -> None:
    texts = {"shell": ["sh", "none"], "flag": ["-ec", "-x"]}
    more = {name: {"type": "string", "enum": values, "default": values[0]} for name, values in texts.items()}
    used = [f"${{values.{name}}}" for name in more if f"values.{name}" not in str(fields)]
    spec = recipe(
        pod=container(**fields, env=[{"name": f"USED{index}", "value": one} for index, one in enumerate(used)])
    )
    spec["parameters"] = {"properties": {**PARAMETERS, **more}}

    assert SHELL in [finding.message for finding in judged(spec)]


def test_what_is_no_program_of_a_shell_may_have_the_text_of_a_policy() -> None:
    pod = container(
        command=["sh", "-c", 'echo "$NAME"'],
        args=["-config", {"when": "${values.name}", "value": "a"}],
        env=[{"name": "NAME", "value": "${values.name}"}],
        livenessProbe={"exec": {"command": ["probe", "-config", "${values.name}"]}},
    )

    assert codes(recipe(pod=pod)) == []


def test_a_resource_is_offered_once_in_a_recipe() -> None:
    other = {**PROGRAM, "name": "other", "offers": ["example.com/*"]}
    spec = recipe()
    spec["programs"].append(other)

    assert codes(spec) == ["duplicate-name"]
    spec["programs"][1] = {**other, "when": {"extra": True}}
    assert codes(spec) == []
    assert codes(spec, {"values": {"extra": True}}) == ["duplicate-name"]


def test_a_parameter_that_is_no_boolean_excludes_others_where_it_is_set() -> None:
    spec = recipe(exclusive=[["name", "extra"]])

    (found,) = judged(spec, {"values": {"name": "a", "extra": True}})

    assert (found.code, found.message) == ("values-exclusive", "'name' and 'extra' are both set.")
    assert judged(spec, {"values": {"name": "a"}}) == []


def test_what_a_policy_says_of_programs_is_of_the_recipe() -> None:
    given: tuple[dict[str, Any], ...] = (
        {"other": {}},
        {"plugin": {"resources": {"other": {}}}},
        {"plugin": {"image": "a"}},
        {"plugin": {"maxUnavailable": 0}},
    )
    assert all(judged(recipe(), {"programs": programs}) != [] for programs in given)
    assert judged(recipe(), {"programs": {"plugin": {"enabled": False, "resources": {"plugin": {}}}}}) == []
    assert "unknown-field" in codes({**recipe(), "programs": [], "parameters": {}}, {"programs": {"plugin": {}}})


@pytest.mark.parametrize(
    "match",
    [
        {"labels": {"a": ["b"]}, "features": [{"feature": "cpu.cpuid", "matchExpressions": {"A": {"op": "Exists"}}}]},
        {"all": {}, "extended": {"example.com/a": "1"}},
        {"extended": {"example.com/a": "1"}},
        {"any": [{"pci": [{"kind": "a", "vendor": "19e5"}]}]},
        {"any": [{"features": [{"feature": "nope.cpuid", "matchExpressions": {"A": {"op": "Exists"}}}]}]},
    ],
)
def test_a_match_that_nfd_cannot_make_a_rule_of_is_refused(match: dict[str, Any]) -> None:
    assert judged(recipe(match=match)) != []


def test_a_recipe_does_not_match_by_what_it_loads_in_any_alternative() -> None:
    match = {"any": [{"features": [{"feature": "kernel.loadedmodule", "matchExpressions": {"net": {"op": "Exists"}}}]}]}
    driver = {"modules": [{"name": "net"}]}

    assert "match-on-effect" in codes(recipe(match=match, driver=driver))


@pytest.mark.parametrize("field", ["maxParallel", "maxUnavailable", "minReadySeconds"])
def test_a_policy_of_a_recipe_without_a_driver_has_no_pace_of_one(field: str) -> None:
    (found,) = judged(recipe(), {"rollout": {field: 5}})

    assert (found.code, found.message) == ("unknown-field", f"'{field}' is not a field of 'spec.rollout'.")


def test_a_pod_that_no_api_server_takes_is_told_with_the_values_that_make_it() -> None:
    pod = container(volumeMounts=[{"name": "host", "mountPath": "/v", "subPath": "${values.name}"}])
    spec = recipe(pod={**pod, "volumes": [{"name": "host", "emptyDir": {}}]})

    assert judged(spec, {"values": {"name": "a"}}) == []
    (found,) = judged(spec, {"values": {"name": "../a"}})

    assert (found.code, found.notes) == ("invalid-value", ("This is so with the values of policy 'lab'.",))
    assert found.span.file == "recipes/net/recipe.yaml"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("-v={{ .Values.level }}", "values.level"),
        ("-v={{- values.level -}}", "values.level"),
        ("-v=$values.level", "values.level"),
        ("-v=$(values.levle)", "values.level"),
        ("$(images.plugin)", "images.plugin"),
        ("{{ .Pool.name }}", "pool.name"),
        # What is none, or is escaped.
        ("cat $values.yaml {{ .Node.Name }} $(POD_NAME) $(values) {values.level}", ""),
        ("$$(values.level) $${values.level}", ""),
    ],
)
def test_a_reference_in_the_way_of_other_tools_is_told_with_its_own_form(text: str, meant: str) -> None:
    found = judged(recipe(pod=container(args=[text])))

    assert [each.code for each in found] == (["reference-misspelt"] if meant else [])
    assert [each.hint for each in found] == ([f"Write ${{{meant}}}, if it is meant to be one."] if meant else [])


@pytest.mark.parametrize("name", ["rdma/hca_shared_devices_a", "rdma/*", "example.com/a"])
def test_the_domain_of_a_resource_is_of_one_label_or_several(name: str) -> None:
    assert judged(recipe({"offers": [name]})) == []
    assert codes(recipe(match={**PCI, "extended": {name.replace("*", "a"): "4"}})) == []


@pytest.mark.parametrize(
    "name", ["kubernetes.io/gpu", "a.kubernetes.io/gpu", "mykubernetes.io/gpu", "requests.example.com/gpu"]
)
def test_a_resource_that_the_kubelet_takes_from_no_plugin_is_not_offered(name: str) -> None:
    (found,) = judged(recipe({"offers": [name]}))

    assert (found.code, found.message) == (
        "invalid-value",
        f"Kubernetes takes no resource '{name}' from a device plugin.",
    )


PCI = {"pci": [{"kind": "a", "vendor": "19e5", "devices": ["0001"]}]}


@pytest.mark.parametrize(
    ("extended", "found"),
    [
        ({"example.com/a": "4"}, []),
        ({"example.com/a": "4Gi"}, []),
        ({"example.com/a": "@cpu.security.sgx.epc"}, []),
        ({"example.com/a": "many"}, ["invalid-value"]),
        ({"example.com/a": "-4"}, ["invalid-value"]),
        ({"example.com/a": "1.5"}, ["invalid-value"]),
        ({"example.com/a": "@cpu"}, ["invalid-value"]),
        ({"abc": "4"}, ["invalid-value"]),
        ({"kubernetes.io/a": "4"}, ["resource-class"]),
        ({"a.kubernetes.io/a": "4"}, ["resource-class"]),
        ({"mykubernetes.io/a": "4"}, ["resource-class"]),
        ({"requests.example.com/a": "4"}, ["resource-class"]),
        ({"example.com/net": "4"}, ["duplicate-name"]),
    ],
)
def test_what_nfd_counts_is_a_number_of_a_resource_of_its_own(extended: dict[str, str], found: list[str]) -> None:
    assert codes(recipe(match={**PCI, "extended": extended})) == found


def test_a_program_may_offer_a_glob_around_what_nfd_counts() -> None:
    assert codes(recipe({"offers": ["example.com/*"]}, match={**PCI, "extended": {"example.com/a": "4"}})) == []


def test_a_device_plugin_offers_nothing_that_nfd_counts() -> None:
    plugin = {"resources": [{"name": "example.com/a", "class": "token", "count": 4}]}

    assert "duplicate-name" in codes(recipe(match={**PCI, "extended": {"example.com/a": "4"}}, devicePlugin=plugin))


@pytest.mark.parametrize("name", ["kubernetes.io/a", "a.kubernetes.io/*", "requests.example.com/a"])
def test_a_program_offers_no_resource_of_kubernetes(name: str) -> None:
    assert codes(recipe({"offers": [name]})) == ["invalid-value"]


EACH = {"each": "${values.map}", "text": "${value}"}


@pytest.mark.parametrize(
    "files",
    [
        {"all.conf": "4", "${key}.conf": EACH},
        {"${key}.conf": EACH, "all.conf": "4"},
        {"same.conf": EACH},
        {"all.conf": {"json": {"a": 1}}, "${key}.conf": EACH},
        {"${key}.conf": EACH, "${values.name}.conf": {"text": "b"}},
    ],
)
def test_no_file_takes_the_place_of_another(files: dict[str, Any]) -> None:
    given = {"values": {"map": {"all": "X", "b": "Y"}, "name": "all"}}
    others = {"values": {"map": {"c": "X"}, "name": "d"}}

    [found] = judged(recipe({"files": {"config": files}}), given)

    assert found.code == "duplicate-name"
    assert judged(recipe({"files": {"config": files}}), others) == []


@pytest.mark.parametrize(
    ("content", "is_sound"),
    [
        ({"${values.name}": "1"}, False),
        ({"a": [{"b-${values.name}": "1"}]}, False),
        ({"${": "1"}, False),
        ({"$${HOME}": "${values.name}"}, True),
    ],
)
def test_no_reference_stands_in_a_key_of_json(content: dict[str, Any], is_sound: bool) -> None:
    found = judged(recipe({"files": {"config": {"a.json": {"json": content}}}}), {})

    assert [each.code for each in found] == ([] if is_sound else ["reference-syntax"])
