"""Policies, clusters and the fleet as values.

A policy is what a KAEPolicy or a DevicePolicy means: nothing above the readers knows which of the two it was. Each
policy and cluster keeps the document that it was read from, and `Written` tells where a value stands in it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NewType

import msgspec

from compiler import diagnostics, recipes
from compiler.fleet import clusters, pods, selectors
from compiler.formats import documents, references
from compiler.inventory import snapshot
from runtime import device_plugin_config, driver_config, shapes

PolicyName = NewType("PolicyName", str)
ImageParts = Mapping[str, str]
"""The parts of a reference to an image: repository, image and version, or those of them that differ."""
State = Literal["Present", "Absent"]
Component = Literal["driver", "devicePlugin"]
Interface = Literal["DevicePlugin", "DRA"]
Parameter = bool | int | str
"""The value of a module's parameter."""
Claim = tuple[str, str]
"""Something that a node has only once: its sort, such as `module` or `path`, and its name."""


class Overrides(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a driver that some nodes of a policy have instead; what is None or empty is not said."""

    images: Mapping[str, ImageParts] = {}
    """Parts of images, by the images' names in the recipe."""
    source: driver_config.Source | None = None
    state: State | None = None
    modules: tuple[str, ...] | None = None
    values: Mapping[str, Any] = {}
    """Values of the recipe's parameters, for its programs."""


class System(msgspec.Struct, frozen=True, kw_only=True):
    """An operating system, by ID and VERSION_ID of os-release."""

    id: str
    versions: tuple[str, ...] = ()
    """None: any."""


class KernelMapping(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes with certain kernels; the first mapping that matches takes a node."""

    path: documents.Path
    """The path of its declaration."""
    name: str
    regexp: str | None
    """RE2, unanchored, against the kernel's full version."""
    literal: str | None
    """The kernel's full version."""
    os: System | None = None
    """None: any."""
    kernels: tuple[str, ...] | None
    """The kernels that there are images for, where images are named after them; None: those of the inventory."""
    overrides: Overrides


class NodeGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes of a policy that a compile fixes by name: a wave changes before the rest, a frozen group not at all."""

    path: documents.Path
    """The path of its declaration."""
    sort: Literal["frozen", "wave"]
    name: str
    nodes: tuple[str, ...] | None
    selector: selectors.Selector | None
    """Labels of nodes of the inventory."""
    percent: float | None
    """The share of the policy's nodes that is in this wave or in one before it."""
    clusters: tuple[str, ...] | None
    """Names or shell globs of clusters in which it holds; None: every cluster of the policy."""
    overrides: Overrides
    entry: str
    """A digest of the declaration, which changes when a person edits it."""

    @property
    def is_frozen(self) -> bool:
        """True for a frozen group."""
        return self.sort == "frozen"


Declared = KernelMapping | NodeGroup
"""A mapping, a wave or a frozen group."""


class Driver(msgspec.Struct, frozen=True, kw_only=True):
    """The driver that a policy brings to hosts, or to those of one pool, and how."""

    enabled: bool
    """False where it is pre-installed, and nothing touches it."""
    images: Mapping[str, ImageParts]
    """The images of its pods by their names in the recipe: the installer's first, then those with payloads."""
    installer: str
    """The name of the image of the installer."""
    counting: str
    """The name of the image whose version is that of the driver."""
    defaults: Mapping[str, ImageParts] = {}
    """The parts that the recipe itself names of these images."""
    source: driver_config.Source
    state: State
    declared: tuple[recipes.Module, ...]
    """The modules of the recipe that the policy may load, in the order of loading."""
    chosen: tuple[str, ...] | None = None
    """Those that the policy names; None for all that are not optional."""
    parameters: Mapping[str, Mapping[str, Parameter]]
    """Module, parameter and value, as the policy gives them."""
    payloads: Mapping[str, tuple[str, ...]] = {}
    """The paths that its pods take out of images where they install it, by the image's name."""
    files: tuple[driver_config.HostFiles, ...] = ()
    sriov: Mapping[str, int] = {}
    """Kind and virtual functions of each physical one."""
    device_nodes: shapes.DeviceNodes = shapes.DeviceNodes()
    enabled_cleanup: bool
    """True where the driver is removed when its DaemonSet is deleted."""
    drain: driver_config.Drain
    max_parallel: int
    """Hosts of the policy that may swap their driver at a time."""
    max_unavailable: int | str
    min_ready_seconds: int
    container: pods.Container
    shape: type[driver_config.Driver]
    """The class of its config, which tells the class of its devices."""
    config: Mapping[str, Any]
    """Fields of the installer's config that nothing else asks for, by their names there."""

    @property
    def parts(self) -> ImageParts:
        """The image whose version is that of the driver; of one that is removed, the installer's."""
        return self.images[self.installer if self.state == "Absent" else self.counting]

    @property
    def taken(self) -> Mapping[str, tuple[str, ...]]:
        """The payloads that its pods take: a removal needs none, and their images may be gone."""
        return {} if self.state == "Absent" else self.payloads

    @property
    def pulled(self) -> tuple[str, ...]:
        """The names of the images of its pods: the installer's first."""
        return tuple(dict.fromkeys((self.installer, *self.taken)))

    @property
    def modules(self) -> tuple[recipes.Module, ...]:
        """The modules that its nodes get, in the order of loading."""
        chosen = self.chosen
        return tuple(
            module for module in self.declared if (not module.optional if chosen is None else module.name in chosen)
        )

    def parameters_of(self, module: recipes.Module) -> Mapping[str, Parameter]:
        """Return the parameters of a module: the policy's over the defaults of the recipe."""
        in_tree = module.in_tree if self.source.in_tree is not None else {}
        schemas = {name: {**schema, **in_tree.get(name, {})} for name, schema in module.parameters.items()}
        defaults = {name: schema["default"] for name, schema in schemas.items() if "default" in schema}
        return {**defaults, **self.parameters.get(module.name, {})}

    def overridden(self, *declared: Declared | None) -> "Driver":
        """Return the driver with the overrides of mappings and groups, the strongest last."""
        driver = self
        for layer in (one.overrides for one in declared if one is not None):
            images = {name: {**parts, **layer.images.get(name, {})} for name, parts in driver.images.items()}
            driver = msgspec.structs.replace(
                driver,
                images=images,
                source=layer.source or driver.source,
                state=layer.state or driver.state,
                chosen=driver.chosen if layer.modules is None else layer.modules,
            )
        return driver


class Plugin(msgspec.Struct, frozen=True, kw_only=True):
    """The device plugin of a policy: what a node offers, and to whom."""

    enabled: bool
    """False where one is pre-installed, and none of ours runs."""
    image: str
    """The name of its image in the recipe."""
    parts: ImageParts
    resources: tuple[device_plugin_config.AnyResource, ...]
    max_unavailable: int | str
    device_nodes: shapes.DeviceNodes | None = None
    """Who may open the device nodes of a pre-installed driver; None: they stay as they are."""
    container: pods.Container
    config: Mapping[str, Any]
    """Fields of its config that nothing else asks for, by their names there."""

    @property
    def interface(self) -> Interface:
        """How nodes offer their devices: by the kubelet's device plugins, or by Dynamic Resource Allocation."""
        return "DRA" if self.config["interface"] == "DRA" else "DevicePlugin"

    @property
    def is_dra(self) -> bool:
        """True where nodes offer their devices by Dynamic Resource Allocation."""
        return self.interface == "DRA"

    @property
    def is_shared(self) -> bool:
        """True where claims share devices by amounts of queues, so that any number of pods may have one."""
        return self.is_dra and self.config["dra"].queues == "Shared"


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A program of a recipe on the nodes of a policy, or on those of one pool."""

    name: str
    path: documents.Path
    """The path of its declaration in the recipe."""
    data: Mapping[str, Any]
    """The declaration, with references in its texts."""
    enabled: bool
    """False where the policy does without it."""
    values: Mapping[str, Any]
    """The values of the recipe's parameters; one without a value is not there."""
    images: Mapping[str, ImageParts]
    """The images of its containers, and those that its texts name, by their names in the recipe."""
    max_unavailable: int | str | None
    """None where the policy does not say."""
    resources: Mapping[str, pods.Resources] = {}
    """What the policy gives to containers, by their names."""
    pull: pods.Container

    @property
    def is_pooled(self) -> bool:
        """True where pools may have other images and values of it; otherwise a policy has it once."""
        return bool(self.data["per"] == "pool")

    @property
    def scope(self) -> references.Scope:
        """The values by the names that references have."""
        return {f"values.{name}": value for name, value in self.values.items()}

    @property
    def runs(self) -> bool:
        """True where the policy has it, and its condition holds."""
        return self.enabled and references.holds(self.data.get("when", True), self.scope)

    @property
    def offers(self) -> tuple[str, ...]:
        """The resources that it registers with the kubelet, or globs of them."""
        return references.listed(self.data["offers"], self.scope)

    @property
    def disrupts(self) -> bool:
        """True where its start takes devices from pods that hold them."""
        return references.filled(self.data["disrupts"], self.scope, "disrupts") is True

    @property
    def pace(self) -> int | str:
        """The pods that may be replaced at a time: of one that takes devices from pods, one."""
        return (1 if self.disrupts else "10%") if self.max_unavailable is None else self.max_unavailable

    @property
    def architectures(self) -> tuple[str, ...]:
        """The architectures of the nodes that it runs on; none: all."""
        return tuple(self.data.get("architectures", ()))

    def overridden(self, *declared: Declared | None) -> "Program":
        """Return the program with the overrides of mappings and groups, the strongest last."""
        program = self
        for layer in (one.overrides for one in declared if one is not None):
            images = {name: {**parts, **layer.images.get(name, {})} for name, parts in program.images.items()}
            program = msgspec.structs.replace(program, images=images, values={**program.values, **layer.values})
        return program


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """Where the language of a policy has its values, and what it calls them."""

    rollout: documents.Path
    """The object that has `rollout` and `kernelMappings`."""
    below: documents.Path
    """Where a mapping, a wave or a frozen group has fields of the driver, below its own path."""
    names_images: bool
    """True where people know images by their names in the recipe; otherwise each component has one."""
    images: Mapping[str, documents.Path]
    """The object with the parts of each image."""
    overrides: Mapping[str, documents.Path]
    """The object with the parts of each image, below the path of a mapping, a wave or a frozen group."""
    nouns: Mapping[str, str]
    """Each image in sentences."""
    pulls: Mapping[Component, documents.Path]
    """The object with `pullSecrets` of each component."""
    install_policy: str
    """The setting that says what becomes of a driver that others installed."""
    switches: tuple[str, ...] = ()
    """The fields of `spec.operator` that enable kinds; empty where a policy serves all kinds of its recipe."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of some clusters, and what they get of a recipe."""

    name: PolicyName
    recipe: recipes.Recipe
    kinds: tuple[recipes.Kind, ...]
    """The kinds of devices that it serves, in the order of its recipe."""
    clusters: tuple[str, ...] | None
    """Names or shell globs of clusters; None: every cluster."""
    is_default: bool
    """True for a policy that takes the nodes that no other policy of its recipe matches."""
    selector: selectors.Selector | None
    """Its nodeSelector; None: every node."""
    term: selectors.Term
    """The same as a term; without a selector, the one that matches every node."""
    pods: pods.Settings
    driver: Driver | None
    """None where the recipe has none."""
    plugin: Plugin | None
    """None where the recipe has none."""
    programs: tuple[Program, ...] = ()
    """Vendors' programs, in the order of the recipe."""
    mappings: tuple[KernelMapping, ...] = ()
    """In the order in which they take kernels."""
    groups: tuple[NodeGroup, ...] = ()
    """The frozen groups, then the waves, in the order in which they take nodes."""
    claims: frozenset[Claim] = frozenset()
    """What its recipe claims beside modules, files and resources."""
    source: documents.Document
    recipe_source: documents.Document | None = None
    """The document of its recipe; None for the built-in one."""
    written: Written

    @property
    def meaning(self) -> tuple[object, ...]:
        """The policy without the documents that it is written in: equal ones make equal output."""
        written_in = ("source", "recipe_source")
        return tuple(getattr(self, name) for name in self.__struct_fields__ if name not in written_in)

    @property
    def installed(self) -> Driver | None:
        """The driver where an installer brings one; None where the recipe has none or it is pre-installed."""
        return self.driver if self.driver is not None and self.driver.enabled else None

    @property
    def has_pools(self) -> bool:
        """True where nodes may get different drivers or programs by their group and their kernel."""
        return self.installed is not None or any(one.enabled and one.is_pooled for one in self.programs)

    def has(self, component: str) -> bool:
        """Return whether the recipe has a component: driver, device-plugin, or a program by its name."""
        own = {"driver": self.driver, "device-plugin": self.plugin, **{one.name: one for one in self.programs}}
        return own.get(component) is not None

    def brings(self, component: str) -> bool:
        """Return whether the recipe has a component, and the policy does not do without it."""
        own = {"driver": self.driver, "device-plugin": self.plugin, **{one.name: one for one in self.programs}}
        found = own.get(component)
        return found is not None and found.enabled

    def has_none(self, component: Component) -> bool:
        """Return whether the recipe has no such component, which the policy then cannot enable."""
        return (self.driver if component == "driver" else self.plugin) is None

    @property
    def offered(self) -> Plugin | None:
        """The device plugin where one runs; None where the recipe has none or one is pre-installed."""
        return self.plugin if self.plugin is not None and self.plugin.enabled else None


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a cluster: those of its KAECluster, or the defaults if it has none."""

    name: snapshot.ClusterName
    spec: clusters.Spec
    source: documents.Document | None

    def span(self, *path: str | int) -> diagnostics.Span:
        """Return the position of a value in the KAECluster; without one, a span that only names the cluster."""
        return self.source.span(*path) if self.source else diagnostics.Span(file=f"cluster {self.name}")

    def setting_span(self, otherwise: diagnostics.Span, *path: str) -> diagnostics.Span:
        """Return the position of a setting in the KAECluster, or of what leads to it; without one, `otherwise`."""
        return self.source.setting_span(*path) if self.source else otherwise


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """The accepted documents of a project: policies, clusters sorted by name, and inventories by cluster."""

    policies: tuple[Policy, ...]
    clusters: tuple[Cluster, ...]
    inventories: Mapping[str, snapshot.Inventory]
    sound: bool = True
    """True when no document was refused; a refused one may explain a finding about nodes, so none is made then."""

    def inventory(self, cluster: Cluster) -> snapshot.Inventory:
        """Return the cluster's inventory; an empty one if it has none yet."""
        known = self.inventories.get(cluster.name)
        return known or snapshot.Inventory(cluster=cluster.name, file="", nodes=())

    def selected(self, names: Sequence[str]) -> tuple[Cluster, ...]:
        """Return the clusters with these names; all clusters if no name is given."""
        return tuple(cluster for cluster in self.clusters if not names or cluster.name in names)
