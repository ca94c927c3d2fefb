"""The steps of the story in order: what is done, and what it shows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.cluster.loop import hardware
from tests.cluster.loop.story import CLUSTER, HPRE, SECRET, WORKLOAD, Story
from tests.cluster.nodes.driver_node import NAMESPACE
from tests.installer import settings

_SUBJECT = f"Try driver {hardware.NEW}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
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
    return (story.fleet.folder / "policies/policy.yaml").read_text(encoding="utf-8")


def _applied(story: Story) -> str:
    for command in (
        f"namespace {NAMESPACE}",
        f"secret generic {SECRET} -n {NAMESPACE} --from-file=username --from-file=password --from-file=ca.crt",
    ):
        story.fleet.note(f"kubectl create {command}")
    story.fleet.note(f"kubectl apply --server-side -f output/{CLUSTER}/bootstrap")
    story.follow()
    return ""


def _at_work(story: Story) -> str:
    story.wait_for_programs()
    assert settings.versions(story.hardware.machine) == {hardware.OLD}
    column = HPRE.replace(".", r"\.")
    columns = f"custom-columns=NODE:.metadata.name,HPRE:.status.allocatable.{column}"
    return story.kubectl("get", "node", story.hardware.node.name, "-o", columns)


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
    return _used(story)


def _used(story: Story) -> str:
    story.fleet.note(f"kubectl logs deployment/{WORKLOAD}")
    return story.wait_for_user()


def _canary(story: Story) -> str:
    story.fleet.branch(f"driver-{hardware.NEW}")
    story.fleet.run("kae", "bump", "kae", "--wave", "canary", "--version", hardware.NEW)
    said = story.fleet.request(f"{_SUBJECT} on the canary")
    story.sync()
    return said


def _held_back(story: Story) -> str:
    said = story.wait_for_eviction("not now")
    assert settings.versions(story.hardware.machine) == {hardware.OLD}
    assert story.users.pod(story.user) is not None
    return said


def _changed(story: Story) -> str:
    story.fleet.note("kubectl apply -f budget.yaml")
    story.set_budget(maxUnavailable=1)
    return _proved(story, hardware.NEW)


def _proved(story: Story, version: str) -> str:
    story.wait_for_driver(version)
    said = story.installer_status()
    for words in (f"Driver    {version} from prebuilt", f"The driver {version} is loaded and verified."):
        assert words in said, said
    return said


def _revert(story: Story) -> str:
    story.fleet.branch("revert")
    commit = story.fleet.ask("git", "log", "--format=%H", "--max-count=1", f"--grep=^{_SUBJECT}").strip()
    story.fleet.ask("git", "revert", "--no-edit", commit)
    story.fleet.note("git revert --no-edit COMMIT")
    said = story.fleet.merge()
    story.sync()
    return said


STEPS: Sequence[Step] = (
    Step(
        title="A project is made and pushed",
        words="`kae init` makes a repository that compiles, with the scripts of its jobs.",
        act=_project,
    ),
    Step(
        title="A policy is requested, checked, merged and compiled",
        words="The policy names a driver, a wave `canary` with the one node, and a device plugin; the cluster gets a"
        " watcher. The jobs of the request check that output/ is what the documents compile to, and say what the change"
        " does to the nodes. The job of main compiles with the newest inventory, which is empty so far.",
        act=_policy,
    ),
    Step(
        title="The engine follows the repository",
        words="A person makes the Secret with the watcher's credentials and applies the bootstrap, once. From here on"
        " the engine applies what is in git.",
        act=_applied,
    ),
    Step(
        title="The node has its driver, and offers its devices",
        words="NFD labels the node, DaemonSets put the driver installer and the device plugin there, the installer"
        " loads and verifies the driver, and the kubelet reports the devices.",
        act=_at_work,
    ),
    Step(
        title="The watcher commits the inventory, which is compiled and applied",
        words="The watcher commits to a repository that the engine does not read. The job of main takes the inventory"
        " from there, and compiles with it.",
        act=_inventory,
    ),
    Step(
        title="A Job opens a device",
        words="`kae smoke` prints a Job for each resource. A fake device has no queues, which the pod says.",
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
        words="One line of the policy changes. The review names the nodes and the pods that this disturbs.",
        act=_canary,
    ),
    Step(
        title="The workload's budget holds the change back",
        words="The installer asks the API server to evict the pod that uses a device, and is refused. The old driver"
        " stays loaded, and the pod goes on. The log of the installer has the reason:",
        act=_held_back,
    ),
    Step(
        title="The budget allows it: the pod is evicted, the driver is changed and proved",
        words="The workload's owner allows one pod to be unavailable.",
        act=_changed,
    ),
    Step(
        title="The workload has a device of the new driver",
        words="The new pod of the Deployment waited until devices were offered again.",
        act=_used,
    ),
    Step(title="Another Job opens a device", words="It opens a device of the new driver.", act=_job),
    Step(title="The cluster is as planned, with the new driver", words="`kae status` ends with 0.", act=Story.status),
    Step(
        title="The commit is reverted, which is checked, merged, compiled and applied",
        words="The jobs and the engine treat the revert as any other commit.",
        act=_revert,
    ),
    Step(
        title="The pod is evicted, the driver is changed back and proved",
        words="The budget allows one pod to be unavailable since the eleventh step.",
        act=lambda story: _proved(story, hardware.OLD),
    ),
    Step(title="The workload has a device as before", words="It is the third pod of the Deployment.", act=_used),
    Step(title="The cluster is as planned, as before", words="`kae status` ends with 0.", act=Story.status),
)
