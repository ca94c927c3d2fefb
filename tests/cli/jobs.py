"""A repository of `kae init`, the watchers that push to it, and its jobs, which run with real git."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import compiler
from compiler.commands import init
from compiler.inventory import canonical_form, reduction, snapshot
from tests import builders, in_process
from tests.kae_forks import program

ACTIONS = {"GITHUB_ACTIONS": "true"}

_HANG_S = 600
"""No load makes a job take as long as this."""

_COMMANDS = ("add-mask", "debug", "error", "group", "notice", "save-state", "set-output", "stop-commands", "warning")


class World:
    """A bare repository made by `kae init`, and an environment in which only its own programs are found."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder = folder
        self.bare = folder / "fleet.git"
        self.install_kae()
        self.environment = {
            "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(root),
            "HOME": str(folder),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "someone",
            "GIT_AUTHOR_EMAIL": "someone@example.com",
            "GIT_COMMITTER_NAME": "someone",
            "GIT_COMMITTER_EMAIL": "someone@example.com",
        }

    def install(self, path: Path, text: str) -> None:
        """Make a program; one without a first line of its own is the shell's."""
        path.parent.mkdir(exist_ok=True)
        path.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)

    def install_kae(self) -> None:
        """Have jobs call kae in forks of one process."""
        self.install(self.folder / "bin/kae", program.text())

    def install_real_kae(self) -> None:
        """Have jobs start the real entry point, in a process of its own."""
        self.install(self.folder / "bin/kae", f'exec "{sys.executable}" -m compiler "$@"')

    def shorten_pauses(self) -> None:
        """Have jobs pause for a tenth of a second, however long they mean to."""
        self.install(self.folder / "bin/sleep", f"exec {shutil.which('sleep')} 0.1")

    def run(
        self, where: Path, *command: str, stdin: str | None = None, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program and return what it gave."""
        return subprocess.run(
            command,
            cwd=where,
            env=self.environment | more,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=_HANG_S,
            check=False,
        )

    def ended(self, code: int, where: Path, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a program, which must end with a code, and return what it gave."""
        done = self.run(where, *command, **more)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def begin(self, *options: str, inventory: str = "") -> Path:
        """Make the bare repository, with one commit of a new fleet and its output, and return it."""
        made = self.folder / "made"
        answer = in_process.kae(self.folder, "init", "made", *options)
        assert answer.code == 0, answer.err
        if inventory:
            (made / "inventory/default.json").write_text(inventory, encoding="utf-8")
        self.publish(made)
        return self.bare

    def publish(self, made: Path) -> None:
        """Compile a folder, and make the bare repository with one commit of it."""
        answer = in_process.kae(made, "compile")
        assert answer.code == 0, answer.err
        self.git(made, "init", "--quiet", "--initial-branch=main")
        self.commit(made, "Begin")
        self.git(self.folder, "clone", "--quiet", "--bare", "made", "fleet.git")

    def git(self, where: Path, *arguments: str, stdin: str | None = None) -> str:
        """Run git, which must succeed."""
        done = self.run(where, "git", *arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def clone(self, name: str) -> Path:
        """A new clone."""
        self.git(self.folder, "clone", "--quiet", str(self.bare), name)
        return self.folder / name

    def commit(self, clone: Path, message: str) -> None:
        """Commit everything."""
        self.git(clone, "add", "--all")
        self.git(clone, "commit", "--quiet", "--message", message)

    def push(self, clone: Path, message: str) -> None:
        """Commit everything, and push it to the main line."""
        self.commit(clone, message)
        self.git(clone, "push", "--quiet", "origin", "HEAD:main")

    def merge(self, clone: Path) -> None:
        """Check out what GitHub checks out: the merge of the branch with main."""
        head = self.git(clone, "rev-parse", "HEAD")
        self.git(clone, "checkout", "--quiet", "--detach", "origin/main")
        self.git(clone, "merge", "--quiet", "--no-ff", "--no-edit", head)

    def propose(self, clone: Path, message: str) -> None:
        """Commit everything to a branch, and check out what GitHub checks out of its pull request."""
        self.commit(clone, message)
        self.merge(clone)

    def watch(self, branch: str, files: Mapping[str, str], *, remote: Path | None = None, mode: str = "100644") -> None:
        """Replace a branch by a commit that holds these files and nothing else, as a watcher does."""
        parts = [f"reset refs/heads/{branch}", f"commit refs/heads/{branch}"]
        parts += ["committer watcher <watcher@example.com> 1700000000 +0000", "data 9\ninventory"]
        for name, text in files.items():
            parts.append(f"M {mode} inline {name}\ndata {len(text.encode())}\n{text}")
        self.git(remote or self.bare, "fast-import", "--quiet", "--force", stdin="\n".join(parts) + "\n")

    def subjects(self) -> list[str]:
        """The subjects of the main line, oldest first."""
        return self.git(self.bare, "log", "--reverse", "--format=%s", "main").splitlines()

    def text(self, path: str) -> str:
        """A file at the head of the main line."""
        return self.git(self.bare, "show", f"main:{path}")


def a_wheel(folder: Path) -> Path:
    """Make a wheel without code, which pip installs."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"kae_compiler-{compiler.__version__}.dist-info"
    with zipfile.ZipFile(folder / init.WHEEL, "w") as archive:
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: kae-compiler\nVersion: {compiler.__version__}\n"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return folder / init.WHEEL


def edit(clone: Path, name: str, old: str, new: str) -> None:
    """Replace a text that stands in a file once."""
    path = clone / name
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


def serve_sec(clone: Path) -> None:
    """A change of a policy that changes output/."""
    edit(clone, "policies/policy.yaml", "enabledSEC: false", "enabledSEC: true")


def inventory(*names: str, cluster: str = "default") -> str:
    """The inventory of a cluster with nodes of these names."""
    nodes = [builders.kubernetes_node(name) for name in names]
    return canonical_form.text(reduction.of_kubernetes(snapshot.ClusterName(cluster), "", nodes))


def commands(text: str) -> Iterator[str]:
    """Yield the workflow commands that GitHub's runner takes from what a job prints.

    https://github.com/actions/runner/blob/main/src/Runner.Common/ActionCommand.cs
    """
    known, resumes = set(_COMMANDS), ""
    for line in text.splitlines():
        command = re.match(r"\s*::(\S+?)(?: .*?)?::(.*)", line) or re.search(r"##\[(\S+?)(?: .*?)?\](.*)", line)
        if not command or command[1] not in known | {resumes}:
            continue
        if command[1] == resumes:
            resumes = ""
        elif not resumes:
            resumes = command[2] if command[1] == "stop-commands" else ""
            yield f"{command[1]} {command[2]}"
