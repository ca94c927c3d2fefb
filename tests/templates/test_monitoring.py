"""Objects for Prometheus and Grafana: targets, alerts and a dashboard that refer to the same metrics."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from compiler.formats import canonical
from compiler.rendering import cluster_programs, ir, template_code, templates

Rendered = Callable[[str, cluster_programs.Monitoring], Any]

MONITORING = cluster_programs.Monitoring(
    namespace="kae-operator",
    cluster="east",
    scraped=("kae-device-plugin", "kae-driver"),
    watcher=True,
    recipes="kae",
    whose="KAE ",
)
ALL = ("podmonitor-kae", "prometheusrule-kae", "configmap-kae-dashboard")
METRIC = re.compile(r"\bkae_[a-z_]+")


@pytest.fixture(scope="module")
def rendered(repository_root: Path) -> Rendered:
    """The object that a template of monitoring/ makes of a value."""
    folder = repository_root / "templates/monitoring"
    texts = {f"monitoring/{path.name}": path.read_text("utf-8") for path in folder.glob("*.yaml")}
    renderer = templates.renderer(texts, template_code.functions(texts))

    def one(name: str, value: cluster_programs.Monitoring) -> Any:
        return renderer(ir.Manifest(component="monitoring", template=f"{name}.yaml", value=value))

    return one


@pytest.fixture(scope="module")
def promised(repository_root: Path) -> set[str]:
    """The metrics that the rule's comment promises of the programs."""
    text = (repository_root / "templates/monitoring/prometheusrule-kae.yaml").read_text("utf-8")
    return set(re.findall(r"^#   (kae_[a-z_]+)", text, re.MULTILINE))


def alerts(rule: Any) -> dict[str, Any]:
    return {alert["alert"]: alert for group in rule["spec"]["groups"] for alert in group["rules"]}


def dashboard(config_map: Any) -> Any:
    return json.loads(config_map["data"]["kae.json"])


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
    elif isinstance(value, str):
        yield value


def expressions(value: Any) -> list[str]:
    """Every PromQL expression of a rule or a dashboard."""
    if isinstance(value, dict):
        own = [value["expr"]] if "expr" in value else []
        return own + [found for item in value.values() for found in expressions(item)]
    if isinstance(value, list):
        return [found for item in value for found in expressions(item)]
    return []


@pytest.mark.parametrize("name", ALL)
def test_every_object_says_what_made_it_and_where_it_lives(rendered: Rendered, name: str) -> None:
    found = rendered(name, MONITORING)

    metadata = found["metadata"]
    assert metadata["namespace"] == "kae-operator"
    assert metadata["labels"]["app.kubernetes.io/part-of"] == "kae"
    assert metadata["labels"]["app.kubernetes.io/managed-by"] == "kae"
    assert canonical.dump_yaml(found)


@pytest.mark.parametrize("name", ALL)
def test_nothing_holds_what_flux_would_substitute(rendered: Rendered, name: str) -> None:
    assert not [text for text in texts(rendered(name, MONITORING)) if "${" in text]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (MONITORING, ["kae-device-plugin", "kae-driver", "kae-watcher"]),
        (replace(MONITORING, watcher=False), ["kae-device-plugin", "kae-driver"]),
        (replace(MONITORING, scraped=("kae-device-plugin",), watcher=False), ["kae-device-plugin"]),
        (replace(MONITORING, scraped=()), ["kae-watcher"]),
    ],
)
def test_programs_with_metrics_are_scraped_once(rendered: Rendered, value: Any, expected: list[str]) -> None:
    spec = rendered("podmonitor-kae", value)["spec"]

    (requirement,) = spec["selector"]["matchExpressions"]
    assert requirement == {"key": "app.kubernetes.io/name", "operator": "In", "values": expected}
    assert [endpoint["port"] for endpoint in spec["podMetricsEndpoints"]] == ["metrics"]


def test_every_alert_says_what_is_wrong_how_bad_it_is_and_in_which_cluster(rendered: Rendered) -> None:
    found = alerts(rendered("prometheusrule-kae", MONITORING))

    for alert in found.values():
        assert set(alert["annotations"]) == {"summary", "description"}
        assert alert["labels"] == {"severity": "warning", "kae_cluster": "east"}
        assert "\n" not in alert["annotations"]["description"]
        assert re.fullmatch(r"[0-9]+m", alert["for"])


def test_pods_are_looked_for_in_the_own_namespace_alone(rendered: Rendered) -> None:
    found = rendered("prometheusrule-kae", replace(MONITORING, namespace="accelerators"))

    selectors = re.findall(r"kube_pod_[a-z_]+{(.*?)}", " ".join(expressions(found)))
    assert selectors
    assert all('namespace="accelerators"' in selector for selector in selectors)


def test_hosts_that_wait_for_their_turn_raise_no_alert(rendered: Rendered) -> None:
    expression = alerts(rendered("prometheusrule-kae", MONITORING))["KAEDriverNotReady"]["expr"]

    assert expression.endswith('unless on (namespace, pod) (kae_driver_state{state="Queued"} == 1)')


def test_a_cluster_without_a_watcher_has_no_alerts_on_it(rendered: Rendered) -> None:
    found = alerts(rendered("prometheusrule-kae", replace(MONITORING, watcher=False)))

    assert found
    assert not [name for name in found if "Watcher" in name]


def test_the_panels_of_the_dashboard_lie_side_by_side_in_its_24_columns(rendered: Rendered) -> None:
    panels = dashboard(rendered("configmap-kae-dashboard", MONITORING))["panels"]

    cells = [
        (column, row)
        for place in (panel["gridPos"] for panel in panels)
        for column in range(place["x"], place["x"] + place["w"])
        for row in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(column for column, _ in cells) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)


@pytest.mark.parametrize("name", ["prometheusrule-kae", "configmap-kae-dashboard"])
def test_alerts_and_dashboard_use_only_metrics_that_the_programs_promise(
    rendered: Rendered, promised: set[str], name: str
) -> None:
    found = rendered(name, MONITORING)

    asked = expressions(dashboard(found) if name.startswith("configmap") else found)
    used = {metric for expression in asked for metric in METRIC.findall(expression)}
    assert used
    assert used <= promised
