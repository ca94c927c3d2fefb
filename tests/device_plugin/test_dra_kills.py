"""The interface DRA after kills and power cuts: no claim is forgotten, no device given twice, and no file is torn."""

import pytest

from tests import effort
from tests.device_plugin import dra_kills

pytestmark = pytest.mark.long


@pytest.mark.seeded
@pytest.mark.parametrize("seed", range(effort.examples(gate=2, long=10)))
async def test_after_a_kill_or_a_power_cut_each_claim_has_its_device_and_each_file_is_whole(seed: int) -> None:
    counts = await dra_kills.run(seed)

    assert counts["prepared"]
