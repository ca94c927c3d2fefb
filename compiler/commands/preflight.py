"""`kae preflight`: the policies and images that would serve a kernel that no node runs yet."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from compiler import cli
from compiler.cli import findings
from compiler.commands import preflight_image
from compiler.planning import plan, preflight, supported
from compiler.project import project_file
from compiler.project.by_cluster import planned, workers

Answers = tuple[preflight.Answer, ...]


def run(arguments: argparse.Namespace) -> int:
    """Print what each policy would do for the kernel; return 1 where none would serve it."""
    if arguments.image is not None:
        if arguments.os is not None:
            cli.parser().error("--os is about --kernel.", "Leave it out: the labels of an image name no system.")
        return preflight_image.run(arguments)
    run = planned.of_settings(
        project_file.of(arguments),
        arguments.cluster,
        lambda view, _: (view.cluster.name, _answers(view, arguments.kernel)),
        workers.Crew(),
    )
    answered = run.answers
    # Warnings are about the nodes of today, and the question is about a kernel that none runs.
    found = findings.without_warnings(arguments, run.findings)
    if findings.concluded(arguments, found):
        findings.show(arguments, found)
        return cli.WRONG
    served = any(answer.is_served for _, answers in answered for answer in answers)
    remarks = list(_remarks(arguments, answered)) if served else []
    if arguments.shape != "text":
        findings.show(arguments, found, **data(arguments, answered, remarks))
    else:
        findings.show(arguments, found, "\n".join([*lines(arguments, answered), *remarks]) + "\n")
    return cli.FINE if served else cli.WRONG


def _answers(view: plan.Plan, kernel: str) -> Answers:
    return tuple(preflight.answer(division, kernel, view.cluster.spec) for division in view.divisions)


def lines(arguments: argparse.Namespace, answered: Sequence[tuple[str, Answers]]) -> Iterator[str]:
    """Yield the lines of the answer for people."""
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


def _remarks(arguments: argparse.Namespace, answered: Sequence[tuple[str, Answers]]) -> Iterator[str]:
    """Yield what to check before the first node boots the kernel."""
    offers = [offer for _, answers in answered for answer in answers for offer in answer.offers]
    built = {offer.image for offer in offers if offer.source == "prebuilt" and offer.state == "Present"}
    for image in sorted(built):
        yield f"{image} has to hold the modules, below /opt/lib/modules/{arguments.kernel}/."
    if any(offer.source != "inTree" for offer in offers):
        if arguments.os and not supported.is_system(arguments.os):
            yield f"KAE's driver is not known to support '{arguments.os}'."
        if not supported.is_kernel(arguments.kernel):
            yield f"KAE's driver is not known to support the kernel '{arguments.kernel}'."


def data(arguments: argparse.Namespace, answered: Sequence[tuple[str, Answers]], remarks: list[str]) -> dict[str, Any]:
    """Return the answer for programs."""
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
