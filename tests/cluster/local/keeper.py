"""Clears up after the owner of a cluster: waits until standard input ends, as it does when the owner does."""

import sys

from tests.cluster.local import instances, ownership


def main() -> None:
    """Waits, and clears up the cluster of the number that the first argument gives."""
    sys.stdin.read()
    ownership.clear(instances.Instance(number=int(sys.argv[1])))


if __name__ == "__main__":
    main()
