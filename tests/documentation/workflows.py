"""The workflows of this project."""

from typing import Any

import yaml

from tests.documentation.pages import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def jobs(name: str) -> dict[str, Any]:
    """Return the jobs of a workflow."""
    jobs_of: dict[str, Any] = yaml.safe_load((ROOT / f".github/workflows/{name}.yml").read_text("utf-8"))["jobs"]
    return jobs_of
