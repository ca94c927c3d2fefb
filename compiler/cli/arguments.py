"""The types of arguments; argparse reports each ArgumentTypeError with the option, and exits with 2."""

import argparse
import re

from compiler import names
from compiler.project.by_cluster import shards

_MOST_JOBS = 1024
_MOST_SHARDS = 200


def cluster(text: str) -> str:
    """Return the name of a cluster."""
    form = f"lower-case letters, digits, '-' and '.', at most {names.CLUSTER_LENGTH}"
    return _matching(text, names.is_cluster(text), "the name of a cluster", form)


def policy(text: str) -> str:
    """Return the name of a policy."""
    form = f"lower-case letters, digits and '-', at most {names.POLICY_LENGTH}, and no '--'"
    is_policy = len(text) <= names.POLICY_LENGTH and re.fullmatch(names.POLICY_PATTERN, text) is not None
    return _matching(text, is_policy, "the name of a policy", form)


def namespace(text: str) -> str:
    """Return the name of a namespace."""
    is_label = len(text) <= names.LABEL_LENGTH and re.fullmatch(names.LABEL_PATTERN, text) is not None
    form = f"lower-case letters, digits and '-', at most {names.LABEL_LENGTH}"
    return _matching(text, is_label, "the name of a namespace", form)


def kernel(text: str) -> str:
    """Return the version of a kernel."""
    is_kernel = len(text) <= names.KERNEL_LENGTH and re.fullmatch(names.KERNEL_PATTERN, text) is not None
    return _matching(text, is_kernel, "a kernel's full version", "the output of `uname -r`")


def selector(text: str) -> str:
    """Return a label selector that parses."""
    from compiler.fleet import label_selector  # noqa: PLC0415 - it imports the models of documents

    try:
        label_selector.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}.") from error
    return text


def jobs(text: str) -> int:
    """Return a number of processes."""
    is_number = text.isascii() and text.isdigit() and 0 < int(text) <= _MOST_JOBS
    return int(_matching(text, is_number, "a number of processes", f"a number from 1 to {_MOST_JOBS}"))


def shard(text: str) -> shards.Shard:
    """Return a shard."""
    try:
        return shards.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def shard_count(text: str) -> int:
    """Return a number of shards, of which a matrix of jobs has at most 200 on GitLab, and 256 on GitHub.

    https://docs.gitlab.com/ci/yaml/#parallelmatrix
    https://docs.github.com/actions/reference/limits
    """
    is_count = text.isascii() and text.isdigit() and 2 <= int(text) <= _MOST_SHARDS
    return int(_matching(text, is_count, "a number of shards", f"a number from 2 to {_MOST_SHARDS}"))


def utf8(text: str) -> str:
    """Return an argument that can be written to a document."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise argparse.ArgumentTypeError("it is not UTF-8") from error
    return text


def _matching(text: str, is_valid: bool, noun: str, form: str) -> str:
    if not is_valid:
        raise argparse.ArgumentTypeError(f"'{text}' is not {noun}; use {form}.")
    return text
