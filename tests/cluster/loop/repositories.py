"""The git host of a fleet, whoever works with its repositories, and the jobs that run for them."""

import base64
import contextlib
import functools
import os
import secrets
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.local import waiting
from tests.watcher import remotes, servers

_WAIT_S = 300


class Failed(waiting.NotYet):
    """A command has failed; the text is what it said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The git host: a server for everybody, and one for those with a password."""

    open: servers.Web
    closed: servers.Web
    authority: Path
    """The certificate of the authority whose certificate the closed server has."""
    user: str = "kae-watcher"
    password: str = field(default_factory=functools.partial(secrets.token_urlsafe, 24))

    @property
    def basic(self) -> str:
        return base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


@contextlib.contextmanager
def hosted(folder: Path, address: str) -> Iterator[Host]:
    for name in ("open", "closed"):
        (folder / name).mkdir(parents=True)
    authority = servers.authority(folder / "authority", address)
    closed = servers.web(folder / "closed", authority.context(clients=False), address)
    with servers.web(folder / "open", address=address) as web, closed as guarded:
        host = Host(open=web, closed=guarded, authority=authority.folder / "ca.crt")
        guarded.rules.demand_basic(host.user, host.password)
        yield host


class Fleet:
    def __init__(self, folder: Path, host: Host) -> None:
        """Make the repositories in the folders that the host serves, below `folder / "git"`."""
        self.bare = remotes.Remote(folder / "git/open/fleet.git", empty=True)
        self.inventory = remotes.Remote(folder / "git/closed/inventory.git", empty=True)
        self.host = host
        self.url, self.inventory_url = f"{host.open.url}/fleet.git", f"{host.closed.url}/inventory.git"
        self.folder = folder / "fleet"
        """Where the person works."""
        self.noted: list[str] = []
        """The commands of people and jobs."""
        self._jobs = folder / "jobs"
        self._jobs.mkdir()

    def head(self) -> str:
        return self.bare.tip()

    def archive(self, commit: str) -> bytes:
        command = ("git", f"--git-dir={self.bare.path}", "archive", "--format=tar.gz", commit)
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=_WAIT_S).stdout

    def ask(self, *command: str, where: Path | None = None, **variables: str) -> str:
        """Run a command, by default where the person works; return its output."""
        done = subprocess.run(
            command,
            cwd=where or self.folder,
            env={**_environment(), **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_WAIT_S,
            check=False,
        )
        if done.returncode:
            raise Failed(f"{' '.join(command)} has ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return str(done.stdout)

    def run(self, *command: str, where: Path | None = None, then: str = "") -> str:
        """Do the same, and note the command, with the one that gets its output."""
        self.note(" | ".join(filter(None, (shlex.join(word for word in command if word != "--quiet"), then))))
        return self.ask(*command, where=where)

    def note(self, command: str) -> None:
        self.noted.append(command)

    def begin(self, *options: str) -> None:
        self.run("kae", "init", str(self.folder), *options, where=self.folder.parent)
        self.run("git", "init", "--quiet", "--initial-branch=main")
        self.run("git", "remote", "add", "origin", self.url)
        self.run("kae", "compile")
        self._commit("Begin")
        self.run("git", "push", "--quiet", "--set-upstream", "origin", "main")

    def branch(self, name: str) -> None:
        self.run("git", "pull", "--quiet", "--ff-only")
        self.run("git", "switch", "--quiet", "--create", name)

    def edit(self, path: str, **changes: Any) -> None:
        file = self.folder / path
        data = yaml.safe_load(file.read_text())
        data["spec"].update(changes)
        file.write_text(yaml.safe_dump(data, sort_keys=False))
        self.note(f"editor {path}")

    def request(self, subject: str) -> str:
        """Compile, commit and push the branch; go on as `merge`."""
        self.run("kae", "compile")
        self._commit(subject)
        return self.merge()

    def merge(self) -> str:
        """Push the branch, have the jobs look at it, merge it, and have the job of main compile; return the review."""
        branch = self.ask("git", "branch", "--show-current").strip()
        self.run("git", "push", "--quiet", "origin", branch)
        base = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": self.head()}
        self._job("ci/check.sh", branch, **base)
        review = self._job("ci/review.sh", branch, **base)
        self.run("git", "push", "--quiet", "origin", f"{branch}:main")
        self.compile()
        return review.strip()

    def compile(self) -> None:
        """Run the job of main; the person's main follows."""
        self.compile_main()
        self.ask("git", "switch", "--quiet", "main")
        self.ask("git", "pull", "--quiet", "--ff-only")

    def compile_main(self) -> str:
        """Run the job of main, which compiles with the newest inventory; return what it said."""
        # The job's credential is a header of git's (http.<url>.* of git-config(1)), as docs/watcher.md says.
        return self._job(
            "ci/compile.sh",
            "main",
            KAE_INVENTORY_REMOTE=self.inventory_url,
            GIT_SSL_CAINFO=str(self.host.authority),
            GIT_CONFIG_COUNT="1",
            GIT_CONFIG_KEY_0=f"http.{self.inventory_url}.extraHeader",
            GIT_CONFIG_VALUE_0=f"Authorization: Basic {self.host.basic}",
        )

    def report(self, page: Path) -> None:
        self.ask("kae", "report", "--html", str(page), where=self._clone("main"))

    def _job(self, script: str, branch: str, **variables: str) -> str:
        where = self._clone(branch)
        self.note(f"{script}  # job of {branch}")
        return self.ask(script, where=where, **variables)

    def _clone(self, branch: str) -> Path:
        where = self._jobs / str(len(list(self._jobs.iterdir())))
        self.ask("git", "clone", "--quiet", "--branch", branch, self.url, str(where), where=self._jobs)
        return where

    def _commit(self, subject: str) -> None:
        self.run("git", "add", "--all")
        self.run("git", "commit", "--quiet", f"--message={subject}")


def _environment() -> Mapping[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**remotes.ENVIRONMENT, "PATH": path}
