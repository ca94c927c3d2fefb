"""`kae plan`: node by node, what each gets, and a reason for everything that it does not get."""

import json
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compiler.views import plan_data
from tests import builders, in_process, project
from tests.cli import fleet
from tests.cli.answers import answered, refused, told

FIELDS = {"name", "policy", "pool", "driver", "devicePlugin", "loaded", "resources", "reasons"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose nodes meet every fate."""
    return fleet.full(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def planned(folder: Path) -> dict[str, Any]:
    """The plan as programs read it."""
    read: dict[str, Any] = json.loads(told(folder, "plan", "-o", "json"))
    return read


def nodes(planned: dict[str, Any]) -> dict[str, Any]:
    """The nodes of cluster east by name."""
    (east,) = (item for item in planned["clusters"] if item["name"] == "east")
    return {node["name"]: node for node in east["nodes"]}


def test_people_get_a_summary_and_then_a_reason_for_every_gap(folder: Path, snapshot: SnapshotAssertion) -> None:
    before = project.tree(folder)

    answer = in_process.kae(folder, "plan")

    assert answer.code == 0
    assert answer.out == snapshot
    assert "warning[node-unknown]" in answer.err
    assert project.tree(folder) == before


def test_programs_get_exactly_the_fields_that_are_promised(planned: dict[str, Any]) -> None:
    assert set(planned) == {"version", "diagnostics", "clusters"}
    assert planned["version"] == 1
    assert [set(cluster) for cluster in planned["clusters"]] == [{"name", "nodes", "pools", "images"}] * 2
    assert all(set(node) == FIELDS for node in nodes(planned).values())
    assert list(nodes(planned)) == sorted(nodes(planned))
    assert [cluster["name"] for cluster in planned["clusters"]] == ["east", "west"]


def test_a_plan_in_json_is_indented_as_every_answer_is(folder: Path, planned: dict[str, Any]) -> None:
    assert in_process.kae(folder, "plan", "-o", "json").out == json.dumps(planned, indent=2, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("count", [1, 2, 3, 6, 7])
def test_a_plan_is_whole_in_whatever_pieces_it_is_written(
    count: int, folder: Path, planned: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_data, "_CHUNK", count)

    lines = in_process.kae(folder, "plan", "-o", "ndjson").out.splitlines()

    assert json.loads(in_process.kae(folder, "plan", "-o", "json").out) == planned
    nodes = sum(len(cluster["nodes"]) for cluster in planned["clusters"])
    assert sum(json.loads(line)["kind"] == "node" for line in lines) == nodes


def test_a_plan_in_lines_of_json_holds_what_the_plan_in_json_does(folder: Path, planned: dict[str, Any]) -> None:
    answer = in_process.kae(folder, "plan", "-o", "ndjson")
    lines = list(map(json.loads, answer.out.splitlines()))
    kinds = {"node": "nodes", "pool": "pools", "image": "images"}

    assert [line for line in lines if line["kind"] in kinds] == [
        {"kind": kind, "cluster": cluster["name"], **entry}
        for cluster in planned["clusters"]
        for kind, field in kinds.items()
        for entry in cluster[field]
    ]
    assert [line for line in lines if line["kind"] not in kinds] == [
        {"kind": "diagnostic", **finding} for finding in planned["diagnostics"]
    ]
    assert "warning[node-unknown]" in answer.err


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("policies/tls.yaml", "kind: Nothing\n", "unknown-kind"),
        ("kae.yaml", "findings: {nope: error}\n", "invalid-value"),
    ],
)
def test_a_plan_in_lines_of_documents_with_mistakes_is_their_findings_alone(
    name: str, text: str, code: str, tmp_path: Path
) -> None:
    answer = in_process.kae(project.write(fleet.full(tmp_path), {name: text}), "plan", "-o", "ndjson")

    assert (answer.code, [json.loads(line)["code"] for line in answer.out.splitlines()]) == (1, [code])


def test_a_plan_in_lines_says_how_many_findings_the_project_ignores(tmp_path: Path) -> None:
    folder = project.write(fleet.full(tmp_path), {"kae.yaml": "findings: {node-unknown: ignore}\n"})

    assert in_process.kae(folder, "plan", "-o", "ndjson").err.endswith("ignored as kae.yaml says: 1 node-unknown\n")


def test_a_quiet_plan_for_programs_is_whole_in_lines_too(folder: Path, planned: dict[str, Any]) -> None:
    lines = answered(folder, "plan", "-o", "ndjson", "-q").splitlines()

    assert {json.loads(line)["kind"] for line in lines} == {"node", "pool"}


@pytest.mark.parametrize("text", [f"{fleet.POLICY}  x: 1\n", fleet.POLICY.replace("[east]", "[south]")])
def test_a_policy_with_a_mistake_is_not_said_to_be_missing(text: str, tmp_path: Path) -> None:
    wrong = project.write(fleet.full(tmp_path), {"policies/tls.yaml": text})

    assert refused(1, wrong, "plan", "--policy", "tls").startswith("policies/tls.yaml:")


def test_a_node_that_gets_everything_has_no_null(planned: dict[str, Any]) -> None:
    node = nodes(planned)["kp920-01"]

    assert {key: node[key] for key in FIELDS - {"reasons", "loaded"}} == {
        "name": "kp920-01",
        "policy": "tls",
        "pool": "tls",
        "driver": "cr.openfuyao.cn/openfuyao/kae-driver-installer:2.2.0",
        "devicePlugin": "cr.openfuyao.cn/openfuyao/kae-device-plugin:1.4.1",
        "resources": {"openfuyao.com/kae.hpre": 16},
    }
    assert len(node["reasons"]) == 1


@pytest.mark.parametrize(
    ("name", "nulls", "words"),
    [
        ("kp920-02", {"pool", "driver"}, "openfuyao.com/kae.deploy.driver=false"),
        ("kp920-03", {"pool", "driver"}, "driver.enabled is false"),
        ("kp920-04", {"pool", "driver", "devicePlugin"}, "dedicated=db:NoSchedule"),
        ("new-01", {"pool", "driver", "devicePlugin"}, "unknown"),
        ("x86-01", {"pool", "driver", "devicePlugin"}, "no device"),
    ],
)
def test_every_null_has_its_reason(name: str, nulls: set[str], words: str, planned: dict[str, Any]) -> None:
    node = nodes(planned)[name]

    said = " ".join(node["reasons"])
    assert {key for key in FIELDS - {"loaded"} if node[key] is None} == nulls
    assert words in said
    for field, noun in (("pool", "pool"), ("driver", "driver"), ("devicePlugin", "device plugin")):
        assert (f"no {noun}" in said) is (field in nulls)


def test_a_node_without_a_policy_gets_nothing_and_is_told_why(tmp_path: Path) -> None:
    folder = fleet.small(tmp_path)
    for name in ("tls", "rest"):
        (folder / f"policies/{name}.yaml").unlink()

    (node,) = nodes(json.loads(in_process.kae(folder, "plan", "-o", "json").out)).values()

    assert {key for key in FIELDS if node[key] is None} == {"policy", "pool", "driver", "devicePlugin", "loaded"}
    assert node["resources"] == {}
    (reason,) = node["reasons"]
    assert all(noun in reason for noun in ("policy", "pool", "driver", "device plugin"))


def test_a_cluster_can_be_chosen(folder: Path) -> None:
    answer = answered(folder, "plan", "--cluster", "west")

    assert answer.startswith("cluster west: 0 nodes\n")
    assert "cluster east" not in answer


def test_nodes_that_are_alike_share_a_line(tmp_path: Path) -> None:
    def lines(count: int) -> list[str]:
        machines = tuple(
            builders.kubernetes_node(f"{node['metadata']['name']}-{number:03}", node["metadata"]["labels"])
            for node in fleet.NODES
            for number in range(count)
        )
        folder = project.write(fleet.small(tmp_path), {"inventory/east.json": fleet.listed(machines)})
        return in_process.kae(folder, "plan", "--cluster", "east").out.splitlines()

    few, many = lines(2), lines(100)

    assert len(few) == len(many)
    assert (
        "  100 nodes (new-01-000, new-01-001, new-01-002, new-01-003, new-01-004 and 95 more): "
        "no driver and device plugin: NFD has not labelled the node yet: its devices are unknown"
    ) in many


def test_a_policy_without_nodes_is_named(tmp_path: Path) -> None:
    folder = fleet.full(tmp_path)
    project.write(folder, {"policies/more.yaml": fleet.POLICY.replace("tls", "tsl")})

    answer = in_process.kae(folder, "plan", "--cluster", "east")

    assert "\npolicies without nodes: tsl\n" in answer.out


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (("--policy", "tls"), ["kp920-01", "kp920-02", "kp920-04", "new-01"]),
        (("--policy", "tls", "--policy", "rest", "-l", "pool!=tls"), ["kp920-03", "x86-01"]),
        (("--node", "kp920-01", "--node", "east/x86-01"), ["kp920-01", "x86-01"]),
        (("-l", "pool in (tls),!openfuyao.com/kae.deploy.driver"), ["kp920-01", "kp920-04", "new-01"]),
        (("--selector", "pool=web"), []),
        (("--problems",), ["kp920-04", "new-01"]),
        (("--problems", "--policy", "rest"), []),
    ],
)
def test_a_plan_is_of_nodes_in_every_restriction(options: tuple[str, ...], names: list[str], folder: Path) -> None:
    told = in_process.kae(folder, "plan", "--cluster", "east", *options)
    answer = in_process.kae(folder, "plan", "--cluster", "east", *options, "-o", "json")

    assert answer.code == 0
    assert list(nodes(json.loads(answer.out))) == names
    said = " ".join(options).replace("--selector", "-l")
    head = told.out.splitlines()[0]
    assert head.startswith(f"cluster east: {len(names)} of 6 nodes (")
    assert sorted(head.partition("(")[2].partition("), ")[0].rstrip(")").split()) == sorted(said.rstrip(")").split())


def test_problems_are_listed_by_reason_alone(folder: Path, snapshot: SnapshotAssertion) -> None:
    assert in_process.kae(folder, "plan", "--problems").out == snapshot


def test_clusters_without_a_selected_node_are_left_out(folder: Path) -> None:
    answer = in_process.kae(folder, "plan", "--policy", "tls")

    assert answer.out.startswith("cluster east: 4 of 6 nodes (--policy tls), ")
    assert "west" not in answer.out


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--policy", "tl"), 3, "there is no policy 'tl'.\nhint: Did you mean 'tls'? Policies are rest and tls.\n"),
        (("--policy", "tls", "--cluster", "west"), 3, "kae: there is no policy 'tls'.\nhint: Policies are rest.\n"),
        (
            ("--node", "kp92-01"),
            3,
            "kae: no inventory holds a node 'kp92-01'.\n"
            "hint: Did you mean 'kp920-01'? `kae plan -o json` lists all nodes.\n",
        ),
        (("--node", "kp920-01", "--node", "kp920-99"), 3, "kae: no inventory holds a node 'kp920-99'."),
        (("--node", "eats/kp920-01"), 3, "kae: there is no cluster 'eats'.\n"),
        (("-l", "pool in tls"), 2, "argument -l/--selector: 'pool in tls' is no requirement on a label."),
    ],
)
def test_a_restriction_that_cannot_be_met_is_refused_with_the_nearest_name(
    options: tuple[str, ...], code: int, words: str, folder: Path
) -> None:
    before = project.tree(folder)

    assert words in refused(code, folder, "plan", *options)
    assert project.tree(folder) == before


def test_a_warning_ends_with_0_and_where_that_is_wanted_with_1(folder: Path) -> None:
    usual, strict = in_process.kae(folder, "plan"), in_process.kae(folder, "plan", "--strict")

    assert (usual.code, strict.code, strict.out) == (0, 1, "")
    assert strict.err == usual.err.removesuffix("\n") + "; --strict treats warnings as errors\n"


def test_several_processes_plan_what_one_does(folder: Path) -> None:
    one, several = (in_process.kae(folder, "plan", "-o", "json", "--jobs", jobs) for jobs in ("1", "2"))

    assert one.code == 0
    assert several == one


def test_a_misspelt_opt_out_is_told_where_kubectl_printed_it(tmp_path: Path) -> None:
    place = fleet.full(tmp_path)
    inventory = place / "inventory/east.json"
    inventory.write_text(inventory.read_text().replace("kae.deploy.driver", "kae.deploy.drvier"))
    lines = inventory.read_text().splitlines()
    line, column = next(
        (line, text.find('"openfuyao.com/kae.deploy')) for line, text in enumerate(lines) if "drvier" in text
    )

    said = in_process.kae(place, "plan").err

    assert f"inventory/east.json:{line + 1}:{column + 1}: warning[label-not-read]: The label " in said
    assert "hint: Did you mean 'openfuyao.com/kae.deploy.driver'? Correct it on the node." in said
