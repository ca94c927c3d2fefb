"""The record of a run: its steps, what was run, what there was to see, and how long each took."""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.cluster.loop import steps
from tests.cluster.loop.story import Story

KEPT = Path(__file__).with_name("record.json")
"""The run that docs/tour.md tells of."""

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
                "commands": story.fleet.noted[before:],
                "shows": shows,
                "at": round(at_s, 1),
                "seconds": round(took_s, 1),
            }
        )
        sys.stdout.write(f"{at_s:6.1f} s  {took_s:5.1f} s  {step.title}\n")
        sys.stdout.flush()
    return told


def unmeasured(told: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what every run has alike: the steps, and their commands."""
    return [{key: value for key, value in entry.items() if key not in _MEASURED} for entry in told]


def keep(told: Sequence[dict[str, Any]]) -> None:
    """Make a run the one that docs/tour.md tells of; `make docs` writes it."""
    KEPT.write_text(f"{json.dumps(told, indent=1)}\n", encoding="utf-8")


def kept() -> list[dict[str, Any]]:
    """Return the run that docs/tour.md tells of."""
    found: list[dict[str, Any]] = json.loads(KEPT.read_text(encoding="utf-8"))
    return found
