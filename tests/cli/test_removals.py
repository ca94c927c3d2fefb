"""`kae compile` says what it takes away from a cluster, and stops until a person accepts it."""

import errno
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compiler.output import write
from tests import builders, in_process, project, revisions
from tests.cli import fleet, removals

Edit = Callable[[Path], object]

GONE = ("removes-drivers:east/tls",)


def deleted(*names: str) -> Edit:
    """Delete policies."""

    def delete(folder: Path) -> None:
        for name in names:
            (folder / f"policies/{name}.yaml").unlink()

    return delete


def edited(name: str, text: str) -> Edit:
    """Write a policy anew."""
    return lambda folder: project.write(folder, {f"policies/{name}.yaml": text})


def inventoried(*nodes: object) -> Edit:
    """Write the inventory of east anew; without nodes as an empty file."""
    return lambda folder: project.write(folder, {"inventory/east.json": fleet.listed(nodes) if nodes else ""})


def lonely(folder: Path) -> None:
    """Leave a project without any KAECluster, and without the output of west."""
    deleted("east", "west")(folder)
    shutil.rmtree(folder / "output/west")


def undeclared(folder: Path) -> None:
    """Leave of cluster east its output alone."""
    edited("tls", removals.TLS.replace("  clusters: [east]\n", ""))(folder)
    deleted("east")(folder)
    (folder / "inventory/east.json").unlink()


def in_conflict(text: str) -> str:
    """Return a file whose image two branches changed."""
    return re.sub(r"(.*image: .*\n)", r"<<<<<<< ours\n\1=======\n\1>>>>>>> theirs\n", text)


def deleted_in_conflict(folder: Path) -> None:
    """Delete a policy whose drivers a merge left in conflict."""
    for path in (folder / "output/east/driver").glob("daemonset-*.yaml"):
        path.write_text(in_conflict(path.read_text()))
    deleted("tls")(folder)


def drained(enabled: str) -> str:
    """Return the policy tls, whose driver says whether it drains."""
    return removals.TLS.replace("version: 2.2.0\n", f"version: 2.2.0\n    drain: {{enabled: {enabled}}}\n")


TSL = removals.TLS.replace("pool: tls", "pool: tsl")
DEFAULT_NAMESPACE = removals.EAST.replace("  namespace: kae-prod\n", "")
UNGUARDED = "\n".join(removals.EAST.splitlines()[:5]) + "\n  namespace: kae-prod\n"
UNLABELLED = f"{removals.EAST}  nfd:\n    enabled: false\n    nodefeaturerules: false\n"

# By name: the edit, and the scopes that accept what it takes away. An error of documents has no scope.
CASES: Mapping[str, tuple[Edit, tuple[str, ...]]] = {
    "cluster deleted": (deleted("east"), ()),
    "cluster mistyped": (edited("east", removals.EAST.replace(": east", ": eats")), ()),
    "only cluster deleted": (lonely, ()),
    "cluster without namespace": (edited("east", DEFAULT_NAMESPACE), ("moves-namespace:east",)),
    "cluster without engine": (edited("east", UNGUARDED), ("drops-protection:east",)),
    "inventory of no bytes": (inventoried(), ("inventory-empty:east", "thaws-nodes:east")),
    "policy in an unknown cluster": (edited("tls", removals.TLS.replace("[east]", "[eats]")), ()),
    "policy in another cluster": (edited("tls", removals.TLS.replace("[east]", "[west]")), GONE),
    "policy emptied": (edited("tls", ""), GONE),
    "policy deleted": (deleted("tls"), GONE),
    "selector mistyped": (edited("tls", TSL), GONE),
    "frozen label lost": (inventoried(*removals.without_label(8, "rack")), ("thaws-nodes:east/tls",)),
    "frozen node lost": (inventoried(*removals.NODES[:7], *removals.NODES[8:]), ("thaws-nodes:east/tls",)),
    "rules that label devices": (edited("east", UNLABELLED), ()),
    "output that nobody declares": (undeclared, ("removes-drivers:east", "removes-device-plugins:east")),
    "output in conflict": (deleted_in_conflict, GONE),
}
ACCEPTABLE = sorted(name for name, (_, scopes) in CASES.items() if scopes)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fleet, compiled; nobody changes it."""
    return removals.compiled(tmp_path_factory.mktemp("base") / "fleet")


@pytest.fixture
def folder(base: Path, tmp_path: Path) -> Path:
    """The fleet, compiled."""
    return shutil.copytree(base, tmp_path / "fleet")


def compiling(folder: Path, *scopes: str, cached: bool = False) -> in_process.Answer:
    """Compile, accepting scopes."""
    accepts = [part for scope in scopes for part in ("--accept", scope)]
    return in_process.kae(folder, "compile", *accepts, *(() if cached else ("--no-cache",)))


@pytest.mark.parametrize("name", CASES)
def test_what_goes_by_mistake_is_said_and_nothing_written(name: str, folder: Path, snapshot: SnapshotAssertion) -> None:
    CASES[name][0](folder)
    before = project.tree(folder / "output")

    answer = compiling(folder)

    assert (answer.code, answer.out, project.tree(folder / "output")) == (1, "", before)
    assert answer.err == snapshot


@pytest.mark.parametrize("name", ACCEPTABLE)
def test_what_a_person_accepts_is_compiled(name: str, folder: Path) -> None:
    edit, scopes = CASES[name]
    edit(folder)

    assert compiling(folder, *scopes).code == 0

    # An inventory of no bytes is accepted at each compile, until it is restored or deleted.
    if name == "inventory of no bytes":
        (folder / "inventory/east.json").unlink()
    assert compiling(folder).code == 0
    assert in_process.kae(folder, "compile", "--check", "--no-cache").code == 0


@pytest.mark.long
@pytest.mark.parametrize("name", ACCEPTABLE)
def test_each_removal_of_several_is_accepted_by_itself(name: str, folder: Path) -> None:
    edit, scopes = CASES[name]
    edit(folder)

    for left_out in scopes:
        answer = compiling(folder, *(scope for scope in scopes if scope != left_out))
        assert answer.code == 1
        assert f"error[{left_out.partition(':')[0]}]" in answer.err


@pytest.mark.parametrize(
    ("scope", "code"),
    [
        ("removes-drivers", 0),
        ("removes-drivers:east", 0),
        ("removes-drivers:east/tls", 0),
        ("removes-drivers:west", 1),
        ("removes-drivers:east/rest", 1),
        ("removes-drivers:west/tls", 1),
        ("removes-device-plugins", 1),
    ],
)
def test_a_scope_is_as_wide_as_it_says(scope: str, code: int, folder: Path) -> None:
    deleted("tls")(folder)
    before = project.tree(folder / "output")

    answer = compiling(folder, scope, "thaws-nodes")

    assert (answer.code, "error[removes-drivers]" in answer.err) == (code, code == 1)
    assert (project.tree(folder / "output") == before) is (code == 1)


def test_an_unknown_code_is_a_wrong_call_with_the_nearest_one(folder: Path) -> None:
    answer = compiling(folder, "remove-drivers:east")

    assert (answer.code, "did you mean 'removes-drivers'" in answer.err) == (2, True)


BY_NAMES = removals.TLS.replace(
    "          inventorySelector:\n            matchLabels:\n              rack: r3\n",
    "          nodes: [kp-07, kp-08]\n",
)
MIRRORS = "  images:\n    mirrors:\n      - {from: cr.openfuyao.cn, to: registry.example.com}\n"


@pytest.mark.parametrize(
    ("before", "edit"),
    [
        (None, edited("tls", removals.TLS.replace("rack: r3", "rack: r4"))),
        (None, edited("east", f"{removals.EAST}{MIRRORS}")),
        (BY_NAMES, inventoried(*removals.without_label(7, "rack")[:7], *removals.NODES[8:])),
    ],
    ids=["an edited entry", "a mirror", "an entry of names in any inventory"],
)
def test_nobody_is_asked_of_a_thaw_that_is_none_or_written_down(before: str | None, edit: Edit, folder: Path) -> None:
    if before:
        edited("tls", before)(folder)
        assert compiling(folder).code == 0
    edit(folder)

    answer = compiling(folder)

    assert answer.code == 0
    assert "thaws-nodes" not in answer.err


WITHOUT_ONE = """\
matchExpressions:
      - {key: pool, operator: In, values: [tls]}
      - {key: kubernetes.io/hostname, operator: NotIn, values: [kp-03]}"""
ONE_NODE = "rollout:\n      waves: [{name: canary, nodes: [kp-01], version: 2.3.0}]\n"


def renamed(folder: Path) -> None:
    """Give a policy another name."""
    deleted("tls")(folder)
    edited("kunpeng", removals.TLS.replace("name: tls", "name: kunpeng"))(folder)


def waved(*taints: Mapping[str, str], **deploy: str) -> Edit:
    """Give a wave to one node, which gets no driver."""
    node = removals.node(1, **deploy)
    node["spec"]["taints"] = list(taints)

    def edit(folder: Path) -> None:
        edited("tls", removals.TLS.replace("rollout:\n", ONE_NODE))(folder)
        inventoried(node, *removals.NODES[1:])(folder)

    return edit


ALLOWED: Mapping[str, Edit] = {
    "policy renamed": renamed,
    "one node": edited("tls", removals.TLS.replace("matchLabels:\n      pool: tls", WITHOUT_ONE)),
    "wave of a node that has opted out": waved(driver="false"),
    "wave of a tainted node": waved({"key": "dedicated", "value": "db", "effect": "NoSchedule"}),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_what_goes_with_less_is_compiled_with_at_most_a_warning(
    name: str, folder: Path, snapshot: SnapshotAssertion
) -> None:
    ALLOWED[name](folder)

    answer = compiling(folder)

    assert answer.code == 0
    assert answer.err == snapshot


def test_a_selector_that_matches_nothing_beside_a_default_policy_is_a_warning(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    answer = compiling(removals.compiled(tmp_path / "fleet", tls=TSL))

    assert answer.code == 0
    assert answer.err == snapshot


def cleaning(folder: Path, *, state: str = "Present") -> str:
    """Compile a policy without groups whose installers clean up; return its text."""
    driver = f"version: 2.2.0\n    enabledCleanup: true\n    state: {state}"
    text = fleet.REST.replace("enabled: false", driver)
    edited("rest", text)(folder)
    assert compiling(folder).code == 0
    return text


def test_a_driver_that_its_installers_remove_is_not_left_behind(folder: Path) -> None:
    cleaning(folder)
    deleted("rest")(folder)

    asked = compiling(folder)
    answer = compiling(folder, "removes-drivers", "removes-device-plugins")

    assert "its installers remove the driver from the hosts" in asked.err
    assert (answer.code, "driver-left-behind" in answer.err) == (0, False)


@pytest.mark.parametrize("state", ["Present", "Absent"])
def test_a_cleanup_refuses_another_namespace_whatever_is_accepted(state: str, folder: Path) -> None:
    text = cleaning(folder, state=state)
    edited("east", DEFAULT_NAMESPACE)(folder)

    refused = compiling(folder, "moves-namespace", "moves-with-cleanup")
    edited("rest", text.replace("Cleanup: true", "Cleanup: false"))(folder)
    too_soon = compiling(folder, "moves-namespace")

    assert refused.code == 2
    assert (too_soon.code, "error[moves-with-cleanup]" in too_soon.err) == (1, True)


def test_without_a_cleanup_for_a_while_a_namespace_can_change(folder: Path) -> None:
    edited("rest", cleaning(folder).replace("Cleanup: true", "Cleanup: false"))(folder)
    assert compiling(folder).code == 0
    edited("east", DEFAULT_NAMESPACE)(folder)

    assert compiling(folder, "moves-namespace").code == 0


def test_a_driver_that_becomes_absent_is_a_warning(folder: Path, snapshot: SnapshotAssertion) -> None:
    edited("tls", removals.TLS.replace("version: 2.2.0", "version: 2.2.0\n    state: Absent"))(folder)
    assert "error[thaws-nodes]: 2 nodes" in compiling(folder).err  # The frozen entry has no state of its own.

    answer = compiling(folder, "thaws-nodes")

    assert answer.code == 0
    assert answer.err == snapshot


def test_the_guard_goes_by_a_stated_release_alone(tmp_path: Path) -> None:
    east = removals.EAST.replace('  kubernetesVersion: "1.31"\n', "")
    folder = removals.compiled(tmp_path, east=east, tls=drained("true"))
    guard = folder / "output/east/guard"
    old = json.loads(json.dumps(removals.NODES).replace("v1.31.4", "v1.29.9"))

    inventoried(*old)(folder)
    asked = compiling(folder)
    project.write(folder, {"kae.yaml": "findings: {kubernetes-version-unstated: warning}\n"})
    lowered = compiling(folder)
    kept = guard.exists()
    edited("east", east.replace("spec:", 'spec:\n  kubernetesVersion: "1.29"'))(folder)
    refused = compiling(folder)
    accepted = compiling(folder, "removes-guard:east")

    assert (asked.code, _errors(asked)) == (1, {"error[kubernetes-version-unstated]"})
    assert (lowered.code, kept) == (0, True), lowered.err
    assert (refused.code, _errors(refused)) == (1, {"error[removes-guard]"})
    assert (accepted.code, guard.exists()) == (0, False)
    assert compiling(folder).code == 0


def test_a_guard_that_nothing_needs_any_more_goes_without_being_asked(folder: Path) -> None:
    edited("tls", drained("false"))(folder)

    assert compiling(folder).code == 0
    assert not (folder / "output/east/guard").exists()


@pytest.mark.parametrize("output", ["output", "out[1]"])
def test_an_output_that_git_has_but_the_disk_has_not_stops_the_compile(output: str, folder: Path) -> None:
    project.write(folder, {"kae.yaml": f'output: "{output}"\n'})
    assert compiling(folder).code == 0
    revisions.commit(folder)
    shutil.rmtree(folder / output / "east")
    deleted("tls")(folder)

    answer = compiling(folder)

    assert answer.code == 1
    assert f"error[output-unreadable]: '{output}/east' is in git but not on the disk" in answer.err
    assert not (folder / output / "east").exists()

    revisions.git(folder, "--literal-pathspecs", "rm", "-r", "--quiet", "--cached", f"{output}/east")
    assert compiling(folder).code == 0


@pytest.mark.parametrize("output", ["output", "out [1]"])
@pytest.mark.parametrize("cluster", ["", "/east", "/east/index.json"])
def test_a_deleted_output_names_the_one_command_that_leads_out(cluster: str, output: str, folder: Path) -> None:
    project.write(folder, {"kae.yaml": f'output: "{output}"\n'})
    assert compiling(folder).code == 0
    revisions.commit(folder)
    path = folder / f"{output}{cluster}"
    shutil.rmtree(path) if path.is_dir() else path.unlink()

    answer = compiling(folder)

    assert answer.code == 1
    assert answer.err.count("error[") == 1
    assert f"'{output}{cluster}' is in git but not on the disk" in answer.err
    (command,) = re.findall("Restore it by `([^`]+)`", answer.err)
    subprocess.run(("sh", "-c", command), cwd=folder, check=True)
    assert compiling(folder).code == 0
    assert not revisions.git(folder, "status", "--porcelain")


@pytest.mark.parametrize("content", ["", " \n"])
def test_a_check_remembers_nothing_of_an_empty_inventory(content: str, folder: Path) -> None:
    (folder / "inventory/east.json").write_text(content)
    assert compiling(folder, "inventory-empty", "thaws-nodes", cached=True).code == 0

    assert in_process.kae(folder, "compile", "--check").code == 0
    assert compiling(folder, cached=True).code == 1


def index(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Edit the index of east."""
    path = folder / "output/east/index.json"
    data = json.loads(path.read_text())
    edit(data)
    path.write_text(json.dumps(data))


def as_version_1(data: dict[str, Any]) -> None:
    data |= {"version": 1, "files": dict.fromkeys(data["files"], "0" * 64)}
    for key in ("declared", "frozen", "hasNodes", "workloads"):
        del data[key]


def as_first_of_version_2(data: dict[str, Any]) -> None:
    del data["declared"], data["frozen"]


@pytest.mark.parametrize("older", [as_version_1, pytest.param(as_first_of_version_2, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "name",
    ["policy deleted", "cluster without namespace", "cluster without engine", "frozen label lost", "frozen node lost"],
)
def test_an_index_of_an_earlier_release_is_compared_too(
    older: Callable[[dict[str, Any]], object], name: str, folder: Path
) -> None:
    edit, scopes = CASES[name]
    index(folder, older)
    edit(folder)

    answer = compiling(folder)

    assert answer.code == 1
    assert f"error[{scopes[0].partition(':')[0]}]" in answer.err


def untold(data: dict[str, Any]) -> None:
    data["workloads"] = []


def said_to_be_absent(data: dict[str, Any]) -> None:
    for item in data["workloads"]:
        item["state"] = "Absent"


@pytest.mark.parametrize("harm", [untold, said_to_be_absent])
@pytest.mark.parametrize("documents", [("tls",), ("tls", "rest", "east")], ids=["policy", "cluster"])
def test_an_index_that_was_edited_hides_no_removal(
    harm: Callable[[dict[str, Any]], object], documents: tuple[str, ...], folder: Path
) -> None:
    deleted(*documents)(folder)
    if "east" in documents:
        (folder / "inventory/east.json").unlink()
    asked = compiling(folder)
    index(folder, harm)

    answer = compiling(folder)

    assert "error[removes-drivers]: The driver of policy 'tls' " in asked.err
    assert (answer.code, answer.err) == (1, asked.err)


@pytest.mark.parametrize("documents", [("tls",), ("tls", "rest", "east")], ids=["policy", "cluster"])
def test_a_daemon_set_whose_policy_nothing_tells_is_unreadable(documents: tuple[str, ...], folder: Path) -> None:
    index(folder, untold)
    deleted(*documents)(folder)
    if "east" in documents:
        (folder / "inventory/east.json").unlink()
    (path,) = (folder / "output/east/driver").glob("daemonset-*-tls--rest.yaml")
    path.write_text(path.read_text().replace('"policy": "tls",', ""))

    answer = compiling(folder, "removes-drivers", "removes-device-plugins")

    assert answer.code == 1
    assert f"error[output-unreadable]: 'output/east/driver/{path.name}' is missing or damaged" in answer.err


def test_marks_of_a_merge_conflict_alone_are_repaired(folder: Path) -> None:
    before = project.tree(folder / "output")
    path = next((folder / "output/east/driver").glob("daemonset-*.yaml"))
    path.write_text(in_conflict(path.read_text()))

    assert compiling(folder).code == 0

    assert project.tree(folder / "output") == before


def test_a_check_has_nothing_to_ask(folder: Path) -> None:
    deleted("tls")(folder)

    answer = in_process.kae(folder, "compile", "--check", "--no-cache")

    assert (answer.code, "error" in answer.err) == (4, False)


def test_a_refused_removal_is_refused_again_from_the_cache(folder: Path) -> None:
    assert compiling(folder, cached=True).code == 0
    deleted("tls")(folder)

    first, *more = [compiling(folder, cached=True) for _ in range(3)]

    assert (first.code, more) == (1, [first] * 2)


def test_an_accepted_removal_is_not_asked_for_again(folder: Path) -> None:
    assert compiling(folder, cached=True).code == 0
    deleted("tls")(folder)

    assert compiling(folder, *GONE, cached=True).code == 0

    assert [compiling(folder, cached=flag).code for flag in (True, True, False)] == [0, 0, 0]
    assert in_process.kae(folder, "compile", "--check").code == 0


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return what lets the deletion of files fail after a number of them, and -1 lets all succeed."""
    remove = write.Disk.remove
    left = [-1]

    def failing(disk: write.Disk, path: Path) -> None:
        if left[0] == 0:
            raise OSError(errno.EIO, "Input/output error", str(path))
        left[0] -= 1
        remove(disk, path)

    def set_left(count: int) -> None:
        left[0] = count

    monkeypatch.setattr(write.Disk, "remove", failing)
    return set_left


@pytest.mark.parametrize(
    "deleted_files", [2, *(pytest.param(count, marks=pytest.mark.long) for count in (0, 1, 3, 4, 5))]
)
def test_an_accepted_removal_that_was_interrupted_needs_no_other_scope(
    deleted_files: int, folder: Path, full_disk: Callable[[int], None]
) -> None:
    deleted("tls")(folder)
    full_disk(deleted_files)
    assert compiling(folder, *GONE).code == 3
    full_disk(-1)

    again = compiling(folder)

    assert again.code == 0 or {"error[removes-drivers]", "error[thaws-nodes]"} >= _errors(again)
    assert compiling(folder, *GONE).code == 0
    assert in_process.kae(folder, "compile", "--check", "--no-cache").code == 0


def _errors(answer: in_process.Answer) -> set[str]:
    return set(re.findall(r"error\[[a-z-]+\]", answer.err))


def test_marks_in_a_frozen_daemonset_hide_no_thaw(folder: Path) -> None:
    path = folder / "output/east/driver/daemonset-kae-driver-tls--sick.yaml"
    path.write_text(in_conflict(path.read_text()))
    CASES["frozen label lost"][0](folder)

    assert "error[thaws-nodes]" in compiling(folder).err


def test_a_wave_of_few_percent_takes_a_node_that_the_driver_runs_on(folder: Path) -> None:
    nodes = [removals.node(number, driver="true" if number == 5 else "false") for number in range(1, 9)]
    wave = "rollout:\n      waves: [{name: canary, percent: 5, version: 2.3.0}]\n"
    edited("tls", removals.TLS.replace("rollout:\n", wave))(folder)
    inventoried(*nodes)(folder)

    assert compiling(folder).code == 0

    planned = json.loads(in_process.kae(folder, "plan", "--cluster", "east", "-o", "json").out)["clusters"][0]["nodes"]
    driven = {node["name"]: node["driver"].rpartition(":")[2] for node in planned if node["driver"]}
    assert driven == {"kp-05": "2.3.0"}


def test_a_mistake_in_the_inventory_of_a_cluster_without_a_document_takes_nothing_away(tmp_path: Path) -> None:
    policy = {"driver": {"version": "2.2.0"}, "devicePlugin": {"version": "1.4.1"}}
    data = json.dumps(builders.raw("KAEPolicy", "tls", policy))
    inventory = (Path(__file__).resolve().parents[2] / "inventory/east.json").read_text()
    project.write(tmp_path, {"policies/tls.yaml": data, "inventory/east.json": inventory})
    assert in_process.kae(tmp_path, "compile").code == 0
    project.write(tmp_path, {"inventory/east.json": inventory.replace("NodeInventory", "NodeInventori", 1)})

    answer = in_process.kae(tmp_path, "compile")

    assert answer.code == 1
    assert "removes-" not in answer.err


@pytest.fixture
def going(tmp_path: Path) -> Path:
    """A committed project of which a cluster, with a policy that cleans up, is then no longer declared."""
    policy = fleet.POLICY.replace("    version: 2.2.0\n", "    version: 2.2.0\n    enabledCleanup: true\n", 1)
    policy = policy.replace("  clusters: [east]\n", "")
    files = {"policies/tls.yaml": policy, "policies/rest.yaml": fleet.REST, "policies/east.yaml": removals.EAST}
    project.write(tmp_path, {**files, "policies/west.yaml": fleet.CLUSTER, "inventory/east.json": fleet.listed()})
    assert in_process.kae(tmp_path, "compile").code == 0
    revisions.commit(tmp_path)
    (tmp_path / "policies/east.yaml").unlink()
    (tmp_path / "inventory/east.json").unlink()
    return tmp_path


def test_a_cluster_that_goes_with_a_cleanup_says_what_is_left(going: Path) -> None:
    said = in_process.kae(going, "compile").err

    drivers = said[said.index("[removes-drivers]") :]
    assert "It has driver.enabledCleanup: its installers remove the driver from the hosts" in drivers
    assert "stays on the hosts" not in drivers
    left = said[said.index("Marked to stay in the cluster: ") :].partition("\n")[0]
    for kept in ("Namespace kae-prod", "ServiceAccount kae-prod/kae-driver-tls", "CustomResourceDefinition"):
        assert kept in left


def test_diff_says_of_a_cluster_that_goes_who_deletes_and_what_is_left(going: Path) -> None:
    said = in_process.kae(going, "diff").out

    assert "deletes nothing by itself; what makes an Application of each folder, such as an ApplicationSet" in said
    assert "What is told of the cluster comes true when its objects are deleted." in said
    assert "of them in the cluster: CustomResourceDefinition" in said
    assert "Namespace kae-prod" in said
