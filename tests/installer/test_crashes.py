"""Kills of the installer, as many as a test run has time for; `make crashes` has them all."""

import pytest

from tests.installer import crashes


@pytest.mark.parametrize(("afterwards", "luck"), crashes.HALF)
def test_an_upgrade_ends_with_a_whole_driver_wherever_it_was_killed(afterwards: str, luck: str) -> None:
    results = crashes.matrix(
        lambda step: list(crashes.cases("prebuilt", "upgrade", step, [(afterwards, luck)])),
        lambda batch: list(map(crashes.alone, batch)),
    )

    assert [f"{made.case}: {made.wrong}" for made in results if made.wrong] == []
    assert {made.ended for made in results} == {"new" if luck == crashes.LUCKS[0] else "old"}
    assert "unload-modules" in {made.killed_after for made in results}


def test_a_removal_ends_with_a_clean_host_wherever_it_was_killed() -> None:
    results = crashes.matrix(
        lambda step: list(crashes.cases("prebuilt", "removal", step, crashes.HALF)),
        lambda batch: list(map(crashes.alone, batch)),
    )

    assert [f"{made.case}: {made.wrong}" for made in results if made.wrong] == []
    assert {made.ended for made in results} == {"none"}
