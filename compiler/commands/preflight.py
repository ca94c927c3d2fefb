"""`kae preflight`: which policy would serve a kernel that no node runs yet, and with which image."""

import argparse
from collections.abc import Iterator
from typing import Any

from compiler import cli, diagnostics, pipeline
from compiler.commands import findings
from compiler.planning import preflight, supported
from compiler.project import discovery
from compiler.project import load as fleets

Answers = tuple[preflight.Answer, ...]


def run(arguments: argparse.Namespace) -> int:
    """Prints what each policy would do for the kernel; fails where none would serve it."""
    fleet, notes = fleets.read(arguments.inventory)
    discovery.require_clusters(arguments.cluster, [cluster.name for cluster in fleet.clusters])
    answered: list[tuple[str, Answers]] = []
    for cluster in fleet.selected(arguments.cluster):
        view, more = pipeline.plan_cluster(fleet, cluster)
        notes.extend(more)
        answers = tuple(preflight.answer(division, arguments.kernel, cluster.spec) for division in view.divisions)
        answered.append((cluster.name, answers))
    # Of today's nodes nobody asked, so warnings are not shown.
    found = tuple(note for note in diagnostics.merged(notes) if note.severity == "error")
    if found:
        findings.show(arguments, found)
        return cli.WRONG
    served = any(answer.is_served for _, answers in answered for answer in answers)
    remarks = list(_remarks(arguments, answered)) if served else []
    if arguments.format == "json":
        findings.show(arguments, (), **data(arguments, answered, remarks))
    else:
        findings.show(arguments, (), "\n".join([*lines(arguments, answered), *remarks]) + "\n")
    return cli.FINE if served else cli.WRONG


def lines(arguments: argparse.Namespace, answered: list[tuple[str, Answers]]) -> Iterator[str]:
    """The answer for people."""
    yield f"kernel {arguments.kernel}" + (f", {arguments.os}" if arguments.os else "")
    for name, answers in answered:
        yield f"cluster {name}"
        if not answers:
            yield "  no policy holds here"
        for answer in answers:
            yield f"  {'yes' if answer.is_served else 'no ':3}  {answer.policy}: {answer.reason}"
            for offer in answer.offers:
                said = f"{offer.image} ({offer.source})" if offer.state == "Present" else "the driver is removed"
                yield f"       {offer.pool}: {said}"
    if not any(answer.is_served for _, answers in answered for answer in answers):
        yield "No policy would serve a node with this kernel."


def _remarks(arguments: argparse.Namespace, answered: list[tuple[str, Answers]]) -> Iterator[str]:
    """What to look at before the first node boots it."""
    offers = [offer for _, answers in answered for answer in answers for offer in answer.offers]
    built = {offer.image for offer in offers if offer.source == "prebuilt" and offer.state == "Present"}
    for image in sorted(built):
        yield f"{image} has to hold the modules, below /opt/lib/modules/{arguments.kernel}/."
    if any(offer.source != "inTree" for offer in offers):
        if arguments.os and not supported.is_system(arguments.os):
            yield f"KAE's driver is not known to support '{arguments.os}'."
        if not supported.is_kernel(arguments.kernel):
            yield f"KAE's driver is not known to support the kernel '{arguments.kernel}'."


def data(arguments: argparse.Namespace, answered: list[tuple[str, Answers]], remarks: list[str]) -> dict[str, Any]:
    """The answer for programs."""
    return {
        "kernel": arguments.kernel,
        "os": arguments.os,
        "served": any(answer.is_served for _, answers in answered for answer in answers),
        "remarks": remarks,
        "clusters": [{"name": name, "policies": [_answer(answer) for answer in answers]} for name, answers in answered],
    }


def _answer(answer: preflight.Answer) -> dict[str, Any]:
    return {
        "policy": answer.policy,
        "served": answer.is_served,
        "mapping": answer.mapping,
        "reason": answer.reason,
        "pools": [
            {"pool": offer.pool, "image": offer.image, "source": offer.source, "state": offer.state}
            for offer in answer.offers
        ],
    }
