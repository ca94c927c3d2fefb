"""The share of a machine in the clusters of a fleet."""

import pytest

from compiler.project.by_cluster import shards

NAMES = [f"cluster-{number:03d}" for number in range(1000)]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64])
def test_each_cluster_is_in_one_shard(count: int) -> None:
    parts = [shards.Shard(index, count).of(NAMES) for index in range(count)]

    assert sorted(name for part in parts for name in part) == NAMES
    assert min(map(len, parts)) > 0


def test_a_cluster_that_joins_moves_no_other_one() -> None:
    shard = shards.Shard(2, 5)

    assert [name for name in shard.of([*NAMES, "new"]) if name != "new"] == shard.of(NAMES)


def test_the_shard_of_a_name_stays_for_ever() -> None:
    """Machines with other releases of kae compile other shards of the same fleet."""
    assert [shards.Shard(index, 4).of(["east", "west", "north", "south"]) for index in range(4)] == [
        ["west"],
        ["north"],
        ["east"],
        ["south"],
    ]


@pytest.mark.parametrize("text", ["0/1", "3/4", "0/999999"])
def test_a_shard_is_written_as_it_is_read(text: str) -> None:
    assert str(shards.parse(text)) == text


@pytest.mark.parametrize("text", ["", "4/4", "1", "1/0", "-1/4", "0/4 ", "a/b", "0/4000000", "\u0660/\u0664"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no shard: write I/N"):
        shards.parse(text)
