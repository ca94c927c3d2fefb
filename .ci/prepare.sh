# What .ci/run and .ci/nightly share: packages of Debian, and the parts that they are told to run.
# shellcheck shell=bash

as_root() { if ((EUID)); then sudo "$@"; else "$@"; fi; }

install() {
    echo "== install $*"
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >/dev/null
}

made() {
    echo "== make $*"
    make --no-print-directory "$@" </dev/null
}

# A real control plane, a real node, a real kernel: programs from Go modules, the rest from Debian.
cluster=(containerd containernetworking-plugins etcd-server gcc iproute2 jq libc6-dev libseccomp-dev mmdebstrap openssl
    pkg-config podman runc)

prepare_cluster() {
    install "${cluster[@]}"
    made cluster-tools
}

prepare_vm() {
    # A story of tests/vm has a control plane beside the machine.
    install "${cluster[@]}" e2fsprogs kmod linux-headers-cloud-amd64 make qemu-system-x86 qemu-utils xz-utils zstd
    # The headers of the kernel before, whose name only apt knows.
    mapfile -t headers < <(python3 -c 'from tests.vm import kernels; [*map(print, kernels.missing())]')
    install "${headers[@]}"
    made cluster-tools
}

# Run the parts that are named, or all of `parts`, which the script lists; a misspelt one is told before any begins.
run_parts() {
    local part tool missing=()
    for part in "$@"; do
        # shellcheck disable=SC2154  # The script that sources this assigns it.
        if [[ " ${parts[*]} " != *" $part "* ]]; then
            echo "'$part' is none of ${parts[*]}." >&2
            exit 2
        fi
    done
    for tool in git make python3; do
        command -v "$tool" >/dev/null || missing+=("$tool")
    done
    python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
    if ((${#missing[@]})); then install "${missing[@]}"; fi
    export KAE_REQUIRE_CLUSTER=1 KAE_REQUIRE_TOOLS=1  # Here a test that cannot run is a failure.
    (($#)) || set -- "${parts[@]}"
    for part in "$@"; do "part_$part"; done
}
