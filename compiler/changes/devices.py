"""Whether the device plugin surely finds as many devices of a resource as before: what it looks for, and its numbers.

How many there are, the nodes alone know; so what is not surely as wide is told.
"""

from runtime import device_plugin_config as config


def is_as_wide(before: config.AnyResource, after: config.AnyResource) -> bool:
    """Return whether a resource has every device, as often shared, that one of the same name had."""
    if after.shares < before.shares or not set(after.requires) <= set(before.requires):
        return False
    match before, after:
        case config.Token(), config.Token():
            return after.count >= before.count
        case config.Char(), config.Char():
            return all(any(_takes(new, old) for new in after.groups) for old in before.groups)
        case config.Vfio(), config.Vfio():
            return after.kind == before.kind
        case config.Uacce(), config.Uacce():
            return after.kind == before.kind
        case _:
            return False


def _takes(new: config.DeviceGroup, old: config.DeviceGroup) -> bool:
    """Return whether a group surely makes up each device of another one: it asks for nothing more."""
    is_filtered = any(mine not in (None, theirs) for mine, theirs in zip(_filters(new), _filters(old), strict=True))
    theirs = {path.path: path for path in old.paths}
    known = [(path, theirs[path.path]) for path in new.paths if path.path in theirs]
    others = [path for path in new.paths if path.path not in theirs]
    return (
        not is_filtered
        and bool(known)
        and all(path.limit >= was.limit and path.optional >= was.optional for path, was in known)
        and all(path.optional for path in others)
    )


def _filters(group: config.DeviceGroup) -> tuple[str | None, str | None]:
    return group.vendor, group.driver
