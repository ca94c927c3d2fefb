"""Controllers for nodes without a kubelet: no node counts as lost, and no pod is bound."""

import contextlib
from collections.abc import Iterator

from tests.cluster.control import control_plane as control_planes
from tests.cluster.local import processes

_STOP_S = 20
_ALL_BUT = "--controllers=*,-node-lifecycle-controller"


@contextlib.contextmanager
def without_kubelets(plane: control_planes.ControlPlane) -> Iterator[processes.Program]:
    """Exchange the controller manager for one that leaves nodes alone, and stop the scheduler, for a while.

    Raises:
        TimedOut: One of them does not end.
    """
    usual = {program.name: program for program in plane.programs}
    manager, scheduler = usual["kube-controller-manager"], usual["kube-scheduler"]
    for program in (manager, scheduler):
        program.stop(_STOP_S)
    try:
        name = "kube-controller-manager-without-kubelets"
        with processes.Program(plane.instance, name, (*manager.command, _ALL_BUT)) as other:
            yield other
    finally:
        for program in (manager, scheduler):
            program.start()
