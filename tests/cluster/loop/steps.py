"""The steps of the story in order: what is done, and what it shows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.cluster.loop import hardware
from tests.cluster.loop.story import CLUSTER, HPRE, Story

_SUBJECT = f"Try driver {hardware.NEW}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of the story."""

    title: str
    words: str
    """What a reader has to know, for docs/tour.md."""
    act: Callable[[Story], str]
    """Returns what there is to see at its end; may be empty."""


def _project(story: Story) -> str:
    story.fleet.begin("--cluster", CLUSTER, "--registry", "localhost")
    return ""


def _policy(story: Story) -> str:
    story.fleet.branch("policy")
    story.write_policy()
    story.fleet.request("Serve HPRE devices")
    return str(story.fleet.bare("log", "--format=%s", "--reverse", "main"))


def _applied(story: Story) -> str:
    story.fleet.note(f"kubectl apply --server-side -f output/{CLUSTER}/bootstrap")
    story.follow()
    return ""


def _at_work(story: Story) -> str:
    story.wait_for_programs()
    assert story.hardware.versions() == {hardware.OLD}
    return f"{HPRE}: {story.hardware.node.allocatable(HPRE)}"


def _inventory(story: Story) -> str:
    subject = story.wait_for_inventory()
    story.fleet.compile()
    story.sync()
    return subject


def _job(story: Story) -> str:
    said = story.smoke()
    assert "was opened" in said, said
    return said


def _workload(story: Story) -> str:
    story.fleet.note("kubectl apply -f workload.yaml")
    story.use()
    return story.wait_for_user()


def _canary(story: Story) -> str:
    story.fleet.branch(f"driver-{hardware.NEW}")
    story.fleet.run("kae", "bump", "kae", "--wave", "canary", "--version", hardware.NEW)
    said = story.fleet.request(f"{_SUBJECT} on the canary")
    story.sync()
    return said


def _held_back(story: Story) -> str:
    said = story.wait_for_refusal()
    assert story.hardware.versions() == {hardware.OLD}
    assert story.users.pod(story.user) is not None
    return said


def _changed(story: Story) -> str:
    story.fleet.note("kubectl apply -f budget.yaml")
    story.set_budget(maxUnavailable=1)
    story.wait_for_driver(hardware.NEW)
    said = story.installer("status")
    assert f"Driver    {hardware.NEW} from prebuilt" in said, said
    return said


def _revert(story: Story) -> str:
    story.fleet.branch("revert")
    commit = story.fleet.ask("git", "log", "--format=%H", "--max-count=1", f"--grep=^{_SUBJECT}").strip()
    story.fleet.ask("git", "revert", "--no-edit", commit)
    story.fleet.note("git revert --no-edit COMMIT")
    said = story.fleet.merge()
    story.sync()
    return said


def _changed_back(story: Story) -> str:
    story.wait_for_driver(hardware.OLD)
    return story.installer("status")


STEPS: Sequence[Step] = (
    Step(
        title="A project is made and pushed",
        words="`kae init` makes a repository that compiles, with its jobs. The git host takes it.",
        act=_project,
    ),
    Step(
        title="A policy is requested, checked, merged and compiled",
        words="The policy names a driver with a wave `canary`, a device plugin and a watcher. The jobs of the request"
        " check that output/ is what the documents compile to, and say what it does to the nodes; the job of main"
        " compiles with the newest inventory, which is empty so far.",
        act=_policy,
    ),
    Step(
        title="The engine follows the repository",
        words="The bootstrap is applied once, by a person. From here on nobody applies anything.",
        act=_applied,
    ),
    Step(
        title="The node has its driver, and offers its devices",
        words="NFD labels the node, DaemonSets put the driver installer and the device plugin there, the installer"
        " loads and proves the driver, and the kubelet tells of the devices.",
        act=_at_work,
    ),
    Step(
        title="The watcher commits the inventory, which is compiled and applied",
        words="The commit is the watcher's, in a repository that the engine does not apply. The job of main takes its"
        " file over.",
        act=_inventory,
    ),
    Step(
        title="A Job opens a device",
        words="`kae smoke` prints it. The fake device has no queues, which the pod says.",
        act=_job,
    ),
    Step(
        title="A workload uses a device",
        words=f"A Deployment of one pod that asks for {HPRE}, and a disruption budget that lets nobody evict it.",
        act=_workload,
    ),
    Step(title="The cluster is as planned", words="`kae status` ends with 0.", act=Story.status),
    Step(
        title="A canary gets another driver by a commit, which is checked, merged, compiled and applied",
        words="One line of the policy. The review says whom it disturbs.",
        act=_canary,
    ),
    Step(
        title="The workload's budget holds the change back",
        words="The installer wants the device's user to be evicted, and the API server refuses; the old driver stays"
        " loaded, and the pod goes on. The installer says on whom it waits.",
        act=_held_back,
    ),
    Step(
        title="The budget allows it: the pod is evicted, the driver is changed and proved",
        words="The workload's owner lets one pod be unavailable.",
        act=_changed,
    ),
    Step(
        title="The workload has a device of the new driver",
        words="The pod's successor had to wait until devices were offered again.",
        act=Story.wait_for_user,
    ),
    Step(title="Another Job opens a device", words="As before.", act=_job),
    Step(title="The cluster is as planned, with the new driver", words="`kae status` ends with 0.", act=Story.status),
    Step(
        title="The commit is reverted, which is checked, merged, compiled and applied",
        words="The way back is the way there.",
        act=_revert,
    ),
    Step(
        title="The pod is evicted, the driver is changed back and proved",
        words="The budget allows it by now.",
        act=_changed_back,
    ),
    Step(
        title="The workload has a device as before",
        words="It is the third pod of the Deployment.",
        act=Story.wait_for_user,
    ),
    Step(title="The cluster is as planned, as before", words="`kae status` ends with 0.", act=Story.status),
)
