"""Vendors' own programs in the answers of commands: they are components of a recipe as driver and plugin are."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests import builders, in_process, project, revisions
from tests.cli.answers import answered, refused

RECIPE = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: Recipe
metadata:
  name: {name}
spec:
  title: A vendor's device plugin
  match: {{all: {{}}}}
  parameters:
    properties:
      level: {{type: integer, default: 1}}
  images:
    plugin: {{repository: registry.example.com/{name}, image: {name}-plugin, version: 1.0.0}}
    helper: {{repository: registry.example.com/{name}, image: {name}-helper, version: 1.0.0}}
  programs:
    - name: plugin
      per: pool
      architectures: [amd64]
      offers: ["example.com/{offers}"]
      pod:
        containers:
          - {{name: plugin, image: plugin, args: ["-v=${{values.level}}"]}}
    - name: helper
      pod:
        containers:
          - name: helper
            image: helper
            securityContext: {{privileged: true}}
"""
POLICY = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: DevicePolicy
metadata:
  name: {name}
spec:
  recipe: {recipe}
"""
CLUSTER = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: KAECluster
metadata:
  name: east
spec:
  kubernetesVersion: "1.36"
"""
WAVE = "  rollout:\n    waves:\n      - {name: canary, nodes: [n-1], images: {plugin: {version: 1.1.0}}}\n"


def node(name: str, arch: str = "amd64", **labels: str) -> dict[str, Any]:
    seen = {"feature.node.kubernetes.io/kernel-version.full": "5.10.0-216.oe2203sp4.aarch64"}
    made = builders.kubernetes_node(name, {"kubernetes.io/arch": arch, **seen, **labels})
    made["status"]["nodeInfo"]["architecture"] = arch
    return made


NODES = [
    node("n-1"),
    node("n-2"),
    node("n-3", "arm64"),
    node("n-4", **{"openfuyao.com/net.deploy.plugin": "false"}),
]


def files(more: str = "", **recipe: str) -> dict[str, str]:
    return {
        "kae.yaml": "",
        "policies/east.yaml": CLUSTER,
        "policies/lab.yaml": POLICY.format(name="lab", recipe="net") + more,
        "recipes/net/recipe.yaml": RECIPE.format(name="net", offers="net", **recipe),
        "inventory/east.json": json.dumps({"apiVersion": "v1", "kind": "List", "items": NODES}),
    }


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """A project with two programs, of which one has a wave."""
    return project.write(tmp_path, files(WAVE))


def changed(folder: Path, *edits: tuple[str, str, str]) -> Path:
    """Commit a project and its output, and edit files of it."""
    assert in_process.kae(folder, "compile").code == 0
    revisions.commit(folder)
    for name, old, new in edits:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))
    return folder


def test_a_plan_has_the_programs_of_each_node(fleet: Path) -> None:
    data = json.loads(in_process.kae(fleet, "plan", "-o", "json").out)

    (stack,) = data["clusters"][0]["stacks"]
    nodes = {each["name"]: each for each in stack["nodes"]}
    assert {name: each["pool"] for name, each in nodes.items()} == {
        "n-1": "canary",
        "n-2": "rest",
        "n-3": None,
        "n-4": None,
    }
    assert nodes["n-1"]["images"] == {
        "plugin": "registry.example.com/net/net-plugin:1.1.0",
        "helper": "registry.example.com/net/net-helper:1.0.0",
    }
    assert nodes["n-2"]["resources"] == {"example.com/net": None}
    assert nodes["n-3"]["reasons"][-1] == "no program 'plugin': it is for amd64, and the node is arm64"
    assert nodes["n-4"]["reasons"][-1] == "no program 'plugin': it has opted out: openfuyao.com/net.deploy.plugin=false"
    assert {"policy": "lab", "pool": "canary", "nodes": 1}.items() <= stack["pools"][0].items()


def test_explain_says_why_a_program_is_on_a_node(fleet: Path) -> None:
    text = in_process.kae(fleet, "explain", "n-1").out

    assert "program 'plugin': registry.example.com/net/net-plugin:1.1.0\n" in text
    assert "openfuyao.com/net.pool.lab In [canary]   (NFD gives it openfuyao.com/net.pool.lab=canary)" in text


def test_a_changed_program_is_a_rollout_of_its_own(fleet: Path) -> None:
    folder = changed(fleet, ("recipes/net/recipe.yaml", "net-helper, version: 1.0.0", "net-helper, version: 1.0.1"))

    text = in_process.kae(folder, "diff").out

    assert "4 nodes of policy lab go from net-helper:1.0.0 to net-helper:1.0.1, program helper of recipe net" in text
    assert "program plugin" not in text
    assert "DaemonSet net-helper-lab: 4 replaced" in text


def test_a_value_changes_the_pods_of_those_that_have_it(fleet: Path) -> None:
    folder = changed(fleet, ("policies/lab.yaml", "  rollout", "  values: {level: 2}\n  rollout"))

    text = in_process.kae(folder, "diff").out

    assert "2 nodes of policy lab get new pods of program plugin of recipe net" in text
    assert "program helper" not in text


def test_a_program_that_offers_something_else_is_told_by_whole_names(fleet: Path) -> None:
    folder = changed(fleet, ("recipes/net/recipe.yaml", 'offers: ["example.com/net"]', 'offers: ["example.com/nic"]'))

    answer = in_process.kae(folder, "diff")

    assert "offer example.com/nic=? instead of example.com/net=?" in answer.out
    assert "Policy 'lab' no longer offers example.com/net on 2 nodes (n-1 and n-2) of cluster 'east'." in answer.err


def test_a_program_that_leaves_nodes_is_told(fleet: Path) -> None:
    folder = changed(fleet, ("recipes/net/recipe.yaml", "architectures: [amd64]", "architectures: [arm64]"))

    answer = in_process.kae(folder, "diff", "--strict")

    assert answer.code == 1
    assert "Program 'plugin' of policy 'lab' is taken from 2 nodes (n-1 and n-2) of cluster 'east'." in answer.err
    assert "Pods that ask for example.com/net stay Pending from now on." in answer.err


def test_a_program_that_gains_what_another_one_of_its_recipe_has_is_told(fleet: Path) -> None:
    old, new = 'args: ["-v=${values.level}"]', 'args: ["-v=${values.level}"], securityContext: {privileged: true}'
    folder = changed(fleet, ("recipes/net/recipe.yaml", old, new))

    answer = in_process.kae(folder, "diff")

    assert "warning[privilege-gained]" in answer.err
    assert "container plugin is privileged" in answer.err


ARGS = 'args: ["-v=${values.level}"]'
CONFINED = "securityContext: {runAsNonRoot: true, runAsUser: 1000, capabilities: {drop: [NET_RAW]}}"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (CONFINED, "", "no longer: container plugin drops capability NET_RAW"),
        (
            CONFINED,
            "securityContext: {capabilities: {drop: [ALL]}}",
            "no longer: container plugin does not run as root",
        ),
        (CONFINED, CONFINED.replace("1000", "2000").replace("NET_RAW", "ALL"), ""),
        (CONFINED.replace("NET_RAW", "ALL"), CONFINED, "no longer: container plugin drops capability ALL"),
    ],
)
def test_a_program_that_is_confined_less_is_told(fleet: Path, before: str, after: str, told: str) -> None:
    recipe = fleet / "recipes/net/recipe.yaml"
    recipe.write_text(recipe.read_text().replace(ARGS, f"{ARGS}, {before}"))
    folder = changed(fleet, ("recipes/net/recipe.yaml", f", {before}", f", {after}" if after else ""))

    answer = in_process.kae(folder, "diff")

    assert ("warning[privilege-gained]" in answer.err) == bool(told)
    assert told in answer.err


def test_another_registry_of_a_program_is_told(fleet: Path) -> None:
    folder = changed(
        fleet,
        (
            "recipes/net/recipe.yaml",
            "registry.example.com/net, image: net-plugin",
            "other.example/net, image: net-plugin",
        ),
    )

    answer = in_process.kae(folder, "diff")

    assert "warning[registry-changed]" in answer.err
    assert "Program plugin of policy 'lab' in cluster 'east' comes from other.example" in answer.err


def test_two_programs_that_offer_one_resource_share_no_node(tmp_path: Path) -> None:
    more = {
        "policies/web.yaml": POLICY.format(name="web", recipe="web"),
        "recipes/web/recipe.yaml": RECIPE.format(name="web", offers="*"),
    }
    folder = project.write(tmp_path, {**files(), **more})

    answer = refused(1, folder, "compile")

    assert "error[policy-overlap]: Policies 'lab' and 'web' can both match one node." in answer
    assert "Both offer 'example.com/net'." in answer


def test_a_program_and_our_plugin_that_offer_one_resource_share_no_node(tmp_path: Path) -> None:
    recipe = RECIPE.format(name="web", offers="web").split("  programs:")[0].replace("plugin: {", "device-plugin: {")
    recipe = recipe.replace("web-plugin", "kae-device-plugin").replace("default: 1", "default: 1, minimum: 1")
    plugin = "  devicePlugin: {resources: [{name: example.com/net, class: token, count: '${values.level}'}]}\n"
    more = {"policies/web.yaml": POLICY.format(name="web", recipe="web"), "recipes/web/recipe.yaml": recipe + plugin}
    folder = project.write(tmp_path, {**files(), **more})

    assert "Both offer 'example.com/net'." in refused(1, folder, "compile")


def test_a_cluster_refuses_a_privilege_of_a_program(fleet: Path) -> None:
    project.write(fleet, {"policies/east.yaml": f'{CLUSTER}  recipes: {{refuse: ["net-helper: privileged: *"]}}\n'})

    assert "refuses a privilege of 'net-helper': privileged: helper." in refused(1, fleet, "compile")


def test_a_bump_of_an_image_reaches_a_program(fleet: Path) -> None:
    answered(fleet, "bump", "lab", "--image", "plugin", "--wave", "canary", "--version", "1.2.0")

    assert "version: 1.2.0" in (fleet / "policies/lab.yaml").read_text()


def test_preflight_names_the_images_that_are_built_for_a_kernel(tmp_path: Path) -> None:
    mapping = "  kernelMappings: [{name: k, regexp: '^6', images: {plugin: {version: '1-${KERNEL_FULL_VERSION}'}}}]\n"
    folder = project.write(tmp_path, files(mapping))

    text = in_process.kae(folder, "preflight", "--kernel", "6.6.0-2.x86_64").out

    assert "yes  lab: mapping 'k' takes it" in text
    assert "net-plugin:1-6.6.0-2.x86_64 has to be there: it is named after the kernel." in text


def test_the_images_of_programs_are_listed_at_their_mirror(fleet: Path) -> None:
    mirrors = "  images: {mirrors: [{from: registry.example.com, to: mirror.example}]}\n"
    project.write(fleet, {"policies/east.yaml": CLUSTER + mirrors})

    assert in_process.kae(fleet, "compile").code == 0

    images = (fleet / "output/east/images.txt").read_text().split()
    assert {"mirror.example/net/net-plugin:1.1.0", "mirror.example/net/net-helper:1.0.0"} <= set(images)


def test_a_program_that_nobody_enables_has_no_objects(tmp_path: Path) -> None:
    folder = project.write(tmp_path, files("  programs: {helper: {enabled: false}}\n"))

    assert in_process.kae(folder, "compile").code == 0

    assert sorted(path.name for path in (folder / "output/east/net").iterdir()) == [
        "daemonset-net-plugin-lab.yaml",
        "serviceaccount-net-plugin.yaml",
    ]


def test_a_frozen_group_keeps_its_program_or_it_is_told(tmp_path: Path) -> None:
    frozen = "  rollout:\n    frozen:\n      - {name: sick, nodes: [n-1]}\n"
    folder = changed(
        project.write(tmp_path, files(frozen)),
        ("policies/lab.yaml", "  rollout", "  values: {level: 2}\n  rollout"),
        ("recipes/net/recipe.yaml", "net-helper, version: 1.0.0", "net-helper, version: 1.0.1"),
    )

    answer = in_process.kae(folder, "diff")

    assert "warning[frozen-touched]: The change reaches program 'plugin' of the frozen group 'sick'" in answer.err
    # What a policy has once, no group keeps.
    assert "program 'helper' of the frozen group" not in answer.err


def test_a_program_offers_by_values_of_parameters_alone(tmp_path: Path) -> None:
    given = files()
    given["recipes/net/recipe.yaml"] = given["recipes/net/recipe.yaml"].replace(
        '["example.com/net"]', '["${policy.name}/net"]'
    )

    assert "error[reference-name]: '${policy.name}' names nothing" in refused(
        1, project.write(tmp_path, given), "compile"
    )


def test_a_program_that_comes_to_all_nodes_at_once_passes_its_wave(fleet: Path) -> None:
    wave = "{name: canary, nodes: [n-1], images: {plugin: {version: 1.1.0}}}"
    at_once = ("recipes/net/recipe.yaml", "net-plugin, version: 1.0.0", "net-plugin, version: 1.2.0")
    folder = changed(fleet, at_once, ("policies/lab.yaml", wave, "{name: canary, nodes: [n-1]}"))

    assert "warning[waves-skipped]: In cluster 'east', net-plugin:1.2.0 of program 'plugin' of policy 'lab' comes" in (
        in_process.kae(folder, "diff").err
    )


def test_a_program_that_a_wave_has_shown_comes_to_the_rest(fleet: Path) -> None:
    folder = changed(fleet, ("recipes/net/recipe.yaml", "net-plugin, version: 1.0.0", "net-plugin, version: 1.1.0"))

    assert "waves-skipped" not in in_process.kae(folder, "diff").err


def test_a_node_that_loses_its_place_in_a_frozen_group_gets_no_other_program_unasked(tmp_path: Path) -> None:
    frozen = (
        '  rollout:\n    frozen:\n      - name: sick\n        inventorySelector: {matchLabels: {sick: "yes"}}\n'
        "        images: {plugin: {version: 0.9.0}}\n"
    )
    given = files(frozen)
    labelled = json.loads(given["inventory/east.json"])
    labelled["items"][0]["metadata"]["labels"]["sick"] = "yes"
    given["inventory/east.json"] = json.dumps(labelled)
    folder = project.write(tmp_path, given)
    assert in_process.kae(folder, "compile").code == 0

    project.write(folder, {"inventory/east.json": files()["inventory/east.json"]})

    said = refused(1, folder, "compile")
    assert "error[thaws-nodes]: 1 node (n-1) of cluster 'east' leaves the frozen group 'sick' of policy 'lab'." in said
    assert "Program 'plugin' from now on is registry.example.com/net/net-plugin:1.0.0: n-1." in said


STEP = "warning[large-step]: Policy 'lab' starts another program 'plugin' on 2 of its 2 nodes in cluster 'east' in one"


@pytest.mark.parametrize(
    ("before", "after", "is_told"),
    [
        pytest.param("", "  images: {plugin: {version: 1.1.0}}\n", True, id="image"),
        pytest.param("", "  values: {level: 2}\n", True, id="pod"),
        pytest.param("", "  programs: {plugin: {resources: {plugin: {limits: {memory: 60Mi}}}}}\n", True, id="limits"),
        pytest.param("", WAVE, False, id="wave"),
        pytest.param("", "  daemonSets: {labels: {team: a}}\n", False, id="the same program"),
        pytest.param("", "  images: {helper: {version: 1.1.0}}\n", False, id="no devices"),
        pytest.param("  programs: {plugin: {enabled: false}}\n", "", False, id="new"),
        pytest.param("", "  programs: {plugin: {enabled: false}}\n", False, id="gone"),
    ],
)
def test_another_program_that_gives_devices_on_most_nodes_at_once_is_a_large_step(
    tmp_path: Path, before: str, after: str, *, is_told: bool
) -> None:
    folder = project.write(tmp_path, files(before))
    revisions.commit(folder)
    project.write(folder, files(after))

    said = in_process.kae(folder, "diff").err

    assert (STEP in said) is is_told
    assert ("large-step" in said) is is_told


def test_nodes_without_the_label_of_their_architecture_are_a_problem(tmp_path: Path) -> None:
    given = files()
    nodes = json.loads(given["inventory/east.json"])
    for item in nodes["items"]:
        del item["metadata"]["labels"]["kubernetes.io/arch"]
    folder = project.write(tmp_path, {**given, "inventory/east.json": json.dumps(nodes)})

    said = in_process.kae(folder, "compile").err
    plan = in_process.kae(folder, "plan").out

    assert "policy 'lab' is for amd64, and runs on no node of cluster 'east': " in said
    assert " have no label kubernetes.io/arch.\n" in said
    assert "hint: Every kubelet sets the label" in said
    assert ", 0 with problems" not in plan
    assert "it is for amd64, and the node has no label kubernetes.io/arch" in plan


def test_a_program_that_comes_with_its_pool_is_not_paced(tmp_path: Path) -> None:
    two = WAVE.replace("[n-1]", "[n-1, n-2]")
    alone = two.replace(", images: {plugin: {version: 1.1.0}}", "")
    assert alone != two
    folder = project.write(tmp_path, files())
    revisions.commit(folder)
    said = []
    for more in (two, alone):
        project.write(folder, files(more))
        said.append(in_process.kae(folder, "diff").err)
    revisions.commit(folder)
    project.write(folder, files(two))
    said.append(in_process.kae(folder, "diff").err)

    message = (
        "warning[pace-bypassed]: Policy 'lab' brings 2 nodes in cluster 'east' to another DaemonSet of program 'pl"
    )
    assert [message in each for each in said] == ["pace-bypassed" in each for each in said] == [True, False, False]


def test_the_way_out_of_a_large_step_is_a_wave_where_programs_have_them(tmp_path: Path) -> None:
    folder = project.write(tmp_path, files())
    revisions.commit(folder)
    project.write(folder, files("  values: {level: 2}\n"))
    pooled = in_process.kae(folder, "diff").err
    for more in ("", "  values: {level: 2}\n"):
        own = files(more)
        own["recipes/net/recipe.yaml"] = own["recipes/net/recipe.yaml"].replace("      per: pool\n", "")
        project.write(folder, own)
        if not more:
            revisions.commit(folder)
    whole = in_process.kae(folder, "diff").err

    assert "hint: Bring the change to a wave first, in a commit of its own. To accept it" in pooled
    assert "hint: No wave can carry it: give it to a policy of its own for some of the nodes first." in whole
    assert in_process.kae(folder, "diff", "--strict", "--accept", "large-step:east/lab").code == 0


PLUGIN = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: Recipe
metadata:
  name: net
spec:
  title: A vendor's devices
  match: {all: {}}
  devicePlugin:
    resources:
      - {name: example.com/net, class: char, groups: [{paths: [{path: "/dev/npx*"}]}]}
"""


@pytest.mark.parametrize(("to", "is_told"), [("/dev/npx0", True), ('/dev/npx*"}]}, {paths: [{path: "/dev/npy*', False)])
def test_a_resource_that_may_have_fewer_devices_is_told(tmp_path: Path, to: str, *, is_told: bool) -> None:
    folder = project.write(tmp_path, {**files(), "recipes/net/recipe.yaml": PLUGIN})
    changed(folder, ("recipes/net/recipe.yaml", "/dev/npx*", to))

    answer = in_process.kae(folder, "diff")

    said = "Policy 'lab' may offer fewer example.com/net on 4 nodes (n-1, n-2, n-3 and n-4) of cluster 'east'."
    assert (said in answer.err) == is_told, answer


@pytest.mark.parametrize(("to", "is_told"), [("1", True), ("", True), ("128", False)])
def test_a_resource_that_nfd_no_longer_gives_is_told(tmp_path: Path, to: str, *, is_told: bool) -> None:
    match = 'match: {pci: [{kind: card, vendor: "abcd", devices: ["0001"]}], extended: {example.com/mem: "64"}}'
    own = PLUGIN.replace("match: {all: {}}", match)
    folder = project.write(tmp_path, {**files(), "recipes/net/recipe.yaml": own})
    edit = ('"64"', f'"{to}"') if to else (', extended: {example.com/mem: "64"}', "")
    changed(folder, ("recipes/net/recipe.yaml", *edit))

    answer = in_process.kae(folder, "diff")

    said = "NFD of cluster 'east' no longer gives as many example.com/mem to nodes with the hardware of recipe 'net'."
    assert (said in answer.err) == is_told, answer
