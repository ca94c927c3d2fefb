"""The parts of pods that documents set, as the objects have them: leaf values of Kubernetes, with its field names."""

import re
from collections.abc import Mapping
from fractions import Fraction

import msgspec

Amount = str | int | float
"""A quantity of Kubernetes."""

_QUANTITY = re.compile(r"([+-]?[0-9]+(?:\.[0-9]*)?|[+-]?\.[0-9]+)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]{1,3}))?")
_DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def amount_of(quantity: object) -> Fraction | None:
    """Return the exact value of a quantity; None for other text and for exponents of more than three digits.

    https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
    """
    match = _QUANTITY.fullmatch(str(quantity))
    if match is None:
        return None
    number, suffix, exponent = Fraction(match[1]), match[2] or "", match[3]
    if exponent is not None:
        return number * Fraction(10) ** int(exponent)
    if suffix in _DECIMAL:
        return number * Fraction(1000) ** (_DECIMAL.index(suffix) - _DECIMAL.index(""))
    return number * Fraction(1024) ** _BINARY.index(suffix)


class Toleration(msgspec.Struct, frozen=True, kw_only=True):
    """Toleration v1 core."""

    key: str | None = None
    operator: str = "Equal"
    value: str | None = None
    effect: str | None = None
    tolerationSeconds: int | None = None  # noqa: N815 - as Kubernetes spells it


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """LocalObjectReference v1 core."""

    name: str


class EnvVar(msgspec.Struct, frozen=True, kw_only=True):
    """EnvVar v1 core with a plain value."""

    name: str
    value: str = ""

    @property
    def names_proxy(self) -> bool:
        """Whether the variable names a proxy to programs such as git and dnf: curl(1), ENVIRONMENT."""
        name = self.name.lower()
        return name.endswith("_proxy") and name != "no_proxy" and bool(self.value)


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """ResourceRequirements v1 core."""

    requests: Mapping[str, Amount] = {}
    limits: Mapping[str, Amount] = {}

    def __bool__(self) -> bool:
        return bool(self.limits or self.requests)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What every pod of a policy gets."""

    labels: Mapping[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    priority_class: str = ""
    kubelet_dir: str = ""
    """The root folder of the nodes' kubelet."""


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """How the image of a program is pulled, and what its container gets."""

    pull_policy: str
    pull_secrets: tuple[Reference, ...] = ()
    resources: Resources = Resources()
    env: tuple[EnvVar, ...] = ()
    metrics_port: int | None = None
    """None where no metrics are served."""
