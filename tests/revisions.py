"""Git repositories of tests: commits of a project's folder."""

import subprocess
from pathlib import Path

_NOBODY = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.com", "-c", "commit.gpgsign=false")


def commit(folder: Path, subject: str = "Change") -> str:
    """Commit everything in a folder, which becomes a repository, and return the commit's id."""
    if not (folder / ".git").exists():
        git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, *_NOBODY, "commit", "--quiet", "--allow-empty", "--message", subject)
    return git(folder, "rev-parse", "HEAD").strip()


def git(folder: Path, *arguments: str) -> str:
    """Return the answer of git in a folder."""
    done = subprocess.run(("git", "-C", str(folder), *arguments), check=True, capture_output=True, text=True)
    return done.stdout
