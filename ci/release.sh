#!/usr/bin/env bash
# The steps of a release. dist/ goes from one to the next:
#
#   programs  builds and pushes the programs' images for this machine's architecture, with their lists of packages
#   wheel     joins the architectures of each image, fills compiler/release.py, and builds the wheel
#   compiler  builds and pushes the image kae-compiler for this machine's architecture, with that wheel
#   publish   joins its architectures, writes dist/images.txt and dist/SHA256SUMS, and signs all of it
#   verify    judges everything as a user would
#
# REGISTRY is registry and path of the images. ARCHITECTURES are those of the release ("amd64 arm64"). COSIGN_KEY is the
# file of a key to sign with; without one cosign asks the identity of the workflow, which verify takes from
# COSIGN_IDENTITY. TLS_VERIFY=false is for a registry without TLS.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
: "${REGISTRY:?Set it to the registry and the path of the images, such as ghcr.io/team/kae.}"

programs=(kae-device-plugin kae-driver-installer kae-watcher)
images=("${programs[@]}" kae-compiler)
read -ra architectures <<<"${ARCHITECTURES:-amd64 arm64}"
tls=--tls-verify=${TLS_VERIFY:-true}
version=$(sh ci/version.sh)
if [[ ! $version =~ ^[0-9]+\.[0-9]+\.[0-9]+((a|b|rc)[0-9]+)?$ ]]; then
    echo "'$version' is no release: tag the commit v0.0.0 with its numbers, and change nothing." >&2
    exit 1
fi
export KAE_VERSION=$version  # The steps below fill a table, which git would call a change.
mkdir -p dist/digests

digest() { cat "dist/digests/$1"; }

# Pushes the image of this architecture, and lists what is in it.
push() {
    local name=$1 here
    here=$name-$(podman info --format '{{.Host.Arch}}')
    podman push --quiet "$tls" --digestfile "dist/digests/$here" "$REGISTRY/$name:$version-${here##*-}"
    podman run --rm --network=none --volume "$PWD/ci/sbom.py:/sbom.py:ro" --entrypoint python \
        "$REGISTRY/$name:$version-${here##*-}" -B /sbom.py "$name" "$version" >"dist/$here.cdx.json"
    echo "$here $(digest "$here")"
}

# Makes the image of all architectures.
join() {
    local name=$1 list=$REGISTRY/$1:$version architecture
    podman manifest rm "$list" &>/dev/null || true
    podman manifest create "$list" >/dev/null
    for architecture in "${architectures[@]}"; do
        podman manifest add "$tls" "$list" "docker://$REGISTRY/$name@$(digest "$name-$architecture")" >/dev/null
    done
    podman manifest push --all "$tls" --digestfile "dist/digests/$name" "$list" "docker://$list" >/dev/null
    echo "$name $(digest "$name")"
}

build() {
    make --no-print-directory "$1" IMAGE_REGISTRY="$REGISTRY" \
        TAG="$version-$(podman info --format '{{.Host.Arch}}')" "${@:2}"
}

step_programs() {
    build images IMAGE_FLAGS="${IMAGE_FLAGS:-}" BASE_IMAGE="${BASE_IMAGE:-}"
    for name in "${programs[@]}"; do push "$name"; done
}

step_wheel() {
    local table=() name
    for name in "${programs[@]}"; do
        join "$name"
        table+=("$name=$(digest "$name")")
    done
    trap 'git checkout --quiet -- compiler/release.py schemas' EXIT
    python3 ci/release_table.py "$REGISTRY" "${table[@]}"
    make --no-print-directory schemas wheel
}

step_compiler() {
    build compiler-image WHEEL="$(echo dist/kae_compiler-*.whl)" \
        IMAGE_FLAGS="${IMAGE_FLAGS:-}" BASE_IMAGE="${BASE_IMAGE:-}"
    push kae-compiler
}

# cosign's words for the key or for the workflow's identity.
if [[ -n ${COSIGN_KEY:-} ]]; then
    # No transparency log knows the signatures of a key at hand.
    signer=(--yes --key "$COSIGN_KEY" --use-signing-config=false --tlog-upload=false)
    judge=(--key "${COSIGN_KEY%.key}.pub" --insecure-ignore-tlog=true)
else
    signer=(--yes)
    judge=(--certificate-oidc-issuer https://token.actions.githubusercontent.com
        --certificate-identity "${COSIGN_IDENTITY:-}")
fi
insecure=()
[[ ${TLS_VERIFY:-true} == true ]] || insecure=(--allow-http-registry --allow-insecure-registry)

step_publish() {
    local name architecture
    join kae-compiler
    for name in "${images[@]}"; do
        echo "$REGISTRY/$name:$version@$(digest "$name")"
    done >dist/images.txt
    (cd dist && sha256sum kae_compiler-*.whl images.txt kae-*.cdx.json >SHA256SUMS)
    cosign sign-blob "${signer[@]}" --bundle dist/SHA256SUMS.sigstore.json dist/SHA256SUMS >/dev/null
    for name in "${images[@]}"; do
        cosign sign "${signer[@]}" "${insecure[@]}" --recursive "$REGISTRY/$name@$(digest "$name")" >/dev/null
        for architecture in "${architectures[@]}"; do
            cosign attest "${signer[@]}" "${insecure[@]}" --type cyclonedx \
                --predicate "dist/$name-$architecture.cdx.json" \
                "$REGISTRY/$name@$(digest "$name-$architecture")" >/dev/null
        done
    done
}

step_verify() {
    local name architecture image
    cosign verify-blob "${judge[@]}" --bundle dist/SHA256SUMS.sigstore.json dist/SHA256SUMS
    (cd dist && sha256sum --check --strict --quiet SHA256SUMS)
    while read -r image; do
        cosign verify "${judge[@]}" "${insecure[@]}" "$image" >/dev/null
    done <dist/images.txt
    for name in "${images[@]}"; do
        for architecture in "${architectures[@]}"; do
            cosign verify-attestation "${judge[@]}" "${insecure[@]}" --type cyclonedx \
                "$REGISTRY/$name@$(digest "$name-$architecture")" >/dev/null
        done
    done
    echo "All of release $version is signed, and nothing has changed since."
}

for step in "$@"; do
    case $step in
        programs | wheel | compiler | publish | verify) "step_$step" ;;
        *) echo "'$step' is none of programs, wheel, compiler, publish and verify." >&2; exit 2 ;;
    esac
done
