"""The configs and images of a driver before and after a change, as far as they tell whether it is another driver."""

from collections.abc import Collection, Iterator, Mapping
from typing import Literal

import msgspec

from compiler.planning import image_matrix, images, pools
from runtime import driver_config, driver_work


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """The images of a driver that change."""

    changed: Mapping[str, bool]
    """Those that are other ones, as `content` takes them."""
    images: tuple[str, ...]
    """The same as references, after the change."""
    setting: Literal["image", "repository", "mirrors"]
    """The setting by which they differ; where none does, it has no meaning."""


def of(was: pools.Pool | None, now: pools.Pool | None) -> Exchange:
    """Return the exchange of the images of a pool for those of another one; a digest pins them in any place."""
    before, after = images_of(was), images_of(now)
    changed = {
        name: _is_other_version(image, before.get(name, ""))
        for name, image in after.items()
        if image.rpartition("@")[2] != before.get(name, "").rpartition("@")[2]
    }
    return Exchange(
        changed=changed,
        images=tuple(after[name] for name in changed),
        setting=_setting(was, now) if changed else "image",
    )


def images_of(pool: pools.Pool | None) -> dict[str, str]:
    """Return the images of a pool, by the payload that each is; the installer's own has no name."""
    return {"": pool.images[0][1], **dict(pool.images[1:])} if pool else {}


def held(pool: pools.Pool, config: driver_config.Config) -> dict[str, str]:
    """Return those of the images that hold a driver's modules or files; none of one that comes of packages."""
    names = _holders(config)
    return {name: image for name, image in images_of(pool).items() if name in names}


def content(
    was: driver_config.Config, now: driver_config.Config, changed: Mapping[str, bool]
) -> Iterator[tuple[bool, str]]:
    """Yield the settings for which two configs ask for other content of a driver; of each, whether that is certain.

    `changed` has the payloads whose images are other ones, and whether these have another version rather than another
    place alone; the installer's own image has no name. What the digest of a driver is made of in the installer
    decides: the source, the names of packages, and what images hold of modules and of files for the host.
    """
    version = "version" if was.driver_version != now.driver_version else ""
    if was.source.name != now.source.name:
        yield True, "source"
    elif driver_work.packages(was) != driver_work.packages(now) or _is_packed(was) != _is_packed(now):
        yield True, version if version and is_versioned(was) and is_versioned(now) else "source"
    if {file.to for file in was.files} != {file.to for file in now.files}:
        yield True, "files"
    elif was.files != now.files:
        yield False, "files"
    if _comes_of_images(now):
        if any(changed.get(name) for name in _holders(now)):
            yield True, version or "image"
        elif changed:
            yield False, "image"
        if was.payloads != now.payloads:
            yield False, "payloads"


def _comes_of_images(settings: driver_config.Config) -> bool:
    return bool(settings.files or settings.source.build or settings.source.prebuilt or _is_packed(settings))


def _is_packed(settings: driver_config.Config) -> bool:
    source = settings.source.packages
    return source is not None and source.is_in_image


def is_versioned(settings: driver_config.Config) -> bool:
    """Return whether the version is that of the modules: they come out of its image, or names of packages hold it."""
    source = settings.source
    if source.packages is not None and not source.packages.is_in_image:
        return any("${DRIVER_VERSION}" in name for name in source.packages.names)
    return source.in_tree is None


def _holders(settings: driver_config.Config) -> set[str]:
    """Return the images that hold modules or files of a driver, as `content` names them; none of one of packages."""
    if not _comes_of_images(settings):
        return set()
    payloads = [(payload.name, path) for payload in settings.payloads for path in payload.paths]
    with_file = {name for name, path in payloads for file in settings.files if f"{file.from_}/".startswith(f"{path}/")}
    if settings.source.prebuilt is not None and payloads:
        return with_file | (
            {name for name, path in payloads if image_matrix.reaches_modules(path)} or {"", *dict(payloads)}
        )
    # Without payloads files are in the installer's image, as are the source and the packages of a driver.
    return with_file if payloads and settings.source.in_tree is not None else {"", *with_file}


def proved(settings: driver_config.Config, kinds: Collection[str]) -> driver_work.Known:
    """Return what is known of a host with devices of these kinds, on which the driver of a config was verified."""
    modules = driver_work.needed(settings, kinds)
    replaced = {name: False for name in settings.replaced if name not in settings.names}
    is_whole = len(modules) == len(settings.names)
    return driver_work.Known(
        kinds=kinds,
        wanted=settings.names,
        parameters={name: settings.parameters[name] for name in modules},
        loaded={**replaced, **dict.fromkeys(modules, True)},
        nodes=dict.fromkeys(settings.nodes, True) if is_whole else {},
        functions=settings.sriov,
        replaced=settings.replaced if settings.install_policy == "IfNotPresent" else None,
    )


def _is_other_version(image: str, before: str) -> bool:
    """Return whether images have other versions: a digest beside a tag, or in its place, may only pin it."""
    if image.count("@") + before.count("@") == 1:
        tags = [
            images.tag(each.partition("@")[0])
            for each in (image, before)
            if ":" in images.unqualified(each).partition("@")[0]
        ]
        return len(tags) > 1 and tags[0] != tags[1]
    return image.removeprefix(images.name(image)) != before.removeprefix(images.name(before))


def _setting(was: pools.Pool | None, now: pools.Pool | None) -> Literal["image", "repository", "mirrors"]:
    if was is None or now is None or _last_parts(was) != _last_parts(now):
        return "image"
    written = [[images.reference(pool.driver.images[name]) for name, _ in pool.images] for pool in (was, now)]
    return "repository" if written[0] != written[1] else "mirrors"


def _last_parts(pool: pools.Pool) -> list[str]:
    return [images.unqualified(image) for _, image in pool.images]
