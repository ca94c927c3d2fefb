"""A day of a fleet whose clusters share a repository: `python -m benchmarks.delivery [SEED]`.

A seeded simulation of what lies between a changed node, or a pull request, and the cluster where its output is applied:
watchers commit inventories, jobs take and compile them, pull requests wait for checks and for each other, and Argo CD
polls. What programs of this repository and git take is measured (`benchmarks.delivery_parts`); the rest is stated in
`Settings`. The tables are Markdown: how long it takes by the number of clusters, and what each measure changes.
"""

import collections
import functools
import heapq
import itertools
import math
import random
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import tabulate
from msgspec.structs import replace

from benchmarks.delivery_parts import Parts, Sized

DAY_S = 86400.0
CLOCK_S = 900.0
"""Between two runs of the compile jobs, as the comment in .github/workflows/kae.yaml has it."""
LATE_S = 3600.0
"""Beyond this, at p95, the system does not work: what a person merges is meant to be applied within the hour."""
SIZES = (10, 30, 50, 100, 200, 300, 500, 1000, 2000)

_ENOUGH = 3
"""So many limits that are passed say that a set-up does not work."""
_PARTS = Path(__file__).with_suffix("").with_name("delivery_parts.json")
_PATIENCE_S, _PAUSE_S, _AGAIN_S = 120.0, (0.2, 5.0), (5.0, 120.0)
"""The pauses of a watcher that loses races (watcher/git/repository.py, watcher/loop.py)."""
_QUIET_S = 10.0
_AFTER_S = DAY_S / 2
"""So long after the day what has begun may still end."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a day has, what nobody has measured, and the measures."""

    clusters: int = 1000
    node_days: float = 10
    """A node changes something that the inventory shows once in so many days."""
    kernel_days: float = 28
    """All nodes of a cluster take another kernel once in so many days, one after the other."""
    wave_s: float = 4 * 3600
    pull_requests: float = 10
    """In the eight hours of work, and one more for each 25 clusters; one of ten is for all clusters."""
    output_share: float = 0.1
    """Of a watcher's commits, those that change the output: it does where pools list nodes or kernels."""
    age_days: float = 180
    """The age of the watchers' branches."""

    round_trip_s: float = 0.1
    megabytes_s: float = 50
    """Between a runner and the git host."""
    runners: int = 20
    start_s: float = 30
    """Until a job has a machine, Python and kae."""
    cores: int = 2
    """Of a runner: for compile and comparison."""
    repo_servers: int = 2
    """Of Argo CD, with a processor each."""
    poll_s: tuple[float, float] = (120, 180)
    """Between two looks of an Application (timeout.reconciliation and its jitter)."""
    revision_s: float = 180
    """The tip of a branch is remembered for so long for all Applications (--revision-cache-expiration)."""
    syncs: int = 10
    """Syncs at a time (--operation-processors)."""
    sync_s: float = 15
    clock_s: float = CLOCK_S

    own_branches: bool = False
    min_commit_s: float = 300
    shallow: bool = False
    """Jobs fetch the newest commit of a watcher's branch alone."""
    shards: int = 1
    strict: bool = True
    """A pull request is merged only where its checks have seen the newest commit of the main line."""
    paths: bool = True
    """Applications have argocd.argoproj.io/manifest-generate-paths."""
    webhook: bool = False
    regions: int = 1
    """So many repositories, each with its share of clusters, runners and pull requests, and an Argo CD of its own."""


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of each stage, one for each commit of a watcher or pull request and cluster; infinite: never."""

    watcher: Sequence[float]
    """From the moment when a change is due to the watcher's commit."""
    taken: Sequence[float]
    """From there until a compile job has it."""
    compiled: Sequence[float]
    """From there to the main line."""
    checked: Sequence[float]
    """From a pull request to its merge."""
    applied: Sequence[float]
    """From the main line to the cluster."""
    inventory: Sequence[float]
    """From a watcher's commit to the main line."""
    request: Sequence[float]
    """From a pull request to the cluster."""
    pushes: float
    """Of watchers, to a repository, a minute, in the busiest hour."""
    commits: float
    """Of watchers, to a branch, in the day."""
    lost: int
    """Races, of watchers and of jobs."""
    runner_share: float
    """Of all runners' time that is used."""
    server_share: float
    """Of the repo-servers' time."""


def at(parts: Parts, clusters: int) -> Sized:
    """Return the parts of a repository of so many clusters: on the line between two measured ones, or beyond."""
    known = parts.sized
    right = next((number for number, each in enumerate(known) if each.clusters >= clusters and number), len(known) - 1)
    left, other = known[max(0, right - 1)], known[right]
    if left is other:
        return left
    share = (clusters - left.clusters) / (other.clusters - left.clusters)
    pairs = {name: (getattr(left, name), getattr(other, name)) for name in left.__struct_fields__}
    found = {name: max(0.0, low + share * (high - low)) for name, (low, high) in pairs.items()}
    return Sized(**{**found, "clusters": clusters, "files": round(found["files"])})


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """A commit of the main line."""

    time_s: float
    clusters: frozenset[int]
    begun: Mapping[int, tuple[float, float]] = {}
    """Of each cluster the times of the oldest commit of its watcher that it brings, and when the job took it."""
    opened_s: float | None = None
    """When its pull request was opened."""


class Watchers:
    """The commits of all watchers in a day."""

    def __init__(self, settings: Settings, parts: Parts, chance: random.Random) -> None:
        """Draw the changes of all nodes, and have the watchers commit them."""
        self._settings, self._chance = settings, chance
        self.commits: list[tuple[float, int]] = []
        """Times and clusters, in the order of time."""
        self.late: list[float] = []
        self.races = 0
        self._changes = [deque(self._drawn(parts.nodes)) for _ in range(settings.clusters)]
        self._turn_s = parts.watcher_s + 5 * settings.round_trip_s
        self._tip = 0
        self._events: list[tuple[float, int, int, float, int]] = []
        for cluster in range(settings.clusters):
            self._plan(cluster, -math.inf)
        while self._events:
            self._look(*heapq.heappop(self._events))
        self.commits.sort()

    def _drawn(self, nodes: int) -> Sequence[float]:
        settings, chance = self._settings, self._chance
        moments = list(itertools.takewhile(lambda s: s < DAY_S, self._arrivals(nodes / settings.node_days / DAY_S)))
        if chance.random() < 1 / settings.kernel_days:
            begin = chance.uniform(0, DAY_S - settings.wave_s)
            moments += [begin + chance.random() * settings.wave_s for _ in range(nodes)]
        return sorted(moments)

    def _arrivals(self, rate: float) -> Iterator[float]:
        moment = 0.0
        while True:
            moment += self._chance.expovariate(rate)
            yield moment

    def _plan(self, cluster: int, last_s: float) -> None:
        """Have a watcher look when its next change is due."""
        if changes := self._changes[cluster]:
            due_s = max(changes[0] + _QUIET_S, last_s + self._settings.min_commit_s)
            heapq.heappush(self._events, (due_s, 0, cluster, due_s, -1))

    def _look(self, now_s: float, number: int, cluster: int, due_s: float, seen: int) -> None:
        """Begin a try, or end it: it succeeds where nobody has pushed to the branch since."""
        if seen < 0:
            tip = cluster if self._settings.own_branches else self._tip
            heapq.heappush(self._events, (now_s + self._turn_s, number, cluster, due_s, tip))
            return
        if self._settings.own_branches or seen == self._tip:
            self._tip += 1
            self.late.append(now_s - due_s)
            self.commits.append((now_s, cluster))
            while self._changes[cluster] and self._changes[cluster][0] + _QUIET_S <= now_s - self._turn_s:
                self._changes[cluster].popleft()
            self._plan(cluster, now_s)
            return
        self.races += 1
        pause_s = self._chance.uniform(0, min(_PAUSE_S[0] * 2.0 ** min(number, 9), _PAUSE_S[1]))
        if (number + 1) * (self._turn_s + _PAUSE_S[1] / 2) > _PATIENCE_S:
            number, pause_s = 0, _AGAIN_S[1] * self._chance.uniform(0.75, 1.25)
        if now_s > DAY_S + _AFTER_S:
            self.late.append(math.inf)
            return
        heapq.heappush(self._events, (now_s + pause_s, number + 1, cluster, due_s, -1))


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """A try of a compile job: what it has fetched."""

    shard: int
    attempt: int
    tip: int
    """The commits of the main line."""
    fresh: Mapping[int, int]
    """Of each cluster with a newer inventory, the commits of its watcher."""
    time_s: float


class Jobs:
    """The jobs of the code host, and the main line that they push to."""

    def __init__(self, settings: Settings, parts: Parts, watchers: Watchers, chance: random.Random) -> None:
        """Have the day happen."""
        self._settings, self._chance, self._parts = settings, chance, parts
        self._sized = at(parts, settings.clusters)
        self._watched: list[list[float]] = [[] for _ in range(settings.clusters)]
        for moment, cluster in watchers.commits:
            self._watched[cluster].append(moment)
        self._older = settings.age_days * len(watchers.commits) / settings.clusters
        self._taken = [0] * settings.clusters
        self.line: list[Commit] = []
        self.races = 0
        self.used_s = 0.0
        self.waiting: dict[int, float] = {}
        """Pull requests that are not merged, and when they were opened."""
        self._free = settings.runners
        self._queue: deque[Callable[[float], None]] = deque()
        self._running, self._pending = set[int](), set[int]()
        self._line_of: deque[int] = deque()
        self._checking = False
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._numbers = itertools.count()
        for moment in itertools.takewhile(lambda s: s < DAY_S + 3 * LATE_S, itertools.count(0.0, settings.clock_s)):
            self._at(moment, self._compile)
        for number in range(round(settings.pull_requests + settings.clusters / 25)):
            self._at(chance.uniform(DAY_S / 3, 2 * DAY_S / 3), functools.partial(self._open, number))
        while self._events and self._events[0][0] < DAY_S + _AFTER_S:
            moment, _, act = heapq.heappop(self._events)
            act(moment)

    @property
    def left(self) -> int:
        """Return the number of clusters with a commit that never came to the main line."""
        return sum(count < len(moments) for count, moments in zip(self._taken, self._watched, strict=True))

    def _at(self, time_s: float, act: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (time_s, next(self._numbers), act))

    def _job(self, now_s: float, begin: Callable[[float], None]) -> None:
        self._queue.append(begin)
        self._dispatch(now_s)

    def _dispatch(self, now_s: float) -> None:
        while self._free and self._queue:
            self._free -= 1
            self.used_s -= now_s
            self._queue.popleft()(now_s)

    def _released(self, now_s: float) -> None:
        self._free += 1
        self.used_s += now_s
        self._dispatch(now_s)

    # The jobs of the main line.

    def _compile(self, now_s: float) -> None:
        for shard in range(self._settings.shards):
            if shard in self._running:
                self._pending.add(shard)
            else:
                self._running.add(shard)
                self._job(now_s, functools.partial(self._begin, shard))

    def _begin(self, shard: int, now_s: float) -> None:
        self._at(now_s + self._settings.start_s + self._cloned_s(), functools.partial(self._take, shard, 1))

    def _cloned_s(self) -> float:
        sized, settings = self._sized, self._settings
        return sized.clone_s + sized.history_s + sized.clone_mb / settings.megabytes_s + 4 * settings.round_trip_s

    def _take(self, shard: int, attempt: int, now_s: float) -> None:
        """Fetch the inventories, compile, and push where something has changed."""
        settings, parts, sized = self._settings, self._parts, self._sized
        own = range(shard, settings.clusters, settings.shards)
        fresh = {each: self._new(each, now_s) for each in own}
        fresh = {each: count for each, count in fresh.items() if count > self._taken[each]}
        older = 0 if settings.shallow else self._older
        branch_s = parts.branch_s + older * parts.older_s
        branch_s += (parts.branch_mb + older * parts.older_mb) / settings.megabytes_s
        read_s = len(own) * branch_s if attempt == 1 else 0.0
        share = 1 / settings.shards
        whole_s = sized.compile_s if attempt == 1 else sized.again_s
        fixed_s = max(0.0, sized.tenth_s - sized.compile_s / 10) if settings.shards > 1 else 0.0
        took_s = read_s + len(fresh) * parts.inventory_s + (whole_s * share + fixed_s) / settings.cores
        took_s += sized.commit_s + sized.push_s + 6 * settings.round_trip_s
        turn = Turn(shard=shard, attempt=attempt, tip=len(self.line), fresh=fresh, time_s=now_s)
        self._at(now_s + took_s, functools.partial(self._push, turn))

    def _new(self, cluster: int, now_s: float) -> int:
        count, moments = self._taken[cluster], self._watched[cluster]
        while count < len(moments) and moments[count] <= now_s:
            count += 1
        return count

    def _push(self, turn: Turn, now_s: float) -> None:
        settings, fresh, shard = self._settings, turn.fresh, turn.shard
        moved = turn.tip != len(self.line)
        if fresh and moved and turn.attempt < 6 + 2 * settings.shards:
            self.races += 1
            pause_s = self._chance.uniform(0, 2 * turn.attempt)
            self._at(now_s + pause_s, functools.partial(self._take, shard, turn.attempt + 1))
            return
        if fresh and not moved:
            self.line.append(self._commit(turn, now_s))
        self._running.discard(shard)
        self._released(now_s)
        if shard in self._pending:
            self._pending.discard(shard)
            self._running.add(shard)
            self._job(now_s, functools.partial(self._begin, shard))

    def _commit(self, turn: Turn, now_s: float) -> Commit:
        """Return the commit of a job; some of the inventories change the output."""
        none = 1 - self._settings.output_share
        news = {each: count - self._taken[each] for each, count in turn.fresh.items()}
        clusters = frozenset(each for each, count in news.items() if self._chance.random() > none**count)
        begun = {each: (self._watched[each][self._taken[each]], turn.time_s) for each in turn.fresh}
        for each, count in turn.fresh.items():
            self._taken[each] = count
        return Commit(time_s=now_s, clusters=clusters, begun=begun)

    # The jobs of pull requests.

    def _open(self, number: int, now_s: float) -> None:
        self.waiting[number] = now_s
        if self._settings.strict:
            self._line_of.append(number)
            self._next(now_s)
        else:
            self._check(number, now_s)

    def _next(self, now_s: float) -> None:
        if self._line_of and not self._checking:
            self._checking = True
            self._check(self._line_of[0], now_s)

    def _check(self, number: int, now_s: float) -> None:
        """Have the shards check a pull request, and then the job that compares all clusters and gives the verdict."""
        settings, sized, tip = self._settings, self._sized, len(self.line)
        left = {"shards": settings.shards}
        fixed_s = max(0.0, sized.tenth_s - sized.compile_s / 10) if settings.shards > 1 else 0.0
        work_s = settings.start_s + self._cloned_s()
        own_s = work_s + (sized.check_s / settings.shards + fixed_s) / settings.cores
        # ci/review.sh compares twice and makes a page, which compiles once more.
        review_s = work_s + (3 * sized.diff_s) / settings.cores

        def ended(then_s: float) -> None:
            self._released(then_s)
            left["shards"] -= 1
            if not left["shards"]:
                self._job(then_s, lambda begun_s: self._at(begun_s + review_s, judged))

        def judged(then_s: float) -> None:
            self._released(then_s)
            self._judged(number, tip, then_s)

        for _ in range(settings.shards):
            self._job(now_s, lambda begun_s: self._at(begun_s + own_s, ended))

    def _judged(self, number: int, tip: int, now_s: float) -> None:
        settings = self._settings
        if settings.strict and tip != len(self.line):
            self.races += 1
            self._check(number, now_s)
            return
        everywhere = number % 10 == 0
        clusters = range(settings.clusters) if everywhere else (self._chance.randrange(settings.clusters),)
        self.line.append(Commit(time_s=now_s, clusters=frozenset(clusters), opened_s=self.waiting.pop(number)))
        self._compile(now_s)
        if settings.strict:
            self._line_of.popleft()
            self._checking = False
            self._next(now_s)


class Engine:
    """Argo CD, which polls the main line for each cluster (reposerver/repository of its release 3.5)."""

    def __init__(self, settings: Settings, parts: Parts, line: Sequence[Commit], chance: random.Random) -> None:
        """Have it apply a main line."""
        self._settings, self._parts, self._line, self._chance = settings, parts, line, chance
        self._sized = at(parts, settings.clusters)
        self.applied: list[tuple[Commit, int, float]] = []
        """Each commit and cluster with the time when it is applied."""
        self.used_s = 0.0
        self._servers = [(0.0, -1)] * settings.repo_servers
        """When each has time, and the commit that it has checked out."""
        self._syncing = [0.0] * settings.syncs
        self._at = [0] * settings.clusters
        """So many commits of the main line each cluster has."""
        self._due: list[list[int]] = [[] for _ in range(settings.clusters)]
        self._tip, self._asked_s, self._pushed = 0, -math.inf, 0
        self._run()

    def _run(self) -> None:
        low, high = self._settings.poll_s
        events = [(self._chance.uniform(0, high), -1, each) for each in range(self._settings.clusters)]
        if self._settings.webhook:
            told = enumerate(self._line)
            events += [(commit.time_s + 1, number, each) for number, commit in told for each in commit.clusters]
        for number, commit in enumerate(self._line):
            for each in commit.clusters:
                self._due[each].append(number)
        heapq.heapify(events)
        end_s = (self._line[-1].time_s if self._line else 0) + 4 * high
        while events and (events[0][0] < end_s):
            now_s, told_of, cluster = heapq.heappop(events)
            if told_of >= 0:
                self._tip = max(self._tip, told_of + 1)
                self._refresh(cluster, now_s, told=True)
                continue
            ended_s = self._refresh(cluster, now_s, told=False)
            next_s = self._line[self._pushed].time_s if self._pushed < len(self._line) else now_s
            # Looks that find nothing are passed over.
            wait_s = self._chance.uniform(low, high) if next_s <= ended_s + high else self._chance.uniform(0, high)
            heapq.heappush(events, (max(ended_s, next_s if next_s > ended_s + high else 0.0) + wait_s, -1, cluster))

    def _refresh(self, cluster: int, now_s: float, *, told: bool) -> float:
        """Compare an Application with the tip that is known; return when it is done."""
        settings, parts = self._settings, self._parts
        if now_s >= self._asked_s + settings.revision_s:
            while self._pushed < len(self._line) and self._line[self._pushed].time_s <= now_s:
                self._pushed += 1
            self._tip, self._asked_s = max(self._tip, self._pushed), now_s
        if self._at[cluster] >= self._tip:
            return now_s
        due = self._due[cluster]
        count = next((number for number, each in enumerate(due) if each >= self._tip), len(due))
        work_s = 0.0
        if settings.paths and not told:
            work_s += self._sized.compare_s + 3 * parts.look_s
        if count or not settings.paths:
            work_s += parts.kustomize_s
        done_s = self._served(now_s, work_s)
        self._at[cluster] = self._tip
        if count:
            begun_s = max(done_s, heapq.heappop(self._syncing))
            heapq.heappush(self._syncing, begun_s + settings.sync_s)
            self.applied += [(self._line[each], cluster, begun_s + settings.sync_s) for each in due[:count]]
            del due[:count]
        return done_s

    def _served(self, now_s: float, work_s: float) -> float:
        """Have the repo-server that has time first do this work, and return when it is done."""
        sized = self._sized
        number = min(range(len(self._servers)), key=lambda each: self._servers[each])
        free_s, tip = self._servers[number]
        if tip != self._tip:
            work_s += sized.fetch_s + sized.checkout_s + 2 * self._settings.round_trip_s
        self.used_s += work_s
        done_s = max(now_s, free_s) + work_s
        self._servers[number] = (done_s, self._tip)
        return done_s


def simulated(settings: Settings, parts: Parts, seed: int) -> Times:
    """Have a day of one region happen."""
    one = replace(
        settings,
        clusters=max(1, settings.clusters // settings.regions),
        runners=max(1, settings.runners // settings.regions),
        pull_requests=settings.pull_requests / settings.regions,
    )
    chance = random.Random(seed)  # noqa: S311 - a simulation
    watchers = Watchers(one, parts, chance)
    jobs = Jobs(one, parts, watchers, chance)
    engine = Engine(one, parts, jobs.line, chance)
    begun = [(commit, *moments) for commit in jobs.line for moments in commit.begun.values()]
    merged = [(commit, commit.opened_s) for commit in jobs.line if commit.opened_s is not None]
    never, stuck = [math.inf] * jobs.left, [math.inf] * len(jobs.waiting)
    hours = collections.Counter(int(moment // 3600) for moment, _ in watchers.commits)
    return Times(
        watcher=watchers.late,
        taken=[took_s - begun_s for _, begun_s, took_s in begun] + never,
        compiled=[commit.time_s - took_s for commit, _, took_s in begun],
        checked=[commit.time_s - opened_s for commit, opened_s in merged] + stuck,
        applied=[end_s - commit.time_s for commit, _, end_s in engine.applied],
        inventory=[commit.time_s - begun_s for commit, begun_s, _ in begun] + never,
        request=[end_s - commit.opened_s for commit, _, end_s in engine.applied if commit.opened_s is not None] + stuck,
        pushes=max(hours.values(), default=0) / 60,
        commits=len(watchers.commits) / (one.clusters if one.own_branches else 1),
        lost=watchers.races + jobs.races,
        runner_share=jobs.used_s / one.runners / DAY_S,
        server_share=engine.used_s / one.repo_servers / DAY_S,
    )


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that this share of them does not exceed."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))] if ranked else 0.0


def shown(seconds: float) -> str:
    """Return a time as people say it."""
    if math.isinf(seconds):
        return "never"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"


def both(values: Sequence[float]) -> str:
    """Return the times of half of them, and of 95 in 100."""
    return " / ".join(shown(percentile(values, share)) for share in (0.5, 0.95))


def limits(times: Times) -> Sequence[str]:
    """Return the limits that a day passes."""
    passed = {
        f"pushes a minute, {times.pushes:.0f}": times.pushes > PUSHES,
        f"commits a day on a branch, {times.commits:,.0f}": times.commits > COMMITS,
        f"watchers' races, {both(times.watcher)}": percentile(times.watcher, 0.95) > LATE_S,
        f"compile jobs, {both(times.compiled)}": percentile(times.compiled, 0.95) > CLOCK_S,
        f"inventories in main, {both(times.inventory)}": percentile(times.inventory, 0.95) > LATE_S,
        f"merges, {both(times.checked)}": percentile(times.checked, 0.95) > LATE_S,
        f"Argo CD, {both(times.applied)}": percentile(times.applied, 0.95) > LATE_S,
    }
    return [name for name, is_passed in passed.items() if is_passed]


PUSHES = 6
"""GitHub's advice for a repository (its page of repository limits)."""
COMMITS = 20_000
"""A branch with more commits of the last day: the watcher cannot tell what was lost (watcher/git/git.py)."""

STEPS: Mapping[str, Mapping[str, object]] = {
    "as set up first": {},
    "a branch for each watcher": {"own_branches": True},
    "jobs fetch a watcher's newest commit alone": {"shallow": True},
    "watchers commit once an hour": {"min_commit_s": 3600.0},
    "40 syncs at a time": {"syncs": 40},
    "a green check is enough to merge": {"strict": False},
    "webhooks": {"webhook": True},
    "8 shards": {"shards": 8},
    "4 repositories": {"regions": 4},
}
"""The measures, each on top of those before it."""

HEAD = (
    *("watcher to main", "request to cluster", "watcher's delay", "check and merge", "main to cluster"),
    *("pushes a minute", "lost races", "runners", "repo-servers"),
)


def row(name: str, times: Times) -> Sequence[str]:
    """Return a line of a table: half of the times, and 95 in 100."""
    stages = (times.inventory, times.request, times.watcher, times.checked, times.applied)
    shares = (f"{times.runner_share:.0%}", f"{times.server_share:.0%}")
    return name, *map(both, stages), f"{times.pushes:.1f}", f"{times.lost:,}", *shares


def told(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    print(f"\n{title}\n")
    print(tabulate.tabulate(rows, headers=head, tablefmt="github", disable_numparse=True), flush=True)


def main() -> None:
    """Print the tables."""
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    parts = msgspec.json.decode(_PARTS.read_bytes(), type=Parts)
    day = functools.cache(lambda settings: simulated(settings, parts, seed))
    settings, broken, thousand = Settings(), [], []
    for name, measure in STEPS.items():
        settings = replace(settings, **measure)
        first: dict[str, str] = {}
        for clusters in SIZES:
            for limit in limits(day(replace(settings, clusters=clusters))):
                first.setdefault(limit.partition(",")[0], f"{clusters:,}: {limit}")
            # One branch for more watchers than it can bear makes a long day, and says no more.
            if len(first) >= _ENOUGH:
                break
        broken.append((name, "; ".join(first.values())))
        thousand.append(row(name, day(replace(settings, clusters=1000))))
    told("What breaks, at how many clusters, with this measure and those above it", ("measure", "breaks"), broken)
    told("1,000 clusters", ("measure", *HEAD), thousand)
    sizes = [row(f"{clusters:,}", day(replace(settings, clusters=clusters))) for clusters in SIZES]
    told("All measures", ("clusters", *HEAD), sizes)
    default = Settings(paths=False)
    without = [
        row(f"without: {name}", day(replace(settings, **{field: getattr(default, field) for field in measure})))
        for name, measure in {**STEPS, "manifest-generate-paths": {"paths": True}}.items()
        if measure
    ]
    told("1,000 clusters, all measures but one", ("", *HEAD), without)
    lines = [
        row(f"{number}, {way}", day(replace(one, pull_requests=number - 40.0, strict=way == "strict")))
        for one in (replace(settings, regions=1, shards=1),)
        for number in (50, 100, 200, 400)
        for way in ("strict", "free")
    ]
    told("1,000 clusters in one repository, without shards, by pull requests a day", ("", *HEAD), lines)


if __name__ == "__main__":
    main()
