"""What a config of the watcher may be; tests/runtime/test_configs.py compares schema and decoder."""

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest

from runtime import watcher_config as config
from tests import mutations
from tests.runtime.programs import FULL_WATCHER, URLS, WATCHER

ROOT = Path(__file__).parents[2]


ALLOWED = ("1s", "10m", "0h90m", "1h0m", "1h30m05s", "0h0m010s")
REFUSED = ("0s", "0m", "00h", "0h0m0s", "0h00s", "", "s", "10", "1s1m", "-1s", "1d")


@pytest.mark.parametrize("interval", [*ALLOWED, *REFUSED])
def test_an_interval_of_a_second_or_more_is_allowed(interval: str) -> None:
    assert interval_rule().is_valid(interval) is (interval in ALLOWED)


def interval_rule() -> jsonschema.Draft202012Validator:
    """Return a validator for spec.watcher.interval, from its schema."""
    language = json.loads((ROOT / "schemas" / "kaecluster.json").read_text("utf-8"))
    return jsonschema.Draft202012Validator(language["$defs"]["Watcher"]["properties"]["interval"])


@pytest.mark.parametrize("url", URLS)
def test_every_sort_of_url_is_read(url: str) -> None:
    data = mutations.changed(FULL_WATCHER, ("repository", "url"), url)

    found = WATCHER.language.decoded(data)

    assert WATCHER.language.judge.is_valid(data)
    assert found
    assert found.repository.url == url


@pytest.mark.parametrize("seconds", [10**18 + 1, 10**400])
def test_an_interval_that_no_clock_can_add_is_refused(seconds: int) -> None:
    with pytest.raises(msgspec.ValidationError, match="intervalSeconds"):
        msgspec.json.decode(json.dumps(FULL_WATCHER | {"intervalSeconds": seconds}), type=config.Config)
