"""Write docs/metrics.md: the metrics that the programs serve, and the alerts on them as they are rendered."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

from device_plugin import plugin_metrics
from docs import markdown
from installer.report import driver_state
from runtime import metrics
from watcher import loop

PAGE = Path(__file__).resolve().parent / "metrics.md"
RULES = PAGE.parent.parent / "output/east/monitoring/prometheusrule-kae.yaml"

_HEAD = """\
# Metrics and alerts

`make docs` generates this page from the programs and from the rendered alerts.

| program | serves them with | port |
|---|---|---|
| driver installer | `driver.metrics.enabled: true` | 9511, or `driver.metrics.port` |
| device plugin | `devicePlugin.metrics.enabled: true` | 9510, or `devicePlugin.metrics.port` |
| watcher | `monitoring.enabled` of the KAECluster; none with `mode: CronJob` | 9512 |

`monitoring.enabled` also renders a PodMonitor, which adds node, policy and pool, and the alerts. The device plugin and
the others serve the metrics of their process too, such as `process_resident_memory_bytes`.
"""


def text() -> str:
    """Return the text of the page."""
    nothing: Any = SimpleNamespace(offered=(), devices=(), allocations={}, device_lists={})
    programs = (
        ("Driver installer", "kae-driver", driver_state.DriverState().families(None)),
        ("Device plugin", "kae-device-plugin", plugin_metrics.families(nothing, ())),
        ("Watcher", "kae-watcher", loop.State(interval_s=0, success_s=0).families()),
    )
    return _HEAD + "".join(_program(*each) for each in programs)


def _program(title: str, group: str, families: Iterable[metrics.Family]) -> str:
    rows = ((f"`{each.name}{'_total' * each.counts}`", ", ".join(each.labels), each.meaning) for each in families)
    alerts = markdown.table(("alert", "after", "means"), _alerts(group))
    return f"\n## {title}\n\n{markdown.table(('metric', 'labels', 'value'), rows)}\n{alerts}"


def _alerts(group: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, duration and meaning of the alerts of a group."""
    groups = yaml.safe_load(RULES.read_text("utf-8"))["spec"]["groups"]
    for rule in next(each["rules"] for each in groups if each["name"] == group):
        meaning = f"{rule['annotations']['summary']} {rule['annotations']['description']}"
        named = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: found[1].upper(), meaning)
        yield rule["alert"], rule["for"], re.sub(r"\{\{ \$value.*? \}\}", "N", named)
