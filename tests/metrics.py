"""The metrics of a program beside the alerts and dashboards that name them."""

import re
from collections.abc import Set
from pathlib import Path

from prometheus_client import registry

_MONITORING = Path(__file__).resolve().parents[1] / "templates/monitoring"


def assert_known(collected: registry.CollectorRegistry, prefix: str, added: Set[str]) -> None:
    """Assert that each name and label that is asked for is there, but for labels that the PodMonitor adds."""
    shown: dict[str, set[str]] = {}
    for family in collected.collect():
        for sample in family.samples:
            shown.setdefault(sample.name, set()).update(sample.labels)
    texts = [path.read_text("utf-8") for path in _MONITORING.iterdir()]
    used = {match for text in texts for match in re.findall(rf"({prefix}_\w+)(?:\{{([^}}]*)\}})?", text)}
    assert len({name for name, _ in used}) >= 3
    for name, labels in used:
        asked = set(re.findall(r"\w+(?==|,|$)", re.sub(r'\\?"[^"]*"', "", labels))) - added
        assert asked <= shown[name], (name, labels)
