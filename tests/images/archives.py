"""Images of the programs for whoever has no registry, such as the cluster's node."""

from pathlib import Path

from tests.cluster import programs
from tests.images import inputs, stores


def built_image(name: str = "kae-device-plugin") -> Path:
    """Docker's archive of a program's image, named localhost/<name>:1, upon a minimal Debian.

    It is built when the sources have changed since the last time, and kept.

    Raises:
        AssertionError: A build failed; it holds what was said.
        subprocess.CalledProcessError: The base or the wheels cannot be had; the reason is on standard error.
    """
    folder = programs.folder().parent / "images"
    target = folder / f"{name}-{inputs.digest()}.tar"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob(f"{name}-*"):
            old.unlink()
        fresh = target.with_suffix(".new")
        with stores.opened() as store:
            store.build(inputs.ROOT, "1")
            store.save(f"{stores.REGISTRY}/{name}:1", fresh)
        fresh.rename(target)
    return target
