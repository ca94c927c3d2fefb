"""`kae simulate`: how the rollout of a change goes, before it is applied."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests import builders, in_process, project, revisions
from tests.cli import diffs, fleet
from tests.cli.answers import refused, told

PAGE = Path(__file__).parents[2] / "docs/foresight.md"
HALF = ("percent: 50\n          version: 2.2.0", "percent: 50\n          version: 2.3.0")
VERSION = "          version: 2.3.0\n"
HPRE = "openfuyao.com/kae.hpre"
STEPS = {"store-driver": 5, "drain-devices": 10, "begin-change": 1, "load-modules": 8, "end-change": 1}


@pytest.fixture
def half(rollout: Path) -> Path:
    """The example of docs/rollouts.md, with an edit that has half of its nodes swap their driver."""
    diffs.edit(rollout, HALF)
    return rollout


def answer(folder: Path, *arguments: str) -> Any:
    return json.loads(told(folder, "simulate", "-o", "json", *arguments))


def cluster(folder: Path, *arguments: str) -> Any:
    (found,) = answer(folder, *arguments)["clusters"]
    return found


def metrics(folder: Path, *, failed: int = 0) -> str:
    lines = [f'kae_driver_step_seconds{{node="a",step="{step}"}} {seconds}' for step, seconds in STEPS.items()]
    lines.append(f'kae_driver_changes_total{{node="a",result="failed"}} {failed}')
    lines.append('kae_driver_changes_total{node="a",result="succeeded"} 9')
    (folder / "metrics.txt").write_text("\n".join(lines))
    return "metrics.txt"


def pods(folder: Path, *nodes: str, allowed: int | None = None, count: int = 1, resource: str = HPRE) -> str:
    """Write a snapshot with pods on these nodes, and their budget if it allows so many evictions."""
    items: list[Any] = [
        {
            "kind": "Pod",
            "metadata": {"namespace": "shop", "name": f"web-{node}-{number}", "labels": {"app": "web"}},
            "spec": {"nodeName": node, "containers": [{"resources": {"limits": {resource: "1"}}}]},
            "status": {"phase": "Running"},
        }
        for node in nodes
        for number in range(count)
    ]
    if allowed is not None:
        items.append(
            {
                "kind": "PodDisruptionBudget",
                "metadata": {"namespace": "shop", "name": "web"},
                "spec": {"selector": {"matchLabels": {"app": "web"}}},
                "status": {"disruptionsAllowed": allowed},
            }
        )
    (folder / "pods.json").write_text(json.dumps({"kind": "List", "items": items}))
    return "pods.json"


RECIPE = {
    "title": "OpenOnload",
    "match": {"pci": [{"kind": "sfc", "vendor": "1924", "classes": ["0200"]}]},
    "images": {
        "installer": {"repository": "r.example.com", "image": "installer", "version": "1.0.0"},
        "plugin": {"repository": "r.example.com", "image": "kae-device-plugin", "version": "1.0.0"},
        "modules": {"repository": "r.example.com", "image": "onload-module", "version": "8.0"},
    },
    "driver": {
        "image": "installer",
        "version": "modules",
        "payloads": [{"image": "modules", "paths": ["/opt/lib/modules"]}],
        "modules": [{"name": "onload"}],
    },
    "devicePlugin": {"image": "plugin", "resources": [{"name": "amd.com/onload", "class": "token", "count": 40}]},
}


def desk(version: str) -> str:
    spec = {"recipe": "onload", "nodeSelector": {"matchLabels": {"desk": "trading"}}}
    return json.dumps(builders.raw("DevicePolicy", "desk", {**spec, "images": {"modules": {"version": version}}}))


def sfc_node(number: int) -> Any:
    labels = {"openfuyao.com/onload.present": "true", "openfuyao.com/onload.sfc.present": "true", "desk": "trading"}
    return builders.kubernetes_node(f"t-{number}", labels)


def swapping(folder: Path) -> list[str]:
    (effect,) = diffs.data(folder)["effects"]
    return list(effect["nodes"])


def test_the_answer_on_the_page_is_the_beginning_of_that_of_the_example(half: Path) -> None:
    begin, _, _ = told(half, "simulate").partition("\nof 20 runs")

    assert f"```text\n{begin}```" in PAGE.read_text()


def test_a_change_of_nothing_starts_no_rollout(rollout: Path) -> None:
    assert told(rollout, "simulate") == "The change replaces no pod of a DaemonSet, so there is no rollout.\n"
    assert answer(rollout)["clusters"] == []
    assert told(rollout, "simulate", "-o", "markdown").startswith("The change replaces no pod")


def test_a_change_of_the_device_plugin_swaps_no_driver_and_evicts_nobody(rollout: Path) -> None:
    diffs.change(rollout, "plugin version")

    assert "cluster east: no driver changes; 24 pods come or are replaced\n" in told(rollout, "simulate")
    assert "No driver changes, so no device is withdrawn" in told(rollout, "simulate", "-o", "markdown")
    found = cluster(rollout)
    assert (found["hosts"], found["pods"], found["evictions"]["most"], found["hostsAway"]["most"]) == (0, 24, 0, 0)
    assert found["end"]["p50Seconds"] > 0


def test_hosts_away_are_as_many_as_leases(half: Path) -> None:
    assert cluster(half)["hostsAway"]["most"] == 2


EMPTY = {"apiVersion": "v1", "kind": "List", "items": []}


def test_idle_hosts_of_a_new_wave_change_at_once_where_those_of_a_bump_do_not(rollout: Path) -> None:
    """`kae diff`, the comment and the simulation say what an empty snapshot of pods shows."""
    project.write(rollout, {"empty.json": json.dumps(EMPTY)})

    def said(version: tuple[str, str]) -> tuple[int, int, str, str]:
        diffs.edit(rollout, version)
        away, idle = (cluster(rollout, *more) for more in ((), ("--pods", "empty.json", "--failure-rate", "1")))
        comment = told(rollout, "diff", "-o", "markdown")
        return (
            away["hostsAwayIfIdle"],
            sum(each["hosts"] for each in idle["halts"] if each["cause"] == "failed"),
            comment,
            told(rollout, "simulate"),
        )

    wave = "        - name: half\n"
    most, failed, comment, text = said((wave, f"        - name: new\n          percent: 49\n{VERSION}{wave}"))
    assert (most, failed) == (12, 12)
    assert "2 hosts at a time; hosts without such pods change all at once. |" in comment
    assert "in use: where devices are unused, up to 12 hosts at once are without them." in comment
    assert "  where devices are unused: up to 12 hosts without devices at once\n" in text

    diffs.edit(rollout, (f"        - name: new\n          percent: 49\n{VERSION}", ""))
    most, failed, comment, text = said(HALF)
    assert (most, failed) == (2, 2)
    assert "2 hosts at a time; hosts without such pods change as maxUnavailable allows. |" in comment
    assert "where devices are unused" not in comment + text


@pytest.mark.parametrize("waves", [diffs.WAVES, ""], ids=["groups", "by examples"])
def test_hosts_that_have_what_they_get_by_their_labels_are_done(rollout: Path, waves: str) -> None:
    """A rollout to all nodes has come half way, and goes back."""
    diffs.edit(rollout, (diffs.WAVES, waves))
    text = (rollout / "policies/tls.yaml").read_text()
    project.write(rollout, {"policies/tls.yaml": text.replace("2.2.0", "2.3.0")})
    given = (rollout / "inventory/east.json").read_text()
    for state, rack in (("Ready", "rack1"), ("Failed", "rack2")):
        labels = f'"openfuyao.com/kae.driver-state":"{state}","openfuyao.com/kae.driver-version":"2.2.0",'
        given = given.replace(
            f'{{"labels":{{"pool":"tls","topology.kubernetes.io/zone":"{rack}"', f'{{"labels":{{{labels}"pool":"tls"'
        )
    project.write(rollout, {"inventory/east.json": given})
    revisions.commit(rollout)
    project.write(rollout, {"policies/tls.yaml": text})

    found = cluster(rollout)
    comment = told(rollout, "diff", "-o", "markdown")

    assert (found["hosts"], found["pods"], found["loadedHosts"]) == (16, 8, 8)
    assert found["evictions"]["most"] == 32
    assert "show the version that comes on 8 hosts: no driver changes there, unless" in told(rollout, "simulate")
    assert "24 nodes of policy tls go from driver 2.3.0 to 2.2.0 in cluster east" in comment
    assert ", and labels in the inventory show 2.2.0 on 8 of them already; each first evicts" in comment
    assert "durations are defaults, and 8 hosts with it by labels left out" in comment


def test_the_same_seed_gives_the_same_answer_and_another_one_another(half: Path) -> None:
    assert told(half, "simulate") == told(half, "simulate", "--seed", "0")
    assert cluster(half) != cluster(half, "--seed", "1")


def test_measured_durations_take_the_place_of_defaults(half: Path) -> None:
    text = told(half, "simulate", "--metrics", metrics(half), "--runs", "3")

    assert "as 1 installer measured them (metrics.txt)" in text
    assert "as no --metrics are given" not in text
    assert "as no --failure-rate is given" not in text
    # Two at a time, of which each takes its start (10 to 30 s), 5 + 10 + 10 s, and 30 s until it counts.
    assert 6 * (10 + 25 + 30) - 30 <= cluster(half, "--metrics", "metrics.txt")["end"]["p50Seconds"] <= 6 * 90


def test_failures_are_those_that_installers_counted_unless_a_rate_is_given(half: Path) -> None:
    name = metrics(half, failed=1)

    assert answer(half, "--metrics", name)["failureRate"] == 0.1
    assert answer(half, "--metrics", name, "--failure-rate", "0.5")["failureRate"] == 0.5


def test_failed_hosts_halt_the_others_and_the_way_out_is_told(half: Path) -> None:
    text, found = (told(half, "simulate", "--failure-rate", "1"), cluster(half, "--failure-rate", "1"))

    assert "halts in 20 of 20 runs: the change fails on hosts of DaemonSet kae-driver-tls--half" in text
    assert "python -m installer retry" in text
    assert (found["end"], found["runsThatHalt"], found["fewestDone"]) == (
        {"p50Seconds": None, "p95Seconds": None},
        20,
        0,
    )
    assert {halt["cause"] for halt in found["halts"]} == {"failed", "unavailable"}


def test_every_lease_that_failed_hosts_keep_is_told(half: Path) -> None:
    diffs.edit(half, ("maxParallel: 2", "maxParallel: 1\n      maxUnavailable: 100%"))

    halts = {halt["cause"]: halt for halt in cluster(half, "--failure-rate", "1")["halts"]}

    assert (halts["leases"]["name"], halts["leases"]["hosts"], halts["failed"]["hosts"]) == ("tls", 11, 1)


def test_only_pods_of_the_snapshot_are_evicted(half: Path) -> None:
    name = pods(half, swapping(half)[0], "kp920-elsewhere", count=3)

    found = cluster(half, "--pods", name)

    assert (found["evictions"]["most"], found["evictionsAtOnce"]["most"]) == (3, 3)


def test_a_budget_that_allows_no_eviction_is_where_it_halts(half: Path) -> None:
    found = cluster(half, "--pods", pods(half, *swapping(half)[:2], allowed=0))

    assert ("budget", "shop/web") in {(halt["cause"], halt["name"]) for halt in found["halts"]}
    assert found["evictions"]["most"] == 0


def test_a_budget_of_one_lets_one_pod_after_the_other_go(half: Path) -> None:
    nodes = swapping(half)

    free = cluster(half, "--pods", pods(half, *nodes, count=3))
    bound = cluster(half, "--pods", pods(half, *nodes, count=3, allowed=1))

    assert (bound["runsThatHalt"], bound["evictions"]) == (0, free["evictions"])
    assert bound["evictionsAtOnce"]["most"] == 1
    assert bound["end"]["p50Seconds"] > free["end"]["p50Seconds"]


def test_the_comment_of_a_pull_request_begins_with_two_sentences(half: Path) -> None:
    text = told(half, "simulate", "-o", "markdown")

    first, _, rest = text.partition("\n\n")
    assert len(re.findall(r"\.(?: |$)", first)) == 2
    assert first.startswith(
        "Once this is applied, it takes 8 min for half of 12 hosts, and 16 min (19 min at p95) for all."
    )
    assert first.endswith("durations are defaults, and every device is taken to be in use.")
    assert rest.startswith("<details>")


def test_nobody_is_evicted_where_the_drain_is_off_and_the_answer_says_what_is_taken(rollout: Path) -> None:
    diffs.edit(rollout, HALF, ("  driver:\n", "  driver:\n    drain: {enabled: false}\n"))

    found = cluster(rollout)

    assert found["evictions"]["most"] == 0
    assert [halt["name"] for halt in found["halts"] if halt["cause"] == "waits"] == ["tls"]


def test_a_driver_that_may_stay_is_taken_to_be_swapped(rollout: Path) -> None:
    diffs.change(rollout, "mirror")

    assert any("that may keep its driver is taken to swap it" in line for line in answer(rollout)["taken"])


def test_nodes_that_move_to_a_wave_begin_at_once(rollout: Path) -> None:
    """Their DaemonSet does not change, so only Leases pace them."""
    diffs.edit(rollout, HALF)
    revisions.commit(rollout, "Half")
    diffs.edit(rollout, ("percent: 50", "percent: 100"))

    found = cluster(rollout)

    assert (found["hosts"], [pace["setting"] for pace in found["pacedBy"]]) == (11, ["maxParallel"])


def test_a_recipe_is_simulated_as_kae_is(tmp_path: Path) -> None:
    """Its tokens are devices, of which a node has 40."""
    folder = project.write(tmp_path, {"inventory/east.json": fleet.listed(tuple(map(sfc_node, range(8))))})
    recipe = builders.raw("Recipe", "onload", RECIPE)
    project.write(folder, {"recipes/onload/recipe.yaml": json.dumps(recipe), "policies/desk.yaml": desk("8.0")})
    revisions.commit(folder)
    project.write(folder, {"policies/desk.yaml": desk("9.0")})

    found = cluster(folder)

    assert (found["hosts"], found["hostsAway"]["most"], found["devicesAway"]["most"]) == (8, 1, 40)
    assert found["evictions"]["most"] == 8 * 40
    assert cluster(folder, "--pods", pods(folder, "t-3", "t-4", resource="amd.com/onload"))["evictions"]["most"] == 2


def test_pods_of_one_cluster_are_not_taken_for_those_of_another(tmp_path: Path) -> None:
    folder = project.write(fleet.small(tmp_path), {"inventory/west.json": fleet.listed(fleet.NODES[:1])})
    revisions.commit(folder)
    for name in ("tls", "rest"):
        diffs.edit(folder, ("version: 1.4.1", "version: 1.5.0"), file=f"policies/{name}.yaml")

    said = refused(1, folder, "simulate", "--pods", pods(folder))

    assert "--pods is of one cluster, and the change is in 2." in said
    assert "--cluster" in said
    assert in_process.kae(folder, "simulate", "--pods", "pods.json", "--cluster", "east").code == 0


@pytest.mark.parametrize("option", ["--pods", "--metrics"])
def test_a_file_that_is_none_is_refused_with_the_way_to_have_it(half: Path, option: str) -> None:
    (half / "empty").write_text("{}")

    assert (
        "kubectl get pods,pdb" in (said := refused(1, half, "simulate", option, "empty")) or "kae_driver_step" in said
    )
    assert "cannot be read" in refused(3, half, "simulate", option, "nowhere")


def test_documents_that_do_not_compile_have_no_forecast(half: Path) -> None:
    diffs.edit(half, ("maxParallel: 2", "maxParallel: many"))

    answered = in_process.kae(half, "simulate")

    assert answered.code == 1
    assert "so nothing is known of the effect" in answered.out
    assert json.loads(in_process.kae(half, "simulate", "-o", "json").out)["diagnostics"]


@pytest.mark.parametrize("share", ["-1", "2", "x", "1.5", "nan", ""])
def test_a_failure_rate_is_a_share(half: Path, share: str) -> None:
    assert "is not a share" in refused(2, half, "simulate", f"--failure-rate={share}")


def test_files_are_named_from_where_the_call_is_made(half: Path) -> None:
    metrics(half)
    (half / "below").mkdir()

    assert "metrics.txt" in told(half / "below", "simulate", "--metrics", "../metrics.txt")


def test_two_commits_are_compared_as_well_as_the_working_tree(half: Path) -> None:
    revisions.commit(half, "Half")

    assert answer(half, "HEAD~1", "--to", "HEAD")["clusters"] == answer(half, "HEAD~1")["clusters"]
    assert answer(half)["clusters"] == []


def test_pods_with_claims_are_taken_to_hold_a_device(half: Path) -> None:
    name = pods(half, swapping(half)[0], resource="example.com/other")
    assert cluster(half, "--pods", name)["evictions"]["most"] == 0
    snapshot = json.loads((half / name).read_text())
    assert not any("ResourceClaim" in line for line in answer(half, "--pods", name)["taken"])
    snapshot["items"][0]["spec"]["resourceClaims"] = [{"name": "hpre", "resourceClaimName": "hpre"}]
    (half / name).write_text(json.dumps(snapshot))

    assert any("ResourceClaim" in line for line in answer(half, "--pods", name)["taken"])
    assert cluster(half, "--pods", name)["evictions"]["most"] == 1


def test_of_queues_that_claims_share_each_pod_may_have_one(rollout: Path) -> None:
    shared = "  devicePlugin:\n    interface: DRA\n    dra: {queues: Shared}\n"
    diffs.edit(rollout, ("  devicePlugin:\n", shared))
    revisions.commit(rollout)
    diffs.edit(rollout, HALF)
    nodes = swapping(rollout)

    assert "evicts all pods that hold a KAE device" in told(rollout, "diff")
    assert (cluster(rollout)["unknownHosts"], cluster(rollout)["evictions"]["most"]) == (len(nodes), len(nodes))
    snapshot = pods(rollout, nodes[0], count=64)
    found = cluster(rollout, "--pods", snapshot)
    assert (found["unknownHosts"], found["evictions"]["most"]) == (0, 64)


def test_files_with_a_byte_order_mark_are_read(half: Path) -> None:
    # PowerShell writes one.
    names = metrics(half, failed=1), pods(half, swapping(half)[0])
    without = answer(half, "--metrics", names[0], "--pods", names[1])
    for name in names:
        (half / name).write_text((half / name).read_text(), "utf-8-sig")

    assert answer(half, "--metrics", names[0], "--pods", names[1]) == without
