"""The commands on a cluster that runs: its status, a support bundle of it, and Jobs that try its devices."""

from compiler.cli import options


def status(commands: options.Commands) -> None:
    """Add `kae status`."""
    command = options.command(
        commands,
        "status",
        "compare a live cluster with the plan and with output/",
        "kae status --cluster east",
        "kae status --cluster east --kubeconfig ~/.kube/config --context east-admin -o json",
    )
    options.sources(command)
    options.strict(command)
    options.answer(command)
    options.quiet(command)
    options.access(command)
    command.add_argument("--output-dir", metavar="DIR", help="compare with DIR instead of output/")
    command.renamed = {**command.renamed, "--output": options.OUTPUT_FOLDER}


def support_bundle(commands: options.Commands) -> None:
    """Add `kae support-bundle`."""
    command = options.command(
        commands,
        "support-bundle",
        "collect what a report of a fault needs, without secrets: status, plan, logs, events, what the nodes say",
        "kae support-bundle --cluster east -o ../east.tar.gz",
        "kae support-bundle --cluster east --node kp920-rack1-03 --kubeconfig ~/.kube/config -o ../east.tar.gz",
    )
    options.sources(command)
    options.access(command)
    command.add_argument(
        "-o",
        "--output-file",
        dest="target",
        required=True,
        metavar="FILE",
        help="the archive to make; it may not exist",
    )
    command.add_argument(
        "--node",
        action="append",
        default=[],
        metavar="NODE",
        help="the logs and answers of this node, instead of those of 20 nodes, those not ready first; repeatable",
    )


def smoke(commands: options.Commands) -> None:
    """Add `kae smoke`."""
    command = options.command(
        commands,
        "smoke",
        "print a Job for each resource of a cluster, whose pod opens a device and starts a queue",
        "kae smoke --cluster east | kubectl apply -f -",
        "kae smoke --cluster east --node kp920-rack1-03 | kubectl apply -f -",
    )
    options.sources(command)
    command.add_argument(
        "--node", action="append", default=[], metavar="NODE", help="a Job for each resource of this node; repeatable"
    )


ALL = (status, support_bundle, smoke)
