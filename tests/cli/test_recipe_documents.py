"""Recipes are documents of a project: every command that reads its documents, or remembers them, follows them."""

import json
from pathlib import Path

import pytest

from tests import in_process, project, revisions
from tests.cli import fleet
from tests.cli.answers import answered, refused, told

RECIPE = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: Recipe
metadata:
  name: net
spec:
  title: A network stack
  match:
    all: {}
  parameters:
    properties:
      maxPods: {type: integer, minimum: 1, maximum: 1000, default: 100}
  images:
    installer: {repository: registry.example.com/kae, image: kae-driver-installer, version: 2.3.0}
    plugin: {repository: registry.example.com/kae, image: kae-device-plugin, version: 2.3.0}
    modules: {repository: registry.example.com/drivers, image: net-modules, version: 1.0.0}
  driver:
    image: installer
    version: modules
    payloads:
      - image: modules
        paths: [/opt/lib/modules]
    modules:
      - name: net_core
  devicePlugin:
    image: plugin
    resources:
      - name: example.com/net
        class: token
        count: "${values.maxPods}"
"""
POLICY = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: DevicePolicy
metadata:
  name: lab
spec:
  recipe: net
  clusters: [east]
  nodeSelector:
    matchLabels: {pool: tls}
  values: {maxPods: 40}
"""
FILE = "recipes/net/recipe.yaml"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A project of two clusters, one of which has a policy of a recipe."""
    folder = fleet.small(tmp_path / "small")
    return project.write(folder, {FILE: RECIPE, "policies/lab.yaml": POLICY})


def edit(folder: Path, old: str, new: str, file: str = FILE) -> None:
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new))


def plugin(folder: Path) -> str:
    """The DaemonSet of the recipe's device plugin."""
    return (folder / "output/east/net/daemonset-net-device-plugin-lab.yaml").read_text()


def test_a_policy_of_a_recipe_compiles_to_objects_with_its_values(small: Path) -> None:
    assert answered(small, "compile")
    assert '"count": 40' in plugin(small)
    assert not (small / "output/west/net").exists()


def test_a_value_of_a_recipe_that_changes_is_compiled_in_spite_of_the_cache(small: Path) -> None:
    in_process.kae(small, "compile")
    edit(small, "  values: {maxPods: 40}\n", "", "policies/lab.yaml")
    in_process.kae(small, "compile")
    assert '"count": 100' in plugin(small)
    assert "east: unchanged" in in_process.kae(small, "compile").out

    edit(small, "default: 100", "default: 60")

    assert "east: unchanged" not in in_process.kae(small, "compile").out
    assert '"count": 60' in plugin(small)


@pytest.mark.parametrize("which", [(), ("--cluster", "east")])
def test_a_check_and_a_compile_follow_a_recipe(small: Path, which: tuple[str, ...]) -> None:
    in_process.kae(small, "compile", *which)
    assert in_process.kae(small, "compile", "--check", *which).code == 0
    edit(small, "net-modules, version: 1.0.0", "net-modules, version: 1.1.0")

    answer = in_process.kae(small, "compile", "--check", *which)

    assert answer.code == 4
    assert in_process.kae(small, "compile", *which).code == 0
    assert "net-modules:1.1.0" in (small / "output/east/images.txt").read_text()


def test_a_mistake_in_a_recipe_is_shown_although_the_output_was_current(small: Path) -> None:
    in_process.kae(small, "compile")
    edit(small, "class: token", "class: tokens")

    assert in_process.kae(small, "compile").code == 1


def test_shards_of_different_recipes_have_no_common_verdict(small: Path) -> None:
    for index, (old, new) in enumerate((("version: 1.0.0", "version: 1.1.0"), ("title: A", "title: The"))):
        told(small, "compile", "--shard", f"{index}/2", "--findings", f"shard-{index}.json")
        edit(small, old, new)

    said = refused(1, small, "merge-findings", "shard-0.json", "shard-1.json")

    assert "a shard has compiled other policies, clusters or settings than those that are here." in said


def test_several_processes_compile_recipes_as_one_does(small: Path) -> None:
    in_process.kae(small, "compile")
    one = project.tree(small / "output")

    assert in_process.kae(small, "compile", "--no-cache", "--jobs", "2").code == 0

    assert project.tree(small / "output") == one


def test_the_difference_between_two_commits_follows_a_recipe(small: Path) -> None:
    in_process.kae(small, "compile")
    revisions.commit(small)
    edit(small, "net-modules, version: 1.0.0", "net-modules, version: 1.1.0")
    in_process.kae(small, "compile")
    revisions.commit(small)

    answer = in_process.kae(small, "diff", "HEAD~1", "--to", "HEAD", "-o", "json")

    assert answer.code == 0, answer.err
    (change,) = json.loads(answer.out)["intent"]
    assert (change["kind"], change["name"]) == ("Recipe", "net")
    assert "1.1.0" in answer.out


def test_an_older_template_beside_a_recipe_is_refused_in_its_commit(small: Path) -> None:
    revisions.commit(small)
    project.write(small, {"recipes/net/agent.yaml.j2": "kind: DaemonSet\n"})
    revisions.commit(small)
    (small / "recipes/net/agent.yaml.j2").unlink()

    answer = in_process.kae(small, "diff", "HEAD", "-o", "json")

    assert "recipe-file" in answer.out + answer.err


def test_a_folder_of_another_name_holds_recipes(small: Path) -> None:
    (small / "recipes").rename(small / "stacks")
    project.write(small, {"kae.yaml": "recipes: stacks\n"})

    assert told(small, "compile")
    assert '"count": 40' in plugin(small)


@pytest.mark.parametrize("folder", ["policies/stacks", "inventory"])
def test_recipes_are_in_a_folder_of_their_own(small: Path, folder: str) -> None:
    (small / "policies/stacks").mkdir()
    project.write(small, {"kae.yaml": f"recipes: {folder}\n"})

    answer = in_process.kae(small, "compile")

    assert answer.code == 1
    other = folder.partition("/")[0]
    assert f"error[project-settings]: 'recipes' and '{other}' are one folder, or one holds the other." in answer.err


def test_no_recipe_is_read_from_an_inventory_folder(small: Path) -> None:
    (small / "recipes").rename(small / "inventory/recipes")

    said = refused(1, small, "compile")

    assert "error[unknown-kind]: A Recipe is not read from an inventory folder." in said
    assert "error[unknown-recipe]: There is no recipe 'net'." in said


WRONG = {
    "a class that is none": (
        RECIPE.replace("class: token", "class: tokens"),
        f"{FILE}:28:16: error[invalid-value]: 'tokens' is not one of",
    ),
    "templates of its own, which programs stand for": (
        RECIPE.replace("  title:", "  components: []\n  title:"),
        "error[unknown-field]: 'components' is not a field of 'spec'.",
        "hint: Write the pod itself into `programs`: there are no templates.",
    ),
    "a list of types, which is shown as YAML": (
        RECIPE.replace("type: integer", 'type: [integer, "null"]'),
        ': [integer, "null"] is not a type of parameters.',
    ),
    "the label of its own rule": (
        RECIPE.replace("    all: {}\n", '    labels: {openfuyao.com/net.present: ["true"]}\n'),
        "The recipe asks for 'openfuyao.com/net.present', a label that its own rule sets.",
    ),
    "a tab": ("spec:\n\ttitle: x\n", f"{FILE}:"),
    "a mark of byte order": ("\ufeffkind: Recipe\n", f"{FILE}:"),
    "no document": (
        "",
        "error[unknown-recipe]: There is no recipe 'net'.",
        "hint: Its file holds no document: write the recipe into it.",
    ),
}


def test_a_policy_whose_recipe_was_removed_is_told_the_safe_way(small: Path) -> None:
    (small / FILE).unlink()

    said = "bring it back until driver.state: Absent has cleaned the hosts, and remove the policy first."
    assert said in refused(1, small, "compile")


@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_in_a_recipe_is_told_once_although_its_policy_has_one_too(mistake: str, small: Path) -> None:
    text, *words = WRONG[mistake]
    project.write(small, {FILE: text})
    edit(small, "maxPods: 40", "maxPod: 40", "policies/lab.yaml")

    said = refused(1, small, "compile")

    assert [word for word in words if word not in said] == []
    assert said.count("error[") == 1


def test_a_resource_that_a_recipe_offers_no_more_is_not_sought_in_kaes_fields(small: Path) -> None:
    in_process.kae(small, "compile")
    edit(small, "name: example.com/net", "name: example.com/other")

    answer = in_process.kae(small, "compile")

    assert "Policy 'lab' no longer offers example.com/net in cluster 'east'." in answer.err
    assert "hint: Enable the resources in its values or in the recipe, if this is not meant." in answer.err


def test_an_image_of_a_recipe_that_changes_is_named_with_the_devices_of_the_recipe(small: Path) -> None:
    modules = "    modules: {repository: registry.example.com/drivers, image: net-modules, version: 1.0.0}\n"
    payload = "      - image: modules\n        paths: [/opt/lib/modules]\n"
    edit(small, modules, modules + modules.replace("modules", "user"))
    edit(small, payload, payload + "      - image: user\n        paths: [/opt/net]\n")
    revisions.commit(small)
    edit(small, "image: net-user, version: 1.0.0", "image: net-user, version: 1.0.1")

    answer = in_process.kae(small, "diff")

    assert "the image net-user:1.0.1" in answer.out
    assert "of recipe 'net'" in answer.out
    assert "KAE device" not in answer.out


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("validate", "`kae recipe check` does that."),
        ("get", "`kae recipe show` does that."),
        ("rm", "Set driver.state: Absent in its policies, wait, delete them, and then its folder."),
    ],
)
def test_a_verb_of_other_tools_is_answered_by_kaes(word: str, hint: str, small: Path) -> None:
    answer = in_process.kae(small, "recipe", word)

    assert (answer.code, answer.err.splitlines()[-1]) == (2, f"hint: {hint}")


def test_a_new_version_of_a_recipe_touches_the_nodes_whose_pods_restart(small: Path) -> None:
    told(small, "compile")
    edit(small, "version: 1.0.0", "version: 1.1.0")

    assert told(small, "compile").startswith("east: 1 object replaced; 1 node (kp920-01) touched\n")


def test_a_frozen_group_pins_the_installers_image_where_it_is_that_of_the_driver(small: Path) -> None:
    edit(small, "    image: installer\n    version: modules\n", "")
    frozen = "  rollout: {frozen: [{name: colo, nodes: [kp920-01], images: {modules: {version: '1'}}}]}\n"
    project.write(small, {"policies/lab.yaml": POLICY + frozen})

    said = "Frozen group 'colo' has no version of its own for driver-installer."
    assert said in refused(1, small, "compile")


@pytest.mark.parametrize(("old", "new"), [("kp920-01", "kp920-11"), ('kae.hpre.pf": "2"', 'kae.hpre.pf": "4"')])
def test_a_frozen_node_of_a_recipe_leaves_its_group_by_a_persons_word_alone(old: str, new: str, small: Path) -> None:
    edit(small, "    image: installer\n", "")
    # Of these images, the node would get another one of the modules.
    images = "{modules: {version: '1'}, driver-installer: {version: latest}}"
    nodes = "inventorySelector: {matchLabels: {openfuyao.com/kae.hpre.pf: '2'}}"
    frozen = f"  rollout: {{frozen: [{{name: colo, {nodes}, images: {images}}}]}}\n"
    project.write(small, {"policies/lab.yaml": POLICY + frozen})
    told(small, "compile")
    edit(small, old, new, "inventory/east.json")

    said = refused(1, small, "compile")

    assert "error[thaws-nodes]" in said
    assert "kp920-01" in said


def test_a_wave_may_bring_another_installer(small: Path) -> None:
    edit(small, "  driver:\n    image: installer\n", "  driver:\n")
    wave = "  rollout: {waves: [{name: canary, nodes: [kp920-01], images: {driver-installer: {version: '9'}}}]}\n"
    project.write(small, {"policies/lab.yaml": POLICY + wave})

    assert told(small, "compile")
    assert "kae-driver-installer:9\n" in (small / "output/east/images.txt").read_text()


def test_a_removal_takes_nothing_out_of_the_images_of_the_driver(small: Path) -> None:
    edit(small, "image: net-modules, version: 1.0.0", 'image: net-modules, version: "1.0-${KERNEL_FULL_VERSION}"')
    project.write(small, {"policies/lab.yaml": f"{POLICY}  driver: {{state: Absent}}\n"})

    told(small, "compile")

    made = (small / "output/east/net/daemonset-net-driver-lab.yaml").read_text()
    assert "kae-driver-installer:2.3.0" in made
    assert "net-modules" not in made
    assert "/payload" not in made
    assert "removed by kae-driver-installer:2.3.0 (1)" in told(small, "plan")
