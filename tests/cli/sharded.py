"""Fleets whose clusters are shared out among shards, as `kae init --shards` has their jobs do it."""

import shutil

from compiler.project.by_cluster import shards
from tests import in_process
from tests.cli.jobs import World, inventory

CLUSTERS = tuple(f"c{number}" for number in range(9))
"""So many that each of three or four shards has one."""

SHARD = "%(trailers:key=Kae-Shard,valueonly)"
"""git's format for the shard that a commit is of."""


def of_shard(shard: str) -> list[str]:
    """Return the clusters of a shard, which KAE_SHARD has in this form."""
    return shards.parse(shard).of(CLUSTERS)


def begin(world: World, count: int) -> None:
    """Make the bare repository, with a fleet of clusters with nodes that is compiled."""
    world.begin("--shards", str(count), "--cluster", CLUSTERS[0], "--registry", "registry.example.com/team")
    clone = world.clone("begin")
    text = (clone / "policies/cluster.yaml").read_text("utf-8")
    for name in CLUSTERS:
        (clone / f"policies/{name}.yaml").write_text(text.replace(CLUSTERS[0], name), "utf-8")
        nodes = inventory(f"{name}-01", f"{name}-02", cluster=name)
        (clone / f"inventory/{name}.json").write_text(nodes, "utf-8")
    (clone / "policies/cluster.yaml").unlink()
    answer = in_process.kae(clone, "compile")
    assert answer.code == 0, answer.err
    world.commit(clone, "Add clusters")
    world.git(clone, "push", "--quiet")


def tree_of_one_compile(world: World) -> str:
    """Return git's name of output/ as one compile makes it of the main line's documents, from nothing but these."""
    clone = world.clone("whole")
    shutil.rmtree(clone / "output")
    world.git(clone, "rm", "--quiet", "-r", "--cached", "output")
    answer = in_process.kae(clone, "compile")
    assert answer.code == 0, answer.err
    world.git(clone, "add", "--all", "--force", "output")
    return world.git(clone, "rev-parse", f"{world.git(clone, 'write-tree')}:output")
