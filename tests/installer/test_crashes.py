"""Kills of the installer, as many as a test run has time for; `make crashes` has them all."""

import pytest

from tests.installer import crashes


@pytest.mark.long
@pytest.mark.parametrize(
    ("afterwards", "ends"), [("restart", {("new", False)}), ("reboot", {("new", False), ("old", True)})]
)
def test_an_upgrade_ends_with_a_driver_that_was_proved_wherever_it_was_killed(
    afterwards: str, ends: set[tuple[str, bool]]
) -> None:
    results = crashes.matrix(
        lambda step: list(crashes.cases("prebuilt", "upgrade", step, ((afterwards, crashes.LUCKS[0]),))),
        lambda batch: list(map(crashes.alone, batch)),
    )

    assert [f"{made.case}: {made.wrong}" for made in results if made.wrong] == []
    assert {(made.ended, made.crashed) for made in results} == ends
    assert "unload-modules" in {made.killed_after for made in results}
