"""The effects of a change as annotations of the lines that cause them."""

from collections.abc import Sequence
from dataclasses import replace

from compiler.changes.difference import Difference
from compiler.changes.effects import Effect
from compiler.diagnostic_formats import Note, sentences
from compiler.diagnostics import Diagnostic, Findings, Span, merged
from compiler.views.review import ranking

_SENTENCES = 5
"""Sentences of a note."""


def notes(difference: Difference) -> Sequence[Note]:
    """Return a note for each line that has effects on nodes, those that take most away first; then those on the past.

    An error of the earlier side is no error of the change, and its line may be another one by now.
    """
    causes: dict[Span, list[Effect]] = {}
    for item in ranking.sentences(difference.effects):
        for effect in item.sentence.effects:
            own = causes.setdefault(effect.cause, [])
            own.extend(() if effect in own else [effect])
    effects = [Note(code="effect", span=span, text=_text(own)) for span, own in causes.items()]
    return (*effects, *_past(difference))


def _past(difference: Difference) -> Sequence[Note]:
    """Return a note for each error of the earlier side."""
    errors = merged(item for fault in difference.faults if fault.side == "from" for item in fault.findings)
    said = f"{difference.before.text} does not compile, so what the change does is not known."
    return [Note(code="earlier-error", span=item.span, text=f"{said}\n{sentences(item)}") for item in errors]


def by_line(found: Findings) -> Findings:
    """Return one finding for each code and place, as code hosts show ten of a kind; others there are its notes."""
    places: dict[tuple[str, Span], list[Diagnostic]] = {}
    for finding in found:
        places.setdefault((finding.code, finding.span), []).append(finding)
    return tuple(_joined(*own) for own in places.values())


def _joined(first: Diagnostic, *others: Diagnostic) -> Diagnostic:
    if not others:
        return first
    notes = (*first.notes, first.hint, *(sentences(other) for other in others))
    return replace(first, notes=tuple(filter(None, notes)), hint="")


def _text(effects: Sequence[Effect]) -> str:
    sentences = [item.sentence.text for item in ranking.sentences(effects)]
    more = len(sentences) - _SENTENCES
    return "\n".join((*sentences[:_SENTENCES], *([f"And {more} more; `kae diff` shows all."] if more > 0 else [])))
