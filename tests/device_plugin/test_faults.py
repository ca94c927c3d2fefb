from pathlib import Path

from tests.device_plugin import faults


async def test_after_each_fault_the_kubelet_sees_exactly_the_right_devices(short_path: Path) -> None:
    # How soon is measured by `make faults`; here other tests take the processors.
    rig = faults.Rig(short_path, seed=1, quiet_s=20)

    await rig.run(60)

    assert rig.counts["  allocated"] > 10
