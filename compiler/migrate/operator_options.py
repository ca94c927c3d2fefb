"""The options of the KAE Operator (its guide, table 1), and the fields that take them."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from compiler.formats import documents

Kind = Literal["KAEPolicy", "KAECluster"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option of the operator: the field that takes its value, or the reason why none does."""

    kind: Kind | None = None
    """The document that takes the value; None where none does."""
    target: documents.Path = ()
    """The field that takes the value."""
    default: Any = None
    """The operator's default; a value that equals it and that no field takes is dropped without a finding."""
    why: str = ""
    """The reason why no field takes the value."""
    differs: str = ""
    """The effect of `true` here, where it differs from the operator's."""


def _carried(kind: Kind, *fields: str) -> dict[documents.Path, Option]:
    """Return options that go to fields of the same name."""
    paths = [tuple(field.split(".")) for field in fields]
    return {path: Option(kind=kind, target=("spec", *path)) for path in paths}


def _image(section: str) -> tuple[str, ...]:
    names = ("enabled", "repository", "image", "version", "pullPolicy", "pullSecrets", "resources")
    return tuple(f"{section}.{name}" for name in names)


def _served(kind: str) -> Option:
    name = f"enabled{kind}"
    return Option(
        kind="KAEPolicy",
        target=("spec", "operator", name),
        differs=f"The operator reserved it; here {kind} devices are offered as openfuyao.com/kae.{kind.lower()}.",
    )


_NO_CONTROLLER = "There is no controller in the cluster: the compiler runs where the repository is built."

OPTIONS: Mapping[documents.Path, Option] = MappingProxyType(
    {
        **_carried("KAECluster", "nfd.enabled", "nfd.nodefeaturerules"),
        **{
            ("node-feature-discovery", "image", name): Option(kind="KAECluster", target=("spec", "nfd", "image", name))
            for name in ("repository", "pullPolicy", "tag")
        },
        **_carried("KAEPolicy", "operator.enabledHPRE"),
        ("operator", "enabledSEC"): _served("SEC"),
        ("operator", "enabledZIP"): _served("ZIP"),
        ("operator", "upgradeCRD"): Option(
            default=False,
            why="Definitions are manifests here: a commit brings those of a new release, as it brings the rest.",
        ),
        ("operator", "cleanupCRD"): Option(
            kind="KAECluster",
            target=("spec", "crd", "cleanup"),
            differs="It becomes 'crd.cleanup', which lets the GitOps engine delete NFD's definitions; "
            "there are no others.",
        ),
        ("operator", "image"): Option(default="cr.openfuyao.cn/openfuyao/kae-operator", why=_NO_CONTROLLER),
        ("operator", "version"): Option(default="latest", why=_NO_CONTROLLER),
        ("operator", "pullPolicy"): Option(default="IfNotPresent", why=_NO_CONTROLLER),
        **_carried("KAEPolicy", "daemonSets.labels", "daemonSets.tolerations", "daemonSets.priorityClassName"),
        **_carried("KAEPolicy", *_image("driver"), "driver.enabledCleanup", "driver.env"),
        **_carried("KAEPolicy", *_image("devicePlugin")),
        **_carried("KAECluster", "psa.enabled"),
    }
)
"""Every option of table 1, and those that Kubernetes' own names suggest, by its path in the chart's values."""

SECTIONS: frozenset[documents.Path] = frozenset(path[:length] for path in OPTIONS for length in range(len(path)))
"""The mappings that hold options."""

_SELECTION = "A policy chooses its nodes by its own nodeSelector, which this does not say in the same way."
_BY_NAME: Mapping[str, str] = MappingProxyType(
    {
        "affinity": _SELECTION,
        "nodeSelector": _SELECTION,
        "hook": "Nothing runs as a hook of Helm.",
        "hooks": "Nothing runs as a hook of Helm.",
        "nameOverride": "Objects have names of their own, which never change.",
        "fullnameOverride": "Objects have names of their own, which never change.",
        "namespaceOverride": "The namespace is the KAECluster's; --namespace sets it.",
    }
)
_BY_SECTION: Mapping[str, str] = MappingProxyType(
    {
        "operator": _NO_CONTROLLER,
        "node-feature-discovery": "NFD is rendered by the compiler's own templates rather than by its chart.",
    }
)


def why_unknown(path: documents.Path) -> str:
    """Return the reason why a path that is no option of table 1 is dropped."""
    by_name = _BY_NAME.get(str(path[-1]))
    return by_name or _BY_SECTION.get(str(path[0]), "The compiler has nothing that it could mean.")
