"""The record of a run: its steps, what was run, what there was to see, and how long each took."""

import json
import platform
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.cluster.loop import steps
from tests.cluster.loop.story import Story

_ROOT = Path(__file__).resolve().parents[3]
KEPT = Path(__file__).with_name("record.json")
_MEASURED = ("at", "seconds", "shows")
"""What is of one run alone: times, and texts that hold hashes and names of pods."""


def of(story: Story, order: Sequence[steps.Step] = steps.STEPS) -> list[dict[str, Any]]:
    """Do the steps, and return their record; each is also a line on standard output."""
    told: list[dict[str, Any]] = []
    first_s = time.monotonic()
    for step in order:
        began_s, before = time.monotonic(), len(story.fleet.noted)
        shows = step.act(story)
        took_s, at_s = time.monotonic() - began_s, began_s - first_s
        told.append(
            {
                "step": step.title,
                "words": step.words,
                "commands": [_shown(story, command) for command in story.fleet.noted[before:]],
                "shows": _shown(story, shows),
                "at": round(at_s, 1),
                "seconds": round(took_s, 1),
            }
        )
        sys.stdout.write(f"{at_s:6.1f} s  {took_s:5.1f} s  {step.title}\n")
        sys.stdout.flush()
    return told


def _shown(story: Story, text: str) -> str:
    """Return a text with the names that readers know in the place of those of this machine."""
    for real, shown in _names(story).items():
        text = text.replace(real, shown)
    return text


def _names(story: Story) -> Mapping[str, str]:
    fleet, plane = story.fleet, story.plane
    return {
        fleet.host.open.url: "https://git.example.com",
        fleet.host.closed.url: "https://git.example.com",
        f"https://{plane.instance.address}": "https://api.example.com",
        str(plane.kubeconfig): "~/.kube/config",
        str(fleet.folder): "fleet",
    }


def unmeasured(told: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in entry.items() if key not in _MEASURED} for entry in told]


def keep(told: Sequence[dict[str, Any]], story: Story) -> None:
    """Make a run the one that docs/tour.md tells of; `make docs` writes it."""
    instance = story.plane.instance
    paths = (_ROOT, tempfile.gettempdir(), story.fleet.folder.parent, instance.state, Path.home())
    text = json.dumps(told, indent=1)
    for word in (platform.node(), platform.release(), instance.address, *map(str, paths)):
        assert word not in text, f"The record would name this machine: {word}"
    KEPT.write_text(f"{text}\n", encoding="utf-8")


def kept() -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = json.loads(KEPT.read_text(encoding="utf-8"))
    return told
