"""Clears up after the owner of a cluster: waits until standard input ends, as it does when the owner does."""

import sys

from tests.cluster.local import instances, ownership


def main() -> None:
    """Wait for the end of standard input, then clear up the cluster of the number in the first argument."""
    sys.stdin.read()
    ownership.clear(instances.Instance(number=int(sys.argv[1])))


if __name__ == "__main__":
    main()
