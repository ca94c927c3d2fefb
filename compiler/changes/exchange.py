"""The images of a driver before and after a change, as far as they tell whether it is another driver."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from compiler.planning import images, pools
from runtime import driver_config, driver_work


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """The images of a driver that change."""

    changed: Mapping[str, bool]
    """Those that are other ones, as `driver_work.content` takes them."""
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
    holders = driver_work.holders(config)
    return {name: image for name, image in images_of(pool).items() if name in holders}


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
