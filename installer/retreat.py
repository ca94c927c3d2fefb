"""The way back: the driver that the host had when a change began."""

from installer import config, observation, outline, places, proof, record, swap
from installer import host as hosts
from runtime import errors


class Retreat:
    """Puts back what the record of a begun change says that the host had."""

    def __init__(self, host: hosts.Host, settings: config.Config, swapping: swap.Swap) -> None:
        """Looks when it is asked for steps."""
        self._host = host
        self._settings = settings
        self._swap = swapping

    def steps(self, tried: record.Driver | None) -> tuple[outline.Step, ...]:
        """The steps back from what was tried, with the host as it is now.

        Raises:
            errors.Failure: The host cannot be looked at.
        """
        seen = observation.look(self._host, self._settings)
        before = seen.record.change or record.Change()
        # A driver for the kernel of another boot is of no use.
        kept = before.kept if before.kept and before.kept.kernel == seen.kernel else None
        erased = {*before.packages, *(tried.packages if tried else ())} - set(kept.packages if kept else ())
        steps = [
            *self._swap.unload(seen),
            *self._swap.files(kept, erased),
            *self._swap.options(kept.options if kept else {}, "Writes the parameters that were in force before."),
        ]
        if before.loaded:
            steps += self._swap.load(before.loaded)
            steps += self._swap.enable(before.vfs)
        ours = kept if kept is not None and kept.source != "kept" else None
        steps += self._swap.permit() if ours is not None else self._swap.forget_rule()
        steps += [
            outline.Step(
                name="prove-old-driver",
                reason="Looks whether the devices that had an entry have one again.",
                act=lambda: self._prove(kept, before),
            ),
            outline.Step(
                name="record-old-driver",
                reason=f"Notes in '{places.RECORD}' that it is installed as before.",
                act=lambda: record.update(self._host, installed=ours, change=None),
            ),
            outline.Step(
                name="end-change",
                reason="Lets the device plugin give devices again; the Lease stays, so that no other host fails too.",
                act=lambda: self._host.remove(places.CHANGING),
            ),
        ]
        return tuple(steps)

    def _prove(self, kept: record.Driver | None, before: record.Change) -> None:
        seen = observation.look(self._host, self._settings)
        # It need not be good for anything: it may have been a dead one.
        found = [fault.text for fault in proof.in_place(self._settings, seen, kept)] if kept else []
        lost = sorted(set(before.served) - {function.address for function in seen.entries()})
        if lost:
            found.append(f"{', '.join(lost)} had an entry in /sys/class/uacce, and has none now.")
        if found:
            raise errors.Failure(" ".join(found))
