"""The connection to the live cluster of a command line."""

import argparse
from pathlib import Path

from compiler import errors
from compiler.kube import client, credentials, reader


def cluster(arguments: argparse.Namespace, timeouts: client.Timeouts = client.TIMEOUTS) -> reader.Cluster:
    """Return the cluster of --kubeconfig and --context, or else that of kubectl. Raises WorldError without any."""
    if arguments.kubeconfig is not None:
        return reader.Cluster(Path(arguments.kubeconfig), arguments.context, timeouts=timeouts)
    files = credentials.default_files()
    if not files[0].exists():
        raise errors.WorldError(
            f"there is no kubeconfig: '{files[0]}' does not exist.",
            hint="Name one with --kubeconfig FILE, or set KUBECONFIG.",
        )
    return reader.Cluster(files, arguments.context, timeouts=timeouts)
