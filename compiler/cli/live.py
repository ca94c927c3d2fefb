"""The connection to the live cluster of a command line."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from compiler import errors
from compiler.kube import client, credentials, reader


def cluster(arguments: argparse.Namespace, timeouts: client.Timeouts = client.TIMEOUTS) -> reader.Cluster:
    """Return the cluster of --kubeconfig and --context, or else that of kubectl. Raises WorldError without any."""
    return reader.Cluster(files(arguments), arguments.context, timeouts=timeouts)


def files(arguments: argparse.Namespace) -> Sequence[Path]:
    """Return the kubeconfigs of the command line, or else those of kubectl. Raises WorldError without any."""
    if arguments.kubeconfig is not None:
        return [Path(arguments.kubeconfig)]
    found = credentials.default_files()
    if not found[0].exists():
        raise errors.WorldError(
            f"there is no kubeconfig: '{found[0]}' does not exist.",
            hint="Name one with --kubeconfig FILE, or set KUBECONFIG.",
        )
    return found
