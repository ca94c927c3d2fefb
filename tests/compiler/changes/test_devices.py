"""Whether a resource surely has as many devices as before."""

from typing import Any

import msgspec
import pytest

from compiler.changes import devices
from runtime import device_plugin_config as config

NPX: dict[str, Any] = {"path": "/dev/npx*"}


def char(*paths: dict[str, Any], shares: int = 1, requires: tuple[str, ...] = (), **group: Any) -> dict[str, Any]:
    groups = [{"paths": [*paths], **group}]
    return {"class": "char", "name": "example.com/x", "groups": groups, "shares": shares, "requires": [*requires]}


def token(count: int, **more: Any) -> dict[str, Any]:
    return {"class": "token", "name": "example.com/x", "count": count, **more}


def vfio(kind: str) -> dict[str, Any]:
    return {"class": "vfio", "name": "example.com/x", "kind": kind}


@pytest.mark.parametrize(
    ("before", "after", "is_as_wide"),
    [
        (token(100), token(100), True),
        (token(1), token(100), True),
        (token(100), token(1), False),
        (token(1), token(1, requires=["/opt/x"]), False),
        (token(1, requires=["/opt/x"]), token(1), True),
        (token(1, shares=4), token(1), False),
        (token(1), char(NPX), False),
        (char(NPX), char(NPX), True),
        (char(NPX), char({"path": "/dev/npx0"}), False),
        (char(NPX), char(NPX, driver="xe"), False),
        (char(NPX, driver="xe"), char(NPX), True),
        (char(NPX), char(NPX, vendor="1002"), False),
        (char(NPX), char(NPX, {"path": "/dev/other*"}), False),
        (char(NPX), char(NPX, {"path": "/dev/other*", "optional": True}), True),
        (char(NPX, {"path": "/dev/other*"}), char(NPX), True),
        (char({**NPX, "limit": 4}), char(NPX), False),
        (char({**NPX, "optional": True}), char(NPX), False),
        (vfio("gpu"), vfio("gpu"), True),
        (vfio("gpu"), vfio("npu"), False),
    ],
)
def test_what_is_not_surely_as_wide_is_told(before: dict[str, Any], after: dict[str, Any], *, is_as_wide: bool) -> None:
    was, now = (msgspec.convert(one, config.AnyResource) for one in (before, after))

    assert devices.is_as_wide(was, now) == is_as_wide
