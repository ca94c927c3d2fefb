"""The page of the report: one file that holds all that it shows, and loads nothing.

Its numbers and tables are text in it; the picture and the list of nodes are drawn in the browser from its data.
"""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import jinja2
import markupsafe
from jinja2 import utils

from compiler import diagnostic_formats, diagnostics, wording
from compiler.planning import plan
from compiler.views import gaps
from compiler.views.report import changes as report_changes
from compiler.views.report import data as report_data
from compiler.views.report import tables as report_tables
from compiler.views.review import ranking

_SCRIPTS = ("fleet.js", "picture.js", "nodes.js", "page.js")
"""The parts of the page's script, in their order."""

_CLUSTERS = 4
"""Clusters that the title names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number at the top of the page, and the link that filters the nodes that it counts."""

    number: int
    noun: str
    link: str = ""
    is_warning: bool = False


def text(
    views: Sequence[plan.Plan],
    found: Iterable[diagnostics.Diagnostic],
    files: Mapping[str, str],
    changes: report_changes.Changes | None = None,
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
        has_recipes=any(view.others for view in views),
        problems=report_tables.problems(views),
        findings=shown,
        ignored=diagnostic_formats.ignored_text(ignored) if ignored else "",
        tables=report_tables.of(views),
        changes=changes,
        counts=changes.counts(report_tables.count(view.builtin for view in views)) if changes else (),
        data=map(markupsafe.Markup, _data(views, changes)),
    )


def _hash(element: str) -> str:
    """Return the hash by which the page's Content-Security-Policy admits an element with this text."""
    return f"sha256-{base64.b64encode(hashlib.sha256(element.encode()).digest()).decode()}"


def _data(views: Iterable[plan.Plan], changes: report_changes.Changes | None) -> Iterator[str]:
    """Yield the page's data as JSON, a cluster a line, without a character that could end their element."""
    head = {
        "version": 1,
        "states": report_data.STATES,
        "changes": ranking.CHANGES if changes else {},
        "sentences": [sentence.text for sentence in changes.sentences] if changes else [],
    }
    plans = {view.cluster.name: view for view in views}
    # Clusters that are gone have no plan.
    names = sorted({*plans, *(changes.clusters if changes else ())})
    yield f'{{"head":{_json(head)},"clusters":['
    for index, name in enumerate(names):
        yield f"{',' if index else ''}\n{_json(report_data.of_cluster(name, plans.get(name), changes))}"
    yield "\n]}"


def _json(value: object) -> str:
    return utils.htmlsafe_json_dumps(value, separators=(",", ":"))


def _figures(views: Sequence[plan.Plan]) -> Iterator[Figure]:
    own = [view.builtin for view in views]
    problems, nodes = report_tables.count(own, gaps.has_problem), report_tables.count(own)
    by_recipe = report_tables.of_others(views)
    link = report_tables.link(state="problem") if problems else ""
    yield Figure(number=problems, noun="with problems", link=link, is_warning=problems > 0)
    yield Figure(number=nodes, noun=wording.inflected("node", nodes))
    yield Figure(number=report_tables.count(own, gaps.has_devices), noun="with KAE devices")
    yield Figure(number=report_tables.count(own, report_tables.has_driver), noun="with a driver installer")
    yield Figure(number=report_tables.count(own, report_tables.has_plugin), noun="with a device plugin")
    for name, plans in by_recipe.items():
        yield Figure(number=report_tables.count(plans, report_tables.is_assigned), noun=f"with recipe {name}")
        if failing := report_tables.count(plans, gaps.has_problem):
            yield Figure(number=failing, noun=f"with problems of recipe {name}", is_warning=True)
