"""The settings of a project: its folders, the severities of its findings, and its limits."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from compiler import diagnostics, names


class Limits(NamedTuple):
    """The bounds of what one change may do."""

    removed_percent: int = 20
    """The share of a policy's nodes that may lose a component before the compile stops."""
    step_percent: int = 50
    """The share of a policy's nodes whose drivers, or programs that give devices, one change may disturb before
    `kae diff` calls it a large step."""


class Settings(NamedTuple):
    """The settings of kae.yaml and the command line; without either, the defaults."""

    policies: str = names.POLICIES
    """The folder of policies, relative to the root; `.` for the root itself."""
    recipes: str = names.RECIPES
    """The folder of recipes, relative to the root; a folder of inventories, which a program may write, holds none."""
    inventories: tuple[str, ...] = (names.INVENTORY,)
    output: str = names.OUTPUT
    """The folder that a compile writes: that of the command line, or else of the project."""
    applied: str = names.OUTPUT
    """The project's own folder of outputs, from the root of the git repository: GitOps engines apply it from there."""
    output_is_named: bool = False
    """True where the command line names the folder of outputs: only then may it be a link."""
    extra: tuple[str, ...] = ()
    """The names of the folders directly in the folder of outputs that hold objects of people's own."""
    severities: Mapping[str, diagnostics.Severity] = MappingProxyType({})
    """The severities that the project gives to codes, in place of their own."""
    limits: Limits = Limits()

    def severity(self, code: str) -> diagnostics.Severity:
        """Return the severity of a code in this project."""
        return self.severities.get(code, diagnostics.CODES[code].severity)

    def with_severities(self, findings: Iterable[diagnostics.Diagnostic]) -> diagnostics.Findings:
        """Return findings with their severities in this project."""
        return tuple(each._replace(level=self.severities.get(each.code)) for each in findings)

    def has_errors(self, findings: Iterable[diagnostics.Diagnostic]) -> bool:
        """Return whether one of the findings is an error in this project."""
        return any(self.severity(each.code) == "error" for each in findings)

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders of all documents."""
        return self.policies, self.recipes, *self.inventories

    def is_policy_file(self, file: str) -> bool:
        """Return whether a file, by its name in findings, is below the folder of policies, and is no recipe's."""
        is_below = self.policies == "." or file.startswith(f"{self.policies}/")
        return is_below and not self.is_recipe_file(file)

    def is_recipe_file(self, file: str) -> bool:
        """Return whether a file, by its name in findings, is below the folder of recipes."""
        return file.startswith(f"{self.recipes}/")

    def is_shared_file(self, file: str) -> bool:
        """Return whether a file, by its name in findings, holds documents that all clusters share: no inventory."""
        return self.is_policy_file(file) or self.is_recipe_file(file)
