"""The device plugin reads the configs of recipes; tests/runtime/test_configs.py compares schema and decoder."""

import json
from pathlib import Path
from typing import Any

import pytest

from device_plugin import config
from runtime import errors, shapes
from tests import mutations
from tests.runtime.programs import DEVICE_PLUGIN, PLUGIN, PLUGIN_OF_RECIPE

OF_KAE = "at $: A recipe needs `resources`; `vendor`, `sharing`, `inject` and `deviceNodes` are KAE's."


@pytest.mark.parametrize(
    ("position", "value", "sentence"),
    [
        (("resources", 0, "kind"), "sfc", "at $.resources[0]: Object contains unknown field `kind`."),
        (("resources", 2, "count"), 3, "at $.resources[2]: Object contains unknown field `count`."),
        (("resources", 0, "class"), "usb", "at $.resources[0].class: Invalid value 'usb'."),
        (("resources", 2, "kind"), "nic", "at $: A resource offers kind 'nic', which is not in `kinds`."),
        (
            ("resources", 2, "kind"),
            "qat",
            "at $: Two resources offer kind 'qat': a device can be of one resource only.",
        ),
        (("resources", 1, "name"), "amd.com/onload", "at $: Resource 'amd.com/onload' is there twice."),
        (
            ("resources", 0, "inject", "env", "LD_PRELOAD"),
            "/lib/a.so",
            "LD_PRELOAD is in `env`, and `preload` is LD_PRELOAD: leave one of them out.",
        ),
        (
            ("resources", 0, "inject", "files"),
            [{"name": "a", "as": "/etc/a", "text": ""}, {"name": "a", "as": "/etc/b", "text": ""}],
            "Two of `files` are named 'a'.",
        ),
        (
            ("resources", 0, "inject", "mounts"),
            [{"path": "/etc/onload.conf"}],
            "A container would get two things at '/etc/onload.conf'.",
        ),
        (("vendor",), "1924", OF_KAE),
        (("deviceNodes",), {"mode": "0660"}, OF_KAE),
        (
            ("resources", 0),
            {"name": "amd.com/onload", "class": "token", "count": 10000, "shares": 11},
            "at $: Resource 'amd.com/onload' has more than 100000 shares of tokens.",
        ),
        (
            ("resources", 1, "inject"),
            {"files": [{"name": "onload-conf", "as": "/etc/x", "text": "another"}]},
            "at $: Two resources have different texts for a file 'onload-conf': name one of them otherwise.",
        ),
        (
            ("kinds", 0, "module"),
            "sfc",
            "at $: Kind 'sfc' of a recipe needs `vendor`, and has no field of a kind of KAE.",
        ),
        (("kinds", 1), {"name": "qat", "vendor": "8086"}, "at $: Kind 'qat' needs `devices` or `classes`."),
    ],
)
def test_what_no_compiler_writes_is_refused_with_a_sentence(
    tmp_path: Path, position: mutations.Position, value: Any, sentence: str
) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(mutations.changed(PLUGIN_OF_RECIPE, position, value)))

    with pytest.raises(errors.ConfigError) as raised:
        shapes.load(file, config.Config)

    assert sentence in str(raised.value)


@pytest.mark.parametrize(
    ("position", "value"),
    [
        (("resources",), PLUGIN_OF_RECIPE["resources"]),
        (("vendor",), None),
        (("kinds",), []),
        (("kinds", 0), PLUGIN_OF_RECIPE["kinds"][0]),
        (("kinds", 0, "vendor"), "19e5"),
    ],
)
def test_a_config_of_kae_has_nothing_of_a_recipe(position: mutations.Position, value: Any) -> None:
    data = mutations.changed(PLUGIN, position, value) if value is not None else mutations.without(PLUGIN, position)

    assert not DEVICE_PLUGIN.language.judge.is_valid(data)
    assert DEVICE_PLUGIN.language.decoded(data) is None
