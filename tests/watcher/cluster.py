"""The nodes of a cluster whose state changes by chance."""

import itertools
import math
import random
import time
from typing import Any

from compiler import kae
from tests.watcher import api, fleet, forkserver

_LEAST, _MOST = 8, 12
"""Nodes: never so few that a loss would wait for a person."""

_LABEL = f"{kae.KINDS[0].resource}.pf"


class Cluster:
    """Lets things happen to the nodes of an API server."""

    def __init__(self, server: api.Api, chance: random.Random) -> None:
        self.fleeting: set[int] = set()
        """Versions of nodes that nobody could see for long enough."""
        self._api = server
        self._random = chance
        self._serial = 0
        for number in range(_LEAST):
            self._api.put(self._node(f"node-{number:02}"))

    def change(self) -> None:
        names = sorted(self._api.nodes)
        if len(names) < _MOST and self._random.random() < 0.2:
            free = [name for number in range(_MOST) if (name := f"node-{number:02}") not in names]
            self._api.put(self._node(self._random.choice(free)))
        elif len(names) > _LEAST and self._random.random() < 0.3:
            self._api.remove(self._random.choice(names))
        else:
            self._api.put(self._node(self._random.choice(names)))

    def flicker(self) -> None:
        """A node is another one for moments, each too short for the quiet time, and in the end what it was."""
        old = self._api.nodes[self._random.choice(sorted(self._api.nodes))]
        name = old["metadata"]["name"]
        # Not for so long that a node which never keeps still is committed all the same.
        end_s = time.monotonic() + 5 * forkserver.QUIET_S
        told_s = []
        while time.monotonic() < end_s:
            told_s.append(self._tell(self._node(name)))
            time.sleep(forkserver.QUIET_S / 5)
        told_s.append(self._tell(old))
        for (version, since_s), (_, until_s) in itertools.pairwise(told_s):
            # On a busy machine a moment may be long enough.
            if until_s - since_s < forkserver.QUIET_S / 2:
                self.fleeting.add(version)

    def vanish(self) -> None:
        """A node is another one, and what it was again, before anybody can have asked."""
        with self._api.condition:
            old = self._api.nodes[self._random.choice(sorted(self._api.nodes))]
            self.fleeting.add(self._api.put(self._node(old["metadata"]["name"])))
            self._api.put(old)

    def _tell(self, node: api.Node) -> tuple[int, float]:
        """The version, and when the watcher had heard of it; infinity where it did not."""
        version = self._api.put(node)
        name = node["metadata"]["name"]
        with self._api.condition:
            heard = self._api.condition.wait_for(lambda: self._api.told.get(name, 0) >= version, 0.5)
        return version, time.monotonic() if heard else math.inf

    def _node(self, name: str) -> dict[str, Any]:
        self._serial += 1
        kernel = self._random.choice((fleet.KERNEL,) * 5 + (f"{fleet.KERNEL}.new",))
        labels = {
            "kubernetes.io/hostname": name,
            "serial": str(self._serial),
            "feature.node.kubernetes.io/kernel-version.major": "5",
            _LABEL: str(self._random.randint(6, 8)),
        }
        info = {"architecture": "arm64", "kernelVersion": kernel, "kubeletVersion": "v1.36.3", "osImage": "openEuler"}
        return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {"nodeInfo": info}}
