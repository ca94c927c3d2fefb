"""The running watcher: collects the changes of the nodes, and commits them once they have settled."""

import json
import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from compiler.inventory import canonical_form, snapshot
from runtime import errors, process, state
from watcher import commit_message, config, loss_guard, pending_changes, watcher_state
from watcher.git import repository

LOG = logging.getLogger(__name__)

_BEAT_S = 10.0
_STUCK_S = 900.0
"""Longer than several requests to a git host that answers none of them until their timeouts."""

_LOOK_S = 0.5
"""The longest pause between two checks for due work; a known due time makes it shorter."""

_AGAIN_S = (5.0, 120.0)
"""The first pause after git failed, and the longest; each is twice the one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Snapshot:
    """The desired content of the repository."""

    nodes: tuple[snapshot.Node, ...]
    content: bytes
    message: str
    """The commit message; empty when the repository has this content already."""
    objection: str
    """The reason why a person must agree; empty when no one has to."""


class Loop:
    """The pending changes, and the repository that receives them. The feed reports nodes from its own threads."""

    def __init__(
        self,
        settings: config.Config,
        store: repository.Repository,
        published: watcher_state.State,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Contact nothing yet."""
        self._settings = settings
        self._store = store
        self._state = published
        self._clock = clock
        self._pending = pending_changes.PendingChanges(settings.quiet_seconds, settings.removal_quiet_seconds)
        self._lock = threading.Lock()
        self._listed = False
        self._known: bytes | None = None
        """The file in the repository when it was last read."""
        self._held: bytes | None = None
        """The content that waits for a person."""
        self._clean = False
        """True when no content waits, as far as this process knows."""
        self._next_s = 0.0
        """The earliest time of the next git command."""
        self._commit_s = 0.0
        """The earliest time of the next commit."""
        self._look_s = 0.0
        """The latest time of the next fetch."""
        self._pause_s = _AGAIN_S[0]
        self._turned_s = clock()
        """The start of the last turn."""

    def listed(self, nodes: Sequence[snapshot.Node], newer: Collection[str] = ()) -> None:
        """Take a full list; for nodes with the newer names the earlier reports hold, removals included."""
        with self._lock:
            self._pending.replace(nodes, self._clock(), newer)
            self._state.nodes = self._pending.nodes
            self._listed = True
        if self._state.well("nodes"):
            LOG.info("The nodes are listed again.")

    def seen(self, node: snapshot.Node) -> None:
        """Take a new or changed node."""
        with self._lock:
            self._pending.see(node, self._clock())

    def missed(self, name: str) -> None:
        """Take the removal of a node."""
        with self._lock:
            self._pending.miss(name, self._clock())

    def failed(self, reason: str) -> None:
        """Take a failure of the API server."""
        if self._state.trouble("nodes", reason):
            LOG.error("The nodes cannot be listed: %s", reason)

    def run(self, stop: threading.Event, directory: state.ProgramDir) -> None:
        """Work until `stop` is set."""
        threading.Thread(target=self._beat, args=(stop, directory), name="beat", daemon=True).start()
        told: str | None = None
        while not stop.is_set():
            self._turned_s = self._clock()
            self.turn()
            reason = self._state.reason
            if reason and reason != told:
                directory.set_unready(reason)
            elif reason != told:
                directory.set_ready("The nodes are listed, and the repository is reached.")
            told = reason
            stop.wait(self._rest_s())
        directory.set_unready("The watcher has ended.")

    def _beat(self, stop: threading.Event, directory: state.ProgramDir) -> None:
        """Report that the program is alive, also while git waits for its host, but not for ever."""
        while self._clock() - self._turned_s < _STUCK_S:
            directory.beat()
            with self._lock:
                self._state.kept = self._pending.kept
            if stop.wait(_BEAT_S):
                return

    def turn(self) -> None:
        """Bring the repository up to date, if something is due."""
        with self._lock:
            if not self._listed or self._clock() < self._due_s():
                return
        if self._state.fails("nodes"):
            return  # Nodes may have come back, or gone, unseen.
        try:
            if self._clock() < self._commit_s:
                self._store.fetch()  # An alert fires when the repository was not reached for some intervals.
            else:
                self.publish()
        except process.Cancelled:
            return  # The program is ending, which is no failure.
        except errors.Failure as failure:
            self._next_s = self._clock() + self._pause_s * random.uniform(0.75, 1.25)  # noqa: S311 - spreads watchers
            self._pause_s = min(2 * self._pause_s, _AGAIN_S[1])
            if self._state.trouble("repository", str(failure)):
                LOG.error("The repository cannot be brought up to date: %s", failure)
            return
        self._pause_s = _AGAIN_S[0]
        self._look_s = self._clock() + self._settings.interval_seconds
        self._state.success_s = time.time()
        if self._state.well("repository"):
            LOG.info("The repository is reached again.")

    def publish(self, *, all_of_it: bool = False) -> bool:
        """Commit the settled changes, if there are any; return whether anything was pushed.

        With `all_of_it` every change counts as settled.

        Raises:
            errors.Failure: The repository cannot be reached, or refuses the commit.
        """
        looked: list[_Snapshot] = []

        def decide(fetched: repository.Fetched) -> repository.Change | None:
            looked[:] = [snapshot := self._snapshot(fetched, all_of_it=all_of_it)]
            if snapshot.objection or (fetched.content is None and not snapshot.nodes):
                return None
            return repository.Change(content=snapshot.content, message=snapshot.message)

        try:
            commit = self._store.publish(decide)
        finally:
            self._state.races = self._store.races
        (snapshot,) = looked
        if snapshot.objection:
            return self._hold(snapshot)
        if commit is not None:
            self._committed(snapshot, commit)
        self._release()
        return commit is not None

    def _snapshot(self, fetched: repository.Fetched, *, all_of_it: bool) -> _Snapshot:
        is_known = fetched.content == self._known
        published = () if is_known else self._nodes_of(fetched.content)
        with self._lock:
            if not is_known:
                self._pending.publish(published, self._clock())
                self._known = fetched.content
            old = self._pending.published
            new = self._pending.settled(self._clock(), all_of_it=all_of_it)
            self._state.kept = 0 if all_of_it else self._pending.kept
        content = canonical_form.text(self._inventory(new)).encode()
        if content == fetched.content:
            return _Snapshot(nodes=new, content=content, message="", objection="")
        settings = self._settings
        message = commit_message.message(settings.message_template, settings.cluster, old, new)
        objection = loss_guard.objection(old, new, settings.max_loss_percent)
        return _Snapshot(nodes=new, content=content, message=message, objection=objection)

    def _committed(self, snapshot: _Snapshot, commit: str) -> None:
        with self._lock:
            self._pending.publish(snapshot.nodes, self._clock())
            self._known = snapshot.content
            self._state.kept = self._pending.kept
        self._state.commits += 1
        self._commit_s = self._clock() + self._settings.min_commit_seconds
        LOG.info("Committed: %s", snapshot.message.splitlines()[0], extra={"commit": commit})

    def _hold(self, snapshot: _Snapshot) -> bool:
        # The difference stays due until a person agrees, or it is gone.
        self._commit_s = self._clock() + self._settings.min_commit_seconds
        if snapshot.content == self._held:
            return False
        text = f"{snapshot.message}\nHeld back: {snapshot.objection} Merging this branch is the agreement.\n"
        commit = self._store.hold(snapshot.content, text)
        self._held, self._clean = snapshot.content, False
        self._state.held = snapshot.objection
        self._state.holds += commit is not None
        LOG.warning("A snapshot is held back: %s", snapshot.objection)
        return commit is not None

    def _release(self) -> None:
        """Delete the branch of held snapshots, so that an old one is not merged later."""
        # After a restart a held change must settle again, and somebody may be looking at the branch meanwhile.
        is_open = self._held is None and self._state.kept > 0
        if not self._clean and not is_open:
            self._store.unhold()
            self._held, self._clean = None, True
            if self._state.held:
                LOG.info("Nothing is held back any more.")
            self._state.held = ""

    def _due_s(self) -> float:
        """Return when the next work is due; the caller holds the lock."""
        due_s = self._pending.due_s()
        return max(self._next_s, min(self._look_s, max(self._commit_s, due_s if due_s is not None else self._look_s)))

    def _rest_s(self) -> float:
        """Return how long to wait."""
        with self._lock:
            left_s = self._due_s() - self._clock()
        return min(left_s, _LOOK_S) if left_s > 0 else _LOOK_S

    def _inventory(self, nodes: Sequence[snapshot.Node]) -> snapshot.Inventory:
        return snapshot.Inventory(cluster=snapshot.ClusterName(self._settings.cluster), file="", nodes=tuple(nodes))

    def _nodes_of(self, content: bytes | None) -> tuple[snapshot.Node, ...]:
        if content is None:
            return ()
        try:
            data = json.loads(content)
            return canonical_form.of_document("", data).nodes
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            # A damaged file does not mean that the cluster has no nodes. A person must restore or delete it.
            raise errors.Failure(
                f"The inventory in the repository is none ({type(error).__name__}): restore it, or delete it."
            ) from error
