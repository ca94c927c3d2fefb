"""Metrics say how the host stands, under the names that alerts and dashboards use."""

from pathlib import Path

import prometheus_client
import pytest
from prometheus_client import registry

from installer.host import host_state, record
from installer.report import driver_state
from runtime.metrics import registry_of
from tests import metrics
from tests.installer import incidents, machines, settings


class Node:
    """A host's standing, and its metrics."""

    def __init__(self, host: host_state.HostState | None = None, held_s: float | None = None) -> None:
        self.shown = driver_state.DriverState()
        self.shown.host = host
        self.registry: registry.CollectorRegistry = registry_of(lambda: self.shown.families(held_s))

    def value(self, name: str, **labels: str) -> float | None:
        """A sample; None where there is none."""
        return self.registry.get_sample_value(f"kae_driver_{name}", labels)

    def states(self) -> dict[str, float | None]:
        """The samples of the state."""
        return {name: self.value("state", state=name) for name in driver_state.STATES}


@pytest.mark.parametrize("state", driver_state.STATES)
def test_the_state_is_one_and_all_others_are_zero_and_two_are_ready(state: str) -> None:
    node = Node()
    node.shown.update(state, "It is so.")

    assert node.states() == {name: int(name == state) for name in driver_state.STATES}
    # Of ours as told, and of others that stays.
    assert node.shown.ready is (state in ("Ready", "Foreign"))


def test_before_the_first_look_no_state_is_claimed() -> None:
    assert set(Node().states().values()) == {0}
    assert Node().value("last_change_timestamp_seconds") is None


def test_changes_are_counted_by_how_they_ended_and_start_at_zero() -> None:
    node = Node()
    for result in ("succeeded", "failed", "failed", "abandoned"):
        node.shown.changes[result] += 1

    found = {result: node.value("changes_total", result=result) for result in ("succeeded", "failed", "abandoned")}

    assert found == {"succeeded": 1, "failed": 2, "abandoned": 1}
    assert Node().value("changes_total", result="abandoned") == 0


def test_a_step_tells_how_long_it_took_and_how_often_it_failed() -> None:
    node = Node()
    node.shown.step("load-modules", "begun", 0)
    assert node.value("step_seconds", step="load-modules") is None
    node.shown.step("load-modules", "failed", 2.5)

    assert node.value("step_seconds", step="load-modules") == 2.5
    assert node.value("step_failures_total", step="load-modules") == 1

    node.shown.step("load-modules", "done", 0.5)

    assert node.value("step_seconds", step="load-modules") == 0.5
    assert node.value("step_failures_total", step="load-modules") == 1


@pytest.mark.parametrize(("held_s", "told"), [(None, 0), (3601.0, 3601)])
def test_it_tells_for_how_long_a_lease_has_been_held(held_s: float | None, told: float) -> None:
    assert Node(held_s=held_s).value("lease_held_seconds") == told


def test_our_driver_is_named_with_its_kernel_and_the_time_of_its_change() -> None:
    node = Node(settings.current())

    assert node.value("info", version="2.0.1", source="prebuilt", kernel=machines.KERNEL) == 1
    assert node.value("last_change_timestamp_seconds") == 1767323045


def test_a_driver_of_others_has_a_kernel_and_no_version() -> None:
    node = Node(settings.current(record=record.Record()))

    assert node.value("info", version="", source="", kernel=machines.KERNEL) == 1
    assert node.value("last_change_timestamp_seconds") is None


def test_a_device_without_an_entry_is_counted_and_told_by_a_host_that_is_ready(
    machine: machines.Machine, image: Path
) -> None:
    settings.installed(machine, image)
    (first, *_) = [address for address in machine.entries().values() if machine.driver(address) == "hisi_zip"]
    machine.pass_through(first, driver="")
    with incidents.Crew(machine) as crew:
        shown = crew.job("2.0.1").settle()

    node = Node()
    node.shown.served = shown.served
    assert (node.value("dead_devices", kind="zip"), node.value("dead_devices", kind="hpre")) == (1, 0)
    assert (shown.state, shown.reason) == (
        "Ready",
        f"The driver 2.0.1 is loaded and verified. Without an entry in /sys/class/uacce: zip {first}.",
    )


def test_only_a_new_state_or_reason_is_news() -> None:
    shown = driver_state.DriverState()

    news = [shown.update(*each) for each in (("Ready", "a"), ("Ready", "a"), ("Ready", "b"), ("Failed", "b"))]

    assert news == [True, False, True, True]


def test_the_process_tells_of_itself() -> None:
    text = prometheus_client.generate_latest(Node().registry).decode()

    assert "process_resident_memory_bytes" in text
    assert "python_gc" not in text


def test_every_name_and_label_that_alerts_and_dashboards_use_is_there() -> None:
    node = Node(settings.current())
    node.shown.step("load-modules", "failed", 1)
    node.shown.served = {"zip": {"0000:75:00.0": True}}

    metrics.assert_known(node.registry, "kae_driver", {"policy", "pool", "node"})
