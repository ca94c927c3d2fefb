"""The device plugin reads the configs of recipes; tests/runtime/test_configs.py compares schema and decoder."""

import json
from pathlib import Path
from typing import Any

import pytest

from device_plugin import config
from runtime import errors, shapes
from tests import mutations
from tests.device_plugin.recipe_config import RECIPE
from tests.device_plugin.test_config import FULL, LANGUAGE


def test_the_fields_are_those_of_the_full_config() -> None:
    found = LANGUAGE.decoded(RECIPE)

    assert found
    assert found.recipe == "onload"
    assert found.kinds[0] == shapes.Kind(
        name="sfc", vendor="1924", devices=("0b03",), virtual=("1b03",), classes=("0200",)
    )
    token, char, vfio, uacce = found.resources
    assert token == config.Token(
        name="amd.com/onload",
        count=40,
        requires=("/dev/onload",),
        inject=config.ResourceInject(
            nodes=(config.InjectedNode(path="/dev/onload*", as_="/dev/", permissions="rwm", optional=True),),
            mounts=(
                config.InjectedMount(
                    path="/opt/onload/usr/lib64/libonload*.so*", as_="/usr/lib64/", read_only=False, optional=True
                ),
            ),
            env={"EF_POLL_USEC": "100000"},
            preload=("/usr/lib64/libonload.so",),
            files=(config.InjectedFile(name="onload-conf", as_="/etc/onload.conf", text="fast = 1\n"),),
        ),
    )
    assert isinstance(char, config.Char)
    assert char.groups[0].paths == (
        config.GroupPath(path="/dev/npu[0-9]", as_="/dev/", permissions="r", limit=2, optional=True),
        config.GroupPath(path="/dev/npu-control", as_=None, permissions="rw", limit=1, optional=False),
    )
    assert (vfio, uacce) == (
        config.Vfio(name="example.com/vf", kind="sfc"),
        config.Uacce(name="example.com/qat", kind="qat", shares=2, requires=("/x",)),
    )


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
        (
            ("vendor",),
            "1924",
            "at $: A recipe needs `resources`; `vendor`, `sharing`, `inject` and `deviceNodes` are KAE's.",
        ),
        (
            ("deviceNodes",),
            {"mode": "0660"},
            "at $: A recipe needs `resources`; `vendor`, `sharing`, `inject` and `deviceNodes` are KAE's.",
        ),
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
    file.write_text(json.dumps(mutations.changed(RECIPE, position, value)))

    with pytest.raises(errors.ConfigError) as raised:
        shapes.load(file, config.Config)

    assert sentence in str(raised.value)


@pytest.mark.parametrize(
    ("position", "value"),
    [
        (("resources",), RECIPE["resources"]),
        (("vendor",), None),
        (("kinds",), []),
        (("kinds", 0), RECIPE["kinds"][0]),
        (("kinds", 0, "vendor"), "19e5"),
    ],
)
def test_a_config_of_kae_has_nothing_of_a_recipe(position: mutations.Position, value: Any) -> None:
    data = mutations.changed(FULL, position, value) if value is not None else mutations.without(FULL, position)

    assert not LANGUAGE.judge.is_valid(data)
    assert LANGUAGE.decoded(data) is None
