"""Images of the programs for whoever has no registry, such as the cluster's node."""

from pathlib import Path

from tests.cluster.local import programs
from tests.images import inputs, stores


def built_image(name: str = "kae-device-plugin") -> Path:
    """Docker's archive of a program's image, named localhost/<name>:1, upon a minimal Debian.

    All images are built together, when the sources have changed since the last time, and kept.

    Raises:
        AssertionError: A build failed; it holds what was said.
        subprocess.CalledProcessError: The base or the wheels cannot be had; the reason is on standard error.
    """
    folder = programs.folder().parent / "images"
    digest = inputs.digest()
    targets = {known: folder / f"{known}-{digest}.tar" for known in inputs.folders()}
    if not targets[name].exists():
        with stores.opened() as store:
            store.build(inputs.ROOT, "1")
            for known, target in targets.items():
                _keep(store, known, target)
    return targets[name]


def _keep(store: stores.Store, name: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    for old in target.parent.glob(f"{name}-*"):
        old.unlink()
    fresh = target.with_suffix(".new")
    store.save(stores.named(name), fresh)
    fresh.rename(target)
