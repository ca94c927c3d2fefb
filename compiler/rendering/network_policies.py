"""NetworkPolicies: for each program, the ports at which it is reached, and those that it reaches.

Neither addresses nor names stand in them: a NetworkPolicy knows no names, and the addresses of API servers, git servers
and package repositories are not in the documents.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from compiler import names
from compiler.fleet import clusters, definitions, pods
from compiler.formats import urls
from compiler.planning import plan, supported
from compiler.rendering import cluster_programs, ir, node_programs, programs

_PORTS = {"http": 80, "https": 443, "ssh": 22}
_PROXY_PORTS = {"https": 443}
_PROXY_PORT = 1080
"""The port of a proxy whose URL names none: curl(1), --proxy."""
_WEB = (80, 443)
_NFD_HTTP = 18
"""The first minor release of NFD with one port for metrics and health."""


Protocol = Literal["TCP", "UDP"]


class NetworkPort(msgspec.Struct, frozen=True, kw_only=True):
    """NetworkPolicyPort v1."""

    port: int
    protocol: Protocol


class NetworkPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The connections of a program's pods: from and to any address, at these ports alone."""

    namespace: str
    name: str
    app: str
    """app.kubernetes.io/name of the pods."""
    ingress: tuple[NetworkPort, ...]
    egress: tuple[NetworkPort, ...]


def of_plan(planned: plan.Plan) -> Iterator[ir.Input]:
    """Yield a NetworkPolicy for the pods of each program of a cluster."""
    spec = planned.cluster.spec
    for one in planned.recipes:
        if installed := node_programs.installed(one):
            yield _driver(spec, one.recipe.driver, installed)
        if offered := node_programs.offered(one):
            asks = any(plugin.is_dra for _, plugin in offered)
            ports = spec.networkPolicies.apiServerPorts if asks else ()
            made = _of_app(spec, one.recipe.device_plugin, _metrics(plugin.container for _, plugin in offered), ports)
            yield made
            if asks:
                yield _outliving(spec, made)
        for program in one.recipe.programs:
            if found := programs.deployed(one, program):
                asks = any(programs.has_token(made.program) for _, made in found)
                yield _of_app(spec, one.recipe.app(program), (), spec.networkPolicies.apiServerPorts if asks else ())
    if spec.nfd.enabled:
        yield from _nfd(spec)
    if (repository := cluster_programs.watched(spec)) is not None:
        yield _watcher(spec, repository.url)


def _outliving(spec: clusters.Spec, plugins: ir.Input) -> ir.Input:
    """Return what lets device plugins by DRA reach the API server also after DRA has left the output.

    It is an object of its own: an engine changes the one of all device plugins before the turn of most nodes comes.
    """
    ports = tuple(_ports("TCP", spec.networkPolicies.apiServerPorts))
    own = msgspec.structs.replace(plugins.value, name=f"{plugins.value.name}-dra", ingress=(), egress=ports)
    return ir.Input(plugins.templates, own, kept=True)


def _driver(spec: clusters.Spec, app: str, installed: Sequence[node_programs.Installed]) -> ir.Input:
    outside = {port for each, _ in installed for pool in each.pools for port in _repositories(pool.driver)}
    containers = [driver.container for _, driver in installed]
    outside |= {port for each in containers for port in _proxies(each.env) if outside}
    metrics = _metrics(containers)
    return _of_app(spec, app, metrics, [*spec.networkPolicies.apiServerPorts, *outside], dns=bool(outside))


def _repositories(driver: definitions.Driver) -> Iterator[int]:
    """Yield the ports of package repositories; without one that is named, the node's own may have either."""
    source = driver.source.build or driver.source.packages
    if source is not None and driver.state == "Present":
        yield from (port for url in source.repositories for port in _port(url))
        yield from () if source.repositories else _WEB


def _nfd(spec: clusters.Spec) -> Iterator[ir.Input]:
    is_new = (supported.nfd_minor(spec.nfd.image.tag) or 0) >= _NFD_HTTP
    for name in names.NFD:
        served = [8080] if is_new else [8081] if name == "nfd-gc" else [8081, 8082]
        yield _of_app(spec, name, served, spec.networkPolicies.apiServerPorts)


def _watcher(spec: clusters.Spec, url: str) -> ir.Input:
    port = cluster_programs.watcher_port(spec)
    outside = [*spec.networkPolicies.apiServerPorts, *_port(url), *_proxies(spec.watcher.env)]
    return _of_app(spec, names.WATCHER, [] if port is None else [port], outside, dns=True)


def _metrics(containers: Iterable[pods.Container]) -> Iterator[int]:
    return (each.metrics_port for each in containers if each.metrics_port is not None)


def _port(url: str) -> Iterator[int]:
    """Yield the port of a URL; none for a path of the host."""
    scheme, separator, _ = url.partition("://")
    if not separator:
        yield _PORTS["ssh"]  # The short form, user@host:path.
    elif scheme in _PORTS:
        yield urls.port(url, _PORTS[scheme]) or _PORTS[scheme]


def _proxies(env: Iterable[pods.EnvVar]) -> Iterator[int]:
    """Yield the ports of the proxies that variables such as https_proxy name."""
    for variable in env:
        default = _PROXY_PORTS.get(variable.value.partition("://")[0].lower(), _PROXY_PORT)
        if variable.names_proxy and (port := urls.port(variable.value, default)):
            yield port


def _of_app(
    spec: clusters.Spec, name: str, served: Iterable[int], reached: Iterable[int] = (), *, dns: bool = False
) -> ir.Input:
    # A policy is judged after a Service's address is replaced; the DNS pods of OpenShift listen at 5353.
    resolvers = ([53, 5353] if spec.platform == "openshift" else [53]) if dns else []
    value = NetworkPolicy(
        namespace=spec.namespace,
        name=name,
        app=name,
        ingress=tuple(_ports("TCP", served)),
        egress=(*_ports("TCP", [*reached, *resolvers]), *_ports("UDP", resolvers)),
    )
    return ir.Input(("networkpolicy",), value)


def _ports(protocol: Protocol, ports: Iterable[int]) -> Iterator[NetworkPort]:
    return (NetworkPort(port=port, protocol=protocol) for port in sorted(set(ports)))
