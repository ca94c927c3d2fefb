"""A rehearsal asks an API server that learns kinds meanwhile, and that may be busy."""

import json
import time
from typing import Any, cast

import pytest

from compiler import errors
from compiler.kube import client
from compiler.rehearsal import api

ROOT = "/apis/nfd.k8s-sigs.io/v1alpha1"
FEATURE = {"name": "nodefeatures", "kind": "NodeFeature", "namespaced": True}
RULE = {"name": "nodefeaturerules", "kind": "NodeFeatureRule", "namespaced": False}


class Server:
    """A connection whose answers are given, the last one again and again."""

    host = "https://test"

    def __init__(self, *answers: tuple[int, Any]) -> None:
        self.answers = list(answers)
        self.asked = 0

    def ask(self, request: client.Request) -> client.Answer:
        assert request.path == ROOT
        status, body = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        return client.Answer.of(status, json.dumps(body).encode())

    def refusal(self, action: str, answer: client.Answer) -> errors.WorldError:
        return errors.WorldError(f"{action}: {answer.status}")


def of(server: Server) -> api.Api:
    return api.Api(cast(client.Connection, server))


def rule() -> api.Object:
    return {"apiVersion": "nfd.k8s-sigs.io/v1alpha1", "kind": "NodeFeatureRule", "metadata": {"name": "kae"}}


def test_a_kind_that_comes_to_a_group_later_is_known_then_and_asked_for_once() -> None:
    server = Server((200, {"resources": [FEATURE]}), (200, {"resources": [FEATURE, RULE]}))
    asking = of(server)

    paths = [asking.path(rule()) for _ in range(3)]

    assert paths == [None, f"{ROOT}/nodefeaturerules/kae", f"{ROOT}/nodefeaturerules/kae"]
    assert server.asked == 2


def test_a_server_that_is_busy_is_asked_again_and_one_that_stays_so_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    paused: list[float] = []
    monkeypatch.setattr(time, "sleep", paused.append)
    busy = (429, {"message": "too many requests"})

    assert of(Server(busy, busy, (200, {}))).ask("GET", ROOT).ok
    assert paused == [1, 1]
    with pytest.raises(errors.WorldError, match="429"):
        of(Server(busy)).ask("GET", ROOT)
