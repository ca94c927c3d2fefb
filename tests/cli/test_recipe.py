"""`kae recipe`: the shipped recipes, and the copies of them in a project."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from syrupy.assertion import SnapshotAssertion

from compiler import wording
from compiler.formats import decode
from compiler.project import package_data
from tests import in_process, project
from tests.cli.answers import answered, refused, told, warned

SHIPPED = sorted(package_data.recipes())


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """A new project."""
    assert in_process.kae(tmp_path, "init").code == 0
    return tmp_path


def states(folder: Path) -> dict[str, str]:
    answer = in_process.kae(folder, "recipe", "list", "-o", "json")
    return {each["name"]: each["state"] for each in json.loads(answer.out)["recipes"]}


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_recipe_is_named_as_its_folder_and_its_example_is_a_policy_of_it(name: str) -> None:
    folder = package_data.recipes()[name]
    (recipe,), faults = decode.decode("recipe.yaml", (folder / "recipe.yaml").read_bytes())
    (policy,), more = decode.decode("policy.yaml", (folder / "policy.yaml").read_bytes())

    assert faults + more == []
    assert (recipe.data["kind"], recipe.data["metadata"]["name"]) == ("Recipe", name)
    assert (policy.data["kind"], policy.data["spec"]["recipe"]) == ("DevicePolicy", name)
    assert policy.data["spec"]["rollout"]["waves"][0]["name"] == "canary"


@pytest.mark.parametrize("name", SHIPPED)
def test_no_two_parameters_of_a_shipped_recipe_share_a_description(name: str) -> None:
    # An alias of YAML takes the description with the rest.
    (recipe,), _ = decode.decode("recipe.yaml", (package_data.recipes()[name] / "recipe.yaml").read_bytes())
    declared = recipe.data["spec"].get("parameters", {}).get("properties", {})
    said = [each["description"] for each in declared.values() if "description" in each]

    assert len({*said}) == len(said)


def test_shipped_recipes_are_listed_outside_of_any_project(tmp_path: Path) -> None:
    head, *rows = answered(tmp_path, "recipe", "list").splitlines()

    assert head.split() == ["NAME", "VERSION", "STATE", "TITLE"]
    assert [row.split()[0] for row in rows] == sorted(SHIPPED)
    assert rows[5:] == [
        "intel-qat    0.36.0                      shipped  Intel QAT device plugin",
        "intel-sgx    0.36.0                      shipped  Intel SGX device plugin",
        "onload       8.1.2.26-ubi8               shipped  OpenOnload",
        "simple-kmod  1.0-${KERNEL_FULL_VERSION}  shipped  Two small modules, without a device",
    ]


def test_a_copy_is_the_shipped_text_below_two_lines_with_an_example_beside_it(fleet: Path) -> None:
    answer = answered(fleet, "recipe", "add", "onload")

    assert answer.startswith("Made:\n  recipes/onload/recipe.yaml\n  policies/onload.yaml\n")
    schema, mark, text = (fleet / "recipes/onload/recipe.yaml").read_text().split("\n", 2)
    shipped = package_data.recipes()["onload"]
    assert schema == "# yaml-language-server: $schema=../.schemas/recipe.json"
    assert mark.startswith("# From `kae recipe add onload`, sha256:")
    assert text == (shipped / "recipe.yaml").read_text()
    schema, text = (fleet / "policies/onload.yaml").read_text().split("\n", 1)
    assert schema == "# yaml-language-server: $schema=../recipes/.schemas/devicepolicy.json"
    assert text == (shipped / "policy.yaml").read_text()
    assert states(fleet) == {**dict.fromkeys(SHIPPED, "shipped"), "onload": "added"}


def test_a_copy_of_an_edited_file_is_still_one_of_the_shipped_recipe(fleet: Path) -> None:
    in_process.kae(fleet, "recipe", "add", "onload")
    file = fleet / "recipes/onload/recipe.yaml"
    file.write_text(file.read_text().replace("registry.example.com", "registry.example.org"))

    assert states(fleet)["onload"] == "added"


def test_a_copy_of_another_text_is_behind_and_says_how_to_go_on(fleet: Path) -> None:
    in_process.kae(fleet, "recipe", "add", "onload")
    file = fleet / "recipes/onload/recipe.yaml"
    file.write_text(re.sub("sha256:[0-9a-f]{8}", "sha256:00000000", file.read_text()))

    answer = in_process.kae(fleet, "recipe", "list")

    assert (answer.code, in_process.kae(fleet, "recipe", "list", "--strict").code) == (0, 1)
    assert "onload       8.1.2.26-ubi8               behind " in answer.out
    assert "recipes/onload/recipe.yaml:2:1: warning[recipe-behind]: kae ships another version" in answer.err
    assert "run `kae recipe add onload`, compare by `git diff`" in answer.err


def test_a_recipe_of_ones_own_is_listed_even_if_it_is_broken(fleet: Path) -> None:
    project.write(fleet, {"recipes/npu-x/recipe.yaml": "spec: {title: An NPU}\n", "recipes/bad/recipe.yaml": "a: [\n"})

    answer = in_process.kae(fleet, "recipe", "list")

    assert answer.code == 1
    rows = [line.split()[:3] for line in answer.out.splitlines()]
    assert [row for row in rows if row[2] == "own"] == [["bad", "-", "own"], ["npu-x", "-", "own"]]
    assert "recipes/bad/recipe.yaml:2:1: error[yaml-syntax]" in answer.err


def test_nothing_is_overwritten(fleet: Path) -> None:
    project.write(fleet, {"policies/onload.yaml": "mine: true\n"})

    first = in_process.kae(fleet, "recipe", "add", "onload")
    before = project.tree(fleet)
    second = in_process.kae(fleet, "recipe", "add", "onload")

    assert first.code == 0
    assert "\n'policies/onload.yaml' was there, and stays as it is.\n" in first.out
    assert (fleet / "policies/onload.yaml").read_text() == "mine: true\n"
    assert (second.code, project.tree(fleet)) == (3, before)
    assert second.err.startswith("kae: 'recipes/onload/recipe.yaml' exists, and would be overwritten.\n")


def test_no_recipe_is_written_where_its_example_cannot_be(fleet: Path) -> None:
    shutil.rmtree(fleet / "policies")
    (fleet / "policies").write_text("a file\n")

    said = "'policies/onload.yaml' cannot be made: 'policies' is no folder that kae may write to."
    assert said in refused(3, fleet, "recipe", "add", "onload")
    assert not (fleet / "recipes").exists()


def test_a_name_that_kae_does_not_ship_is_refused_with_the_nearest_one(fleet: Path) -> None:
    listed = wording.listed(sorted(SHIPPED))
    said = f"kae: kae ships no recipe 'onlaod'.\nhint: Did you mean 'onload'? kae ships {listed}.\n"

    assert refused(3, fleet, "recipe", "add", "onlaod") == said


def test_a_recipe_is_added_to_projects_only(tmp_path: Path) -> None:
    said = "hint: Run `kae init` first, or choose one with -C DIR.\n"

    assert said in refused(3, tmp_path, "recipe", "add", "onload")
    assert list(tmp_path.iterdir()) == []


def test_a_link_out_of_the_project_is_not_followed(fleet: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (fleet / "recipes").symlink_to(outside)

    refused(3, fleet, "recipe", "add", "onload")
    assert "'recipes' is a link that leads out of the project." in refused(3, fleet, "recipe", "list")
    assert list(outside.iterdir()) == []


def test_the_example_lies_in_the_folder_that_the_project_names(fleet: Path) -> None:
    project.write(fleet, {"kae.yaml": "policies: fleet/policies\n", "fleet/README.md": ""})
    (fleet / "policies").rename(fleet / "fleet/policies")

    told(fleet, "recipe", "add", "simple-kmod")

    (head, _) = (fleet / "fleet/policies/simple-kmod.yaml").read_text().split("\n", 1)
    assert head == "# yaml-language-server: $schema=../../recipes/.schemas/devicepolicy.json"


NET = """\
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
      trace:
        type: boolean
        default: false
  devicePlugin:
    resources:
      - name: example.com/net
        class: token
        count: 10
        inject:
          - env: {NET_LOG: errors}
      - name: example.com/trace
        class: token
        count: 10
        inject:
          - when: ${values.trace}
            env: {NET_LOG: everything}
"""


@pytest.mark.long
@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_recipe_compiles_with_every_value_and_so_does_its_example(fleet: Path, name: str) -> None:
    in_process.kae(fleet, "recipe", "add", name)

    checked = in_process.kae(fleet, "recipe", "check", "-o", "json")
    compiled = in_process.kae(fleet, "compile")

    assert (checked.code, compiled.code) == (0, 0), checked.out + compiled.err
    trials = json.loads(checked.out)["trials"]
    assert [trial["values"] for trial in trials][:1] == ["defaults"]
    assert all(trial["objects"] > 0 for trial in trials)
    assert any((fleet / f"output/default/{name}").iterdir())


def test_parameters_that_exclude_each_other_are_tried_one_by_one(fleet: Path) -> None:
    in_process.kae(fleet, "recipe", "add", "onload")

    answer = answered(fleet, "recipe", "check", "onload")

    assert [" ".join(line.split()[:-1]) for line in answer.splitlines()[1:]] == [
        "onload defaults",
        "onload setPreload: false",
        "onload setPreload: false, mountOnload: true",
        "onload controlPlane: true",
    ]


MODULE = ("--module", "npx", "--module", "npy")
PCI = ("--vendor-id", "0xABCD", "--device-id", "0001", "--device-id", "0002")
PROGRAM = ("--program", "example/plugin:1.2.0")
RESOURCE = ("--resource", "example.com/npx")


@pytest.mark.parametrize(
    "flags",
    [
        (),
        PCI,
        MODULE,
        (*MODULE, "--image", "registry.example.com/npx:1.0-${KERNEL_XYZ}"),
        RESOURCE,
        (*PCI, *MODULE, *RESOURCE),
        (*PCI, *RESOURCE, "--class", "vfio"),
        (*RESOURCE, "--class", "token", "--path", "/dev/npx"),
        (*RESOURCE, "--class", "char", "--path", "/dev/npx*", "--path", "/dev/npy*"),
        PROGRAM,
        (*PCI, *MODULE, *PROGRAM, *RESOURCE, "--path", "/dev/npx", "--path", "/sys/class/npx"),
    ],
    ids=" ".join,
)
def test_a_first_recipe_passes_the_check_and_its_policy_compiles(fleet: Path, flags: tuple[str, ...]) -> None:
    made = answered(fleet, "recipe", "new", "npx", *flags)

    checked = in_process.kae(fleet, "recipe", "check", "npx", "-o", "json")
    compiled = in_process.kae(fleet, "compile")

    assert made.startswith("Made:\n  recipes/npx/recipe.yaml\n  policies/npx.yaml\n")
    assert (checked.code, compiled.code) == (0, 0), checked.out + compiled.err
    (trial,) = json.loads(checked.out)["trials"]
    assert (trial["objects"] > 0) is bool({*MODULE, *PROGRAM, *RESOURCE} & {*flags})


def test_a_first_recipe_says_what_its_options_say(fleet: Path, snapshot: SnapshotAssertion) -> None:
    told(fleet, "recipe", "new", "npx", *PCI, *MODULE, *PROGRAM, *RESOURCE, "--path", "/dev/npx")
    told(fleet, "recipe", "new", "bare")

    assert (fleet / "recipes/npx/recipe.yaml").read_text() == snapshot
    assert (fleet / "policies/npx.yaml").read_text() == snapshot
    assert (fleet / "recipes/bare/recipe.yaml").read_text() == snapshot


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("kae",), "no recipe can say that: A recipe cannot be named 'kae'.\n"),
        (("npx", "--resource", "npx"), "'npx' is not a resource with a domain, such as example.com/npu.\n"),
        (("npx", *PROGRAM, "--path", "/"), "A program may not have '/' of the node.\n"),
        (("npx", *PROGRAM, "--path", "/dev/npx*"), "a pod mounts a folder or a file, and no glob.\n"),
        (("npx", "--vendor-id", "abcd"), "hint: Add --vendor-id and --device-id.\n"),
        (("npx", "--device-id", "abcd"), "hint: Add --vendor-id and --device-id.\n"),
        (("npx", "--image", "example/modules:1"), "hint: Add --module.\n"),
        (("npx", "--class", "char"), "hint: Add --resource.\n"),
        (("npx", "--path", "/dev/npx"), "hint: Add --resource.\n"),
        (("npx", *RESOURCE, "--class", "vfio"), "hint: Add --vendor-id and --device-id.\n"),
        (("npx", *PCI, *RESOURCE, "--class", "vfio", "--path", "/dev/vfio/1"), "hint: Leave --path out.\n"),
        (("npx", *PROGRAM, *RESOURCE, "--class", "char"), "hint: Leave one of them out.\n"),
        (("npx", *PROGRAM, "--path", "/dev/npx", "--path", "/dev/npx"), "--path has '/dev/npx' twice.\n"),
        (("npx", *PCI, *PCI[2:]), "--device-id has "),
    ],
)
def test_answers_of_which_no_recipe_can_be_made_are_refused_and_nothing_is_written(
    fleet: Path, arguments: tuple[str, ...], said: str
) -> None:
    before = project.tree(fleet)

    assert said in refused(1, fleet, "recipe", "new", *arguments)
    assert project.tree(fleet) == before


@pytest.mark.parametrize("arguments", [("NPX",), ("a--b",), ("npx", "--vendor-id", "19"), ("npx", "--class", "uacce")])
def test_answers_in_another_form_end_with_the_usage(fleet: Path, arguments: tuple[str, ...]) -> None:
    assert refused(2, fleet, "recipe", "new", *arguments).startswith("usage: kae recipe new")


@pytest.mark.parametrize("option", ["--vendor-id", "--image", "--program", "--resource", "--class"])
def test_of_two_answers_to_one_question_none_is_dropped(fleet: Path, option: str) -> None:
    value = {"--vendor-id": "abcd", "--class": "char"}.get(option, "example.com/a:1")

    said = f"argument {option}: it is given twice, and there is one of it\n"
    assert said in refused(2, fleet, "recipe", "new", "npx", option, value, option, value)


def test_a_first_recipe_overwrites_nothing(fleet: Path) -> None:
    project.write(fleet, {"policies/npx.yaml": "# mine\n"})
    told(fleet, "recipe", "new", "npx")
    before = project.tree(fleet)

    said = "kae: 'recipes/npx/recipe.yaml' exists, and would be overwritten.\n"
    assert refused(3, fleet, "recipe", "new", "npx", *MODULE).startswith(said)
    assert project.tree(fleet) == before
    assert before["policies/npx.yaml"] == b"# mine\n"


VALUES = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: Recipe
metadata: {name: net}
spec:
  title: A vendor's program
  match: {all: {}}
  parameters:
    required: [level, count]
    properties:
      level: {type: string, enum: [low, high]}
      count: {type: integer, minimum: 2, maximum: 3}
      quiet: {type: boolean, default: true}
      loud: {type: string, enum: [very]}
      parts: {type: array, maxItems: 4, items: {type: string, enum: [a, b]}, default: [a]}
      place:
        type: object
        required: [path]
        properties: {path: {type: string, enum: [/opt, /srv]}, own: {type: boolean}}
        default: {path: /opt}
      marks: {type: object, maxProperties: 4, additionalProperties: {type: boolean}, default: {}}
  exclusive: [[quiet, loud]]
  images: {plugin: {repository: registry.example.com/net, image: net, version: 1.0.0}}
  programs:
    - name: net
      files:
        config: {config.json: {json: {marks: "${values.marks}", place: "${values.place}", quiet: "${values.quiet}"}}}
      pod:
        containers:
          - name: net
            image: plugin
            args: ["-level=${values.level}", "-count=${values.count}", "-parts=${values.parts}", "-loud=${values.loud}"]
            volumeMounts: [{name: folder, mountPath: /folder}, {name: config, mountPath: /config}]
        volumes:
          - {name: folder, hostPath: {path: "/opt/${values.level}"}}
          - {name: config, files: {name: config}}
"""


def test_values_in_lists_and_maps_are_tried_beside_what_a_policy_has_to_give(fleet: Path) -> None:
    project.write(fleet, {"recipes/net/recipe.yaml": VALUES})

    trials = json.loads(in_process.kae(fleet, "recipe", "check", "-o", "json").out)["trials"]

    given = 'level: "low", count: 2'
    assert [trial["values"] for trial in trials] == [
        given,
        'count: 2, level: "high"',
        f"{given}, quiet: false",
        f'{given}, quiet: false, loud: "very"',
        f'{given}, parts: ["b"]',
        f'{given}, place: {{"path": "/srv"}}',
        f'{given}, place: {{"path": "/opt", "own": false}}',
        f'{given}, place: {{"path": "/opt", "own": true}}',
        f'{given}, marks: {{"entry": false}}',
        f'{given}, marks: {{"entry": true}}',
    ]
    assert all(trial["objects"] > 0 for trial in trials)


def test_a_value_by_which_a_program_gets_what_it_may_not_is_said_with_its_place(fleet: Path) -> None:
    text = VALUES.replace('path: "/opt/${values.level}"', 'path: "/run/${values.level}"').replace(
        "[low, high]", "[low, ../etc/kubernetes]"
    )
    project.write(fleet, {"recipes/net/recipe.yaml": text})

    answer = in_process.kae(fleet, "recipe", "check")

    assert answer.code == 1
    place = re.search(r"^recipes/net/recipe.yaml:(\d+):.* error\[privilege-refused\]", answer.err, re.MULTILINE)
    assert place is not None
    assert "/run/${values.level}" in text.splitlines()[int(place[1]) - 1]
    assert 'This is so with count: 2, level: "../etc/kubernetes".' in answer.err


def test_a_mistake_in_a_policy_with_a_value_is_said_at_the_parameter_that_was_tried(fleet: Path) -> None:
    text = VALUES.replace("  exclusive: [[quiet, loud]]\n", "  exclusive: [[parts, loud]]\n")
    project.write(fleet, {"recipes/net/recipe.yaml": text})

    answer = in_process.kae(fleet, "recipe", "check")

    assert answer.code == 1
    place = re.search(r"^recipes/net/recipe.yaml:(\d+):.* error\[", answer.err, re.MULTILINE)
    assert place is not None
    assert "loud" in text.splitlines()[int(place[1]) - 1]


@pytest.mark.parametrize("name", ["cplane_server_path", "cplane_server_params"])
def test_a_parameter_that_the_control_plane_of_onload_sets_is_no_setting_beside_it(fleet: Path, name: str) -> None:
    told(fleet, "recipe", "add", "onload")
    path = fleet / "policies/onload.yaml"
    text = path.read_text() + f"  driver: {{moduleParameters: {{onload: {{{name}: /opt/server}}}}}}\n"
    running = text.replace("    maxPods: 40\n", "    maxPods: 40\n    controlPlane: true\n")
    reserved, wave = "        nodes: []\n", "        percent: 5\n        values: {controlPlane: true}\n"
    said = f"error[parameter-claimed]: Program 'cplane' of recipe 'onload' sets parameter '{name}' of module 'onload'"

    for given, is_refused in (
        (text, False),
        (running, True),
        (text.replace(reserved, wave), True),
        (running + "  programs: {cplane: {enabled: false}}\n", False),
    ):
        path.write_text(given)
        answer = in_process.kae(fleet, "compile")
        assert (answer.code, said in answer.err) == (int(is_refused), is_refused), answer.err


def test_what_a_recipe_shows_has_what_the_api_server_adds_to_pods(fleet: Path) -> None:
    shown = [" ".join(line.split()) for line in answered(fleet, "recipe", "show", "intel-sgx").splitlines()]

    assert "intel-sgx-enclave pods: admission limits sgx.intel.com/provision" in shown


def test_what_a_recipe_shows_names_its_fields_and_what_its_pods_may_do(fleet: Path) -> None:
    lines = [" ".join(line.split()) for line in answered(fleet, "recipe", "show", "onload").splitlines()]

    for line in (
        "onload: OpenOnload",
        "nodes: sfc (PCI vendor 1924, class 0200)",
        "maxPods integer 1..1000 100 Pods of a node that may use Onload.",
        "at most one is set: setPreload and mountOnload",
        "driver-installer cr.openfuyao.cn/openfuyao/kae-driver-installer:latest",
        "user docker.io/onload/onload-user:8.1.2.26-ubi8",
        "sfc - sfc optional, network",
        "amd.com/onload token ${values.maxPods}",
        "onload-driver privileged: installer",
        "onload-driver cluster-rbac: /pods/eviction create",
        "onload-device-plugin hostPath: /dev",
    ):
        assert line in lines, line


@pytest.mark.parametrize(
    ("recipe", "lines"),
    [
        (
            "intel-gpu",
            [
                "nodes: gpu (PCI vendor 8086, class 0300 and class 0380), and with kernel.loadedmodule (i915) or with "
                "kernel.enabledmodule (i915) or with kernel.loadedmodule (xe) or with kernel.enabledmodule (xe)",
                "gpu.intel.com/* - offered by plugin",
            ],
        ),
        (
            "intel-dsa",
            ["nodes: dsa (PCI vendor 8086, 0b25, 11fb, 1212 and class 0880) with kernel.loadedmodule (idxd)"],
        ),
        ("intel-sgx", ["sgx.intel.com/epc - counted by NFD: @cpu.security.sgx.epc"]),
    ],
)
def test_what_a_recipe_shows_says_which_nodes_its_programs_run_on_and_what_they_offer(
    fleet: Path, recipe: str, lines: list[str]
) -> None:
    shown = [" ".join(line.split()) for line in answered(fleet, "recipe", "show", recipe).splitlines()]

    assert [line for line in lines if line not in shown] == []


def test_what_a_recipe_shows_is_data_for_programs(fleet: Path) -> None:
    shown = json.loads(in_process.kae(fleet, "recipe", "show", "simple-kmod", "-o", "json").out)

    assert (shown["name"], shown["match"]) == ("simple-kmod", {"all": {}})
    assert "simple-kmod-driver: privileged: installer" in shown["privileges"]


def test_kae_is_shown_as_any_recipe_is(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    shown = json.loads(in_process.kae(tmp_path, "recipe", "show", "kae", "-o", "json").out)

    assert answered(tmp_path, "recipe", "show", "kae") == snapshot
    assert (shown["name"], [kind["kind"] for kind in shown["match"]["pci"]]) == ("kae", ["hpre", "sec", "zip"])
    assert "kae-driver: privileged: installer" in shown["privileges"]


def test_kae_is_named_among_the_recipes_that_can_be_shown(fleet: Path) -> None:
    known = wording.listed(sorted(["kae", *SHIPPED]))
    said = f"kae: there is no recipe 'kea'.\nhint: Did you mean 'kae'? Known are {known}.\n"
    assert refused(3, fleet, "recipe", "show", "kea") == said


def test_a_recipe_of_the_project_is_shown_before_a_shipped_one_of_its_name(fleet: Path) -> None:
    project.write(fleet, {"recipes/onload/recipe.yaml": NET.replace("name: net", "name: onload")})

    assert in_process.kae(fleet, "recipe", "show", "onload").out.startswith("onload: A network stack\n")


def test_a_value_that_does_not_compile_is_found_without_a_policy_and_named(fleet: Path) -> None:
    project.write(fleet, {"recipes/net/recipe.yaml": NET})

    answer = in_process.kae(fleet, "recipe", "check")

    assert answer.code == 1
    assert [line.split() for line in answer.out.splitlines()[1:]] == [
        ["net", "defaults", "2"],
        ["net", "trace:", "true", "0"],
    ]
    assert "recipes/net/recipe.yaml:26:28: error[inject-conflict]: Resources 'example.com/net' and" in answer.err
    assert "  note: This is so with trace: true.\n" in answer.err


def test_a_recipe_whose_values_nobody_can_guess_is_not_tried_and_that_is_said(fleet: Path) -> None:
    required = "    required: [token]\n    properties:\n      token: {type: string, pattern: '^k-'}\n"
    file = "          - files: [{name: token, as: /etc/token, text: '${values.token}'}]\n"
    text = NET.replace("    properties:\n", required).replace("          - env: {NET_LOG: errors}\n", file)
    project.write(fleet, {"recipes/net/recipe.yaml": text})

    said = "net       not tried: it has a parameter without a default  0\n"
    assert said in answered(fleet, "recipe", "check")


def test_a_check_shows_the_mistakes_of_every_recipe_and_of_nothing_else(fleet: Path) -> None:
    recipes = {"recipes/net/recipe.yaml": NET.replace("title:", "tile:"), "recipes/other/recipe.yaml": NET}
    project.write(fleet, {**recipes, "policies/wrong.yaml": "kind: Wrong\n"})

    answer = in_process.kae(fleet, "recipe", "check", "--format", "github")

    assert answer.code == 1
    assert "file=recipes/net/recipe.yaml,title=unknown-field,line=6" in answer.out
    assert "file=recipes/other/recipe.yaml,title=recipe-name,line=4" in answer.out
    assert "wrong.yaml" not in answer.out + answer.err


def test_a_check_of_one_recipe_leaves_the_others_alone(fleet: Path) -> None:
    good = NET.replace("NET_LOG: everything", "NET_LOG: errors")
    project.write(fleet, {"recipes/net/recipe.yaml": good, "recipes/bad/recipe.yaml": "a: [\n"})

    assert warned(fleet, "recipe", "check", "net") == ""
    said = "kae: there is no recipe 'nte'.\nhint: Did you mean 'net'? Known are bad and net.\n"
    assert refused(3, fleet, "recipe", "check", "nte") == said


def test_the_schema_for_editors_judges_the_values_by_the_recipe_of_the_policy(fleet: Path) -> None:
    for name in SHIPPED:
        in_process.kae(fleet, "recipe", "add", name)
    validator = jsonschema.Draft202012Validator(json.loads((fleet / "recipes/.schemas/devicepolicy.json").read_text()))
    (policy,), _ = decode.decode("policy.yaml", (fleet / "policies/onload.yaml").read_bytes())

    def faults(recipe: str, values: dict[str, object]) -> list[str]:
        spec = {"recipe": recipe, "values": values}
        return [error.message for error in validator.iter_errors({**policy.data, "spec": spec})]

    assert list(validator.iter_errors(policy.data)) == []
    assert faults("onload", {"maxPods": 40}) == []
    assert faults("onload", {"maxPod": 40}) != []
    assert faults("onload", {"maxPods": 0}) != []
    assert faults("simple-kmod", {"maxPods": 40}) != []
    assert faults("another", {"maxPods": 40}) == []


def test_the_schemas_of_recipes_are_written_anew_with_the_others(fleet: Path) -> None:
    project.write(fleet, {"recipes/net/recipe.yaml": NET})

    told(fleet, "schema", "--write")

    assert '"net.DevicePolicySpec"' in (fleet / "recipes/.schemas/devicepolicy.json").read_text()
    assert (fleet / "recipes/.schemas/recipe.json").read_text() == (fleet / "schemas/recipe.json").read_text()


def test_the_schema_of_one_recipe_is_printed(fleet: Path) -> None:
    project.write(fleet, {"recipes/net/recipe.yaml": NET})

    own = json.loads(told(fleet / "policies", "schema", "devicepolicy", "--recipe", "net"))

    assert list(own["$defs"]["DevicePolicySpec"]["properties"]["values"]["properties"]) == ["trace"]
    assert "maxPods" in told(fleet, "schema", "devicepolicy", "--recipe", "onload")
    said = "kae: there is no recipe 'nte' without mistakes.\n"
    assert refused(3, fleet, "schema", "devicepolicy", "--recipe", "nte").startswith(said)
    assert in_process.kae(fleet, "schema", "kaepolicy", "--recipe", "net").code == 2


def test_a_recipe_with_a_mistake_keeps_the_schema_of_its_policies(fleet: Path) -> None:
    told(fleet, "recipe", "new", "npx", *RESOURCE)
    schema, recipe = fleet / "recipes/.schemas/devicepolicy.json", fleet / "recipes/npx/recipe.yaml"
    before = json.loads(schema.read_text())
    recipe.write_text(recipe.read_text().replace("match:", "match: ["))

    told(fleet, "schema", "--write")
    assert json.loads(schema.read_text()) == before

    told(fleet, "recipe", "new", "other", *RESOURCE)
    assert [each["if"]["properties"]["spec"]["properties"]["recipe"]["const"] for each in own(schema)] == [
        "npx",
        "other",
    ]
    shutil.rmtree(recipe.parent)
    told(fleet, "schema", "--write")
    assert len(own(schema)) == 1


def own(schema: Path) -> list[dict[str, Any]]:
    """The parts of the schema for editors that are of one recipe each."""
    found: list[dict[str, Any]] = json.loads(schema.read_text())["allOf"]
    return found


@pytest.mark.parametrize(
    "damage",
    [
        {"recipes/net/recipe.yaml": NET.replace("NET_LOG: everything", "NET_LOG: errors") + "---\n" + NET},
        {"recipes/net/more.yaml": NET},
        {"recipes/net/deeper/recipe.yaml": NET},
        {"recipes/net/agent.yaml.j2": "a: b\n"},
        {"recipes/net/recipe.yaml": NET.replace("  title:", "  kind: a\n  kind: b\n  tile:")},
        {"recipes/net/recipe.yaml": NET.replace("  title:", "  title: [")},
    ],
    ids=["document", "file", "folder", "template", "key", "syntax"],
)
def test_a_check_refuses_the_files_of_a_recipe_as_a_compile_does(fleet: Path, damage: dict[str, str]) -> None:
    project.write(fleet, {"recipes/net/recipe.yaml": NET.replace("NET_LOG: everything", "NET_LOG: errors"), **damage})

    said = refused(1, fleet, "recipe", "check", "net")

    assert "error[" in said
    assert said.removesuffix("\n") == refused(1, fleet, "compile").removesuffix("; nothing written\n")
