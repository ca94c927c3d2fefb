"""Real repositories, what other people do in them, and our `Repository` on one of them."""

import functools
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from watcher.git import credentials, repository
from watcher.git import git as tool

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "somebody",
    "GIT_AUTHOR_EMAIL": "somebody@example.com",
    "GIT_COMMITTER_NAME": "somebody",
    "GIT_COMMITTER_EMAIL": "somebody@example.com",
}

PATH = "inventory/east.json"
"""The file of the cluster that tests use."""

PUSHED = [f"100644 {PATH}"]
"""The changes of a commit of the watcher."""


def git(*arguments: str, stdin: bytes = b"") -> str:
    """Run git as a person would and return its output."""
    ended = subprocess.run(
        ["git", *arguments],
        input=stdin,
        capture_output=True,
        env=ENVIRONMENT,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr.decode()
    return ended.stdout.decode().strip()


@functools.cache
def _template(object_format: str) -> "tempfile.TemporaryDirectory[str]":
    """Return the initial content of every repository, made once per process because each call of git takes time."""
    folder = tempfile.TemporaryDirectory()
    made = ("--git-dir", folder.name)
    git("init", "--quiet", "--bare", "--template=", "-b", "main", f"--object-format={object_format}", folder.name)
    git(*made, "config", "uploadpack.allowFilter", "true")
    # Where http-backend asks nobody who they are.
    git(*made, "config", "http.receivepack", "true")
    # What races with a writer must not begin to pack in the middle.
    git(*made, "config", "gc.auto", "0")
    git(*made, "config", "receive.autogc", "false")
    return folder


class Remote:
    """A bare repository, as a git host has it; `other.txt` in it is somebody else's."""

    def __init__(self, path: Path, *, empty: bool = False, object_format: str = "sha1") -> None:
        self.path = path
        shutil.copytree(_template(object_format).name, path)
        if not empty:
            self.commit("main", {"other.txt": b"other\n", "inventory/west.json": b"west\n"})

    @property
    def url(self) -> str:
        return f"file://{self.path}"

    def __call__(self, *arguments: str, stdin: bytes = b"") -> str:
        return git("--git-dir", str(self.path), *arguments, stdin=stdin)

    def configure(self, key: str, value: str) -> None:
        self("config", key, value)

    def commit(  # noqa: PLR0913 - a commit has so many parts
        self,
        branch: str,
        files: Mapping[str, bytes],
        *,
        onto: str | None = None,
        mode: str = "100644",
        message: bytes = b"somebody",
        age_s: int = 0,
    ) -> str:
        """Somebody else's commit, on the branch's tip or where onto says, which then needs no ancestor of the tip."""
        ref = f"refs/heads/{branch}"
        base = onto or (f"{ref}^0" if (self.path / ref).exists() else "")
        head = f"commit {ref}\ncommitter s <s@example.com> {int(time.time()) - age_s} +0000\ndata {len(message)}\n"
        lines = [head.encode() + message + b"\n"]
        if base:
            lines.append(f"from {base}\n".encode())
        for path, content in files.items():
            lines.append(f"M {mode} inline {path}\ndata {len(content)}\n".encode() + content + b"\n")
        self("fast-import", "--quiet", *(["--force"] if onto else []), stdin=b"".join(lines))
        return self.tip(branch)

    def branches(self) -> dict[str, str]:
        lines = self("for-each-ref", "--format=%(refname) %(objectname)", "refs/heads/").splitlines()
        pairs = (line.split() for line in lines)
        return {ref.removeprefix("refs/heads/"): commit for ref, commit in pairs}

    def tip(self, branch: str = "main") -> str:
        loose = self.path / f"refs/heads/{branch}"
        return loose.read_text().strip() if loose.is_file() else self.branches()[branch]

    def read(self, revision: str, path: str) -> bytes:
        return self("cat-file", "blob", f"{revision}:{path}").encode() + b"\n"

    def history(self, branch: str = "main") -> list[str]:
        """Commits, the newest first."""
        return self("rev-list", branch).splitlines()

    def changed(self, commit: str) -> list[str]:
        """Return the mode and path of each file that differs from the parents."""
        raw = self("diff-tree", "-r", "--root", "--no-commit-id", commit).splitlines()
        return [f"{line.split()[1]} {line.partition(chr(9))[2]}" for line in raw]

    def parents(self, commit: str) -> list[str]:
        return self("rev-parse", f"{commit}^@").split()

    def set_hook(self, name: str, *lines: str) -> None:
        hook = self.path / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("\n".join(("#!/bin/sh", *lines, "")))
        hook.chmod(0o755)

    def ours(
        self, *, cluster: str = "east", branch: str = "main", url: str | None = None, scratch: Path | None = None
    ) -> repository.Repository:
        """Our side of it, with nothing in its Secret."""
        where = target(url or self.url, cluster=cluster, branch=branch)
        folder = self.path.parent
        own = scratch or folder / f"scratch-{cluster}"
        return repository.Repository(where, own, secrets(folder / "secrets"), threading.Event())

    def assert_sound(self) -> None:
        assert self("fsck", "--full", "--strict", "--no-dangling") == ""


def secrets(folder: Path, **files: str | bytes) -> credentials.Secrets:
    """A mounted Secret; _ stands for a dot, save in known_hosts."""
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        path = folder / (name if name == "known_hosts" else name.replace("_", "."))
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return credentials.Secrets(repository=folder, signing=None)


def target(url: str, *, cluster: str = "east", branch: str = "main") -> repository.Target:
    """inventory/<cluster>.json of a repository."""
    author = "kae-watcher <kae-watcher@localhost>"
    return repository.Target(url=url, branch=branch, path=f"inventory/{cluster}.json", author=author)


def publish(repo: repository.Repository, content: bytes, message: str = "new\n") -> str | None:
    """Gives the file these bytes, whatever is replaced."""
    return repo.publish(lambda _: repository.Change(content=content, message=message))


def before(verb: str, action: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Does something, once, when git is about to carry out a verb."""
    real, actions = getattr(tool.Git, verb), [action]

    def wrapper(self: tool.Git, *arguments: object) -> object:
        if actions:
            actions.pop()()
        return real(self, *arguments)

    monkeypatch.setattr(tool.Git, verb, wrapper)
