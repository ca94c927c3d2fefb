"""The project file, kae.yaml: settings of the tool, which no cluster ever sees."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from compiler import diagnostics, settings
from compiler.fleet import forms
from compiler.model import base
from compiler.model.base import Model

_DEFAULTS = settings.Settings()

_Folder = Annotated[str, forms.text(r"[^\x00-\x1f\x7f]+", 1000, "the path of a folder, relative to kae.yaml")]
_Code = Annotated[
    str, Field(json_schema_extra={"enum": sorted(diagnostics.CODES), **forms.form("the code of a finding")})
]


class Limits(Model):
    """The bounds of what one change may do."""

    removedPercent: Annotated[int, Field(ge=0, le=100)] = _DEFAULTS.limits.removed_percent
    """The share of a policy's nodes that may lose a component before the compile stops."""
    stepPercent: Annotated[int, Field(ge=0, le=100)] = _DEFAULTS.limits.step_percent
    """The share of a policy's nodes whose drivers, or programs that give devices, one change may disturb before
    `kae diff` calls it a large step."""


class ProjectFile(Model):
    """The settings of a project."""

    model_config = ConfigDict(title="project file")

    policies: _Folder = _DEFAULTS.policies
    """The folder of KAEPolicies and KAEClusters."""
    recipes: _Folder = _DEFAULTS.recipes
    """The folder of recipes, each in a folder of its own."""
    inventory: Annotated[tuple[_Folder, ...], Field(min_length=1)] = _DEFAULTS.inventories
    """The folders of inventories."""
    output: _Folder = _DEFAULTS.output
    """The folder that a compile writes."""
    extra: tuple[_Folder, ...] = ()
    """Folders directly in the folder of outputs that hold objects of your own."""
    findings: dict[_Code, Literal["error", "warning", "ignore"]] = Field(default_factory=dict)
    """The severity of findings in this project, by code."""
    limits: Limits = base.defaults()
    """The bounds of what one change may do."""
