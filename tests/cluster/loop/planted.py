"""Secrets in a cluster, wherever a support bundle of it could come upon one."""

import base64
import copy
import json
import secrets
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from tests.cluster.loop.story import CLUSTER, SECRET, Story
from tests.cluster.nodes.driver_node import NAMESPACE

_JOB = "kae-smoke-planted"
_SAY = (
    "import os\n"
    "print('GET / Authorization: Bearer', os.environ['BEARER_TOKEN'])\n"
    "print('cloning', os.environ['GIT_CREDENTIAL'])\n"
)


def plant(story: Story) -> Mapping[str, str]:
    """Put secrets into the cluster; return them by their places, each of which holds its own."""
    fresh = {name: f"planted{secrets.token_hex(12)}" for name in ("variable", "proxy", "annotation", "log", "url")}
    fresh |= {name: f"planted{secrets.token_hex(12)}" for name in ("event", "config map", "secret", "argument")}
    story.own.apply(*_objects(fresh), _job(story, fresh))
    story.until("the job's log", lambda: "cloning" in story.own.kubectl("logs", f"job/{_JOB}", "--ignore-errors"))
    made = {**fresh, "watcher's password": story.fleet.host.password, "watcher's header": story.fleet.host.basic}
    told = _told(story)
    assert [place for place, secret in made.items() if secret not in told and _coded(secret) not in told] == []
    return made | {f"{place}, in base64": _coded(secret) for place, secret in made.items()}


def _objects(fresh: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    labels = {"app.kubernetes.io/part-of": "kae"}
    yield {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "planted", "labels": labels},
        "stringData": {"password": fresh["secret"]},
    }
    yield {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "planted", "labels": labels},
        "data": {"GIT_TOKEN": fresh["config map"]},
    }
    yield {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "planted"},
        "involvedObject": {"kind": "Pod", "namespace": NAMESPACE, "name": f"{_JOB}-0"},
        "reason": "Failed",
        "message": f"git fetch https://bot:{fresh['event']}@git.example.com/fleet.git has failed",
    }


def _job(story: Story, fresh: Mapping[str, str]) -> dict[str, Any]:
    (job,) = yaml.safe_load_all(story.fleet.ask("kae", "smoke", "--cluster", CLUSTER))
    made: dict[str, Any] = copy.deepcopy(job)
    made["metadata"] |= {"name": _JOB, "annotations": {"example.com/api-token": fresh["annotation"]}}
    (container,) = made["spec"]["template"]["spec"]["containers"]
    variables = {
        "KAE_TOKEN": fresh["variable"],
        "HTTPS_PROXY": f"http://bot:{fresh['proxy']}@proxy.example.com:3128",
        "BEARER_TOKEN": fresh["log"],
        "GIT_CREDENTIAL": f"https://bot:{fresh['url']}@git.example.com/fleet.git",
    }
    container["env"] += [{"name": name, "value": value} for name, value in variables.items()]
    container["command"] = ["python", "-c", _SAY, "--token", fresh["argument"]]
    return made


def _told(story: Story) -> str:
    kinds = "configmaps,events,jobs,pods,secrets"
    items = json.loads(story.own.kubectl("get", kinds, "-o", "json"))["items"]
    logs = story.own.kubectl("logs", f"job/{_JOB}")
    data = next(item["data"] for item in items if item["metadata"]["name"] == SECRET)
    user, password = (base64.b64decode(data[key]).decode() for key in ("username", "password"))
    return f"{json.dumps(items)}\n{logs}\n{base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def _coded(secret: str) -> str:
    return base64.b64encode(secret.encode()).decode()
