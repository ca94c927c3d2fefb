"""The share of a machine in the clusters of a fleet."""

import re
from collections.abc import Iterable
from typing import NamedTuple


class Shard(NamedTuple):
    """One of several parts of a fleet, counted from 0; a cluster's part follows from its name alone."""

    index: int = 0  # type: ignore[assignment]  # no caller asks for the methods of tuples
    count: int = 1  # type: ignore[assignment]

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def takes(self, cluster: str) -> bool:
        """Return whether a cluster is in this part, whatever other clusters there are."""
        import hashlib  # noqa: PLC0415 - 5 ms, which help saves

        return int.from_bytes(hashlib.sha256(cluster.encode()).digest()[:8]) % self.count == self.index

    def of(self, clusters: Iterable[str]) -> list[str]:
        """Return those of the clusters that are in this part."""
        return [name for name in clusters if self.takes(name)]


def parse(text: str) -> Shard:
    """Return the shard of a text `I/N`, with I from 0. Raises ValueError."""
    match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
    if match is None or not int(match[1]) < int(match[2]):
        raise ValueError(f"'{text}' is no shard: write I/N with I from 0 to N-1, such as 0/4.")
    return Shard(int(match[1]), int(match[2]))
