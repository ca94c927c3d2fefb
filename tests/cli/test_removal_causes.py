"""A removal stands where it is caused, says why and what stays on the hosts, and leads out, for KAE and recipes."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests import builders, in_process, project
from tests.failures import projects

TOLERATING = "  daemonSets: {tolerations: [{operator: Exists}]}\n"
SELECTED = "  nodeSelector:\n    matchLabels:\n      pool: tls\n"
TLS = projects.POLICY.replace("spec:\n", f"spec:\n{SELECTED}")
LITERAL = "5.10.0-216.0.0.115.oe2203sp4.aarch64"
OLD = "    - {name: old, regexp: '^4', version: 2.2.0-b}\n"
MAPPED = TLS.replace(
    "2.2.0\n",
    f"2.2.0\n    kernelMappings:\n    - {{name: lts, literal: {LITERAL}, version: 2.2.0-a}}\n{OLD}",
)
NAMED = MAPPED.replace(f"literal: {LITERAL}", "regexp: ^5").replace("2.2.0-a", "'2.2.0-${KERNEL_FULL_VERSION}'")
CLEANING = ("2.2.0\n", "2.2.0\n    enabledCleanup: true\n")
RECIPE = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: Recipe
metadata:
  name: ascend
spec:
  title: NPU
  match: {pci: [{kind: npu, vendor: "19e5", devices: [d801]}]}
  images:
    driver-installer: {image: kae-driver-installer, version: 0.2.0}
    driver: {repository: registry.example.com/npu, image: npu-driver, version: 1.0.0}
    device-plugin: {repository: registry.example.com/npu, image: kae-device-plugin, version: 1.4.1}
  driver:
    version: driver
    sources: [prebuilt]
    payloads: [{image: driver, paths: [/opt/lib/modules]}]
    modules: [{name: npu_drv}]
  devicePlugin:
    resources:
      - {name: example.com/npu, class: char, groups: [{paths: [{path: /dev/davinci*}]}]}
"""
UNDRIVEN = RECIPE[: RECIPE.index("    driver-installer")] + RECIPE[RECIPE.index("    device-plugin") :]
UNDRIVEN = UNDRIVEN[: UNDRIVEN.index("  driver:")] + UNDRIVEN[UNDRIVEN.index("  devicePlugin:") :]
DESK = f"""\
apiVersion: device.openfuyao.com/v1alpha1
kind: DevicePolicy
metadata:
  name: tls
spec:
  recipe: ascend
{SELECTED}"""
DESK_MAPPED = f"""{DESK}\
  kernelMappings:
  - {{name: lts, regexp: '^5', images: {{driver: {{version: 1.0.0-a}}}}}}
  - {{name: old, regexp: '^4', images: {{driver: {{version: 1.0.0-b}}}}}}
"""
BEYOND = "To have the driver removed from the hosts too, "
FIRST = f"{BEYOND}compile the policy with driver.state: Absent first, and"
BESIDE = f"{BEYOND}add a policy with driver.state: Absent for such nodes, and delete that one"
UNKNOWN = "No node has the label pool=tsl; did you mean 'tls'?"
STAYS = "The driver of policy 'tls' loses its installer, and stays, on 3 nodes (kp-1, kp-2 and kp-3) of cluster 'east'."
GONE = "The driver of policy 'tls' loses its installer, and stays, on the hosts of cluster 'east'"
REMOVED = "The driver of policy 'tls' is removed from 3 nodes (kp-1, kp-2 and kp-3) of cluster 'east'."


def _project(policy: str) -> dict[str, str]:
    """Return a cluster with a policy, for KAE or a recipe, and three nodes with both kinds of hardware."""
    npu = {f"openfuyao.com/ascend{kind}.present": "true" for kind in ("", ".npu")}
    hpre = {f"openfuyao.com/kae{kind}.present": "true" for kind in ("", ".hpre")}
    nodes = [builders.kubernetes_node(f"kp-{n}", npu | hpre | {"pool": "tls"}) for n in (1, 2, 3)]
    tainted = [node | {"spec": {"taints": [{"key": "dedicated", "effect": "NoSchedule"}]}} for node in nodes]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": tainted})
    recipe = {"recipes/ascend/recipe.yaml": RECIPE} if "recipe: ascend" in policy else {}
    tolerating = policy.replace("spec:\n", f"spec:\n{TOLERATING}", 1)
    texts = {"policies/east.yaml": projects.CLUSTER, "policies/tls.yaml": tolerating, "inventory/east.json": listed}
    return {**texts, **recipe}


KERNEL = json.loads(_project(TLS)["inventory/east.json"])["items"][0]["status"]["nodeInfo"]["kernelVersion"]
REST = TLS.replace("name: tls", "name: rest").replace(SELECTED, f"  default: true\n{TOLERATING}")
ABSENT = REST.replace("2.2.0\n", "2.2.0\n    state: Absent\n")
WEST = projects.CLUSTER.replace("east", "west")

Edit = tuple[str, str]
CASES: Mapping[str, tuple[str, Edit | None, Mapping[str, str], str, str, str, str]] = {
    # By name: the policy, its edit (None deletes it), other files; then place, message, note and hint.
    "deleted": (TLS, None, {}, "output/east/driver/", STAYS, "No document declares policy 'tls'", f"{FIRST} delete it"),
    "emptied": (
        TLS,
        ("", ""),
        {},
        "policies/tls.yaml: ",
        STAYS,
        "No document declares policy 'tls' any more, and policies/tls.yaml holds none.",
        f"Restore the document, such as by `git checkout HEAD -- policies/tls.yaml`. {FIRST}",
    ),
    "cleaning, deleted": (
        TLS.replace(*CLEANING),
        None,
        {},
        "output/east/driver/",
        REMOVED,
        "It has driver.enabledCleanup: its installers remove the driver from the hosts as they end.",
        "Restore its document",
    ),
    "label mistyped": (
        TLS,
        ("pool: tls", "pool: tsl"),
        {},
        "policies/tls.yaml:7:3: ",
        STAYS,
        UNKNOWN,
        f"Correct the nodeSelector of policy 'tls', or the labels of the nodes. {BESIDE}",
    ),
    "cleaning, label mistyped": (
        TLS.replace(*CLEANING),
        ("pool: tls", "pool: tsl"),
        {},
        "policies/tls.yaml:7:3: ",
        STAYS,  # Their DaemonSet is still there, so the installers that end ask and keep the driver.
        "No node has the label pool=tsl",
        BESIDE,
    ),
    "nodes of a policy that removes": (
        TLS,
        ("pool: tls", "pool: tsl"),
        {"policies/rest.yaml": ABSENT},
        "policies/tls.yaml:7:3: ",
        REMOVED,
        f"{UNKNOWN} Policy 'rest' takes such nodes: its driver.state is Absent.",
        "Correct the nodeSelector of policy 'tls'",
    ),
    "other cluster": (
        TLS,
        ("spec:\n", "spec:\n  clusters: [west]\n"),
        {"policies/west.yaml": WEST},
        "policies/tls.yaml:6:13: ",
        STAYS,
        "Policy 'tls' is no longer for cluster 'east'.",
        f"Have spec.clusters name 'east' again. {BEYOND}add a policy with driver.state: Absent for cluster 'east'",
    ),
    "pre-installed": (
        TLS,
        ("    version: 2.2.0\n", "    enabled: false\n"),
        {},
        "policies/tls.yaml:11:14: ",
        STAYS,
        "driver.enabled is false: the driver counts as pre-installed.",
        f"Set driver.enabled: true. {FIRST} set driver.enabled: false",
    ),
    "untolerated": (
        TLS,
        (TOLERATING, ""),
        {},
        "policies/tls.yaml:4:9: ",
        STAYS,
        "The policy does not tolerate the taint dedicated:NoSchedule.",
        f"Add a toleration to daemonSets.tolerations. {BESIDE}",
    ),
    "kinds": (
        TLS,
        ("spec:\n", "spec:\n  operator: {enabledHPRE: false, enabledSEC: true}\n"),
        {},
        "policies/tls.yaml:6:3: ",
        STAYS,
        "Policy 'tls' serves sec alone, and such nodes have hpre.",
        f"Enable their kinds of devices under spec.operator. {BESIDE}",
    ),
    "kernel without a mapping": (
        MAPPED.replace(LITERAL, KERNEL),
        (f"    - {{name: lts, literal: {KERNEL}, version: 2.2.0-a}}\n", ""),
        {},
        "policies/tls.yaml:12:5: ",
        STAYS,
        f"No mapping covers the kernel {KERNEL}.",
        f"Add a mapping for the kernel {KERNEL}. {BEYOND}add a mapping for the kernel with state: Absent",
    ),
    "literal mistyped": (
        MAPPED.replace(LITERAL, KERNEL),
        (f"literal: {KERNEL}", f"literal: {KERNEL}x"),
        {},
        "policies/tls.yaml:13:28: ",
        STAYS,
        f"No mapping covers the kernel {KERNEL}; did mapping 'lts' mean it by {KERNEL}x?",
        f"Add a mapping for the kernel {KERNEL}, or correct the literal of mapping 'lts'.",
    ),
    "kernel without an image": (
        NAMED,
        ("regexp: ^5", "regexp: ^5, kernels: [5.10.0-1.aarch64]"),
        {},
        "policies/tls.yaml:13:31: ",
        STAYS,
        f"Mapping 'lts' lists no image for the kernel {KERNEL}.",
        f"Add {KERNEL} to `kernels` of mapping 'lts'.",
    ),
    "all nodes with another kernel": (
        NAMED.replace(OLD, ""),
        (SELECTED, SELECTED),
        {"inventory/east.json": _project(NAMED)["inventory/east.json"].replace(KERNEL, "6.6.0-28.aarch64")},
        "policies/tls.yaml:12:5: ",
        GONE,
        "No mapping covers the kernel 6.6.0-28.aarch64.",
        f"Add a mapping for the kernel 6.6.0-28.aarch64. {BEYOND}add a mapping for the kernel with state: Absent",
    ),
    "no nodes any more": (
        NAMED,
        (SELECTED, SELECTED),
        {"inventory/east.json": projects.inventory()},
        "policies/tls.yaml:12:5: ",
        GONE,
        "The DaemonSets of lts--",
        "Restore the inventory, or list the kernels in `kernels` of the mapping.",
    ),
    "rules for devices": (
        TLS,
        (SELECTED, SELECTED),
        {"policies/east.yaml": f"{projects.CLUSTER}  nfd: {{enabled: false}}\n"},
        "policies/east.yaml:7:18: ",
        STAYS,
        "The NodeFeatureRule 'kae' leaves the output",
        "Set nfd.nodefeaturerules: true in its KAECluster",
    ),
    "recipe: deleted": (
        DESK,
        None,
        {},
        "output/east/ascend/daemonset-ascend-driver-tls.yaml: ",
        STAYS,
        "No document declares policy 'tls' any more.",
        f"{FIRST} delete it",
    ),
    "recipe: label mistyped": (
        DESK,
        ("pool: tls", "pool: tsl"),
        {},
        "policies/tls.yaml:8:3: ",
        STAYS,
        UNKNOWN,
        f"Correct the nodeSelector of policy 'tls', or the labels of the nodes. {BESIDE}",
    ),
    "recipe: kernel without a mapping": (
        DESK_MAPPED,
        ("regexp: '^5'", "regexp: '^6'"),
        {},
        "policies/tls.yaml:11:3: ",
        STAYS,
        f"No mapping covers the kernel {KERNEL}.",
        f"{BEYOND}add a mapping for the kernel with driver: {{state: Absent}}",
    ),
    "recipe: all nodes with another kernel": (
        DESK_MAPPED.partition("  - {name: old")[0].replace(": 1.0.0-a", ": '1.0.0-${KERNEL_FULL_VERSION}'"),
        (SELECTED, SELECTED),
        {"inventory/east.json": _project(DESK)["inventory/east.json"].replace(KERNEL, "6.6.0-28.aarch64")},
        "policies/tls.yaml:11:3: ",
        GONE,
        "No mapping covers the kernel 6.6.0-28.aarch64.",
        "Add a mapping for the kernel 6.6.0-28.aarch64.",
    ),
    "recipe: another one": (
        DESK,
        ("recipe: ascend", "recipe: gpu"),
        {"recipes/gpu/recipe.yaml": RECIPE.replace("name: ascend", "name: gpu").replace("npu_drv", "gpu_drv")},
        "policies/tls.yaml:7:11: ",
        STAYS,
        "Policy 'tls' is now for recipe 'gpu'; it was for 'ascend'.",
        f"{FIRST} change its recipe",
    ),
    "recipe: without a driver": (
        DESK,
        (SELECTED, SELECTED),
        {"recipes/ascend/recipe.yaml": UNDRIVEN},
        "recipes/ascend/recipe.yaml:6:3: ",
        STAYS,
        "Recipe 'ascend' has no driver any more.",
        f"Restore spec.driver of recipe 'ascend'. {FIRST} change the recipe",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_removal_stands_behind_its_cause_and_leads_out(name: str, tmp_path: Path) -> None:
    policy, edit, others, place, message, note, hint = CASES[name]
    project.write(tmp_path, _project(policy))
    assert in_process.kae(tmp_path, "compile", "--no-cache").code == 0
    path = tmp_path / "policies/tls.yaml"
    if edit is None:
        path.unlink()
    else:
        assert not edit[0] or path.read_text().count(edit[0]) == 1
        project.write(tmp_path, {"policies/tls.yaml": path.read_text().replace(*edit) if any(edit) else "", **others})

    answer = in_process.kae(tmp_path, "compile", "--no-cache")

    assert answer.code == 1
    told = answer.err[answer.err.index("error[removes-drivers]: ") :].partition("\n  hint: ")
    line = next(line for line in answer.err.splitlines() if "error[removes-drivers]: " in line)
    assert line.startswith(place)
    assert f"error[removes-drivers]: {message}" in line
    assert f"\n  note: {note}" in told[0]
    assert ("\n  note: What it has installed stays on the hosts" in told[0]) is (message != REMOVED)
    assert hint in told[2].partition("\n")[0]
    assert "warning[" not in told[2]


def test_an_edited_mapping_is_the_cause_where_no_node_was_known(tmp_path: Path) -> None:
    policy = DESK_MAPPED.replace("regexp: '^5'", f"literal: {KERNEL}").replace("a}", "'a-${KERNEL_FULL_VERSION}'}")
    policy = policy.replace("1.0.0-'a", "'1.0.0-a").replace("1.0.0-b", "'1.0.0-b-${KERNEL_FULL_VERSION}'")
    project.write(tmp_path, _project(policy) | {"inventory/east.json": projects.inventory()})
    assert in_process.kae(tmp_path, "compile", "--no-cache").code == 0
    path = tmp_path / "policies/tls.yaml"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if "name: lts" not in line))

    answer = in_process.kae(tmp_path, "compile", "--no-cache")

    assert answer.code == 1
    told = answer.err[answer.err.index("error[removes-drivers]: ") :]
    assert "\n  note: An edit takes the pool lts--" in told
    assert "\n  hint: Undo the edit, or list the kernels in `kernels` of a mapping." in told
    assert "Restore the inventory" not in answer.err


@pytest.mark.parametrize("per", ["pool", "policy"])
def test_a_condition_is_the_cause_where_a_program_goes_and_no_node_was_known(per: str, tmp_path: Path) -> None:
    program = f"{{name: tool, per: {per}, when: {{tool: true}}, pod: {{containers: [{{name: tool, image: tool}}]}}}}"
    recipe = f"""\
{RECIPE.partition("  images:")[0]}\
  parameters: {{properties: {{tool: {{type: boolean, default: true}}}}}}
  images: {{tool: {{repository: registry.example.com/npu, image: tool, version: 1.0.0}}}}
  programs: [{program}]
"""
    project.write(tmp_path, _project(DESK) | {"inventory/east.json": projects.inventory()})
    project.write(tmp_path, {"recipes/ascend/recipe.yaml": recipe})
    assert in_process.kae(tmp_path, "compile", "--no-cache").code == 0
    path = tmp_path / "policies/tls.yaml"
    path.write_text(path.read_text() + "  values: {tool: false}\n")

    answer = in_process.kae(tmp_path, "compile", "--no-cache")

    assert answer.code == 1
    told = answer.err[answer.err.index("error[removes-programs]: ") :]
    assert "\n  note: By its conditions, policy 'tls' has program 'tool' on no node any more." in told
    assert "\n  hint: Undo the edit of its values, or of the recipe." in told


LISTED = NAMED.replace("regexp: ^5", f"regexp: ^5, kernels: [{KERNEL}, 5.10.0-1.aarch64]")
POOLS: Mapping[str, tuple[str, Edit, str, str]] = {
    # By name: the policy, its edit; then the note and the hint of `pool-removed`, empty where it says nothing.
    "a wave renames the pools": (
        NAMED,
        ("    kernelMappings", "    rollout: {waves: [{name: canary, nodes: [kp-1]}]}\n    kernelMappings"),
        "",
        "",
    ),
    "one image for all kernels": (NAMED, ("'2.2.0-${KERNEL_FULL_VERSION}'", "2.2.0-a"), "", ""),
    "another mapping takes the kernel": (LISTED, ("name: lts", "name: lts5"), "", ""),
    "a kernel leaves the list": (
        LISTED,
        (", 5.10.0-1.aarch64]", "]"),
        "Mapping 'lts' names its kernel no longer.",
        "Name it in mapping 'lts' again if hosts run it.",
    ),
    "a mapping goes": (
        LISTED.replace(OLD, OLD.replace("2.2.0-b", "'2.2.0-${KERNEL_XYZ}', kernels: [4.19.0-1.aarch64]")),
        (OLD.replace("2.2.0-b", "'2.2.0-${KERNEL_XYZ}', kernels: [4.19.0-1.aarch64]"), ""),
        "Policy 'tls' has no mapping 'old' any more.",
        "Restore mapping 'old' if hosts run its kernels.",
    ),
    "one image for all kernels, also for those that nobody runs": (
        LISTED,
        (f"regexp: ^5, kernels: [{KERNEL}, 5.10.0-1.aarch64], version: '2.2.0-${{KERNEL_FULL_VERSION}}'", "regexp: ^5"),
        "Mapping 'lts' has one pool for all kernels now, as its images are not named after them.",
        "Name them after the kernel again, unless one image serves every kernel.",
    ),
    "no mappings any more": (
        LISTED,
        (LISTED[LISTED.index("    kernelMappings") : LISTED.index(OLD) + len(OLD)], ""),
        "",
        "",
    ),
}


@pytest.mark.parametrize("name", POOLS)
def test_a_pool_that_leaves_by_an_edit_says_so_where_a_kernel_has_none_any_more(name: str, tmp_path: Path) -> None:
    policy, edit, note, hint = POOLS[name]
    project.write(tmp_path, _project(policy))
    assert in_process.kae(tmp_path, "compile", "--no-cache").code == 0
    path = tmp_path / "policies/tls.yaml"
    assert path.read_text().count(edit[0]) == 1
    path.write_text(path.read_text().replace(*edit))

    answer = in_process.kae(tmp_path, "compile", "--no-cache")

    assert answer.code == 0
    assert ("warning[pool-removed]: " in answer.err) is bool(note)
    assert f"\n  note: {note}\n" in answer.err if note else "take a new inventory" not in answer.err
    assert f"\n  hint: {hint}\n" in answer.err if hint else True
