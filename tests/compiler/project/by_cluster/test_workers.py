"""Work on many items by several processes."""

import errno
import itertools
import multiprocessing
import os
import resource
from collections.abc import Sequence
from pathlib import Path

import pytest

from compiler import errors
from compiler.project.by_cluster import workers

BIG = 16 << 20


def squares(items: Sequence[int], jobs: int, size: int = BIG) -> list[tuple[int, int]]:
    """The square of each item, with the process that found it."""
    return list(workers.Crew(jobs).each(lambda number: (number * number, os.getpid()), items, lambda _: size))


def test_the_answers_are_in_the_order_of_the_items_whatever_their_sizes() -> None:
    items = [3, 1, 2, 5, 4]

    assert list(workers.Crew(3).each(lambda number: number * 2, items, lambda number: number * BIG)) == [6, 2, 4, 10, 8]


def test_several_processes_work() -> None:
    assert len({process for _, process in squares(range(40), 2)} - {os.getpid()}) == 2


@pytest.mark.parametrize(
    ("items", "jobs", "size"), [([1, 2, 3, 4], 1, BIG), ([1], 8, BIG), ([1, 2], 8, BIG), ([1, 2, 3, 4], 8, 1000)]
)
def test_no_process_is_started_for_one_job_one_item_or_little_input(items: list[int], jobs: int, size: int) -> None:
    assert {process for _, process in squares(items, jobs, size)} == {os.getpid()}


def test_the_first_item_that_fails_is_told_of_whichever_fails_first() -> None:
    def work(number: int) -> int:
        if number % 3 == 2:
            raise errors.WorldError(f"{number} cannot be read.", hint="Read it.")
        return number

    with pytest.raises(errors.WorldError) as caught:
        list(workers.Crew(3).each(work, range(12), lambda number: number * BIG))

    assert (caught.value.message, caught.value.hint) == ("2 cannot be read.", "Read it.")


def test_a_mistake_of_the_compiler_shows_where_a_process_made_it() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        list(workers.Crew(2).each(lambda number: 1 // (number - 2), range(6), lambda number: number * BIG))

    assert "1 // (number - 2)" in "".join(caught.value.__notes__)


def test_progress_is_told_once_for_each_item_in_order() -> None:
    told: list[int] = []
    list(workers.Crew(2, told.append).each(str, range(9), lambda _: BIG))

    assert told == list(range(9))


@pytest.mark.parametrize(
    ("files", "quotas"),
    [
        ({}, []),
        ({"sys/fs/cgroup/jobs/one/cpu.max": "max 100000\n"}, []),
        ({"sys/fs/cgroup/jobs/one/cpu.max": "150000 100000\n"}, [1.5]),
        ({"sys/fs/cgroup/jobs/cpu.max": "200000 100000\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, [2.0]),
    ],
    ids=["no groups", "no quota", "of its own", "of the group around it"],
)
def test_quotas_of_version_2_control_groups_count(files: dict[str, str], quotas: list[float], tmp_path: Path) -> None:
    written(tmp_path, files | {"proc/self/cgroup": "0::/jobs/one\n"})

    assert list(workers.quotas(tmp_path)) == quotas


def test_quotas_of_version_1_control_groups_count(tmp_path: Path) -> None:
    group = "sys/fs/cgroup/cpu,cpuacct"
    written(
        tmp_path,
        {
            "proc/self/cgroup": "5:memory:/docker/ab\n4:cpu,cpuacct:/docker/ab\n",
            # In a container the group is the top of what is mounted.
            f"{group}/cpu.cfs_quota_us": "300000\n",
            f"{group}/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/cpu.cfs_quota_us": "100000\n",
            "sys/fs/cgroup/memory/cpu.cfs_period_us": "100000\n",
        },
    )

    assert list(workers.quotas(tmp_path)) == [3.0]


def test_a_process_may_always_use_a_core() -> None:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert workers.usable_cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)


def test_work_needs_no_shared_semaphores_and_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without /dev/shm there are none (sem_open(3)), and limits on processes count threads too (setrlimit(2))."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("_multiprocessing.SemLock", refuse)
    monkeypatch.setattr("threading.Thread.start", refuse)

    assert len({process for _, process in squares(range(40), 2)} - {os.getpid()}) == 2


@pytest.mark.parametrize(("files", "started"), [(0, 0), (7, 1)], ids=["no process can be started", "one can"])
def test_work_is_done_by_as_many_processes_as_can_be_started(files: int, started: int) -> None:
    squares(range(4), 2)
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = (number for number in itertools.count() if not Path(f"/proc/self/fd/{number}").exists())
    resource.setrlimit(resource.RLIMIT_NOFILE, (next(itertools.islice(free, files, None)), hard))
    try:
        squared = squares(range(6), 3)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))

    assert [square for square, _ in squared] == [0, 1, 4, 9, 16, 25]
    assert len({process for _, process in squared} - {os.getpid()}) == started


def test_no_process_and_no_file_stays_behind() -> None:
    squares(range(6), 3)
    files = open_files()
    squares(range(6), 3)

    assert multiprocessing.active_children() == []
    assert open_files() == files


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def written(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
