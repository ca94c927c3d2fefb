"""Secrets are hidden by their name, their form and their place in a URL; what is no secret stays readable."""

import json
from typing import Any

import pytest

from compiler.support import masking

SECRET = "hunter2hunter2"  # noqa: S105 - planted
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJrYWUifQ.c2lnbmF0dXJl"  # noqa: S105 - of nobody
KEY = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{SECRET}\n{SECRET}\n-----END OPENSSH PRIVATE KEY-----"


@pytest.mark.parametrize(
    "text",
    [
        f"cloning https://bot:{SECRET}@git.example.com/fleet.git",
        f"cloning https://{SECRET}@git.example.com/fleet.git",
        f"fatal: proxy http://bot:{SECRET}@proxy:3128 refused",
        f"Authorization: Bearer {SECRET}",
        f"authorization: Basic {SECRET}==",
        f"> authorization: bearer {SECRET}",
        f"token={SECRET} expired",
        f"DB_PASSWORD={SECRET} started",
        f"KAE_SIGNING_KEY={SECRET}",
        f'"apiKey": "{SECRET} {SECRET}"',
        f"password: '{SECRET}'",
        f'{{"message": "GIT_TOKEN={SECRET}", "level": "info"}}',
        json.dumps(json.dumps({"env": {"KAE_TOKEN": SECRET}})),
        json.dumps(json.dumps([{"name": "KAE_TOKEN", "value": SECRET}])),
        json.dumps({"name": "KAE_TOKEN", "value": f'a"{SECRET}'}, indent=1),
        json.dumps({"password": f'a"{SECRET}'}),
        f"env[DB_PASSWORD].value: \"old\" and env[DB_PASSWORD].value: '{SECRET}'",
        f"git --password {SECRET} push",
        f"password={SECRET},{SECRET}",
        f"https://example.com/?token={SECRET}&page=2",
        KEY,
        json.dumps({"log": KEY}),
        KEY.partition("-----END")[0],
        TOKEN,
        f"ghp_{SECRET}",
        f"glpat-{SECRET}",
    ],
)
def test_a_secret_is_hidden_in_a_text(text: str) -> None:
    masked = masking.text(text)

    assert SECRET not in masked
    assert TOKEN not in masked
    assert masking.text(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        '{"automountServiceAccountToken": false, "imagePullSecrets": [{"name": "registry"}]}',
        '{"secretName": "kae-credentials", "tokenExpirationSeconds": 3600, "tokens": 5}',
        "tolerations: [{key: dedicated, operator: Equal, value: tls}]",
        "topologyKey: kubernetes.io/hostname",
        "clusterroles.rbac.authorization.k8s.io: not found",
        "The token is not accepted, and the password is missing.",
        "registry.example.com:5000/kae-driver@sha256:" + "9f86d081884c" * 5,
        "https://git.example.com:8443/fleet.git",
        "MODULE_KEY=",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert masking.text(text) == text


def test_an_object_loses_its_secrets_at_any_depth_and_nothing_else() -> None:
    config = {"version": 1, "env": {"KAE_TOKEN": SECRET, "KAE_LOG_LEVEL": "info"}, "url": f"https://x:{SECRET}@git/f"}
    shown: Any = {
        "metadata": {
            "name": "kae-watcher",
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": f"anything, also {SECRET}",
                "device.openfuyao.com/config": json.dumps(config),
            },
            "managedFields": [{"manager": "kubectl"}],
        },
        "spec": {
            "env": [
                {"name": "GIT_PASSWORD", "value": SECRET},
                {"name": "HTTPS_PROXY", "value": f"http://bot:{SECRET}@proxy:3128"},
                {"name": "KAE_LOG_LEVEL", "value": "info"},
                {"name": "REPO_TOKEN", "valueFrom": {"secretKeyRef": {"name": "repo", "key": "password"}}},
            ],
            "command": ["git", "--token", SECRET, "--depth", "1", f"--api-key={SECRET}"],
            "tolerations": [{"key": "dedicated", "value": "tls"}],
            "volumes": [{"name": "credentials", "secret": {"secretName": "repo"}}],
        },
    }

    masked: Any = masking.data(shown)

    assert SECRET not in json.dumps(masked)
    assert "managedFields" not in masked["metadata"]
    assert masked["spec"]["env"][2:] == shown["spec"]["env"][2:]
    assert masked["spec"]["command"] == ["git", "--token", "(masked)", "--depth", "1", "--api-key=(masked)"]
    assert (masked["spec"]["tolerations"], masked["spec"]["volumes"]) == (
        shown["spec"]["tolerations"],
        shown["spec"]["volumes"],
    )
    kept = json.loads(masked["metadata"]["annotations"]["device.openfuyao.com/config"])
    assert kept["env"] == {"KAE_TOKEN": "(masked)", "KAE_LOG_LEVEL": "info"}


def test_a_field_that_differs_is_judged_by_its_path() -> None:
    path = "spec.template.spec.containers[installer].env[DB_PASSWORD].value"

    assert masking.change(path, SECRET) == "(masked)"
    assert masking.change(path.replace("DB_PASSWORD", "LEVEL"), "info") == "info"
    assert masking.change("spec.containers[a].env[X]", {"name": "X_TOKEN", "value": SECRET})["value"] == "(masked)"


def test_a_hostile_text_costs_no_square_of_its_length() -> None:
    assert masking.text("token" * 200_000).startswith("token")
    assert masking.text("KEY" * 300_000).startswith("KEY")
