"""The configs that the programs of a recipe get, and the parts of their pods that KAE's do not have."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from compiler.formats import canonical, documents
from runtime import device_plugin_config, driver_config, shapes
from tests import builders, tools

TOKEN = {
    "name": "amd.com/onload",
    "class": "token",
    "count": "${values.maxPods}",
    "requires": ["/dev/onload", "/opt/onload/usr/lib64/libonload.so"],
    "profiles": "${values.profiles}",
    "inject": [
        {"nodes": [{"path": "/dev/onload"}], "mounts": [{"path": "/opt/onload/usr/lib64/libonload*.so*"}]},
        {"when": "${values.setPreload}", "preload": ["/opt/onload/usr/lib64/libonload.so"]},
        {"when": "${values.mountOnload}", "mounts": [{"path": "/opt/onload/usr/bin/onload"}]},
        {"env": {"EF_POLL_USEC": "1", "EF_NAME": "onload"}},
    ],
}
PARAMETERS = {
    "properties": {
        "maxPods": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
        "setPreload": {"type": "boolean", "default": True},
        "mountOnload": {"type": "boolean", "default": False},
        "profiles": {"type": "object", "default": {}, "additionalProperties": {"type": "object"}, "maxProperties": 16},
    }
}
IMAGES = {
    **builders.IMAGES,
    "modules": {"repository": "registry.test/drivers", "image": "module", "version": "8-${KERNEL_FULL_VERSION}"},
    "user": {"repository": "docker.io/onload", "image": "onload-user", "version": "8.1"},
}
ONLOAD = builders.recipe(
    "onload",
    match={"pci": [{"kind": "sfc", "vendor": "1924", "classes": ["0200"]}]},
    parameters=PARAMETERS,
    images=IMAGES,
    driver={
        "image": "installer",
        "version": "user",
        "payloads": [
            {"image": "modules", "paths": ["/opt/lib/modules", "/lib/firmware"]},
            {"image": "user", "paths": ["/opt/onload"]},
        ],
        "modules": [
            {"name": "sfc", "optional": True, "replaces": ["sfc"], "network": True},
            {"name": "onload", "parameters": {"number": {"type": "integer", "default": 3}, "name": {"type": "string"}}},
        ],
        "nodes": ["/dev/onload"],
        "files": [{"from": "/opt/onload", "to": "/opt/onload"}],
    },
    devicePlugin={"resources": [TOKEN]},
)
KERNEL = "6.1.0-9.aarch64"
PROFILES = {"latency": {"EF_POLL_USEC": "100000"}}
DESK = {
    "values": {"maxPods": 40, "profiles": PROFILES},
    "kernelMappings": [{"name": "el", "regexp": "^6", "kernels": [KERNEL], "driver": {"modules": ["sfc", "onload"]}}],
    "driver": {"moduleParameters": {"onload": {"name": "fast"}}},
}


def daemon_set(program: str, recipe: documents.Document, spec: Mapping[str, Any], **cluster: Any) -> Any:
    name = recipe.data["metadata"]["name"]
    objects = builders.objects([builders.device_policy("desk", recipe, **spec)], (), builders.cluster(**cluster))
    (item,) = (data for path, data in objects.items() if path.startswith(f"{name}/daemonset-{name}-{program}-"))
    return item


def config(item: Any) -> Any:
    return json.loads(item["spec"]["template"]["metadata"]["annotations"]["device.openfuyao.com/config"])


def pod(item: Any) -> Any:
    return item["spec"]["template"]["spec"]


def decoded(shape: Any, item: Any, folder: Path) -> Any:
    file = folder / "config.json"
    file.write_text(canonical.dump_json(config(item)), "utf-8")
    return shapes.load(file, shape)


def test_the_installer_of_a_recipe_gets_its_modules_files_and_resources(tmp_path: Path) -> None:
    item = daemon_set("driver", ONLOAD, DESK)

    settings = config(item)
    assert settings["modules"] == [
        {"name": "sfc", "replaces": ["sfc"], "network": True},
        {"name": "onload", "parameters": {"number": 3, "name": "fast"}},
    ]
    assert settings["payloads"] == [
        {"name": "modules", "paths": ["/opt/lib/modules", "/lib/firmware"]},
        {"name": "user", "paths": ["/opt/onload"]},
    ]
    assert decoded(driver_config.Config, item, tmp_path).recipe == "onload"


def test_modules_that_a_policy_does_not_load_have_no_parameters_and_no_rules() -> None:
    source = {"packages": {"names": ["onload"], "gpgCheck": False}}
    driver = {"network": {"force": True}, "installPolicy": "Always", "source": source}
    spec = {**DESK, "kernelMappings": [{"name": "el", "literal": KERNEL}], "driver": driver}

    settings = config(daemon_set("driver", ONLOAD, spec))

    assert settings["modules"] == [{"name": "onload", "parameters": {"number": 3}}]
    assert (settings["networkForce"], settings["installPolicy"], settings["source"]) == (True, "Always", source)


def test_init_containers_copy_each_path_of_a_payload_out_of_the_kernels_image() -> None:
    mirrors = [{"from": "registry.test", "to": "mirror.test"}]
    spec = {**DESK, "pullPolicy": "Always", "pullSecrets": [{"name": "registry"}]}
    spec_of_pod = pod(daemon_set("driver", ONLOAD, spec, images={"mirrors": mirrors}))

    copied = [
        (one["name"], one["image"], one["command"][-2], one["volumeMounts"][0]["subPath"])
        for one in spec_of_pod["initContainers"]
    ]
    modules = f"mirror.test/drivers/module:8-{KERNEL}"
    assert copied == [
        ("payload-modules-1", modules, "/opt/lib/modules", "modules/opt/lib"),
        ("payload-modules-2", modules, "/lib/firmware", "modules/lib"),
        ("payload-user-1", "docker.io/onload/onload-user:8.1", "/opt/onload", "user/opt"),
    ]
    assert {one["imagePullPolicy"] for one in (*spec_of_pod["initContainers"], *spec_of_pod["containers"])} == {
        "Always"
    }
    assert spec_of_pod["imagePullSecrets"] == [{"name": "registry"}]
    assert spec_of_pod["containers"][0]["image"] == "registry.example.com/drivers/installer:1.0"
    (mount,) = (mount for mount in spec_of_pod["containers"][0]["volumeMounts"] if mount["name"] == "payload")
    assert mount == {"name": "payload", "mountPath": "/payload", "readOnly": True}


def test_the_real_cp_copies_a_payload_to_where_the_installer_looks_twice(tmp_path: Path) -> None:
    image, payload = tmp_path / "image", tmp_path / "payload"
    modules = image / "opt/lib/modules/6.1"
    modules.mkdir(parents=True)
    (modules / "a.ko").write_text("a")
    (modules / "a.ko").chmod(0o444)
    (modules / "build").symlink_to("/usr/src/linux")
    (image / "lib").mkdir()
    (image / "lib/firmware").symlink_to(modules)
    (image / "opt/onload").mkdir()

    for one in pod(daemon_set("driver", ONLOAD, DESK))["initContainers"] * 2:
        *command, path, target = one["command"]
        folder = payload / one["volumeMounts"][0]["subPath"]
        folder.mkdir(parents=True, exist_ok=True)
        assert target == one["volumeMounts"][0]["mountPath"]
        subprocess.run([tools.require(command[0], "coreutils"), *command[1:], f"{image}{path}", folder], check=True)

    assert (payload / "modules/opt/lib/modules/6.1/a.ko").read_text() == "a"
    assert (payload / "modules/opt/lib/modules/6.1/build").is_symlink()
    assert (payload / "modules/lib/firmware/a.ko").is_file()
    assert (payload / "user/opt/onload").is_dir()


def test_a_recipes_device_plugin_gets_resources_without_conditions_and_profiles(tmp_path: Path) -> None:
    item = daemon_set("device-plugin", ONLOAD, DESK)
    settings = config(item)

    usual, latency = settings["resources"]
    assert usual["inject"]["env"] == {"EF_POLL_USEC": "1", "EF_NAME": "onload"}
    assert latency["name"] == "amd.com/onload-latency"
    assert latency["inject"]["env"] == {"EF_POLL_USEC": "100000", "EF_NAME": "onload"}
    assert len(decoded(device_plugin_config.Config, item, tmp_path).resources) == 2


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        (
            {"class": "char", "groups": [{"paths": [{"path": "/dev/npu*", "as": "/dev/"}]}], "shares": 2},
            {"class": "char", "shares": 2},
        ),
        ({"class": "vfio", "kind": "npu"}, {"class": "vfio", "kind": "npu"}),
        ({"class": "uacce", "kind": "npu", "shares": 3}, {"class": "uacce", "kind": "npu", "shares": 3}),
    ],
    ids=["char", "vfio", "uacce"],
)
def test_each_class_of_resources_is_one_that_the_device_plugin_reads(
    resource: Mapping[str, Any], expected: Mapping[str, Any], tmp_path: Path
) -> None:
    kinds = [{"kind": name, "vendor": "19e5", "devices": ["d100"]} for name in ("npu", "other")]
    plugin = {"resources": [{"name": "example.com/npu", **resource}]}
    recipe = builders.recipe("npus", match={"pci": kinds}, devicePlugin=plugin)

    item = daemon_set("device-plugin", recipe, {})

    (offered,) = config(item)["resources"]
    assert offered.items() >= expected.items()
    served = ["npu"] if "kind" in resource else []
    assert [kind.name for kind in decoded(device_plugin_config.Config, item, tmp_path).kinds] == served


@pytest.mark.parametrize(
    ("path", "folders"),
    [
        ("/opt/onload/usr/lib64/libonload*.so*", ["/opt"]),
        ("/opt/vendor/lib/libx.so", ["/opt/vendor"]),
        ("/usr/lib64/libx.so", ["/usr"]),
        ("/etc/vendor.conf", ["/etc"]),
        ("/opt/*/lib/x.so", ["/opt"]),
        ("/dev/vendor/x", []),
        ("/srv", ["/srv"]),
    ],
)
def test_a_device_plugin_sees_the_folder_above_that_of_what_a_container_gets(path: str, folders: list[str]) -> None:
    resource = {"name": "example.com/x", "class": "token", "count": 1, "inject": [{"mounts": [{"path": path}]}]}
    driver = {
        "image": "installer",
        "modules": [{"name": "onload"}],
        "files": [{"from": "/opt/onload", "to": "/opt/onload"}],
    }
    recipe = builders.recipe("x", driver=driver, devicePlugin={"resources": [resource]})

    spec = pod(daemon_set("device-plugin", recipe, {}))

    own = [volume for volume in spec["volumes"] if volume["name"].startswith("host-")]
    assert [volume["hostPath"]["path"] for volume in own] == folders
    mounts = [mount for mount in spec["containers"][0]["volumeMounts"] if mount["name"].startswith("host-")]
    assert [(mount["mountPath"], mount["readOnly"]) for mount in mounts] == [(f"/host{path}", True) for path in folders]


def test_a_folder_inside_of_another_one_is_not_mounted_again() -> None:
    mounts = [{"path": path} for path in ("/opt/vendor/lib/a.so", "/opt/b/x", "/opt/c/d/e/f", "/usr/lib64/a.so")]
    resource = {"name": "example.com/x", "class": "token", "count": 1, "inject": [{"mounts": mounts}]}
    recipe = builders.recipe("x", devicePlugin={"resources": [resource]})

    spec = pod(daemon_set("device-plugin", recipe, {}))

    paths = [volume["hostPath"]["path"] for volume in spec["volumes"] if volume["name"].startswith("host-")]
    assert paths == ["/opt", "/usr"]


@pytest.mark.parametrize(
    ("to", "is_taken"),
    [
        ("/lib/firmware/updates/sfc", True),
        ("/lib/firmware/updates/sfc/8.1", True),
        ("/lib/firmware/updates", False),
        ("/lib/firmware/sfc", False),
        ("/lib/firmware/updates/../sfc", False),
        ("/lib/modules/sfc", False),
    ],
)
def test_firmware_goes_below_its_own_folder_of_the_host_alone(to: str, is_taken: bool) -> None:
    driver = {**ONLOAD.data["spec"]["driver"], "files": [{"from": "/lib/firmware", "to": to}]}
    document = builders.document({**ONLOAD.data, "spec": {**ONLOAD.data["spec"], "driver": driver}})

    _, found = builders.judge().judge(document)

    assert [finding.code for finding in found] == ([] if is_taken else ["invalid-value"])
    if is_taken:
        assert config(daemon_set("driver", document, DESK))["files"] == [{"from": "/lib/firmware", "to": to}]
