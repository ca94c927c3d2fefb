"""The plans of recipes beside that of KAE, for people and for programs; a cluster without them shows no trace."""

import json
import re
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compiler.commands import explain
from compiler.planning import plan
from compiler.views import plan_data, plan_text, selection, smoke
from tests import builders
from tests.compiler.views.stacked import DESK, NODES, TLS, view

PRIVILEGES = {"onload": ["onload-driver: hostPID", "onload-driver: token"]}


def text(shown: plan.Plan, restriction: str = "") -> str:
    return "\n".join((*plan_text.summary(shown, restriction), *plan_text.details(shown)))


def stacks(shown: plan.Plan) -> dict[str, Any]:
    return {stack["recipe"]: stack for stack in plan_data.data(shown, PRIVILEGES).get("stacks", ())}


def test_people_see_a_table_for_each_recipe_after_that_of_kae(snapshot: SnapshotAssertion) -> None:
    assert text(view()) == snapshot


def test_what_is_said_of_kae_does_not_depend_on_recipes() -> None:
    alone, beside = view(TLS), view()

    assert text(beside).splitlines()[0] == text(alone).splitlines()[0]
    assert {
        key: value for key, value in plan_data.data(beside, PRIVILEGES).items() if key != "stacks"
    } == plan_data.data(alone, PRIVILEGES)
    assert plan_text.counts(beside)[""] == plan_text.counts(alone)[""]


def test_a_node_that_policies_of_other_recipes_take_lacks_nothing_of_a_recipe() -> None:
    own, *others = text(view()).split("\ncluster east, ")
    nodes = next(part for part in others if part.startswith("nodes:"))

    assert re.search(r"^\(other recipes\) +3 +- +-$", own, re.MULTILINE)
    assert re.search(r"^\(none\) +1 ", own, re.MULTILINE)
    assert not {"t-1", "t-2", "t-3"}.intersection(re.findall(r"[\w-]+", nodes))
    assert not any("kp-1" in part for part in others if part.startswith("recipe "))


def test_a_cluster_without_kae_does_not_speak_of_it() -> None:
    shown = builders.view((DESK,), NODES[1:])[0]

    assert "KAE" not in text(shown)
    assert list(plan_text.counts(shown)) == ["recipe onload"]


def test_nodes_with_kae_devices_and_no_policy_are_shown_beside_recipes() -> None:
    assert "1 with KAE devices, 1 with problems" in text(view(DESK))


def test_programs_get_the_stacks_as_documented(snapshot: SnapshotAssertion) -> None:
    assert plan_data.data(view(), PRIVILEGES)["stacks"] == snapshot


@pytest.mark.parametrize("count", [1, 2, 5, 6])
def test_the_stacks_are_whole_in_whatever_pieces_they_are_written(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = plan_data.data(view(), PRIVILEGES)
    monkeypatch.setattr(plan_data, "_CHUNK", count)

    written = "".join(plan_data.pieces(plan_data.item(view(), PRIVILEGES)))

    assert json.loads(written) == whole
    assert written == json.dumps(whole, indent=2, ensure_ascii=False).replace("\n", "\n    ")


def test_lines_of_json_name_the_recipe() -> None:
    shown = view()
    written = "".join(plan_data.pieces(plan_data.lines(shown, PRIVILEGES)))
    lines = list(map(json.loads, written.splitlines()))
    kinds = {"node": "nodes", "pool": "pools", "image": "images"}

    assert [line for line in lines if "recipe" in line and line["kind"] in kinds] == [
        {"kind": kind, "cluster": "east", "recipe": recipe, **entry}
        for recipe, stack in stacks(shown).items()
        for kind, field in kinds.items()
        for entry in stack[field]
    ]
    assert {line["kind"] for line in lines if "recipe" not in line} == {"node", "pool"}
    assert [line for line in lines if line["kind"] == "privilege"] == [
        {"kind": "privilege", "cluster": "east", "recipe": "onload", "privilege": text} for text in PRIVILEGES["onload"]
    ]


def test_a_pool_has_the_images_of_its_driver_and_of_its_programs() -> None:
    program = {"name": "agent", "per": "pool", "pod": {"containers": [{"name": "a", "image": "agent"}]}}
    images = {**builders.IMAGES, "agent": {"repository": "r.example", "image": "agent", "version": "2"}}
    driver = {"image": "installer", "modules": [{"name": "net"}]}
    recipe = builders.recipe("net", match={"all": {}}, images=images, driver=driver, programs=[program])

    shown = builders.view([builders.device_policy("lab", recipe)], NODES)[0]

    (pool,) = stacks(shown)["net"]["pools"]
    assert pool["images"] == {
        "installer": "registry.example.com/drivers/installer:1.0",
        "agent": "r.example/agent:2",
    }


def test_a_plan_is_restricted_to_recipes() -> None:
    shown = selection.restricted(view(), selection.Selection(recipes=frozenset({"onload"})))

    assert stacks(shown) == {"onload": stacks(view())["onload"]}
    assert plan_data.data(shown, PRIVILEGES)["nodes"] == []
    assert list(plan_text.counts(shown)) == ["recipe onload"]


def test_a_plan_of_kae_alone_has_no_stacks() -> None:
    shown = selection.restricted(view(), selection.Selection(recipes=frozenset({"kae"})))

    assert plan_data.data(shown, PRIVILEGES) == plan_data.data(view(TLS), PRIVILEGES)


def test_a_policy_of_a_recipe_restricts_the_plan_to_its_nodes() -> None:
    shown = selection.restricted(view(), selection.Selection(policies=frozenset({"lab"})))

    assert [node["name"] for stack in stacks(shown).values() for node in stack["nodes"]] == ["t-2"]
    assert "cluster east, recipe npu-plugin: 1 of 5 nodes (--policy lab)" in text(shown, "--policy lab")


def test_a_node_is_shown_under_every_recipe() -> None:
    shown = selection.restricted(view(), selection.Selection(nodes=frozenset({("east", "t-2")})))

    assert {name: stack["nodes"][0]["policy"] for name, stack in stacks(shown).items()} == {
        "npu-plugin": "lab",
        "onload": "desk",
    }


def test_a_problem_of_any_recipe_is_shown() -> None:
    shown = selection.restricted(view(), selection.Selection(has_problem=True))

    assert [node["name"] for node in stacks(shown)["onload"]["nodes"]] == ["t-3", "t-4"]
    assert "npu-plugin" not in stacks(shown)
    assert "".join(plan_text.problems(shown)) == (
        "cluster east, recipe onload, problems:"
        "  1 node (t-3): no driver: no mapping covers its kernel 4.18.0-553.el8_10.x86_64"
        "  1 node (t-4): no policy matches its labels"
    )


def test_each_recipe_has_a_table_of_the_clusters() -> None:
    counts = plan_text.counts(view())

    lines = list(plan_text.clusters([("east", counts), ("west", {"": counts[""]})]))

    assert lines == [
        "CLUSTER    NODES    WITH DEVICES    PROBLEMS    POLICIES",
        "east       5        1               0           1",
        "west       5        1               0           1",
        "(all)      10       2               0",
        "",
        "recipe npu-plugin:",
        "CLUSTER    NODES    WITH DEVICES    PROBLEMS    POLICIES",
        "east       5        5               0           1",
        "(all)      5        5               0",
        "",
        "recipe onload:",
        "CLUSTER    NODES    WITH DEVICES    PROBLEMS    POLICIES",
        "east       5        4               2           1",
        "(all)      5        4               2",
        "",
    ]


def test_an_explanation_goes_over_the_recipes(snapshot: SnapshotAssertion) -> None:
    assert "\n".join(explain.lines(view(), NODES[2])) == snapshot


def test_an_explanation_of_kae_does_not_depend_on_recipes() -> None:
    alone, beside = list(explain.lines(view(TLS), NODES[0])), list(explain.lines(view(), NODES[0]))

    assert beside[: len(alone)] == alone
    assert beside[len(alone) :][:2] == ["", "recipe npu-plugin"]
    assert list(explain.lines(view(), NODES[0], ["kae"])) == alone


def test_an_explanation_can_be_of_one_recipe_alone() -> None:
    lines = list(explain.lines(view(), NODES[2], ["npu-plugin"]))

    assert [line for line in lines if line.startswith(("recipe", "policies", "resources"))] == [
        "recipe npu-plugin",
        "policies",
        "resources: example.com/npu: ?",
    ]


def test_programs_get_the_explanation_of_each_recipe() -> None:
    alone, beside = explain.data(view(TLS), NODES[2]), explain.data(view(), NODES[2])
    npu, onload = beside.pop("stacks")

    assert beside == alone
    assert explain.data(view(), NODES[2], ["onload"])["stacks"] == [onload]
    assert (npu["recipe"], npu["resources"], npu["driver"]["image"]) == ("npu-plugin", {"example.com/npu": None}, None)
    assert (onload["policy"], onload["pool"]["label"]) == ("desk", "openfuyao.com/onload.pool.desk")
    assert set(onload["images"]) == {"installer", "modules", "device-plugin"}


def test_jobs_that_try_devices_leave_recipes_out_and_say_so() -> None:
    lab, desk = (
        f"policy '{policy}' of recipe '{recipe}': Jobs try the devices of KAE alone"
        for policy, recipe in (("lab", "npu-plugin"), ("desk", "onload"))
    )

    assert set(smoke.of_plan(view()).left_out) - set(smoke.of_plan(view(TLS)).left_out) == {lab, desk}
    assert smoke.of_plan(view(), ["t-1"]).left_out[-1] == desk
    assert smoke.of_plan(view(), ["t-1"]).jobs == ()
