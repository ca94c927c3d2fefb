"""Waves that are shares: fixed for ever by the nodes' names, as large as was asked, and growing without reshuffling."""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence

import hypothesis
import pytest
from hypothesis import strategies as st

from compiler.inventory import snapshot
from compiler.planning import pools
from tests import builders, effort

NAMING = "kp920-{:06}"
OTHERS = ("node-{}", "kp920-rack{}", "kae{:05}.rack.example.com", "ip-10-3-{}.eu-west-1.compute.internal")

WITH_DEVICES = builders.profile()
BARE = builders.profile(labels={"feature.node.kubernetes.io/cpu-model.vendor_id": "HiSilicon"})
OPTED_OUT = builders.profile(labels=builders.HPRE | {"openfuyao.com/kae.deploy.driver": "false"})
TAINTED = builders.profile(taints=[builders.taint("dedicated=db:NoSchedule")])


def grouped(
    nodes: Sequence[snapshot.Node], bounds: Sequence[float], frozen: Sequence[str] = ()
) -> dict[str, str | None]:
    """The group of each node where waves, named after their places, have these bounds in percent."""
    waves = [{"name": f"w{index}", "percent": bound} for index, bound in enumerate(bounds)]
    sick = [{"name": "sick", "version": "2.1.0", "nodes": list(frozen)}] if frozen else []
    driver = {"version": "2.2.0", "rollout": {"waves": waves, "frozen": sick}}
    seen, _ = builders.view([builders.policy("tls", driver=driver)], nodes)
    (division,) = seen.divisions
    return {node.name: group.name if (group := division.group(node.name)) else None for node in nodes}


def named(naming: str, numbers: Iterable[int]) -> list[snapshot.Node]:
    return [builders.node(naming.format(number), machine=WITH_DEVICES) for number in numbers]


# Of an ideal hash, half of 10,000 nodes is off by half a point in one fleet of three, and by one point in one of
# twenty: the names of one site are held to what was asked, those of all others to three such deviations.
@pytest.mark.parametrize(
    ("naming", "points", "bounds"),
    [
        (NAMING, 1, (50,)),
        (NAMING, 1, (1, 5, 25, 60)),
        (OTHERS[0], 1.5, (1, 5, 25, 60)),
        pytest.param(NAMING, 1, range(10, 100, 10), marks=pytest.mark.long),
        *(pytest.param(naming, 1.5, (1, 5, 25, 60), marks=pytest.mark.long) for naming in OTHERS[1:]),
    ],
)
def test_each_share_of_ten_thousand_nodes_is_what_was_asked(naming: str, points: float, bounds: Sequence[int]) -> None:
    found = Counter(grouped(named(naming, range(10_000)), bounds).values())

    asked = [high - low for low, high in itertools.pairwise((0, *bounds, 100))]
    rollout_groups = [*(f"w{index}" for index in range(len(bounds))), "rest"]
    assert [found[name] / 100 for name in rollout_groups] == [pytest.approx(share, abs=points) for share in asked]


@pytest.mark.parametrize("naming", [NAMING, *OTHERS])
def test_a_canary_of_five_percent_has_a_node_of_twenty(naming: str) -> None:
    fleets = [named(naming, range(at, at + 20)) for at in range(0, 1000, 20)]

    sizes = [Counter(grouped(nodes, (5,)).values())["w0"] for nodes in fleets]

    below = [sum(pools.bucket(node.name) < 500 for node in nodes) for nodes in fleets]
    assert 0 in below
    assert sizes == [count or 1 for count in below]


@pytest.mark.parametrize("undriven", [BARE, TAINTED], ids=["bare", "tainted"])
def test_a_canary_is_a_node_to_which_a_driver_comes(undriven: snapshot.Profile) -> None:
    lowest_first = sorted((NAMING.format(number) for number in range(20)), key=pools.bucket)
    away = lowest_first[:4]
    nodes = [builders.node(name, machine=undriven if name in away else WITH_DEVICES) for name in lowest_first]

    found = grouped(nodes, (0.01,))

    assert [name for name, group in found.items() if group == "w0"] == [lowest_first[4]]


def test_a_canary_that_opts_out_hands_its_driver_to_no_other_node() -> None:
    lowest_first = sorted((NAMING.format(number) for number in range(20)), key=pools.bucket)
    machines = {lowest_first[0]: OPTED_OUT}
    nodes = [builders.node(name, machine=machines.get(name, WITH_DEVICES)) for name in lowest_first]

    found = grouped(nodes, (0.01,))

    assert [name for name, group in found.items() if group == "w0"] == [lowest_first[0]]


NUMBERS = st.sets(st.integers(0, 3000), min_size=1, max_size=40)
BOUNDS = st.lists(st.integers(1, 10_000), min_size=2, max_size=5, unique=True).map(sorted)


@hypothesis.settings(max_examples=effort.examples(gate=15, long=60))
@hypothesis.given(NUMBERS, BOUNDS, st.data())
def test_raising_a_bound_moves_only_nodes_into_that_wave(
    numbers: set[int], hundredths: list[int], data: st.DataObject
) -> None:
    names = [NAMING.format(number) for number in sorted(numbers)]
    away = data.draw(st.dictionaries(st.sampled_from(names), st.sampled_from((BARE, OPTED_OUT, TAINTED))))
    frozen = sorted(data.draw(st.sets(st.sampled_from(names), max_size=3)))
    raised = data.draw(st.integers(0, len(hundredths) - 2))
    higher = data.draw(st.integers(hundredths[raised], hundredths[raised + 1] - 1))
    nodes = [builders.node(name, machine=away.get(name, WITH_DEVICES)) for name in names]
    bounds = [bound / 100 for bound in hundredths[:-1]]

    before = grouped(nodes, bounds, frozen)
    after = grouped(nodes, [*bounds[:raised], higher / 100, *bounds[raised + 1 :]], frozen)

    assert {after[name] for name in names if after[name] != before[name]} <= {f"w{raised}"}
