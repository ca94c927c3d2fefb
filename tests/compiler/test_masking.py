"""Secrets are hidden by their name, their form and their place in a URL; what is no secret stays readable."""

import base64
import json
import time
from typing import Any

import pytest

from compiler import masking

SECRET = "hunter2hunter2"  # noqa: S105 - planted
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJrYWUifQ.c2lnbmF0dXJl"  # noqa: S105 - of nobody
KEY = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{SECRET}\n{SECRET}\n-----END OPENSSH PRIVATE KEY-----"
CODED = base64.b64encode(f"bot:{SECRET}".encode()).decode()
DOCKER = json.dumps({"auths": {"registry.example.com": {"auth": CODED}}})


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
        f"glrt-{SECRET}",
        f"hvs.{SECRET}{SECRET}",
        f"AIza{SECRET}{SECRET}abcdefg",
        # A log that is cut begins in the middle of a key, and each of its lines has a time in front.
        KEY.partition("KEY-----\n")[2],
        f"2026-01-02T03:04:05.6Z {SECRET}\n2026-01-02T03:04:05.6Z -----END RSA PRIVATE KEY-----\nready",
        KEY.replace("OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"),
        # YAML
        f"password: |\n  {SECRET}\n  {SECRET}\nuser: bot",
        f"  token: >-\n      {SECRET}\n  user: bot",
        f"passwords:\n  - {SECRET}\n  - {SECRET}",
        f"2026-01-02T03:04:05.6Z password: |\n2026-01-02T03:04:05.6Z   {SECRET}\n2026-01-02T03:04:05.6Z user: bot",
        f"passphrase: correct horse {SECRET}",
        # Registries and kubeconfigs
        DOCKER,
        f".dockerconfigjson: {base64.b64encode(DOCKER.encode()).decode()}",
        f"    client-key-data: {base64.b64encode(KEY.encode()).decode()}",
        f"tls.key: {base64.b64encode(KEY.encode()).decode()}",
        # Headers
        f"Authorization: token {SECRET}",
        f"Authorization: Basic {CODED.rstrip('=')}",
        f'Authorization: Digest username="bot", response="{SECRET}"',
        f"map[Authorization:[token {SECRET}]]",
        f"('Authorization', 'ApiKey {SECRET}')",
        f"Cookie: session={SECRET}; other={SECRET}",
        f'{{"Set-Cookie": "id={SECRET}; Path=/"}}',
        # URLs that a registry redirects to
        f"https://s3.example.com/blob?X-Amz-Expires=1200&X-Amz-Signature={SECRET}",
        f"https://x.blob.example.com/?sv=2020&sig={SECRET}%3D&se=1",
        # Command lines
        f"Command '['git', '--token', '{SECRET}', 'push']' returned 1",
        f'["git","--token","{SECRET}"]',
        json.dumps(f'["git","--token","{SECRET}"]'),
        f"--password 'a {SECRET}'",
        f"curl --silent -u bot:{SECRET} https://example.com",
        f"machine git.example.com login bot password {SECRET}",
        # Names
        f"DB_PASS={SECRET}",
        f"dbPass={SECRET}",
        f"--registry-auth={SECRET}",
        f"TOKEN={{{SECRET}",
        f"['--token', '\\t{SECRET}']",
        f"2026-01-02T03:04:05.6Z - name: X_TOKEN\n2026-01-02T03:04:05.6Z   value: {SECRET}",
        f"secretName=a,password={SECRET}",
        f"SharedAccessKeyName=a;SharedAccessKey={SECRET}=",
        f"password=b'{SECRET}'",
        f"'password' => '{SECRET}'",
        f"password := {SECRET}",
        f'"tokens": ["{SECRET}"]',
        f"\x1b[31mpassword\x1b[0m={SECRET}",
        f"&Container{{Env:[]EnvVar{{EnvVar{{Name:DB_PASSWORD,Value:{SECRET},ValueFrom:nil,}},}},}}",
        f'v1.EnvVar{{Name:"DB_PASSWORD", Value:"{SECRET}"}}',
    ],
)
def test_a_secret_is_hidden_in_a_text(text: str) -> None:
    masked = masking.text(text)

    assert SECRET not in masked
    assert TOKEN not in masked
    assert CODED.rstrip("=") not in masked
    assert base64.b64encode(DOCKER.encode()).decode()[:40] not in masked
    assert base64.b64encode(KEY.encode()).decode()[40:80] not in masked
    assert masking.text(masked) == masked


def test_a_number_is_a_password_and_a_count_of_tokens_is_none() -> None:
    assert masking.text("password: 123456") == "password: (masked)"
    assert masking.text("tokens: 123456") == "tokens: 123456"


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
        # Sentences of the kubelet, containerd and Python that mention a secret are what a report needs.
        'MountVolume.SetUp failed for volume "kae-credentials" : secret "kae-credentials" not found',
        "pull access denied, repository does not exist or may require authorization: server message: denied",
        "failed to authorize: failed to fetch oauth token: unexpected status from GET request: 401 Unauthorized",
        'failed to fetch anonymous token: Get "https://ghcr.io/token?scope=repository": dial tcp: no such host',
        "content digest sha256:" + "9f86d081884c" * 5 + ": not found",
        "compiler.kube.credentials.NoAccess: the credentials cannot be read",
        "open /etc/kae/tls.key: no such file or directory",
        "a basic configuration of the driver",
        "bypass=yes, compass: north",
        "token_ttl: 3600s",
        '"credentialsSecret": "kae-mirror"',
        "watcher/git/credentials.py:97 refuses it",
        "--token-file /run/token --secret-name kae",
        "module verification failed: signature and/or required key missing - tainting kernel",
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


@pytest.mark.parametrize(
    "unit",
    ["token", "KEY", "\\", "name: token ", "eyJaaaaaa-", "token=", 'token="', "a:", "://a:", "name", "--token ", "\\'"],
)
def test_a_hostile_text_costs_no_square_of_its_length(unit: str) -> None:
    def cost_s(size: int) -> float:
        started_s = time.process_time()
        masking.text(f"{unit * (size // len(unit))} @ password")
        return time.process_time() - started_s

    # It takes a hundredth of a second; with a square of 15 kB it would be seconds.
    assert cost_s(15_000) < 0.5


def test_spaces_cost_no_square_of_their_number() -> None:
    started_s = time.process_time()

    for begin in ("name: token", "token", "bearer", "password:", "- password:\n"):
        masking.text(f"{begin}{' ' * 50_000}x")

    assert time.process_time() - started_s < 2.0


def test_a_text_steers_no_terminal() -> None:
    assert masking.text("a\x1b[2J\x1b]0;title\x07b\0c\td\n") == "abc\td\n"


def test_lists_and_secrets_are_hidden_too() -> None:
    shown = {"kind": "Secret", "data": {"any": SECRET}, "stringData": {"other": SECRET}, "tokens": [SECRET, SECRET]}

    assert SECRET not in json.dumps(masking.data(shown))
