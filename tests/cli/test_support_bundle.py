"""`kae support-bundle`: one archive of what a report needs; what is missing is said, and no secret is in it."""

import contextlib
import gzip
import json
import re
import signal
import stat
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compiler import recipes
from compiler.commands import support_bundle
from compiler.kae import RECIPE
from compiler.kube import client, pods, reader
from tests import builders, in_process
from tests.cli import fleet, jobs, livecluster
from tests.kube import containers

pytestmark = pytest.mark.long

SECRET = "hunter2hunter2"  # noqa: S105 - planted
DRIVER, PLUGIN = "kae-driver-tls", "kae-device-plugin-tls"
NODE = "kp920-01"
ON_DRIVER, ON_PLUGIN = f"{DRIVER}-{NODE}", f"{PLUGIN}-{NODE}"
"""The pods of the DaemonSets on the node."""


@pytest.fixture
def server(compiled: Path, tmp_path: Path) -> Iterator[containers.ApiServer]:
    """Cluster east, in which all is as planned and every container has a log."""
    running = containers.ApiServer(tmp_path)
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


def kae(folder: Path, kubeconfig: Path, *more: str) -> in_process.Answer:
    """Return the answer of the command, whose bundle is beside the kubeconfig."""
    target = str(kubeconfig.with_name("bundle.tar.gz"))
    call = ("support-bundle", "--cluster", "east", "--kubeconfig", str(kubeconfig), "--output-file", target)
    return in_process.kae(folder, *call, *more)


def bundle(folder: Path, server: containers.ApiServer, *more: str) -> tuple[in_process.Answer, dict[str, str]]:
    """Return the answer of the command, and the texts in the archive by path."""
    answer = kae(folder, server.kubeconfig, *more)
    return answer, texts(server.kubeconfig.with_name("bundle.tar.gz"))


def texts(target: Path) -> dict[str, str]:
    """Return the texts in an archive, in its order."""
    read = {}
    with tarfile.open(target) as packed:
        for entry in packed:
            content = packed.extractfile(entry)
            assert content is not None
            read[entry.name.removeprefix(f"{support_bundle.FOLDER}/")] = content.read().decode()
    return read


def collected(
    server: containers.ApiServer, nodes: Sequence[str] = (), known: Sequence[recipes.Recipe] = (RECIPE,)
) -> support_bundle.Bundle:
    """Return what the cluster says; the command adds the plan, the status and the archive."""
    made = support_bundle.Bundle()
    with contextlib.closing(reader.Cluster(server.kubeconfig)) as cluster:
        support_bundle.Collection(cluster, livecluster.NAMESPACE, made, known).collect(nodes)
    return made


def pod_of(server: containers.ApiServer, name: str) -> dict[str, Any]:
    """Return a copy of a pod."""
    return server.get("v1", "Pod", name, livecluster.NAMESPACE)


def event(name: str, pod: str, **more: str) -> Mapping[str, Any]:
    """Return an event of a pod."""
    metadata = {"name": name, "namespace": livecluster.NAMESPACE}
    involved = {"kind": "Pod", "name": pod}
    return {"apiVersion": "v1", "kind": "Event", "metadata": metadata, "involvedObject": involved, **more}


def test_everything_of_a_cluster_but_its_secrets_is_asked_for(
    compiled: Path, server: containers.ApiServer, snapshot: SnapshotAssertion
) -> None:
    answer, packed = bundle(compiled, server)

    assert answer.code == 0
    assert answer.err == ""
    assert packed["errors.txt"] == "Nothing is missing.\n"
    assert "\n".join(packed) == snapshot
    assert json.loads(packed["versions.json"])["server"] == {"gitVersion": "v1.31.0"}
    assert "as planned" in packed["status.txt"]
    assert json.loads(packed["difference.json"]) == []
    assert f"the log of {ON_PLUGIN}" in packed[f"logs/{ON_PLUGIN}/device-plugin.log"]
    assert packed[f"nodes/{NODE}/{ON_DRIVER}-installer-status.txt"] == f"the answer of {ON_DRIVER}\n"
    assert (ON_PLUGIN, "python", "-m", "device_plugin", "list") in server.containers.commands
    requests = server.state.requests
    assert len(requests) > 20
    assert not any("secret" in request.lower() for request in requests)
    assert {request.split()[0] for request in requests} == {"GET"}


def test_a_file_that_exists_is_left_as_it_is(compiled: Path, server: containers.ApiServer) -> None:
    target = server.kubeconfig.with_name("bundle.tar.gz")
    target.write_text("an earlier one")

    answer = kae(compiled, server.kubeconfig)

    assert answer.code == 3
    assert "'" + str(target) + "' exists already." in answer.err
    assert target.read_text() == "an earlier one"
    assert server.state.requests == []


def test_planted_secrets_are_nowhere_in_it(compiled: Path, server: containers.ApiServer, tmp_path: Path) -> None:
    folder = fleet.full(tmp_path / "fleet")
    injected = f"\n  devicePlugin:\n    inject:\n      env: {{KAE_TOKEN: {SECRET}}}\n"
    env = f"{{name: DRIVER_PASSWORD, value: {SECRET}}}, {{name: LEVEL, value: info}}"
    jobs.edit(folder, "policies/tls.yaml", "\n  devicePlugin:\n", injected)
    jobs.edit(folder, "policies/tls.yaml", "  driver:\n", f"  driver:\n    env: [{env}]\n")
    assert in_process.kae(folder, "compile").code == 0
    server.write_kubeconfig(token=SECRET)
    plant(server)

    answer, packed = bundle(folder, server)

    assert answer.code == 0
    every = {path: text for path, text in packed.items() if SECRET in text}
    assert every == {}
    assert SECRET not in answer.out + answer.err
    assert SECRET.encode() not in gzip.decompress(server.kubeconfig.with_name("bundle.tar.gz").read_bytes())
    # The neighbours of secrets are readable.
    difference = packed["difference.json"]
    assert "DRIVER_PASSWORD" in difference
    assert "(masked)" in difference
    assert "git.example.com/fleet.git" in packed["objects/Deployment.json"]
    assert "cloning https://" in packed[f"logs/{ON_DRIVER}/installer.log"]


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
    message = f"git clone https://bot:{SECRET}@git.example.com/fleet.git failed"
    server.put(
        daemon_set,
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": watcher, "spec": {"template": template}},
        event("e1", ON_DRIVER, reason="Unhealthy", message=message),
    )
    log = (
        f"cloning https://bot:{SECRET}@git.example.com/fleet.git\n"
        f'{{"message": "Authorization: Bearer {SECRET}", "GIT_PASSWORD": "{SECRET}"}}\n'
        f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----\n"
    )
    server.containers.logs[ON_DRIVER, "installer", False] = log
    server.containers.answers[ON_DRIVER, "installer"] = (f"mirror http://bot:{SECRET}@mirror/ is down\n", 0)


def test_without_a_cluster_what_is_local_is_in_it_and_the_exit_code_says_so(
    compiled: Path, server: containers.ApiServer
) -> None:
    server.down()

    answer, packed = bundle(compiled, server)
    server.up()

    assert answer.code == 3
    assert "missing: everything of the cluster: the API server at" in answer.err
    assert sorted(packed) == ["errors.txt", "findings.txt", "plan.json", "plan.txt", "versions.json"]
    assert "cannot be reached" in packed["errors.txt"]


def test_wrong_documents_leave_the_logs_in_it(compiled: Path, server: containers.ApiServer, tmp_path: Path) -> None:
    folder = fleet.full(tmp_path / "fleet")
    jobs.edit(folder, "policies/tls.yaml", "sharing:", "sharin:")

    answer, packed = bundle(folder, server)

    assert answer.code == 0
    assert "unknown-field" in packed["findings.txt"]
    assert "the documents have errors" in packed["errors.txt"]
    assert "status.txt" not in packed
    assert f"logs/{ON_DRIVER}/installer.log" in packed


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
def test_findings_quote_no_value_of_a_variable(line: str, said: str, tmp_path: Path) -> None:
    folder = fleet.full(tmp_path / "fleet")
    env = f"  driver:\n    env:\n    - name: DRIVER_PASSWORD\n      {line}\n"
    jobs.edit(folder, "policies/tls.yaml", "  driver:\n", env)

    kae(folder, tmp_path / "kubeconfig of nobody")

    packed = texts(tmp_path / "bundle.tar.gz")
    assert "policies/tls.yaml:13:" in packed["findings.txt"]
    assert said in packed["findings.txt"]
    assert not re.search(f"{SECRET}|2702270227", "".join(packed.values()))


def test_names_of_a_hostile_cluster_are_inside_of_the_archive(server: containers.ApiServer) -> None:
    pod = pod_of(server, ON_PLUGIN)
    pod["metadata"]["name"], pod["spec"]["nodeName"] = "../../../../etc/cron.d/x", "/../a\x1b[2J"
    server.put(pod)
    server.containers.logs["..%2F..%2F..%2F..%2Fetc%2Fcron.d%2Fx", "device-plugin", False] = "its log\n"

    made = collected(server)

    assert made.texts["logs/.._.._.._.._etc_cron.d_x/device-plugin.log"] == "its log\n"
    for path in made.texts:
        assert ".." not in Path(path).parts
        assert re.fullmatch(r"[\w./-]+", path)


def test_where_commands_in_pods_are_forbidden_one_is_tried_and_logs_are_there(server: containers.ApiServer) -> None:
    server.containers.forbidden.add("exec")

    made = collected(server)

    refusal, *more = made.missing
    assert re.search(r'\(403\): pods ".*" is forbidden\.$', refusal)
    assert more == ["nodes/: no other program was asked, as that takes the rights to get and create pods/exec."]
    assert not any(path.startswith("nodes/") for path in made.texts)
    assert f"logs/{ON_DRIVER}/installer.log" in made.texts


def test_a_right_that_is_missing_costs_its_part_alone(compiled: Path, server: containers.ApiServer) -> None:
    server.state.forbidden.update({"list nodes", "list events"})
    server.containers.forbidden.add("version")

    answer, packed = bundle(compiled, server)

    assert answer.code == 0
    for part in ("the server's version", "nodes", "status", "events"):
        assert f"\n{part}: the API server at" in f"\n{packed['errors.txt']}"
    assert f"logs/{ON_DRIVER}/installer.log" in packed


def test_a_container_that_waits_and_one_that_restarted_are_told(server: containers.ApiServer) -> None:
    pod = pod_of(server, ON_PLUGIN)
    pod["status"]["containerStatuses"][0]["restartCount"] = 2
    server.put(pod)
    server.containers.logs[ON_PLUGIN, "device-plugin", True] = "the end of the one before\n"
    del server.containers.logs[ON_DRIVER, "installer", False]

    made = collected(server, [NODE])

    assert made.texts[f"logs/{ON_PLUGIN}/device-plugin.previous.log"] == "the end of the one before\n"
    (lack,) = made.missing[1:]
    assert "is waiting to start: ImagePullBackOff" in lack


def test_the_log_of_an_init_container_that_restarted_is_there_twice(server: containers.ApiServer) -> None:
    pod = pod_of(server, ON_PLUGIN)
    pod["spec"]["initContainers"] = [{"name": "wait"}]
    pod["status"] = {"initContainerStatuses": [{"name": "wait", "restartCount": 1}]}
    server.put(pod)
    server.containers.logs |= {(ON_PLUGIN, "wait", False): "now\n", (ON_PLUGIN, "wait", True): "before\n"}

    made = collected(server, [NODE])

    logs = {path: text for path, text in made.texts.items() if path.startswith(f"logs/{ON_PLUGIN}/")}
    assert logs == {
        f"logs/{ON_PLUGIN}/wait.log": "now\n",
        f"logs/{ON_PLUGIN}/wait.previous.log": "before\n",
        f"logs/{ON_PLUGIN}/device-plugin.log": f"the log of {ON_PLUGIN}\n",
    }


def test_a_pod_that_no_node_has_yet_has_its_log_asked_for_and_no_program(server: containers.ApiServer) -> None:
    pod = pod_of(server, ON_PLUGIN)
    del pod["status"], pod["spec"]["nodeName"]
    server.put(pod)

    everywhere, elsewhere = collected(server), collected(server, [NODE])

    assert f"logs/{ON_PLUGIN}/device-plugin.log" in everywhere.texts
    said = f"/{ON_PLUGIN}-device-plugin-list.txt: its pod does not run."
    assert any(lack.endswith(said) for lack in everywhere.missing)
    assert f"logs/{ON_PLUGIN}/device-plugin.log" not in elsewhere.texts
    assert " no node " in elsewhere.missing[0]


def test_events_of_pods_and_of_those_that_were_replaced_are_in_it_by_time(server: containers.ApiServer) -> None:
    named = pod_of(server, ON_PLUGIN)
    named["metadata"]["name"] = "renamed"
    server.put(
        named,
        event("a-third", "renamed", lastTimestamp="2024-11-05T03:00:00Z"),
        event("b-first", f"{DRIVER}-replaced", lastTimestamp="2024-11-05T01:00:00Z"),
        event("c-second", "renamed", eventTime="2024-11-05T02:00:00Z"),
        event("other", "a-pod-of-others", lastTimestamp="2024-11-05T02:00:00Z"),
    )

    events = json.loads(collected(server).texts["events.json"])

    assert [item["metadata"]["name"] for item in events] == ["b-first", "c-second", "a-third"]


def test_of_very_many_events_the_first_are_read(server: containers.ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support_bundle, "_MOST_EVENTS", 2)
    server.put(*(event(name, ON_PLUGIN) for name in ("a", "b", "c")))

    made = collected(server)

    assert [item["metadata"]["name"] for item in json.loads(made.texts["events.json"])] == ["a", "b"]
    assert "events: only the first 2 of namespace 'kae-operator' were read." in made.missing


def test_a_program_that_fails_is_told_with_its_output(server: containers.ApiServer) -> None:
    server.containers.answers[ON_DRIVER, "installer"] = ("installer: no config\n", 1)

    made = collected(server)

    path = f"nodes/{NODE}/{ON_DRIVER}-installer-status.txt"
    assert made.texts[path] == "installer: no config\n"
    assert made.missing == [f"{path}: exit code 1 of 'python -m installer status'."]


def test_a_long_log_keeps_its_end_from_a_whole_line_on_and_an_answer_its_start(
    server: containers.ApiServer,
) -> None:
    lines = "".join(f"{number} {'x' * 1000}\n" for number in range(2000))
    server.containers.logs[ON_DRIVER, "installer", False] = lines
    server.containers.answers[ON_DRIVER, "installer"] = (lines, 0)

    made = collected(server, [NODE])

    log, answer = f"logs/{ON_DRIVER}/installer.log", f"nodes/{NODE}/{ON_DRIVER}-installer-status.txt"
    first, *_, last = made.texts[log].splitlines()
    assert last.startswith("1999 ")
    assert first.split()[0].isdecimal()
    assert f"{log}: only its last 1 MiB, from a whole line on." in made.missing
    assert made.texts[answer].startswith("0 x")
    assert f"{answer}: only the first 1 MiB of 'python -m installer status'." in made.missing


@pytest.mark.parametrize(("fault", "said"), [("deaf", "cannot be reached"), ("unreached", "i/o timeout")])
def test_a_node_that_does_not_answer_is_asked_once(
    fault: str, said: str, server: containers.ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(support_bundle, "LOG", pods.Bounds(size=1 << 20, time_s=0.5))
    getattr(server.containers, fault).update({ON_DRIVER, ON_PLUGIN})

    made = collected(server)

    assert sum(f"-{NODE}/log" in request or f"-{NODE}/exec" in request for request in server.state.requests) == 1
    told = "\n".join(made.missing)
    assert said in told
    assert f"not asked for, as node {NODE} did not answer before" in told


def test_a_refusal_that_never_ends_ends_in_time(server: containers.ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support_bundle, "LOG", pods.Bounds(size=1 << 20, time_s=0.5))

    def trickle(handler: containers.Handler, *_: object) -> None:
        handler.send_response(502)
        handler.end_headers()
        for _part in range(200):
            if handler.released.wait(0.05):
                return
            handler.wfile.write(b"x" * 100)

    monkeypatch.setattr(containers.Handler, "_log", trickle)

    made = collected(server, [NODE])

    assert "within 0.5 seconds" in made.missing[1]


def test_a_command_that_never_ends_ends_in_time(server: containers.ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support_bundle, "ANSWER", pods.Bounds(size=1 << 20, time_s=0.1))
    monkeypatch.setattr(containers.Handler, "_exec", lambda handler, *_: handler.released.wait())

    made = collected(server, [NODE])

    said = "did not run 'python -m device_plugin list' in"
    assert any(said in lack and "within 0.1 seconds" in lack for lack in made.missing)


def test_of_many_nodes_those_in_trouble_come_first_and_the_rest_is_named(
    server: containers.ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(support_bundle, "MOST_NODES", 2)
    plugin = server.get("apps/v1", "DaemonSet", PLUGIN, livecluster.NAMESPACE)
    for name in ("zz-01", "zz-02"):
        pod = livecluster.unready(livecluster.pod(plugin, name), {"reason": "CrashLoopBackOff"})
        server.put(builders.kubernetes_node(name, {}), pod)
        speak(server, f"{PLUGIN}-{name}", pod)

    first = collected(server)
    named = collected(server, [NODE, "nowhere"])

    told = {path.split("/")[1] for path in first.texts if path.startswith("logs/")}
    assert told == {f"{PLUGIN}-zz-01", f"{PLUGIN}-zz-02"}
    (left_out,) = first.missing
    assert "were not asked for; name a node by --node" in left_out
    assert f"logs/{ON_DRIVER}/installer.log" in named.texts
    assert "node nowhere: no pod of KAE is on it." in named.missing


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_collection_keeps_what_it_has(
    number: signal.Signals, compiled: Path, server: containers.ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader.Cluster, "version", lambda *_: signal.raise_signal(number))

    answer, packed = bundle(compiled, server)

    assert answer.code == 130
    assert answer.err == "missing: the rest: it was interrupted.\n"
    assert list(packed) == ["errors.txt", "findings.txt", "plan.json", "plan.txt", "versions.json"]


def test_a_node_of_a_wrong_name_costs_no_logs(server: containers.ApiServer) -> None:
    made = collected(server, ["nowhere"])

    assert made.missing == ["node nowhere: no pod of KAE is on it."]
    assert f"logs/{ON_DRIVER}/installer.log" in made.texts


def test_a_node_may_be_named_with_its_cluster(compiled: Path, server: containers.ApiServer) -> None:
    answer, packed = bundle(compiled, server, "--node", f"east/{NODE}")

    assert "no pod of KAE is on it" not in answer.err
    assert f"logs/{ON_DRIVER}/installer.log" in packed


def test_a_server_that_is_no_api_server_is_told_by_the_exit_code(
    compiled: Path, server: containers.ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise client.Refused("no such path", status=404)

    monkeypatch.setattr(reader.Cluster, "version", refuse)

    answer, packed = bundle(compiled, server)

    assert answer.code == 3
    assert "missing: everything of the cluster: no such path." in answer.err
    assert not [path for path in packed if path.startswith("objects/")]


@pytest.mark.parametrize(
    ("target", "code", "words"),
    [("-", 2, "a bundle is a file."), (".", 3, "'.' is a folder.\nhint: Name a file in it.")],
)
def test_what_is_no_file_is_refused(target: str, code: int, words: str, compiled: Path) -> None:
    answer = in_process.kae(compiled, "support-bundle", "--cluster", "east", "--output-file", target)

    assert answer.code == code
    assert words in answer.err


def test_an_unfinished_archive_is_removed(compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(support_bundle, "write", interrupt)

    answer = kae(compiled, tmp_path / "kubeconfig of nobody")

    assert answer.code == 130
    assert not (tmp_path / "bundle.tar.gz").exists()


def test_the_same_texts_make_the_same_bytes_by_name_which_the_owner_alone_may_read(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with support_bundle.opened(tmp_path / name) as file:
            support_bundle.write(file, {"b.txt": "b", "a.txt": f"PASSWORD={SECRET}"}, 1_700_000_000)

    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert list(texts(tmp_path / "a").items()) == [("a.txt", "PASSWORD=(masked)"), ("b.txt", "b")]
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
    with tarfile.open(tmp_path / "a") as packed:
        entries = packed.getmembers()
    assert {(entry.mode, entry.uid, entry.gid, entry.uname) for entry in entries} == {(0o600, 0, 0, "")}
    assert all(entry.name.startswith("kae-support-bundle/") for entry in entries)


def test_logs_and_answers_of_the_pods_of_recipes_are_in_it(server: containers.ApiServer) -> None:
    onload = builders.device_policy("desk", builders.recipe()).recipe
    name = "onload-driver-desk-t-1"
    pod = pod_of(server, ON_DRIVER)
    own = pod["metadata"] | {"name": name, "labels": {"app.kubernetes.io/name": "onload-driver"}}
    server.put(pod | {"metadata": own})
    speak(server, name, pod)

    made = collected(server, known=[RECIPE, onload])

    assert made.texts[f"logs/{name}/installer.log"] == f"the log of {name}\n"
    assert made.texts[f"nodes/{NODE}/{name}-installer-status.txt"] == f"the answer of {name}\n"
    assert f"logs/{ON_DRIVER}/installer.log" in made.texts


def test_the_reporter_answers_where_the_installer_ends(server: containers.ApiServer) -> None:
    kind = ("v1", "Pod", ON_DRIVER, livecluster.NAMESPACE)
    item = server.get(*kind)
    (installer,) = item["spec"]["containers"]
    item["spec"] |= {
        "initContainers": [{**installer, "name": "reporter"}, installer],
        "containers": [{**installer, "name": "pause"}],
    }
    item["status"] |= {
        "phase": "Pending",
        "initContainerStatuses": [{"name": "reporter", "ready": False, "state": {"running": {}}}],
        "containerStatuses": [],
    }
    server.put(item)
    server.containers.answers[ON_DRIVER, "reporter"] = ("the reporter's answer\n", 0)

    made = collected(server)

    (path,) = (path for path in made.texts if path.endswith("installer-status.txt"))
    assert made.texts[path] == "the reporter's answer\n"
