"""`kae status`: compare a live cluster with the plan for its nodes, and with the output of the documents."""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from compiler import cli, diagnostics, names, pipeline
from compiler.cli import findings, live
from compiler.fleet import clusters, definitions
from compiler.inventory import reduction, snapshot
from compiler.kube import lease_objects, reader
from compiler.output import scan
from compiler.planning import loaded, plan
from compiler.project import package_data, project_file
from compiler.project.by_cluster import planned
from compiler.rendering import layout, templates
from compiler.settings import Settings
from compiler.status import cluster_status, dra_devices, drift, live_objects, rollout
from compiler.status import text as status_text


def run(arguments: argparse.Namespace) -> int:
    """Print the status of the cluster; return 4 where it is not as planned."""
    settings = project_file.of(arguments)
    run, view = planned.of_one(settings, arguments.cluster)
    findings.require_fine(arguments, run.findings, cluster=None)
    result, of_now = of_cluster(live.cluster(arguments), run.fleet, view, settings)
    found = diagnostics.merged([*run.on_documents, *pipeline.settle(run.fleet, {view.cluster.name: of_now})])
    for_programs = arguments.shape != "text"
    body = "" if for_programs else status_text.text(result, age_s)
    code = findings.show(arguments, found, body, cluster=cluster_status.data(result) if for_programs else None)
    return code or (cli.FINE if result.as_planned else cli.DIFFERS)


def age_s(time: str) -> int | None:
    """Return the seconds since a time of Kubernetes; None where it is none."""
    try:
        return max(0, int((datetime.now(UTC) - datetime.fromisoformat(time)).total_seconds()))
    except (ValueError, TypeError):  # no time at all, or one without a zone
        return None


def of_cluster(
    asked: reader.Cluster, fleet: definitions.Fleet, view: plan.Plan, settings: Settings
) -> tuple[cluster_status.ClusterStatus, diagnostics.Findings]:
    """Return the status of a live cluster, and the findings on its nodes as they are now. Raises WorldError."""
    cluster, spec = view.cluster, view.cluster.spec
    render = templates.renderer(package_data.templates(), package_data.code())
    compiled, every = pipeline.render_cluster(view, render, settings.applied)
    objects = [item for item in every if item.component != names.BOOTSTRAP]
    compared = scan.state(Path(settings.output), compiled)
    reducer = reduction.Reducer(spec.watcher.ignoreLabels, spec.watcher.inventory.labels)
    pairs = sorted(
        asked.snapshot(lambda raw: (reducer.node(raw), live_objects.node_state(raw))), key=lambda pair: pair[0].name
    )
    nodes, states = tuple(node for node, _ in pairs), {state.name: state for _, state in pairs}
    known = {node.name for node in view.inventory.nodes}
    now = snapshot.Inventory(cluster=cluster.name, file="", nodes=nodes)
    of_now, on_nodes = pipeline.plan_cluster(structs.replace(fleet, inventories={cluster.name: now}), cluster)
    refs = [cluster_status.ref_of(item.data) for item in objects]
    found = {ref: asked.object(ref.api_version, ref.kind, ref.name, ref.namespace) for ref in refs}
    wanted = cluster_status.wanted_daemon_sets([item.data for item in objects], of_now.decisions, nodes)
    return cluster_status.ClusterStatus(
        cluster=cluster.name,
        server=asked.host,
        output=compared.kind,
        nodes=tuple(states.values()),
        unknown=tuple(sorted(states.keys() - known)),
        gone=tuple(sorted(known - states.keys())),
        rollouts=tuple(_rollouts(asked, spec.namespace, wanted, found, states)),
        deployments=tuple(
            live_objects.deployment(ref.namespace, ref.name, raw)
            for ref, raw in found.items()
            if ref.kind == "Deployment"
        ),
        templates=tuple(
            (ref.name, live_objects.template_image(raw))
            for ref, raw in found.items()
            if raw is not None and ref.kind in ("Deployment", "CronJob")
        ),
        leases=tuple(_leases(asked, spec.namespace)),
        drifts=(*_drifts(objects, found), *_extras(asked, spec, found)),
        devices=dra_devices.of_nodes(of_now.decisions, _slices(asked, of_now.decisions)),
        differing=tuple(group for one in of_now.recipes for group in loaded.differing(one)),
    ), on_nodes


def _slices(asked: reader.Cluster, decisions: Sequence[plan.Decision]) -> Iterator[Mapping[str, Any]]:
    for driver in dra_devices.drivers(decisions):
        yield from asked.objects(dra_devices.API_VERSION, "ResourceSlice", fields=f"spec.driver={driver}")


_Found = Mapping[cluster_status.Ref, Mapping[str, Any] | None]
"""The objects of the output as the cluster has them; None where it lacks one."""


def _rollouts(
    asked: reader.Cluster,
    namespace: str,
    wanted: Sequence[rollout.Wanted],
    found: _Found,
    states: Mapping[str, live_objects.NodeState],
) -> Iterator[rollout.Rollout]:
    labels = f"app.kubernetes.io/name in ({','.join(sorted({item.app for item in wanted}))})"
    pods = [live_objects.pod(raw) for raw in asked.objects("v1", "Pod", namespace, labels=labels)]
    revisions = live_objects.newest_revisions(asked.objects("apps/v1", "ControllerRevision", namespace, labels=labels))
    if any(pod.probed for pod in pods):  # Only their probe keeps them from being ready: its last message says why.
        events = asked.objects("v1", "Event", namespace, fields="reason=Unhealthy,involvedObject.kind=Pod")
        said = live_objects.probe_words(events)
        pods = [msgspec.structs.replace(pod, reason=said[pod.name]) if pod.name in said else pod for pod in pods]
    for item in wanted:
        ref = cluster_status.Ref(api_version="apps/v1", kind="DaemonSet", namespace=item.namespace, name=item.name)
        raw = found[ref]
        there = live_objects.daemon_set(raw) if raw is not None else None
        uid = there.uid if there else ""
        own = [pod for pod in pods if pod.owner == uid]
        yield rollout.judged(item, rollout.Seen(live=there, revision=revisions.get(uid, ""), pods=own, nodes=states))


def _leases(asked: reader.Cluster, namespace: str) -> Iterator[cluster_status.Held]:
    for raw in asked.objects("coordination.k8s.io/v1", "Lease", namespace):
        lease = lease_objects.parse(raw)
        if cluster_status.is_lease(lease.name) and lease.holder:
            yield cluster_status.Held(lease=lease, held_s=age_s(lease.acquired), renewed_s=age_s(lease.renewed))


def _drifts(objects: Iterable[layout.Object], found: _Found) -> Iterator[cluster_status.Drift]:
    for item in objects:
        ref = cluster_status.ref_of(item.data)
        raw = found[ref]
        changes = drift.changes(item.data, raw) if raw is not None else ()
        ending = raw is not None and "deletionTimestamp" in raw["metadata"]
        if raw is None or ending or changes:
            state: cluster_status.State = "missing" if raw is None else "ending" if ending else "changed"
            yield cluster_status.Drift(ref=ref, state=state, file=item.path, changes=changes)


def _extras(asked: reader.Cluster, spec: clusters.Spec, found: _Found) -> list[cluster_status.Drift]:
    """Return the objects that carry KAE's label, have no owner, and are not in output/."""
    kept = {"Namespace"} if spec.crd.cleanup else {"Namespace", "CustomResourceDefinition"}
    extras = []
    for kind in templates.kinds(package_data.templates()):
        state: cluster_status.State = "kept" if kind.name in kept else "extra"
        for raw in asked.metadata(kind.api_version, kind.name, spec.namespace, labels=names.RENDERED):
            data = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": raw["metadata"]}
            ref = cluster_status.ref_of(data)
            if ref not in found and not raw["metadata"].get("ownerReferences"):
                extras.append(cluster_status.Drift(ref=ref, state=state, file="", changes=()))
    return sorted(extras, key=lambda item: item.ref)
