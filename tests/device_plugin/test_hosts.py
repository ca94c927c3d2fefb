"""The fake host shows what the kernel shows."""

import os
from pathlib import Path

from tests.device_plugin import machines


def test_entries_are_numbered_as_probed_have_their_nodes_and_lead_to_their_functions(tmp_path: Path) -> None:
    host = machines.eight_vfs(tmp_path)
    host.set_vfs("0000:79:00.0", 0)
    host.renumber()

    entries = {entry.name: (entry / "device").resolve().name for entry in (host.sysfs / "class/uacce").iterdir()}
    assert entries == {str(state.entry): address for address, state in host.states().items()}
    for address, state in host.states().items():
        numbers = host.node(address).stat().st_rdev
        text = (host.sysfs / f"class/uacce/{state.entry}/dev").read_text()
        assert text == f"{os.major(numbers)}:{os.minor(numbers)}\n"
    links = [path for path in host.sysfs.rglob("*") if path.is_symlink()]
    assert all(link.resolve(strict=True).is_relative_to(host.sysfs) for link in links)
