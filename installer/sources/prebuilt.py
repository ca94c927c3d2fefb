"""Modules in the image or in payloads, below /opt/lib/modules/<kernel>/: the layout of KMM's kmod images."""

from pathlib import Path

from installer import change_steps, sources
from installer.decide import desired
from installer.host import digests, kmod
from runtime import driver_work, errors


class Prebuilt:
    """The source prebuilt."""

    def __init__(self, context: sources.Context) -> None:
        self._context = context
        self._image = context.image / driver_work.MODULES.lstrip("/")
        self._folders = list(dict.fromkeys((self._image, *_of_payloads(context))))
        """The folders with a folder for each kernel."""

    def fingerprint(self) -> str:
        """Return the digest of the modules for this kernel, as a tag may be pushed twice."""
        return " ".join(digests.of_folder(folder / self._context.kernel) for folder in self._folders)

    def lacks(self) -> str:
        """Look for the kernel's folder."""
        where = f"neither the image nor payload {self._payloads} holds" if self._payloads else "the image holds no"
        return "" if self._files() else f"{where} modules for it"

    def steps(self, folder: str) -> tuple[change_steps.Step, ...]:
        """Return the step that copies the modules."""
        places = " or a payload" if self._context.settings.payloads else ""
        reason = f"Copies the modules for {self._context.kernel} out of the image{places}."
        return (change_steps.Step("copy-modules", reason, lambda: self._copy(folder)),)

    def _files(self) -> list[Path]:
        return [file for folder in self._folders for file in sources.module_files(folder / self._context.kernel)]

    @property
    def _payloads(self) -> str:
        return " or ".join(payload.name for payload in self._context.settings.payloads)

    def _copy(self, folder: str) -> None:
        kernel, files = self._context.kernel, self._files()
        if not files:
            held = ", ".join(sorted({path.name for folder in self._folders for path in folder.glob("*")})) or "none"
            if not self._payloads:
                raise errors.Failure(f"The image holds no modules for the running kernel {kernel}; it has: {held}.")
            raise errors.Failure(
                f"Neither the image nor payload {self._payloads} holds modules for the running kernel {kernel}; they"
                f" have: {held}."
            )
        lacking = f"The image lacks {{}} for kernel {kernel}."
        if self._payloads:
            lacking = f"Neither the image nor payload {self._payloads} has {{}} for kernel {kernel}."
        sources.place(self._context, files, folder, lacking)


def _of_payloads(context: sources.Context) -> list[Path]:
    """Return the folders with a folder for each kernel in payloads, one for each path."""
    return [
        max(
            (context.payloads / payload.name / folder.lstrip("/") for folder in driver_work.module_folders(path)),
            key=lambda folder: ((folder / context.kernel).is_dir(), folder.is_dir()),
        )
        for payload in context.settings.payloads
        for path in payload.paths
    ]


class InTree:
    """The source inTree."""

    def __init__(self, context: sources.Context) -> None:
        # A kernel may lack those of kinds that the host does not have.
        self._needed = desired.modules(context.settings, ())
        self._folder = context.host.resolved(f"/lib/modules/{context.kernel}/kernel")

    def fingerprint(self) -> str:
        """Return nothing: the desired digest already contains the kernel."""
        return ""

    def lacks(self) -> str:
        """Look for the modules in the kernel's own folder."""
        held = {kmod.name_of(path.name) for path in self._folder.rglob("*.ko*")}
        return "" if held.issuperset(self._needed) else "it has no modules of its own"

    def steps(self, folder: str) -> tuple[change_steps.Step, ...]:
        """Return no steps: there is nothing to fetch."""
        del folder
        return ()
