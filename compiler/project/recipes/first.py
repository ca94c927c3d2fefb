"""The text of a first recipe, and of a policy of it, by the answers that `kae recipe new` takes as options."""

from collections.abc import Iterator

import msgspec

from compiler import API_VERSION, errors, wording
from compiler.formats.canonical import scalar
from compiler.migrate import translation

_IMAGE = "registry.example.com/{}/{}:{}"
"""A place for an image that nobody has named: no registry has this name."""

_NOTHING = """\
  # What it brings to the nodes: one of these at least. Take the '#' away, and write your own.
  # images:
  #   modules: {repository: registry.example.com/drivers, image: modules, version: "1.0-${KERNEL_FULL_VERSION}"}
  #   plugin: {repository: registry.example.com/vendor, image: device-plugin, version: "1.0"}
  # driver:          # Kernel modules: kae's installer takes them out of an image, loads them and looks for the nodes.
  #   version: modules
  #   payloads: [{image: modules, paths: [/opt/lib/modules]}]
  #   modules: [{name: example}]
  #   nodes: [/dev/example0]
  # devicePlugin:    # What pods ask for, offered by kae's device plugin.
  #   resources: [{name: example.com/device, class: char, groups: [{paths: [{path: "/dev/example*"}]}]}]
  # programs:        # A vendor's program: a pod spec, as in https://kubernetes.io/docs/concepts/workloads/pods/.
  #   - name: plugin
  #     per: pool
  #     offers: ["example.com/*"]
  #     pod: {containers: [{name: plugin, image: plugin}]}
"""


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """What a person has said of a stack; each answer may be missing."""

    name: str
    vendor: str | None = None
    devices: tuple[str, ...] = ()
    """PCI ids."""
    modules: tuple[str, ...] = ()
    """In the order of loading."""
    image: str | None = None
    """The image with the modules."""
    program: str | None = None
    """The image of a vendor's program."""
    resource: str | None = None
    sort: str | None = None
    """The class of the resource."""
    paths: tuple[str, ...] = ()
    """Device nodes, or folders that the program sees."""


def refuse(given: Answers) -> None:
    """Raise RefusedError where answers do not fit together."""
    for wrong, message, hint in (
        (
            bool(given.devices) != bool(given.vendor),
            "a PCI function is known by two ids.",
            "--vendor-id and --device-id",
        ),
        (given.image and not given.modules, "--image names the image with kernel modules.", "--module"),
        (given.sort and not given.resource, "--class says what a device of a resource is.", "--resource"),
        (given.sort == "vfio" and not given.vendor, "vfio hands out PCI functions.", "--vendor-id and --device-id"),
        (given.paths and not (given.program or given.resource), "--path is for a resource or a program.", "--resource"),
    ):
        if wrong:
            raise errors.RefusedError(message, hint=f"Add {hint}.")
    for option, words in (("--device-id", given.devices), ("--module", given.modules), ("--path", given.paths)):
        twice = next((word for index, word in enumerate(words) if word in words[:index]), None)
        if twice is not None:
            raise errors.RefusedError(f"{option} has '{wording.escaped(twice)}' twice.", hint="Leave one of them out.")
    if given.sort and given.program:
        message = "--class is of what kae's device plugin offers, and the program of --program offers its own resource."
        raise errors.RefusedError(message, hint="Leave one of them out.")
    if given.program and any(char in path for path in given.paths for char in "*?["):
        raise errors.RefusedError("a pod mounts a folder or a file, and no glob.", hint="Name the folder by --path.")
    if given.sort == "vfio" and given.paths:
        raise errors.RefusedError("the kernel names the device nodes of vfio.", hint="Leave --path out.")


def recipe(given: Answers) -> str:
    """Return the text of the recipe."""
    plugin = _plugin(given) if given.resource and not given.program else ()
    parts = [*_match(given), *_images(given), *_driver(given), *plugin, *_program(given)]
    rest = "" if given.modules or given.resource or given.program else _NOTHING
    return _head("Recipe", given.name) + "".join(f"{line}\n" for line in parts) + rest


def policy(given: Answers) -> str:
    """Return the text of a policy of the recipe."""
    label = scalar(given.name)
    lines = [
        f"  recipe: {label}",
        "  # No node has this label until you give it one: choose the nodes here.",
        "  nodeSelector:",
        "    matchLabels:",
        f"      {label}: example",
    ]
    if given.modules:
        lines += ["  # The first mapping that matches a node's kernel takes it.", "  kernelMappings:"]
        lines += ["    - name: every", "      regexp: '.+'"]
    if given.modules or given.program:
        lines += ["  rollout:", "    waves:"]
        lines += ["      # The nodes that get a new version first. Name one, in its own commit."]
        lines += ["      # No other node gets a new pod, because the wave already exists."]
        lines += ["      - name: canary", "        nodes: []"]
    return _head("DevicePolicy", given.name) + "".join(f"{line}\n" for line in lines)


def _head(kind: str, name: str) -> str:
    return f"apiVersion: {API_VERSION}\nkind: {kind}\nmetadata:\n  name: {scalar(name)}\nspec:\n"


def _match(given: Answers) -> Iterator[str]:
    yield f"  title: {scalar(f'{given.name}: say here what it is')}"
    yield "  match:"
    if not given.devices:
        yield "    # Every node that a policy selects. By its hardware instead:"
        yield '    # pci: [{kind: card, vendor: "8086", devices: ["4940"]}]'
        yield "    all: {}"
        return
    devices = ", ".join(f'"{each}"' for each in given.devices)
    yield "    # NFD labels the nodes that have such a PCI function."
    yield "    pci:"
    yield f'      - {{kind: card, vendor: "{given.vendor}", devices: [{devices}]}}'


def _images(given: Answers) -> Iterator[str]:
    named = []
    if given.modules:
        kernel = "1.0-${KERNEL_FULL_VERSION}"
        named.append(("modules", given.image or _IMAGE.format("drivers", given.name, kernel)))
    if given.program:
        named.append(("plugin", given.program))
    if named:
        yield "  images:"
    for name, reference in named:
        if name == "modules":
            yield "    # An image for each kernel, which holds /opt/lib/modules/<kernel> and `cp`."
        yield f"    {name}:"
        for part, value in translation.image_parts(reference).items():
            yield f"      {part}: {scalar(value)}"


def _driver(given: Answers) -> Iterator[str]:
    if not given.modules:
        return
    yield from ("  driver:", "    version: modules", "    payloads:")
    yield from ("      - image: modules", "        paths: [/opt/lib/modules]")
    yield from ("    # In the order of loading.", "    modules:")
    yield from (f"      - name: {scalar(each)}" for each in given.modules)
    yield "    # Device nodes that prove that the driver is loaded:"
    yield "    # nodes: [/dev/example0]"


def _plugin(given: Answers) -> Iterator[str]:
    sort = given.sort or "char"
    yield from ("  devicePlugin:", "    resources:", f"      - name: {scalar(given.resource or '')}")
    yield f"        class: {sort}"
    if sort == "vfio":
        yield "        # An IOMMU group of functions that are bound to vfio-pci is one device."
        yield "        kind: card"
    elif sort == "token":
        yield "        # So many containers of a node may have one."
        yield "        count: 100"
        if given.paths:
            yield from ("        # What each of them gets.", "        inject:", "          - nodes:")
            yield from (f"              - path: {scalar(each)}" for each in given.paths)
    else:
        yield "        # The first match of each path together is device 0, the second device 1."
        yield from ("        groups:", "          - paths:")
        paths = given.paths or (f"/dev/{given.name}*",)
        yield from (f"              - path: {scalar(each)}" for each in paths)


def _program(given: Answers) -> Iterator[str]:
    if not given.program:
        return
    mounts = ["- {name: kubelet, mountPath: /var/lib/kubelet/device-plugins}"] if given.resource else []
    volumes = ['- {name: kubelet, hostPath: {path: "${kubeletDir}/device-plugins"}}'] if given.resource else []
    for number, path in enumerate(given.paths):
        mounts.append(f"- {{name: path-{number}, mountPath: {scalar(path)}, readOnly: true}}")
        volumes.append(f"- {{name: path-{number}, hostPath: {{path: {scalar(path)}}}}}")
    yield from ("  programs:", "    - name: plugin", "      per: pool")
    if given.resource:
        yield "      # What it registers with the kubelet."
        yield f"      offers: [{scalar(given.resource)}]"
    if given.modules:
        yield from ("      # Where it holds the driver's devices:", "      # after: driver")
    yield "      # The pod of the vendor's manifest, without what the compiler makes: names, labels, nodes, account."
    yield from ("      pod:", "        containers:", "          - name: plugin", "            image: plugin")
    yield "            # args: [-v=1]"
    yield "            # securityContext: {privileged: true}"
    for title, indent, lines in (("volumeMounts", " " * 12, mounts), ("volumes", " " * 8, volumes)):
        if lines:
            yield f"{indent}{title}:"
            yield from (f"{indent}  {line}" for line in lines)
