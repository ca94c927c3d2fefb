"""Names derive from PCI addresses, and no two devices share one."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_plugin.host import paths
from runtime import pci

ADDRESSES = st.builds(
    "{:04x}:{:02x}:{:02x}.{}".format,
    st.integers(0, 0xFFFFF),
    st.integers(0, 0xFF),
    st.integers(0, 0x1F),
    st.integers(0, 7),
)


@pytest.mark.parametrize(
    ("address", "number"),
    [("0000:00:00.0", 0), ("0000:79:00.0", 30976), ("0000:79:01.7", 30991), ("10000:01:1f.7", 0x1000001FF)],
)
def test_the_number_of_an_address_is_its_parts_side_by_side(address: str, number: int) -> None:
    assert paths.number(address) == number


@given(st.lists(ADDRESSES, unique=True, min_size=2))
def test_different_addresses_have_different_numbers(addresses: list[str]) -> None:
    assert len({paths.number(address) for address in addresses}) == len(addresses)


@pytest.mark.parametrize(
    "text", ["", "79:00.0", "0000:79:00.8", "0000:79:20.0", "0000:7g:00.0", "0000:79:00.0\n", "0000:79:00.0::1", "../x"]
)
def test_what_is_no_address_is_known_as_such(text: str) -> None:
    assert not pci.ADDRESS.fullmatch(text)
    with pytest.raises(ValueError, match="is no PCI address"):
        paths.number(text)


def test_a_published_name_looks_like_one_of_the_kernel() -> None:
    assert paths.published_name("hisi_sec2", "0000:76:00.0") == "hisi_sec2-30208"


def test_everything_that_is_kept_on_the_host_lies_below_two_folders() -> None:
    where = paths.Paths(sysfs=Path("/s"), dev=Path("/d"), run=Path("/run/kae"), kubelet=Path("/k"), recipe="kae")

    kept = (where.links, where.shown, where.given, where.openssl, where.changing, where.lock)
    assert all(path.is_relative_to("/run/kae") for path in kept)
    assert len(set(kept)) == len(kept)
    assert where.sockets == Path("/k/plugins_registry/kae")
