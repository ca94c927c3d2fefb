"""NetworkPolicies: for each program, the ports at which it is reached, and those that it reaches.

Neither addresses nor names stand in them: a NetworkPolicy knows no names, and the addresses of API servers, git servers
and package repositories are not in the documents.
"""

from collections.abc import Iterable, Iterator, Sequence

from compiler import names
from compiler.fleet import clusters, definitions, pods
from compiler.formats import urls
from compiler.planning import pools, supported
from compiler.rendering import cluster_programs, cluster_values, ir

_PORTS = {"http": 80, "https": 443, "ssh": 22}
_PROXY_PORTS = {"https": 443}
_PROXY_PORT = 1080
"""The port of a proxy whose URL names none: curl(1), --proxy."""
_WEB = (80, 443)
_NFD_HTTP = 18
"""The first minor release of NFD with one port for metrics and health."""


def of_cluster(cluster: definitions.Cluster, divisions: Sequence[pools.Division]) -> Iterator[ir.Manifest]:
    """Yield a NetworkPolicy for the pods of each program of a cluster that wants them."""
    spec = cluster.spec
    if not spec.networkPolicies.enabled:
        return
    for app in dict.fromkeys(division.policy.recipe.driver for division in divisions):
        own = (division for division in divisions if division.policy.recipe.driver == app)
        yield from _drivers(spec, app, [division for division in own if division.policy.installed])
    plugins = [(division.policy.recipe, plugin) for division in divisions if (plugin := division.policy.offered)]
    for app in dict.fromkeys(recipe.device_plugin for recipe, _ in plugins):
        yield _manifest(
            spec, app, _metrics(plugin.container for recipe, plugin in plugins if recipe.device_plugin == app)
        )
    if spec.nfd.enabled:
        yield from _nfd(spec)
    if spec.watcher.enabled and spec.watcher.repository is not None and spec.watcher.secretName is not None:
        yield _watcher(spec, spec.watcher.repository.url)


def _drivers(spec: clusters.Spec, app: str, divisions: Sequence[pools.Division]) -> Iterator[ir.Manifest]:
    if not divisions:
        return
    outside = {port for each in divisions for pool in each.pools for port in _repositories(pool.driver)}
    containers = [driver.container for each in divisions if (driver := each.policy.installed)]
    outside |= {port for each in containers for port in _proxies(each.env) if outside}
    metrics = _metrics(containers)
    yield _manifest(spec, app, metrics, [*spec.networkPolicies.apiServerPorts, *outside], dns=bool(outside))


def _repositories(driver: definitions.Driver) -> Iterator[int]:
    """Yield the ports of package repositories; without one that is named, the node's own may have either."""
    source = driver.source.build or driver.source.packages
    if source is not None and driver.state == "Present":
        yield from (port for url in source.repositories for port in _port(url))
        yield from () if source.repositories else _WEB


def _nfd(spec: clusters.Spec) -> Iterator[ir.Manifest]:
    is_new = (supported.nfd_minor(spec.nfd.image.tag) or 0) >= _NFD_HTTP
    for name in names.NFD:
        served = [8080] if is_new else [8081] if name == "nfd-gc" else [8081, 8082]
        yield _manifest(spec, name, served, spec.networkPolicies.apiServerPorts)


def _watcher(spec: clusters.Spec, url: str) -> ir.Manifest:
    is_scraped = spec.monitoring.enabled and cluster_programs.serves_metrics(spec)
    served = [cluster_programs.WATCHER_METRICS_PORT] if is_scraped else []
    outside = [*spec.networkPolicies.apiServerPorts, *_port(url), *_proxies(spec.watcher.env)]
    return _manifest(spec, names.WATCHER, served, outside, dns=True)


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


def _manifest(
    spec: clusters.Spec, name: str, served: Iterable[int], reached: Iterable[int] = (), *, dns: bool = False
) -> ir.Manifest:
    # A policy is judged after a Service's address is replaced; the DNS pods of OpenShift listen at 5353.
    resolvers = ([53, 5353] if spec.platform == "openshift" else [53]) if dns else []
    value = cluster_values.NetworkPolicy(
        namespace=spec.namespace,
        name=name,
        ingress=tuple(_ports("TCP", served)),
        egress=(*_ports("TCP", [*reached, *resolvers]), *_ports("UDP", resolvers)),
    )
    return ir.Manifest(component="network-policies", template="networkpolicy.yaml", value=value)


def _ports(protocol: cluster_values.Protocol, ports: Iterable[int]) -> Iterator[cluster_values.NetworkPort]:
    return (cluster_values.NetworkPort(port=port, protocol=protocol) for port in sorted(set(ports)))
