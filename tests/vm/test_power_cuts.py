"""Power cuts in the middle of a change; `python -m tests.vm.power_cuts` cuts in all steps."""

import pytest

from tests.vm import host, power_cuts


@pytest.mark.parametrize("step", ["place-modules", "load-modules", "record-driver"])
def test_a_power_cut_in_a_change_leaves_one_whole_driver_that_udev_loads(shared: host.Host, step: str) -> None:
    assert shared.install("2.0.1").state == "Ready"

    outcome = power_cuts.cut(shared, power_cuts.Cut(step=step))

    assert outcome.faults() == (), outcome
