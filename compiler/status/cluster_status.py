"""The status of a live cluster against the plan and the output, as a value: everything that `kae status` shows."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

import compiler
from compiler import names, release
from compiler.changes import objects
from compiler.fleet import pods, selectors, taints
from compiler.inventory import snapshot
from compiler.kube import lease_objects
from compiler.output import diff
from compiler.planning import images, loaded, plan
from compiler.rendering import node_programs, programs
from compiler.status import dra_devices, drift, live_objects, rollout

_LEASE = re.compile(r"[a-z0-9-]+-driver-[a-z0-9-]+-[0-9]+")
"""The name of a Lease of driver installers: RECIPE-driver-POLICY-NUMBER."""

_PROGRAMS = release.DIGESTS.keys() - {"kae-driver-installer"}
"""Those whose images tell their release: the tag and the digest of a driver's image are the driver's."""

_RELEASE = re.compile(r"v?([0-9]+\.[0-9]+\.[0-9]+)(?![0-9.])")

State = Literal["missing", "changed", "extra", "kept", "ending"]
"""missing: not in the cluster. extra: in the cluster and not in output/. kept: like extra, but kept on
purpose, because objects of others would be removed with it. ending: in the cluster, and being deleted."""


class Ref(objects.Ref, frozen=True, kw_only=True, order=True):
    """An object of the cluster."""

    api_version: str


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """An object that is not in the cluster as it is in output/."""

    ref: Ref
    state: State
    file: str
    """Below output/<cluster>/; empty for an extra one."""
    changes: tuple[drift.Change, ...]


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A Lease that a host holds, with ages in seconds; None where the Lease does not say."""

    lease: lease_objects.Lease
    held_s: int | None
    renewed_s: int | None

    @property
    def silent(self) -> bool:
        """Return whether the Lease was not renewed in time."""
        return self.renewed_s is None or self.renewed_s > self.lease.duration_s

    @property
    def expired(self) -> bool:
        """Return whether another host may take the Lease; never that of a host that vanished in a swap."""
        return self.silent and not self.lease.swap


class Skew(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A workload whose program is of another release."""

    name: str
    image: str
    release: str
    """Empty where its image has a digest, and is another one than this release's."""


class ClusterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a cluster."""

    cluster: str
    server: str
    output: diff.Kind
    """The state of output/<cluster>/ against the documents."""
    nodes: tuple[live_objects.NodeState, ...]
    unknown: tuple[str, ...]
    """Nodes that the inventory does not hold yet."""
    gone: tuple[str, ...]
    """Nodes of the inventory that the cluster does not have any more."""
    rollouts: tuple[rollout.Rollout, ...]
    deployments: tuple[live_objects.Deployment, ...]
    templates: tuple[tuple[str, str], ...]
    """The live Deployments and CronJobs by name, each with the image of its pods."""
    leases: tuple[Held, ...]
    drifts: tuple[Drift, ...]
    differing: tuple[loaded.Group, ...] = ()
    """The nodes that have another driver loaded than planned, as their labels tell; the pods decide `as_planned`."""

    devices: tuple[dra_devices.Devices, ...] = ()
    """Those of nodes with DRA. They are no difference: a device plugin whose slices are not published is not ready."""

    @property
    def skews(self) -> tuple[Skew, ...]:
        """Return the programs of another release than this compiler."""
        pods = [(daemon_set.wanted.name, image) for daemon_set in self.rollouts for image in daemon_set.images]
        return skews_of((*pods, *self.templates), compiler.__version__)

    @property
    def as_planned(self) -> bool:
        """Return whether the cluster is as documents and output say. The inventory of the plan may be old."""
        settled = all(
            daemon_set.exists and daemon_set.observed and not daemon_set.problems for daemon_set in self.rollouts
        )
        up = all(each.found and each.available >= each.replicas for each in self.deployments)
        return self.output == "fine" and settled and up and all(deviation.state == "kept" for deviation in self.drifts)


def skews_of(
    running: Iterable[tuple[str, str]], compiler: str, digests: Mapping[str, str] = release.DIGESTS
) -> tuple[Skew, ...]:
    """Return the workloads, each a name and an image, that are not of the release of this version of the compiler."""
    own = _release(compiler)
    skews = set()
    for name, image in running:
        program = images.unqualified(images.name(image))
        if program not in _PROGRAMS:
            continue
        digest, release_there = image.partition("@")[2], _release(images.tag(image) or "")
        if (digest and digests[program] and digest != digests[program]) or (own and release_there not in ("", own)):
            skews.add(Skew(name=name, image=image, release=release_there))
    return tuple(sorted(skews))


def _release(version: str) -> str:
    """Return the release in a version or a tag; empty for one of a checkout without any release behind it."""
    match = _RELEASE.match(version)
    return match[1] if match else ""


def is_lease(name: str) -> bool:
    """Return whether a Lease has the name of one of driver installers."""
    return _LEASE.fullmatch(name) is not None


def ref_of(data: Mapping[str, Any]) -> Ref:
    """Return the object that data describes."""
    metadata = data["metadata"]
    return Ref(
        api_version=data["apiVersion"],
        kind=data["kind"],
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
    )


def wanted_daemon_sets(
    rendered: Sequence[Mapping[str, Any]], decisions: Sequence[plan.Decision], nodes: Sequence[snapshot.Node]
) -> tuple[rollout.Wanted, ...]:
    """Return the DaemonSets of the output, with the nodes on which the plan expects a pod of each."""
    planned = _planned(decisions)
    wanted = []
    for data in rendered:
        if data["kind"] != "DaemonSet":
            continue
        template = data["spec"]["template"]
        name, image = data["metadata"]["name"], template["spec"]["containers"][0]["image"]
        app = template["metadata"]["labels"].get(names.APP_LABEL, "")
        is_of_policy = names.POLICY_LABEL in data["spec"]["selector"]["matchLabels"]
        served = planned.get(name, {}) if is_of_policy else dict.fromkeys(_served(template["spec"], nodes), image)
        namespace = data["metadata"].get("namespace", "")
        wanted.append(rollout.Wanted(namespace=namespace, name=name, app=app, planned=served))
    return tuple(wanted)


def _planned(decisions: Sequence[plan.Decision]) -> dict[str, dict[str, str]]:
    """Return the image of each node that gets a pod, by the name of the policy's DaemonSet."""
    images: dict[str, dict[str, str]] = {}
    for decision in decisions:
        if decision.policy is None:
            continue
        found = {node_programs.device_plugin_name(decision.policy): decision.device_plugin.image}
        if decision.pool is not None:
            found[node_programs.driver_name(decision.policy, decision.pool)] = decision.pool.images[0][1]
        for program, landing in decision.programs:
            made = decision.division.deployment(program, decision.node) if decision.division else None
            if made is not None:
                found[programs.name(decision.policy, made)] = landing.image
        for name, image in found.items():
            if image is not None:
                images.setdefault(name, {}).update(dict.fromkeys(decision.names, image))
    return images


def _served(spec: Mapping[str, Any], nodes: Sequence[snapshot.Node]) -> tuple[str, ...]:
    """Return the nodes of a DaemonSet without a policy: those that its nodeSelector and tolerations allow."""
    tolerations = msgspec.convert(spec.get("tolerations", ()), tuple[pods.Toleration, ...])
    term = tuple(selectors.Requirement(key, "In", (value,)) for key, value in spec.get("nodeSelector", {}).items())
    return tuple(
        node.name
        for node in nodes
        if selectors.term_matches(term, node.label) and not taints.untolerated(tolerations, node.profile.taints)
    )


def data(status: ClusterStatus) -> dict[str, Any]:
    """Return the status of a cluster for programs; a Deployment, a skew and a change have their own fields."""
    return {
        "name": status.cluster,
        "server": status.server,
        "asPlanned": status.as_planned,
        "output": status.output,
        "nodes": {
            "count": len(status.nodes),
            "notReady": [
                {"name": node.name, "reason": node.reason, "since": node.since}
                for node in status.nodes
                if not node.ready
            ],
            "notInInventory": list(status.unknown),
            "onlyInInventory": list(status.gone),
        },
        "daemonSets": [_rollout(daemon_set) for daemon_set in status.rollouts],
        "loaded": [
            {"recipe": group.recipe.name, **group.loaded._asdict(), "nodes": list(group.nodes)}
            for group in status.differing
        ],
        "devices": list(map(msgspec.structs.asdict, status.devices)),
        "deployments": list(map(msgspec.structs.asdict, status.deployments)),
        "leases": [_lease(lease) for lease in status.leases],
        "objects": [_drift(deviation) for deviation in status.drifts],
        "skews": list(map(msgspec.structs.asdict, status.skews)),
    }


def _rollout(daemon_set: rollout.Rollout) -> dict[str, Any]:
    return {
        "namespace": daemon_set.wanted.namespace,
        "name": daemon_set.wanted.name,
        "found": daemon_set.exists,
        "observed": daemon_set.observed,
        "planned": len(daemon_set.wanted.planned),
        "pods": daemon_set.pods,
        "ready": daemon_set.ready,
        "current": daemon_set.current,
        "heldUpBy": list(daemon_set.held_up_by),
        "problems": [
            {
                "kind": problem.kind,
                "node": problem.node,
                "pod": problem.pod or None,
                "reason": problem.reason,
                "since": problem.since or None,
                "image": problem.image or None,
                "plannedImage": daemon_set.wanted.planned.get(problem.node),
            }
            for problem in daemon_set.problems
        ],
    }


def _lease(lease: Held) -> dict[str, Any]:
    return {
        "name": lease.lease.name,
        "holder": lease.lease.holder,
        "heldSeconds": lease.held_s,
        "renewedSecondsAgo": lease.renewed_s,
        "expired": lease.expired,
        "swapSince": lease.lease.swap or None,
    }


def _drift(deviation: Drift) -> dict[str, Any]:
    return {
        "state": deviation.state,
        "apiVersion": deviation.ref.api_version,
        "kind": deviation.ref.kind,
        "namespace": deviation.ref.namespace or None,
        "name": deviation.ref.name,
        "file": deviation.file or None,
        "changes": list(map(msgspec.structs.asdict, deviation.changes)),
    }
