"""`kae preflight`: the policies and images that would serve a kernel that no node runs yet."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from compiler import cli, devices
from compiler.cli import findings
from compiler.commands import preflight_image
from compiler.planning import plan, preflight, supported
from compiler.project import project_file
from compiler.project.by_cluster import planned, workers

Answers = Mapping[str, Sequence[preflight.Answer]]
"""The answers of a cluster's policies by recipe, KAE's first."""
Answered = Sequence[tuple[str, Answers]]
"""The answers of each cluster."""


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
    served = _is_served(answered)
    remarks = list(_remarks(arguments, answered)) if served else []
    if arguments.shape != "text":
        findings.show(arguments, found, **data(arguments, answered, remarks))
    else:
        findings.show(arguments, found, "\n".join([*lines(arguments, answered), *remarks]) + "\n")
    return cli.FINE if served else cli.WRONG


def _answers(view: plan.Plan, kernel: str) -> Answers:
    return {
        each.recipe.name: [preflight.answer(division, kernel, view.cluster.spec) for division in each.divisions]
        for each in view.every
    }


def _is_served(answered: Answered) -> bool:
    return any(answer.is_served for _, every in answered for answers in every.values() for answer in answers)


def lines(arguments: argparse.Namespace, answered: Answered) -> Iterator[str]:
    """Yield the lines of the answer for people."""
    yield f"kernel {arguments.kernel}" + (f", {arguments.os}" if arguments.os else "")
    for name, every in answered:
        for recipe, answers in every.items():
            if recipe == devices.KAE.name:
                yield f"cluster {name}"
                yield from () if answers or every.keys() - {recipe} else ("  no policy holds here",)
            else:
                yield f"cluster {name}, recipe {recipe}"
            for answer in answers:
                yield from _lines(answer)
    if not _is_served(answered):
        yield "No policy would serve a node with this kernel."


def _lines(answer: preflight.Answer) -> Iterator[str]:
    yield f"  {'yes' if answer.is_served else 'no ':3}  {answer.policy}: {answer.reason}"
    for offer in answer.offers:
        images = ", ".join(f"{name} {image}" for name, image in offer.images) or offer.image
        said = f"{images} ({offer.source})" if offer.state == "Present" else "the driver is removed"
        yield f"       {offer.pool}: {said}"


def _remarks(arguments: argparse.Namespace, answered: Answered) -> Iterator[str]:
    """Yield what to check before the first node boots the kernel."""
    every = [
        (recipe, offer)
        for _, by_recipe in answered
        for recipe, answers in by_recipe.items()
        for answer in answers
        for offer in answer.offers
    ]
    for image in sorted({image for _, offer in every for image in offer.modules}):
        yield f"{image} has to hold the modules, below /opt/lib/modules/{arguments.kernel}/."
    for image in sorted({image for _, offer in every for image in offer.named}):
        yield f"{image} has to be there: it is named after the kernel."
    if any(offer.source != "inTree" for recipe, offer in every if recipe == devices.KAE.name):
        if arguments.os and not supported.is_system(arguments.os):
            yield f"KAE's driver is not known to support '{arguments.os}'."
        if not supported.is_kernel(arguments.kernel):
            yield f"KAE's driver is not known to support the kernel '{arguments.kernel}'."


def data(arguments: argparse.Namespace, answered: Answered, remarks: list[str]) -> dict[str, Any]:
    """Return the answer for programs."""
    return {
        "kernel": arguments.kernel,
        "os": arguments.os,
        "served": _is_served(answered),
        "remarks": remarks,
        "clusters": [_cluster(name, answers) for name, answers in answered],
    }


def _cluster(name: str, every: Answers) -> dict[str, Any]:
    policies = {recipe: [_answer(answer) for answer in answers] for recipe, answers in every.items()}
    stacks = [{"recipe": recipe, "policies": own} for recipe, own in policies.items() if recipe != devices.KAE.name]
    return {"name": name, "policies": policies[devices.KAE.name], **({"stacks": stacks} if stacks else {})}


def _answer(answer: preflight.Answer) -> dict[str, Any]:
    return {
        "policy": answer.policy,
        "served": answer.is_served,
        "mapping": answer.mapping,
        "reason": answer.reason,
        "pools": [
            {
                "pool": offer.pool,
                **({"images": dict(offer.images)} if offer.images else {"image": offer.image}),
                "source": offer.source,
                "state": offer.state,
            }
            for offer in answer.offers
        ],
    }
