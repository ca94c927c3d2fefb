"""Messages of git, ssh and the git hosts, and the kind of failure of each."""

import errno
from pathlib import Path

import pytest

from watcher.git import git_errors

URL = "https://git.example.com/fleet.git"

SAID = [
    (git_errors.Unreachable, "fatal: unable to access '{url}/': Could not resolve host: git.example.com"),
    (git_errors.Unreachable, "fatal: unable to access '{url}/': server certificate verification failed. CAfile: none"),
    (git_errors.Unreachable, "fatal: unable to access '{url}/': The requested URL returned error: 502"),
    (git_errors.Unreachable, "error: RPC failed; curl 56 GnuTLS recv error (-54)\nfatal: the remote end hung up"),
    (git_errors.Unreachable, "ssh: connect to host h port 22: Connection refused\nfatal: Could not read from remote"),
    (git_errors.Unreachable, "Host key verification failed.\nfatal: Could not read from remote repository."),
    (git_errors.Unreachable, "No ED25519 host key is known for h and you have requested strict checking."),
    (git_errors.Denied, "fatal: Authentication failed for '{url}/'"),
    (git_errors.Denied, "fatal: could not read Username for 'https://git.example.com': terminal prompts disabled"),
    (
        git_errors.Denied,
        "remote: Write access to repository not granted.\nfatal: unable to access '{url}/': "
        "The requested URL returned error: 403",
    ),
    (git_errors.Denied, "git@h: Permission denied (publickey).\nfatal: Could not read from remote repository."),
    (
        git_errors.Denied,
        "ERROR: The key you are authenticating with has been marked as read only.\n"
        "fatal: Could not read from remote repository.",
    ),
    (git_errors.Denied, "fatal: remote error: service not enabled: /fleet.git"),
    (git_errors.Denied, "remote: HTTP Basic: Access denied\nfatal: the remote end hung up unexpectedly"),
    (
        git_errors.Denied,
        "fatal: unable to access '{url}/': error:0A00045C:SSL routines::tlsv13 alert certificate required",
    ),
    (git_errors.NotFound, "remote: Repository not found.\nfatal: repository '{url}/' not found"),
    (git_errors.NotFound, "ERROR: Repository not found.\nfatal: Could not read from remote repository."),
    (
        git_errors.NotFound,
        "remote: \nremote: ========\nremote: ERROR: The project you were looking for could not be found"
        " or you don't have permission to view it.\nfatal: Could not read from remote repository.",
    ),
    (git_errors.NotFound, "fatal: remote error: access denied or repository not exported: /fleet.git"),
    (git_errors.NotFound, "fatal: '/srv/fleet.git' does not appear to be a git repository"),
    (git_errors.LostRace, "fatal: remote error: upload-pack: not our ref 1234"),
    (git_errors.LostRace, "fatal: couldn't find remote ref refs/heads/main"),
    (git_errors.DiskFull, "fatal: write error: No space left on device\nfatal: early EOF"),
    (git_errors.DiskFull, "error: unable to write file: Disk quota exceeded"),
    (git_errors.Broken, "fatal: Unable to create '/tmp/x/git/shallow.lock': File exists.\n\nAnother git process"),
    (git_errors.Broken, "error: object file objects/12/34 is empty\nfatal: loose object 1234 is corrupt"),
    (git_errors.Broken, "fatal: not a git repository: '/tmp/x/git'"),
    (git_errors.Failed, "fatal: the moon is full"),
    (git_errors.Failed, ""),
]

REJECTED = [
    (git_errors.LostRace, "fetch first", ""),
    (git_errors.LostRace, "stale info", ""),
    (git_errors.LostRace, "non-fast-forward", ""),
    (
        git_errors.LostRace,
        "failed to update ref",
        "remote: error: cannot lock ref 'x': is at 1 but expected 2",
    ),
    (git_errors.LostRace, "incorrect old value provided", ""),
    (git_errors.LostRace, "missing necessary objects", ""),
    (
        git_errors.Refused,
        "failed to update ref",
        "remote: error: cannot lock ref 'a/b': 'a' exists; cannot create 'a/b'",
    ),
    (git_errors.Refused, "pre-receive hook declined", "remote: not before Monday"),
    (
        git_errors.Refused,
        "protected branch hook declined",
        "remote: error: GH006: Protected branch update failed for x.",
    ),
    (git_errors.Refused, "deletion prohibited", ""),
    (git_errors.Refused, "unpacker error", "remote: fatal: write error: No space left on device"),
    (git_errors.Denied, "unpacker error", "error: remote unpack failed: unable to create temporary object directory"),
    (git_errors.Unreachable, "remote failed to report status", ""),
]


@pytest.mark.parametrize(("kind", "said"), SAID)
def test_words_are_of_one_sort(kind: type[git_errors.Failed], said: str) -> None:
    failure = git_errors.judged(URL, said.replace("{url}", URL))

    assert type(failure) is kind


def test_the_name_of_a_repository_is_none_of_the_words() -> None:
    said = "fatal: unable to access 'https://h/corrupt loose object, Permission denied.git/': Could not resolve host: h"

    failure = git_errors.judged(URL, said)

    assert type(failure) is git_errors.Unreachable


@pytest.mark.parametrize(("kind", "reason", "said"), REJECTED)
def test_reasons_for_a_push_that_fails_are_of_one_sort(kind: type[git_errors.Failed], reason: str, said: str) -> None:
    failure = git_errors.rejection(URL, reason, said)

    assert type(failure) is kind


def test_a_sentence_has_the_servers_words_and_none_of_its_control_characters() -> None:
    last = f"fatal: unable to access '{URL}/': The requested URL returned error: 403"

    failure = git_errors.judged(URL, f"remote: \x1b[1mNo\x1b[0m way.\nremote:\n{last}")

    words = "The requested URL returned error: 403; [1mNo [0m way"
    assert str(failure) == f"The repository '{URL}' denies what we ask: {words}."


def test_a_sentence_is_not_as_long_as_a_server_wants_it() -> None:
    failure = git_errors.rejection(URL, "hook declined", "".join(f"remote: line {number}\n" for number in range(1000)))

    assert len(str(failure)) < 600


def test_what_a_server_says_is_nothing_against_the_clone() -> None:
    failure = git_errors.judged(URL, "remote: fatal: loose object 1234 is corrupt\nfatal: early EOF")

    assert type(failure) is git_errors.Unreachable


@pytest.mark.parametrize(
    ("code", "kind"),
    [(errno.ENOSPC, git_errors.DiskFull), (errno.EDQUOT, git_errors.DiskFull), (errno.EROFS, git_errors.Failed)],
)
def test_our_own_writing_fails_in_the_same_words(code: int, kind: type[git_errors.Failed]) -> None:
    failure = git_errors.of_disk(Path("/scratch"), OSError(code, "why"))

    assert type(failure) is kind
    assert "'/scratch'" in str(failure)
