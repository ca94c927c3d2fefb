"""What the compiler has to say about documents and nodes: a value, collected, sorted and shown at the end.

A mistake in a document is never an exception. Every code and its severity stand in `CODES`: what people
wrote gives errors, what the world is gives warnings.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Span:
    """A place in a file: line and column count from 1; 0 means the file as a whole."""

    file: str
    line: int = 0
    column: int = 0
    text: str = ""
    """The line itself, without its line break, to show under the message."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One finding: a sentence, where it holds, facts as notes, and an action as hint."""

    code: str
    span: Span
    message: str
    notes: tuple[str, ...] = ()
    hint: str = ""

    @property
    def severity(self) -> Severity:
        """`error` or `warning`, fixed by the code."""
        return CODES[self.code].severity


@dataclass(frozen=True, slots=True)
class Code:
    """The meaning of a diagnostic code: its severity, and the rule that was broken."""

    severity: Severity
    rule: str


def merged(found: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Each finding once, in the order of files and lines; the notes of equal findings are joined."""
    first: dict[tuple[Span, str, str, str], Diagnostic] = {}
    for diagnostic in found:
        key = (diagnostic.span, diagnostic.code, diagnostic.message, diagnostic.hint)
        earlier = first.get(key)
        if earlier is None:
            first[key] = diagnostic
        else:
            new = tuple(note for note in diagnostic.notes if note not in earlier.notes)
            first[key] = replace(earlier, notes=earlier.notes + new)
    return tuple(first[key] for key in sorted(first))


def has_errors(found: Iterable[Diagnostic]) -> bool:
    """Whether one of the findings is an error."""
    return any(diagnostic.severity == "error" for diagnostic in found)


def _error(rule: str) -> Code:
    return Code("error", rule)


def _warning(rule: str) -> Code:
    return Code("warning", rule)


CODES: Mapping[str, Code] = MappingProxyType(
    {
        # Reading files.
        "not-a-file": _error("A path that ends like a document is a regular file, or a link to one."),
        "file-too-large": _error("A YAML file is at most 32 MiB; larger inventories are JSON."),
        "bad-encoding": _error("Documents are UTF-8 without a byte order mark."),
        "forbidden-character": _error("Documents hold no NUL, no control characters and no unpaired surrogates."),
        "yaml-syntax": _error("The file is well-formed YAML."),
        "json-syntax": _error("The file is well-formed JSON, without NaN or Infinity."),
        "duplicate-key": _error("A key stands once in a mapping."),
        "ambiguous-scalar": _error("A plain scalar means the same to every YAML reader of Kubernetes."),
        "yaml-tag": _error("Documents use no YAML tags."),
        "alias-explosion": _error("Anchors and aliases expand to a bounded size."),
        "nesting-too-deep": _error("Documents nest at most 64 levels deep."),
        "empty-file": _warning("A document file holds a document."),
        # The shape of documents.
        "not-an-object": _error("A document is a mapping with apiVersion, kind, metadata and spec."),
        "unknown-kind": _error("A document is a KAEPolicy, a KAECluster, a NodeInventory or a list of Nodes."),
        "unknown-version": _error("A document's apiVersion is one that this compiler reads."),
        "unknown-field": _error("A document has only the fields of its schema."),
        "missing-field": _error("A document has every field that its schema requires."),
        "wrong-type": _error("A value has the type that its schema states."),
        "invalid-value": _error("A value is one that its schema allows."),
        # What a schema cannot say.
        "duplicate-policy": _error("A policy's name is unique in a cluster."),
        "duplicate-cluster": _error("A cluster is declared by one KAECluster."),
        "duplicate-inventory": _error("A cluster has one inventory."),
        "duplicate-node": _error("A node stands once in an inventory."),
        "duplicate-name": _error("Names are unique in their list."),
        "unknown-profile": _error("A node's profile stands in its inventory."),
        "inventory-name": _error("An inventory's file is named after its cluster."),
        "no-kind-enabled": _error("A policy serves at least one kind of device."),
        "default-with-selector": _error("The default policy has no nodeSelector of its own."),
        "two-defaults": _error("A cluster has at most one default policy."),
        "selector-values": _error("A selector requirement has the values that its operator needs."),
        "selector-never-matches": _error("A policy's selector can match some node."),
        "policy-overlap": _error("No node can be governed by two policies."),
        "default-too-complex": _error("What the default policy governs can be said in 64 selector terms."),
        "image-reference": _error("Repository, image and version together name an image."),
        "install-policy": _error("INSTALL_POLICY is IfNotPresent or Always."),
        "module-parameter": _error("A module parameter is one that the KAE modules know, in their range."),
        "sriov-over-hardware": _error("Virtual functions fit the hardware: 63 a device, and a queue for each."),
        "sriov-without-driver": _error("Virtual functions are set up by the driver installer alone."),
        "reserved-label": _error("Labels for pods do not replace the ones that the compiler owns."),
        "resource-amount": _error("Amounts of resources are ones that the API server takes, and stores as they are."),
        "toleration": _error("A toleration is one that the API server accepts."),
        "unavailable-zero": _error("A DaemonSet may replace at least one pod at a time."),
        "nfd-release": _error("NFD is rendered for its releases 0.16 to 0.19."),
        "kubernetes-release": _error("Manifests are rendered for Kubernetes 1.25 and newer."),
        "watcher-incomplete": _error("An enabled watcher names its repository and its secret."),
        "conflicting-settings": _error("Settings of a cluster do not contradict each other, nor another cluster's."),
        "driver-version": _error("Package names that hold ${DRIVER_VERSION} are given a release."),
        "drain-unstated": _error("Where evictions cannot be confined to their node, drain.enabled is written out."),
        "selector-on-effect": _error("No selector asks for a label that follows from what policies do."),
        "choose-one": _error("A group says in one way which nodes it takes, a mapping in one way which kernels."),
        "reserved-name": _error("No group and no mapping is called `rest`."),
        "frozen-unpinned": _error("A frozen group has a version of its own."),
        "kernel-pattern": _error("A mapping's pattern is one of RE2 that NFD can use."),
        "mapping-never-wins": _error("No mapping is hidden by an earlier one."),
        "kernel-placeholder": _error("Images are named after kernels only where mappings tell which."),
        "cleanup-with-pools": _error("What cleans up when its DaemonSet goes has no pools."),
        "name-too-long": _error("The names of DaemonSets fit into 63 characters."),
        "wave-bounds": _error("The percentages of waves rise, in hundredths at the finest."),
        "pool-rules-too-large": _error("The nodes that groups list by name fit into one object."),
        # What is imported from the KAE Operator.
        "import-source": _error("What is imported is one values file, or one KAEPolicy of the KAE Operator."),
        "import-dropped": _warning("Every option of the KAE Operator has a meaning here."),
        "import-differs": _warning("An option of the KAE Operator means here what it meant there."),
        # What the world is.
        "mutable-tag": _warning("An image is pinned by a version or a digest."),
        "no-cluster": _warning("A policy holds in some cluster."),
        "kubernetes-too-old": _warning("Every kubelet is of Kubernetes 1.25 or newer."),
        "cluster-unknown": _warning("Every entry of a policy's clusters names a cluster."),
        "bootstrap-incomplete": _warning("A GitOps engine knows the repository that it applies from."),
        "cluster-removed": _warning("A cluster that has output is still declared."),
        "kubernetes-version-unknown": _warning("The Kubernetes release is stated, or seen in the inventory."),
        "unguarded-eviction": _warning("Evictions are confined to the installer's own node (Kubernetes 1.30)."),
        "nfd-already-running": _warning("One NFD runs in a cluster."),
        "rules-missing": _warning("A policy's labels are made by NodeFeatureRules in the cluster."),
        "node-unknown": _warning("NFD has labelled every node."),
        "node-opted-out": _warning("A node that a policy governs has not opted out."),
        "node-without-policy": _warning("A node with KAE devices is governed by a policy."),
        "node-untolerated": _warning("A policy tolerates the taints of the nodes that it governs."),
        "unsupported-os": _warning("The driver supports the node's operating system."),
        "unsupported-kernel": _warning("The driver supports the node's kernel."),
        "vf-without-driver": _warning("Virtual functions that are handed out have a driver in their own node."),
        "not-an-integer": _warning("A label that is compared with Gt or Lt is an integer."),
        "kernel-not-in-image": _warning("Where images are named after kernels, all of a mapping's images are."),
        "kernel-not-covered": _warning("Some mapping has a driver for the kernel of every node."),
        "group-stranger": _warning("A node that a group names is one of the policy's."),
        "group-empty": _warning("A wave or a frozen group takes some node."),
        "driver-left-behind": _warning("A driver is removed before its policy is deleted."),
        "foreign-file": _warning("Only files that the compiler wrote lie below output/."),
    }
)
"""Every code that the compiler can report, with its severity and its rule."""
