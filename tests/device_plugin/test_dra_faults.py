"""The interface DRA under seeded faults: no device is given twice or by wrong numbers, and all of it mends itself."""

import pytest

from device_plugin.dra import claims
from tests import effort
from tests.device_plugin import dra_faults

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    dra_faults.quicken(monkeypatch.setattr)


@pytest.mark.seeded
async def test_after_any_faults_each_device_has_one_claim_and_all_are_offered() -> None:
    counts = await dra_faults.run(seed=1, faults=effort.examples(gate=25, long=200))

    assert counts["prepared"] > 3


@pytest.mark.long
async def test_the_oracle_notices_a_device_that_is_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims.Claims, "conflict", lambda *_: None)

    with pytest.raises(dra_faults.WrongError, match="is given to"):
        for seed in range(20):
            await dra_faults.run(seed=seed, faults=50)
