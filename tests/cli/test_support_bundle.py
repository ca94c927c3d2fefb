"""`kae support-bundle`: one archive of what a report needs; what is missing is said, and no secret is in it."""

import contextlib
import gzip
import json
import re
import signal
import stat
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compiler import devices, recipes
from compiler.kube import client, pods, reader
from compiler.support import archive, collection
from tests import builders, in_process
from tests.cli import fleet, livecluster
from tests.kube import containers

SECRET = "hunter2hunter2"  # noqa: S105 - planted
DRIVER, PLUGIN = "kae-driver-tls", "kae-device-plugin-tls"
NODE = "kp920-01"
ANSWERS = {f"{DRIVER}-{NODE}": ("installer", "driver ok\n"), f"{PLUGIN}-{NODE}": ("device-plugin", "DEVICE  HEALTH\n")}


@pytest.fixture
def server(compiled: Path, tmp_path: Path) -> Iterator[containers.ApiServer]:
    """Cluster east, in which all is as planned and every container has a log."""
    running = containers.ApiServer(tmp_path)
    running.put(*livecluster.nodes())
    livecluster.applied(running, compiled, "east")
    for (_, kind, _, name), item in list(running.state.objects.items()):
        if kind == "Pod":
            speak(running, name, item)
    yield running
    running.down()


def speak(server: containers.ApiServer, pod: str, item: dict[str, Any]) -> None:
    """Give the containers of a pod a log, and its program an answer."""
    (container,) = item["spec"]["containers"]
    server.containers.logs[pod, container["name"], False] = f"the log of {pod}\n"
    server.containers.answers[pod, container["name"]] = (f"the answer of {pod}\n", 0)


def bundle(folder: Path, server: containers.ApiServer, *more: str) -> tuple[in_process.Answer, dict[str, str]]:
    """Return the answer of the command, and the texts in the archive by path."""
    target = server.kubeconfig.with_name("bundle.tar.gz")
    call = ("support-bundle", "--cluster", "east", "--kubeconfig", str(server.kubeconfig), "-o", str(target))
    answer = in_process.kae(folder, *call, *more)
    return answer, texts(target)


def texts(target: Path) -> dict[str, str]:
    """Return the texts in an archive, in its order."""
    found = {}
    with tarfile.open(target) as packed:
        for entry in packed:
            content = packed.extractfile(entry)
            assert content is not None
            found[entry.name.removeprefix(f"{archive.FOLDER}/")] = content.read().decode()
    return found


def test_everything_of_a_cluster_is_in_it(
    compiled: Path, server: containers.ApiServer, snapshot: SnapshotAssertion
) -> None:
    answer, found = bundle(compiled, server)

    assert (answer.code, answer.err) == (0, "")
    assert found["errors.txt"] == "Nothing is missing.\n"
    assert "\n".join(found) == snapshot
    assert json.loads(found["versions.json"])["server"] == {"gitVersion": "v1.31.0"}
    assert "as planned" in found["status.txt"]
    assert json.loads(found["difference.json"]) == []
    assert f"the log of {PLUGIN}-{NODE}" in found[f"logs/{PLUGIN}-{NODE}/device-plugin.log"]
    assert found[f"nodes/{NODE}/{DRIVER}-{NODE}-installer-status.txt"] == f"the answer of {DRIVER}-{NODE}\n"
    assert (f"{PLUGIN}-{NODE}", "python", "-m", "device_plugin", "list") in server.containers.commands


def test_only_the_owner_may_read_it_and_its_order_is_that_of_the_names(
    compiled: Path, server: containers.ApiServer
) -> None:
    _, found = bundle(compiled, server)

    target = server.kubeconfig.with_name("bundle.tar.gz")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert list(found) == sorted(found)
    with tarfile.open(target) as packed:
        entries = packed.getmembers()
    assert {(entry.mode, entry.uid, entry.gid, entry.uname) for entry in entries} == {(0o600, 0, 0, "")}
    assert all(entry.name.startswith("kae-support-bundle/") for entry in entries)


def test_a_file_that_exists_is_left_as_it_is(compiled: Path, server: containers.ApiServer) -> None:
    target = server.kubeconfig.with_name("bundle.tar.gz")
    target.write_text("an earlier one")

    call = ("support-bundle", "--cluster", "east", "--kubeconfig", str(server.kubeconfig), "-o", str(target))
    answer = in_process.kae(compiled, *call)

    assert answer.code == 3
    assert "'" + str(target) + "' exists already." in answer.err
    assert target.read_text() == "an earlier one"
    assert server.state.requests == []


def test_planted_secrets_are_nowhere_in_it(compiled: Path, server: containers.ApiServer, tmp_path: Path) -> None:
    folder = fleet.full(tmp_path / "fleet")
    env = f"\n  devicePlugin:\n    inject:\n      env: {{KAE_TOKEN: {SECRET}}}\n"
    policy = (folder / "policies/tls.yaml").read_text().replace("\n  devicePlugin:\n", env, 1)
    (folder / "policies/tls.yaml").write_text(policy.replace("  driver:\n", planted_driver(), 1))
    assert in_process.kae(folder, "compile").code == 0
    server.write_kubeconfig(token=SECRET)
    plant(server)

    answer, found = bundle(folder, server)

    assert answer.code == 0
    every = {path: text for path, text in found.items() if SECRET in text}
    assert every == {}
    assert SECRET not in answer.out + answer.err
    assert SECRET.encode() not in gzip.decompress(server.kubeconfig.with_name("bundle.tar.gz").read_bytes())
    # The neighbours of secrets are readable.
    difference = found["difference.json"]
    assert "DRIVER_PASSWORD" in difference
    assert "(masked)" in difference
    assert "git.example.com/fleet.git" in found["objects/Deployment.json"]
    assert "cloning https://" in found[f"logs/{DRIVER}-{NODE}/installer.log"]


def planted_driver() -> str:
    return (
        f"  driver:\n    env:\n    - {{name: DRIVER_PASSWORD, value: {SECRET}}}\n    - {{name: LEVEL, value: info}}\n"
    )


def plant(server: containers.ApiServer) -> None:
    """Put the secret wherever one may be: logs, variables, annotations, arguments, events, a Secret, a watcher."""
    config = json.dumps({"repository": f"https://bot:{SECRET}@git.example.com/fleet.git", "env": {"API_TOKEN": SECRET}})
    daemon_set = server.get("apps/v1", "DaemonSet", DRIVER, livecluster.NAMESPACE)
    daemon_set["metadata"].setdefault("annotations", {})["kubectl.kubernetes.io/last-applied-configuration"] = SECRET
    container = daemon_set["spec"]["template"]["spec"]["containers"][0]
    container["env"].append({"name": "DRIVER_PASSWORD", "value": f"old{SECRET}"})
    container["args"] = ["--token", SECRET, f"--proxy=http://bot:{SECRET}@proxy:3128"]
    template = {"metadata": {"annotations": {"device.openfuyao.com/config": config}}, "spec": {"containers": []}}
    labels = {"app.kubernetes.io/part-of": "kae"}
    watcher = {"name": "kae-watcher", "namespace": livecluster.NAMESPACE, "labels": labels}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e1", "namespace": livecluster.NAMESPACE},
        "reason": "Unhealthy",
        "involvedObject": {"kind": "Pod", "name": f"{DRIVER}-{NODE}"},
        "message": f"git clone https://bot:{SECRET}@git.example.com/fleet.git failed",
    }
    server.put(
        daemon_set,
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": watcher, "spec": {"template": template}},
        event,
    )
    log = (
        f"cloning https://bot:{SECRET}@git.example.com/fleet.git\n"
        f'{{"message": "Authorization: Bearer {SECRET}", "GIT_PASSWORD": "{SECRET}"}}\n'
        f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----\n"
    )
    server.containers.logs[f"{DRIVER}-{NODE}", "installer", False] = log
    server.containers.answers[f"{DRIVER}-{NODE}", "installer"] = (f"mirror http://bot:{SECRET}@mirror/ is down\n", 0)


def test_no_secret_is_ever_asked_for(compiled: Path, server: containers.ApiServer) -> None:
    bundle(compiled, server)

    assert len(server.state.requests) > 20
    assert [request for request in server.state.requests if "secret" in request.lower()] == []
    assert {request.split()[0] for request in server.state.requests} == {"GET"}


def test_without_a_cluster_what_is_local_is_in_it_and_the_exit_code_says_so(
    compiled: Path, server: containers.ApiServer
) -> None:
    server.down()

    answer, found = bundle(compiled, server)
    server.up()

    assert answer.code == 3
    assert "missing: everything of the cluster: the API server at" in answer.err
    assert sorted(found) == ["errors.txt", "findings.txt", "plan.json", "plan.txt", "versions.json"]
    assert "cannot be reached" in found["errors.txt"]


def test_wrong_documents_leave_the_logs_in_it(compiled: Path, server: containers.ApiServer, tmp_path: Path) -> None:
    folder = fleet.full(tmp_path / "fleet")
    policy = folder / "policies/tls.yaml"
    policy.write_text(policy.read_text().replace("sharing:", "sharin:"))

    answer, found = bundle(folder, server)

    assert answer.code == 0
    assert "unknown-field" in found["findings.txt"]
    assert "the documents have errors" in found["errors.txt"]
    assert "status.txt" not in found
    assert f"logs/{DRIVER}-{NODE}/installer.log" in found


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"valu: {SECRET}", "'valu' is not a field of"),
        (f"value: [{SECRET}]", "found a list"),
        ("value: 2702270227", "found the number (masked)"),
        (f"value: '{SECRET * 400}'", "'(masked)…' is not a string"),
        (f"value: *{SECRET}", "The alias '(masked)' has no anchor"),
    ],
)
def test_findings_quote_no_value_of_a_variable(
    line: str, said: str, compiled: Path, server: containers.ApiServer, tmp_path: Path
) -> None:
    folder = fleet.full(tmp_path / "fleet")
    policy = folder / "policies/tls.yaml"
    env = f"  driver:\n    env:\n    - name: DRIVER_PASSWORD\n      {line}\n"
    policy.write_text(policy.read_text().replace("  driver:\n", env, 1))

    _, found = bundle(folder, server)

    assert "policies/tls.yaml:13:" in found["findings.txt"]
    assert said in found["findings.txt"]
    assert not re.search(f"{SECRET}|2702270227", "".join(found.values()))


def test_names_of_a_hostile_cluster_are_inside_of_the_archive(compiled: Path, server: containers.ApiServer) -> None:
    pod = server.get("v1", "Pod", f"{PLUGIN}-{NODE}", livecluster.NAMESPACE)
    pod["metadata"]["name"], pod["spec"]["nodeName"] = "../../../../etc/cron.d/x", "/../a\x1b[2J"
    server.put(pod)
    server.containers.logs["..%2F..%2F..%2F..%2Fetc%2Fcron.d%2Fx", "device-plugin", False] = "its log\n"

    _, found = bundle(compiled, server)

    assert found["logs/.._.._.._.._etc_cron.d_x/device-plugin.log"] == "its log\n"
    for path in found:
        assert ".." not in Path(path).parts
        assert re.fullmatch(r"[\w./-]+", path)


def test_where_commands_in_pods_are_forbidden_one_is_tried_and_logs_are_there(
    compiled: Path, server: containers.ApiServer
) -> None:
    server.containers.forbidden.add("exec")

    answer, found = bundle(compiled, server)

    assert answer.code == 0
    assert answer.err.count("(403)") == 1
    assert '(403): pods "' in found["errors.txt"]
    assert '" is forbidden.\n' in found["errors.txt"]
    assert "nodes/: no other program was asked, as that takes the rights to get and create pods/exec.\n" in answer.err
    assert not any(path.startswith("nodes/") for path in found)
    assert f"logs/{DRIVER}-{NODE}/installer.log" in found


def test_a_right_that_is_missing_costs_its_part_alone(compiled: Path, server: containers.ApiServer) -> None:
    server.state.forbidden.update({"list nodes", "list events"})
    server.containers.forbidden.add("version")

    answer, found = bundle(compiled, server)

    assert answer.code == 0
    for part in ("the server's version", "nodes", "status", "events"):
        assert f"\n{part}: the API server at" in f"\n{found['errors.txt']}"
    assert f"logs/{DRIVER}-{NODE}/installer.log" in found


def test_a_container_that_waits_and_one_that_restarted_are_told(compiled: Path, server: containers.ApiServer) -> None:
    pod = server.get("v1", "Pod", f"{PLUGIN}-{NODE}", livecluster.NAMESPACE)
    pod["status"]["containerStatuses"][0]["restartCount"] = 2
    server.put(pod)
    server.containers.logs[f"{PLUGIN}-{NODE}", "device-plugin", True] = "the end of the one before\n"
    del server.containers.logs[f"{DRIVER}-{NODE}", "installer", False]

    _, found = bundle(compiled, server)

    assert found[f"logs/{PLUGIN}-{NODE}/device-plugin.previous.log"] == "the end of the one before\n"
    assert "is waiting to start: ImagePullBackOff" in found["errors.txt"]


def test_a_program_that_fails_is_told_with_its_output(compiled: Path, server: containers.ApiServer) -> None:
    server.containers.answers[f"{DRIVER}-{NODE}", "installer"] = ("installer: no config\n", 1)

    _, found = bundle(compiled, server)

    path = f"nodes/{NODE}/{DRIVER}-{NODE}-installer-status.txt"
    assert found[path] == "installer: no config\n"
    assert f"{path}: exit code 1 of 'python -m installer status'." in found["errors.txt"]


def test_a_long_log_keeps_its_end_from_a_whole_line_on(compiled: Path, server: containers.ApiServer) -> None:
    lines = [f"{number} {'x' * 100} password={SECRET}" for number in range(20_000)]
    server.containers.logs[f"{DRIVER}-{NODE}", "installer", False] = "\n".join(lines) + "\n"

    _, found = bundle(compiled, server)

    log = found[path := f"logs/{DRIVER}-{NODE}/installer.log"]
    first, *_, last = log.splitlines()
    assert last.startswith("19999 ")
    assert first.split()[0].isdecimal()
    assert SECRET not in log
    assert f"{path}: only its last 1 MiB, from a whole line on." in found["errors.txt"]


def test_a_long_answer_keeps_its_beginning(compiled: Path, server: containers.ApiServer) -> None:
    output = "".join(f"{number} {'x' * 100}\n" for number in range(20_000))
    server.containers.answers[f"{DRIVER}-{NODE}", "installer"] = (output, 0)

    _, found = bundle(compiled, server)

    assert found[path := f"nodes/{NODE}/{DRIVER}-{NODE}-installer-status.txt"].startswith("0 x")
    assert f"{path}: only the first 1 MiB" in found["errors.txt"]


def test_a_node_that_does_not_answer_is_asked_once(
    compiled: Path, server: containers.ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection, "LOG", pods.Bounds(size=1 << 20, time_s=0.5))
    server.containers.deaf.update({f"{DRIVER}-{NODE}", f"{PLUGIN}-{NODE}"})

    answer, found = bundle(compiled, server)

    assert answer.code == 0
    assert sum(f"-{NODE}/log" in request or f"-{NODE}/exec" in request for request in server.state.requests) == 1
    assert f"not asked for, as node {NODE} did not answer before" in found["errors.txt"]


def test_a_node_that_the_api_server_does_not_reach_is_asked_once(compiled: Path, server: containers.ApiServer) -> None:
    server.containers.unreached.update({f"{DRIVER}-{NODE}", f"{PLUGIN}-{NODE}"})

    answer, found = bundle(compiled, server)

    assert answer.code == 0
    assert sum(f"-{NODE}/log" in request or f"-{NODE}/exec" in request for request in server.state.requests) == 1
    assert "i/o timeout" in found["errors.txt"]
    assert f"not asked for, as node {NODE} did not answer before" in found["errors.txt"]


def test_a_refusal_that_never_ends_ends_in_time(
    compiled: Path, server: containers.ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection, "LOG", pods.Bounds(size=1 << 20, time_s=0.5))

    def trickle(handler: containers.Handler, *_: object) -> None:
        handler.send_response(502)
        handler.end_headers()
        while not handler.released.wait(0.05):
            handler.wfile.write(b"x" * 100)

    monkeypatch.setattr(containers.Handler, "_log", trickle)
    started_s = time.monotonic()

    answer, found = bundle(compiled, server)

    assert answer.code == 0
    assert time.monotonic() - started_s < 20
    assert "within 0.5 seconds" in found["errors.txt"]


def test_a_command_that_never_ends_ends_in_time(
    compiled: Path, server: containers.ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection, "ANSWER", pods.Bounds(size=1 << 20, time_s=0.1))
    monkeypatch.setattr(containers.Handler, "_exec", lambda handler, *_: handler.released.wait())

    answer, found = bundle(compiled, server)

    assert answer.code == 0
    assert "did not run 'python -m device_plugin list' in" in found["errors.txt"]
    assert "within 0.1 seconds" in found["errors.txt"]


def test_of_many_nodes_those_in_trouble_come_first_and_the_rest_is_named(
    compiled: Path, server: containers.ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection, "MOST_NODES", 2)
    plugin = server.get("apps/v1", "DaemonSet", PLUGIN, livecluster.NAMESPACE)
    for name in ("zz-01", "zz-02"):
        pod = livecluster.unready(livecluster.pod(plugin, name), {"reason": "CrashLoopBackOff"})
        server.put(builders.kubernetes_node(name, {}), pod)
        speak(server, f"{PLUGIN}-{name}", pod)

    _, first = bundle(compiled, server)
    server.kubeconfig.with_name("bundle.tar.gz").unlink()
    _, named = bundle(compiled, server, "--node", NODE, "--node", "nowhere")

    assert {path.split("/")[1] for path in first if path.startswith("logs/")} >= {f"{PLUGIN}-zz-01", f"{PLUGIN}-zz-02"}
    assert f"logs/{DRIVER}-{NODE}/installer.log" not in first
    assert "were not asked for; name a node by --node" in first["errors.txt"]
    assert f"logs/{DRIVER}-{NODE}/installer.log" in named
    assert "node nowhere: no pod of KAE is on it." in named["errors.txt"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_collection_keeps_what_it_has(
    number: signal.Signals, compiled: Path, server: containers.ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        signal.raise_signal(number)

    monkeypatch.setattr(collection.Collection, "_logs", interrupt)

    answer, found = bundle(compiled, server)

    assert answer.code == 130
    assert "missing: the rest: it was interrupted.\n" in answer.err
    assert "as planned" in found["status.txt"]
    assert not [path for path in found if path.startswith("logs/")]


def test_a_node_of_a_wrong_name_costs_no_logs(compiled: Path, server: containers.ApiServer) -> None:
    answer, found = bundle(compiled, server, "--node", "nowhere")

    assert "missing: node nowhere: no pod of KAE is on it." in answer.err
    assert f"logs/{DRIVER}-{NODE}/installer.log" in found


def test_a_node_may_be_named_with_its_cluster(compiled: Path, server: containers.ApiServer) -> None:
    answer, found = bundle(compiled, server, "--node", f"east/{NODE}")

    assert "no pod of KAE is on it" not in answer.err
    assert f"logs/{DRIVER}-{NODE}/installer.log" in found


def test_a_server_that_is_no_api_server_is_told_by_the_exit_code(
    compiled: Path, server: containers.ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise client.Refused("no such path", status=404)

    monkeypatch.setattr(reader.Cluster, "version", refuse)

    answer, found = bundle(compiled, server)

    assert answer.code == 3
    assert "missing: everything of the cluster: no such path." in answer.err
    assert not [path for path in found if path.startswith("objects/")]


def test_where_pods_cannot_be_listed_the_exit_code_says_so(compiled: Path, server: containers.ApiServer) -> None:
    server.state.forbidden.add("list pods")

    answer, _ = bundle(compiled, server)

    assert answer.code == 3


@pytest.mark.parametrize(
    ("target", "code", "words"),
    [("-", 2, "a bundle is a file."), (".", 3, "'.' is a folder.\nhint: Name a file in it.")],
)
def test_what_is_no_file_is_refused(target: str, code: int, words: str, compiled: Path) -> None:
    answer = in_process.kae(compiled, "support-bundle", "--cluster", "east", "-o", target)

    assert answer.code == code
    assert words in answer.err


def test_an_archive_that_cannot_be_finished_is_removed(
    compiled: Path, server: containers.ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(archive, "write", interrupt)
    target = server.kubeconfig.with_name("bundle.tar.gz")

    call = ("support-bundle", "--cluster", "east", "--kubeconfig", str(server.kubeconfig), "-o", str(target))
    answer = in_process.kae(compiled, *call)

    assert answer.code == 130
    assert not target.exists()


def test_the_same_texts_make_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with archive.opened(tmp_path / name) as file:
            archive.write(file, {"b.txt": "b", "a.txt": f"PASSWORD={SECRET}"}, 1_700_000_000)

    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert texts(tmp_path / "a") == {"a.txt": "PASSWORD=(masked)", "b.txt": "b"}


def test_logs_and_answers_of_the_pods_of_recipes_are_in_it(server: containers.ApiServer) -> None:
    onload = recipes.Recipe(name="onload", devices="devices of recipe 'onload'")
    name = "onload-driver-desk-t-1"
    (pod,) = (item for item in server.state.objects.values() if item["metadata"]["name"] == f"{DRIVER}-{NODE}")
    own = pod["metadata"] | {"name": name, "labels": {"app.kubernetes.io/name": "onload-driver"}}
    server.put(pod | {"metadata": own})
    speak(server, name, pod)
    made = collection.Bundle()

    with contextlib.closing(reader.Cluster(server.kubeconfig)) as cluster:
        collection.Collection(cluster, "kae-operator", made, [devices.KAE, onload]).collect([])

    assert made.texts[f"logs/{name}/installer.log"] == f"the log of {name}\n"
    assert made.texts[f"nodes/{NODE}/{name}-installer-status.txt"] == f"the answer of {name}\n"
    assert f"logs/{DRIVER}-{NODE}/installer.log" in made.texts
