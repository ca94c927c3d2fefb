"""The names of Dynamic Resource Allocation that the compiler writes and the device plugin publishes."""

import hashlib
import re

SINCE = 36
"""The minor release of Kubernetes from which DRA serves extended resources by default (KEP-5004)."""

DOMAIN = "openfuyao.com"

GIVEN_BY_DEVICE_PLUGIN, GIVEN_BY_CLAIM = f"{DOMAIN}/given-by-device-plugin", f"{DOMAIN}/given-by-claim"
"""The taints of a device that is well, and in use although the scheduler does not count it."""

_LONGEST_STRING = 64
"""The longest string of an attribute (DeviceAttributeMaxValueLength of Kubernetes' resource.k8s.io/v1)."""


def device_class(resource: str) -> str:
    """Return the name of the DeviceClass of an extended resource, such as kae.hpre.openfuyao.com.

    No two resources share one: where the dots leave open which part is the domain, a digest says it, but for KAE's own.
    """
    domain, _, name = resource.partition("/")
    parts = (part.strip("-") for part in re.sub("[^a-z0-9.]+", "-", name.lower()).split("."))
    plain = ".".join(filter(None, parts))
    is_unique = "." not in name and not domain.endswith(f".{DOMAIN}")
    if plain == name and (is_unique or resource.startswith(f"{DOMAIN}/kae.")):
        return f"{plain}.{domain}"
    return f"{plain}-{_digest(resource)}.{domain}"


def stem(driver: str) -> str:
    """Return the part of a driver's name that stands in the names of its slices, by which the guard judges them."""
    return driver.partition(".")[0]


def attribute(resource: str) -> str:
    """Return the value of the attribute `resource` of the devices of an extended resource, which is its name."""
    if len(resource) <= _LONGEST_STRING:
        return resource
    return f"{resource[: _LONGEST_STRING - 9]}-{_digest(resource)}"


def _digest(resource: str) -> str:
    return hashlib.sha256(resource.encode()).hexdigest()[:8]
