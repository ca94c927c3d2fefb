"""`kae status`: compare a live cluster with the plan for its nodes, and with the output of the documents."""

import argparse
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from compiler import cli, diagnostics, names, pipeline
from compiler.cli import findings, live, options, parsing
from compiler.fleet import definitions
from compiler.inventory import reduction, snapshot
from compiler.kube import lease_objects, reader
from compiler.output import scan
from compiler.planning import plan
from compiler.project import package_data, project_file
from compiler.project.by_cluster import planned
from compiler.rendering import templates
from compiler.settings import Settings
from compiler.status import cluster_status, drift, live_objects, rollout
from compiler.status import text as status_text


def declare(command: parsing.Parser) -> None:
    """Declare the options of `kae status`."""
    command.examples(
        "kae status --cluster east",
        "kae status --cluster east --kubeconfig ~/.kube/config --context east-admin -o json",
    )
    options.sources(command)
    options.verdict(command)
    live.options(command)
    command.add_argument("--output-dir", metavar="DIR", help="compare with DIR instead of output/")
    command.renamed = {**command.renamed, "--output": options.OUTPUT_FOLDER}


def run(arguments: argparse.Namespace) -> int:
    """Print the status of the cluster; return 4 where it is not as planned."""
    settings = project_file.of(arguments)
    run, view = planned.of_one(settings, arguments.cluster)
    if findings.concluded(arguments, run.findings):
        findings.show(arguments, run.findings, cluster=None)
        return cli.WRONG
    result, of_now = of_cluster(live.cluster(arguments), run.fleet, view, settings)
    found = diagnostics.merged([*run.on_documents, *pipeline.settle(run.fleet, {view.cluster.name: of_now})])
    for_programs = arguments.shape != "text"
    body = "" if for_programs else status_text.text(result, age_s)
    findings.show(arguments, found, body, cluster=cluster_status.data(result) if for_programs else None)
    if findings.concluded(arguments, found):
        return cli.WRONG
    return cli.FINE if result.as_planned else cli.DIFFERS


def of_cluster(
    asked: reader.Cluster, fleet: definitions.Fleet, view: plan.Plan, settings: Settings
) -> tuple[cluster_status.ClusterStatus, diagnostics.Findings]:
    """Return the status of a live cluster, and the findings on its nodes as they are now. Raises WorldError."""
    return _Look(asked, fleet, view, settings.applied).taken(Path(settings.output))


def age_s(time: str) -> int | None:
    """Return the seconds since a time of Kubernetes; None where it is none."""
    try:
        return max(0, int((datetime.now(UTC) - datetime.fromisoformat(time)).total_seconds()))
    except (ValueError, TypeError):  # no time at all, or one without a zone
        return None


class _Look:
    """One comparison: the desired state, and the live objects."""

    def __init__(self, asked: reader.Cluster, fleet: definitions.Fleet, view: plan.Plan, output: str) -> None:
        render = templates.renderer(package_data.templates(), package_data.bytecode())
        self._compiled, objects = pipeline.render_cluster(view, render, output)
        self._objects = tuple(item for item in objects if item.component != names.BOOTSTRAP)
        self._asked, self._fleet, self._view = asked, fleet, view
        self._found: dict[cluster_status.Ref, Mapping[str, Any] | None] = {}

    def taken(self, output: Path) -> tuple[cluster_status.ClusterStatus, diagnostics.Findings]:
        """Return the status of the cluster, and the findings on its nodes as they are now."""
        cluster = self._view.cluster
        compared = scan.state(output, self._compiled)
        reducer = reduction.Reducer(cluster.spec.watcher.ignoreLabels, cluster.spec.watcher.inventory.labels)
        pairs = sorted(
            self._asked.snapshot(lambda raw: (reducer.node(raw), live_objects.node_state(raw))),
            key=lambda pair: pair[0].name,
        )
        nodes = tuple(node for node, _ in pairs)
        states = {state.name: state for _, state in pairs}
        known = {node.name for node in self._view.inventory.nodes}
        now = snapshot.Inventory(cluster=cluster.name, file="", nodes=nodes)
        fleet = dataclasses.replace(self._fleet, inventories={cluster.name: now})
        view, on_nodes = pipeline.plan_cluster(fleet, cluster)
        for item in self._objects:
            ref = cluster_status.ref_of(item.data)
            self._found[ref] = self._asked.object(ref.api_version, ref.kind, ref.name, ref.namespace)
        objects = [item.data for item in self._objects]
        daemon_sets = cluster_status.wanted_daemon_sets(objects, view.decisions, nodes)
        return cluster_status.ClusterStatus(
            cluster=cluster.name,
            server=self._asked.host,
            output=compared.kind,
            nodes=tuple(states.values()),
            unknown=tuple(sorted(states.keys() - known)),
            gone=tuple(sorted(known - states.keys())),
            rollouts=self._rollouts(daemon_sets, states),
            deployments=tuple(self._deployments()),
            templates=tuple(self._templates()),
            leases=tuple(self._leases()),
            drifts=(*self._drifts(), *self._extras()),
        ), on_nodes

    def _rollouts(
        self, wanted: Sequence[rollout.Wanted], states: Mapping[str, live_objects.NodeState]
    ) -> tuple[rollout.Rollout, ...]:
        namespace = self._view.cluster.spec.namespace
        labels = f"app.kubernetes.io/name in ({','.join(sorted({item.app for item in wanted}))})"
        pods = [live_objects.pod(raw) for raw in self._asked.objects("v1", "Pod", namespace, labels=labels)]
        revisions = live_objects.newest_revisions(
            self._asked.objects("apps/v1", "ControllerRevision", namespace, labels=labels)
        )
        pods = self._with_probes(pods, namespace)
        found = []
        for item in wanted:
            ref = cluster_status.Ref(api_version="apps/v1", kind="DaemonSet", namespace=item.namespace, name=item.name)
            raw = self._found[ref]
            there = live_objects.daemon_set(raw) if raw is not None else None
            uid = there.uid if there else ""
            own = [pod for pod in pods if pod.owner == uid]
            seen = rollout.Seen(live=there, revision=revisions.get(uid, ""), pods=own, nodes=states)
            found.append(rollout.judged(item, seen))
        return tuple(found)

    def _with_probes(self, pods: Sequence[live_objects.Pod], namespace: str) -> list[live_objects.Pod]:
        """Return the pods, with the last probe message of those that only their probe keeps from being ready."""
        if not any(pod.probed for pod in pods):
            return list(pods)
        events = self._asked.objects("v1", "Event", namespace, fields="reason=Unhealthy,involvedObject.kind=Pod")
        said = live_objects.probe_words(events)
        return [dataclasses.replace(pod, reason=said[pod.name]) if pod.name in said else pod for pod in pods]

    def _deployments(self) -> Iterator[cluster_status.Workload]:
        for ref, raw in self._found.items():
            if ref.kind == "Deployment":
                yield cluster_status.Workload(ref=ref, live=live_objects.deployment(raw) if raw is not None else None)

    def _templates(self) -> Iterator[tuple[str, str]]:
        for ref, raw in self._found.items():
            if raw is not None and ref.kind in ("Deployment", "CronJob"):
                yield ref.name, live_objects.template_image(raw)

    def _leases(self) -> Iterator[cluster_status.Held]:
        for raw in self._asked.objects("coordination.k8s.io/v1", "Lease", self._view.cluster.spec.namespace):
            lease = lease_objects.parse(raw)
            if cluster_status.is_lease(lease.name) and lease.holder:
                yield cluster_status.Held(lease=lease, held_s=age_s(lease.acquired), renewed_s=age_s(lease.renewed))

    def _drifts(self) -> Iterator[cluster_status.Drift]:
        for item in self._objects:
            ref = cluster_status.ref_of(item.data)
            raw = self._found[ref]
            changes = drift.changes(item.data, raw) if raw is not None else ()
            ending = raw is not None and "deletionTimestamp" in raw["metadata"]
            if raw is None or ending or changes:
                state: cluster_status.State = "missing" if raw is None else "ending" if ending else "changed"
                yield cluster_status.Drift(ref=ref, state=state, file=item.path, changes=changes)

    def _extras(self) -> Iterable[cluster_status.Drift]:
        """Return the objects that carry KAE's label, have no owner, and are not in output/."""
        spec = self._view.cluster.spec
        kept = {"Namespace"} if spec.crd.cleanup else {"Namespace", "CustomResourceDefinition"}
        found = []
        for kind in templates.kinds(package_data.templates()):
            state: cluster_status.State = "kept" if kind.name in kept else "extra"
            for raw in self._asked.metadata(kind.api_version, kind.name, spec.namespace, labels=names.RENDERED):
                ref = cluster_status.ref_of(
                    {"apiVersion": kind.api_version, "kind": kind.name, "metadata": raw["metadata"]}
                )
                if ref not in self._found and not raw["metadata"].get("ownerReferences"):
                    found.append(cluster_status.Drift(ref=ref, state=state, file="", changes=()))
        return sorted(found, key=lambda item: item.ref)
