"""The workloads that the files of an output deploy, where its index.json does not say it, or may not be believed.

Version 1 of the index records no workloads. Of version 2, a workload may be cut out by hand, or said to be Absent, so
that nobody is asked for its removal.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from compiler import names
from compiler.formats import yaml_text
from compiler.output import index_file


def corrected(index: index_file.Index, contents: Mapping[str, bytes]) -> index_file.Index:
    """Return the index with the workloads that these files deploy, whatever it says of them."""
    stated = [item for item in workloads(contents) if item.state != "Absent" or index.version == 1]
    told = {item.file for item in stated}
    return replace(index, workloads=(*(item for item in index.workloads if item.file not in told), *stated))


def workloads(contents: Mapping[str, bytes]) -> Iterator[index_file.Workload]:
    """Yield the workloads in the files of DaemonSets, without those that were edited beyond reading."""
    for path, content in contents.items():
        try:
            daemon_set: Any = yaml_text.single(content.decode(), path)
            config = json.loads(daemon_set["spec"]["template"]["metadata"]["annotations"][names.CONFIG])
            recipe, component = index_file.program(path) or ("", "")
            stated = {field: config[field] if component == "driver" else None for field in ("pool", "state")}
            own = {"policy": config["policy"], "recipe": recipe}
            fields = {"file": path, "component": component, **own, **stated}
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if index_file.is_workload(fields, contents):
            yield index_file.Workload(**fields)
