"""`kae inventory`: from what kubectl prints to the file that compile reads."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from compiler.inventory import canonical_form
from compiler.kube import reader
from tests import builders, in_process, project, revisions
from tests.cli import fleet
from tests.cli.answers import answered, refused
from tests.kube import apiserver

KUBECONFIG = ("--kubeconfig", "kubeconfig")


CANONICAL = canonical_form.text(builders.reduced(*fleet.NODES))


@pytest.mark.parametrize(
    "text",
    [fleet.listed(), f"\n{fleet.listed()}", yaml.safe_dump(json.loads(fleet.listed())), CANONICAL],
    ids=["json", "json below an empty line", "yaml", "an inventory"],
)
def test_what_kubectl_prints_becomes_canonical_and_an_inventory_stays_so(
    text: str, tmp_path: Path, piped: Callable[[str], None]
) -> None:
    piped(text)

    assert answered(tmp_path, "inventory", "--cluster", "east") == CANONICAL


def test_the_file_compiles_to_what_kubectls_answer_compiles_to(tmp_path: Path, piped: Callable[[str], None]) -> None:
    folder = fleet.full(tmp_path)
    in_process.kae(folder, "compile")
    before, planned = project.tree(folder / "output"), in_process.kae(folder, "plan").out
    piped(fleet.listed())
    project.write(folder, {"inventory/east.json": in_process.kae(folder, "inventory", "--cluster", "east").out})

    answer = in_process.kae(folder, "compile")

    assert answer.out == "east: unchanged\nwest: unchanged\n"
    assert project.tree(folder / "output") == before
    assert in_process.kae(folder, "plan").out == planned


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("setting", ["ignoreLabels: [po*]", "inventory: {labels: [openfuyao.com/, openfuyao/]}"])
def test_labels_that_the_project_leaves_out_never_enter(
    setting: str, tmp_path: Path, piped: Callable[[str], None], *, live: bool
) -> None:
    project.write(tmp_path, {"policies/east.yaml": watching(setting)})
    piped(fleet.listed())

    answer = taken(tmp_path, *(KUBECONFIG if live else ()))

    assert answer.code == 0
    assert '"pool"' not in answer.out


def watching(setting: str) -> str:
    """Return the KAECluster of east with a setting of its watcher."""
    return fleet.CLUSTER.replace("west", "east") + f"  watcher:\n    {setting}\n"


def taken(folder: Path, *more: str) -> in_process.Answer:
    """Return the inventory of east: that of standard input, or of the cluster itself."""
    with apiserver.serving(folder) as server:
        server.put(*reversed(fleet.NODES))
        return in_process.kae(folder, "inventory", "--cluster", "east", *more)


@pytest.mark.parametrize(
    ("policies", "code"),
    [
        ({"east": "  watcher:\n    ignoreLabels: [po*]\n  typo: 1\n"}, "unknown-field"),
        ({"east": "  watcher:\n    ignoreLabels: [po*]\n  a: {\n"}, "yaml-syntax"),
        ({"east": "  watcher:\n    ignoreLabels: [po*]\n", "rest": "  typo: 1\n"}, "unknown-field"),
    ],
)
def test_no_inventory_is_taken_while_a_document_may_say_which_labels_it_leaves_out(
    policies: dict[str, str], code: str, tmp_path: Path, piped: Callable[[str], None]
) -> None:
    texts = {"east": fleet.CLUSTER.replace("west", "east"), "rest": fleet.REST}
    project.write(tmp_path, {f"policies/{name}.yaml": text + policies.get(name, "") for name, text in texts.items()})
    piped(fleet.listed())

    assert f"error[{code}]" in refused(
        1, tmp_path, "inventory", "--cluster", "east", "--output-file", "inventory/east.json"
    )


def test_a_first_inventory_is_taken_for_a_cluster_of_a_policy(tmp_path: Path, piped: Callable[[str], None]) -> None:
    project.write(tmp_path, {"policies/tls.yaml": fleet.POLICY, "policies/west.yaml": fleet.CLUSTER})
    piped(fleet.listed())

    assert in_process.kae(tmp_path, "inventory", "--cluster", "east").code == 0


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("ignoreLabels: [po*]", "8:20: error[ignored-label]: 'po*' keeps 1 label"),
        ("inventory: {labels: [openfuyao.com/]}", "8:25: error[ignored-label]: The list of labels keeps 1 label"),
    ],
)
@pytest.mark.parametrize("live", [False, True])
def test_no_inventory_is_taken_without_a_label_that_decides(
    setting: str, said: str, tmp_path: Path, piped: Callable[[str], None], *, live: bool
) -> None:
    selecting = fleet.REST.replace("default: true", "nodeSelector: {matchLabels: {pool: db}}")
    project.write(tmp_path, {"policies/east.yaml": watching(setting), "policies/rest.yaml": selecting})
    piped(fleet.listed())

    answer = taken(tmp_path, *(KUBECONFIG if live else ()))

    assert (answer.code, answer.out) == (1, "")
    assert f"policies/east.yaml:{said}" in answer.err
    assert "note: A selector uses 'pool' at policies/rest.yaml:6:32." in answer.err


def test_of_many_uses_of_a_label_the_first_five_are_shown(tmp_path: Path, piped: Callable[[str], None]) -> None:
    uses = "\n      - ".join(["    matchExpressions:", *["{key: pool, operator: Exists}"] * 6])
    selecting = fleet.REST.replace("default: true", f"nodeSelector:\n{uses}")
    project.write(tmp_path, {"policies/east.yaml": watching("ignoreLabels: [po*]"), "policies/rest.yaml": selecting})
    piped(fleet.listed())

    said = taken(tmp_path).err
    assert said.count("note: A selector uses 'pool' at policies/rest.yaml:") == 5
    assert "note: 1 more use of such labels." in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "kae: standard input is empty: the command before the pipe printed nothing.\nhint: Run: kubectl"),
        (" \n", "standard input is empty"),
        (fleet.POLICY, "one list of nodes"),
        (f"{fleet.listed()}\n---\n{fleet.listed()}".replace("{", " {", 1), "stdin.json"),
        (canonical_form.text(builders.reduced()).replace('"east"', '"west"'), "of cluster 'west', not of 'east'"),
        ("The connection to the server localhost:8080 was refused\n", "stdin.yaml:1:1: error"),
        ('{"kind":', "stdin.json:1:9: error[json-syntax]"),
        (fleet.listed((fleet.NODES[0], fleet.NODES[0])), "error[duplicate-node]"),
        ('{"apiVersion": "v1", "kind": "List", "items": [{"kind": "Pod"}]}', "holds a list of Pods, not of Nodes."),
        ('{"apiVersion": "v1", "kind": "PodList", "items": []}', "holds a list of Pods, not of Nodes."),
    ],
)
def test_what_is_no_list_of_nodes_prints_nothing_and_says_why(
    text: str, words: str, tmp_path: Path, piped: Callable[[str], None]
) -> None:
    piped(text)

    assert words in refused(1, tmp_path, "inventory", "--cluster", "east")


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, piped: Callable[[str], None]) -> None:
    path = tmp_path / "inventory/east.json"
    project.write(tmp_path, {"inventory/east.json": "before\n"})
    path.chmod(0o640)
    call = ("inventory", "--cluster", "east", "--output-file", "inventory/east.json")

    for wrong in ("", fleet.POLICY, fleet.listed((fleet.NODES[0], fleet.NODES[0]))):
        piped(wrong)
        assert in_process.kae(tmp_path, *call).code == 1
        assert project.tree(tmp_path) == {"inventory/east.json": b"before\n"}
    piped(fleet.listed())
    answer = in_process.kae(tmp_path, *call)

    assert (answer.code, answer.out, answer.err) == (0, f"inventory/east.json: {len(fleet.NODES)} nodes\n", "")
    assert path.read_text() == CANONICAL
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(project.tree(tmp_path)) == ["inventory/east.json"]


def test_a_new_file_has_the_mode_of_any_new_file(tmp_path: Path, piped: Callable[[str], None]) -> None:
    (tmp_path / "usual").touch()
    piped(fleet.listed())

    in_process.kae(tmp_path, "inventory", "--cluster", "east", "--output-file", "east.json")

    assert (tmp_path / "east.json").stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.parametrize("file", ["nowhere/east.json", ".", "/dev/full"])
def test_a_file_that_cannot_be_written_ends_with_3(file: str, tmp_path: Path, piped: Callable[[str], None]) -> None:
    piped(fleet.listed())

    assert refused(3, tmp_path, "inventory", "--cluster", "east", "--output-file", file).startswith(f"kae: '{file}' ")


@pytest.mark.parametrize("name", ["East", "a/b", "..", ""])
def test_a_cluster_has_a_name_that_its_file_can_have(name: str, tmp_path: Path, piped: Callable[[str], None]) -> None:
    piped(fleet.listed())

    assert "argument --cluster: " in refused(2, tmp_path, "inventory", "--cluster", name)


def test_at_a_terminal_the_cluster_of_kubectl_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(io.BytesIO()))
    monkeypatch.setenv("KUBECONFIG", "nowhere")

    assert "'nowhere' does not exist" in refused(3, tmp_path, "inventory", "--cluster", "east")


def test_a_live_cluster_gives_what_kubectls_answer_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "PAGE", 4)

    assert taken(tmp_path, *KUBECONFIG) == in_process.Answer(0, CANONICAL, "")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--kubeconfig", "nowhere"), "'nowhere' cannot be read"),
        ((*KUBECONFIG, "--context", "other"), "Its contexts are bare, test."),
    ],
)
def test_a_cluster_that_cannot_be_asked_prints_nothing_and_says_why(
    more: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    answer = taken(tmp_path, *more)

    assert (answer.code, answer.out) == (3, "")
    assert words in answer.err


def test_a_list_that_breaks_off_prints_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "PAGE", 4)
    with apiserver.serving(tmp_path) as server:
        server.put(*fleet.NODES)
        server.state.when_asked = lambda _: server.state.forbidden.update(
            ["list nodes"] if server.state.requests[1:] else []
        )
        said = refused(3, tmp_path, "inventory", "--cluster", "east", *KUBECONFIG)

    assert "did not list nodes, as the credentials do not allow it (403): " in said


def test_a_file_of_another_cluster_is_not_replaced(tmp_path: Path, piped: Callable[[str], None]) -> None:
    project.write(tmp_path, {"inventory/east.json": "before\n"})
    piped(fleet.listed())

    said = "'inventory/east.json' is not named after cluster 'west'.\nhint: Write --output-file inventory/west.json.\n"
    assert said in refused(2, tmp_path, "inventory", "--cluster", "west", "--output-file", "inventory/east.json")
    assert project.tree(tmp_path) == {"inventory/east.json": b"before\n"}


def test_every_command_reads_a_list_as_a_compile_does(tmp_path: Path, piped: Callable[[str], None]) -> None:
    folder = fleet.small(tmp_path)
    node = fleet.NODES[0] | {"spec": {}}  # The API server prints no empty list of taints.
    odd = fleet.listed((node,)).replace('"bootID": "a-boot"', '"bootID": "a-boot", "bootID": ""')
    project.write(folder, {"inventory/east.json": odd})
    revisions.commit(folder)
    policy = folder / "policies/tls.yaml"
    policy.write_text(policy.read_text().replace("2.2.0", "2.3.0"))
    piped(odd)

    calls = (("compile",), ("plan",), ("explain", "east/kp920-01"), ("diff",), ("inventory", "--cluster", "east"))
    assert odd.count("bootID") == 2
    assert [in_process.kae(folder, *call).code for call in calls] == [0, 0, 0, 0, 0]
    assert "1 node of policy tls goes from driver 2.2.0 to 2.3.0" in in_process.kae(folder, "diff").out
