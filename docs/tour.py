"""The text of docs/tour.md, from the record of a run of `make test-loop`."""

import json
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("tour.md")

_RECORD = PAGE.parent.parent / "tests/cluster/loop/record.json"
_SHOWN = 24
"""The most lines of what a step shows."""

_WIDTH = 120

_HEAD = """\
# A tour: from a commit to a device, and back

A fleet of one node, from its first commit to a pod with a device, then to another driver and back. `make docs` writes
this page from the record of a run of `make test-loop`, with Argo CD, on a machine with two processors. With Flux
(`KAE_LOOP_ENGINE=flux`) the steps and the commands are the same.

Control plane, kubelet, container runtime, engine and images were real. The hardware was fake, so the driver's modules
were too. The git host was git's own server, the scripts of the jobs ran in fresh clones without a CI server, and the
engine was told of each commit as by a webhook. NFD, which labels the node, was played by a test's implementation of its
rules. The policy's pauses between changes, and the watcher's between commits, were set to seconds.

`make demo` brings you to the end of the eighth step on your own machine, and leaves the rest to you.

"""


def text() -> str:
    """Return the page."""
    steps = json.loads(_RECORD.read_text(encoding="utf-8"))
    rows = [
        f"| {number} | {step['step']} | {step['at']:.1f} | {step['seconds']:.1f} |" for number, step in _each(steps)
    ]
    table = ["| | step | begins at, s | takes, s |", "|---|---|---|---|", *rows]
    return _HEAD + "\n".join(table) + "\n" + "".join(_section(number, step) for number, step in _each(steps))


def _each(steps: list[dict[str, Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
    return enumerate(steps, start=1)


def _section(number: int, step: Mapping[str, Any]) -> str:
    parts = [f"## {number}. {step['step']}", textwrap.fill(step["words"], _WIDTH)]
    if step["commands"]:
        parts.append(_block("console", [f"$ {command}" for command in step["commands"]]))
    if step["shows"]:
        lines = step["shows"].splitlines()
        more = [f"… {len(lines) - _SHOWN} more lines"] if len(lines) > _SHOWN else []
        parts.append(_block("text", [*lines[:_SHOWN], *more]))
    return "".join(f"\n{part}\n" for part in parts)


def _block(language: str, lines: list[str]) -> str:
    return "\n".join((f"```{language}", *(line.rstrip() for line in lines), "```"))
