"""The running watcher: keeps the picture of the nodes, and brings the repository up to it when it has settled."""

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
"""Several questions to a git host that answers none of them, each with its own time, take less."""

_LOOK_S = 0.5
"""It is looked so often whether something new is due; and just when it is, where that is known before."""

_AGAIN_S = (5.0, 120.0)
"""The first pause after git failed, and the longest; each is twice the one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Snapshot:
    """What is to stand in the repository."""

    nodes: tuple[snapshot.Node, ...]
    content: bytes
    message: str
    """What changes; empty where the repository has just this."""
    objection: str
    """Why a person has to agree to that; empty where nobody has to."""


class Program:
    """The picture, and the repository that is to show it. The feed tells it of nodes, from its own threads."""

    def __init__(
        self,
        settings: config.Config,
        store: repository.Repository,
        shown: watcher_state.Standing,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is reached yet."""
        self._settings = settings
        self._store = store
        self._shown = shown
        self._clock = clock
        self._picture = pending_changes.Picture(settings.quiet_seconds, settings.removal_quiet_seconds)
        self._lock = threading.Lock()
        self._listed = False
        self._known: bytes | None = None
        """What the repository had when it was last looked at."""
        self._held: bytes | None = None
        """What waits for a person."""
        self._clean = False
        """Whether it is known that nothing waits."""
        self._next_s = 0.0
        """When git may be asked again at the earliest,"""
        self._commit_s = 0.0
        """and when it may be given something."""
        self._look_s = 0.0
        """When it is asked at the latest."""
        self._pause_s = _AGAIN_S[0]
        self._turned_s = clock()
        """When the last turn began."""

    def listed(self, nodes: Sequence[snapshot.Node], newer: Collection[str] = ()) -> None:
        """These are all; but what was said before of nodes with the newer names holds, also that they are gone."""
        with self._lock:
            self._picture.replace(nodes, self._clock(), newer)
            self._shown.nodes = self._picture.nodes
            self._listed = True
        if self._shown.well("nodes"):
            LOG.info("The nodes are listed again.")

    def seen(self, node: snapshot.Node) -> None:
        """A node is new, or is not what it was."""
        with self._lock:
            self._picture.see(node, self._clock())

    def missed(self, name: str) -> None:
        """A node is gone."""
        with self._lock:
            self._picture.miss(name, self._clock())

    def failed(self, reason: str) -> None:
        """The API server does not answer, or says no."""
        if self._shown.trouble("nodes", reason):
            LOG.error("The nodes cannot be listed: %s", reason)

    def run(self, stop: threading.Event, directory: state.ProgramDir) -> None:
        """Works until `stop` is set."""
        threading.Thread(target=self._beat, args=(stop, directory), name="beat", daemon=True).start()
        told: str | None = None
        while not stop.is_set():
            self._turned_s = self._clock()
            self.turn()
            reason = self._shown.reason
            if reason and reason != told:
                directory.set_unready(reason)
            elif reason != told:
                directory.set_ready("The nodes are listed, and the repository is reached.")
            told = reason
            stop.wait(self._rest_s())
        directory.set_unready("The watcher has ended.")

    def _beat(self, stop: threading.Event, directory: state.ProgramDir) -> None:
        """Says that the program is alive: also while git waits for its host, but not for ever."""
        while self._clock() - self._turned_s < _STUCK_S:
            directory.beat()
            with self._lock:
                self._shown.kept = self._picture.kept
            if stop.wait(_BEAT_S):
                return

    def turn(self) -> None:
        """Brings the repository up to the picture, if it is time to."""
        with self._lock:
            if not self._listed or self._clock() < self._due_s():
                return
        if self._shown.fails("nodes"):
            return  # What the picture says may have come back, or gone, without our seeing it.
        try:
            if self._clock() < self._commit_s:
                self._store.fetch()  # An alert tells of a repository that was not reached for some intervals.
            else:
                self.publish()
        except process.Cancelled:
            return  # We are to end, which is no trouble.
        except errors.Failure as failure:
            self._next_s = self._clock() + self._pause_s * random.uniform(0.75, 1.25)  # noqa: S311 - spreads watchers
            self._pause_s = min(2 * self._pause_s, _AGAIN_S[1])
            if self._shown.trouble("repository", str(failure)):
                LOG.error("The repository cannot be brought up to date: %s", failure)
            return
        self._pause_s = _AGAIN_S[0]
        self._look_s = self._clock() + self._settings.interval_seconds
        self._shown.success_s = time.time()
        if self._shown.well("repository"):
            LOG.info("The repository is reached again.")

    def publish(self, *, all_of_it: bool = False) -> bool:
        """Commits what has settled, if it differs from what the repository has; whether anything was pushed.

        With `all_of_it` nothing is waited for.

        Raises:
            errors.Failure: The repository cannot be reached, or does not take it.
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
            self._shown.races = self._store.races
        (snapshot,) = looked
        if snapshot.objection:
            return self._hold(snapshot)
        if commit is not None:
            self._committed(snapshot, commit)
        self._release()
        return commit is not None

    def _snapshot(self, fetched: repository.Fetched, *, all_of_it: bool) -> _Snapshot:
        is_known = fetched.content == self._known
        found = () if is_known else self._nodes_of(fetched.content)
        with self._lock:
            if not is_known:
                self._picture.publish(found, self._clock())
                self._known = fetched.content
            old = self._picture.published
            new = self._picture.settled(self._clock(), all_of_it=all_of_it)
            self._shown.kept = 0 if all_of_it else self._picture.kept
        content = canonical_form.text(self._inventory(new)).encode()
        if content == fetched.content:
            return _Snapshot(nodes=new, content=content, message="", objection="")
        settings = self._settings
        message = commit_message.message(settings.message_template, settings.cluster, old, new)
        objection = loss_guard.objection(old, new, settings.max_loss_percent)
        return _Snapshot(nodes=new, content=content, message=message, objection=objection)

    def _committed(self, snapshot: _Snapshot, commit: str) -> None:
        with self._lock:
            self._picture.publish(snapshot.nodes, self._clock())
            self._known = snapshot.content
            self._shown.kept = self._picture.kept
        self._shown.commits += 1
        self._commit_s = self._clock() + self._settings.min_commit_seconds
        LOG.info("Committed: %s", snapshot.message.splitlines()[0], extra={"commit": commit})

    def _hold(self, snapshot: _Snapshot) -> bool:
        # Until the difference is agreed to or gone it is due all the time.
        self._commit_s = self._clock() + self._settings.min_commit_seconds
        if snapshot.content == self._held:
            return False
        text = f"{snapshot.message}\nHeld back: {snapshot.objection} Merging this branch is the agreement.\n"
        commit = self._store.hold(snapshot.content, text)
        self._held, self._clean = snapshot.content, False
        self._shown.held = snapshot.objection
        self._shown.holds += commit is not None
        LOG.warning("A snapshot is held back: %s", snapshot.objection)
        return commit is not None

    def _release(self) -> None:
        """Nothing waits for a person any more: an old snapshot must not be merged later."""
        # After a restart it has to settle again what was held before, and somebody may be looking at the branch.
        is_open = self._held is None and self._shown.kept > 0
        if not self._clean and not is_open:
            self._store.unhold()
            self._held, self._clean = None, True
            if self._shown.held:
                LOG.info("Nothing is held back any more.")
            self._shown.held = ""

    def _due_s(self) -> float:
        """When there is something to do; the lock is held."""
        due_s = self._picture.due_s()
        return max(self._next_s, min(self._look_s, max(self._commit_s, due_s if due_s is not None else self._look_s)))

    def _rest_s(self) -> float:
        """How long nothing is to be done."""
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
            # Whoever broke it did not mean the cluster to have no nodes. A person has to look at it, or delete it.
            raise errors.Failure(
                f"The inventory in the repository is none ({type(error).__name__}): restore it, or delete it."
            ) from error
