"""`make calibrate`: the loop's revert, run after run, against what `kae simulate` says by the other runs' durations."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.cluster.local import instances, machine, ownership, programs, waiting
from tests.cluster.loop import hardware, steps
from tests.cluster.loop.story import Story, opened
from tests.cluster.simulated import calibration

_REVERT = "The commit is reverted, which is checked, merged, compiled and applied"
_LEAST, _OF = 8, 10
"""The runs that have to lie within the simulated ones, and of how many."""


def main() -> int:
    """Run the loop again and again, print each revert beside its simulation, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.loop.calibrate", description=main.__doc__)
    parser.add_argument("--count", type=int, default=_OF, help="runs, 3 at least (default: %(default)s)")
    arguments = parser.parse_args()
    if arguments.count < 3:
        parser.error("Of fewer than 3 runs no other two are left to simulate by.")
    if obstacles := [*programs.obstacles(), *programs.lacking(programs.ENGINES)]:
        sys.exit("\n".join(obstacles))
    if machine.own_devices():
        sys.exit(machine.OWN_DEVICES)
    runs = [_run(arguments.count, number) for number in range(arguments.count)]
    within = 0
    for number, own in enumerate(runs):
        said = calibration.simulated([*runs[:number], *runs[number + 1 :]], parallel=1, hosts=1)
        is_within = said.p5_s <= own.took_s <= said.p95_s <= 2 * said.p5_s
        good = is_within and said.evictions == {own.evictions} and said.most_away == {1}
        within += good
        counted = f"{own.evictions} of {[*said.evictions]} evictions"
        sys.stdout.write(f"run {number}: {own.took_s:.1f} s, {said}, {counted}: {'within' if good else 'not within'}\n")
    sys.stdout.write(f"{within} of {len(runs)} within\n")
    return 0 if within * _OF >= _LEAST * len(runs) else 1


def _run(count: int, number: int) -> calibration.Measured:
    sys.stdout.write(f"== run {number} of {count}\n")
    sys.stdout.flush()
    instance = instances.configured()
    with (
        tempfile.TemporaryDirectory() as folder,
        ownership.of(instance),
        opened(instance, "argocd", Path(folder)) as story,
    ):
        return _reverted(story)


def _reverted(story: Story) -> calibration.Measured:
    """Do the story until its revert, and return what the installer logged of that."""
    titles = [step.title for step in steps.STEPS]
    for step in steps.STEPS[: titles.index(_REVERT)]:
        step.act(story)
    before = story.order()
    ordered: list[float] = []

    def look() -> None:
        if not ordered and story.order() > before:
            ordered.append(time.time())

    with waiting.Repeated("the order", look).working():
        steps.STEPS[titles.index(_REVERT)].act(story)
        waiting.until("the order", lambda: ordered)
    story.wait_for_driver(hardware.OLD)
    return calibration.measured(story.installer_log(), ordered[0])


if __name__ == "__main__":
    sys.exit(main())
