"""The resources of recipes: how many of each a node offers, as far as the inventory tells."""

from typing import Any

import pytest

from compiler.fleet import definitions
from tests import builders

KIND = "openfuyao.com/onload.sfc"
PCI = {"pci": [{"kind": "sfc", "vendor": "1924", "devices": ["0b03"], "virtual": ["1b03"]}]}
DRIVER = {"image": "installer", "modules": [{"name": "onload"}]}


def _policy(*resources: dict[str, Any], parameters: dict[str, Any] | None = None, **spec: Any) -> definitions.Policy:
    recipe = builders.recipe(
        match=PCI,
        driver=DRIVER,
        devicePlugin={"resources": list(resources)},
        parameters={"properties": parameters or {}},
    )
    return builders.device_policy("desk", recipe, **spec)


def _offered(policy: definitions.Policy, **counts: str) -> dict[str, int | None]:
    labels = {f"{KIND}.present": "true"} | {f"{KIND}.{sort}": count for sort, count in counts.items()}
    view, _ = builders.view([policy], [builders.node(machine=builders.profile(labels))])
    ((decision,),) = (stack.decisions for stack in view.recipes[1:])
    return dict(decision.resources)


def test_a_node_offers_as_many_tokens_as_the_values_say_times_their_shares() -> None:
    resource = {"name": "amd.com/onload", "class": "token", "count": "${values.pods}", "shares": 2}
    pods = {"pods": {"type": "integer", "default": 100}}

    assert _offered(_policy(resource, parameters=pods)) == {"amd.com/onload": 200}
    assert _offered(_policy(resource, parameters=pods, values={"pods": 40})) == {"amd.com/onload": 80}


def test_each_profile_is_a_resource_with_as_many_tokens() -> None:
    profiles = {"latency": {"EF_POLL_USEC": "1"}, "bulk": {}}
    resource = {"name": "amd.com/onload", "class": "token", "count": 3, "profiles": profiles}

    assert _offered(_policy(resource)) == {"amd.com/onload": 3, "amd.com/onload-bulk": 3, "amd.com/onload-latency": 3}


def test_only_the_node_knows_its_groups_of_paths() -> None:
    resource = {"name": "example.com/npu", "class": "char", "groups": [{"paths": [{"path": "/dev/npu*"}]}], "shares": 2}

    assert _offered(_policy(resource)) == {"example.com/npu": None}


@pytest.mark.parametrize(("sort", "shares"), [("vfio", 1), ("uacce", 2)])
@pytest.mark.parametrize(("counts", "usable"), [({"pf": "2"}, 2), ({"pf": "2", "vf": "6"}, 6), ({}, 0)])
def test_functions_are_counted_as_those_of_kae_are(sort: str, shares: int, counts: dict[str, str], usable: int) -> None:
    resource = {"name": "example.com/nic", "class": sort, "kind": "sfc", **({"shares": 2} if shares == 2 else {})}

    assert _offered(_policy(resource), **counts) == ({"example.com/nic": usable * shares} if usable else {})


def test_a_driver_that_is_removed_leaves_nothing() -> None:
    resource = {"name": "amd.com/onload", "class": "token", "count": 3}

    assert _offered(_policy(resource, driver={"state": "Absent"})) == {}
