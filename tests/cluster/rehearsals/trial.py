"""A trial: `kae rehearse` of two random commits, on a control plane that the trials of a process share."""

import contextlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from compiler.rehearsal import programs as own
from tests import in_process
from tests.cluster.local import programs
from tests.property import campaign
from tests.property.revision_pairs import judge
from tests.property.revision_pairs import trial as pairs


def running() -> contextlib.AbstractContextManager[Path]:
    """A control plane of `kae rehearse`, by its kubeconfig."""
    return own.running(own.found(str(programs.folder())))


def cluster_of(made: pairs.Pair, seed: int) -> str:
    """Return one cluster, of those whose pods change where there is one: each takes half a minute on a busy machine."""
    every = sorted({**made.before, **made.after})
    sides = {name: [side.get(name, judge.NOTHING) for side in (made.before, made.after)] for name in every}
    changing = [name for name, both in sides.items() if judge.pods(*both)]
    chosen = changing or every
    return chosen[seed // 2 % len(chosen)]


def rehearsed(kubeconfig: Path, repository: Path, *options: str) -> in_process.Answer:
    """Rehearse the last commit on a control plane that runs, as if the command had started it: that takes long."""
    with mock.patch.object(own, "running", lambda _: contextlib.nullcontext(kubeconfig)):
        folder = str(programs.folder())
        return in_process.kae(repository, "rehearse", "HEAD~1", "--to", "HEAD", "--programs", folder, *options)


def trial(kubeconfig: Path, seed: int, folder: Path) -> campaign.Result:
    """Make two commits in an empty folder, and rehearse the second."""
    made = pairs.pair(seed, folder)
    if made is None:
        return campaign.Result(seed=seed, faults=["no edit compiles"])
    answer = rehearsed(kubeconfig, folder / "repository", "-o", "json", "--cluster", cluster_of(made, seed))
    if answer.code not in (0, 4):
        return campaign.Result(seed=seed, acts=tuple(made.sorts), faults=[answer.err])
    said = json.loads(answer.out)
    counts = Counter(made.sorts)
    for cluster in said["clusters"]:
        counts.update(["clusters"])
        for row in cluster["pods"]:
            counts[f"pods {row['fate']}"] += 1 if row["rehearsed"] == "all" else len(row["rehearsed"])
    return campaign.Result(seed=seed, acts=tuple(made.sorts), counts=counts, faults=[*differences(said)])


def differences(said: Any) -> Iterator[str]:
    for cluster in said["clusters"]:
        name = cluster["name"]
        yield from (f"{name}: refused {text}" for text in cluster["refused"])
        if cluster["halted"]:
            yield f"{name}: {cluster['halted']} does not get done"
        for row in cluster["pods"]:
            if not row["equal"]:
                what = f"{name}: {row['kind']} {row['name']} {row['fate']}"
                yield f"{what}: foretold {row['foretold']}, rehearsed {row['rehearsed']}"
