"""NodeInventory, the snapshot of a cluster's nodes, and what is read of Kubernetes' own list of nodes."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from compiler.fleet import forms
from compiler.model import base
from compiler.model.base import Model

ProfileId = Annotated[str, forms.text(r"[0-9a-f]{8}", None, "the id of a profile (8 hexadecimal digits)")]


class Taint(Model):
    """A node's taint."""

    key: forms.LabelKey
    value: forms.LabelValue = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class Profile(Model):
    """What a machine is; shared by all nodes that are alike."""

    architecture: str = ""
    kernelVersion: str = ""
    kubeletVersion: str = ""
    osImage: str = ""
    containerRuntimeVersion: str = ""
    """Such as containerd://2.1.4."""
    discovered: bool
    """Whether NFD has labelled the node."""
    labels: dict[forms.LabelKey, forms.LabelValue] = Field(default_factory=dict)
    """Labels that NFD and the kubelet derive from the machine."""
    taints: tuple[Taint, ...] = ()


class Node(Model):
    """A node, its profile, and the labels that make it different from its like."""

    name: forms.ObjectName
    profile: ProfileId
    hostname: forms.LabelValue | None = None
    """The label kubernetes.io/hostname where it is not the node's name; empty where it is missing."""
    labels: dict[forms.LabelKey, forms.LabelValue] = Field(default_factory=dict)


class NodeInventorySpec(Model):
    """The nodes, and the profiles that they share."""

    nodes: tuple[Node, ...] = ()
    profiles: dict[ProfileId, Profile] = Field(default_factory=dict)


class InventoryMetadata(base.Metadata):
    """The cluster's name."""

    name: forms.ClusterName


class NodeInventory(base.Document):
    """The nodes of a cluster at one moment, as the compiler and its readers see them."""

    kind: Literal["NodeInventory"]
    metadata: InventoryMetadata
    spec: NodeInventorySpec


class Foreign(Model):
    """An object of Kubernetes' own API: read where it matters to us, whatever else it holds."""

    model_config = ConfigDict(extra="ignore")


class NodeInfo(Foreign):
    """status.nodeInfo of a Node."""

    architecture: str = ""
    kernelVersion: str = ""
    kubeletVersion: str = ""
    osImage: str = ""
    containerRuntimeVersion: str = ""


class NodeStatus(Foreign):
    """status of a Node."""

    nodeInfo: NodeInfo = base.defaults()


class NodeTaint(Taint, Foreign):
    """A taint, as the API server prints it."""


class NodeSpec(Foreign):
    """spec of a Node."""

    taints: tuple[NodeTaint, ...] = ()


class NodeMetadata(Foreign):
    """metadata of a Node."""

    name: forms.ObjectName
    labels: dict[forms.LabelKey, forms.LabelValue] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class KubernetesNode(Foreign):
    """A Node of Kubernetes' core API."""

    kind: Literal["Node"] = "Node"
    metadata: NodeMetadata
    spec: NodeSpec = base.defaults()
    status: NodeStatus = base.defaults()


class NodeList(Foreign):
    """The answer of `kubectl get nodes -o json`: a List, or a NodeList, of Nodes."""

    apiVersion: Literal["v1"]
    kind: Literal["List", "NodeList"]
    items: tuple[KubernetesNode, ...]
