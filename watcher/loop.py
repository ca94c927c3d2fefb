"""The running watcher, in one thread: it lists and watches nodes, and commits the changes that have settled."""

import codecs
import logging
import math
import random
import threading
import time
from collections.abc import Callable, Iterator

import msgspec
from msgspec.structs import replace

from compiler import errors as compiler_errors
from compiler.inventory import canonical_form, reduction, snapshot
from compiler.kube import client
from runtime import errors, metrics, process, state
from runtime import watcher_config as config
from watcher import commit_message, inventory_file, loss_guard, nodes, pending_changes
from watcher.git import repository

LOG = logging.getLogger(__name__)

_WATCH_S = 4
"""The longest watch: between two, the program can beat and end. An API server serves one from memory."""

_AGAIN_S = {"nodes": (1.0, 30.0), "repository": (5.0, 120.0)}
"""The first pause after a failure, and the longest; each is twice the one before. Those of nodes are client-go's."""

_LOOK_S = 60.0
"""Between two looks for the acceptance of a refused loss, at least."""

_WORDS = 10
"""So many refused losses are remembered, whose words also accept less than them."""

_FORGOTTEN_S = 60.0
"""A version that the server drops sooner than this after a list is a failure, else lists follow on lists."""


class State(msgspec.Struct):
    """Written by the program's thread, read by that of the metrics server."""

    interval_s: float
    """The configured time between full lists."""
    nodes: int = 0
    kept: int = 0
    refused: int = 0
    commits: int = 0
    races: int = 0
    success_s: float | None = None
    """The last time when the nodes were listed and the repository was reached, in seconds since 1970."""
    troubles: dict[str, str] = msgspec.field(default_factory=dict)
    """What is wrong now, a sentence each: with `nodes` (the API server), the `repository` (git), or the `loss`."""
    failures: dict[str, int] = msgspec.field(default_factory=lambda: {"nodes": 0, "repository": 0, "loss": 0})

    @property
    def reason(self) -> str:
        """Return why the watcher is not ready; empty when it is."""
        return " ".join(self.troubles.values()) or ("" if self.success_s else "Nothing was listed yet.")

    def families(self) -> Iterator[metrics.Family]:
        """Yield the metrics; templates/monitoring/prometheusrule-kae.yaml alerts on their names."""
        yield _one("kae_watcher_nodes", "Nodes in the last full list.", self.nodes)
        kept = "Nodes kept in their old state, as their loss has not settled."
        yield _one("kae_watcher_nodes_kept", kept, self.kept)
        refused = "Nodes kept in their old state, as too much is lost."
        yield _one("kae_watcher_nodes_refused", refused, self.refused)
        yield _one("kae_watcher_interval_seconds", "The configured time between full lists.", self.interval_s)
        if self.success_s is not None:
            reached = "When the repository was last reached while the nodes were followed."
            yield _one("kae_watcher_last_success_timestamp_seconds", reached, self.success_s)
        yield _one("kae_watcher_commits", "Commits pushed.", self.commits, counts=True)
        lost = "Pushes refused because somebody else was faster."
        yield _one("kae_watcher_lost_races", lost, self.races, counts=True)
        failed = "Failures by part: nodes (the API server), repository (git), or loss (refused)."
        parts = [((part,), count) for part, count in self.failures.items()]
        yield metrics.Family("kae_watcher_failures", failed, parts, labels=("part",), counts=True)


def _one(name: str, meaning: str, value: float, *, counts: bool = False) -> metrics.Family:
    return metrics.Family(name, meaning, [((), value)], counts=counts)


class Loop:
    """The pending changes, and the repository that receives them."""

    def __init__(
        self,
        settings: config.Config,
        source: nodes.Nodes,
        store: repository.Repository,
        stop: threading.Event,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Contact nothing yet."""
        self._settings, self._source, self._store, self._clock = settings, source, store, clock
        self._stop = stop
        self.state = State(interval_s=settings.interval_seconds)
        self._beat: Callable[[], None] = lambda: None
        self._reducer = reduction.Reducer(settings.ignore_labels, settings.labels)
        self._rules = loss_guard.Rules(
            cluster=settings.cluster,
            percent=settings.max_loss_percent,
            nodes=settings.max_loss_nodes,
            keeps=self._reducer.keeps,
        )
        self._pending = pending_changes.PendingChanges(settings.quiet_seconds, settings.removal_quiet_seconds)
        self._known: bytes | None = None
        """The file in the repository when it was last read, or written with success."""
        self._words: dict[bytes, loss_guard.Losses] = {}
        """The losses that were refused last, by the words that accept them."""
        self._missed = True
        """Whether the API server failed since the last list: nodes may have come back, or gone, unseen."""
        self._meant = b""
        """The file that was last meant for the repository."""
        self._wanted: loss_guard.Nodes = {}
        self._subject = ""
        self._listed_s = -math.inf
        self._list_s = self._look_s = self._commit_s = -math.inf
        """The times of the next list, of the next look at the repository, and of the next commit at the earliest."""
        self._retry_s = dict.fromkeys(_AGAIN_S, -math.inf)
        self._pause_s = {part: first for part, (first, _) in _AGAIN_S.items()}

    def run(self, directory: state.ProgramDir) -> None:
        """Work until `stop` is set."""
        self._beat = directory.beat
        told: str | None = None
        while not self._stop.is_set():
            self.turn()
            reason = self.state.reason
            if reason and reason != told:
                directory.set_unready(reason)
            elif reason != told:
                directory.set_ready("The nodes are listed, and the repository is reached.")
            told = reason
        directory.set_unready("The watcher has ended.")

    def turn(self) -> None:
        """Follow the nodes until something else is due, and bring the repository up to date if that is."""
        self._beat()
        now_s = self._clock()
        left_s = min(self._list_s, self._publish_s(), now_s + _WATCH_S) - now_s
        if now_s < self._retry_s["nodes"]:
            self._stop.wait(min(self._retry_s["nodes"] - now_s, _WATCH_S))
        elif now_s >= self._list_s:
            self._attempt("nodes", self.list)
        elif left_s < 1:
            self._stop.wait(max(0.0, left_s))
        else:
            self._attempt("nodes", lambda: self._follow(int(left_s)))
        self.state.kept = self._pending.kept(self._clock())
        if self._clock() >= self._publish_s() and not self._stop.is_set():
            self._attempt("repository", self.publish)

    def list(self) -> None:
        """List the nodes; raises what the API server's client raises, and `process.Cancelled`."""
        self._pending.list(self._source.list(self._at_page), self._clock())
        self._missed = False
        self._listed_s = self._clock()
        self._list_s = self._listed_s + self._settings.interval_seconds
        self.state.nodes = self._pending.nodes

    def publish(self, *, all_of_it: bool = False) -> bool:
        """Commit the settled changes, or all of them; return whether anything was pushed; `Failure` if it cannot be."""
        try:
            commit = self._store.publish(lambda found: self._change(found, all_of_it=all_of_it))
        finally:
            self.state.races = self._store.races
        now_s = self._clock()
        self._pending.publish(self._wanted.values(), now_s)
        self._look_s = now_s + self._settings.interval_seconds
        self.state.success_s = time.time()
        if commit is not None:
            self._known = self._meant
            self.state.commits += 1
            self._commit_s = now_s + self._settings.min_commit_seconds
            LOG.info("Committed: %s", self._subject, extra={"commit": commit})
        elif self.state.refused:
            self._commit_s = now_s + max(self._settings.min_commit_seconds, _LOOK_S)
        return commit is not None

    def _attempt(self, part: str, work: Callable[[], object]) -> None:
        first_s, longest_s = _AGAIN_S[part]
        try:
            work()
        except process.Cancelled:
            return  # The program is ending, which is no failure.
        except (errors.Failure, compiler_errors.WorldError) as failure:
            self._retry_s[part] = self._clock() + self._pause_s[part] * random.uniform(0.75, 1.25)  # noqa: S311 - spreads
            self._pause_s[part] = min(2 * self._pause_s[part], longest_s)
            self._missed |= part == "nodes"
            self._trouble(part, str(failure))
            return
        self._pause_s[part] = first_s
        if self.state.troubles.pop(part, None) is not None:
            LOG.info("What failed works again: %s.", part)

    def _trouble(self, part: str, sentence: str) -> None:
        if self.state.troubles.get(part) != sentence:
            LOG.error("%s", sentence)
        self.state.failures[part] += 1
        self.state.troubles[part] = sentence

    def _at_page(self) -> None:
        self._beat()
        if self._stop.is_set():
            raise process.Cancelled("The nodes were not listed to their end, because the program is ending.")

    def _follow(self, seconds: int) -> None:
        try:
            names = self._source.changed(seconds)
        except client.Gone:
            if self._clock() < self._listed_s + _FORGOTTEN_S:
                raise
            LOG.info("The API server no longer has the watched version; the nodes are listed again.")
            self._list_s = -math.inf
            return
        now_s = self._clock()
        self._pending.touch(names, now_s)
        if names or self._missed:
            soonest_s = max(now_s + self._settings.quiet_seconds, self._listed_s + self._settings.min_commit_seconds)
            self._list_s = min(self._list_s, soonest_s)

    def _publish_s(self) -> float:
        """Return when the repository has to be looked at: never while only a list can tell what nodes are now."""
        if self._pending.touched or self._missed:
            return math.inf
        due_s = self._pending.due_s()
        wanted_s = self._look_s if due_s is None else min(self._look_s, max(self._commit_s, due_s))
        return max(self._retry_s["repository"], wanted_s)

    def _change(self, found: repository.Found, *, all_of_it: bool) -> repository.Change | None:
        """Return the commit that is due; None when there is none, or all of it is refused."""
        now_s, settings = self._clock(), self._settings
        if found.content != self._known:
            earlier = () if found.content is None else inventory_file.nodes(found.content, settings.cluster)
            # What the config no longer keeps is no loss.
            self._pending.publish(self._reducer.again(earlier), now_s)
            self._known = found.content
        old = self._pending.published
        new, trailer = self._allowed(found, old, self._pending.settled(now_s, all_of_it=all_of_it))
        self._wanted = new
        inventory = snapshot.Inventory(
            cluster=snapshot.ClusterName(settings.cluster), file="", nodes=tuple(new.values())
        )
        content = canonical_form.text(inventory).encode()
        if content == found.content or (found.content is None and not new):
            return None
        message = commit_message.message(settings.message_template, settings.cluster, old, new, trailer)
        self._meant = content
        self._subject = message.splitlines()[0]
        return repository.Change(content=content, message=message)

    def _allowed(
        self, found: repository.Found, old: loss_guard.Nodes, new: loss_guard.Nodes
    ) -> tuple[loss_guard.Nodes, str]:
        """Return the nodes without a loss that is refused, and the trailer of their commit."""
        try:
            judgement = loss_guard.judge(old, new, self._rules, found.messages)
        except process.Cancelled:
            raise
        except errors.Failure as failure:  # Then no loss is small.
            judgement = replace(loss_guard.judge(old, new, self._rules, tuple), refused=True, why=str(failure))
        accepted = self._is_accepted(judgement, found.acceptance or b"")
        self._refuse(judgement if judgement.refused and not accepted else None, found)
        if not judgement.refused:
            return new, judgement.trailer
        if accepted:
            return new, f"Accepted: {judgement.sentence}"
        kept = {name: old[name] for name in judgement.losses}
        return dict(sorted({**new, **kept}.items())), replace(judgement, losses={}).trailer

    def _is_accepted(self, judgement: loss_guard.Judgement, content: bytes) -> bool:
        """Return whether the first word accepts these losses, or was refused for more than them."""
        if not judgement.refused:
            return False
        code = judgement.code.encode()
        self._words = dict([*self._words.items(), (code, judgement.losses)][-_WORDS:])
        word = content.removeprefix(codecs.BOM_UTF8).split(maxsplit=1)[:1]
        accepted = self._words.get(word[0], {}) if word else {}
        return all(items <= accepted.get(name, frozenset()) for name, items in judgement.losses.items())

    def _refuse(self, judgement: loss_guard.Judgement | None, found: repository.Found) -> None:
        """Say that a loss is refused, or no longer."""
        self.state.refused = len(judgement.losses) if judgement else 0
        if judgement is None:
            if self.state.troubles.pop("loss", None) is not None:
                LOG.info("No loss is refused any more.")
            return
        path = self._store.target.acceptance
        other = f" What '{path}' accepts now is another loss." if found.acceptance is not None else f" {found.note}"
        self._trouble(
            "loss",
            f"Too much is lost, so it is not committed: {judgement.sentence} If that is right, commit the file "
            f"'{path}' with the word {judgement.code}.{other}".rstrip(),
        )
