"""Joins the parts: what the commands work with, made from a config."""

import dataclasses
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from installer import (
    approach,
    change,
    cluster,
    config,
    digests,
    leases,
    observation,
    program,
    record,
    report,
    sources,
    store,
    users,
    verdict,
    wish,
)
from installer import host as hosts
from installer.sources import build, intree, packages, prebuilt
from runtime import errors

NODE = "NODE_NAME"
"""The environment variable with the node's name: by it the host holds a Lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """Everything that a change of this host needs."""

    host: hosts.Host
    settings: config.Config
    digest: str
    """The wanted driver's."""
    api: cluster.Cluster
    right: leases.Right
    devices: users.Users
    changer: change.Changer

    def resume(self) -> None:
        """Goes on holding the Lease that an installer before this one took, if it did."""
        lease = record.read(self.host).lease
        if lease is not None:
            self.right.resume(lease)

    def report(self) -> report.Report:
        """How the host stands, and what would be done."""
        seen = observation.look(self.host, self.settings)
        judged = verdict.judge(self.settings, seen, self.digest, program.matches)
        try:
            held = self.devices.present(seen)
            steps = self.changer.plan(seen, judged, self.digest) if judged.kind is verdict.Kind.CHANGE else ()
        except errors.Failure as failure:
            # Worth a line, and no reason to hide the rest.
            held, steps = (), ()
            judged = dataclasses.replace(
                judged, reasons=(*judged.reasons, f"Nobody knows who holds a device: {failure}")
            )
        return report.report(self.settings, seen, judged, steps, held)

    def is_going(self) -> bool:
        """Whether the installer's own DaemonSet is certainly gone or going; no answer means no."""
        own = self.settings.daemon_set
        return self.api.daemon_set_is_going(own.namespace, own.name) is True

    def close(self) -> None:
        """Ends what runs beside, and the connections."""
        self.right.close()
        self.api.close()


def open_(host: hosts.Host, settings: config.Config, image: Path, kubeconfig: Path | None) -> Workshop:
    """The workshop for a host.

    Raises:
        errors.Failure: It is no host.
    """
    kernel = observation.kernel(host)
    context = sources.Context(host=host, image=image, settings=settings, kernel=kernel)
    source = _source(context)
    drivers = store.Store(context, source)
    api = cluster.Cluster(kubeconfig)
    right = leases.Right(api, settings.leases, os.environ.get(NODE, ""))
    devices = users.Users(host, settings, api)
    near = approach.Approach(host, settings, drivers, devices, right)
    brought = f"{source.fingerprint()} {digests.of_folder(image / 'opt/kae')}"
    return Workshop(
        host=host,
        settings=settings,
        digest=wish.digest(settings, kernel, brought),
        api=api,
        right=right,
        devices=devices,
        changer=change.Changer(host, settings, drivers, near),
    )


def _source(context: sources.Context) -> sources.Source:
    kinds: dict[str, Callable[[sources.Context], sources.Source]] = {
        "build": build.Build,
        "packages": packages.Packages,
        "prebuilt": prebuilt.Prebuilt,
        "inTree": intree.InTree,
    }
    return kinds[context.settings.source.name](context)
