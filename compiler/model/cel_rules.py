"""CEL rules between the fields of one object, for the definitions that `kae schema --crd` prints.

Each rule repeats a check of `compiler.checks`, which also has the position and a hint; a sentence that both say is
worded once, as the rule of a finding or in `keywords`. Only rules on the fields of one object of bounded size are here,
as the API server refuses a rule whose cost it cannot bound.
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules

The rules use CEL of Kubernetes 1.25, which has neither optional fields (`?.`) nor quantities.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from compiler import diagnostics, kae, keywords, names


class Rule(NamedTuple):
    """A condition on an object in CEL, and the message for objects that violate it."""

    cel: str
    message: str


def _has(path: str) -> str:
    """Return the condition that a field and the objects around it are present."""
    steps = path.split(".")
    return " && ".join(f"has(self.{'.'.join(steps[: depth + 1])})" for depth in range(len(steps)))


def _any(paths: Iterable[str]) -> str:
    """Return the condition that one of the fields is present."""
    return " || ".join(f"({_has(path)})" for path in paths)


def _is(path: str, *, default: bool = False) -> str:
    """Return the condition that a switch is on; an absent switch has the default."""
    if default:
        return f"(!({_has(path)}) || self.{path})"
    return f"({_has(path)} && self.{path})"


def _equals(path: str, text: str) -> str:
    return f"({_has(path)} && self.{path} == '{text}')"


_UNAVAILABLE = Rule(
    f"!({_has('maxUnavailable')}) || "
    "(type(self.maxUnavailable) == int ? self.maxUnavailable > 0 : self.maxUnavailable != '0%')",
    "'maxUnavailable' is at least 1 or 1%, or no pod could ever be replaced.",
)
_IMAGE = Rule(
    f"!{_is('enabled', default=True)} || {_equals('repository', '')} == {_equals('version', '')}",
    "An image has a repository and a version, or neither and the whole reference as image.",
)


def _queues(kind: kae.Kind) -> Rule:
    """Return the rule that the queues of a device suffice for its physical and virtual functions."""
    wanted, kept = f"self.sriov.{kind.name}", f"self.moduleParameters['{kind.module}']"
    asks = f"{_has(f'sriov.{kind.name}')} && {wanted} > 0"
    keeps = f"has(self.moduleParameters) && '{kind.module}' in self.moduleParameters && 'pf_q_num' in {kept}"
    return Rule(
        f"!({asks} && {keeps}) || {wanted} <= {kae.QUEUES.number} - {kept}['pf_q_num']",
        f"Each virtual function of {kind.name} needs a queue that pf_q_num of {kind.module} leaves "
        f"of {kae.QUEUES.number}.",
    )


def _whole_groups(kind: kae.Kind) -> Rule:
    """Return the rule that a kind that is offered by vfio has no shares."""
    shares = f"sharing.{kind.name}"
    return Rule(
        f"!{_equals(f'mode.{kind.name}', 'vfio')} || !({_has(shares)}) || self.{shares} == 1", keywords.SHARED_GROUP
    )


def _whole_devices(kind: kae.Kind) -> Rule:
    """Return the rule that devices have no shares by the interface DRA."""
    shares = f"sharing.{kind.name}"
    return Rule(
        f"!{_equals('interface', 'DRA')} || !({_has(shares)}) || self.{shares} == 1",
        diagnostics.CODES["dra-setting"].rule,
    )


_INTERFACE = Rule(
    f"{_equals('interface', 'DRA')} ? !has(self.allocationPolicy) : !has(self.dra)",
    diagnostics.CODES["dra-setting"].rule,
)


def _one_of(*fields: str) -> Rule:
    """Return the rule that exactly one of the fields is present."""
    given = ", ".join(f"has(self.{field})" for field in fields)
    return Rule(f"[{given}].exists_one(given, given)", f"Exactly one of {', '.join(fields)} is given.")


_KINDS = " || ".join(_is(kind.switch, default=kind.enabled) for kind in kae.KINDS)
_NAME = Rule("self.name != 'rest'", "The name 'rest' is that of all nodes that no wave and no frozen group takes.")
_PARTS = ("kernelMappings", "rollout.waves", "rollout.frozen")
_COUNTS = ", ".join(f"'{kind.vf_count}'" for kind in kae.RECIPE.kinds)
_EFFECT = "A selector asks for no label that follows from what policies do."
_DEFAULT = Rule(
    f"!{_is('default')} || !has(self.nodeSelector)",
    "The default policy takes the nodes that no other matches, and has no nodeSelector.",
)
_SELECTOR = Rule(
    f"!({_has('nodeSelector.matchLabels')}) || "
    f"!self.nodeSelector.matchLabels.exists("
    f"key, key.startsWith('{kae.RECIPE.pool_prefix}') || key in [{_COUNTS}])",
    _EFFECT,
)
_RISING = Rule(
    "!has(self.waves) || "
    "self.waves.filter(wave, has(wave.percent) && !has(wave.clusters)).map(wave, wave.percent).isSorted()",
    "The percentages of waves rise.",
)
# Of a whole number, the API server compares with the whole part of `minimum` alone (MinimumNativeType).
_LEAST_SHARE = Rule("!has(self.percent) || self.percent > 0.0", "A share is at least 0.01.")
_MAPPING = (_one_of("regexp", "literal"), _NAME)
_WAVE = (_one_of("percent", "nodes", "inventorySelector"), _NAME, _LEAST_SHARE)
_FROZEN = (_one_of("nodes", "inventorySelector"), _NAME)

RULES: Mapping[str, tuple[Rule, ...]] = MappingProxyType(
    {
        "Requirement": (
            Rule(
                "!(self.operator in ['In', 'NotIn']) || (has(self.values) && size(self.values) > 0)",
                "Operators In and NotIn need at least one value.",
            ),
            Rule(
                "!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || size(self.values) == 0",
                "Operators Exists and DoesNotExist take no values.",
            ),
            Rule(
                "!(self.operator in ['Gt', 'Lt']) || "
                "(has(self.values) && size(self.values) == 1 && int(self.values[0]) >= 0)",
                "Operators Gt and Lt need exactly one integer that a label can have.",
            ),
            Rule(f"!self.key.startsWith('{kae.RECIPE.pool_prefix}') && !(self.key in [{_COUNTS}])", _EFFECT),
        ),
        "Toleration": (
            Rule(f"has(self.key) || {_equals('operator', 'Exists')}", keywords.TOLERATES_ALL),
            Rule(
                f"!{_equals('operator', 'Exists')} || !has(self.value) || self.value == ''",
                keywords.TOLERATES_ANY_VALUE,
            ),
            Rule(f"!has(self.tolerationSeconds) || {_equals('effect', 'NoExecute')}", keywords.TOLERATES_FOR_SECONDS),
        ),
        "Inject": (
            Rule(f"!has(self.librariesPath) || {_is('libraries')}", keywords.IDLE_LIBRARIES_PATH),
            Rule("!has(self.opensslSettings) || has(self.opensslConf)", keywords.IDLE_OPENSSL_SETTINGS),
        ),
        "WatcherVariable": (Rule("self.name != 'HOME'", "The variable 'HOME' is set by the compiler."),),
        "DriverVariable": (
            Rule("self.name != 'NODE_NAME'", "The variable 'NODE_NAME' is set by the compiler."),
            Rule(
                "self.name != 'INSTALL_POLICY' || (has(self.value) && self.value in ['IfNotPresent', 'Always'])",
                diagnostics.CODES["install-policy"].rule,
            ),
        ),
        "KAEPolicySpec": (
            _DEFAULT,
            Rule(
                f"!({_has('devicePlugin.deviceNodes')}) || !{_is('driver.enabled', default=True)}",
                keywords.IDLE_DEVICE_NODES,
            ),
            _SELECTOR,
        ),
        "Operator": (Rule(_KINDS, "A policy serves at least one kind of device."),),
        "DaemonSets": tuple(
            Rule(f"!has(self.labels) || !('{key}' in self.labels)", f"The label '{key}' is set by the compiler.")
            for key in names.RESERVED_LABELS
        ),
        "Driver": (
            _IMAGE,
            Rule(
                f"{_is('enabled', default=True)} || !({_any(f'sriov.{kind.name}' for kind in kae.KINDS)})",
                "Virtual functions are set up by the driver installer alone.",
            ),
            *map(_queues, kae.KINDS),
            Rule(
                f"({_has('kernelMappings')} && size(self.kernelMappings) > 0) || "
                "![has(self.image) ? self.image : '', has(self.version) ? self.version : '']"
                ".exists(part, part.contains('$'))",
                "Images are named after kernels only where there are kernelMappings.",
            ),
            Rule(
                f"!{_is('enabledCleanup')} || "
                f"![{', '.join(f'{_has(path)} && size(self.{path}) > 0' for path in _PARTS)}].exists(given, given)",
                "What cleans up when its DaemonSet goes has no pools, whose DaemonSets come and go.",
            ),
        ),
        "KernelMapping": _MAPPING,
        "Wave": _WAVE,
        "Frozen": (
            *_FROZEN,
            Rule(
                f"{_equals('state', 'Absent')} || (has(self.version) && (self.version != '' || has(self.image)))",
                "A frozen group has a version of its own; with that of the policy it would move.",
            ),
        ),
        "Rollout": (_UNAVAILABLE, _RISING),
        "StackMapping": _MAPPING,
        "StackWave": _WAVE,
        "StackFrozen": _FROZEN,
        "StackRollout": (_UNAVAILABLE, _RISING),
        "StackPlugin": (_UNAVAILABLE, _INTERFACE),
        "DevicePolicySpec": (_DEFAULT, _SELECTOR),
        "DevicePlugin": (
            *(_IMAGE, _UNAVAILABLE, _INTERFACE),
            *map(_whole_groups, kae.KINDS),
            *map(_whole_devices, kae.KINDS),
        ),
        "KAEClusterSpec": (
            Rule(
                "!has(self.kubernetesVersion) || int(self.kubernetesVersion.split('.')[1]) >= 25",
                diagnostics.CODES["kubernetes-release"].rule,
            ),
            Rule(
                f"!{_is('psa.enabled')} || {_is('namespaceManaged', default=True)}",
                "A namespace that is made elsewhere is not labelled as privileged.",
            ),
        ),
        "Nfd": (
            Rule(
                f"!{_is('enabled', default=True)} || !({_has('image.tag')}) || "
                "self.image.tag.matches('^v?0[.](16|17|18|19)([.][0-9]+)?([-+.].*)?$')",
                diagnostics.CODES["nfd-release"].rule,
            ),
        ),
        "Watcher": (
            Rule(
                f"!{_is('enabled')} || (has(self.repository) && has(self.secretName))",
                "An enabled watcher names its repository and its secret.",
            ),
        ),
        "Destination": (
            Rule("!has(self.server) || !has(self.name)", "An Argo CD destination has a server or a name, not both."),
        ),
        "Flux": (
            Rule(
                "!has(self.sourceRef) || !has(self.secretRef)",
                "A secretRef is for a GitRepository of our own, and sourceRef names another source.",
            ),
        ),
        "GitOps": (
            Rule(
                f"!{_equals('engine', 'argocd')} || !{_equals('argocd.project', 'default')}",
                "'default' is Argo CD's own project, which bootstrap/ would overwrite.",
            ),
            Rule(
                f"!{_equals('engine', 'flux')} || ({_has('flux.sourceRef')}) || !has(self.repository) || "
                "self.repository.url.matches('^(https?|ssh)://')",
                "Flux fetches from URLs with ssh://, https:// or http://.",
            ),
        ),
    }
)
"""Rules beyond the schema, by the name of the object's model."""

_GROUPS = ("Frozen", "KernelMapping", "StackFrozen", "StackMapping", "StackWave", "Wave")
_NAMED = (*_GROUPS, "DriverVariable", "LocalObjectReference", "WatcherVariable")
KEYS: Mapping[str, str] = {**dict.fromkeys(_NAMED, "name"), "Mirror": "from"}
"""The field that is unique among the items of a list, by the model of the items."""
