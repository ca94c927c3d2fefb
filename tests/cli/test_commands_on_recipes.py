"""Commands on a project with policies of recipes beside one of KAE."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import builders, in_process, project, revisions
from tests.cli import diffs, fleet
from tests.cli.answers import answered, refused, told

ROOT = Path(__file__).parents[2]
KERNEL = "5.14.0-427.el9_4.x86_64"
RECIPE = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: Recipe
metadata:
  name: onload
spec:
  title: OpenOnload
  match: {pci: [{kind: sfc, vendor: "1924", classes: ["0200"]}]}
  images:
    installer: {repository: r.example.com, image: installer, version: 1.0.0}
    plugin: {repository: r.example.com, image: kae-device-plugin, version: 1.0.0}
    modules: {repository: r.example.com, image: onload-module, version: "8-${KERNEL_FULL_VERSION}"}
  driver:
    image: installer
    version: modules
    payloads: [{image: modules, paths: [/opt/lib/modules]}]
    modules: [{name: onload}]
  devicePlugin:
    image: plugin
    resources: [{name: amd.com/onload, class: token, count: 40}]
"""
DESK = """\
# The desk's nodes.
apiVersion: device.openfuyao.com/v1alpha1
kind: DevicePolicy
metadata:
    name: desk   # as they call it
spec:
    recipe: onload
    nodeSelector: {matchLabels: {desk: trading}}
    images:
        modules: {version: "9-${KERNEL_FULL_VERSION}"}   # since March
    kernelMappings:
    - name: el9
      regexp: 'el9'
    rollout:
        waves:
        # Begin with these.
        - name: canary
          nodes: [t-1]
        frozen:
        - {name: colo, nodes: [t-2], images: {modules: {version: "7-${KERNEL_FULL_VERSION}"}}}
"""
SFC = {"openfuyao.com/onload.present": "true", "openfuyao.com/onload.sfc.present": "true", "desk": "trading"}


def _node(name: str) -> dict[str, Any]:
    item = builders.kubernetes_node(name, SFC)
    item["status"]["nodeInfo"]["kernelVersion"] = KERNEL
    return item


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with nodes of KAE and of a recipe."""
    files = {
        "recipes/onload/recipe.yaml": RECIPE,
        "policies/desk.yaml": DESK,
        "policies/tls.yaml": fleet.POLICY,
        "inventory/east.json": fleet.listed((*fleet.NODES, *map(_node, ("t-1", "t-2", "t-3")))),
    }
    return project.write(tmp_path, files)


@pytest.mark.parametrize("mistakes", [{}, {"policies/tls.yaml": "kind: KAEPolicy\n"}], ids=["sound", "wrong"])
def test_a_compile_imports_no_pydantic(mistakes: dict[str, str], folder: Path) -> None:
    project.write(folder, mistakes)
    code = "import sys\nfrom compiler import cli\ncli.main(['compile'])\nprint('pydantic' in sys.modules)\n"
    environment = {"PYTHONPATH": str(ROOT), "PATH": ""}

    told = subprocess.check_output([sys.executable, "-c", code], cwd=folder, env=environment, text=True, timeout=600)

    assert told.splitlines()[-1] == "False"


@pytest.mark.long
@pytest.mark.parametrize(
    "call",
    [
        "plan",
        "plan -o yaml",
        "plan -o ndjson",
        "plan --recipe kae",
        "explain t-1",
        "explain t-1 -o json",
        f"preflight --kernel {KERNEL}",
        "preflight --image x.tar",
        "smoke --cluster east",
        "compile",
        "config inventories",
        "config output",
        "report --html page.html",
        "bump desk --image plugin --version 2",
        "inventory --cluster east",
        "schema devicepolicy",
        "rule policy-overlap",
        "status --cluster east --kubeconfig none",
        "support-bundle --cluster east --kubeconfig none --output-file bundle.tar.gz",
        "init",
    ],
)
def test_no_command_ends_with_a_traceback(call: str, folder: Path) -> None:
    answer = in_process.kae(folder, *call.split())

    assert "Traceback" not in answer.err
    assert answer.code in (0, 1, 3), answer.err


FLUX = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: KAECluster
metadata: {name: east}
spec:
  kubernetesVersion: "1.31"
  gitops: {engine: flux}
"""


def test_a_driver_of_a_recipe_stops_cleaning_up_without_a_question(folder: Path) -> None:
    plain = f"{DESK[: DESK.index('    images:')]}    driver:\n        enabledCleanup: true\n"
    recipe = RECIPE.replace("8-${KERNEL_FULL_VERSION}", "8.0.0")
    files = {"recipes/onload/recipe.yaml": recipe, "policies/desk.yaml": plain, "policies/east.yaml": FLUX}
    told(project.write(folder, files), "compile")
    rights = (folder / "output/east/onload/clusterrole-onload-driver.yaml").read_text()
    project.write(folder, {"policies/desk.yaml": plain.replace("true", "false")})

    assert in_process.kae(folder, "compile").code == 0
    assert "prune: disabled" in rights
    assert "prune: disabled" not in (folder / "output/east/onload/clusterrole-onload-driver.yaml").read_text()


def stacks(folder: Path, *options: str) -> list[dict[str, Any]]:
    """Return what a plan says of recipes."""
    clusters = json.loads(told(folder, "plan", "-o", "json", *options))["clusters"]
    return [stack for cluster in clusters for stack in cluster.get("stacks", ())]


def test_a_plan_of_a_project_has_its_recipes(folder: Path) -> None:
    (onload,) = stacks(folder)
    pools = {node["name"]: node["pool"].partition("--")[0] for node in onload["nodes"] if node["pool"]}

    assert onload["recipe"] == "onload"
    assert pools == {"t-1": "canary", "t-2": "colo", "t-3": "rest"}
    assert {image["image"] for image in onload["images"]} == {
        f"r.example.com/onload-module:{version}-{KERNEL}" for version in (7, 9)
    }


def test_a_plan_in_json_has_the_privileges_that_the_output_lists(folder: Path) -> None:
    told(folder, "compile")

    written = (folder / "output/east/privileges.txt").read_text().splitlines()
    assert written
    assert [stack["privileges"] for stack in stacks(folder)] == [written]


def test_a_plan_of_a_policy_of_a_recipe_tells_that_it_has_no_nodes(folder: Path) -> None:
    project.write(folder, {"inventory/east.json": fleet.listed()})

    answer = told(folder, "plan", "--policy", "desk")

    assert answer.startswith("cluster east, recipe onload: 0 of 6 nodes (--policy desk)\n")
    assert "\npolicies without nodes: desk\n" in answer


def test_a_node_without_a_policy_of_a_recipe_is_shown_among_its_nodes(folder: Path) -> None:
    (onload,) = stacks(folder, "--node", "kp920-01")

    assert [(node["name"], node["policy"]) for node in onload["nodes"]] == [("kp920-01", None)]


@pytest.mark.parametrize("command", [("plan",), ("explain", "t-1")])
def test_a_recipe_that_no_policy_is_of_is_not_known(command: tuple[str, ...], folder: Path) -> None:
    said = refused(3, folder, *command, "--recipe", "onlaod")

    assert said.startswith("kae: there is no recipe 'onlaod'.\nhint: Did you mean 'onload'? Recipes are kae and ")


def test_a_removal_names_the_nodes_that_leave_a_frozen_group_of_a_recipe_with_it(folder: Path) -> None:
    told(folder, "compile")
    diffs.edit(folder, ("matchLabels: {desk: trading}", "matchLabels: {desk: sales}"), file="policies/desk.yaml")

    text = refused(1, folder, "compile")

    assert "\n  note: 1 node (t-2) of the frozen group 'colo' is among them.\n" in text
    assert "thaws-nodes" not in text


def test_nobody_is_asked_of_a_frozen_group_of_a_recipe_where_only_others_change(folder: Path) -> None:
    told(folder, "compile")
    diffs.edit(folder, ('version: "9-', 'version: "10-'), file="policies/desk.yaml")

    told(folder, "compile")


def test_a_frozen_node_that_nfd_has_not_labelled_yet_stays_in_its_group(folder: Path) -> None:
    match = 'match: {pci: [{kind: sfc, vendor: "1924", classes: ["0200"]}]}'
    diffs.edit(folder, (match, "match: {all: {}}"), file="recipes/onload/recipe.yaml")
    bare = _node("t-2")
    bare["metadata"]["labels"] = {"desk": "trading"}
    (folder / "inventory/east.json").write_text(fleet.listed((*fleet.NODES, _node("t-1"), bare)))
    told(folder, "compile")

    told(folder, "compile", "--no-cache")


def test_a_diff_tells_what_the_nodes_of_the_last_policy_of_a_recipe_lose(folder: Path) -> None:
    revisions.commit(folder)
    (folder / "policies/desk.yaml").unlink()

    text = diffs.shown(folder)

    assert "without an installer in cluster east" in text
    assert "driver-removed" in text


def test_a_preflight_lists_the_payloads_of_recipes(folder: Path) -> None:
    answer = told(folder, "preflight", "--kernel", "5.14.0-500.el9_5.x86_64", "--cluster", "east")
    module = "r.example.com/onload-module:9-5.14.0-500.el9_5.x86_64"

    assert "cluster east, recipe onload\n  yes  desk: mapping 'el9' takes it" in answer
    assert f"installer r.example.com/installer:1.0.0, modules {module} (prebuilt)\n" in answer
    assert f"{module} has to hold the modules, below /opt/lib/modules/5.14.0-500.el9_5.x86_64/." in answer


@pytest.mark.parametrize(
    ("options", "said", "old", "new"),
    [
        ((), "10: desk image modules:", '{version: "9-', '{version: "10-'),
        (
            ("--wave", "canary"),
            "20: desk wave canary image modules:",
            "canary\n",
            "canary\n          images:\n              modules:\n                  version: 10-${KERNEL_FULL_VERSION}\n",
        ),
        (("--frozen", "colo"), "20: desk frozen group colo image modules:", '"7-', '"10-'),
    ],
)
def test_the_version_of_an_image_is_changed_and_nothing_else(
    options: tuple[str, ...], said: str, old: str, new: str, folder: Path
) -> None:
    version = "10-${KERNEL_FULL_VERSION}"

    answer = answered(folder, "bump", "desk", "--image", "modules", *options, "--version", version)

    assert answer.startswith(f"policies/desk.yaml:{said} version ")
    assert answer.endswith(f"-> {version}\n")
    assert (folder / "policies/desk.yaml").read_text() == DESK.replace(old, new)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("desk",), "policy 'desk' is of recipe 'onload', and each image of it has a version.\nhint: Name one of inst"),
        (("desk", "--device-plugin"), "policy 'desk' is of recipe 'onload', and each image of it has a version."),
        (("desk", "--image", "module"), "recipe 'onload' has no image 'module'.\nhint: Did you mean 'modules'?"),
        (("desk", "--image", "modules", "--wave", "x"), "policy 'desk' has no wave 'x'."),
        (("tls", "--image", "modules"), "policy 'tls' is a KAEPolicy, whose images have no names."),
        (("desk", "--image", "modules", "--device-plugin"), "--image and --device-plugin both choose a version."),
    ],
)
def test_a_version_that_cannot_be_meant_is_refused(call: tuple[str, ...], words: str, folder: Path) -> None:
    answer = in_process.kae(folder, "bump", *call, "--version", "10")

    assert answer.code in (1, 2)
    assert words in answer.err
    assert (folder / "policies/desk.yaml").read_text() == DESK


def test_a_version_that_serves_one_kernel_is_told_and_the_old_one_is_the_policys(folder: Path) -> None:
    own = '    images:\n        modules: {version: "9-${KERNEL_FULL_VERSION}"}   # since March\n'
    project.write(folder, {"policies/desk.yaml": DESK.replace(own, "", 1)})

    answer = told(folder, "bump", "desk", "--image", "modules", "--mapping", "el9", "--version", "8.2")

    assert "version 8-${KERNEL_FULL_VERSION} -> 8.2\n" in answer


def test_a_version_that_makes_no_image_is_not_written(folder: Path) -> None:
    assert "error[image-reference]" in refused(1, folder, "bump", "desk", "--image", "plugin", "--version", "a:b")
    assert (folder / "policies/desk.yaml").read_text() == DESK


def test_a_policy_of_a_recipe_that_is_not_there_is_not_changed(folder: Path) -> None:
    (folder / "recipes/onload/recipe.yaml").unlink()

    assert "error[unknown-recipe]" in refused(1, folder, "bump", "desk", "--image", "plugin", "--version", "2")


@pytest.mark.parametrize(
    ("line", "candidates"),
    [
        ("kae bump desk --image ", ["installer", "modules", "plugin"]),
        ("kae bump tls --image ", []),
        ("kae bump desk --wave ", ["canary"]),
        ("kae bump desk --mapping ", ["el9"]),
        ("kae bump desk --frozen ", ["colo"]),
        ("kae plan --recipe ", ["kae", "onload"]),
        ("kae plan --policy ", ["desk", "tls"]),
    ],
)
def test_names_of_recipes_and_images_are_completed(line: str, candidates: list[str], folder: Path) -> None:
    assert in_process.kae(folder, "__complete", line).out.split() == candidates


def test_a_policy_of_a_recipe_is_edited_by_the_same_commands(folder: Path) -> None:
    words = ("wave", "add", "desk", "lab", "--node", "t-3", "--image", "modules", "--version", "9.1")
    revisions.commit(folder)
    unnamed = refused(1, folder, *words[:6], "--version", "9.1")
    told(folder, *words)
    mapped = told(folder, "promote", "desk/lab")
    revisions.commit(folder)
    frozen = refused(1, folder, "freeze", "desk", "more", "--node", "t-2")
    told(folder, "freeze", "desk", "more", "--node", "t-1")
    told(folder, "thaw", "desk", "colo")
    told(folder, "retire", "desk")

    assert "Name one of installer, modules and plugin by --image." in unnamed
    assert mapped.startswith(
        "policies/desk.yaml:10: desk: the policy has what wave lab has: images.modules.version 9.1; "
    )
    assert frozen.startswith(
        "kae: node 't-2' is in frozen group 'colo' already, and keeps what that says.\nhint: Leave it"
    )
    made = DESK.replace('{version: "9-${KERNEL_FULL_VERSION}"}', '{version: "9.1"}').replace(
        "          nodes: [t-1]\n",
        "          nodes: [t-1]\n        - name: lab\n          nodes: [t-3]\n          images:\n"
        '              modules:\n                  version: "9.1"\n',
    )
    line = '        - {name: colo, nodes: [t-2], images: {modules: {version: "7-${KERNEL_FULL_VERSION}"}}}\n'
    more = (
        "        - name: more\n          nodes: [t-1]\n          images:\n              modules:\n"
        '                  version: "9.1"\n'
    )
    assert (folder / "policies/desk.yaml").read_text() == made.replace(
        line, more
    ) + "    driver:\n        state: Absent\n"
