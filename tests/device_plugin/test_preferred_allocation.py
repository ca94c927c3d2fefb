"""Which of the free devices a container should get: wishes by example, promises for whatever is asked."""

import itertools
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_plugin.kubelet import advertised, preferred_allocation
from device_plugin.kubelet.preferred_allocation import Load, Request

BOTH = pytest.mark.parametrize("packed", [False, True], ids=["Balanced", "Packed"])


def shares(*devices: str, count: int = 1) -> tuple[str, ...]:
    return tuple(advertised.replica_id(device, index) for device in devices for index in range(count))


def chosen(
    available: tuple[str, ...],
    size: int,
    loads: dict[str, Load] | None = None,
    *,
    required: tuple[str, ...] = (),
    packed: bool = False,
) -> list[str]:
    """The devices of what is preferred, in order; a device comes once for each share."""
    request = Request(available=available, required=required, size=size)
    return sorted(map(advertised.address_of, preferred_allocation.preferred(request, loads or {}, packed=packed)))


def nodes(**devices: int) -> dict[str, Load]:
    return {device: Load(numa_node=node, free_queues=100) for device, node in devices.items()}


@BOTH
def test_what_was_given_already_is_kept(packed: bool) -> None:
    request = Request(available=shares("a", "b", "c"), required=("c",), size=2)

    found = preferred_allocation.preferred(request, nodes(a=0, b=0, c=1), packed=packed)

    assert found[0] == "c"
    assert len(set(found)) == 2


@BOTH
def test_shares_are_spread_evenly_once_every_device_is_there(packed: bool) -> None:
    assert Counter(chosen(shares("a", "b", count=4), 5, packed=packed)).most_common() in (
        [("a", 3), ("b", 2)],
        [("b", 3), ("a", 2)],
    )


@BOTH
def test_the_numa_node_of_what_was_given_is_kept(packed: bool) -> None:
    loads = nodes(a=0, b=1, c=1, d=1, e=0)

    assert chosen(shares("a", "b", "c", "d", "e"), 2, loads, required=("a",), packed=packed) == ["a", "e"]


def test_balanced_begins_where_most_is_free() -> None:
    assert chosen(shares("a", "b", "c"), 1, nodes(a=0, b=1, c=1)) == ["b"]


def test_packed_begins_where_it_just_fits() -> None:
    assert chosen(shares("a", "b", "c"), 1, nodes(a=0, b=1, c=1), packed=True) == ["a"]
    assert chosen(shares("a", "b", "c", "d", "e", "f"), 2, nodes(a=0, b=1, c=1, d=2, e=2, f=2), packed=True) == [
        "b",
        "c",
    ]


def test_balanced_takes_the_device_with_the_most_free_shares() -> None:
    assert chosen(("a", "b", "b::1"), 1) == ["b"]
    assert chosen(("a", "b", "b::1"), 1, packed=True) == ["a"]


def test_among_equals_balanced_takes_the_device_with_the_most_free_queues() -> None:
    loads = {"a": Load(free_queues=10), "b": Load(free_queues=90), "c": Load(free_queues=50)}

    assert chosen(shares("a", "b", "c"), 1, loads) == ["b"]
    assert chosen(shares("a", "b", "c"), 1, loads, packed=True) == ["a"]


@BOTH
def test_the_lowest_share_of_a_device_goes_first(packed: bool) -> None:
    request = Request(available=("a::1", "a", "a::2"), required=(), size=2)

    assert preferred_allocation.preferred(request, {}, packed=packed) == ("a", "a::1")


@BOTH
def test_everything_is_given_where_more_is_asked_than_there_is(packed: bool) -> None:
    assert chosen(shares("a", "b"), 2**31 - 1, packed=packed) == ["a", "b"]


@BOTH
def test_a_full_node_of_shared_devices_is_answered_for_in_a_moment(packed: bool) -> None:
    devices = tuple(f"0000:{bus:02x}:00.{function}" for bus in range(64) for function in range(3))
    loads = {device: Load(numa_node=index % 4) for index, device in enumerate(devices)}

    assert len(set(chosen(shares(*devices, count=16), 8, loads, packed=packed))) == 8


# Some are known, some are shares, some are garbage.
IDS = st.one_of(
    st.sampled_from([f"{device}{share}" for device in "abcdef" for share in ("", "::1", "::2")]),
    st.sampled_from(["", "::", "::1", "a::", "a::x", "b::1::1", "0000:79:00.0", "é\0"]),
    st.text(max_size=5),
)
REQUESTS = st.builds(
    Request, available=st.lists(IDS, max_size=12), required=st.lists(IDS, max_size=4), size=st.integers(-2, 20)
)
LOADS = st.dictionaries(
    st.sampled_from("abcdef"), st.builds(Load, numa_node=st.none() | st.integers(0, 3), free_queues=st.integers(0, 3))
)


@given(REQUESTS, LOADS, st.booleans())
def test_whatever_is_asked_the_answer_is_as_long_as_it_can_be_and_of_what_was_named(
    request: Request, loads: dict[str, Load], packed: bool
) -> None:
    found = preferred_allocation.preferred(request, loads, packed=packed)

    reachable = set(request.available) | set(request.required)
    assert len(found) == len(set(found)) == max(0, min(request.size, len(reachable)))
    assert set(found) <= reachable
    if len(set(request.required)) <= request.size:
        assert set(request.required) <= set(found)
    else:
        assert set(found) <= set(request.required)


@given(REQUESTS, LOADS, st.booleans(), st.randoms(use_true_random=False))
def test_the_order_in_which_ids_are_named_is_nothing_to_the_answer(
    request: Request, loads: dict[str, Load], packed: bool, dice: random.Random
) -> None:
    shuffled = list(request.available)
    dice.shuffle(shuffled)

    again = Request(available=shuffled, required=request.required, size=request.size)

    assert preferred_allocation.preferred(again, loads, packed=packed) == preferred_allocation.preferred(
        request, loads, packed=packed
    )


def exhaustive() -> list[Request]:
    """Every request for some of up to six shares of three devices."""
    pool = ("a", "a::1", "a::2", "b", "b::1", "c")
    return [
        Request(available=available, required=required, size=size)
        for count in range(len(pool) + 1)
        for available in itertools.combinations(pool, count)
        for required in ((), *((replica,) for replica in available))
        for size in range(1, count + 1)
    ]


@BOTH
def test_no_choice_has_more_different_devices_than_ours(packed: bool) -> None:
    wishes = exhaustive()
    for request in wishes:
        found = preferred_allocation.preferred(request, nodes(a=0, b=1, c=0), packed=packed)

        best = max(
            len(set(map(advertised.address_of, choice)))
            for choice in itertools.combinations(request.available, request.size)
            if set(request.required) <= set(choice)
        )
        assert len(set(map(advertised.address_of, found))) == best, request
    assert len(wishes) > 500


@BOTH
def test_no_choice_of_different_devices_uses_fewer_numa_nodes_than_ours(packed: bool) -> None:
    devices = tuple("abcdef")
    for layout in itertools.product(range(3), repeat=len(devices)):
        loads = nodes(**dict(zip(devices, layout, strict=True)))
        room = sorted(Counter(layout).values(), reverse=True)
        for size in (2, 3, 5):
            found = chosen(devices, size, loads, packed=packed)

            fewest = next(count for count in range(1, 4) if sum(room[:count]) >= size)
            assert len({loads[device].numa_node for device in found}) == fewest, (layout, size)
