"""A program of a recipe: a vendor's own pod, as Kubernetes has it, without what the compiler itself decides."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, JsonValue

from compiler import keywords
from compiler.fleet import forms
from compiler.model.base import Model

LONGEST = 65536
"""The most characters of a text."""

_CONDITION: dict[str, JsonValue] = {
    "type": ["boolean", "object", "string"],
    "pattern": f"^{keywords.REFERENCE}$",
    "minProperties": 1,
    "additionalProperties": {
        "type": ["array", "boolean", "integer", "null", "string"],
        "minItems": 1,
        "maxItems": 64,
        "items": {
            "type": ["boolean", "integer", "null", "string"],
            "maxLength": 4096,
            **forms.form("a value of the parameter, or null where it is not set"),
        },
        "maxLength": 4096,
        **forms.form("a value of the parameter, several in a list, or null where it is not set"),
    },
    **forms.form("a parameter, such as ${values.name}, or a mapping of parameters to their values"),
}
_WHEN: dict[str, JsonValue] = {keywords.SHARED: "Condition"}
_CHOSEN = ", or {when: …, value: …}"


def entry(kind: str, words: str, *, is_choice: bool = True, **own: JsonValue) -> Any:
    """Return a field that may have a reference, or a value under a condition; `kind` is its type."""
    is_text = kind == "string"
    form = words + ("" if is_text else keywords.OR_PARAMETER)
    kinds: JsonValue = kind if is_text else [kind, "string"]
    value: dict[str, JsonValue] = {"type": kinds, **own, **forms.form(form)}
    if not is_text:
        value.setdefault("pattern", f"^{keywords.REFERENCE}$")
    if not is_choice:
        return Field(json_schema_extra=value)
    return Field(
        json_schema_extra={
            **value,
            "type": [*sorted({kind, "object", "string"})],
            "properties": {"when": _WHEN, "value": value},
            "required": ["when", "value"],
            "additionalProperties": False,
            **forms.form(form + _CHOSEN),
        }
    )


def _text(words: str = "a text", longest: int = 4096, *, is_choice: bool = True, **own: JsonValue) -> Any:
    return entry("string", words, is_choice=is_choice, maxLength=longest, **own)


def _number(least: int, most: int, *, is_choice: bool = True) -> Any:
    words = f"a whole number from {least} to {most}"
    return entry("integer", words, is_choice=is_choice, minimum=least, maximum=most)


def _texts(words: str, item: JsonValue) -> Any:
    return entry("array", words, maxItems=256, items=item)


_SWITCH = Field(json_schema_extra={keywords.SHARED: "Switch"})
_PATH = r"^/[^\x00-\x1f\x7f]*$"
_TEXT: JsonValue = {"type": "string", "maxLength": 4096}
_ARGUMENT: dict[str, JsonValue] = {
    "type": ["object", "string"],
    "maxLength": 4096,
    "properties": {
        "when": _WHEN,
        "value": {"type": ["array", "string"], "maxLength": 4096, "items": _TEXT, **forms.form("a text or a list")},
    },
    "required": ["when", "value"],
    "additionalProperties": False,
    **forms.form("a text, or {when: …, value: …}"),
}
_ARGUMENTS = Field(json_schema_extra={keywords.SHARED: "Arguments"})
_CAPABILITIES = _texts(
    "a list of capabilities",
    {"type": "string", "pattern": "^[A-Z_]{1,40}$", **forms.form("a capability, such as SYS_ADMIN")},
)
SHARED: dict[str, Any] = {
    "Arguments": _texts("a list of texts", _ARGUMENT).json_schema_extra,
    "Command": entry("array", "a list of texts", is_choice=False, maxItems=256, items=_ARGUMENT).json_schema_extra,
    "Condition": _CONDITION,
    "Switch": entry("boolean", "true or false").json_schema_extra,
}
"""Schemas that many fields have, by their names in `$defs`."""
_FIELD = (
    r"^(metadata\.(name|namespace|uid|labels\['[^']{1,317}'\])|"
    r"spec\.(nodeName|serviceAccountName)|status\.(hostIPs?|podIPs?))$"
)
_PORT_WORDS = "a port, or the name of one"
_PORT = Field(
    json_schema_extra={
        "type": ["integer", "string"],
        "minimum": 1,
        "maximum": 65535,
        "maxLength": 63,
        **forms.form(_PORT_WORDS + keywords.OR_PARAMETER),
    }
)

Name = Annotated[str, forms.text("[a-z0-9]([-a-z0-9]*[a-z0-9])?", 63, "a name of lower-case letters, digits and '-'")]
ImageName = Annotated[
    str,
    forms.text(
        "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
        20,
        "the name of an image in spec.images, by which a policy and a mirror can change it",
    ),
]
ProgramName = Annotated[
    str, forms.text("[a-z][a-z0-9]*", 15, "a name of at most 15 lower-case letters and digits, with a letter first")
]
FileName = Annotated[str, Field(min_length=1, max_length=200)]
Condition = Annotated[Any, Field(json_schema_extra=_WHEN)]


class FieldRef(Model):
    """A field of the pod."""

    fieldPath: Annotated[str, forms.Keywords(pattern=_FIELD, **forms.form("a field of the pod, such as spec.nodeName"))]
    """Its path."""


class ResourceRef(Model):
    """What a container asks for or is held to."""

    containerName: Name | None = None
    """The container; absent: this one."""
    resource: Annotated[str, Field(max_length=100)]
    """Such as limits.memory."""
    divisor: forms.Quantity | None = None
    """The unit."""


class EnvSource(Model):
    """Where the value of a variable comes from."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    fieldRef: FieldRef | None = None
    """A field of the pod."""
    resourceFieldRef: ResourceRef | None = None
    """A resource of a container."""


class ProgramVariable(Model):
    """A variable of a container; it is not there where its value is not."""

    name: Annotated[str, forms.text(r"[-._a-zA-Z][-._a-zA-Z0-9]*", 200, "the name of an environment variable")]
    """The variable."""
    value: Annotated[Any, _text(is_choice=False, longest=LONGEST)] = None
    """Its value."""
    valueFrom: EnvSource | None = None
    """Where it comes from."""
    when: Condition = None
    """Only where this holds."""


class ProgramMount(Model):
    """A volume in a container."""

    name: Name
    """The volume."""
    mountPath: Annotated[Any, _text("an absolute path", 1024, is_choice=False, pattern=_PATH)]
    """The path in the container."""
    readOnly: Annotated[Any, _SWITCH] = None
    """The container cannot write there."""
    subPath: Annotated[Any, _text("a path", 1024)] = None
    """A path in the volume."""
    mountPropagation: Literal["None", "HostToContainer"] | None = None
    """Whether later mounts of the host appear."""
    when: Condition = None
    """Only where this holds."""


class ProgramPort(Model):
    """A port of a container."""

    name: Name | None = None
    """Its name."""
    containerPort: Annotated[Any, _number(1, 65535, is_choice=False)]
    """The port on the pod's own address."""
    protocol: Literal["TCP", "UDP"] | None = None
    """Absent: TCP."""


class Exec(Model):
    """A command in a container."""

    command: Annotated[Any, Field(json_schema_extra={keywords.SHARED: "Command"})]
    """The program and its arguments."""


class HttpGet(Model):
    """A request to the pod."""

    path: Annotated[Any, _text("a path", 1024)] = None
    """Of the URL."""
    port: Annotated[Any, _PORT]
    """On the pod's own address."""
    scheme: Literal["HTTP", "HTTPS"] | None = None
    """Absent: HTTP."""


class TcpSocket(Model):
    """A connection to the pod."""

    port: Annotated[Any, _PORT]
    """On the pod's own address."""


class Grpc(Model):
    """A call of gRPC's health checks."""

    port: Annotated[Any, _number(1, 65535, is_choice=False)]
    """On the pod's own address."""
    service: Annotated[Any, _text("a text", 200)] = None
    """The service."""


class Probe(Model):
    """A question whether a container is well."""

    exec: Exec | None = None
    """A command."""
    httpGet: HttpGet | None = None
    """A request."""
    tcpSocket: TcpSocket | None = None
    """A connection."""
    grpc: Grpc | None = None
    """A call."""
    initialDelaySeconds: Annotated[Any, _number(0, 86400)] = None
    """Before the first one."""
    periodSeconds: Annotated[Any, _number(1, 86400)] = None
    """From one to the next."""
    timeoutSeconds: Annotated[Any, _number(1, 3600)] = None
    """For an answer."""
    successThreshold: Annotated[Any, _number(1, 100)] = None
    """Good answers in a row."""
    failureThreshold: Annotated[Any, _number(1, 1000)] = None
    """Bad answers in a row."""


class Hook(Model):
    """What runs at an end of a container's life."""

    exec: Exec | None = None
    """A command."""


class Lifecycle(Model):
    """What runs as a container starts and ends."""

    postStart: Hook | None = None
    """After its start."""
    preStop: Hook | None = None
    """Before its end."""


class SeccompProfile(Model):
    """A filter of system calls."""

    type: Literal["RuntimeDefault"]
    """The one of the runtime."""


class AppArmorProfile(Model):
    """A profile of AppArmor."""

    type: Literal["RuntimeDefault"]
    """The one of the runtime."""


class SeLinuxOptions(Model):
    """A label of SELinux."""

    user: Annotated[Any, _text("a text", 100)] = None
    """Its user."""
    role: Annotated[Any, _text("a text", 100)] = None
    """Its role."""
    type: Annotated[Any, _text("a text", 100)] = None
    """Its type."""
    level: Annotated[Any, _text("a text", 100)] = None
    """Its level."""


class PodSecurity(Model):
    """What all containers of a pod may do."""

    runAsUser: Annotated[Any, _number(0, 2147483647)] = None
    """The user."""
    runAsGroup: Annotated[Any, _number(0, 2147483647)] = None
    """The group."""
    runAsNonRoot: Annotated[Any, _SWITCH] = None
    """Refuse root."""
    seccompProfile: SeccompProfile | None = None
    """The filter of system calls."""
    appArmorProfile: AppArmorProfile | None = None
    """The profile of AppArmor."""
    seLinuxOptions: SeLinuxOptions | None = None
    """The label of SELinux."""


class ProgramPodSecurity(PodSecurity):
    """What all containers of a pod may do."""

    fsGroup: Annotated[Any, _number(0, 2147483647)] = None
    """The group of volumes."""
    supplementalGroups: Annotated[
        Any, _texts("a list of groups", {"type": "integer", "minimum": 0, "maximum": 2147483647})
    ] = None
    """Further groups."""


class Capabilities(Model):
    """Rights of root that a container has beside or without the usual ones."""

    add: Annotated[Any, _CAPABILITIES] = None
    """Those that it has."""
    drop: Annotated[Any, _CAPABILITIES] = None
    """Those that it does not have."""


class ContainerSecurity(PodSecurity):
    """What a container may do."""

    privileged: Annotated[Any, _SWITCH] = None
    """It may do what root of the host may."""
    allowPrivilegeEscalation: Annotated[Any, _SWITCH] = None
    """Its processes may gain more rights than their parents; absent: false, but of a privileged container."""
    readOnlyRootFilesystem: Annotated[Any, _SWITCH] = None
    """Its own files cannot be written."""
    capabilities: Capabilities | None = None
    """Rights of root."""


_Amount = Annotated[
    Any, Field(json_schema_extra={"type": ["number", "string"], **forms.form("a quantity, such as 100m or 50Mi")})
]


class ProgramResources(Model):
    """What a container asks for and is held to, unless a policy says otherwise."""

    requests: dict[forms.ResourceName, _Amount] | None = None
    """What is set aside for it."""
    limits: dict[forms.ResourceName, _Amount] | None = None
    """The most that it may use."""


class ProgramContainer(Model):
    """A container; its image is one of the recipe's."""

    name: Name
    """Its name."""
    image: ImageName
    """One of the recipe's images."""
    when: Condition = None
    """Only where this holds."""
    command: Annotated[Any, _ARGUMENTS] = None
    """The program; absent: the image's."""
    args: Annotated[Any, _ARGUMENTS] = None
    """Its arguments."""
    workingDir: Annotated[Any, _text("an absolute path", 1024)] = None
    """Where it starts."""
    env: tuple[ProgramVariable, ...] | None = None
    """Its variables."""
    ports: tuple[ProgramPort, ...] | None = None
    """Its ports."""
    resources: ProgramResources | None = None
    """What it asks for and is held to."""
    volumeMounts: tuple[ProgramMount, ...] | None = None
    """The volumes that it has."""
    livenessProbe: Probe | None = None
    """It starts over where this fails."""
    readinessProbe: Probe | None = None
    """It is ready where this succeeds."""
    startupProbe: Probe | None = None
    """The other two begin once this succeeds."""
    lifecycle: Lifecycle | None = None
    """What runs as it starts and ends."""
    restartPolicy: Literal["Always"] | None = None
    """An init container that stays beside the others."""
    securityContext: ContainerSecurity | None = None
    """What it may do."""
    terminationMessagePolicy: Literal["File", "FallbackToLogsOnError"] | None = None
    """Where its last words come from."""


class HostPathSource(Model):
    """A path of the host."""

    path: Annotated[Any, _text("an absolute path", 1024, is_choice=False, pattern=r"^(/|\$\{)[^\x00-\x1f\x7f]*$")]
    """The path."""
    type: (
        Literal["DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"] | None
    ) = None
    """What it has to be."""


class EmptyDirSource(Model):
    """A folder that begins empty and ends with the pod."""

    medium: Literal["Memory"] | None = None
    """Absent: the node's disk."""
    sizeLimit: Annotated[Any, _text("a quantity, such as 8Mi", 63)] = None
    """The most that it holds."""


class FilesSource(Model):
    """Files of the program."""

    name: Name
    """One of the program's `files`."""
    defaultMode: Annotated[Any, _number(0, 511)] = None
    """Their mode, in decimal: 288 is 0440."""


class PodFile(Model):
    """A field of the pod as a file."""

    path: Annotated[str, Field(min_length=1, max_length=200)]
    """The file."""
    fieldRef: FieldRef
    """The field."""


class DownwardSource(Model):
    """Fields of the pod as files."""

    items: Annotated[tuple[PodFile, ...], Field(min_length=1)]
    """The files."""
    defaultMode: Annotated[Any, _number(0, 511)] = None
    """Their mode, in decimal."""


class ProgramVolume(Model):
    """A volume of one of four sources."""

    name: Name
    """Its name."""
    when: Condition = None
    """Only where this holds."""
    hostPath: HostPathSource | None = None
    """A path of the host."""
    emptyDir: EmptyDirSource | None = None
    """A folder of the pod."""
    files: FilesSource | None = None
    """Files of the program."""
    downwardAPI: DownwardSource | None = None
    """Fields of the pod."""


class ProgramPod(Model):
    """The spec of a pod of Kubernetes, without what policies and the compiler decide."""

    initContainers: tuple[ProgramContainer, ...] | None = None
    """What runs first, one after the other."""
    containers: Annotated[tuple[ProgramContainer, ...], Field(min_length=1)]
    """What runs."""
    volumes: tuple[ProgramVolume, ...] | None = None
    """Its volumes."""
    hostNetwork: Annotated[Any, _SWITCH] = None
    """It has the node's network."""
    hostPID: Annotated[Any, _SWITCH] = None
    """It sees the node's processes."""
    hostIPC: Annotated[Any, _SWITCH] = None
    """It shares the node's IPC."""
    shareProcessNamespace: Annotated[Any, _SWITCH] = None
    """Its containers see each other's processes."""
    runtimeClassName: Annotated[Any, _text("the name of a RuntimeClass", 253)] = None
    """How containers are run."""
    dnsPolicy: Literal["ClusterFirst", "ClusterFirstWithHostNet", "Default"] | None = None
    """Which names it knows."""
    terminationGracePeriodSeconds: Annotated[Any, _number(0, 3600)] = None
    """The time to end."""
    securityContext: ProgramPodSecurity | None = None
    """What all of its containers may do."""


class Rule(Model):
    """Rights at the API server: what a program may do with objects."""

    apiGroups: Annotated[tuple[Annotated[str, Field(max_length=253)], ...], Field(min_length=1)]
    """Their groups; "" is that of pods and nodes."""
    resources: Annotated[tuple[Annotated[str, Field(max_length=253)], ...], Field(min_length=1)]
    """Their resources."""
    verbs: Annotated[tuple[Annotated[str, Field(max_length=63)], ...], Field(min_length=1)]
    """What it may do."""
    resourceNames: tuple[Annotated[str, Field(max_length=253)], ...] = ()
    """Of these alone; absent: of all."""


_FILE: dict[str, JsonValue] = {
    "type": ["object", "string"],
    "maxLength": LONGEST,
    "minProperties": 1,
    "maxProperties": 3,
    "properties": {
        "when": _WHEN,
        "text": {"type": "string", "maxLength": LONGEST},
        "each": {
            "type": "string",
            "pattern": f"^{keywords.REFERENCE}$",
            **forms.form("a map of values, such as ${values.name}"),
        },
        "json": {
            "type": ["array", "object"],
            **forms.form("a list or a mapping, which is written as JSON"),
        },
    },
    "additionalProperties": False,
    **forms.form("a text, or one of {text: …}, {each: …, text: …} and {json: …}"),
}


class Program(Model):
    """A vendor's own program: a pod on each node, in a frame that the compiler makes."""

    name: ProgramName
    """Its name; objects are named RECIPE-NAME-POLICY."""
    per: Literal["policy", "pool"] = "policy"
    """pool: waves, frozen groups and mappings may change its images and its values; with policy none of them can."""
    when: Condition = None
    """Only where this holds."""
    architectures: (
        Annotated[
            tuple[Annotated[str, forms.text("[a-z0-9]+", 20, "an architecture, such as amd64")], ...],
            Field(min_length=1),
        ]
        | None
    ) = None
    """Nodes that it runs on, by their label kubernetes.io/arch; absent: all."""
    offers: tuple[Annotated[str, Field(max_length=200)], ...] = ()
    """Resources that it registers with the kubelet, or globs of them, such as example.com/*."""
    claims: tuple[Annotated[str, Field(max_length=317)], ...] = ()
    """What a node has only once, beside the resources: `path:` or `socket:` and an absolute path."""
    after: Literal["driver"] | None = None
    """driver: it waits until the recipe's own driver is proved, and is taken away before the driver is unloaded."""
    disrupts: Annotated[Any, _SWITCH] = False
    """Its start takes devices from pods that hold them."""
    rules: tuple[Rule, ...] = ()
    """Rights in the programs' namespace."""
    clusterRules: tuple[Rule, ...] = ()
    """Rights in the whole cluster."""
    nodeStatus: bool = False
    """Its rules may write the status of nodes."""
    files: dict[Name, dict[FileName, Annotated[Any, Field(json_schema_extra=_FILE)]]] = Field(default_factory=dict)
    """Texts by the name of a volume and of a file; they are annotations of the pod."""
    pod: ProgramPod
    """The pod."""


_EXPRESSION = Annotated[str, Field(min_length=1, max_length=10240)]


class AdmissionVariable(Model):
    """A value that further expressions name `variables.NAME`."""

    name: Annotated[str, forms.text("[A-Za-z_][A-Za-z0-9_]*", 63, "a name in CEL")]
    """Its name."""
    expression: _EXPRESSION
    """It in CEL."""


class AdmissionMutation(Model):
    """A change of a pod."""

    applyConfiguration: _EXPRESSION
    """An expression in CEL that makes an `Object{…}`, which is merged into the pod as by server-side apply."""


class Admission(Model):
    """What the API server adds to pods that ask for a resource, from Kubernetes 1.36 on (MutatingAdmissionPolicy)."""

    name: Annotated[str, forms.text("[a-z][a-z0-9]*(-[a-z0-9]+)*", 30, "a DNS label of at most 30 characters")]
    """Its name; the object is named RECIPE-NAME."""
    title: Annotated[str, forms.text(r"[^\x00-\x1f\x7f]+", 300, "one line of 1 to 300 characters")] | None = None
    """What pods have to write themselves in older clusters."""
    resources: Annotated[tuple[Annotated[str, Field(max_length=200)], ...], Field(min_length=1)]
    """Pods that ask for one of these, which the recipe offers or match.extended counts."""
    conditions: Annotated[tuple[_EXPRESSION, ...], Field(max_length=16)] = ()
    """Further conditions in CEL."""
    variables: Annotated[tuple[AdmissionVariable, ...], Field(max_length=32)] = ()
    """Values by name."""
    mutations: Annotated[tuple[AdmissionMutation, ...], Field(min_length=1, max_length=16)]
    """The changes, one after the other."""
