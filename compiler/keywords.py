"""Keywords and texts of the schemas and definitions that the models make, which the judge and checks read too."""

FORM = "x-kae-form"
"""The schema keyword with the meaning of a pattern, in words that continue "'x' is not …"."""
CREDENTIALS = "x-kae-credentials"
"""The schema keyword of a URL with the way that credentials take instead."""

SHARED = "x-kae-shared"
"""In models, the schema keyword with the name of a definition that many fields have."""

PARAMETER = r"[A-Za-z][A-Za-z0-9_]*"
REFERENCE = rf"\$\{{values\.({PARAMETER})\}}"
"""The text in a recipe that stands for the value of a parameter."""
WITH_REFERENCE = r"|.*\$\{.*"
"""The end of the pattern of a text with references, which has its own form once they are filled."""
OR_PARAMETER = ", or the value of a parameter, such as ${values.name}"
"""The end of the meaning of a field that a parameter may fill."""

INSTALLER_IMAGE, PLUGIN_IMAGE = "driver-installer", "device-plugin"
"""The images of a recipe's programs unless the recipe names others; KAE's unless the recipe declares them."""

MODULE_TEXT = r'^[^"\\\x00-\x1f\x7f]*$'
"""A text of a module's parameter: it is quoted in a line of modprobe.d(5), where a backslash joins lines, and for which
the kernel knows no escape (next_arg of lib/cmdline.c)."""
MODULE_TEXT_LENGTH = 500

TOLERATES_ALL = "A toleration without a key tolerates every taint, and needs operator 'Exists'."
TOLERATES_ANY_VALUE = "A toleration with operator 'Exists' has no value."
TOLERATES_FOR_SECONDS = "A toleration with tolerationSeconds needs effect 'NoExecute'."
IDLE_LIBRARIES_PATH = "No container gets the libraries of librariesPath, as 'libraries' is false."
IDLE_OPENSSL_SETTINGS = "No container gets an openssl.cnf with these settings, as 'opensslConf' is not set."
IDLE_DEVICE_NODES = "The driver installer sets mode and group of the device nodes, too."
SHARED_GROUP = "An IOMMU group can be opened by one virtual machine alone, so vfio has no shares."
"""Sentences on constraints that a check states, and so does a rule in CEL of `kae schema --crd`."""

NO_VALUE = "<no value>"
"""What Go's templates, and so Helm's, write for a value that nobody has given."""
GIVE_VALUE = f"Write the value itself, or give it to Helm, which wrote '{NO_VALUE}' for want of one."
"""The hint on a string that holds it."""
