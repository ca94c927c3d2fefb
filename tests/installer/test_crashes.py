"""Kills of the installer, as many as a test run has time for; `make crashes` has them all."""

import pytest

from tests.installer import crashes


@pytest.mark.long
def test_an_upgrade_ends_with_a_whole_driver_wherever_it_was_killed() -> None:
    results = crashes.matrix(
        lambda step: list(crashes.cases("prebuilt", "upgrade", step, crashes.HALF[:1])),
        lambda batch: list(map(crashes.alone, batch)),
    )

    assert [f"{made.case}: {made.wrong}" for made in results if made.wrong] == []
    assert {made.ended for made in results} == {"new"}
    assert "unload-modules" in {made.killed_after for made in results}


@pytest.mark.long
def test_after_a_reboot_an_upgrade_ends_with_a_driver_that_was_proved() -> None:
    results = crashes.matrix(
        lambda step: list(crashes.cases("prebuilt", "upgrade", step, (("reboot", crashes.LUCKS[0]),))),
        lambda batch: list(map(crashes.alone, batch)),
    )

    assert [f"{made.case}: {made.wrong}" for made in results if made.wrong] == []
    assert {(made.ended, made.crashed) for made in results} == {("new", False), ("old", True)}
