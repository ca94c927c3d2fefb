"""Why a selector matches no node: the first requirement that none meets, and the label that was probably meant."""

from typing import Any

import pytest

from compiler.fleet import unmatched
from tests import builders

NODES = (builders.node("a", {"pool": "tls", "zone": "lab"}), builders.node("b", {"pool": "web", "gen": "4"}))


@pytest.mark.parametrize(
    ("selector", "reason"),
    [
        ({"matchLabels": {"pool": "tsl"}}, "No node has the label pool=tsl; did you mean 'tls'?"),
        ({"matchLabels": {"pool": "storage"}}, "No node has the label pool=storage."),
        ({"matchLabels": {"pol": "tls"}}, "No node has a label pol; did you mean 'pool'?"),
        ({"matchLabels": {"rack": "7"}}, "No node has a label rack."),
        (
            {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["storage", "wbe"]}]},
            "No node has the label pool with one of storage and wbe; did you mean 'web'?",
        ),
        (
            {"matchExpressions": [{"key": "zoen", "operator": "Exists"}]},
            "No node has a label zoen; did you mean 'zone'?",
        ),
        ({"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["7"]}]}, "No node meets: gen Gt 7."),
        ({"matchLabels": {"pool": "web", "zone": "lab"}}, "No node meets all of: pool In [web], zone In [lab]."),
    ],
)
def test_the_reason_names_the_label_and_the_nearest_one(selector: dict[str, Any], reason: str) -> None:
    assert unmatched.reason(builders.policy(nodeSelector=selector).term, NODES) == reason
