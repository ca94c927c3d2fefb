"""The rollback to the driver that the host had when a change began."""

import dataclasses
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from installer import config, paths
from installer.change import announcement, swap
from installer.decide import change_steps, verification
from installer.host import chroot, host_state, pci, record
from runtime import errors

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Rollback:
    """The rollback to the state that the record of a begun change holds."""

    _host: chroot.Host
    _settings: config.Config
    _swap: swap.Swap

    def steps(self, tried: record.Driver | None) -> tuple[change_steps.Step, ...]:
        """Return the steps back from the driver that was tried, each useful even after the failure of another.

        Raises:
            errors.Failure: The state of the host cannot be read.
        """
        current = host_state.read(self._host, self._settings)
        before = current.record.change or record.Change()
        steps = list(self._files(current, before, tried)) if before.touched else []
        if before.loaded:
            steps += self._swap.reload((*before.loaded, *before.above), anew=before.touched)
            steps += self._swap.enable(before.vfs)
        reason = f"Restores the modes of device nodes, and '{paths.RULE}'."
        steps.append(change_steps.Step("restore-permissions", reason, lambda: self._permit(before)))
        return tuple(steps)

    def verification_steps(self, attempt: record.FailedTry | None = None) -> tuple[change_steps.Step, ...]:
        """Return the last steps, which follow if all others succeeded; they record this try, if it is given."""
        before = record.read(self._host).change or record.Change()
        proves = "Verifies that each device that had an entry has one again."
        records = f"Records in '{paths.RECORD}' that it is installed as before."
        ends = "Lets the device plugin allocate devices again; keeps the Lease, which stops other hosts."
        return (
            change_steps.Step("prove-old-driver", proves, lambda: self._verify(before)),
            change_steps.Step("record-old-driver", records, lambda: self._record(before, attempt)),
            *self._swap.allow(),
            change_steps.Step("end-change", ends, lambda: announcement.withdraw(self._host)),
        )

    def _files(
        self, current: host_state.HostState, before: record.Change, tried: record.Driver | None
    ) -> Iterator[change_steps.Step]:
        kept = before.kept
        erased = {*before.packages, *(tried.packages if tried else ())} - set(kept.packages if kept else ())
        yield from self._swap.unload(current)
        for step in self._swap.files(kept, erased):
            yield dataclasses.replace(step, act=_tolerated(step.act)) if step.name == "index-modules" else step
        yield from self._swap.options(kept.options if kept else {}, "Writes the previous parameters.")

    def _permit(self, before: record.Change) -> None:
        if before.rule is None:
            self._host.remove(paths.RULE)
        else:
            self._host.write(paths.RULE, before.rule)
        for function in pci.functions(self._host, self._settings.vendor, self._settings.kinds):
            mode = before.modes.get(function.address)
            if function.entry is not None and mode is not None and function.entry.mode is not None:
                self._host.permit(f"/dev/{function.entry.name}", mode, before.groups.get(function.address))

    def _verify(self, before: record.Change) -> None:
        current = host_state.read(self._host, self._settings)
        kept = before.kept
        loaded = {*current.loaded, *current.above}
        faults = [f"Module {name} is not loaded." for name in (*before.loaded, *before.above) if name not in loaded]
        # A driver for the kernel of another boot is not loaded. The previous driver of this boot may not have worked,
        # or may have been loaded from elsewhere, so only its files and modules are checked.
        if not faults and kept is not None and kept.kernel == current.kernel and before.touched:
            faults += [fault.text for fault in verification.in_place(before.loaded, current, kept)]
        lost = sorted(
            set(before.served)
            - {function.address for function in current.functions if function.entry is not None or function.lent}
        )
        if lost:
            faults.append(f"{', '.join(lost)} had an entry in /sys/class/uacce, and has none now.")
        if faults:
            raise errors.Failure(" ".join(faults))

    def _record(self, before: record.Change, attempt: record.FailedTry | None) -> None:
        kept = before.kept
        known = record.read(self._host)
        restored = msgspec.structs.replace(
            known,
            installed=kept if kept and kept.source != "kept" else None,
            change=None,
            attempt=attempt or known.attempt,
            boot=known.boot or before.boot or before.back,
        )
        record.write(self._host, restored)


def _tolerated(act: Callable[[], object]) -> Callable[[], None]:
    def attempt() -> None:
        try:
            act()
        except errors.Failure as failure:
            # The index holds paths, which may be the same as before; the verification shows it.
            LOG.warning("%s The index of modules is unchanged.", failure)

    return attempt
