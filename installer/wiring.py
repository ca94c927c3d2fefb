"""Create the parts that the commands work with, from a config."""

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import structs

from installer import loop, sources, store
from installer.change import prepare, transaction
from installer.decide import decision, desired
from installer.drain import cluster, device_holders, device_users, leases
from installer.host import chroot, digests, host_state, record
from installer.report import driver_state, report
from installer.sources import build, packages, prebuilt
from runtime import driver_config, errors

NODE = "NODE_NAME"
"""The environment variable with the node's name, in which the host holds a Lease."""


class Folders(msgspec.Struct, frozen=True):
    """The folders that the options name."""

    image: Path
    """The root of the image that contains the driver."""
    payloads: Path = Path("/payload")
    kubelet: Path = device_holders.KUBELET
    """The kubelet's root folder on the host."""


class Wiring:
    """The parts that a change of this host needs."""

    def __init__(
        self,
        host: chroot.Host,
        settings: driver_config.Config,
        folders: Folders,
        kubeconfig: Path | None,
    ) -> None:
        """Create the parts for a host.

        Raises:
            errors.Failure: The folder is no host, or the image cannot be read.
        """
        kernel = host_state.kernel(host)
        self.host, self.settings = host, settings
        self._context = sources.Context(
            host=host, image=folders.image, settings=settings, kernel=kernel, payloads=folders.payloads
        )
        source = _source(self._context)
        drivers = store.Store(self._context, source)
        self._api = cluster.Cluster(kubeconfig)
        self.claim = leases.Claim(self._api, settings.leases, os.environ.get(NODE, ""))
        self._devices = device_users.DeviceUsers(host, settings, self._api, folders.kubelet)
        preparation = prepare.Preparation(host, settings, drivers, self._devices, self.claim)
        self.changer = transaction.Changer(host, settings, drivers, preparation)
        brought = [source.fingerprint()]
        for part, tops in self._context.brought.items():
            brought += [f"{part} {digests.of_folder(top)}".strip() for top in tops]
        self.digest = desired.digest(settings, kernel, " ".join(brought))
        """The digest of the desired driver."""
        self.published = driver_state.DriverState()
        self.loop = loop.Loop(host, settings, self.changer, self.digest, self.published)

    def resume(self) -> None:
        """Continue to hold the Lease that a previous installer took, if there is one."""
        lease = record.read(self.host).lease
        if lease is not None:
            self.claim.resume(lease)

    def report(self) -> report.Report:
        """Return the state of the host, and the steps of a change."""
        current = host_state.read(self.host, self.settings)
        decided = decision.decide(self.settings, current, self.digest)
        try:
            held = self._devices.present(current)
            changes = decided.outcome is decision.Outcome.CHANGE
            steps = self.changer.plan(current, decided) if changes else ()
        except errors.Failure as failure:
            # The rest of the report is still worth showing.
            held, steps = (), ()
            reasons = (*decided.reasons, f"The device holders are unknown: {failure}")
            decided = structs.replace(decided, reasons=reasons)
        return report.Report(
            settings=self.settings,
            current=current,
            decided=decided,
            steps=steps,
            holders=held,
            unserved=tuple(_unserved(self._context)),
            others=tuple(_others(self.host, self.settings)),
        )

    def is_going(self) -> bool:
        """Return whether the installer's own DaemonSet is known to be deleted; False without an answer."""
        own = self.settings.daemon_set
        return self._api.daemon_set_is_going(own.namespace, own.name) is True

    def close(self) -> None:
        """End the renewal of the Lease, and the connections."""
        self.claim.close()
        self._api.close()


def _others(host: chroot.Host, settings: driver_config.Config) -> Iterator[str]:
    """Return sentences about the drivers that the installers of other recipes have put on the host."""
    for recipe, driver in record.every(host).items():
        if recipe != settings.recipe:
            yield f"{recipe}: {driver.version} from {driver.source}." if driver else f"{recipe}: its record is damaged."


def _unserved(context: sources.Context) -> Iterator[str]:
    """Return sentences about the installed kernels for which this pool may have no driver once the node boots them."""
    settings = context.settings
    for folder in sorted(context.host.path("/lib/modules").glob("*/kernel")):
        kernel = folder.parent.name
        ours = settings.state == "Present" and decision.other_pool(settings, kernel) is None
        if not ours or kernel == context.kernel:
            continue
        if lacking := _source(structs.replace(context, kernel=kernel)).lacks():
            yield f"Kernel {kernel} is installed, too, and {lacking}: see to it before the node boots it."


def _source(context: sources.Context) -> sources.Source:
    stated = context.settings.source
    if stated.build is not None:
        return build.Build(context, stated.build)
    if stated.packages is not None:
        return packages.Packages(context, stated.packages)
    return prebuilt.Prebuilt(context) if stated.prebuilt is not None else prebuilt.InTree(context)
