"""The time of a change is that of its steps, with what is looked up between two of them."""

import time
from collections.abc import Iterator

import pytest

from installer import change_steps


def test_steps_last_from_the_end_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, told = [100.0], {}

    def passes(seconds: float) -> None:
        clock[0] += seconds

    def steps() -> Iterator[change_steps.Step]:
        yield change_steps.Step("unload-modules", "", lambda: passes(2))
        passes(5)
        yield change_steps.Step("load-modules", "", lambda: passes(1))

    def progress(step: change_steps.Step, event: str, seconds: float) -> None:
        if event == "begun":
            passes(0.5)  # A label is written.
        else:
            told[step.name] = seconds

    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    change_steps.run(steps(), progress)

    assert told == {"unload-modules": 2.5, "load-modules": 6.5}
    assert sum(told.values()) == clock[0] - 100
