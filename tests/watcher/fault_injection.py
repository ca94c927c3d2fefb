"""Faults of a watcher, one per method; each removes its cause at the end, and does not wait for the recovery."""

import contextlib
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.watcher import remotes, testbed

_YEARS_S = 10 * 365 * 86400
_VERBS = ("ls-remote", "init", "fetch", "ls-tree", "fast-import", "commit-tree", "push")


class FaultInjection(testbed.Testbed):
    """A testbed with a method for each fault."""

    def __init__(self, folder: Path, seed: int, patience_s: float) -> None:
        super().__init__(folder, seed, patience_s)
        self.interrupted: Counter[str] = Counter()
        """The number of ends of the watcher within each verb of git."""

    def fault_api_gone(self) -> None:
        self.cluster.change()
        self.api.down()
        self.cluster.change()
        self.pause(0.3)
        self.cluster.change()
        self.api.up()

    def fault_connections_broken(self) -> None:
        self.cluster.change()
        self.api.drop()
        self.cluster.change()

    def fault_api_refuses(self) -> None:
        self.api.mood.refusals = [self.random.choice((401, 403, 429, 500, 503)) for _ in range(4)]
        self.api.drop()
        self.cluster.change()

    def fault_list_forgotten(self) -> None:
        self.api.mood.stale_pages = self.random.randint(1, 2)
        self.api.drop()
        self.cluster.change()
        self.until("the list was forgotten", lambda: not self.api.mood.stale_pages)

    def fault_watch_forgotten(self) -> None:
        self.cluster.change()
        self.api.forget(late=self.random.random() < 0.5)
        self.cluster.change()

    def fault_slow_list(self) -> None:
        self.api.mood.page_s = self.random.uniform(0.02, 0.1)
        self.api.drop()
        for _ in range(3):
            self.cluster.change()
            self.pause(0.15)
        self.api.mood.page_s = 0

    def fault_slow_list_beside_the_watch(self) -> None:
        self.api.mood.page_s = self.random.uniform(0.05, 0.2)
        before = self.api.lists
        self.until("nodes are listed", lambda: self.api.lists > before)
        for _ in range(4):
            self.cluster.change()
            self.pause(0.15)
        self.api.mood.page_s = 0

    def fault_page_broken_off(self) -> None:
        self.api.mood.cut_pages = self.random.randint(1, 3)
        self.api.drop()
        self.cluster.change()
        self.until("pages broke off", lambda: not self.api.mood.cut_pages)

    def fault_watch_hangs(self) -> None:
        with self.api.condition:
            self.api.state.hung = True
            self.api.condition.notify_all()
        self.cluster.change()
        self.pause(0.3)
        self.api.state.hung = False

    def fault_event_broken_off(self) -> None:
        self.api.state.cut_events = 1
        self.cluster.change()

    def fault_empty_list(self) -> None:
        before = self.remote.tip()
        self.api.mood.blank = True
        self.api.drop()
        self.until_unready("Too much is lost")
        assert self.remote.tip() == before
        self.api.mood.blank = False
        self.api.drop()

    def fault_flicker(self) -> None:
        self.cluster.vanish()
        self.cluster.flicker()

    def fault_race(self) -> None:
        with self.held_at("push"):
            self.others_commit()

    def fault_race_that_goes_on(self) -> None:
        self.cluster.change()
        for _ in range(4):
            self.others_commit()
            self.pause(0.1)

    def fault_second_watcher(self) -> None:
        west = self.remote.ours(cluster="west", scratch=self.folder / "west")
        for number in range(2):
            self.cluster.change()
            remotes.publish(west, b"%d %d\n" % (time.monotonic_ns(), number))

    def fault_push_rejected(self) -> None:
        self.remote.set_hook("pre-receive", "echo 'the branch is frozen' >&2", "exit 1")
        self.cluster.change()
        self.until_unready("the branch is frozen")
        (self.remote.path / "hooks/pre-receive").unlink()

    def fault_forced_back(self) -> None:
        old = self._old_tip()
        remotes.git(
            "--git-dir", str(self.remote.path), "push", "--quiet", "--force", self.url, f"{old}:refs/heads/main"
        )
        self.branch.drop_others(old)
        if self.random.random() < 0.5:
            self.cluster.change()

    def fault_replaced(self) -> None:
        old = self._old_tip()
        self.branch.drop_others(old)
        self.remote.commit("main", {"others/replaced.txt": b"%d\n" % time.monotonic_ns()}, onto=old)
        self.cluster.change()

    def fault_repository_away(self) -> None:
        away = self.remote.path.rename(self.remote.path.with_name("away"))
        self.cluster.change()
        self.until_unready("remote.git")
        away.rename(self.remote.path)

    def fault_repacked(self) -> None:
        self.cluster.change()
        self.remote("repack", "-adq")
        self.remote("pack-refs", "--all")

    def fault_disk_full(self) -> None:
        if self.has_disk:
            self._fill(self.scratch / "filler")
            self.cluster.change()
            self.until_unready("No space left")
            (self.scratch / "filler").unlink()
            return
        aside = self.scratch.rename(self.folder / "aside")
        self.scratch.write_bytes(b"")
        self.cluster.change()
        self.until_unready("scratch")
        self.scratch.unlink()
        aside.rename(self.scratch)

    def fault_clone_damaged(self) -> None:
        harm = self.random.choice(("folder", "HEAD", "objects", "lock"))
        with contextlib.suppress(OSError):
            for clone in self.scratch.glob("clone-*/git"):
                if harm == "folder":
                    shutil.rmtree(clone.parent)
                elif harm == "HEAD":
                    (clone / "HEAD").unlink()
                elif harm == "objects":
                    for path in (clone / "objects").rglob("*"):
                        if path.is_file():
                            path.chmod(0o600)
                            path.write_bytes(b"damaged")
                else:
                    (clone / "shallow.lock").touch()
        self.others_commit()  # Which has to be fetched into it.
        self.cluster.change()

    def fault_clock_jump(self) -> None:
        """Shift the wall clock of the watcher and of git; it stays wrong until the next shift."""
        off_s = self.random.choice((-1, 1)) * self.random.randint(0, _YEARS_S)
        self.cluster.change()
        self.forkserver.shift_clock(off_s)
        fresh = self.folder / "bin/date.new"
        fresh.write_text(f"@{int(time.time()) + off_s} +0000\n")
        fresh.rename(self.folder / "bin/date")
        self.cluster.change()

    def fault_killed(self) -> None:
        self.cluster.change()
        self.pause(0.5)
        self.kill()
        self.start()

    def fault_killed_in_git(self) -> None:
        verb = self._next_verb()
        with self.held_at(verb):
            if self.random.random() < 0.5:
                self.kill()
        # Else git has begun, and goes on without its watcher, beside the next one.
        self.pause(0.03)
        self.kill()
        self.start()

    def fault_killed_with_all(self) -> None:
        with self.held_at(self._next_verb()):
            if self.random.random() < 0.5:
                self.kill(with_all=True)
        self.pause(0.03)
        self.kill(with_all=True)
        self.cluster.change()
        self.start()

    def fault_terminated(self) -> None:
        if self.random.random() < 0.5:
            self.cluster.change()
            self.pause(0.3)
            self.terminate()
        else:
            with self.held_at(self._next_verb()):
                self.terminate()
        self.cluster.change()
        self.start()

    def fault_frozen(self) -> None:
        self.cluster.change()
        self.pause(0.2)
        self.signal(signal.SIGSTOP)
        self.cluster.change()
        self.pause(0.3)
        self.signal(signal.SIGCONT)

    def _next_verb(self) -> str:
        verb = _VERBS[self.interrupted.total() % len(_VERBS)]
        self.interrupted[verb] += 1
        return verb

    def _old_tip(self) -> str:
        history = self.remote.history()
        return history[min(self.random.randint(1, 3), len(history) - 1)]

    def _fill(self, path: Path) -> None:
        with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))


FAULTS: tuple[Callable[[FaultInjection], None], ...] = tuple(
    method for name, method in vars(FaultInjection).items() if name.startswith("fault_")
)
