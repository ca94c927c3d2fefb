"""Rules for the device plugin of a policy: what breaks each, and what is just within it."""

from typing import Any

import pytest

from compiler.checks import device_plugin
from tests import builders


def messages(**spec: Any) -> list[str]:
    return [finding.message for finding in device_plugin.findings(builders.policy("tls", **spec))]


@pytest.mark.parametrize(
    "plugin",
    [
        {"inject": {"librariesPath": "/usr/lib64"}},
        {"inject": {"opensslSettings": {"KAE_CMD_ENABLE_SM4": "0"}}},
        {"deviceNodes": {}},
        {"mode": {"hpre": "vfio"}, "sharing": {"hpre": 2}},
        {"inject": {"mounts": {"/run/kae": "/x"}}},
        {"inject": {"mounts": {"/dev/x": "/x"}}},
        {"inject": {"libraries": True, "mounts": {"/opt/kae/lib": "/x"}}},
        # A runtime would make the folders of the device plugin in the host's.
        {"inject": {"mounts": {"/run": "/x"}}},
        {"inject": {"libraries": True, "mounts": {"/opt": "/x"}}},
    ],
)
def test_a_setting_without_effect_or_against_another_is_an_error(plugin: dict[str, Any]) -> None:
    assert len(messages(devicePlugin=plugin)) == 1


@pytest.mark.parametrize(
    ("plugin", "driver"),
    [
        ({"inject": {"libraries": True, "librariesPath": "/usr/lib64"}}, {}),
        ({"inject": {"opensslConf": "3.0", "opensslSettings": {"KAE_CMD_ENABLE_SM4": "0"}}}, {}),
        ({"deviceNodes": {"mode": "0660"}}, {"enabled": False}),
        ({"mode": {"hpre": "vfio"}}, {}),
        # ZIP is not served.
        ({"mode": {"zip": "vfio"}, "sharing": {"zip": 2}}, {}),
        ({"inject": {"mounts": {"/run/kaedir": "/x", "/opt/kae": "/y", "/op": "/z"}}}, {}),
    ],
)
def test_settings_that_go_together_are_sound(plugin: dict[str, Any], driver: dict[str, Any]) -> None:
    assert messages(devicePlugin=plugin, driver=driver) == []
