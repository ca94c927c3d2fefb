"""The inventory's file in real repositories: what is pushed, what is held back, and what never is."""

import os
import re
import time
from pathlib import Path

import pytest
from msgspec import structs

from runtime import errors, process
from tests.watcher import remotes, servers
from watcher.git import git, repository

pytestmark = pytest.mark.long

PATH, PUSHED = remotes.PATH, remotes.PUSHED


def test_a_commit_changes_the_one_file_on_top_of_the_tip(remote: remotes.Remote) -> None:
    old = remote.commit("main", {PATH: b"old\n"})

    commit = remotes.publish(remote.ours(), b"new\n", "1 node joined\n\nrack2-01\n")

    assert commit == remote.tip()
    assert remote.parents("main") == [old]
    assert remote.changed("main") == PUSHED
    assert remote.read("main", PATH) == b"new\n"
    author = "kae-watcher <kae-watcher@localhost>"
    assert remote("log", "-1", "--format=%an <%ae>|%cn <%ce>|%B") == f"{author}|{author}|1 node joined\n\nrack2-01"


def test_equal_bytes_make_no_commit_whatever_else_moved(remote: remotes.Remote) -> None:
    repo = remote.ours()
    remotes.publish(repo, b"same\n")
    tip = remote.commit("main", {"other.txt": b"moved\n"})

    commit = remotes.publish(repo, b"same\n")

    assert commit is None
    assert remote.tip() == tip


def test_a_branch_without_a_default_one_begins_with_a_root_commit(remote: remotes.Remote) -> None:
    remote("symbolic-ref", "HEAD", "refs/heads/trunk")

    remotes.publish(remote.ours(branch="inventory"), b"new\n")

    assert remote.parents("inventory") == []


def test_a_hook_that_refuses_is_quoted_and_tried_again_later(remote: remotes.Remote) -> None:
    tip = remote.tip()
    remote.set_hook("pre-receive", "echo 'GitHost: \033[31mfrozen\033[0m until Monday.' >&2", "exit 1")
    repo = remote.ours()

    with pytest.raises(git.Refused) as refusal:
        remotes.publish(repo, b"new\n")
    (remote.path / "hooks/pre-receive").unlink()
    remotes.publish(repo, b"new\n")

    said = str(refusal.value)
    assert said.startswith(f"The repository '{remote.url}' refuses the push (pre-receive hook declined): ")
    assert "GitHost: [31mfrozen [0m until Monday" in said
    assert remote.parents("main") == [tip]
    assert repo.races == 0


def test_looks_read_both_files_and_fetch_nothing_while_the_tip_stays(remote: remotes.Remote, web: servers.Web) -> None:
    remote.commit("main", {PATH: b"old\n", "inventory/east.accept": b"word\n"})
    repo = remote.ours(url=f"{web.url}/remote.git")

    first = look(repo)
    web.rules.requests.clear()
    second = look(repo)

    assert (first.content, first.acceptance) == (second.content, second.acceptance) == (b"old\n", b"word\n")
    assert [request.split("?")[0] for request in web.rules.requests] == [
        "GET /remote.git/info/refs",
        "POST /remote.git/git-upload-pack",
    ]


def test_a_commit_deletes_the_file_of_acceptance(remote: remotes.Remote) -> None:
    remote.commit("main", {PATH: b"old\n", "inventory/east.accept": b"word\n", "inventory/west.accept": b"x\n"})

    remotes.publish(remote.ours(), b"new\n")

    assert remote("ls-tree", "-r", "--name-only", "main").split() == [
        *(PATH, "inventory/west.accept", "inventory/west.json", "other.txt")
    ]


def test_an_empty_repository_gets_a_root_commit(tmp_path: Path) -> None:
    remote = remotes.Remote(tmp_path / "empty.git", empty=True)

    remotes.publish(remote.ours(), b"new\n")

    assert remote.parents("main") == []
    assert remote("ls-tree", "-r", "--name-only", "main") == PATH
    remote.assert_sound()


def test_a_repository_with_sha256_is_written_to(tmp_path: Path) -> None:
    remote = remotes.Remote(tmp_path / "new.git", object_format="sha256")

    remotes.publish(remote.ours(), b"new\n")

    assert remote.changed("main") == PUSHED


def test_a_missing_branch_is_begun_from_the_default_one(remote: remotes.Remote) -> None:
    remotes.publish(remote.ours(branch="inventory"), b"new\n")

    assert remote.parents("inventory") == [remote.tip("main")]
    assert remote.changed("inventory") == PUSHED


def test_the_messages_of_the_last_day_are_those_of_the_files_own_commits(remote: remotes.Remote) -> None:
    repo = remote.ours()
    remotes.publish(repo, b"1\n", "first\n")
    remote.commit("main", {"other.txt": b"moved\n"})
    remotes.publish(remote.ours(cluster="west"), b"w\n", "west\n")
    remotes.publish(repo, b"2\n", "second\n\nwith a body")
    remote.commit("main", {"inventory/east.accept": b"a wrong word\n"})

    assert messages(repo) == ["second\n\nwith a body", "first"]


def test_messages_older_than_a_day_are_not_remembered(remote: remotes.Remote) -> None:
    remote.commit("main", {PATH: b"1\n"}, message=b"old", age_s=86_500)
    remote.commit("main", {PATH: b"2\n"}, message=b"new", age_s=86_300)

    assert messages(remote.ours()) == ["new"]


def test_commits_with_an_old_date_do_not_hide_those_before_them(remote: remotes.Remote) -> None:
    remote.commit("main", {PATH: b"1\n"}, message=b"lost")
    remote.commit("main", {PATH: b"2\n"}, message=b"of a wrong clock", age_s=9_999_999)
    remote.commit("main", {"other.txt": b"moved\n"}, age_s=9_999_999)

    assert messages(remote.ours()) == ["lost"]


@pytest.mark.long
@pytest.mark.parametrize(("old", "commits", "fetches"), [(7, 2, 1), (7, 5, 2), (0, 2, 1)])
def test_history_is_fetched_by_its_depth_and_deepened_once(
    remote: remotes.Remote, monkeypatch: pytest.MonkeyPatch, old: int, commits: int, fetches: int
) -> None:
    monkeypatch.setattr(git, "_DEPTHS", (4, 20))
    monkeypatch.setattr(git, "_OLDEST", 2)
    for number in range(old + commits):
        age_s = 90_000 if number < old else 0
        remote.commit("main", {PATH: b"%d" % number}, message=b"%d" % number, age_s=age_s)
    depths: list[str] = []
    real = git.Git._fetch

    def fetch(self: git.Git, depth: str) -> None:
        depths.append(depth)
        real(self, depth)

    monkeypatch.setattr(git.Git, "_fetch", fetch)
    told = messages(remote.ours())

    assert told == [str(number) for number in range(old + commits - 1, old - 1, -1)][: len(told)]
    assert len(told) == commits
    assert depths == ["--depth=1", "--depth=4", "--depth=20"][: 1 + fetches]


def test_history_behind_too_many_commits_is_not_known(remote: remotes.Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git, "_DEPTHS", (2, 4))
    for number in range(5):
        remote.commit("main", {PATH: b"%d" % number})

    with pytest.raises(
        git.Unreadable, match=r"The branch has more than 4 commits of the last day, and no more are read"
    ):
        messages(remote.ours())


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> int:
    """The most memory of git for one object, in bytes: a sixteenth of what it is elsewhere."""
    assert {"GIT_ALLOC_LIMIT": str(git.MOST)} == git._BOUND
    monkeypatch.setitem(git._BOUND, "GIT_ALLOC_LIMIT", str(git.MOST >> 4))
    streamed = git._SETTINGS["core.bigFileThreshold"]
    monkeypatch.setitem(git._SETTINGS, "core.bigFileThreshold", streamed.replace("16m", "1m"))
    return git.MOST >> 4


@pytest.mark.long
@pytest.mark.parametrize("verb", ["fetch", "log"])
def test_a_message_that_needs_too_much_memory_is_not_read_and_the_reason_is_told(
    remote: remotes.Remote, web: servers.Web, bound: int, verb: str
) -> None:
    remote.commit("main", {PATH: b"old\n"}, message=b"x" * (bound * 3 // 2))
    tip = remote.commit("main", {"other.txt": b"moved\n"})
    repo = remote.ours(url=f"{web.url}/remote.git" if verb == "fetch" else remote.url)

    seen = look(repo)
    with pytest.raises(git.Failed, match=f"'git {verb}' failed .*attempting to allocate"):
        messages(repo)

    assert seen.content == b"old\n"
    assert remote.tip() == tip


@pytest.mark.long
def test_messages_that_are_too_large_together_are_not_read_and_the_reason_is_told(
    remote: remotes.Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git, "_MESSAGES", git._MESSAGES >> 3)
    for number in range(3):
        remote.commit("main", {PATH: b"%d" % number}, message=b"x" * (1 << 20))

    with pytest.raises(git.Unreadable, match=f"that change '{PATH}' have 3 MiB of messages, and 2 MiB are read"):
        messages(remote.ours())


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"inventory": b"file"}, "'inventory' in the repository is no folder"),
        ({f"{PATH}/x": b"file"}, f"'{PATH}' in the repository is no plain file"),
    ],
)
def test_something_else_at_the_path_is_never_replaced(tmp_path: Path, files: dict[str, bytes], words: str) -> None:
    remote = remotes.Remote(tmp_path / "odd.git", empty=True)
    tip = remote.commit("main", files)

    with pytest.raises(git.Failed, match=words):
        remotes.publish(remote.ours(), b"new\n")

    assert remote.tip() == tip


def test_a_link_at_the_path_is_never_followed(remote: remotes.Remote) -> None:
    remote.commit("main", {PATH: b"/etc/passwd"}, mode="120000")

    with pytest.raises(git.Failed, match="is no plain file"):
        look(remote.ours())


@pytest.mark.long
def test_a_file_above_64_mib_is_not_read_and_not_fetched_again(
    remote: remotes.Remote, web: servers.Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git, "MOST", 1 << 20)
    remote.commit("main", {PATH: bytes(1 << 21)})
    repo = remote.ours(url=f"{web.url}/remote.git")

    with pytest.raises(git.Failed, match=f"'{PATH}' in the repository has 2,097,152 bytes; 1,048,576 are read at most"):
        look(repo)
    web.rules.requests.clear()
    with pytest.raises(git.Failed, match="are read at most"):
        look(repo)

    assert len(web.rules.requests) == 2


@pytest.mark.long
def test_large_files_of_others_are_no_hindrance(remote: remotes.Remote, web: servers.Web, bound: int) -> None:
    remote.configure("uploadpack.allowFilter", "false")
    remote.commit("main", {"movie": bytes(bound + (1 << 20))})

    commit = remotes.publish(remote.ours(url=f"{web.url}/remote.git"), b"new\n")

    assert commit == remote.tip()


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (
            {"inventory/east.accept": b"x" * 4097},
            "'inventory/east.accept' in the repository has 4,097 bytes; 4,096 are",
        ),
        ({"inventory/east.accept/x": b"word"}, r"'inventory/east.accept' in the repository is no plain file \(mode 04"),
    ],
)
def test_what_is_no_acceptance_keeps_nothing_else_back_and_stays(
    remote: remotes.Remote, files: dict[str, bytes], words: str
) -> None:
    remote.commit("main", files | {PATH: b"old\n"})
    repo = remote.ours()

    seen = look(repo)
    remotes.publish(repo, b"new\n")

    assert (seen.content, seen.acceptance) == (b"old\n", None)
    assert re.match(words, seen.note)
    assert remote.changed("main") == PUSHED


@pytest.mark.long
def test_a_tip_that_fills_the_disk_is_not_fetched_to_its_end_and_not_again(
    remote: remotes.Remote, web: servers.Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote.configure("uploadpack.allowFilter", "false")
    monkeypatch.setattr(git, "MOST_FETCHED", 1 << 20)
    remote.commit("main", {PATH: b"old\n", "other.bin": os.urandom(3 << 20)})
    repo = remote.ours(url=f"{web.url}/remote.git")

    for requests in (None, 2):
        web.rules.requests.clear()
        with pytest.raises(git.Unreadable, match=r"What the server of '.*' sends is larger than 1 MiB: the branch has"):
            look(repo)
        assert requests in (None, len(web.rules.requests))
    remote.commit("main", {"other.bin": b"small\n"})

    assert look(repo).content == b"old\n"


def test_a_tip_that_takes_too_long_is_fetched_again_after_a_quarter_of_an_hour(
    remote: remotes.Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote.commit("main", {PATH: b"old\n"})
    repo = remote.ours()

    def fail() -> None:
        raise process.TooSlow("'git fetch' did not end within 120 seconds.")

    remotes.before("clone", fail, monkeypatch)
    for _ in range(2):
        with pytest.raises(errors.Failure, match="did not end within 120 seconds"):
            look(repo)
    monkeypatch.setattr(repository, "_SLOW_S", -1)
    repo._known = None
    remotes.before("clone", fail, monkeypatch)
    with pytest.raises(errors.Failure, match="did not end within 120 seconds"):
        look(repo)

    assert look(repo).content == b"old\n"


@pytest.mark.long
@pytest.mark.parametrize("filters", ["true", "false"])
def test_a_server_that_knows_protocol_0_alone_is_read_and_written(
    remote: remotes.Remote, monkeypatch: pytest.MonkeyPatch, filters: str
) -> None:
    monkeypatch.setitem(git._SETTINGS, "protocol.version", "0")
    remote.configure("uploadpack.allowFilter", filters)
    remote.commit("main", {PATH: b"old\n", "inventory/east.accept": b"word\n"})
    repo = remote.ours()

    seen = look(repo)
    remotes.publish(repo, b"new\n", "first")

    assert (seen.content, seen.acceptance) == (b"old\n", b"word\n")
    assert look(repo).content == b"new\n"
    assert messages(repo) == ["first", "somebody"]


def test_a_file_that_was_unreadable_once_is_read_later(remote: remotes.Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    remote.commit("main", {PATH: b"old\n"})
    repo = remote.ours()

    def fail() -> None:
        raise git.Failed("The network is away.")

    remotes.before("file", fail, monkeypatch)
    with pytest.raises(git.Failed, match="away"):
        look(repo)

    assert look(repo).content == b"old\n"


@pytest.mark.long
def test_a_hook_that_talks_without_end_costs_neither_time_nor_memory(remote: remotes.Remote) -> None:
    remote.set_hook("pre-receive", "seq -f 'line %.0f of a talkative hook' 1 100000 >&2", "exit 1")
    lines = [f"line {number}" for number in range(250_000)]
    began_s = time.process_time()

    with pytest.raises(git.Refused, match=r"line 1 of a talkative hook; line 2 .* …") as refusal:
        remotes.publish(remote.ours(), b"new\n")
    said = git.cleaned(lines)

    assert len(str(refusal.value)) < 700
    assert said.startswith("line 0; line 1; ")
    assert said.endswith(" …")
    assert time.process_time() - began_s < 2


def test_the_liveness_probe_waits_for_the_slowest_look(
    remote: remotes.Remote, monkeypatch: pytest.MonkeyPatch, repository_root: Path
) -> None:
    monkeypatch.setitem(git._SETTINGS, "protocol.version", "0")
    monkeypatch.setattr(git, "_DEPTHS", (1, 20))
    remote.commit("main", {PATH: b"old\n", "inventory/east.accept": b"word\n"})
    slow_s: list[float] = []
    real = process.run

    def run(command: process.Command, limits: process.Limits) -> process.Ended:
        slow_s.append(limits.timeout_s)
        return real(command, limits)

    def decide(found: repository.Found) -> repository.Change:
        found.messages()
        return repository.Change(content=b"new\n", message="m\n")

    monkeypatch.setattr(process, "run", run)
    assert remote.ours().publish(decide)
    template = (repository_root / "templates/watcher/workload-kae-watcher.yaml").read_text("utf-8")
    (allowed,) = re.findall(r'alive, --seconds, "([0-9]+)"', template)

    assert len(slow_s) > 20
    assert sum(slow_s) + repository._PATIENCE_S + 300 < int(allowed)


def test_a_server_that_takes_no_push_options_is_quoted(remote: remotes.Remote) -> None:
    repo = remote.ours()
    repo.target = structs.replace(repo.target, push_options=("merge_request.create",))

    with pytest.raises(git.Failed, match="does not support push options"):
        remotes.publish(repo, b"new\n")


def test_nothing_is_left_in_the_scratch_folder_even_of_a_killed_process(remote: remotes.Remote, tmp_path: Path) -> None:
    (tmp_path / "scratch/clone-old/git").mkdir(parents=True)

    remotes.publish(remote.ours(scratch=tmp_path / "scratch"), b"new\n")

    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_scratch_folder_that_cannot_be_written_is_told(remote: remotes.Remote, tmp_path: Path) -> None:
    (tmp_path / "scratch").write_bytes(b"")

    with pytest.raises(errors.Failure, match=r"The scratch folder .* cannot be written: File exists"):
        look(remote.ours(scratch=tmp_path / "scratch"))


def look(repo: repository.Repository) -> repository.Found:
    seen: list[repository.Found] = []
    assert repo.publish(seen.append) is None
    return seen[-1]


def messages(repo: repository.Repository) -> list[str]:
    seen: list[list[str]] = []
    repo.publish(lambda found: seen.append(found.messages()))
    return [message.strip() for message in seen[-1] if message.strip()]
