"""The job that rehearses a pull request, `ci/rehearse.sh`: which programs it takes, and what it says of the rehearsal.

tests/cluster/test_rehearse.py has a whole one; here programs stand in for kae, pip and those of the archives.
"""

import functools
import hashlib
import http.server
import io
import ssl
import subprocess
import tarfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from compiler.commands import init
from compiler.rehearsal.programs import NAMES
from tests import project
from tests.cli import jobs
from tests.cli.jobs import World
from tests.kube import apiserver

pytestmark = pytest.mark.long

KUBERNETES = tuple(f"kubernetes/server/bin/{name}" for name in NAMES if name != "etcd")
ETCD = "etcd-v3.6.5-linux-amd64/etcd"
KAE = 'echo "kae $*"; for each in "$6"/*; do "$each"; done'
"""Stands for kae: prints its arguments, and starts the programs."""


def packed(path: Path, members: Iterable[str | tarfile.TarInfo]) -> Path:
    """Make an archive of programs that print their name in it, and of what else is given."""
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
                continue
            text = f"#!/bin/sh\necho 'this is {member}'\n".encode()
            info = tarfile.TarInfo(member)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))
    return path


def link(name: str, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


def sums(*archives: Path) -> str:
    return " ".join(hashlib.sha256(archive.read_bytes()).hexdigest() for archive in archives)


@pytest.fixture
def clone(world: World) -> Path:
    """A clone with a commit behind the base, in which the other programs stand for themselves."""
    world.install(world.folder / "bin/kae", KAE)
    world.install(world.folder / "bin/python3", 'echo "python3 $*"')
    (world.folder / "tmp").mkdir()
    world.environment |= {"TMPDIR": str(world.folder / "tmp")}
    clone = world.clone("clone")
    (clone / "notes.txt").write_text("a note\n")
    world.commit(clone, "Change")
    return clone


@pytest.fixture
def whole(world: World) -> Path:
    """An archive of all programs."""
    return packed(world.folder / "archives/all.tar.gz", NAMES)


def rehearse(world: World, clone: Path, *archives: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the job with archives and their sums, and look for what it leaves behind."""
    variables = {"KAE_CONTROL_PLANE": " ".join(map(str, archives)), "KAE_CONTROL_PLANE_SHA256": sums(*archives)}
    done = world.run(clone, "ci/rehearse.sh", **{"CI_MERGE_REQUEST_DIFF_BASE_SHA": "HEAD~1", **variables, **more})
    assert project.tree(world.folder / "tmp") == {}
    return done


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    """Return why there was no rehearsal."""
    assert done.returncode == 3, done.stdout + done.stderr
    assert "kae rehearse" not in done.stdout
    return done.stderr


def test_the_programs_of_several_archives_play_the_pull_request(world: World, clone: Path) -> None:
    archives = [packed(world.folder / "archives/kubernetes.tar.gz", ("kubernetes/LICENSES", *KUBERNETES))]
    archives.append(packed(world.folder / "archives/etcd.tar.gz", (ETCD, f"{ETCD}ctl")))
    base = world.git(clone, "rev-parse", "HEAD~1")

    done = rehearse(world, clone, *archives)

    assert done.returncode == 0, done.stderr
    pip, kae, *started = done.stdout.splitlines()
    assert pip == "python3 -P -m pip install --require-hashes --requirement ci/requirements-live.txt"
    assert kae.startswith(f"kae rehearse {base} --to HEAD --programs {world.folder / 'tmp'}")
    assert started == [f"this is {name}" for name in (ETCD, *KUBERNETES)]


@pytest.fixture
def served(world: World) -> Iterator[str]:
    """A server of the archives by https, whose certificate the jobs trust."""
    (world.folder / "archives").mkdir()
    authority = apiserver.certificate(world.folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority, authority.with_suffix(".key"))
    world.environment |= {"CURL_CA_BUNDLE": str(authority), "NO_PROXY": "*"}
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=world.folder / "archives")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"https://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_an_archive_is_downloaded_by_https(world: World, clone: Path, served: str) -> None:
    archive = packed(world.folder / "archives/[all].tar.gz", NAMES)

    done = rehearse(world, clone, archive, KAE_CONTROL_PLANE=f"{served}/[all].tar.gz")
    missing = rehearse(world, clone, archive, KAE_CONTROL_PLANE=f"{served}/none.tar.gz?token=secret")

    assert (done.returncode, done.stdout.count("this is ")) == (0, 4), done.stderr
    assert f"'{served}/none.tar.gz' cannot be downloaded." in refusal(missing)
    assert "secret" not in missing.stdout + missing.stderr


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/a.tar", "https://me:secret@127.0.0.1:1/a.tar", "file:///a.tar"])
def test_an_address_without_tls_or_with_a_password_is_refused_unasked(
    url: str, world: World, clone: Path, whole: Path
) -> None:
    said = refusal(rehearse(world, clone, whole, KAE_CONTROL_PLANE=url))

    assert said == "A URL in KAE_CONTROL_PLANE begins with https://, and holds no password.\n"


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"KAE_CONTROL_PLANE_SHA256": ""}, "KAE_CONTROL_PLANE_SHA256 has to have one sum for each archive"),
        ({"KAE_CONTROL_PLANE_SHA256": f"{'a' * 64} {'b' * 64}"}, "KAE_CONTROL_PLANE_SHA256 has to have one sum"),
        ({"KAE_CONTROL_PLANE_SHA256": "a" * 64}, ", and KAE_CONTROL_PLANE_SHA256 another."),
        ({"KAE_CONTROL_PLANE_SHA256": "*"}, ", and KAE_CONTROL_PLANE_SHA256 another."),
        ({"KAE_CONTROL_PLANE": ""}, "KAE_CONTROL_PLANE names no archive."),
        ({"KAE_CONTROL_PLANE": "none.tar"}, "'none.tar' cannot be read."),
        ({"CI_MERGE_REQUEST_DIFF_BASE_SHA": "none\x1b[2J"}, "This clone has no commit 'none??2J'."),
    ],
)
def test_nothing_of_an_archive_runs_that_its_sum_does_not_name(
    variables: dict[str, str], said: str, world: World, clone: Path, whole: Path
) -> None:
    done = rehearse(world, clone, whole, **variables)

    assert said in refusal(done)
    assert "this is " not in done.stdout


def test_an_archive_that_changes_in_the_repository_is_refused(world: World, clone: Path, whole: Path) -> None:
    expected = sums(whole)
    packed(clone / "all.tar.gz", (*NAMES, "more"))

    done = rehearse(world, clone, KAE_CONTROL_PLANE="all.tar.gz", KAE_CONTROL_PLANE_SHA256=expected)

    assert f"'all.tar.gz' has the sha256 {sums(clone / 'all.tar.gz')}" in refusal(done)


@pytest.mark.parametrize("name", ["{outside}/absolute", "there/below", "../../up/etcd"])
def test_no_name_and_no_link_of_an_archive_leads_out_of_the_folder(name: str, world: World, clone: Path) -> None:
    outside = world.folder / "outside"
    outside.mkdir()
    links = (link("bin", str(outside)), link("there", str(outside)), link("other/etcd", f"{outside}/etcd"))
    members: list[str | tarfile.TarInfo] = [*links, name.format(outside=outside), *(f"bin/{each}" for each in NAMES)]
    before = {*project.tree(world.folder)}

    done = rehearse(world, clone, packed(world.folder / "archives/all.tar.gz", members))

    if ".." in name:  # tar itself refuses such a name.
        assert "cannot be unpacked" in refusal(done)
    else:
        assert done.stdout.splitlines()[2:] == [f"this is bin/{each}" for each in NAMES], done.stderr
    assert {*project.tree(world.folder)} - before == {"archives/all.tar.gz"}


def test_a_program_that_no_archive_holds_is_not_taken_from_the_machine(world: World, clone: Path) -> None:
    world.install(world.folder / "bin/etcd", "echo another")
    archive = packed(world.folder / "archives/kubernetes.tar.gz", (*KUBERNETES, link("bin/etcd", "/bin/true")))

    assert refusal(rehearse(world, clone, archive)) == "No archive of KAE_CONTROL_PLANE holds etcd.\n"


@pytest.mark.parametrize("second", [(ETCD, "other/etcd"), (ETCD, "kube-scheduler")])
def test_of_two_programs_of_one_name_none_is_chosen(second: tuple[str, str], world: World, clone: Path) -> None:
    first = packed(world.folder / "archives/kubernetes.tar.gz", KUBERNETES)

    done = rehearse(world, clone, first, packed(world.folder / "archives/etcd.tar.gz", second))

    assert "/etcd.tar.gz' cannot be unpacked, or holds a program that was there already." in refusal(done)


def test_what_is_no_archive_is_refused(world: World, clone: Path) -> None:
    text = project.write(world.folder, {"archive": "text\n"}) / "archive"

    assert f"'{text}' cannot be unpacked" in refusal(rehearse(world, clone, text))


@pytest.mark.parametrize(
    ("code", "title"),
    [
        (0, "The rehearsal differs nowhere from what `kae diff` says"),
        (1, "There was no rehearsal"),
        (4, "The rehearsal differs from what `kae diff` says"),
    ],
)
def test_the_job_ends_as_the_rehearsal_does_and_its_summary_says_it(
    code: int, title: str, world: World, clone: Path, whole: Path
) -> None:
    world.install(world.folder / "bin/kae", f"echo 'cluster east'; echo refused >&2; exit {code}")
    summary = world.folder / "summary"

    done = rehearse(world, clone, whole, GITHUB_STEP_SUMMARY=str(summary))

    assert done.returncode == code
    assert done.stdout.endswith("cluster east\nrefused\n")
    assert summary.read_text() == f"### {title}\n\n    cluster east\n    refused\n"


def test_no_line_of_a_rehearsal_is_a_workflow_command(world: World, clone: Path, whole: Path) -> None:
    said = r"printf 'cluster <b>@team</b>\r/close\n##[add-mask]the\n'; printf '::error::b\n' >&2"
    world.install(world.folder / "bin/kae", said)
    summary = world.folder / "summary"

    done = rehearse(world, clone, whole, GITHUB_STEP_SUMMARY=str(summary), **jobs.ACTIONS)

    assert "##[add-mask]the\n" in done.stdout
    assert [one.split()[0] for one in jobs.commands(done.stdout + done.stderr)] == ["stop-commands"]
    assert summary.read_text().splitlines()[2:] == [
        "    cluster <b>@team</b>/close",
        "    ##[add-mask]the",
        "    ::error::b",
    ]


def test_a_summary_that_would_be_too_long_leads_to_the_log(world: World, clone: Path, whole: Path) -> None:
    world.install(world.folder / "bin/kae", "seq 2000")
    summary = world.folder / "summary"

    done = rehearse(world, clone, whole, GITHUB_STEP_SUMMARY=str(summary))

    assert done.stdout.endswith("\n2000\n")
    assert summary.read_text().endswith("\n    999\n    1000\n\nThe log has the rest.\n")


def test_the_summary_says_why_there_is_no_rehearsal(world: World, clone: Path) -> None:
    summary = world.folder / "summary"

    refusal(rehearse(world, clone, GITHUB_STEP_SUMMARY=str(summary)))

    assert summary.read_text() == "### There was no rehearsal\n\n    KAE_CONTROL_PLANE names no archive.\n"


def test_on_github_the_base_is_the_first_parent_of_the_merge(world: World, clone: Path, whole: Path) -> None:
    world.merge(clone)
    base = world.git(clone, "rev-parse", "origin/main")

    done = rehearse(world, clone, whole, CI_MERGE_REQUEST_DIFF_BASE_SHA="", **jobs.ACTIONS)

    assert f"kae rehearse {base} --to HEAD" in done.stdout


def template(name: str, shards: int | None) -> Any:
    """Return the data of a file that `kae init` writes."""
    return yaml.safe_load(init.texts("default", shards=shards)[name])


@pytest.mark.parametrize("shards", [None, 3])
def test_pull_requests_alone_are_rehearsed_where_the_variable_is_set_and_no_job_waits(shards: int | None) -> None:
    jobs, gitlab = template(".github/workflows/kae.yaml", shards)["jobs"], template(".gitlab-ci.yml", shards)
    (scripts,) = [step for step in jobs["rehearse"]["steps"] if step.get("run") == "ci/rehearse.sh"]

    assert jobs["rehearse"]["if"] == "github.event_name == 'pull_request' && vars.KAE_CONTROL_PLANE != ''"
    assert gitlab["rehearse"]["rules"] == [{"if": '$CI_PIPELINE_SOURCE == "merge_request_event" && $KAE_CONTROL_PLANE'}]
    assert {*scripts["env"]} == {"KAE_CONTROL_PLANE", "KAE_CONTROL_PLANE_SHA256"}
    assert "permissions" not in jobs["rehearse"]
    assert jobs["rehearse"]["steps"][0]["with"] == {"persist-credentials": False, "fetch-depth": 2}
    for every in (jobs, {name: job for name, job in gitlab.items() if name != "default"}):
        assert "needs" not in every["rehearse"]
        assert "rehearse" not in str([job.get("needs") for job in every.values()])
