"""The parts of pods that documents set, as the objects have them: leaf values of Kubernetes, with its field names."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import msgspec

from compiler.fleet import forms

if TYPE_CHECKING:
    from fractions import Fraction

_QUANTITY = r"([+-]?[0-9]+(?:\.[0-9]*)?|[+-]?\.[0-9]+)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]{1,3}))?"
_DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def amount_of(quantity: object) -> "Fraction | None":
    """Return the exact value of a quantity; None for other text and for exponents of more than three digits.

    https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
    """
    from fractions import Fraction  # noqa: PLC0415 - 2 ms, which documents without quantities save

    match = re.fullmatch(_QUANTITY, str(quantity))
    if match is None:
        return None
    number, suffix, exponent = Fraction(match[1]), match[2] or "", match[3]
    if exponent is not None:
        return number * Fraction(10) ** int(exponent)
    if suffix in _DECIMAL:
        return number * Fraction(1000) ** (_DECIMAL.index(suffix) - _DECIMAL.index(""))
    return number * Fraction(1024) ** _BINARY.index(suffix)


class Toleration(msgspec.Struct, frozen=True, kw_only=True):
    """A taint that a pod tolerates (Toleration v1 core)."""

    key: forms.LabelKey | None = None
    """The taint's key; absent, with operator Exists, means every taint."""
    operator: Annotated[str, forms.Keywords(enum=["Equal", "Exists"])] = "Equal"
    """Exists bears any value, Equal only this one."""
    value: forms.LabelValue | None = None
    """The taint's value."""
    effect: Annotated[str, forms.Keywords(enum=["NoSchedule", "PreferNoSchedule", "NoExecute"])] | None = None
    """Absent means every effect."""
    tolerationSeconds: int | None = None  # noqa: N815 - as Kubernetes spells it
    """How long a pod that runs already stays; for NoExecute only."""


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """An object of the same namespace."""

    name: forms.ObjectName
    """The object's name."""


class EnvVar(msgspec.Struct, frozen=True, kw_only=True):
    """An environment variable with a plain value."""

    name: Annotated[str, forms.text(r"[-._a-zA-Z][-._a-zA-Z0-9]*", 200, "the name of an environment variable")]
    """The variable."""
    value: Annotated[str, forms.Keywords(maxLength=4096)] = ""
    """Its value, taken literally."""

    @property
    def names_proxy(self) -> bool:
        """Whether the variable names a proxy to programs such as git and dnf: curl(1), ENVIRONMENT."""
        name = self.name.lower()
        return name.endswith("_proxy") and name != "no_proxy" and bool(self.value)


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """What a container asks for and is held to (ResourceRequirements v1 core)."""

    requests: Mapping[forms.ResourceName, forms.Quantity] = {}
    """What is set aside for it."""
    limits: Mapping[forms.ResourceName, forms.Quantity] = {}
    """The most that it may use."""

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
