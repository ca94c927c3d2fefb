"""The second writing of NFD's rules answers as NFD's master was seen to answer."""

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.property import nfd_rules

FEATURES = nfd_rules.Features(
    attributes={"kernel.version": {"full": "5.10.0-216.oe2203sp4.aarch64"}, "system.name": {"nodename": "kp-01"}},
    instances={"pci.device": ({"vendor": "19e5", "device": "a258"}, {"vendor": "8086", "device": "1"})},
)


def rule(feature: str, name: str, operator: str, *values: str, **fields: Any) -> dict[str, Any]:
    """Return a rule of one feature that asks for one name."""
    expression = {"op": operator} | ({"value": list(values)} if values else {})
    return {"name": "any", "matchFeatures": [{"feature": feature, "matchExpressions": {name: expression}}], **fields}


def test_rules_count_devices_compare_names_and_see_earlier_variables() -> None:
    rules = [
        rule("pci.device", "vendor", "In", "19e5", labelsTemplate="count={{ len .pci.device }}"),
        rule("pci.device", "device", "In", "a259", labels={"absent": "true"}),
        rule("kernel.version", "full", "InRegexp", "^5", vars={"group": "lab"}),
        rule("rule.matched", "group", "In", "lab", labels={"pool": "lab"}),
        rule("system.name", "nodename", "NotIn", "kp-01", labels={"other": "true"}),
    ]
    item = {"metadata": {"name": "kae"}, "spec": {"rules": rules}}

    assert nfd_rules.labels([item], FEATURES) == {"count": "1", "pool": "lab"}
    assert nfd_rules.labels([item], nfd_rules.UNREPORTED) == {}


def test_files_of_features_end_and_hidden_ones_are_not_read() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    past, future = ((now + timedelta(hours=hours)).isoformat() for hours in (-1, 1))
    files = {
        "a": f"# +expiry-time={future}\n# +no-label\na=1\n# +expiry-time={past}\nb=2\n# +expiry-time={future}\nc\n",
        "b": "# a comment\n\n a=x=y \n",
        ".a.new": "d=4\n",
    }

    assert nfd_rules.local(files, now) == {"a": "x=y", "c": "true"}


def test_a_label_takes_the_value_of_a_feature() -> None:
    item = {
        "metadata": {"name": "kae"},
        "spec": {"rules": [rule("local.feature", "a.b", "Exists", labels={"x": "@local.feature.a.b"})]},
    }
    told = nfd_rules.Features(attributes={"local.feature": {"a.b": "1.0"}}, instances={})

    assert nfd_rules.labels([item], told) == {"x": "1.0"}
    assert nfd_rules.labels([item], FEATURES) == {}
