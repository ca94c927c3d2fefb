"""The workloads of an output whose index.json has version 1, which records no workloads."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from compiler import names
from compiler.formats import yaml_text
from compiler.output import index_file


def is_workload(path: str) -> bool:
    """Return whether a recorded path is that of a DaemonSet of the driver or of the device plugin."""
    return path.startswith(("driver/daemonset-", "device-plugin/daemonset-"))


def workloads(contents: Mapping[str, bytes]) -> Iterator[index_file.Workload]:
    """Yield the workloads in the files of DaemonSets, without those that were edited beyond reading."""
    for path, content in contents.items():
        try:
            daemon_set: Any = yaml_text.single(content.decode(), path)
            config = json.loads(daemon_set["spec"]["template"]["metadata"]["annotations"][names.CONFIG])
            component = path.partition("/")[0]
            stated = {field: config[field] if component == "driver" else None for field in ("pool", "state")}
            fields = {"file": path, "component": component, "policy": config["policy"], **stated}
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if index_file.is_workload(fields, contents):
            yield index_file.Workload(**fields)
