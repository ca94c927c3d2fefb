"""The table of kinds is all that the rest needs to know of a kind."""

import re
from collections.abc import Callable

import pytest

from compiler import kae
from compiler.model import policy

KINDS = pytest.mark.parametrize("kind", kae.KINDS, ids=lambda kind: kind.name)


@KINDS
def test_every_kind_has_its_switch_and_its_settings_in_the_policy(kind: kae.Kind) -> None:
    assert kind.switch in policy.Operator.model_fields
    assert kind.name in policy.Sharing.model_fields
    assert kind.name in policy.Sriov.model_fields


@KINDS
def test_pci_ids_are_four_hexadecimal_digits_as_sysfs_prints_them(kind: kae.Kind) -> None:
    assert all(re.fullmatch("[0-9a-f]{4}", text) for text in (kae.VENDOR, kind.pf, kind.vf))


@pytest.mark.parametrize(
    "part",
    [
        lambda kind: kind.name,
        lambda kind: kind.switch,
        lambda kind: kind.module,
        lambda kind: kind.resource,
    ],
)
def test_no_two_kinds_share_a_name(part: Callable[[kae.Kind], str]) -> None:
    assert len({part(kind) for kind in kae.KINDS}) == len(kae.KINDS)


def test_no_two_functions_share_a_pci_id() -> None:
    ids = [identifier for kind in kae.KINDS for identifier in (kind.pf, kind.vf)]

    assert len(set(ids)) == len(ids)


def test_the_resource_and_the_label_are_named_after_the_kind() -> None:
    assert (kae.KINDS[0].resource, kae.RECIPE.kinds[0].present) == (
        "openfuyao.com/kae.hpre",
        "openfuyao.com/kae.hpre.present",
    )


@KINDS
def test_the_defaults_of_the_module_are_in_the_range_of_its_parameters(kind: kae.Kind) -> None:
    (module,) = (module for module in kae.MODULES if module.kind == kind.name)
    for name, value in (("uacce_mode", 1), ("uacce_mode", 2), ("pf_q_num", 256)):
        assert module.parameters[name]["minimum"] <= value <= module.parameters[name]["maximum"]
