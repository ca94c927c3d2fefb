"""Metrics say how the watcher stands, under the names that alerts and dashboards use."""

import re
from pathlib import Path

import prometheus_client
import pytest
from prometheus_client import registry

from watcher import watcher_metrics, watcher_state

SAMPLES = {
    "nodes": "nodes",
    "kept": "nodes_kept",
    "commits": "commits_total",
    "holds": "holds_total",
    "races": "lost_races_total",
}


class Watcher:
    """A watcher's standing, and its metrics."""

    def __init__(self) -> None:
        self.shown = watcher_state.State()
        self.registry: registry.CollectorRegistry = watcher_metrics.registry_of(self.shown, 600)

    def value(self, name: str, **labels: str) -> float | None:
        """A sample; None where there is none."""
        return self.registry.get_sample_value(f"kae_watcher_{name}", labels)


@pytest.mark.parametrize(("field", "name"), SAMPLES.items())
def test_numbers_are_told_as_they_stand(field: str, name: str) -> None:
    watcher = Watcher()
    assert watcher.value(name) == 0

    setattr(watcher.shown, field, 3)

    assert watcher.value(name) == 3


def test_the_interval_that_staleness_is_measured_by_is_the_configured_one() -> None:
    assert Watcher().value("interval_seconds") == 600


def test_before_the_first_success_none_is_claimed() -> None:
    watcher = Watcher()
    assert watcher.value("last_success_timestamp_seconds") is None

    watcher.shown.success_s = 1767323045.5

    assert watcher.value("last_success_timestamp_seconds") == 1767323045.5


def test_what_is_held_back_is_one_until_it_is_not() -> None:
    watcher = Watcher()
    assert watcher.value("held_back") == 0

    watcher.shown.held = "There are no nodes any more, and there were 3."

    assert watcher.value("held_back") == 1


def test_failures_are_counted_by_the_side_that_failed_and_start_at_zero() -> None:
    watcher = Watcher()
    assert (watcher.value("failures_total", part="nodes"), watcher.value("failures_total", part="repository")) == (0, 0)

    watcher.shown.trouble("nodes", "Connection refused.")
    watcher.shown.trouble("nodes", "Connection refused.")

    assert (watcher.value("failures_total", part="nodes"), watcher.value("failures_total", part="repository")) == (2, 0)


def test_a_failure_is_news_once_and_again_after_it_was_well() -> None:
    shown = watcher_state.State()

    news = [shown.trouble("nodes", "a"), shown.trouble("nodes", "a"), shown.trouble("nodes", "b")]
    news += [shown.well("nodes"), shown.well("nodes"), shown.trouble("nodes", "b")]

    assert news == [True, False, True, True, False, True]


def test_the_watcher_is_ready_after_its_first_success_and_while_nothing_fails() -> None:
    shown = watcher_state.State()
    assert shown.reason == "Nothing was listed yet."

    shown.success_s = 1767323045.5
    assert shown.reason == ""
    shown.trouble("repository", "It is away.")
    shown.trouble("nodes", "Nobody answers.")

    assert shown.reason == "It is away. Nobody answers."
    assert (shown.fails("nodes"), shown.well("nodes"), shown.fails("nodes")) == (True, True, False)


def test_the_process_tells_of_itself() -> None:
    text = prometheus_client.generate_latest(Watcher().registry).decode()

    assert "process_resident_memory_bytes" in text
    assert "python_gc" not in text


def test_alerts_and_dashboards_know_every_name_and_use_no_other(repository_root: Path) -> None:
    watcher = Watcher()
    watcher.shown.success_s = 1767323045.5
    shown: dict[str, set[str]] = {}
    for family in watcher.registry.collect():
        for sample in family.samples:
            shown.setdefault(sample.name, set()).update(sample.labels)

    told = {name for name in shown if name.startswith("kae_") and not name.endswith("_created")}
    rules = (repository_root / "templates/monitoring/prometheusrule-kae.yaml").read_text("utf-8")
    texts = [path.read_text("utf-8") for path in (repository_root / "templates/monitoring").iterdir()]
    used = {match for text in texts for match in re.findall(r"(kae_watcher_\w+)(?:\{([^}]*)\})?", text)}

    assert set(re.findall(r"^#   (kae_watcher_\w+)", rules, re.MULTILINE)) == told
    for name, labels in used:
        assert set(re.findall(r"\w+(?==|,|$)", re.sub(r'\\?"[^"]*"', "", labels))) <= shown[name], (name, labels)
