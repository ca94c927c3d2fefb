"""The programs of nodes, as DaemonSets: the driver installers and device plugins of each policy, and their rights."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from compiler import names, recipes
from compiler.fleet import definitions, pods
from compiler.planning import plan, pools, supported
from compiler.rendering import ir, program_configs
from runtime import device_plugin_config, dra, driver_config, shapes

_GRACE_SECONDS = 120
"""Enough to end any step but a build; a step that is cut short is healed by the next start."""
_CLEANUP_SECONDS = 300
"""Enough to remove a driver once its holders are gone."""
_SEEN = "/dev"
"""Every device plugin sees it."""


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """The common fields of the pods of both node programs."""

    namespace: str
    name: str
    """Of the DaemonSet."""
    recipe: str
    app: str
    """app.kubernetes.io/name of the pods."""
    account: str
    """Their ServiceAccount."""
    policy: str
    settings: pods.Settings
    """Its labels are for the pod template only."""
    container: pods.Container
    image: str
    terms: tuple[ir.Term, ...]
    max_unavailable: int | str
    config: str
    """The program's config file: JSON over several lines, as people review it."""


class DriverAccess(msgspec.Struct, frozen=True, kw_only=True):
    """Permissions of the driver installers of a policy."""

    account: str
    """The ServiceAccount, its Role, and the bindings of this and of the ClusterRole."""
    cluster_role: str
    """Of all installers of the recipe."""
    evicting: tuple[str, ...]
    """The accounts that have it by the binding of the same name as this one."""
    namespace: str
    leases: tuple[str, ...]
    """The Leases that pace the swaps, of all policies: the admission policy holds an account to its own ones."""
    daemonsets: tuple[str, ...]
    """The DaemonSets that an installer may ask for: its own, before it cleans up, where the policy has it clean up."""
    programs: bool
    """True where it takes away pods of programs that come after the driver."""


class Guard(msgspec.Struct, frozen=True, kw_only=True):
    """The admission policies that confine an installer's evictions and Leases to its own node."""

    stem: str
    """The beginning of the names of ServiceAccounts and Leases, after which the admission policies are named."""
    namespace: str
    installer: str
    """The beginning of sentences about it."""


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """A file or folder of an image that an init container copies for the installer."""

    name: str
    """Of the container."""
    image: str
    path: str
    parent: str
    """The folder below /payload that it is copied to."""


class DriverPool(Pod, frozen=True, kw_only=True):
    """A DaemonSet of driver installers."""

    pool: str
    state: Literal["Present", "Absent"]
    credentials_secret: str | None
    """The Secret with the user of the package repositories."""
    min_ready_seconds: int
    grace_seconds: int
    """Time to end a step, or to clean up, after SIGTERM."""
    payloads: tuple[Payload, ...] = ()
    host_pid: bool = True
    """True when the pod sees the host's processes as its own: programs of the host write their numbers down."""
    is_quiet: bool = False
    """True when the installer ends with its work, and a reporter without rights stays."""
    node_address: bool = False
    """True when the installer is told the node's address, as interfaces hang on a module."""


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """A ServiceAccount without rights."""

    name: str
    namespace: str


class DevicePlugin(Pod, frozen=True, kw_only=True):
    """A DaemonSet of device plugins."""

    run_dir: str
    """The host's folder of the recipe in /run."""
    folders: tuple[tuple[str, str], ...]
    """Volume and folder of the host that it sees below /host: those above what containers get, such as libraries."""
    device_nodes: shapes.DeviceNodes | None
    """What it sets of the device nodes; None: nothing."""
    is_dra: bool = False
    """True where it is a driver of Dynamic Resource Allocation, which writes ResourceSlices and files of CDI."""


class SliceAccess(msgspec.Struct, frozen=True, kw_only=True):
    """The rights of a recipe's device plugins to ResourceSlices and claims, and what holds them to their own node."""

    account: str
    """The ServiceAccount, after which rights and admission policy are named."""
    namespace: str
    driver: str
    """The name of the driver of Dynamic Resource Allocation."""
    stem: str
    """The first part of that name, which stands in the names of slices."""
    words: str
    """The beginning of sentences about it."""


class DeviceClass(msgspec.Struct, frozen=True, kw_only=True):
    """A class of devices, by which claims and an extended resource name them."""

    name: str
    resource: str
    """The extended resource."""
    expression: str
    """Which devices are of it, in CEL."""


_ACCESS = ("serviceaccount-kae-driver", "role-kae-driver", "rolebinding-kae-driver")
_EVICTING = ("clusterrole-kae-driver", "clusterrolebinding-kae-driver")
_KINDS = ("validatingadmissionpolicy", "validatingadmissionpolicybinding")
_GUARD = tuple(f"{kind}-{name}" for name in ("kae-driver", "kae-driver-leases") for kind in _KINDS)
_GUARD_OF_SLICES = tuple(f"{kind}-kae-device-plugin" for kind in _KINDS)
_SLICE_ACCESS = ("clusterrole-kae-device-plugin", "clusterrolebinding-kae-device-plugin")
_GUARD_OF_PROGRAMS = tuple(f"{kind}-kae-driver-programs" for kind in _KINDS)

Installed = tuple[pools.Division, definitions.Driver]
"""A policy of a cluster with the driver that it brings."""


def installed(one: plan.RecipePlan) -> list[Installed]:
    """Return the policies of a recipe that bring a driver."""
    return [(division, driver) for division in one.divisions if (driver := division.policy.installed)]


def offered(one: plan.RecipePlan) -> list[tuple[pools.Division, definitions.Plugin]]:
    """Return the policies of a recipe that bring a device plugin."""
    return [(division, plugin) for division in one.divisions if (plugin := division.policy.offered)]


def driver_name(policy: definitions.Policy, pool: pools.Pool | None = None) -> str:
    """Return the name of the driver DaemonSet of a policy's pool; without one, the stem of its Leases' names."""
    stem = f"{policy.recipe.driver}-{policy.name}"
    return stem if pool is None or pool.is_whole else f"{stem}--{pool.name}"


def device_plugin_name(policy: definitions.Policy) -> str:
    """Return the name of a policy's device-plugin DaemonSet."""
    return f"{policy.recipe.device_plugin}-{policy.name}"


def drivers(planned: plan.Plan) -> Iterator[ir.Input]:
    """Yield the driver installers of a cluster, and their rights."""
    for one in planned.recipes:
        served = installed(one)
        if served:
            yield from _driver_access(one.recipe, planned.cluster.spec.namespace, served)
        starts_over = supported.starts_over(planned.cluster.spec, planned.inventory.nodes)
        for division, _ in served:
            for pool in division.pools:
                value = _driver_pool(planned.cluster, division, pool, starts_over=starts_over)
                yield ir.Input(("daemonset",), value, folder=one.recipe.folder)


def guards(planned: plan.Plan) -> Iterator[ir.Input]:
    """Yield what confines installers that evict or delete pods, and device plugins that write slices.

    That of installers stays where one of them cleans up, and that of slices always.
    """
    for one in planned.recipes:
        served = installed(one)
        draining = [driver for _, driver in served if driver.drain.enabled]
        followed = [driver for division, driver in served if division.is_followed]
        value = Guard(
            stem=one.recipe.driver, namespace=planned.cluster.spec.namespace, installer=one.recipe.words.installer
        )
        for templates, confined in ((_GUARD, draining), (_GUARD_OF_PROGRAMS, followed)):
            if confined:
                yield ir.Input(templates, value, kept=any(driver.enabled_cleanup for driver in confined))
        if _by_dra(one):
            yield ir.Input(_GUARD_OF_SLICES, _slice_access(planned, one.recipe), kept=True)


def _driver_access(recipe: recipes.Recipe, namespace: str, served: Sequence[Installed]) -> Iterator[ir.Input]:
    """Yield the permissions of a recipe's installers; those that a cleanup needs outlive their policy.

    An installer that cleans up asks after its policy has left the output. So what it needs is bound for itself: in what
    it shares with others, its name would be missing. Beside the account of each policy stands the one that all of them
    had: pods of an earlier output may still use it.
    """
    owners = {driver_name(one[0].policy): one for one in served}
    cleaning = [account for account, (_, driver) in owners.items() if driver.enabled_cleanup]
    draining = [account for account, (_, driver) in owners.items() if driver.drain.enabled]
    for account in (recipe.driver, *owners):
        is_shared = account == recipe.driver
        access = DriverAccess(
            account=account,
            cluster_role=recipe.driver,
            evicting=(account, *(each for each in draining if is_shared and each not in cleaning)),
            namespace=namespace,
            # A node that comes to another policy gives back a Lease of the one before.
            leases=tuple(sorted(_leases_of(served))),
            daemonsets=tuple(_cleaned(served if is_shared else [owners[account]])),
            programs=any(division.is_followed for division, _ in (served if is_shared else [owners[account]])),
        )
        kept = bool(cleaning) if is_shared else account in cleaning
        yield ir.Input(_ACCESS, access, kept=kept, folder=recipe.folder)
        if is_shared and draining:
            kept = not set(cleaning).isdisjoint(draining)
            yield ir.Input(_EVICTING, access, kept=kept, folder=recipe.folder)
        elif account in draining and account in cleaning:
            yield ir.Input(_EVICTING[1:], access, kept=True, folder=recipe.folder)


def _leases_of(served: Sequence[Installed]) -> Iterator[str]:
    return (lease for division, driver in served for lease in _leases(division.policy, driver))


def _cleaned(served: Sequence[Installed]) -> Iterator[str]:
    """Yield the DaemonSets of policies whose installers clean up."""
    cleaning = (division for division, driver in served if driver.enabled_cleanup)
    return (driver_name(division.policy, pool) for division in cleaning for pool in division.pools)


def _driver_pool(
    cluster: definitions.Cluster, division: pools.Division, pool: pools.Pool, *, starts_over: bool
) -> DriverPool:
    policy, driver = division.policy, pool.driver
    name = driver_name(policy, pool)
    images, is_quiet = dict(pool.images), starts_over and not pool.driver.enabled_cleanup
    return DriverPool(
        **_pod(cluster, policy, driver.container, name),
        app=policy.recipe.driver,
        account=driver_name(policy),
        image=images[driver.installer],
        payloads=tuple(_payloads(driver, images)),
        host_pid=not is_quiet or bool(driver.source.packages or driver.source.build),
        # What cleans up as the pod goes has to be there then, with its rights.
        is_quiet=is_quiet,
        # Also of modules that the policy leaves out: a node may still have them.
        node_address=any(module.network for module in driver.declared),
        terms=tuple(map(ir.Term, pool.terms)),
        max_unavailable=driver.max_unavailable,
        config=program_configs.driver(cluster, division, pool, daemon_set=name, leases=tuple(_leases(policy, driver))),
        pool=pool.name,
        state=driver.state,
        credentials_secret=(driver.source.build or driver.source.packages or _NOWHERE).credentials_secret,
        min_ready_seconds=driver.min_ready_seconds,
        grace_seconds=driver.drain.timeout_seconds + _CLEANUP_SECONDS if driver.enabled_cleanup else _GRACE_SECONDS,
    )


_NOWHERE = driver_config.Build()


def _leases(policy: definitions.Policy, driver: definitions.Driver) -> Iterator[str]:
    stem = driver_name(policy)
    return (f"{stem}-{number}" for number in range(1, driver.max_parallel + 1))


def _payloads(driver: definitions.Driver, images: Mapping[str, str]) -> Iterator[Payload]:
    """Yield what init containers copy for the installer, which finds PATH of image NAME at /payload/NAME/PATH."""
    for name, paths in driver.taken.items():
        for number, path in enumerate(paths, start=1):
            parent = f"{name}{path.rpartition('/')[0]}"
            # A number always: the second path of `a` has another name than the first one of `a-2`.
            yield Payload(name=f"payload-{name}-{number}", image=images[name], path=path, parent=parent)


def device_plugins(planned: plan.Plan) -> Iterator[ir.Input]:
    """Yield the device plugins of a cluster."""
    for one in planned.recipes:
        served = offered(one)
        folder = one.recipe.folder
        if served:
            account = Account(name=one.recipe.device_plugin, namespace=planned.cluster.spec.namespace)
            yield ir.Input(("serviceaccount-kae-device-plugin",), account, folder=folder)
        if _by_dra(one):
            # Nodes whose turn has not come use the rights, their guard and the classes after DRA has left the output.
            yield ir.Input(_SLICE_ACCESS, _slice_access(planned, one.recipe), kept=True, folder=folder)
        for division, plugin in served:
            yield ir.Input(("daemonset",), _device_plugin(planned.cluster, division, plugin), folder=folder)
    yield from _device_classes(planned)


def _by_dra(one: plan.RecipePlan) -> list[device_plugin_config.AnyResource]:
    """Return the resources that policies of a recipe offer by Dynamic Resource Allocation."""
    return [resource for _, plugin in offered(one) if plugin.is_dra for resource in plugin.resources]


def _slice_access(planned: plan.Plan, recipe: recipes.Recipe) -> SliceAccess:
    return SliceAccess(
        account=recipe.device_plugin,
        namespace=planned.cluster.spec.namespace,
        driver=recipe.home.dra_driver,
        stem=dra.stem(recipe.home.dra_driver),
        words=f"The device plugin of recipe '{recipe.name}'",
    )


def _device_classes(planned: plan.Plan) -> Iterator[ir.Input]:
    """Yield a class for each extended resource, whoever offers it: a second one would hide the first (KEP-5004).

    It has the drivers of device plugins, too: their nodes may still be by DRA, as the DaemonSet walks.
    """
    by_dra = {resource.name for one in planned.recipes for resource in _by_dra(one)}
    drivers: dict[str, dict[str, None]] = {}
    for one in planned.recipes:
        for resource in (resource for _, plugin in offered(one) for resource in plugin.resources):
            drivers.setdefault(resource.name, {})[one.recipe.home.dra_driver] = None
    for name, own in drivers.items():
        if name not in by_dra:
            continue
        # Of a device of another driver, an attribute that it lacks would be an error, which fails the whole claim.
        named = f"device.attributes[device.driver].?resource.orValue('') == '{dra.attribute(name)}'"
        whose = " || ".join(f"device.driver == '{driver}'" for driver in own)
        expression = f"{whose if len(own) == 1 else f'({whose})'} && {named}"
        value = DeviceClass(name=dra.device_class(name), resource=name, expression=expression)
        yield ir.Input(("deviceclass",), value, kept=True)


def _device_plugin(cluster: definitions.Cluster, division: pools.Division, plugin: definitions.Plugin) -> DevicePlugin:
    policy = division.policy
    return DevicePlugin(
        **_pod(cluster, policy, plugin.container, device_plugin_name(policy)),
        app=policy.recipe.device_plugin,
        account=policy.recipe.device_plugin,
        run_dir=policy.recipe.home.run,
        image=division.device_plugin_image,
        terms=tuple(map(ir.Term, division.device_plugin_terms)),
        max_unavailable=plugin.max_unavailable,
        config=program_configs.device_plugin(cluster, policy, plugin),
        folders=tuple(_folders(policy, plugin)),
        device_nodes=plugin.device_nodes,
        is_dra=plugin.is_dra,
    )


def _pod(
    cluster: definitions.Cluster, policy: definitions.Policy, container: pods.Container, name: str
) -> dict[str, Any]:
    return {
        "namespace": cluster.spec.namespace,
        "name": name,
        "recipe": policy.recipe.name,
        "policy": policy.name,
        "settings": policy.pods,
        "container": container,
    }


def _folders(policy: definitions.Policy, plugin: definitions.Plugin) -> Iterator[tuple[str, str]]:
    """Yield the folders of the host in which a device plugin looks whether the paths of its resources are there.

    Of a path it is the folder above the path's own, so that one that is replaced is seen; of a path that the installer
    puts on the host, the folder above all that it puts there.
    """
    libraries = next((one.inject.libraries for one in plugin.resources if one.inject.libraries is not None), None)
    if libraries is not None:
        # The installer's own folder is a link beside the trees with the libraries.
        yield "libraries", _above(libraries.path or policy.recipe.home.files)
    placed = [file.to for file in policy.driver.files] if policy.driver else []
    found = {_folder(path, placed) for path in _checked(plugin.resources) if not _is_in(path, _SEEN)}
    outer = sorted(path for path in found if not any(path != other and _is_in(path, other) for other in found))
    yield from ((f"host-{number}", path) for number, path in enumerate(outer, start=1))


def _checked(resources: Sequence[device_plugin_config.AnyResource]) -> Iterator[str]:
    """Yield the paths of the host without which resources are unhealthy."""
    for resource in resources:
        yield from resource.requires
        yield from (_fixed(mount.path) for mount in resource.inject.mounts if mount.checked)
        yield from resource.inject.preload


def _fixed(glob: str) -> str:
    """Return a path in the folder of a glob's first part with a wildcard; a path without one as it is."""
    parts = glob.split("/")
    fixed = list(itertools.takewhile(lambda part: not names.is_glob(part), parts))
    return glob if fixed == parts else "/".join((*fixed, "any"))


def _folder(path: str, placed: Sequence[str]) -> str:
    """Return the folder above that of a path; of one that is in no folder, or in one of the root, the outermost."""
    place = next((one for one in placed if _is_in(path, one)), _above(path))
    return _above(place) or place or path


def _above(path: str) -> str:
    return path.rpartition("/")[0]


def _is_in(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder}/")
