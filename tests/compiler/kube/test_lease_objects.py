"""Leases are read from objects, and written as objects."""

from compiler.kube import lease_objects


def test_a_lease_without_a_spec_is_free() -> None:
    lease = lease_objects.parse({"metadata": {"name": "kae-driver-tls-1"}})

    assert (lease.holder, lease.duration_s) == ("", 0)
