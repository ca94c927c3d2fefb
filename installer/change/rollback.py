"""The way back: the driver that the host had when a change began."""

import dataclasses
import logging
from collections.abc import Callable, Iterator

from installer import config, paths
from installer.change import swap
from installer.decide import change_steps, verification
from installer.host import chroot, host_state, pci
from installer.store import record
from runtime import errors

LOG = logging.getLogger(__name__)


class Rollback:
    """Puts back what the record of a begun change says that the host had."""

    def __init__(self, host: chroot.Host, settings: config.Config, swapping: swap.Swap) -> None:
        """Looks when it is asked for steps."""
        self._host = host
        self._settings = settings
        self._swap = swapping

    def steps(self, tried: record.Driver | None) -> tuple[change_steps.Step, ...]:
        """The steps back from what was tried, with the host as it is now.

        Each is worth taking also where one before it failed.

        Raises:
            errors.Failure: The host cannot be looked at.
        """
        current = host_state.read(self._host, self._settings)
        before = current.record.change or record.Change()
        steps = list(self._files(current, before, tried)) if before.touched else []
        if before.loaded:
            steps += self._swap.reload(before.loaded, anew=before.touched)
            steps += self._swap.enable(before.vfs)
        steps.append(
            change_steps.Step(
                name="restore-permissions",
                reason=f"Gives device nodes, and '{paths.RULE}', what they had.",
                act=lambda: self._permit(before),
            )
        )
        return tuple(steps)

    def verification_steps(self) -> tuple[change_steps.Step, ...]:
        """The last steps back, where all the others are done."""
        before = record.read(self._host).change or record.Change()
        return (
            change_steps.Step(
                name="prove-old-driver",
                reason="Looks whether the devices that had an entry have one again.",
                act=lambda: self._verify(before),
            ),
            change_steps.Step(
                name="record-old-driver",
                reason=f"Notes in '{paths.RECORD}' that it is installed as before.",
                act=lambda: self._record(before),
            ),
            change_steps.Step(
                name="end-change",
                reason="Lets the device plugin give devices again; the Lease stays, so that no other host fails too.",
                act=lambda: self._host.remove(paths.CHANGING),
            ),
        )

    def _files(
        self, current: host_state.HostState, before: record.Change, tried: record.Driver | None
    ) -> Iterator[change_steps.Step]:
        kept = before.kept
        erased = {*before.packages, *(tried.packages if tried else ())} - set(kept.packages if kept else ())
        yield from self._swap.unload(current)
        for step in self._swap.files(kept, erased):
            yield dataclasses.replace(step, act=_tolerated(step.act)) if step.name == "index-modules" else step
        yield from self._swap.options(kept.options if kept else {}, "Writes the parameters that were in force before.")

    def _permit(self, before: record.Change) -> None:
        if before.rule is None:
            self._host.remove(paths.RULE)
        else:
            self._host.write(paths.RULE, before.rule)
        for found in pci.found(self._host, self._settings.vendor, self._settings.kinds):
            mode = before.modes.get(found.address)
            if found.entry is not None and mode is not None and found.entry.mode not in (None, mode):
                self._host.permit(f"/dev/{found.entry.name}", mode)

    def _verify(self, before: record.Change) -> None:
        current = host_state.read(self._host, self._settings)
        kept = before.kept
        found = [f"Module {name} is not loaded." for name in before.loaded if name not in current.loaded]
        # A driver for the kernel of another boot is not at work. That of this one need not be good for anything: it may
        # have been a dead one, and may have been loaded from elsewhere.
        if not found and kept is not None and kept.kernel == current.kernel and before.touched:
            found += [fault.text for fault in verification.in_place(self._settings, current, kept)]
        lost = sorted(
            set(before.served) - {one.address for one in current.functions if one.entry is not None or one.lent}
        )
        if lost:
            found.append(f"{', '.join(lost)} had an entry in /sys/class/uacce, and has none now.")
        if found:
            raise errors.Failure(" ".join(found))

    def _record(self, before: record.Change) -> None:
        kept = before.kept
        record.update(self._host, installed=kept if kept and kept.source != "kept" else None, change=None)


def _tolerated(act: Callable[[], object]) -> Callable[[], None]:
    def attempt() -> None:
        try:
            act()
        except errors.Failure as failure:
            # It goes by paths, and they may be the same as before; the proof finds it out.
            LOG.warning("%s The index of modules stays as it is.", failure)

    return attempt
