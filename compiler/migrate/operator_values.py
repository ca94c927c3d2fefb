"""Translate the KAE Operator's chart values, or its live KAEPolicy, to documents of the compiler."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pydantic

from compiler import API_VERSION, diagnostics, schema, wording
from compiler.checks import policy as policy_checks
from compiler.checks.clusters import cluster as cluster_checks
from compiler.fleet import definitions, parse
from compiler.formats import canonical, documents
from compiler.migrate import drafts, operator_options, operator_source
from compiler.model import base, cluster, policy

ARGOCD = "# +argocd:skip-file-rendering"
"""A directory Application of Argo CD passes over a file that holds this in a line."""

_SCHEMA = "# yaml-language-server: $schema=../schemas/{}.json"
"""The comment that names the schema for editors, by its path in a repository that `kae init` made."""


_COMPONENTS = ("driver", "devicePlugin")


@dataclass(frozen=True, slots=True)
class _Carried:
    """A value to translate: the document and the field that take it, and its position in the source."""

    kind: operator_options.Kind
    target: documents.Path
    origin: documents.Path
    value: Any
    """None where the value is a part of another one that is translated; then only the position is used."""


Step = _Carried | diagnostics.Diagnostic


_KINDS: tuple[operator_options.Kind, ...] = ("KAEPolicy", "KAECluster")

Translation = tuple[tuple[dict[str, Any], ...], list[diagnostics.Diagnostic]]
"""A KAEPolicy and a KAECluster, or nothing where there are errors; and the findings."""


def translated(read: Sequence[documents.Document], names: drafts.Names, judge: schema.Judge) -> Translation:
    """Return the documents that are equal to one values file or one live KAEPolicy, and the findings."""
    source = operator_source.of(read)
    if isinstance(source, diagnostics.Diagnostic):
        return (), [source]
    # What the source states replaces the registries.
    steps = [*_named(source, names), *_registries(source), *_walk(source, source.root, source.options)]
    notes = [step for step in steps if isinstance(step, diagnostics.Diagnostic)]
    carried = [step for step in steps if isinstance(step, _Carried)]
    for_policy, for_cluster = (_imported(source, kind, carried) for kind in _KINDS)
    notes.extend(chain(_faults(for_policy, judge), _faults(for_cluster, judge)))
    if diagnostics.has_errors(notes):
        return (), [note for note in notes if note.code != "operator-image"]
    objects = (_policy(parse.policy_of(for_policy.document)), _cluster(parse.cluster_of(for_cluster.document)))
    return objects, notes


def text(objects: Iterable[Mapping[str, Any]]) -> str:
    """Return the documents as the text of a file in policies/."""
    parts = [f"{_SCHEMA.format(data['kind'].lower())}\n{canonical.dump_yaml(data)}" for data in objects]
    return f"{ARGOCD}\n" + "---\n".join(parts)


def _named(source: operator_source.Source, names: drafts.Names) -> Iterator[_Carried]:
    """Yield the names of the two documents, and the namespace."""

    def with_origin(stated: str | None, field: str) -> tuple[documents.Path, Any]:
        if stated is None and field in source.metadata:
            return (*source.identity, field), source.metadata[field]
        return (), stated

    origin, name = with_origin(names.policy, "name")
    yield _Carried("KAEPolicy", ("metadata", "name"), origin, "kae" if name is None else name)
    yield _Carried("KAEPolicy", ("spec", "clusters"), (), [names.cluster])
    yield _Carried("KAECluster", ("metadata", "name"), (), names.cluster)
    origin, namespace = with_origin(names.namespace, "namespace")
    if namespace is not None:
        yield _Carried("KAECluster", ("spec", "namespace"), origin, namespace)


def _registries(source: operator_source.Source) -> Iterator[_Carried]:
    """Yield the operator's registry for each component: it holds other images than those of the same names here."""
    for name in _COMPONENTS:
        origin = (*source.root, name) if name in source.options else source.root
        yield _Carried("KAEPolicy", ("spec", name, "repository"), origin, base.OPERATOR_REPOSITORY)


def _walk(source: operator_source.Source, here: documents.Path, section: Mapping[Any, Any]) -> Iterator[Step]:
    """Yield every option of a section, and a finding for every key that is none."""
    for key, value in section.items():
        at = (*here, key)
        path = at[len(source.root) :]
        option = operator_options.OPTIONS.get(path)
        if option is not None:
            yield from _taken(source, option, at, value)
        elif path not in operator_options.SECTIONS:
            hint = _meant(path)
            yield operator_source.dropped(source, at, "" if hint else operator_options.why_unknown(path), hint)
        elif isinstance(value, dict):
            yield from _walk(source, at, value)
        elif value is not None:
            yield operator_source.not_a_mapping(source.document, at, value)


def _taken(
    source: operator_source.Source, option: operator_options.Option, at: documents.Path, value: Any
) -> Iterator[Step]:
    if option.kind is None:
        if value != option.default:
            yield operator_source.dropped(source, at, option.why)
    elif value is None:
        yield operator_source.dropped(source, at, "It has no value; the default holds.")
    elif option.target[-1] == "env":
        yield from _environment(option.kind, option.target, at, value)
    else:
        yield _Carried(option.kind, option.target, at, value)
    if option.differs and value is True:
        yield operator_source.differs(source, at, option.differs)


def _environment(
    kind: operator_options.Kind, target: documents.Path, at: documents.Path, value: Any
) -> Iterator[_Carried]:
    """Yield variables from a list, a mapping by name, or the value of INSTALL_POLICY alone."""
    if value in ("IfNotPresent", "Always"):
        yield _Carried(kind, target, at, [{"name": "INSTALL_POLICY", "value": value}])
    elif isinstance(value, dict):
        yield _Carried(kind, target, at, [{"name": name, "value": content} for name, content in value.items()])
        for index, name in enumerate(value):
            for field in ("name", "value"):
                yield _Carried(kind, (*target, index, field), (*at, name), None)
    else:
        yield _Carried(kind, target, at, value)


def _meant(path: documents.Path) -> str:
    """Return a hint for an option that is misspelt or written with dots; otherwise an empty one."""
    *above, last = path
    dotted = tuple(str(last).split("."))
    if len(dotted) > 1 and (*above, *dotted) in operator_options.OPTIONS:
        return f"Write it as '{dotted[0]}:' with '{'.'.join(dotted[1:])}:' below it."
    known = {*operator_options.OPTIONS, *operator_options.SECTIONS}
    siblings = {str(other[-1]) for other in known if other and list(other[:-1]) == above}
    near = wording.nearest(last, sorted(siblings))
    return f"Did you mean '{near}'?" if near else ""


def _imported(
    source: operator_source.Source, kind: operator_options.Kind, carried: Iterable[_Carried]
) -> drafts.Imported:
    draft = drafts.Draft(kind)
    for step in carried:
        if step.kind == kind:
            draft.put(step.target, step.value, step.origin)
    return draft.imported(source.document)


def _faults(imported: drafts.Imported, judge: schema.Judge) -> list[diagnostics.Diagnostic]:
    """Return the mistakes of a document and the operator's images, with the names and positions of its source."""
    kind, findings = judge.judge(imported.document)
    if not findings and kind == "KAEPolicy":
        findings = list(policy_checks.findings(parse.policy_of(imported.document)))
    elif not findings:
        findings = list(cluster_checks.findings(parse.cluster_of(imported.document)))
    # Other warnings come with every compile.
    told = (fault for fault in findings if fault.severity == "error" or fault.code == "operator-image")
    return [imported.origins.reworded(fault) for fault in told]


def _policy(parsed: definitions.Policy) -> dict[str, Any]:
    """Return the fields that differ from the defaults, the device kinds, and the images, which should be replaced."""
    data = _changed(parsed.spec, policy.KAEPolicySpec())
    data["operator"] = parsed.spec.operator.model_dump(mode="json")
    for name in _COMPONENTS:
        component: base.Component = getattr(parsed.spec, name)
        if component.enabled:
            data[name] = {"repository": component.repository, "version": component.version, **data.get(name, {})}
    return _written("KAEPolicy", parsed.name, data)


def _cluster(parsed: definitions.Cluster) -> dict[str, Any]:
    """Return the fields that differ from the defaults, and nfd.enabled."""
    data = _changed(parsed.spec, cluster.KAEClusterSpec())
    data["nfd"] = {"enabled": parsed.spec.nfd.enabled, **data.get("nfd", {})}
    return _written("KAECluster", parsed.name, data)


def _changed(spec: pydantic.BaseModel, defaults: pydantic.BaseModel) -> dict[str, Any]:
    stated, usual = (each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in (spec, defaults))
    return _difference(stated, usual)


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


def _written(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": _plain(spec)}


def _plain(value: Any) -> Any:
    """Return a value without fractions, which quantities may have: Kubernetes writes them as strings."""
    if isinstance(value, Mapping):
        return {key: _plain(element) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(element) for element in value]
    if isinstance(value, float):
        return f"{value:.9f}".rstrip("0").rstrip(".")
    return value
