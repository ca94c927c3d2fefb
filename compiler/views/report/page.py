"""The page of the report: one file that holds all that it shows, and loads nothing.

Its numbers, its tables and what changes are text in it; the picture and the list of nodes are drawn in the browser from
its data.
"""

import base64
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jinja2
import markupsafe
from jinja2 import utils

from compiler import diagnostic_formats, diagnostics, wording
from compiler.changes.difference import Difference
from compiler.changes.effects import Effect
from compiler.planning import plan
from compiler.read import fleet as reader
from compiler.simulation.forecast import Forecast
from compiler.views import gaps, plan_text, simulation
from compiler.views.diff import risk_groups, sentences
from compiler.views.diff import text as diff_text
from compiler.views.report import data as report_data
from compiler.views.report import tables as report_tables

_SCRIPTS = ("fleet.js", "picture.js", "nodes.js", "page.js")
"""The parts of the page's script, in their order."""

_CLUSTERS = 4
"""Clusters that the title names, and whose rollouts are drawn."""


class Figure(NamedTuple):
    """A number at the top of the page, and the link that filters the nodes that it counts."""

    number: int
    noun: str
    link: str = ""
    is_warning: bool = False


class Change(NamedTuple):
    """A change that the page shows, and its risks: those that nobody has accepted, and those that people have."""

    difference: Difference
    risks: diagnostics.Findings
    accepted: Sequence[risk_groups.Group]
    rollout: tuple[Sequence[Forecast], simulation.Basis] | None = None
    """The forecasts of its rollout."""


def text(
    views: Sequence[plan.Plan],
    found: Iterable[diagnostics.Diagnostic],
    files: Mapping[str, str],
    change: Change | None = None,
) -> Iterator[str]:
    """Yield the text of the page, piece by piece; `files` holds its template, style and scripts by name."""
    shown, ignored = diagnostics.split_ignored(found)
    script, style = "".join(files[name] for name in _SCRIPTS), files["page.css"]
    environment = jinja2.Environment(
        loader=jinja2.DictLoader({"page.html": files["page.html"]}),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html").generate(
        title=wording.listed((view.cluster.name for view in views), most=_CLUSTERS),
        script=markupsafe.Markup(script),  # noqa: S704 - files of this package
        style=markupsafe.Markup(style),  # noqa: S704
        hashes={"script": _hash(script), "style": _hash(style)},
        figures=tuple(_figures(views)),
        has_recipes=_has_recipes(views),
        is_told=report_tables.is_told(views),
        problems=report_tables.problems(views),
        findings=shown,
        ignored=diagnostic_formats.ignored_text(ignored) if ignored else "",
        tables=report_tables.of(views),
        changes=_changes(change, views) if change else None,
        data=map(markupsafe.Markup, _data(views, change.difference if change else None)),
    )


def _has_recipes(views: Iterable[plan.Plan]) -> bool:
    return any(len(view.recipes) > 1 for view in views)


def _changes(change: Change, views: Sequence[plan.Plan]) -> dict[str, Any]:
    """Return what a change does, in the words of `kae diff`."""
    difference = change.difference
    risks, ignored = diagnostics.split_ignored(change.risks)
    return {
        "title": f"from {difference.before.text} to {difference.after.text}",
        "counts": _counts(difference, sum(len(view.inventory.nodes) for view in views)),
        "faults": [*diff_text.faults(difference)],
        "risks": [
            *((risk.severity, risk) for risk in sorted(risks, key=lambda risk: risk.severity != "error")),
            *(("accepted", _accepted(group)) for group in change.accepted),
        ],
        "ignored": diagnostic_formats.ignored_text(ignored) if ignored else "",
        "sentences": sentences.by_danger(difference.effects),
        "summary": _summary(difference),
        "rollout": _rollout(*change.rollout) if change.rollout else None,
        "privileges": [*_privileges(difference)],
        "intent": [*diff_text.intent(difference.intent)],
        "pods": [*diff_text.pods(difference)],
        "objects": [*diff_text.objects(difference)],
    }


def _rollout(forecasts: Sequence[Forecast], basis: simulation.Basis) -> dict[str, Any]:
    """Return the forecast of a rollout in words, and a curve for each of the slowest clusters."""
    slowest = sorted(forecasts, key=lambda each: (-each.end.p50, -each.end.p95, each.cluster))
    left = len(slowest) - _CLUSTERS
    return {
        "text": " ".join(simulation.sentences(forecasts, basis)),
        "curves": [simulation.curve(each, basis.runs) for each in slowest[:_CLUSTERS] if each.hosts > 1],
        "others": f"And {wording.counted(left, 'more cluster')}, sooner done." if left > 0 else "",
    }


def _counts(difference: Difference, nodes: int) -> Sequence[tuple[str, str, int]]:
    """Return what happens to how many of the fleet's nodes: keys with their texts and numbers, but no zeros."""
    found = Counter(sentences.changes(difference.effects).values())
    found["same"] = nodes - (found.total() - found["gone"])
    return [(key, text, found[key]) for key, text in sentences.CHANGES.items() if found[key]]


def _accepted(group: risk_groups.Group) -> diagnostics.Diagnostic:
    """Return the finding of accepted risks, without the hint to accept them."""
    return group.risks[0].finding._replace(message=group.text, hint=f"It is accepted as {group.scope}.")


def _summary(difference: Difference) -> str:
    """Return the sentences on clusters and policies, and on what nodes lose, or on why there is nothing to say."""
    return " ".join((*diff_text.remarks(difference), *_losses(difference)))


def _losses(difference: Difference) -> Iterator[str]:
    if difference.faults:
        yield "What does not compile has no effect that could be shown."
        return
    unknown = list(diff_text.unknown(difference))
    if difference.effects:
        yield sentences.loss(difference.effects, difference.barred)
    elif not unknown:
        yield "No node is affected." if not difference.is_empty else "Nothing differs."
    yield from unknown


def _privileges(difference: Difference) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield objects, with how much they gain and lose, and what that is; equal ones together."""
    for clusters, names, facts in diff_text.privilege_groups(difference):
        signs = Counter(fact[:2] for fact in facts)
        counts = [f"{word} {signs[sign]}" for sign, word in (("+ ", "gains"), ("- ", "loses")) if signs[sign]]
        objects = f"{wording.listed(names)}{diff_text.where(difference, clusters)}"
        yield f"{objects}{f': {wording.listed(counts)}' if counts else ''}", facts


def _hash(element: str) -> str:
    """Return the hash by which the page's Content-Security-Policy admits an element with this text."""
    return f"sha256-{base64.b64encode(hashlib.sha256(element.encode()).digest()).decode()}"


def _data(views: Sequence[plan.Plan], difference: Difference | None) -> Iterator[str]:
    """Yield the page's data as JSON, a cluster a line, without a character that could end their element."""
    told = sentences.by_danger(difference.effects) if difference else ()
    head = {
        "version": 1,
        "states": report_data.STATES,
        "loads": report_data.LOADED if report_tables.is_told(views) else {},
        "changes": sentences.CHANGES if difference else {},
        "sentences": [sentence.text for sentence in told],
        **({"hasRecipes": True} if _has_recipes(views) else {}),
    }
    numbers: defaultdict[Effect, list[int]] = defaultdict(list)
    for number, sentence in enumerate(told):
        for effect in sentence.effects:
            numbers[effect].append(number)
    plans: dict[str, plan.Plan] = {view.cluster.name: view for view in views}
    effects = {
        item.cluster: {effect: numbers[effect] for effect in item.effects}
        for item in (difference.clusters if difference else ())
    }
    yield f'{{"head":{_json(head)},"clusters":['
    # Clusters that are gone have no plan.
    for index, name in enumerate(sorted({*plans, *effects})):
        cluster = report_data.of_cluster(name, plans.get(name), effects.get(name, {}))
        yield f"{',' if index else ''}\n{_json(cluster)}"
    yield "\n]}"


def _json(value: object) -> str:
    return utils.htmlsafe_json_dumps(value, separators=(",", ":"))


def _figures(views: Sequence[plan.Plan]) -> Iterator[Figure]:
    own = [decision for view in views for decision in view.builtin.decisions]
    states, nodes = report_data.states(views), plan_text.count(own)
    for key, noun in report_data.UNUSUAL.items():
        is_problem, number = key == "problem", states[key]
        if number or is_problem:
            link = report_tables.link(state=key) if number else ""
            yield Figure(number, noun, link, is_warning=is_problem and number > 0)
    if differing := report_tables.differing(views):
        link = report_tables.link(loads="differs")
        yield Figure(differing, "not loaded as planned", link, is_warning=True)
    yield Figure(nodes, wording.inflected("node", nodes))
    yield Figure(plan_text.count(own, gaps.has_devices), f"with {reader.BUILTIN.words.devices}")
    yield Figure(report_tables.count(views, report_tables.has_driver), "with a driver installer")
    yield Figure(report_tables.count(views, report_tables.has_plugin), "with a device plugin")
    for name, plans in report_tables.by_recipe(views).items():
        decisions = [decision for view in plans for decision in view.decisions]
        yield Figure(plan_text.count(decisions, report_tables.is_assigned), f"with recipe {name}")
        if failing := plan_text.count(decisions, gaps.has_problem):
            yield Figure(failing, f"with problems of recipe {name}", is_warning=True)
