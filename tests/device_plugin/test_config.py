"""What a config of the device plugin may be; tests/runtime/test_configs.py compares schema and decoder."""

import json
from pathlib import Path
from typing import Any

import pytest

from runtime import device_plugin_config as config
from runtime import errors, shapes
from tests import mutations
from tests.runtime.programs import PLUGIN


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
            [{"name": "a", "as": "/etc/a", "text": ""}, {"name": "a", "as": "/etc/b", "text": "b"}],
            "There are two texts for a file 'a': name one of them otherwise.",
        ),
        (("vendor",), "1924", "at $: Object contains unknown field `vendor`."),
        (("resources",), [], "at $.resources: Expected `array` of length >= 1."),
        (("resources", 2, "maskSysfs"), True, "at $.resources[2]: Object contains unknown field `maskSysfs`."),
        (("version",), 1, "version 1, and this program reads version 2: an older kae compiled it"),
        (
            ("resources", 0),
            {"name": "amd.com/onload", "class": "token", "count": 10000, "shares": 11},
            "at $: Resource 'amd.com/onload' has more than 100000 shares of tokens.",
        ),
        (
            ("resources", 1, "inject"),
            {"files": [{"name": "onload-conf", "as": "/etc/x", "text": "another"}]},
            "at $: There are two texts for a file 'onload-conf': name one of them otherwise.",
        ),
        (("kinds", 1), {"name": "qat", "vendor": "8086"}, "at $.kinds[1]: Kind 'qat' needs `devices` or `classes`."),
    ],
)
def test_what_no_compiler_writes_is_refused_with_a_sentence(
    tmp_path: Path, position: mutations.Position, value: Any, sentence: str
) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(mutations.changed(PLUGIN, position, value)))

    with pytest.raises(errors.ConfigError) as raised:
        shapes.load(file, config.Config)

    assert sentence in str(raised.value)
