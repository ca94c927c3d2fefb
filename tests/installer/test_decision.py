"""Decisions about a host: every branch of INSTALL_POLICY, of the record, and of the kernel mappings."""

from typing import Any

import msgspec
import pytest

from installer.decide import decision, desired, verification
from installer.host import host_state, record
from runtime import driver_config
from tests.installer import machines, modulefiles, settings

Outcome = decision.Outcome
RIGHT, FOREIGN, WAIT, CHANGE = Outcome.RIGHT, Outcome.FOREIGN, Outcome.WAIT, Outcome.CHANGE
INSTALLED = f"The installed driver is prebuilt 2.0.1 for kernel {machines.KERNEL}"
REPLACED = "A driver that others installed is at work; the install policy is Always, so "
LOADED = "Modules are loaded (uacce, hisi_qm, hisi_hpre, hisi_sec2, hisi_zip), but no "
GONE = "No driver of recipe kae is installed, as the policy asks."
NOBODYS = record.Record()
"""The record of a host on which we installed nothing."""


def judge(current: host_state.HostState, digest: str = settings.DIGEST, **changes: Any) -> decision.Decision:
    """The verdict for a config that differs from the smallest one as said."""
    return decision.decide(settings.config(**changes), current, digest)


def host(**changes: Any) -> host_state.HostState:
    """A host with a driver at work that we did not install."""
    return settings.current(**{"record": NOBODYS} | changes)


def dead() -> dict[str, Any]:
    """Modules that are loaded and give nobody an entry."""
    return {"functions": (settings.function(entry=None),)}


def empty() -> dict[str, Any]:
    """No module, no entry."""
    return {"loaded": {}, "options": {}, "rule": False, "functions": (settings.function(entry=None, driver=None),)}


def own() -> dict[str, Any]:
    """The kernel's own modules, loaded by the boot, which serve nobody."""
    files = {name: settings.file(name, "kernel/drivers/crypto", modulefiles.IN_TREE) for name in modulefiles.DRIVER}
    return {**dead(), "files": files, "options": {}, "rule": False}


def test_our_driver_that_is_proved_is_right() -> None:
    found = judge(settings.current())

    assert (found.outcome, found.reasons) == (RIGHT, ("The driver 2.0.1 is loaded and verified.",))
    assert not found.disturbs


@pytest.mark.parametrize(
    ("policy", "state", "outcome", "reason"),
    [
        ("IfNotPresent", {}, FOREIGN, "A driver that others installed serves 3 devices; "),
        ("Always", {}, CHANGE, f"{REPLACED}it is replaced."),
        ("IfNotPresent", dead(), CHANGE, LOADED),
        ("Always", dead(), CHANGE, LOADED),
        ("IfNotPresent", empty(), CHANGE, "No driver is loaded."),
        ("Always", empty(), CHANGE, "No driver is loaded."),
    ],
    ids=["foreign-kept", "foreign-replaced", "dead", "dead-always", "none", "none-always"],
)
def test_a_host_without_our_record_is_judged_by_what_works_there(
    policy: str, state: dict[str, Any], outcome: decision.Outcome, reason: str
) -> None:
    found = judge(host(**state), install_policy=policy)

    assert (found.outcome, found.replace) == (outcome, outcome is CHANGE)
    assert found.reasons[0].startswith(reason)


def test_a_foreign_driver_is_kept_whatever_its_parameters_and_permissions_are() -> None:
    loaded = {name: settings.module(name, version="1.0", parameters={}) for name in modulefiles.DRIVER}

    assert judge(host(loaded=loaded, options={}, rule=False), sriov={"hpre": 4}).outcome is FOREIGN


@pytest.mark.parametrize("policy", ["IfNotPresent", "Always"])
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"driver_version": "2.0.2"}, f"; the policy asks for prebuilt 2.0.2 for kernel {machines.KERNEL}."),
        ({"source": settings.BUILD}, f"; the policy asks for build 2.0.1 for kernel {machines.KERNEL}."),
        ({}, " too, but its content is another one."),
    ],
    ids=["version", "source", "content"],
)
def test_ours_follows_the_policy_under_each_install_policy(policy: str, changes: dict[str, Any], reason: str) -> None:
    found = judge(settings.current(), "another", install_policy=policy, **changes)

    assert (found.outcome, found.reasons, found.replace, found.disturbs) == (
        CHANGE,
        (f"{INSTALLED}{reason}",),
        True,
        True,
    )


def test_ours_for_another_kernel_is_replaced_after_a_boot() -> None:
    found = judge(settings.current(kernel=settings.OTHER_KERNEL), "another")

    assert found.reasons[0].endswith(f"the policy asks for prebuilt 2.0.1 for kernel {settings.OTHER_KERNEL}.")


@pytest.mark.parametrize("state", ["Present", "Absent"])
def test_a_change_that_did_not_end_is_ended_before_anything_else(state: str) -> None:
    begun = msgspec.structs.replace(settings.current().record, change=record.Change())

    found = judge(settings.current(record=begun), state=state)

    assert (found.outcome, found.replace) == (CHANGE, True)
    assert found.reasons == ("A change of the driver was begun here and did not end.",)


@pytest.mark.parametrize(
    ("changes", "asked", "mended_by"),
    [
        ({"files": {}}, {}, "replace"),
        ({"loaded": {}}, {}, "reload"),
        (dead(), {}, "reload"),
        ({}, {"sriov": {"hpre": 4}}, "disturbance"),
        ({"rule": False}, {}, "nothing else"),
        ({"options": {}}, {}, "nothing else"),
    ],
    ids=["files", "modules", "entries", "virtual-functions", "rule", "options"],
)
def test_a_fault_of_ours_is_mended_with_little(changes: dict[str, Any], asked: dict[str, Any], mended_by: str) -> None:
    found = judge(settings.current(**changes), **asked)

    assert found.outcome is CHANGE
    assert found.reasons == tuple(fault.text for fault in found.faults)
    assert found.replace is (mended_by == "replace")
    assert found.reload is (mended_by in ("replace", "reload"))
    assert found.disturbs is (mended_by != "nothing else")


@pytest.mark.parametrize("digest", [settings.DIGEST, "another"], ids=["as-it-is", "with-an-upgrade"])
def test_what_the_devices_cannot_have_is_the_last_reason_and_disturbs_nobody(digest: str) -> None:
    functions, options = (settings.function(total_vfs=7),), desired.options(settings.config(sriov={"hpre": 8}))

    found = judge(settings.current(functions=functions, options=options), digest, sriov={"hpre": 8})

    assert (found.outcome, found.disturbs, len(found.impossible)) == (CHANGE, False, 1)
    assert found.reasons[-1] == found.impossible[0]
    assert len(found.reasons) == 2


@pytest.mark.parametrize(
    ("current", "asked"),
    [
        (host(functions=(settings.function(total_vfs=0),)), {}),
        (settings.current(functions=(settings.function(total_vfs=0),)), {"state": "Absent"}),
    ],
    ids=["foreign", "absent"],
)
def test_what_is_not_applied_is_never_impossible(current: host_state.HostState, asked: dict[str, Any]) -> None:
    assert judge(current, sriov={"hpre": 8}, **asked).impossible == ()


def test_other_parameters_reload_ours_and_replace_no_file() -> None:
    found = judge(settings.current(), module_parameters=settings.parameters(uacce_mode=2, pf_q_num=512))

    assert (found.outcome, found.replace, found.reload) == (CHANGE, False, True)
    assert {fault.sort for fault in found.faults} == {verification.Sort.LOAD, verification.Sort.NODES}
    assert found.reasons[0] == "Parameter pf_q_num of module hisi_hpre is 256, not 512."


def test_absent_takes_ours_away() -> None:
    found = judge(settings.current(), state="Absent")

    assert (found.outcome, found.replace) == (CHANGE, True)
    assert found.reasons == ("The driver 2.0.1, which we installed, is to go.",)


@pytest.mark.parametrize(
    ("policy", "state", "outcome", "reason"),
    [
        ("IfNotPresent", {}, FOREIGN, "A driver that others installed is at work; we remove only what we installed."),
        ("Always", {}, CHANGE, f"{REPLACED}it is unloaded."),
        ("IfNotPresent", dead() | {"rule": False}, RIGHT, GONE),
        ("Always", dead() | {"rule": False}, CHANGE, REPLACED),
        ("Always", own(), RIGHT, GONE),
        ("Always", own() | {"functions": (settings.function(),)}, CHANGE, REPLACED),
        ("Always", dead() | {"files": {}, "rule": False}, RIGHT, GONE),
        ("IfNotPresent", empty(), RIGHT, GONE),
        ("Always", empty(), RIGHT, GONE),
        ("IfNotPresent", empty() | {"has_rule": True}, CHANGE, "'/etc/udev/rules.d/70-kae.rules' was left behind."),
        ("IfNotPresent", empty() | {"changing": True}, CHANGE, "'/run/kae/driver-changing' was left behind."),
    ],
    ids=[
        *("foreign", "foreign-always", "dead", "dead-always", "own-always", "own-at-work-always", "fileless-always"),
        *("none", "none-always", "rule", "changing"),
    ],
)
def test_absent_without_our_record_leaves_what_is_not_ours_unless_told_otherwise(
    policy: str, state: dict[str, Any], outcome: decision.Outcome, reason: str
) -> None:
    found = judge(host(**state), state="Absent", install_policy=policy)

    assert found.outcome is outcome
    assert found.reasons[0].startswith(reason)


@pytest.mark.parametrize(
    ("kernels", "reason"),
    [
        (driver_config.Kernels(pattern=r"oe2203sp4"), None),
        (driver_config.Kernels(pattern=r"^5\.10\..*aarch64$"), None),
        (driver_config.Kernels(pattern=r"5\.10", unless=(r"^6\.", r"x86_64$")), None),
        (driver_config.Kernels(pattern=r"^6\.6\."), r"does not match '^6\.6\.'"),
        (driver_config.Kernels(pattern=r"^216"), "does not match '^216'"),
        (driver_config.Kernels(pattern=r"5\.10", unless=(r"^6\.", r"sp4\.")), r"is another pool's ('sp4\.')"),
        (driver_config.Kernels(pattern=r"^6\.6\.", unless=(r"sp4\.",)), r"is another pool's ('sp4\.')"),
    ],
    ids=["part", "whole", "unless-of-others", "other", "anchored", "earlier-mapping", "earlier-mapping-and-other"],
)
def test_the_running_kernel_has_to_be_the_pools(kernels: driver_config.Kernels, reason: str | None) -> None:
    found = decision.decide(settings.config(kernels=kernels), settings.current(), settings.DIGEST)

    if reason is None:
        assert found.outcome is RIGHT
        return
    assert (found.outcome, found.disturbs) == (WAIT, False)
    assert found.reasons[0].startswith(f"The running kernel {machines.KERNEL} {reason}: the node's labels are older ")


@pytest.mark.parametrize(
    ("system", "versions", "wanted"),
    [
        ("openEuler", (), None),
        ("openEuler", ("20.03", "22.03"), None),
        ("openEuler", ("20.03", "24.03"), "openEuler 20.03 or openEuler 24.03"),
        ("ubuntu", ("22.03",), "ubuntu 22.03"),
        ("ubuntu", (), "ubuntu"),
    ],
)
def test_the_operating_system_has_to_be_the_pools(system: str, versions: tuple[str, ...], wanted: str | None) -> None:
    kernels = driver_config.Kernels(pattern=".", system=system, versions=versions)

    found = decision.decide(settings.config(kernels=kernels), settings.current(), settings.DIGEST)

    if wanted is None:
        assert found.outcome is RIGHT
        return
    assert (found.outcome, found.disturbs) == (WAIT, False)
    assert found.reasons[0].startswith(f"The operating system openEuler 22.03 is not {wanted}: the node's labels are ")


@pytest.mark.parametrize("kernel", ["5.10.0-1.oe2203+", "5.10.0-1.oe2203", "5.10.0~1.oe2203"])
def test_the_kernel_is_compared_as_nfd_reports_it(kernel: str) -> None:
    kernels = driver_config.Kernels(pattern=r"^5\.10\.0[-_]1\.oe2203$")

    found = decision.decide(settings.config(kernels=kernels), settings.current(kernel=kernel), settings.DIGEST)

    assert found.outcome is not WAIT


@pytest.mark.parametrize("current", [settings.current(), host(), host(**empty())], ids=["ours", "foreign", "none"])
@pytest.mark.parametrize("state", ["Present", "Absent"])
def test_nothing_is_touched_while_the_kernel_is_another_pools(current: host_state.HostState, state: str) -> None:
    kernels = driver_config.Kernels(pattern="^6")

    found = decision.decide(settings.config(kernels=kernels, state=state), current, "another")

    assert (found.outcome, found.faults, found.replace) == (WAIT, (), False)
