"""Images of the programs for whoever has no registry, such as the cluster's node."""

from pathlib import Path

from tests.cluster.local import programs
from tests.images import inputs, stores


def built_image(name: str = "kae-device-plugin") -> Path:
    """Docker's archive of an image, localhost/<name>:1, upon a minimal Debian; kept until the sources change."""
    is_compiler = name == "kae-compiler"
    digest = inputs.digest(inputs.compiler_sources() if is_compiler else inputs.sources())
    folder = programs.folder().parent / "images"
    targets = {known: folder / f"{known}-{digest}.tar" for known in ([name] if is_compiler else inputs.folders())}
    if not targets[name].exists():
        with stores.opened() as store:
            if is_compiler:
                store.build_compiler("1")
            else:
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
