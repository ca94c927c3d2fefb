"""Translate the KAE Operator's chart values, or its live KAEPolicy, to documents of the compiler.

`OPTIONS` has the options of the operator (its guide, table 1), and the fields that take them.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, get_args

import msgspec

from compiler import API_VERSION, diagnostics, release, schema
from compiler.checks import cluster as cluster_checks
from compiler.checks import policy as policy_checks
from compiler.formats import documents
from compiler.migrate import translation
from compiler.migrate.translation import Draft, Names, Source
from compiler.read import fleet as reader

Kind = Literal["KAEPolicy", "KAECluster"]


class Option(msgspec.Struct, frozen=True, kw_only=True):
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

_SECTIONS: frozenset[documents.Path] = frozenset(path[:length] for path in OPTIONS for length in range(len(path)))
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

_COMPONENTS = ("driver", "devicePlugin")

Translation = tuple[tuple[dict[str, Any], ...], list[diagnostics.Diagnostic]]
"""A KAEPolicy and a KAECluster, or nothing where there are errors; and the findings."""


def translated(read: Sequence[documents.Document], names: Names, judge: schema.Judge) -> Translation:
    """Return the documents that are equal to one values file or one live KAEPolicy, and the findings."""
    source = translation.of(read)
    if isinstance(source, diagnostics.Diagnostic):
        return (), [source]
    known = {*_BY_NAME, *_BY_SECTION, *(path[0] for path in OPTIONS)}
    keys = [key for key in source.options if key in known or _meant((key,))]
    if source.options and not source.identity and not keys:
        return (), [translation.refused(source.document, source.root, "It has no value of the KAE Operator's chart.")]
    policy, cluster = made = [Draft(kind, source.document) for kind in get_args(Kind)]
    _put_names(source, names, policy, cluster)
    # The operator's registry holds other images than those of the same names here. What the source states replaces it.
    for name in _COMPONENTS:
        origin = (*source.root, name) if name in source.options else source.root
        policy.put(("spec", name, "repository"), release.OPERATOR_REPOSITORY, origin)
    _put_options(source, {draft.kind: draft for draft in made}, (), source.options)
    found = [*source.found, *_faults(policy, judge), *_faults(cluster, judge)]
    if diagnostics.has_errors(found):
        return (), [finding for finding in found if finding.code != "operator-image"]
    return (_policy(policy.document, judge.complete), _cluster(cluster.document, judge.complete)), found


def _put_names(source: Source, names: Names, policy: Draft, cluster: Draft) -> None:
    def stated(wanted: str | None, field: str) -> tuple[Any, documents.Path]:
        if wanted is None and field in source.metadata:
            return source.metadata[field], (*source.identity, field)
        return wanted, ()

    name, origin = stated(names.policy, "name")
    policy.put(("metadata", "name"), "kae" if name is None else name, origin)
    policy.put(("spec", "clusters"), [names.cluster])
    cluster.put(("metadata", "name"), names.cluster)
    namespace, origin = stated(names.namespace, "namespace")
    if namespace is not None:
        cluster.put(("spec", "namespace"), namespace, origin)


def _put_options(source: Source, made: Mapping[str, Draft], here: documents.Path, section: Mapping[Any, Any]) -> None:
    """Put every option of a section, and say of every key that is none that it is not carried over."""
    for key, value in section.items():
        path = (*here, key)
        option = OPTIONS.get(path)
        if option is not None:
            _put(source, made, option, path, value)
        elif path not in _SECTIONS:
            hint = _meant(path)
            source.drop("" if hint else _why_unknown(path), *path, hint=hint)
        elif isinstance(value, dict):
            _put_options(source, made, path, value)
        elif value is not None:
            source.found.append(translation.mistyped(source.document, source.origin(*path), "a mapping", value))


def _why_unknown(path: documents.Path) -> str:
    """Return the reason why a path that is no option of table 1 is dropped."""
    by_name = _BY_NAME.get(str(path[-1]))
    return by_name or _BY_SECTION.get(str(path[0]), "The compiler has nothing that it could mean.")


def _put(source: Source, made: Mapping[str, Draft], option: Option, path: documents.Path, value: Any) -> None:
    if option.kind is None:
        if value != option.default:
            source.drop(option.why, *path)
    elif value is None:
        source.drop("It has no value; the default holds.", *path)
    elif option.target[-1] == "env":
        _put_environment(made[option.kind], option.target, source.origin(*path), value)
    else:
        made[option.kind].put(option.target, value, source.origin(*path))
    if option.differs and value is True:
        source.differs(option.differs, *path)


def _put_environment(draft: Draft, target: documents.Path, origin: documents.Path, value: Any) -> None:
    """Put variables from a list, a mapping by name, or the value of INSTALL_POLICY alone."""
    if value in ("IfNotPresent", "Always"):
        value = [{"name": "INSTALL_POLICY", "value": value}]
    elif isinstance(value, dict):
        for index, name in enumerate(value):
            for field in ("name", "value"):
                draft.put((*target, index, field), None, (*origin, name))
        value = [{"name": name, "value": content} for name, content in value.items()]
    draft.put(target, value, origin)


def _meant(path: documents.Path) -> str:
    """Return a hint for an option that is misspelt or written with dots; otherwise an empty one."""
    *above, last = path
    dotted = tuple(str(last).split("."))
    if len(dotted) > 1 and (*above, *dotted) in OPTIONS:
        return f"Write it as '{dotted[0]}:' with '{'.'.join(dotted[1:])}:' below it."
    return translation.near(last, path, OPTIONS)


def _faults(draft: Draft, judge: schema.Judge) -> list[diagnostics.Diagnostic]:
    """Return the mistakes of a document and the operator's images, with the names and positions of its source."""
    document = draft.document
    findings = judge.judge(document)[1]
    if not findings and draft.kind == "KAEPolicy":
        findings = list(policy_checks.findings(reader.policy_of(document, judge.complete, {})))
    elif not findings:
        findings = list(cluster_checks.findings(reader.cluster_of(document, judge.complete)))
    # Other warnings come with every compile.
    told = (fault for fault in findings if fault.severity == "error" or fault.code == "operator-image")
    return [draft.reworded(fault) for fault in told]


def _policy(document: documents.Document, complete: reader.Complete) -> dict[str, Any]:
    """Return the fields that differ from the defaults, the device kinds, and the images, which should be replaced."""
    spec, data = _changed(document, complete)
    data["operator"] = spec["operator"]
    for name in _COMPONENTS:
        component = spec[name]
        if component["enabled"]:
            data[name] = {"repository": component["repository"], "version": component["version"], **data.get(name, {})}
    return _written(document, data)


def _cluster(document: documents.Document, complete: reader.Complete) -> dict[str, Any]:
    """Return the fields that differ from the defaults, and nfd.enabled."""
    spec, data = _changed(document, complete)
    data["nfd"] = {"enabled": spec["nfd"]["enabled"], **data.get("nfd", {})}
    return _written(document, data)


def _changed(document: documents.Document, complete: reader.Complete) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """Return the whole spec of a document, and the fields of it that differ from the defaults."""
    kind = document.data["kind"]
    spec = complete(kind, document.data)["spec"]
    return spec, _difference(spec, complete(kind, {"spec": {}})["spec"])


def _difference(stated: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries that differ from the usual ones, at any depth."""
    changed = {}
    for key, value in stated.items():
        if isinstance(value, dict) and isinstance(usual.get(key), dict):
            value = _difference(value, usual[key])  # noqa: PLW2901 - the same value, less the usual
            if not value:
                continue
        elif value == usual.get(key):
            continue
        changed[key] = value
    return changed


def _written(document: documents.Document, spec: Mapping[str, Any]) -> dict[str, Any]:
    data = document.data
    name = data["metadata"]["name"]
    return {"apiVersion": API_VERSION, "kind": data["kind"], "metadata": {"name": name}, "spec": _plain(spec)}


def _plain(value: Any) -> Any:
    """Return a value without fractions, which quantities may have: Kubernetes writes them as strings."""
    if isinstance(value, Mapping):
        return {key: _plain(element) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(element) for element in value]
    if isinstance(value, float):
        return f"{value:.9f}".rstrip("0").rstrip(".")
    return value
