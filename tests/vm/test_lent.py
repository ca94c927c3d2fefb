"""A virtual function that another driver has, as for a virtual machine or a program of its own.

This kernel has no vfio without an IOMMU, and QEMU's IOMMU does not know the buses of software; its uio_pci_generic is
bound in the same way.
"""

from tests.vm import host

LENT = "0001:75:00.2"


def test_a_virtual_function_of_another_driver_is_left_alone(shared: host.Host) -> None:
    assert shared.install("2.0.1", sriov={"zip": 4}).state == "Ready"
    device = f"/sys/bus/pci/devices/{LENT}"
    shared.guest.run(f"modprobe uio_pci_generic && echo uio_pci_generic >{device}/driver_override")
    shared.guest.run(f"echo {LENT} >{device}/driver/unbind && echo {LENT} >/sys/bus/pci/drivers_probe")

    same = shared.install("2.0.1", sriov={"zip": 4})
    upgrade = shared.install("2.0.2", sriov={"zip": 4})
    fewer = shared.install("2.0.1", sriov={"zip": 2})
    removed = shared.command("remove")

    assert same.state == "Ready", same
    assert [said.state for said in (upgrade, fewer)] == ["Queued"] * 2, (upgrade, fewer)
    assert removed.code == 3, removed
    assert shared.guest.run(f"readlink {device}/driver").strip().endswith("/uio_pci_generic")
    assert shared.guest.run(f"cat {device}/physfn/sriov_numvfs").strip() == "4"
    assert set(shared.loaded().values()) == {"2.0.1"}

    shared.guest.run(f"echo {LENT} >{device}/driver/unbind")
    assert shared.install("2.0.2", sriov={"zip": 4}).state == "Ready"
