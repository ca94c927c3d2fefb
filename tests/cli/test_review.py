"""The jobs that say on a pull request what it does: `ci/review.sh` and `ci/comment.py`, with real git."""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest

from compiler.project import package_data
from tests import project, revisions
from tests.cli import codehosts, diffs, jobs
from tests.cli.codehosts import CodeHost
from tests.cli.jobs import World

SCRIPTS = Path(package_data.folder("templates")) / "init/ci"
MARK = "<!-- kae: what a pull request does -->"
UNKNOWN = "### What this pull request does is not known"


@pytest.fixture(params=["github", "gitlab"])
def host(request: pytest.FixtureRequest) -> Iterator[CodeHost]:
    """A code host with a pull request."""
    with codehosts.serving(request.param) as host:
        yield host


@pytest.fixture
def world(tmp_path: Path, repository_root: Path) -> World:
    """An environment with kae, and a clone of the example of docs/rollouts.md in it with the scripts of the jobs."""
    world = World(tmp_path, repository_root)
    made = shutil.copytree(diffs.EXAMPLE, tmp_path / "made")
    shutil.copytree(SCRIPTS, made / "ci")
    (made / "ci/review.sh").chmod(0o755)
    revisions.commit(made)
    world.git(tmp_path, "clone", "--quiet", "--bare", "made", "fleet.git")
    world.clone("a")
    return world


@functools.cache
def script() -> ModuleType:
    """Return ci/comment.py as a module."""
    path = SCRIPTS / "comment.py"
    module = ModuleType("comment")
    # The import system would leave bytecode beside the templates.
    exec(compile(path.read_bytes(), path, "exec"), module.__dict__)  # noqa: S102 - it is a file of this repository
    return module


def comment(host: CodeHost, folder: Path, text: str | None, **more: str) -> str:
    """Call the script's main function on a file with this text, and return what it says or ends with."""
    path = folder / "comment.md"
    path.unlink(missing_ok=True)
    if text is not None:
        path.write_text(text)
    with mock.patch.dict(os.environ, {"NO_PROXY": "*", **host.environment, **more}, clear=True):
        try:
            said = str(script().main(str(path)))
        except SystemExit as end:
            said = f"ended: {end.code}"
    assert codehosts.TOKEN not in said
    return said


def bodies(host: CodeHost) -> list[str]:
    """Return the comments with the mark."""
    return [one["body"] for one in host.comments if (one["body"] or "").startswith(MARK)]


def test_a_second_run_updates_the_comment_of_the_first(host: CodeHost, tmp_path: Path) -> None:
    first = comment(host, tmp_path, "### 1 of 24 nodes is affected\n")
    second = comment(host, tmp_path, "### 12 of 24 nodes are affected\n")

    assert (first, second) == ("Commented.", "Updated the comment.")
    (body,) = bodies(host)
    assert body.startswith(f"{MARK}\n### 12 of 24 nodes are affected\n")
    assert "pipelines/42)" in body or "actions/runs/42)" in body
    assert host.writes()[0] == "POST"
    assert len(host.writes()) == 2


def test_the_comment_is_found_behind_hundreds_of_others(host: CodeHost, tmp_path: Path) -> None:
    for number in range(250):
        host.add(f"Comment {number}", is_own=False)
    comment(host, tmp_path, "old\n")
    comment(host, tmp_path, "new\n")

    assert [body.splitlines()[1] for body in bodies(host)] == ["new"]
    assert [one["body"] for one in host.comments[:250]] == [f"Comment {number}" for number in range(250)]


def test_comments_of_others_are_left_alone_with_the_mark_too(host: CodeHost, tmp_path: Path) -> None:
    host.add(f"{MARK}\nmine\n", is_own=False)
    host.add(f"> {MARK}\nYes.\n", is_own=True)
    host.add(None, is_own=True)
    before = [one["body"] for one in host.comments]

    comment(host, tmp_path, "text\n")

    assert [one["body"] for one in host.comments[:3]] == before
    assert host.writes() == ["POST"]


def test_a_comment_of_another_token_is_updated_and_that_of_another_app_left_alone(tmp_path: Path) -> None:
    with codehosts.serving("github") as host:
        comment(host, tmp_path, "of the workflow\n")
        host.login = "kae-bot[app]"

        said = [comment(host, tmp_path, "first\n"), comment(host, tmp_path, "second\n")]

        assert said == ["Commented.", "Updated the comment."]
        assert [body.splitlines()[1] for body in bodies(host)] == ["of the workflow", "second"]


def test_the_comment_leads_to_the_page_of_the_fleet_only_if_there_is_one(host: CodeHost, tmp_path: Path) -> None:
    comment(host, tmp_path, "text\n")
    (without,) = bodies(host)
    (tmp_path / "fleet.html").write_text("")
    comment(host, tmp_path, "text\n")

    assert "[The job](https://" in without
    assert "[The page of the fleet, node by node](https://" in bodies(host)[0]


def test_a_job_without_a_review_updates_the_comment_to_say_so(host: CodeHost, tmp_path: Path) -> None:
    comment(host, tmp_path, "text\n")
    comment(host, tmp_path, None)

    assert bodies(host)[0].startswith(f"{MARK}\n{UNKNOWN}\n\nThe job has made no review.\n")


def test_an_empty_difference_makes_no_comment(host: CodeHost, tmp_path: Path) -> None:
    comment(host, tmp_path, "")

    assert (host.writes(), host.comments) == ([], [])


def test_an_earlier_comment_is_updated_when_nothing_is_left_of_the_change(host: CodeHost, tmp_path: Path) -> None:
    comment(host, tmp_path, "### 1 of 24 nodes is affected\n")
    comment(host, tmp_path, "")

    assert bodies(host) == [f"{MARK}\nThe pull request does nothing to any node any more.\n"]


def test_a_token_that_only_reads_ends_no_job(host: CodeHost, tmp_path: Path) -> None:
    host.may_write = False

    assert comment(host, tmp_path, "text\n").startswith("There is no comment, as the token may not: POST http")
    assert host.comments == []


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        (("GITHUB_TOKEN", "KAE_COMMENT_TOKEN"), "is not set"),
        (("GITHUB_REF", "CI_MERGE_REQUEST_IID"), "of no pull request"),
    ],
)
def test_without_a_token_or_a_pull_request_nothing_is_asked(
    host: CodeHost, tmp_path: Path, variables: tuple[str, str], said: str
) -> None:
    assert said in comment(host, tmp_path, "text\n", **dict.fromkeys(variables, ""))
    assert host.requests == []


def test_another_error_of_the_code_host_fails_the_job(host: CodeHost, tmp_path: Path) -> None:
    said = comment(host, tmp_path, "text\n", GITHUB_REPOSITORY="team/other", CI_MERGE_REQUEST_PROJECT_ID="13")

    assert said.startswith("ended: ")
    assert ": 404 Not Found" in said


def test_a_token_is_not_sent_on_to_another_host(host: CodeHost, tmp_path: Path) -> None:
    with codehosts.serving(host.name) as other:
        host.moved_to = other.url

        said = comment(host, tmp_path, "text\n")

    assert said.startswith("ended: ")
    assert ": 307 " in said
    assert other.requests == []


def test_the_script_prints_what_it_does_and_ends_with_1_at_an_error(tmp_path: Path) -> None:
    (tmp_path / "comment.md").write_text("text\n")
    command = (sys.executable, "-I", str(SCRIPTS / "comment.py"), str(tmp_path / "comment.md"))
    with codehosts.serving("github") as host:
        environments = ({"NO_PROXY": "*", **host.environment, **more} for more in ({}, {"GITHUB_REPOSITORY": "x/y"}))

        fine, wrong = (
            subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
            for environment in environments
        )

    assert (fine.returncode, fine.stdout, wrong.returncode) == (0, "Commented.\n", 1)
    assert ": 404 Not Found" in wrong.stderr
    assert "Traceback" not in wrong.stderr


@pytest.fixture
def clone(world: World) -> Path:
    """The clone in the environment."""
    return world.folder / "a"


def propose(world: World, clone: Path, edit: str = "canary") -> None:
    """Commit a change on a branch, and check out what GitHub does."""
    world.git(clone, "checkout", "--quiet", "-b", "change")
    if edit:
        diffs.change(clone, edit)
    (clone / "notes.txt").write_text("a note\n")
    world.propose(clone, "Change")


def summarised(world: World) -> dict[str, str]:
    """The variables of a job of GitHub that writes a summary."""
    return jobs.ACTIONS | {"GITHUB_STEP_SUMMARY": str(world.folder / "summary")}


def test_a_review_has_the_comment_the_page_the_summary_and_annotations(world: World, clone: Path) -> None:
    propose(world, clone)

    done = world.ended(0, clone, "ci/review.sh", **summarised(world))

    text = (clone / "review/comment.md").read_text()
    assert text.startswith("### 1 of 24 nodes in cluster east is affected\n")
    assert (world.folder / "summary").read_text() == text
    assert "changing the driver" in (clone / "review/fleet.html").read_text()
    said = list(jobs.commands(done.stdout))
    assert [one.startswith("notice 1 node of policy tls goes from driver 2.2.0 to 2.3.0") for one in said] == [True]


def test_no_line_of_a_review_is_a_workflow_command(world: World, clone: Path) -> None:
    priority = ("version: 1.4.1", "version: 1.4.1\n    priorityClassName: '##[add-mask]the'")
    env = ("  driver:\n", '  driver:\n    env: [{name: X, value: "a\\n::error::b ##[add-mask]c"}]\n')
    diffs.edit(clone, priority, env)
    propose(world, clone)

    done = world.run(clone, "ci/review.sh", **jobs.ACTIONS)

    assert "##[add-mask]" in done.stdout
    said = [one.split()[0] for one in jobs.commands(done.stdout + done.stderr)]
    assert set(said) <= {"error", "notice", "stop-commands"}
    assert said.count("stop-commands") == 2  # The difference, and why there is no page of the fleet.


def test_a_review_of_gitlab_compares_with_the_base_of_the_merge_request(world: World, clone: Path) -> None:
    base = world.git(clone, "rev-parse", "HEAD")
    diffs.change(clone, "canary")
    world.commit(clone, "One")
    diffs.edit(clone, ("version: 1.4.1", "version: 1.5.0"))
    world.commit(clone, "Two")

    done = world.ended(0, clone, "ci/review.sh", CI_MERGE_REQUEST_DIFF_BASE_SHA=base)

    assert "::" not in done.stdout
    assert (clone / "review/comment.md").read_text().startswith("### 24 of 24 nodes in cluster east are affected\n")


def test_a_review_of_a_change_that_does_nothing_has_an_empty_comment(world: World, clone: Path) -> None:
    propose(world, clone, edit="")

    done = world.run(clone, "ci/review.sh", **summarised(world))

    assert done.returncode == 0
    assert done.stdout.endswith(": no change\n")
    assert (clone / "review/comment.md").read_bytes() == b""
    assert (world.folder / "summary").read_text() == "The pull request does nothing to any node.\n"


def test_a_review_of_wrong_documents_fails_and_says_so_in_the_comment(world: World, clone: Path) -> None:
    diffs.edit(clone, ("maxParallel: 2", "maxParallel: two"))
    world.commit(clone, "Change")

    world.ended(1, clone, "ci/review.sh", "HEAD~1")

    assert (clone / "review/comment.md").read_text().startswith("### What does not compile")


def test_a_risk_that_is_an_error_fails_the_review_until_a_commit_accepts_it(world: World, clone: Path) -> None:
    (clone / "kae.yaml").write_text("findings: {large-step: error}\n")
    diffs.change(clone, "no waves")
    world.commit(clone, "Begin")
    diffs.edit(clone, ("version: 2.2.0", "version: 2.3.0"))
    world.commit(clone, "Go")
    world.ended(1, clone, "ci/review.sh", "HEAD~1")
    assert "- **error** `large-step`" in (clone / "review/comment.md").read_text()
    world.git(clone, "commit", "--quiet", "--allow-empty", "-m", "Accept", "-m", "Kae-Accept: large-step:east/tls")

    world.ended(0, clone, "ci/review.sh", "HEAD~2")

    assert "- **accepted** `large-step:east/tls`" in (clone / "review/comment.md").read_text()
    assert "It is accepted as large-step:east/tls." in (clone / "review/fleet.html").read_text()


def test_a_review_writes_through_no_link_of_the_repository(world: World, clone: Path) -> None:
    propose(world, clone)
    outside = world.folder / "outside"
    outside.mkdir()
    (clone / "review").symlink_to(outside)

    world.ended(0, clone, "ci/review.sh")

    assert project.tree(outside) == {}


def test_a_clone_without_the_base_reviews_nothing_and_fails(world: World, clone: Path) -> None:
    done = world.ended(1, clone, "ci/review.sh", "0" * 40)

    assert "so what the pull request does is not known." in done.stderr
    told = (clone / "review/comment.md").read_text()
    assert told == f"{UNKNOWN}\n\nThis clone has no commit '{'0' * 40}'.\n"


def review(world: World, clone: Path) -> tuple[int, str, str]:
    """Review the last commit, as GitHub does; return the exit code, the comment and the log."""
    done = world.run(clone, "ci/review.sh", "HEAD~1", **summarised(world))
    told = (clone / "review/comment.md").read_text()
    assert (world.folder / "summary").read_text() == (told or "The pull request does nothing to any node.\n")
    return done.returncode, told, done.stdout + done.stderr


def test_a_wrong_kae_yaml_leaves_unknown_what_the_pull_request_does(world: World, clone: Path) -> None:
    (clone / "kae.yaml").write_text("findngs: {}\n")
    world.commit(clone, "Change")

    code, told, _ = review(world, clone)

    assert code == 1
    said = "kae diff ended with 1 and gave no answer.\n\n    kae.yaml:1:1: error[unknown-field]"
    assert told.startswith(f"{UNKNOWN}\n\n{said}")


@pytest.mark.parametrize(
    ("code", "said", "quoted"),
    [
        (3, "'<b>@team</b>'", "    <b>@team</b>\n"),
        (1, "'Traceback\\r/close\\nboom'", "    Traceback/close\n    boom\n"),
        (1, "''", ""),
    ],
)
def test_a_failure_of_kae_diff_leaves_unknown_what_the_pull_request_does(
    world: World, clone: Path, code: int, said: str, quoted: str
) -> None:
    propose(world, clone)
    world.install(world.folder / "bin/kae", f"printf {said} >&2; exit {code}")

    ended, told, log = review(world, clone)

    assert ended == code
    assert told == f"{UNKNOWN}\n\nkae diff ended with {code} and gave no answer.\n" + (quoted and f"\n{quoted}")
    assert f"There is no page of the fleet, as kae report ended with {code}:\n" in log


def test_a_report_that_fails_is_said_in_the_log_and_fails_the_job(world: World, clone: Path) -> None:
    propose(world, clone)
    kae = shutil.which("kae", path=world.environment["PATH"])
    words = "[ $1 != report ] || { echo 'no space left ##[add-mask]the' >&2; exit 3; }"
    own = world.folder / "own"
    world.install(own / "kae", f'{words}; exec {kae} "$@"')
    world.environment["PATH"] = f"{own}:{world.environment['PATH']}"

    code, told, log = review(world, clone)

    assert code == 3
    assert told.startswith("### 1 of 24 nodes")
    assert "There is no page of the fleet, as kae report ended with 3:\n" in log
    assert "no space left" in log
    assert "add-mask the" not in list(jobs.commands(log))
