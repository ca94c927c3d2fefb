"""The difference between two revisions for programs, version 1: fields are added to it, never renamed or removed."""

from collections.abc import Collection
from typing import Any

from msgspec import structs

from compiler import diagnostic_formats, wording
from compiler.changes.acceptance import Acceptable
from compiler.changes.difference import ClusterDifference, Difference, Fault, PrivilegeChange
from compiler.changes.effects import Effect, Placement
from compiler.changes.intent import DocumentChange
from compiler.changes.objects import Pair
from compiler.changes.pods import PodChange
from compiler.diagnostics import Span
from compiler.rendering.privileges import texts


def data(difference: Difference, accepted: Collection[Acceptable] = ()) -> dict[str, Any]:
    """Return a difference as JSON data; `accepted` are the risks that people have accepted."""
    return {
        **revisions(difference),
        "doesNotCompile": [_fault(fault) for fault in difference.faults],
        "compilesTo": [_effect(effect) for effect in difference.described],
        "intent": [_document(change) for change in difference.intent],
        "clusters": [_cluster(item) for item in difference.clusters],
        "effects": [_effect(effect) for effect in difference.effects],
        "pods": [_pods(item.cluster, change) for item in difference.clusters for change in item.pods],
        "objects": [_object(item.cluster, pair) for item in difference.clusters for pair in item.objects],
        "privileges": [_privileges(item.cluster, each) for item in difference.clusters for each in item.privileges],
        "risks": [_risk(risk, is_accepted=risk in accepted) for risk in difference.risks],
    }


def revisions(difference: Difference) -> dict[str, Any]:
    """Return the two revisions that are compared."""
    return {
        "from": {"name": difference.before.name or None, "commit": difference.before.commit},
        "to": {"name": difference.after.name or None, "commit": difference.after.commit},
    }


def _cluster(item: ClusterDifference) -> dict[str, Any]:
    deletion = item.deletion
    prunes = deletion.prunes if deletion.engine else None
    return {"name": item.cluster, "new": item.is_new, "gone": item.is_gone, "prunes": prunes}


def _object(cluster: str, pair: Pair) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "component": pair.component,
        "change": pair.change,
        **structs.asdict(pair.ref),
        "path": pair.path,
        "keptBy": pair.protector,
        "fields": wording.value_without_credentials(
            [{"path": field.text, "old": field.old, "new": field.new} for field in pair.fields()]
        ),
    }


def _privileges(cluster: str, change: PrivilegeChange) -> dict[str, Any]:
    pair = change.pair
    return {
        "cluster": cluster,
        "component": pair.component,
        **structs.asdict(pair.ref),
        "new": pair.before is None,
        "gone": pair.after is None,
        "gained": list(texts(change.gained)),
        "lost": list(texts(change.lost)),
    }


def _risk(risk: Acceptable, *, is_accepted: bool) -> dict[str, Any]:
    finding = risk.finding
    return {
        "code": finding.code,
        "cluster": risk.cluster,
        "policy": risk.policy,
        "scope": risk.scope,
        "accepted": is_accepted,
        "message": finding.message,
        "notes": list(finding.notes),
        "hint": finding.hint,
        **_place(finding.span),
    }


def _fault(fault: Fault) -> dict[str, Any]:
    errors = [diagnostic_formats.as_json(finding) for finding in fault.findings]
    return {"side": fault.side, "cluster": fault.cluster, "errors": errors}


def _document(change: DocumentChange) -> Any:
    """Return the change of a document, in which a person may have written credentials."""
    found = {
        "kind": change.kind,
        "name": change.name,
        "action": change.action,
        "oldName": change.old_name,
        **_place(change.span),
        "fields": [
            {"path": field.text, "old": field.old, "new": field.new, **_place(field.span)} for field in change.fields
        ],
    }
    return wording.value_without_credentials(found)


def _effect(effect: Effect) -> dict[str, Any]:
    drain = effect.drain
    return {
        "cluster": effect.cluster,
        **({} if effect.recipe.builtin else {"recipe": effect.recipe.name}),
        "nodes": list(effect.nodes),
        "before": _placement(effect.before),
        "after": _placement(effect.after),
        "driverPod": effect.driver_pod,
        "devicePluginPod": effect.device_plugin_pod,
        **({"programPods": dict(effect.program_pods)} if effect.program_pods else {}),
        "driver": effect.work,
        "reasons": list(effect.reasons),
        "drain": drain
        and {
            "evicts": drain.evicts,
            "timeoutSeconds": drain.timeout_seconds,
            "podsPerNode": drain.most,
            "hostsAtATime": drain.hosts_at_a_time,
            "rolls": drain.rolls,
        },
        **({"kernels": {"before": effect.kernels[0], "after": effect.kernels[1]}} if effect.kernels else {}),
        **({"mayLose": list(effect.may_lose)} if effect.may_lose else {}),
        **({"standing": list(effect.standing)} if effect.standing else {}),
        **({"mayGain": True} if effect.may_gain else {}),
        **({"loaded": True} if effect.is_loaded else {}),
        "cause": _place(effect.cause),
    }


def _placement(placement: Placement | None) -> dict[str, Any] | None:
    if placement is None:
        return None
    found = structs.asdict(placement) | {"resources": dict(placement.resources), "programs": dict(placement.programs)}
    if not placement.programs:
        del found["programs"]
    del found["injects"]
    if placement.interface != "DRA":
        del found["interface"]
    names = {"group_sort": "groupKind", "device_plugin": "devicePlugin"}
    return {names.get(key, key): value for key, value in found.items()}


def _pods(cluster: str, change: PodChange) -> dict[str, Any]:
    found = {"cluster": cluster, **structs.asdict(change.ref)}
    if change.ref.kind == "Deployment":
        return found | {"fate": change.fate, "replicas": change.replicas}
    return found | {fate: list(nodes) for fate, nodes in change.nodes._asdict().items()}


def _place(span: Span) -> dict[str, Any]:
    return {"file": span.file, "line": span.line, "column": span.column}
