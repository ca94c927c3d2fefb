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
    folder = _folder()
    digest = inputs.digest(inputs.sources())
    targets = {known: folder / f"{known}-{digest}.tar" for known in inputs.folders()}
    if not targets[name].exists():
        with stores.opened() as store:
            store.build(inputs.ROOT, "1")
            for known, target in targets.items():
                _keep(store, known, target)
    return targets[name]


def built_compiler() -> Path:
    """Docker's archive of the compiler's image, named localhost/kae-compiler:1, made and kept likewise.

    Raises:
        AssertionError: The build failed; it holds what was said.
        subprocess.CalledProcessError: The base or the wheels cannot be had; the reason is on standard error.
    """
    target = _folder() / f"kae-compiler-{inputs.digest(inputs.compiler_sources())}.tar"
    if not target.exists():
        with stores.opened() as store:
            store.build_compiler("1")
            _keep(store, "kae-compiler", target)
    return target


def _folder() -> Path:
    return programs.folder().parent / "images"


def _keep(store: stores.Store, name: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    for old in target.parent.glob(f"{name}-*"):
        old.unlink()
    fresh = target.with_suffix(".new")
    store.save(stores.named(name), fresh)
    fresh.rename(target)
