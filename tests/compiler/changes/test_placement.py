"""The nodes that recorded rules and DaemonSets serve."""

from collections.abc import Mapping
from typing import Any

import pytest

from compiler.changes.output import pool_rules
from tests import builders


def rule(feature: str, attribute: str, operator: str, *values: str, **given: Mapping[str, str]) -> dict[str, Any]:
    """Return a rule with one condition, its variables and its labels."""
    expression = {"op": operator} | ({"value": list(values)} if values else {})
    return {"matchFeatures": [{"feature": feature, "matchExpressions": {attribute: expression}}], **given}


def rules(*items: dict[str, Any]) -> pool_rules.PoolRules:
    """Return the rules of an object."""
    return pool_rules.PoolRules({"spec": {"rules": list(items)}})


POOL = "openfuyao.com/kae.pool.tls"


@pytest.mark.parametrize(
    ("pattern", "kernel", "matches"),
    [
        (r"\.oe2203sp[1-4]\.", "5.10.0-216.oe2203sp4.aarch64", True),
        (r"^6\.", "5.10.0-216.oe2203sp4.aarch64", False),
        ("aarch64$", "5.10.0-216.oe2203sp4.aarch64+", True),
        ("(?i)OE2203", "5.10.0-216.oe2203sp4.aarch64", True),
        ("(?<=oe)2203", "5.10.0-216.oe2203sp4.aarch64", False),
    ],
)
def test_a_kernel_is_matched_by_re2_as_nfd_reports_it(pattern: str, kernel: str, matches: bool) -> None:
    own = rules(rule("kernel.version", "full", "InRegexp", pattern, labels={POOL: "a"}))
    node = builders.node(machine=builders.profile(kernel_version=kernel))

    assert own.labels(node) == ({POOL: "a"} if matches else {})


def test_a_group_lists_its_nodes_and_gives_them_its_pool() -> None:
    own = rules(
        rule("system.name", "nodename", "In", "kp-1", "kp-2", vars={"kae.tls.group": "sick"}),
        rule("rule.matched", "kae.tls.group", "In", "sick", labels={POOL: "sick"}),
        rule("rule.matched", "kae.tls.group", "DoesNotExist", labels={POOL: "rest"}),
    )

    assert own.members("tls", "sick") == {"kp-1", "kp-2"}
    assert own.members("tls", "well") == own.members("web", "sick") == set()
    assert [own.labels(builders.node(name)) for name in ("kp-2", "kp-3")] == [{POOL: "sick"}, {POOL: "rest"}]
