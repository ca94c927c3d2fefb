"""Modules in the image or in payloads, below /opt/lib/modules/<kernel>/: the layout of KMM's kmod images."""

from pathlib import Path

from installer import sources
from installer.decide import change_steps
from installer.host import digests
from runtime import errors


class Prebuilt:
    """The source prebuilt."""

    def __init__(self, context: sources.Context) -> None:
        self._context = context
        self._image = context.image / "opt/lib/modules"
        self._folders = list(dict.fromkeys((self._image, *_of_payloads(context))))
        """The folders with a folder for each kernel."""

    def fingerprint(self) -> str:
        """Return the digest of the modules for this kernel, as a tag may be pushed twice."""
        return " ".join(digests.of_folder(folder / self._context.kernel) for folder in self._folders)

    def lacks(self) -> str:
        """Look for the kernel's folder."""
        return "" if self._files() else f"the {self._named()} no modules for it"

    def steps(self, folder: str) -> tuple[change_steps.Step, ...]:
        """Return the step that copies the modules."""
        places = " or a payload" if self._context.settings.payloads else ""
        reason = f"Copies the modules for {self._context.kernel} out of the image{places}."
        return (change_steps.Step("copy-modules", reason, lambda: self._copy(folder)),)

    def _files(self) -> list[Path]:
        return [file for folder in self._folders for file in sources.module_files(folder / self._context.kernel)]

    def _named(self) -> str:
        payloads = [payload.name for payload in self._context.settings.payloads]
        return f"image and the payloads {', '.join(payloads)} hold" if payloads else "image holds"

    def _copy(self, folder: str) -> None:
        kernel, files = self._context.kernel, self._files()
        if not files:
            held = sorted({path.name for folder in self._folders for path in folder.glob("*") if path.is_dir()})
            has = "they have" if self._context.settings.payloads else "it has"
            raise errors.Failure(
                f"The {self._named()} no modules for the running kernel {kernel}; {has}: {', '.join(held or ['none'])}."
            )
        lack = "The image and its payloads lack" if self._context.settings.payloads else "The image lacks"
        sources.place(self._context, files, folder, f"{lack} {{}} for kernel {kernel}.")


def _of_payloads(context: sources.Context) -> list[Path]:
    """Return the folders with a folder for each kernel in payloads: a path of one, or lib/modules below it."""
    tops = [
        context.payloads / payload.name / path.lstrip("/")
        for payload in context.settings.payloads
        for path in payload.paths
    ]
    return [below if (below := top / "lib/modules").is_dir() else top for top in tops]
