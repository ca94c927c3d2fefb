"""The verbs of git against real servers, and what goes wrong with each."""

import os
import shutil
import threading
from pathlib import Path

import pytest

from runtime import process
from tests.watcher import remotes, servers
from watcher.git import git, git_errors

OTHER_USER = 54_321  # in no /etc/passwd


def tool(folder: Path, url: str, timeout_s: float = 20) -> git.Git:
    limits = process.Limits(timeout_s=timeout_s, stop=threading.Event())
    made = git.Git(folder / "clone", url, git.Access(), limits)
    made.create("sha1")
    return made


def heads(folder: Path, url: str, timeout_s: float = 20) -> git.Heads:
    return tool(folder, url, timeout_s).heads(("main",))


def test_the_callers_environment_and_configuration_have_no_say(
    remote: remotes.Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = tmp_path / ".gitconfig"
    trap.write_text(f'[url "file:///nowhere"]\n\tinsteadOf = {remote.url}\n')
    values = {"HOME": tmp_path, "GIT_CONFIG_GLOBAL": trap, "GIT_CONFIG_SYSTEM": trap, "GIT_DIR": "/x", "GIT_TRACE": "1"}
    for name, value in values.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.chdir(tmp_path)

    found = heads(tmp_path, remote.url)

    assert found.tips == {"main": remote.tip()}


def test_branches_are_told_from_those_whose_names_end_alike(remote: remotes.Remote, tmp_path: Path) -> None:
    remote("update-ref", "refs/heads/refs/heads/main", remote.commit("x/HEAD", {"a": b""}))
    remote("update-ref", "-d", "refs/heads/main")

    found = heads(tmp_path, remote.url)

    assert found == git.Heads(default=None, default_tip=None, tips={})


def test_a_local_verb_never_asks_the_network(remote: remotes.Remote, tmp_path: Path) -> None:
    made = tool(tmp_path, remote.url)
    commit = made.fetch("main")
    missing = next(entry for entry in made.entries(commit) if entry.name == "other.txt")

    with pytest.raises(git_errors.Broken):
        made._run("cat-file", "blob", missing.object)

    assert made.blob(missing) == b"other\n"


def test_a_push_says_nothing_else_than_that_branch(remote: remotes.Remote, tmp_path: Path) -> None:
    made = tool(tmp_path, remote.url)
    made.push(git.Push(branch="copy", old=None, new=made.fetch("main")))

    with pytest.raises(git_errors.LostRace):
        made.push(git.Push(branch="main", old="1" * 40, new=None))

    assert set(remote.branches()) == {"copy", "main"}


@pytest.mark.parametrize("scheme", ["file", "git", "http"])
def test_every_transport_reads_and_writes(
    remote: remotes.Remote, web: servers.Web, tmp_path: Path, scheme: str
) -> None:
    content = os.urandom(1_500_000)  # more than goes into one request (http.postBuffer)
    with servers.daemon(tmp_path) as daemon:
        url = {"file": remote.url, "git": f"{daemon}/remote.git", "http": f"{web.url}/remote.git"}[scheme]
        made = tool(tmp_path, url)
        tip = made.fetch("main")
        tree = made.write_tree([git.Entry(mode=git.FILE, type="blob", object=made.write_blob(content), name="a")])
        commit = made.write_commit(tree, tip, "new", git.Author(name="a", email="a@example.com"), None)

        made.push(git.Push(branch="main", old=tip, new=commit))

    assert remote.tip() == commit
    assert made.parents(commit) == (tip,)


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (401, git_errors.Denied, "Authentication failed"),
        (403, git_errors.Denied, "403"),
        (404, git_errors.NotFound, "not found"),
        (410, git_errors.NotFound, "410"),
        (500, git_errors.Unreachable, "500"),
        (503, git_errors.Unreachable, "503"),
    ],
)
def test_a_web_server_that_answers_otherwise_is_told(
    web: servers.Web, tmp_path: Path, status: int, kind: type[git_errors.Failed], words: str
) -> None:
    web.rules.status = status

    with pytest.raises(kind, match=words):
        heads(tmp_path, f"{web.url}/remote.git")


def test_a_server_that_does_not_answer_is_not_waited_for(web: servers.Web, tmp_path: Path) -> None:
    web.rules.deaf = True

    with pytest.raises(process.TooSlow, match=r"^'git ls-remote' did not end within 1 seconds\.$"):
        heads(tmp_path, f"{web.url}/remote.git", timeout_s=1)


@pytest.mark.parametrize("scheme", ["git", "http", "https"])
def test_a_server_that_is_gone_or_has_no_name_is_unreachable(tmp_path: Path, scheme: str) -> None:
    for host in (f"127.0.0.1:{servers.free_port()}", "nobody.invalid"):
        with pytest.raises(
            git_errors.Unreachable, match=f"^The repository '{scheme}://{host}/a.git' cannot be reached: "
        ):
            heads(tmp_path / host, f"{scheme}://{host}/a.git")


def test_a_user_in_the_url_is_not_shown() -> None:
    shown = [git.shown_url(url) for url in ("https://user:word@host/a@b", "ssh://git@host/a", "git@host:a")]

    assert shown == ["https://host/a@b", "ssh://host/a", "git@host:a"]


def test_a_repository_that_is_not_there_is_not_found(remote: remotes.Remote, tmp_path: Path) -> None:
    with servers.daemon(tmp_path) as daemon:
        for url in (f"{daemon}/gone.git", f"{remote.url}.gone"):
            with pytest.raises(git_errors.NotFound):
                tool(tmp_path / url[-9:], url).heads(("main",))


def test_a_server_that_takes_no_pushes_denies(remote: remotes.Remote, tmp_path: Path) -> None:
    with servers.daemon(tmp_path, writable=False) as daemon:
        made = tool(tmp_path, f"{daemon}/remote.git")
        tip = made.fetch("main")

        with pytest.raises(git_errors.Denied, match="service not enabled"):
            made.push(git.Push(branch="copy", old=None, new=tip))


PUBLISH = """
from pathlib import Path
from tests.watcher import remotes
from watcher.git import git_errors
remote = remotes.Remote.__new__(remotes.Remote)
remote.path = Path(sys.argv[2])
ours = remote.ours(scratch=Path(sys.argv[3]))
become(int(sys.argv[1]))
try:
    print(remotes.publish(ours, b"new"))
except git_errors.Failed as failure:
    print(type(failure).__name__, failure)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="becoming another user takes root")
@pytest.mark.parametrize("writable", [True, False])
def test_a_user_whom_nobody_knows_serves_a_repository_of_another(writable: bool) -> None:
    with servers.short_folder() as folder:
        folder.chmod(0o755)
        remote = remotes.Remote(folder / "remote.git")
        tip = remote.tip()
        for path in (remote.path, *remote.path.rglob("*")):
            path.chmod((0o777 if path.is_dir() else 0o666) if writable else 0o555)
        own = folder / "own"
        own.mkdir()
        shutil.chown(own, OTHER_USER, OTHER_USER)

        ended = servers.as_user(OTHER_USER, PUBLISH, str(remote.path), str(own / "scratch"))

        assert ended.stderr == ""
        if writable:
            assert ended.stdout.split() == [remote.tip()]
        else:
            assert ended.stdout.startswith("Denied ")
            assert remote.tip() == tip
