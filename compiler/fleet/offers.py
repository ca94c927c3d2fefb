"""The resources that the device plugin of a DevicePolicy offers: those of its recipe, and one more for each profile."""

from collections.abc import Iterator
from dataclasses import dataclass

from compiler.fleet import definitions
from compiler.model.stacks import resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A resource, with what a container gets that asks for it."""

    name: str
    resource: resources.RecipeResource
    """The resource of the recipe that it is, or is a profile of."""
    injections: tuple[resources.RecipeInjection, ...]
    """Those that hold, the strongest last: a variable of a profile replaces one of the resource."""


def of(policy: definitions.Policy) -> Iterator[Offer]:
    """Yield the resources of a policy in the order of its recipe; none where no device plugin is deployed."""
    plugin = definitions.offer(policy.spec.devicePlugin)
    if plugin is None or plugin.filled.devicePlugin is None or not plugin.enabled:
        return
    for resource in plugin.filled.devicePlugin.resources:
        own = tuple(injection for injection in resource.inject if injection.when)
        yield Offer(name=resource.name, resource=resource, injections=own)
        for profile, variables in sorted(resource.profiles.items()):
            extra = resources.RecipeInjection(env=variables)
            yield Offer(name=f"{resource.name}-{profile}", resource=resource, injections=(*own, extra))
