"""The watcher reads the configs that the compiler writes; tests/runtime/test_configs.py tests the schema."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from compiler.model import watcher as documents
from compiler.rendering import program_configs
from runtime import shapes
from tests import builders, mutations
from watcher import config

ROOT = Path(__file__).parents[2]

FULL: dict[str, Any] = {
    "version": 1,
    "cluster": "east",
    "repository": {"url": "https://git.example.com/fleet.git", "branch": "fleet/main", "path": "inventory"},
    "intervalSeconds": 600,
    "quietSeconds": 10,
    "removalQuietSeconds": 600,
    "minCommitSeconds": 60,
    "maxLossPercent": 10,
    "maxLossNodes": 1,
    "labels": ["feature.node.kubernetes.io/"],
    "ignoreLabels": ["example.com/*"],
    "author": {"name": "kae-watcher", "email": "kae@example.com"},
    "messageTemplate": "inventory({cluster}): {summary}",
    "signing": "ssh",
    "pushOptions": ["merge_request.create"],
    "metrics": {"port": 9512},
}
"""A config with every field; what is changed in it below, one thing at a time, is judged by both sides."""

SPECS: tuple[dict[str, Any], ...] = (
    {},
    {"interval": "1s", "quietSeconds": 0, "removalQuietSeconds": 0, "minCommitSeconds": 1, "maxLossPercent": 0},
    # The longest duration that can be written.
    {"interval": "99999999999999h", "quietSeconds": 86400, "removalQuietSeconds": 86400, "minCommitSeconds": 86400},
    {
        "maxLossPercent": 100,
        "ignoreLabels": ["example.com/*", "a?"],
        "author": {"name": "é" * 200, "email": "a@b"},
        "messageTemplate": "{summary}\n\né",
        "signing": {"format": "ssh", "secretName": "key"},
    },
)

URLS = (
    "https://git.example.com/fleet.git",
    "http://git.example.com:8080/fleet.git",
    "ssh://git@git.example.com:2222/fleet.git",
    "git@git.example.com:team/fleet.git",
    "file:///srv/git/fleet.git",
)

# A value of every type, of every choice, and around every bound.
VALUES: tuple[Any, ...] = (
    *(None, True, False, [], {}, [None], [""], ["a b"], ["é"], {"x": 1}),
    *(-1, 0, 1, 2, 100, 101, 65535, 65536, 86400, 86401, 10**18, 10**18 + 1, 10**30, 10**400, 0.5),
    *("", "x", "X", "x" * 50, "x" * 51, "x" * 200, "x" * 201, "x" * 250, "x" * 251, "x" * 2000, "x" * 2001),
    *("é", "x\n", "a.b", "a..b", "-a", "a-", "a/b", "a b", "a*b", "1", "true", "ssh", "gpg", "pgp", "SSH"),
    *(
        *URLS,
        "git://git.example.com/fleet.git",
        "file://x",
        "https://a b",
        "a@b",
        "@b",
        "a@b c",
        f"https://{'x' * 493}",
    ),
)

KEYS = ("x", "", "interval_seconds", "Version", "secretName")
"""Fields that no object has, or not this one."""

# Where the decoder reads more than the compiler writes: it takes null for an absent field.
NULLABLE = (("signing",), ("metrics",))

LANGUAGE = mutations.Language("watcher-config", config.Config)
DEFINITIONS = {"Author": FULL["author"], "MetricsEndpoint": FULL["metrics"], "WatcherRepository": FULL["repository"]}
"""An object of the full config for each definition of the schema."""
INTEGERS = (("version",), ("quietSeconds",), ("intervalSeconds",), ("metrics", "port"))
"""Positions of whole numbers."""


def text(found: config.Config) -> str:
    """A config as the compiler would write it."""
    data = msgspec.to_builtins(found)
    return json.dumps({key: value for key, value in data.items() if value is not None})


@pytest.mark.parametrize("port", [None, 65535])
@pytest.mark.parametrize("spec", SPECS)
def test_what_the_compiler_writes_is_read_back_without_loss(spec: dict[str, Any], port: int | None) -> None:
    item = builders.cluster("east", watcher=spec)
    repository = documents.WatcherRepository(url=URLS[0])

    written = program_configs.watcher(item, repository, port)
    found = msgspec.json.decode(written, type=config.Config, strict=True)

    LANGUAGE.judge.validate(json.loads(written))
    assert json.loads(text(found)) == json.loads(written)


@pytest.mark.parametrize("interval", ["1s", "10m", "0h90m", "1h0m", "1h30m05s", "0h0m010s"])
def test_an_interval_of_a_second_or_more_is_allowed(interval: str) -> None:
    assert interval_rule().is_valid(interval)


@pytest.mark.parametrize("interval", ["0s", "0m", "00h", "0h0m0s", "0h00s", "", "s", "10", "1s1m", "-1s", "1d"])
def test_an_interval_of_nothing_is_refused(interval: str) -> None:
    assert not interval_rule().is_valid(interval)


def interval_rule() -> jsonschema.Draft202012Validator:
    """Return a validator for spec.watcher.interval, from its schema."""
    language = json.loads((ROOT / "schemas" / "kaecluster.json").read_text("utf-8"))
    return jsonschema.Draft202012Validator(language["$defs"]["Watcher"]["properties"]["interval"])


@pytest.mark.parametrize("url", URLS)
def test_every_sort_of_url_is_read(url: str) -> None:
    data = mutations.changed(FULL, ("repository", "url"), url)

    found = LANGUAGE.decoded(data)

    assert LANGUAGE.judge.is_valid(data)
    assert found
    assert found.repository.url == url


def test_the_fields_are_those_of_the_full_config() -> None:
    found = LANGUAGE.decoded(FULL)

    assert found == config.Config(
        version=1,
        cluster="east",
        repository=config.Repository(url="https://git.example.com/fleet.git", branch="fleet/main", path="inventory"),
        interval_seconds=600,
        quiet_seconds=10,
        removal_quiet_seconds=600,
        min_commit_seconds=60,
        max_loss_percent=10,
        max_loss_nodes=1,
        labels=("feature.node.kubernetes.io/",),
        ignore_labels=("example.com/*",),
        author=config.Author(name="kae-watcher", email="kae@example.com"),
        message_template="inventory({cluster}): {summary}",
        signing="ssh",
        push_options=("merge_request.create",),
        metrics=shapes.MetricsEndpoint(port=9512),
    )


def test_what_is_absent_has_the_default_of_the_schema() -> None:
    smallest = FULL | {"repository": {"url": URLS[0]}, "author": {}}
    for name in ("version", "maxLossNodes", "labels", "ignoreLabels", "signing", "pushOptions", "metrics"):
        del smallest[name]

    found = LANGUAGE.decoded(smallest)

    properties = {name: definition["properties"] for name, definition in LANGUAGE.schema["$defs"].items()}
    top, repository, author = LANGUAGE.schema["properties"], properties["WatcherRepository"], properties["Author"]
    assert found
    assert found.version == top["version"]["default"]
    assert found.ignore_labels == tuple(top["ignoreLabels"]["default"])
    assert (found.signing, found.metrics) == (None, None)
    assert (found.max_loss_nodes, found.labels, found.push_options) == (1, (), ())
    assert found.repository == config.Repository(
        url=URLS[0], branch=repository["branch"]["default"], path=repository["path"]["default"]
    )
    assert found.author == config.Author(name=author["name"]["default"], email=author["email"]["default"])


@pytest.mark.parametrize("seconds", [10**18 + 1, 10**400])
def test_an_interval_that_no_clock_can_add_is_refused(seconds: int) -> None:
    with pytest.raises(msgspec.ValidationError, match="intervalSeconds"):
        msgspec.json.decode(json.dumps(FULL | {"intervalSeconds": seconds}), type=config.Config)
