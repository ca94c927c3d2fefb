"""Modules in the image, below /opt/lib/modules/<kernel>/: the layout of kmod images, as KMM builds them."""

from installer import sources
from installer.decide import change_steps
from installer.host import digests
from runtime import errors


class Prebuilt:
    """The source prebuilt."""

    def __init__(self, context: sources.Context) -> None:
        self._context = context
        self._folder = context.image / "opt/lib/modules" / context.kernel

    def fingerprint(self) -> str:
        """Return the digest of the modules for this kernel, as a tag may be pushed twice."""
        return digests.of_folder(self._folder)

    def lacks(self) -> str:
        """Look for the kernel's folder."""
        return "" if any(self._folder.rglob("*.ko")) else "the image holds no modules for it"

    def steps(self, folder: str) -> tuple[change_steps.Step, ...]:
        """Return the step that copies the modules."""
        reason = f"Copies the modules for {self._context.kernel} out of the image."
        return (change_steps.Step("copy-modules", reason, lambda: self._copy(folder)),)

    def _copy(self, folder: str) -> None:
        modules = {path.name: path for path in self._folder.rglob("*.ko")}
        if not modules:
            held = sorted(path.name for path in self._folder.parent.glob("*")) or ["none"]
            raise errors.Failure(
                f"The image holds no modules for the running kernel {self._context.kernel}; it has: {', '.join(held)}."
            )
        sources.place(self._context, modules, folder, f"The image lacks {{}} for kernel {self._context.kernel}.")
