"""Claims that the node remembers, and nobody else does: a kubelet that lost its checkpoint never has them ended.

A kubelet that knows a claim has it ended within a minute after its pod is none of its own any more (reconcileLoop of
pkg/kubelet/cm/dra/manager.go), also of a pod that was deleted by force.
"""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Mapping

from device_plugin.dra import api_server, claims, held, resource_claims
from device_plugin.host import paths
from runtime import errors

LOG = logging.getLogger(__name__)

_LOOK_S = 60.0
_FORGOTTEN_S = 300.0
"""For so long nobody else has to know a claim before it is ended."""


class Forgotten:
    """The claims that neither the kubelet nor the API server knows."""

    def __init__(self, where: paths.Paths, server: api_server.ApiServer, known: claims.Claims) -> None:
        self.unknown: Mapping[str, float] = {}
        """When each was first known to nobody else, by uid; in seconds of a monotonic clock."""
        self._where, self._server, self._claims = where, server, known
        self._doubted = asyncio.Event()

    def doubt(self) -> None:
        """Look soon."""
        self._doubted.set()

    async def wait(self) -> None:
        """Return when it is time to look."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._doubted.wait(), _LOOK_S)
        self._doubted.clear()

    async def look(self) -> list[str]:
        """Ask both, and return the claims that are to be ended."""
        try:
            unknown = await self._asked()
        except errors.Failure:
            # Nobody says anything new; a uid that was unknown to both comes back to neither.
            return []
        now = time.monotonic()
        self.unknown = {uid: self.unknown.get(uid, now) for uid in unknown}
        found = [uid for uid, since in self.unknown.items() if now - since >= _FORGOTTEN_S]
        for uid in found:
            if (claim := self._claims.get(uid)) is not None:
                LOG.warning("A claim is ended that nobody else knows.", extra={"claim": claim.text})
        return found

    async def _asked(self) -> list[str]:
        if not len(self._claims):
            return []
        of_pods = await held.by_claim(self._where.pod_resources)
        names = Counter((claim.namespace, claim.name) for _, claim in self._claims.items())
        # The kubelet says no uid: where two have one name, the API server decides.
        asked = [
            (uid, claim)
            for uid, claim in self._claims.items()
            if (claim.namespace, claim.name) not in of_pods or names[claim.namespace, claim.name] > 1
        ]
        return [uid for uid, claim in asked if not await self._is_known(uid, claim)]

    async def _is_known(self, uid: str, claim: claims.Claim) -> bool:
        """Return whether the API server has a claim; raises `errors.Failure` where it does not say."""
        try:
            stored = await resource_claims.stored(self._server, claim.namespace, claim.name)
        except api_server.ApiError as error:
            if error.status == 404:
                return False
            raise
        return stored.metadata.uid == uid
