"""Comment on the pull request of this job, once: a later run updates the comment of an earlier one.

Usage: python3 -I ci/comment.py review/comment.md [PROJECT]

PROJECT is the folder of the project: each of several in one repository has a comment of its own.
An empty file makes no comment; an earlier one is then updated to say so. Without the file the comment says that nobody
knows what the pull request does. The comment leads to the page of the fleet, fleet.html, if that is beside the file.
Only a comment of the token's own user or app is updated. On GitHub this takes GITHUB_TOKEN with the permission
`pull-requests: write`; on GitLab KAE_COMMENT_TOKEN, a project access token with the scope `api`, as a job's own token
may not comment there.
"""

import json
import os
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

MARK = "<!-- kae: what a pull request does -->"
"""The first line of the comment, which nobody sees; that of a project in a folder names the folder."""

NOTHING = "The pull request does nothing to any node any more."
UNKNOWN = "### What this pull request does is not known\n\nThe job has made no review.\n"


class RefusedError(Exception):
    """The token may not do this."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follow no redirect: it would take the token to another host."""

    def redirect_request(self, *_: object) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


class GitHub:
    """The comments of a pull request: https://docs.github.com/rest/issues/comments."""

    variable = "GITHUB_TOKEN"
    update = "PATCH"

    def __init__(self, environment: dict[str, str]) -> None:
        number = self.request(environment)
        repository = environment["GITHUB_REPOSITORY"]
        issues = f"{environment['GITHUB_API_URL']}/repos/{repository}/issues"
        self.comments, self.each = f"{issues}/{number}/comments", f"{issues}/comments"
        self.page = f"{environment['GITHUB_SERVER_URL']}/{repository}/actions/runs/{environment['GITHUB_RUN_ID']}"
        self.headers = {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {environment[self.variable]}",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        # The one question about itself that a token of an app may ask as well as one of a user.
        answer, _ = ask(self, "POST", environment["GITHUB_GRAPHQL_URL"], {"query": "query { viewer { login } }"})
        if not answer.get("data"):
            sys.exit(f"POST {environment['GITHUB_GRAPHQL_URL']}: {json.dumps(answer)[:500]}")
        self._login = answer["data"]["viewer"]["login"]

    @staticmethod
    def request(environment: dict[str, str]) -> str:
        """Return the number of the pull request; empty in a job of another kind."""
        found = re.fullmatch(r"refs/pull/(\d+)/merge", environment.get("GITHUB_REF", ""))
        return found[1] if found else ""

    def is_own(self, comment: dict) -> bool:
        """Return whether the user or the app of the token wrote a comment."""
        return (comment["user"] or {}).get("login") == self._login


class GitLab:
    """The notes of a merge request: https://docs.gitlab.com/api/notes/."""

    variable = "KAE_COMMENT_TOKEN"
    update = "PUT"

    def __init__(self, environment: dict[str, str]) -> None:
        project, number = environment["CI_MERGE_REQUEST_PROJECT_ID"], self.request(environment)
        self.comments = f"{environment['CI_API_V4_URL']}/projects/{project}/merge_requests/{number}/notes"
        self.each = self.comments
        self.page = environment["CI_PIPELINE_URL"]
        self.headers = {"PRIVATE-TOKEN": environment[self.variable]}
        self._user, _ = ask(self, "GET", f"{environment['CI_API_V4_URL']}/user")

    @staticmethod
    def request(environment: dict[str, str]) -> str:
        """Return the number of the merge request; empty in a job of another kind."""
        return environment.get("CI_MERGE_REQUEST_IID", "")

    def is_own(self, comment: dict) -> bool:
        """Return whether the user of the token wrote a note."""
        return comment["author"]["id"] == self._user["id"] and not comment["system"]


def ask(host: GitHub | GitLab, method: str, url: str, data: dict | None = None) -> tuple:
    """Return the answer to a request, and whether another page follows. Raises RefusedError."""
    headers = {**host.headers, "Content-Type": "application/json", "User-Agent": "kae"}
    body = None if data is None else json.dumps(data).encode()
    request = urllib.request.Request(url, data=body, headers=headers, method=method)
    try:
        with _OPENER.open(request, timeout=30) as answer:
            return json.load(answer), 'rel="next"' in answer.headers.get("Link", "")
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            raise RefusedError(f"{method} {url}: {error.code} {error.reason}") from error
        sys.exit(f"{method} {url}: {error.code} {error.reason}: {error.read(500).decode('utf-8', 'replace')}")
    except urllib.error.URLError as error:
        sys.exit(f"{method} {url}: {error.reason}")


def marked(project: str) -> str:
    """Return the mark of a project's comment."""
    # Quoted, the name ends neither the line nor the mark.
    return MARK if project == "." else MARK.replace(" -->", f" in {urllib.parse.quote(project)} -->")


def earlier(host: GitHub | GitLab, mark: str) -> dict | None:
    """Return the comment of an earlier run."""
    page, more = 0, True
    while more:
        page += 1
        comments, more = ask(host, "GET", f"{host.comments}?per_page=100&page={page}")
        for comment in comments:
            # Others may quote the mark, or write it.
            if host.is_own(comment) and (comment["body"] or "").startswith(mark):
                return comment
    return None


def write(host: GitHub | GitLab, text: str, shown: str, project: str) -> str:
    """Have the comment say a text, with a link to what the job shows; return what was done."""
    mark = marked(project)
    known = earlier(host, mark)
    if known is None and not text:
        return "There is nothing to say, and no earlier comment."
    said = f"{text}\n[{shown}]({host.page})" if text else NOTHING
    heading = "" if project == "." else f"Project `{project}`:\n\n"
    body = {"body": f"{mark}\n{heading}{said}\n"}
    if known is None:
        ask(host, "POST", host.comments, body)
        return "Commented."
    ask(host, host.update, f"{host.each}/{known['id']}", body)
    return "Updated the comment."


def main(file: str, project: str = ".") -> str:
    """Comment what a file holds of a project; return what was done."""
    environment = dict(os.environ)
    host = GitHub if environment.get("GITHUB_ACTIONS") == "true" else GitLab
    if not environment.get(host.variable):
        return f"There is no comment, as {host.variable} is not set."
    if not host.request(environment):
        return "There is no comment, as this job is of no pull request."
    path = Path(file)
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else UNKNOWN
    has_page = path.with_name("fleet.html").exists()
    try:
        shown = "The page of the fleet, node by node" if has_page else "The job"
        return write(host(environment), text, shown, os.path.relpath(project))
    except RefusedError as refused:
        return f"There is no comment, as the token may not: {refused}."


if __name__ == "__main__":
    sys.stdout.write(f"{main(*sys.argv[1:])}\n")
