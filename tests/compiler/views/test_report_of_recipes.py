"""The page of the report: what it shows of recipes, and that it says what it does not show."""

import json
import re
from typing import Any

import pytest

from compiler.planning import plan
from compiler.project import package_data
from compiler.views.report import data as report_data
from compiler.views.report import page as report_page
from compiler.views.report import tables as report_tables
from tests import builders
from tests.compiler.views.stacked import DESK, NODES, TLS, view


def page(*views: plan.Plan) -> str:
    return "".join(report_page.text(views, [], package_data.report()))


def facts(shown: plan.Plan) -> dict[str, dict[str, Any]]:
    report = json.loads(json.dumps(report_data.of_cluster("east", shown)))
    return {name: report["facts"][number] for name, number in zip(report["names"], report["alike"], strict=True)}


def rows(shown: plan.Plan, key: str) -> list[list[str]]:
    (wanted,) = (table for table in report_tables.of([shown]) if table.key == key)
    return [[cell.text for cell in row] for row in wanted.rows]


def test_an_image_that_holds_modules_is_shown_with_the_kernels_of_its_nodes() -> None:
    prebuilt = builders.policy(
        "tls",
        operator={"enabledHPRE": True},
        driver={"version": "2.2.0", "source": {"prebuilt": {}}},
        devicePlugin={"version": "1.4.1"},
    )
    shown, _ = builders.view([prebuilt], [builders.node()])

    (driver, plugin) = rows(shown, "images")

    assert driver[-1] == builders.profile().kernel_version
    assert plugin[-1] == "-"


def test_a_page_without_recipes_does_not_speak_of_them() -> None:
    assert "ecipe" not in re.sub(r"<script>.*?</script>|<style>.*?</style>", "", page(view(TLS)), flags=re.DOTALL)


def test_the_page_counts_the_nodes_of_each_recipe_and_says_what_it_leaves_out() -> None:
    shown = page(view())

    for number, noun in (
        (1, "with recipe npu-plugin"),
        (3, "with recipe onload"),
        (2, "with problems of recipe onload"),
    ):
        assert re.search(rf"<b>{number}</b> {noun}\n", shown)
    assert "are of KAEPolicies alone" in shown


def test_recipes_and_their_policies_have_tables() -> None:
    assert rows(view(), "recipes") == [
        ["kae", "1", "1", "1", "0", "east"],
        ["npu-plugin", "1", "0", "1", "0", "east"],
        ["onload", "3", "2", "3", "2", "east"],
    ]
    (own, *_) = rows(view(TLS), "policies")
    assert rows(view(), "policies") == [
        ["kae", *own],
        ["npu-plugin", "lab", "1", "none", "kae-device-plugin:1.0", "east", "policies/lab.yaml"],
        [
            *("onload", "desk", "3", "onload-module:8-5.14.0-427.el9_4.x86_64", "kae-device-plugin:1.0", "east"),
            "policies/desk.yaml",
        ],
        ["-", "(none)", "1", "-", "-", "-", "-"],
    ]


def test_without_policies_of_kae_and_its_devices_no_table_speaks_of_it() -> None:
    shown = builders.view((DESK,), NODES[1:])[0]

    assert [row[0] for key in ("recipes", "policies") for row in rows(shown, key)] == ["onload", "onload", "-"]


def test_the_detail_of_a_node_has_what_recipes_bring_to_it() -> None:
    lines = [line for about, line in facts(view())["t-2"]["why"] if about == "recipe"]

    assert lines == [
        "npu-plugin: policy 'lab'",
        "npu-plugin: image device-plugin registry.example.com/drivers/kae-device-plugin:1.0",
        "onload: policy 'desk'",
        "onload: pool 'rest--el9--ab2c0f7b'",
        "onload: image installer registry.example.com/drivers/installer:1.0",
        "onload: image modules r.example.com/onload-module:8-5.14.0-427.el9_4.x86_64",
        "onload: image device-plugin registry.example.com/drivers/kae-device-plugin:1.0",
    ]
    assert facts(view())["t-2"]["resources"] == ["example.com/npu=?", "amd.com/onload=40"]


def test_nodes_that_only_a_recipe_distinguishes_have_facts_of_their_own() -> None:
    alone, beside = facts(view(TLS)), facts(view())

    assert alone["kp-1"] == beside["kp-1"]
    assert alone["t-1"] == alone["t-2"]
    assert beside["t-1"] != beside["t-2"]


@pytest.mark.parametrize(("text", "names"), [("no driver", ["t-3"]), ("no policy matches", ["t-4"])])
def test_a_problem_of_a_recipe_leads_to_its_nodes(text: str, names: list[str]) -> None:
    (problem,) = (one for one in report_tables.problems([view()]) if one.text.startswith(f"onload: {text}"))

    assert problem.link == report_tables.link(why=problem.text)
    own = [node.name for node in NODES if ["recipe", problem.text] in facts(view())[node.name]["why"]]
    assert (own, problem.nodes) == (names, 1)
