"""Findings on documents and nodes: values that are collected, sorted and shown at the end.

A mistake in a document is never an exception. `CODES` holds the severity of every code: mistakes that people wrote are
errors, facts about the world are warnings.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

Severity = Literal["error", "warning", "ignore"]
"""The weight of a finding; a project may have findings of a code ignored, which are counted and not shown."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Span:
    """A position in a file: line and column count from 1; 0 means the file as a whole."""

    file: str
    line: int = 0
    column: int = 0
    text: str = ""
    """The line itself, without its line break, which is shown below the message."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One finding: a message, its position, facts as notes, and a fix as hint."""

    code: str
    span: Span
    message: str
    notes: tuple[str, ...] = ()
    hint: str = ""
    level: Severity | None = None
    """The severity that the project gives the code, in place of its own."""

    @property
    def severity(self) -> Severity:
        """The severity in the project, or that of the code."""
        return self.level or CODES[self.code].severity


Findings = tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class Code:
    """A diagnostic code: its severity, and the rule that a finding breaks."""

    severity: Severity
    rule: str
    guard: bool = False
    """True for an error that protects what runs, and without which output is defined: a project may lower it."""
    acceptable: bool = False
    """True for what a person may accept: a removal, for one compile, or a risk of a change."""
    risk: bool = False
    """True for a finding of `kae diff`."""

    @property
    def can_be_lowered(self) -> bool:
        """True where a project may make the finding a warning, or have it ignored."""
        return self.guard or self.severity == "warning"


def merged(findings: Iterable[Diagnostic]) -> Findings:
    """Return each finding once, in the order of files and lines, with the notes of equal findings joined."""
    first: dict[tuple[Span, str, str, str], Diagnostic] = {}
    for diagnostic in findings:
        key = (diagnostic.span, diagnostic.code, diagnostic.message, diagnostic.hint)
        earlier = first.get(key)
        if earlier is None:
            first[key] = diagnostic
        else:
            new = tuple(note for note in diagnostic.notes if note not in earlier.notes)
            first[key] = replace(earlier, notes=earlier.notes + new)
    return tuple(first[key] for key in sorted(first))


def has_errors(findings: Iterable[Diagnostic]) -> bool:
    """Return whether one of the findings is an error."""
    return any(diagnostic.severity == "error" for diagnostic in findings)


def split_ignored(findings: Iterable[Diagnostic]) -> tuple[Findings, Mapping[str, int]]:
    """Return the findings to show, and the number of ignored ones by code."""
    every = tuple(findings)
    ignored = Counter(diagnostic.code for diagnostic in every if diagnostic.severity == "ignore")
    shown = tuple(diagnostic for diagnostic in every if diagnostic.severity != "ignore")
    return shown, dict(sorted(ignored.items()))


def _error(rule: str) -> Code:
    return Code("error", rule)


def _guard(rule: str) -> Code:
    return Code("error", rule, guard=True)


def _removal(rule: str) -> Code:
    return Code("error", rule, guard=True, acceptable=True)


def _warning(rule: str) -> Code:
    return Code("warning", rule)


def _risk(rule: str) -> Code:
    return Code("warning", rule, acceptable=True, risk=True)


CODES: Mapping[str, Code] = MappingProxyType(
    {
        # Reading files.
        "not-a-file": _error("A path with the ending of a document is a regular file, or a link to one."),
        "link-outside": _error("A link among the documents leads to a place in the project, outside of git's folder."),
        "file-too-large": _error("A YAML file is at most 32 MiB; larger inventories are JSON."),
        "bad-encoding": _error("Documents are UTF-8 without a byte order mark."),
        "forbidden-character": _error("Documents hold no NUL, no control characters and no unpaired surrogates."),
        "yaml-syntax": _error("The file is well-formed YAML."),
        "json-syntax": _error("The file is well-formed JSON, without NaN or Infinity."),
        "duplicate-key": _error("A mapping has each key once."),
        "ambiguous-scalar": _error("A plain scalar has the same meaning in every YAML reader of Kubernetes."),
        "yaml-tag": _error("Documents use no YAML tags."),
        "alias-explosion": _error("Anchors and aliases expand to a bounded size."),
        "nesting-too-deep": _error("Documents nest at most 64 levels deep."),
        "empty-file": _warning("A document file holds a document."),
        "nearly-a-document": _warning("A file beside documents is not named nearly like one."),
        # The shape of documents.
        "not-an-object": _error("A document is a mapping with apiVersion, kind, metadata and spec."),
        "unknown-kind": _error("A document is of a kind that the compiler reads, and in a folder for it."),
        "unknown-version": _error("The compiler reads the apiVersion of every document."),
        "unknown-field": _error("A document has only the fields of its schema."),
        "missing-field": _error("A document has every field that its schema requires."),
        "wrong-type": _error("A value has the type that its schema states."),
        "invalid-value": _error("A value is one that its schema allows."),
        "url-credentials": _error("No URL in a document holds a user's password or token."),
        "project-settings": _error("The folders in kae.yaml are separate and exist, and its findings can be set."),
        # Rules beyond the schemas.
        "duplicate-policy": _error("A policy's name is unique in a cluster."),
        "duplicate-cluster": _error("One KAECluster declares a cluster."),
        "cluster-undeclared": _guard("If a project has a KAECluster, every cluster with an inventory has one."),
        "cluster-unknown": _guard("A policy's clusters name clusters of the project."),
        "duplicate-inventory": _error("A cluster has one inventory."),
        "duplicate-node": _error("An inventory has each node once."),
        "duplicate-name": _error("The names in a list are unique."),
        "unknown-profile": _error("An inventory has the profile of each node."),
        "inventory-name": _error("An inventory's file is named after its cluster."),
        "no-kind-enabled": _error("A KAEPolicy serves at least one kind of device."),
        "default-with-selector": _error("The default policy has no nodeSelector of its own."),
        "two-defaults": _error("A cluster has at most one default policy of a recipe."),
        "selector-values": _error("A selector requirement has the values that its operator needs."),
        "selector-never-matches": _error("A policy's selector can match a node."),
        "policy-overlap": _error("No node can match two policies that it cannot both have."),
        "default-too-complex": _error("The nodes of the default policy can be selected with 64 terms."),
        "image-reference": _error("Repository, image and version together are an image reference."),
        "install-policy": _error("INSTALL_POLICY is IfNotPresent or Always."),
        "module-parameter": _error("The KAE modules know each module parameter, and its value is in their range."),
        "sriov-over-hardware": _error(
            "Virtual functions fit the hardware: at most 63 a device, with a queue for each."
        ),
        "sriov-without-driver": _error("Only a policy that installs a driver sets up virtual functions."),
        "reserved-label": _error("Labels for pods replace none that the compiler sets."),
        "resource-amount": _error("The API server takes the amounts of resources, and stores them unchanged."),
        "toleration": _error("The API server accepts every toleration."),
        "unavailable-zero": _error("A DaemonSet may replace at least one pod at a time."),
        "nfd-release": _error("NFD is rendered for its releases 0.16 to 0.19."),
        "kubernetes-release": _error("Manifests are rendered for Kubernetes 1.25 and newer."),
        "watcher-incomplete": _error("An enabled watcher has a repository and a Secret."),
        "ignored-label": _error("The watcher leaves no label that decides over nodes out of the inventory."),
        "shared-target": _guard("Each KAECluster is for a Kubernetes cluster and a folder of its own."),
        "conflicting-settings": _error("The settings of a cluster contradict neither each other nor another cluster."),
        "driver-version": _error("Package names with ${DRIVER_VERSION} have a release to fill in."),
        "kubernetes-version-unstated": _guard(
            "A KAECluster states its Kubernetes release if its kubelets do not show that it is 1.30 or newer."
        ),
        "drain-unstated": _error("A policy sets drain.enabled if evictions cannot be confined to their node."),
        "selector-on-effect": _error("No selector uses a label that policies change."),
        "choose-one": _error("A group selects its nodes in one way, and a mapping its kernels."),
        "reserved-name": _error("No group and no mapping is named `rest`."),
        "frozen-unpinned": _error("A frozen group has a version of its own."),
        "kernel-pattern": _error("A mapping's pattern is a pattern of RE2 that NFD can use."),
        "mapping-never-wins": _error("Every mapping takes a kernel that no earlier mapping takes."),
        "kernel-placeholder": _error("Only policies with kernelMappings name images after kernels."),
        "cleanup-with-pools": _error("A policy with enabledCleanup has no pools."),
        "name-too-long": _error("The names of DaemonSets have at most 63 characters."),
        "wave-bounds": _error("The percentages of waves rise, and have at most two decimals."),
        "pool-rules-too-large": _error("The node names of a policy's groups fit into one object."),
        "object-too-large": _error("The values that a DaemonSet selects its nodes by fit into one object."),
        # Recipes and their policies.
        "recipe-file": _error("A recipe is in recipe.yaml of a folder of its own, which holds no templates yet."),
        "recipe-name": _error("A recipe has the name of its folder, and none that other programs have."),
        "recipe-reference": _error("A recipe names images, kinds and payloads that it has."),
        "parameter-schema": _error(
            "The schema of a parameter is of the subset that recipes have, and fits the fields that it fills."
        ),
        "match-on-effect": _error("A recipe finds its nodes by nothing that it changes on them."),
        "resource-class": _error(
            "A resource has what its class needs, nothing of another class, and no more than the device plugin takes."
        ),
        "inject-conflict": _error("Resources of a node set no variable and no path of a container differently."),
        "privilege-refused": _error(
            "A recipe brings no credentials of the cluster, no runtime's socket and no glob of all devices to pods, "
            "and its programs have no privilege that their cluster refuses."
        ),
        "unknown-recipe": _error("A DevicePolicy is of a recipe of the project."),
        "values-exclusive": _error("Of parameters that exclude each other, at most one is true."),
        "module-required": _error("A policy leaves out none but optional modules."),
        "override-unused": _error("Mappings, waves and frozen groups set only what the driver uses."),
        # Importing from other operators.
        "import-source": _error("The import reads values of a chart or one object of an operator that it knows."),
        "import-dropped": _warning("Every setting of another operator has an equivalent here."),
        "import-differs": _warning("Every setting of another operator means the same here."),
        "recipe-behind": _warning("A copy of a shipped recipe was made of the one that kae ships now."),
        # Facts about the world.
        "operator-image": _warning("A component has an image of this project, not one of the KAE Operator."),
        "device-plugin-settings": _error("The settings of a device plugin have an effect and contradict none other."),
        "credentials-without-repositories": _error("A Secret with credentials is for repositories that are named."),
        "proxy-url": _error("A variable that names a proxy, such as HTTPS_PROXY, holds its URL."),
        "env-credentials": _warning("No variable in a document holds a URL with a user's password or token."),
        "image-driver-version": _error("The driver in an image is of the version that its policy names."),
        "image-driver-source": _error("An image holds what the source of its policy takes from it."),
        "image-driver-kernel": _error("An image holds modules for the kernels of the nodes that it goes to."),
        "mutable-tag": _risk("An image is pinned by a version or a digest."),
        "no-cluster": _warning("There is a cluster for every policy."),
        "kubernetes-too-old": _warning("The newest kubelet has Kubernetes 1.25 or newer."),
        "glob-unmatched": _warning("Every glob in a policy's clusters matches a cluster."),
        "bootstrap-incomplete": _warning("A GitOps engine has a repository to apply from."),
        "engine-path": _warning("A GitOps engine applies the folder that the cluster is compiled to."),
        "removes-drivers": _removal("A compile takes a driver from nodes only if a person accepts it."),
        "removes-device-plugins": _removal("A compile takes a device plugin from nodes only if a person accepts it."),
        "moves-namespace": _removal("The objects of a cluster stay in their namespace."),
        "removes-guard": _removal("The evictions of drivers stay confined to their node."),
        "moves-with-cleanup": _error("A cluster stays in its namespace while its policies have enabledCleanup."),
        "thaws-nodes": _removal("A node leaves a frozen group only when a person edits the group's entry."),
        "drops-protection": _removal("An object that a GitOps engine must not delete stays marked so."),
        "inventory-empty": _removal("An inventory is a file with nodes, at least where output/ was compiled for some."),
        "output-unreadable": _error("A recorded object in output/ is readable, at least one side of a merge conflict."),
        "pool-removed": _warning("The pools of a policy stay."),
        "node-leaves-wave": _warning("A node leaves a wave by an edit of the policy, or as an earlier wave widens."),
        "kind-disabled": _warning("A device plugin keeps the kinds of devices that it offers."),
        "nfd-removed": _warning("The NFD that output/ deploys stays."),
        "nodes-left-out": _warning("A node keeps its driver and its device plugin."),
        "nodes-reassigned": _warning("A node stays with its policy."),
        "cluster-removed": _warning("A cluster with output still has documents."),
        "kubernetes-version-unknown": _warning("The KAECluster or the inventory states the Kubernetes release."),
        "kubernetes-version-outdated": _warning(
            "A KAECluster does not state a Kubernetes before 1.30 that a kubelet has left behind."
        ),
        "unguarded-eviction": _warning("Evictions are confined to the installer's own node (Kubernetes 1.30)."),
        "nfd-already-running": _warning("One NFD runs in a cluster."),
        "rules-missing": _warning("NodeFeatureRules in the cluster make the labels that policies need."),
        "node-unknown": _warning("NFD has labelled every node."),
        "node-opted-out": _warning("A node of a policy has not opted out."),
        "node-without-policy": _warning(
            "A node with the hardware of a recipe, or of KAE, is assigned to a policy of it."
        ),
        "policy-matches-nothing": _warning("A policy with a nodeSelector matches a node of one of its clusters."),
        "node-untolerated": _warning("A policy tolerates the taints of its nodes."),
        "unsupported-os": _warning("KAE's driver supports the node's operating system."),
        "unsupported-kernel": _warning("The driver supports the node's kernel."),
        "vf-without-driver": _warning("Virtual functions that are advertised have a driver in their own node."),
        "not-an-integer": _warning("A label that is compared with Gt or Lt is an integer."),
        "kernel-not-in-image": _warning("If a mapping has images that are named after kernels, all of its images are."),
        "kernel-placeholder-lost": _warning("A policy names an image after kernels where its recipe does."),
        "kernel-not-covered": _warning("A mapping has a driver for the kernel of every node."),
        "group-stranger": _warning("Every node that a group names is assigned to the policy."),
        "group-empty": _warning("A wave or a frozen group takes at least one node."),
        "wave-without-driver": _warning("The driver runs on a node of every wave."),
        "driver-left-behind": _warning("A driver is removed before its policy is deleted."),
        # Risks of a change, which `kae diff` finds.
        "privilege-gained": _risk("A change gives no object a privilege that its component did not have."),
        "large-step": _risk("A change disturbs at most limits.stepPercent of a policy's nodes, or one node."),
        "waves-skipped": _risk("A driver is on the nodes of a wave before it comes to those after it."),
        "frozen-touched": _risk("A change leaves the drivers of frozen groups as they are."),
        "driver-removed": _risk(
            "A change takes no driver or installer from a node, and not all nodes from the inventory."
        ),
        "driver-downgrade": _risk("A change brings no older driver."),
        "drain-unbounded": _risk("Fewer hosts drain at a time than the policy has."),
        "guard-off": _risk("Drivers that evict pods are confined to their own node."),
        "crd-pruned": _risk("A CustomResourceDefinition stays, and with it the objects of its kind."),
        "namespace-pruned": _risk("A Namespace stays, and with it all that is in it."),
        "registry-changed": _risk("Images come from the registries that they came from."),
        "engine-file": _error("The compiler wrote every file below output/ that a GitOps engine reads by itself."),
        "foreign-file": _warning(
            "The compiler writes all files below output/, apart from output/README.md, git's own and `extra` folders."
        ),
    }
)
"""Every code that the compiler reports, with its severity and its rule."""

ACCEPTABLE = tuple(name for name, code in CODES.items() if code.acceptable)
"""The codes that a person may accept: removals and risks."""

RISKS = tuple(name for name, code in CODES.items() if code.risk)
"""The codes of risks, which `kae diff` finds."""
