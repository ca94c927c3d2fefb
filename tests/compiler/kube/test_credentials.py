"""Whoever cannot be asked, or does not answer, is a sentence that says what to do; credentials may change meanwhile."""

import base64
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler import errors
from compiler.kube import client, credentials, reader
from tests import builders
from tests.kube import apiserver
from tests.watcher import servers

FIRST, SECOND = "first", "second"
"""Tokens."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[apiserver.ApiServer]:
    with apiserver.serving(tmp_path) as running:
        running.put(builders.kubernetes_node("node-000"))
        yield running


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[apiserver.ApiServer]:
    with apiserver.serving(tmp_path, tls=True) as running:
        running.put(builders.kubernetes_node("node-000"))
        yield running


def cluster_of(server: apiserver.ApiServer) -> reader.Cluster:
    return reader.Cluster(server.kubeconfig)


def failure(
    server: apiserver.ApiServer, context: str | None = None, timeouts: client.Timeouts = client.TIMEOUTS
) -> errors.WorldError:
    with pytest.raises(errors.WorldError) as caught:
        next(reader.Cluster(server.kubeconfig, context, timeouts=timeouts).pages())
    return caught.value


def test_a_server_that_is_not_there_is_unreachable(server: apiserver.ApiServer) -> None:
    server.down()

    error = failure(server)
    server.up()

    assert isinstance(error, client.Unreachable)
    assert str(error) == f"the API server at {server.address} cannot be reached: Connection refused."


def test_a_server_that_never_answers_is_unreachable(server: apiserver.ApiServer) -> None:
    server.state.deaf = True

    error = failure(server, timeouts=client.Timeouts(read_s=0.2))

    assert isinstance(error, client.Unreachable)
    assert "does not answer in time" in str(error)


def test_a_server_that_takes_too_long_for_an_answer_is_unreachable(
    server: apiserver.ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = range(200)
    written = []

    def trickle(handler: apiserver.Handler, *_: object) -> None:
        handler.send_response(200)
        handler.end_headers()
        for part in parts:
            handler.wfile.write(b"x" * 100)
            written.append(part)
            handler.released.wait(0.05)

    monkeypatch.setattr(apiserver.Handler, "_say", trickle)

    error = failure(server, timeouts=client.Timeouts(answer_s=0.2))

    assert isinstance(error, client.Unreachable)
    assert "takes longer" in str(error)
    assert len(written) < len(parts)


def test_a_denial_names_the_verb_and_the_resource(server: apiserver.ApiServer) -> None:
    server.state.forbidden.add("list nodes")

    with pytest.raises(
        client.Denied, match=r"did not list nodes, as .* do not allow it \(403\): nodes is forbidden: "
    ) as caught:
        list(cluster_of(server).pages())

    assert caught.value.status == 403


def test_credentials_that_are_not_known_are_denied(server: apiserver.ApiServer) -> None:
    server.state.token = FIRST
    server.write_kubeconfig(token=SECOND)

    error = failure(server)

    assert isinstance(error, client.Denied)
    assert str(error) == (
        f"the API server at {server.address} did not list nodes, "
        "as it does not accept the credentials (401): Unauthorized."
    )


def test_a_token_that_was_replaced_is_read_anew(server: apiserver.ApiServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(FIRST)
    server.write_kubeconfig(tokenFile=str(token))
    server.state.token = FIRST
    cluster = cluster_of(server)
    next(cluster.pages())
    server.state.token = SECOND
    token.write_text(SECOND)

    assert next(cluster.pages()).items
    assert [event.type for event in cluster.watch("100", timeout_s=1)] == ["ADDED"]


def test_a_pod_speaks_with_its_service_account_and_takes_up_new_tokens(
    secure: apiserver.ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = tmp_path / "account"
    account.mkdir()
    assert secure.authority is not None
    (account / "ca.crt").write_bytes(secure.authority.read_bytes())
    (account / "token").write_text(FIRST)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(secure.port))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    secure.state.token = FIRST
    cluster = reader.Cluster(service_account=account)
    before = next(cluster.pages())
    (account / "token").write_text(SECOND)
    secure.state.token = SECOND

    after = next(cluster.pages())

    assert before == after is not None


def test_outside_of_a_pod_there_is_no_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    with pytest.raises(credentials.NoAccess, match="the pod's service account cannot be used"):
        next(reader.Cluster(service_account=tmp_path).pages())


def test_a_certificate_of_another_authority_is_not_trusted_until_it_is_named(
    secure: apiserver.ApiServer, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with apiserver.serving(other, tls=True) as stranger:
        assert secure.authority is not None
        assert stranger.authority is not None
        right = secure.authority.read_bytes()
        named = tmp_path / "named.crt"
        named.write_bytes(stranger.authority.read_bytes())
        config = json.loads(secure.kubeconfig.read_text())
        config["clusters"][0]["cluster"]["certificate-authority"] = str(named)
        secure.kubeconfig.write_text(json.dumps(config))
        cluster = cluster_of(secure)

        with pytest.raises(
            client.Untrusted, match=r"certificate of https://127\.0\.0\.1:.* is not trusted: self-signed"
        ):
            next(cluster.pages())
        named.write_bytes(right)

        assert next(cluster.pages()).items


def test_an_authority_within_the_kubeconfig_is_taken(secure: apiserver.ApiServer) -> None:
    config = json.loads(secure.kubeconfig.read_text())
    entry = config["clusters"][0]["cluster"]
    assert secure.authority is not None
    entry["certificate-authority-data"] = base64.b64encode(secure.authority.read_bytes()).decode()
    del entry["certificate-authority"]
    secure.kubeconfig.write_text(json.dumps(config))

    assert next(cluster_of(secure).pages()).items


def test_a_server_that_is_busy_is_asked_again(server: apiserver.ApiServer) -> None:
    server.state.answers["/api/v1/nodes"] = [(429, "busy", {"Retry-After": "0"})] * 2

    assert next(cluster_of(server).pages()).items
    assert len(server.state.requests) == 3


def test_a_server_that_stays_busy_is_left_alone(server: apiserver.ApiServer) -> None:
    server.state.answers["/api/v1/nodes"] = [(429, "busy", {"Retry-After": "0"})] * 9

    assert str(failure(server)) == f"the API server at {server.address} did not list nodes (429): busy."
    assert len(server.state.requests) == 4


def test_what_is_no_api_server_is_told_apart(server: apiserver.ApiServer) -> None:
    server.state.answers["/api/v1/nodes"] = [(200, "<html>\nWelcome\n</html>", {})]

    assert str(failure(server)) == f"the server at {server.address} is not an API server: <html> Welcome </html>."


def test_without_the_client_it_says_how_to_get_it(server: apiserver.ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "kubernetes"] or ["kubernetes"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "kubernetes", None)

    error = failure(server)

    assert isinstance(error, credentials.NoClient)
    assert error.hint == "Run: pip install 'kae-compiler[live]'"


def test_a_context_can_be_chosen(server: apiserver.ApiServer) -> None:
    error = failure(server, "bare")

    assert isinstance(error, credentials.NoAccess)
    assert str(error) == f"the cluster of context 'bare' of '{server.kubeconfig}' names no server."


def test_a_context_that_is_not_there_is_answered_with_those_that_are(server: apiserver.ApiServer) -> None:
    error = failure(server, "other")

    assert str(error) == f"'{server.kubeconfig}' has no context 'other'."
    assert error.hint == "Its contexts are bare, test."


def test_without_a_current_context_one_has_to_be_named(server: apiserver.ApiServer) -> None:
    config = json.loads(server.kubeconfig.read_text())
    server.kubeconfig.write_text(json.dumps(config | {"current-context": ""}))

    error = failure(server)

    assert str(error) == f"'{server.kubeconfig}' states no current context."
    assert error.hint == "Name one with --context. Its contexts are bare, test."


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot be read: No such file or directory."),
        ("", "is not a kubeconfig: it lists no clusters."),
        ("- a", "is not a kubeconfig: it lists no clusters."),
        ("a: [", "is not a kubeconfig: it is not YAML."),
        ("\x00", "is not a kubeconfig: it is not YAML."),
        ("apiVersion: v1\nkind: Pod\n", "is not a kubeconfig: it lists no clusters."),
        ("clusters: []\n", "states no current context."),
        ("clusters: []\ncontexts: [a, 1]\ncurrent-context: a\n", "has no context 'a'."),
        ("clusters: []\ncontexts: [{name: a, context: {cluster: b}}]\ncurrent-context: a\n", "cannot be used: "),
        ("clusters: []\ncontexts: [{name: a}]\ncurrent-context: a\n", "cannot be used: "),
        ("clusters: []\ncontexts: [{name: a, context: 1}]\ncurrent-context: a\n", "has fields of the wrong type"),
        ("clusters: [1]\ncontexts: [{name: a, context: {cluster: b}}]\ncurrent-context: a\n", "'a' of '"),
    ],
)
def test_what_is_no_kubeconfig_is_named(text: str | None, words: str, server: apiserver.ApiServer) -> None:
    server.kubeconfig.unlink()
    if text is not None:
        server.kubeconfig.write_text(text)

    error = failure(server)

    assert isinstance(error, credentials.NoAccess)
    assert f"'{server.kubeconfig}'" in str(error)
    assert words in str(error)


def test_a_file_that_a_kubeconfig_names_and_that_is_not_there_is_named(server: apiserver.ApiServer) -> None:
    server.write_kubeconfig(tokenFile="nowhere")

    error = failure(server)

    assert isinstance(error, credentials.NoAccess)
    assert f"'{server.kubeconfig.parent}/nowhere', which '{server.kubeconfig}' names" in str(error)


def test_what_was_closed_can_be_asked_again(server: apiserver.ApiServer) -> None:
    cluster = cluster_of(server)
    next(cluster.pages())

    with contextlib.closing(cluster):
        first = next(cluster.pages())

    assert next(cluster.pages()) == first


def test_kubeconfigs_count_as_one_and_the_first_of_a_name_counts(server: apiserver.ApiServer, tmp_path: Path) -> None:
    document = json.loads(server.kubeconfig.read_text())
    (tmp_path / "token").write_text("of-another-folder")
    other = tmp_path / "other/config"
    other.parent.mkdir()
    (other.parent / "token").write_text(FIRST)
    server.state.token = FIRST
    user = {"name": "test", "user": {"tokenFile": "token"}}
    wrong = [{"name": "test", "cluster": {"server": "http://127.0.0.1:1"}}]
    other.write_text(json.dumps({"clusters": [], "users": [user], "contexts": [], "current-context": ""}))
    last = tmp_path / "last"
    last.write_text(json.dumps(document | {"clusters": wrong, "current-context": "bare"}))

    assert next(reader.Cluster([other, server.kubeconfig, last]).pages()).items


def test_the_kubeconfigs_of_the_environment_are_those_that_exist(
    server: apiserver.ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", f"nowhere::{server.kubeconfig}:elsewhere")
    assert credentials.default_files() == (server.kubeconfig,)

    monkeypatch.setenv("KUBECONFIG", "nowhere:elsewhere")
    assert credentials.default_files() == (Path("nowhere"),)

    monkeypatch.delenv("KUBECONFIG")
    assert credentials.default_files() == (Path.home() / ".kube/config",)


@pytest.mark.long
def test_a_key_in_a_kubeconfig_is_in_no_file_once_the_command_has_ended(tmp_path: Path) -> None:
    made = servers.authority(tmp_path / "authority")
    names = {"client-certificate-data": "client.crt", "client-key-data": "client.key"}
    user = {field: base64.b64encode(made.read(name)).decode() for field, name in names.items()}
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    (tmp_path / "scratch").mkdir()

    ended = subprocess.run(
        (sys.executable, "-m", "compiler", "inventory", "--cluster", "east", "--kubeconfig", "kubeconfig"),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3]), "TMPDIR": str(tmp_path / "scratch")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ended.returncode, "cannot be reached" in ended.stderr) == (3, True), ended.stderr
    assert list((tmp_path / "scratch").iterdir()) == []
