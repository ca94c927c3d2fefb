#!/usr/bin/env bash
# The steps of a release. dist/ goes from one to the next:
#
#   programs  builds and pushes the programs' images for this machine's architecture
#   wheel     joins the architectures of each image, fills compiler/release.py, and builds the wheel
#   compiler  builds and pushes the image kae-compiler for this machine's architecture, with that wheel
#   lists     writes what is in each image, of each architecture, to dist/*.cdx.json
#   try       installs the wheel where nothing else is, compiles the example fleet with it, and again with the image
#   publish   joins the architectures of kae-compiler, writes dist/images.txt and dist/SHA256SUMS, and signs all of it
#   verify    judges everything as a user would
#
# REGISTRY is registry and path of the images, and SITE the address of the site of docs/, where it has one: findings link
# to it. ARCHITECTURES are those of the release ("amd64 arm64"). cosign signs by the identity of the workflow, which
# verify takes from COSIGN_IDENTITY. RUN_FLAGS are flags of `podman run`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
: "${REGISTRY:?Set it to the registry and the path of the images, such as ghcr.io/team/kae.}"

steps=(programs wheel compiler lists try publish verify)
for step in "$@"; do
    if [[ " ${steps[*]} " != *" $step "* ]]; then
        echo "'$step' is none of ${steps[*]}." >&2
        exit 2
    fi
done

programs=(kae-device-plugin kae-driver-installer kae-watcher)
images=("${programs[@]}" kae-compiler)
read -ra architectures <<<"${ARCHITECTURES:-amd64 arm64}"
version=$(env -u KAE_VERSION sh ci/version.sh)
if [[ ! $version =~ ^[0-9]+\.[0-9]+\.[0-9]+((a|b|rc)[0-9]+)?$ ]]; then
    echo "'$version' is no release: tag the commit v0.0.0 with its numbers, and change nothing." >&2
    exit 1
fi
if [[ ${GITHUB_REF_NAME:-v$version} != "v$version" ]]; then
    echo "the tag is '$GITHUB_REF_NAME', and the version $version: give a commit the tag of one release." >&2
    exit 1
fi
export KAE_VERSION=$version  # The steps below fill a table, which git would call a change.
mkdir -p dist/digests

digest() { cat "dist/digests/$1"; }

# Pushes the image of this architecture.
push() {
    local name=$1 here
    here=$name-$(podman info --format '{{.Host.Arch}}')
    podman push --quiet --digestfile "dist/digests/$here" "$REGISTRY/$name:$version-${here##*-}"
    echo "$here $(digest "$here")"
}

# Makes the image of all architectures.
join() {
    local name=$1 list=$REGISTRY/$1:$version architecture
    podman manifest rm "$list" &>/dev/null || true
    podman manifest create "$list" >/dev/null
    for architecture in "${architectures[@]}"; do
        podman manifest add "$list" "docker://$REGISTRY/$name@$(digest "$name-$architecture")" >/dev/null
    done
    podman manifest push --all --digestfile "dist/digests/$name" "$list" "docker://$list" >/dev/null
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
    python3 ci/release_table.py "$REGISTRY" "${SITE:-}" "${table[@]}"
    make --no-print-directory schemas wheel
}

step_compiler() {
    build compiler-image WHEEL="$(echo dist/kae_compiler-*.whl)" \
        IMAGE_FLAGS="${IMAGE_FLAGS:-}" BASE_IMAGE="${BASE_IMAGE:-}"
    push kae-compiler
}

# Packages, and not each of their files. A time and a random number would make each list another one.
step_lists() {
    local name architecture
    export SYFT_FILE_METADATA_SELECTION=none
    for name in "${images[@]}"; do
        for architecture in "${architectures[@]}"; do
            syft scan --quiet --source-name "$name" --source-version "$version" --output cyclonedx-json@1.6 \
                "registry:$REGISTRY/$name@$(digest "$name-$architecture")" |
                jq --indent 1 'del(.serialNumber, .metadata.timestamp)' >"dist/$name-$architecture.cdx.json"
        done
    done
}

# The main job, before anything is signed: the same bytes from the wheel and from the image.
# In a shell of its own, whose end is no end of the wheel's step.
step_try() (
    local flags=() here
    here=$(podman info --format '{{.Host.Arch}}')
    eval "flags=(${RUN_FLAGS:-})"
    tried=$(mktemp -d)
    trap 'rm -rf "$tried"' EXIT
    python3 -m venv "$tried/venv"
    "$tried/venv/bin/python" -I -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
        -r templates/init/ci/requirements.txt
    "$tried/venv/bin/python" -I -m pip install --quiet --disable-pip-version-check --no-deps --no-index dist/kae_compiler-*.whl
    cp -R policies inventory "$tried"
    if [[ $("$tried/venv/bin/python" -I -m compiler --version) != "kae $version" ]]; then
        echo "The wheel in dist/ is not of version $version." >&2
        exit 1
    fi
    "$tried/venv/bin/python" -I -m compiler -C "$tried" compile --quiet
    podman run --rm --user 0 --volume "$tried:/work" "${flags[@]}" "$REGISTRY/kae-compiler@$(digest "kae-compiler-$here")" \
        compile --check --quiet
    echo "Wheel and image of $version compile the example fleet to the same $(find "$tried/output" -type f | wc -l) files."
)

# What was made of which commit, by whom, in SLSA's words: https://slsa.dev/spec/v1.0/provenance. No time, and no number
# of a run, so that a release can be made again.
provenance() {
    jq --null-input --indent 1 --arg version "$version" --arg registry "$REGISTRY" --arg commit "$(git rev-parse HEAD)" \
        --arg architectures "${architectures[*]}" --arg builder "${COSIGN_IDENTITY:-urn:kae:here}" '
        # The workflow lies in the repository: https://github.com/OWNER/kae/.github/workflows/release.yml@refs/tags/v0.0.0
        ($builder | split("/.github/")[0]) as $repository | {
            buildDefinition: {
                buildType: "\($repository)/blob/\($commit)/ci/release.sh",
                externalParameters: {$version, $registry, $architectures},
                resolvedDependencies: [{uri: "git+\($repository)", digest: {gitCommit: $commit}}]
            },
            runDetails: {builder: {id: $builder}}
        }'
}

step_publish() {
    local name architecture
    join kae-compiler
    for name in "${images[@]}"; do
        echo "$REGISTRY/$name:$version@$(digest "$name")"
    done >dist/images.txt
    provenance >dist/provenance.json
    (cd dist && sha256sum kae_compiler-*.whl images.txt provenance.json kae-*.cdx.json >SHA256SUMS)
    cosign sign-blob --yes --bundle dist/SHA256SUMS.sigstore.json dist/SHA256SUMS >/dev/null
    for name in "${images[@]}"; do
        cosign sign --yes --recursive "$REGISTRY/$name@$(digest "$name")" >/dev/null
        cosign attest --yes --type slsaprovenance1 --predicate dist/provenance.json "$REGISTRY/$name@$(digest "$name")" >/dev/null
        for architecture in "${architectures[@]}"; do
            cosign attest --yes --type cyclonedx \
                --predicate "dist/$name-$architecture.cdx.json" \
                "$REGISTRY/$name@$(digest "$name-$architecture")" >/dev/null
        done
    done
}

step_verify() {
    local name architecture image judge
    judge=(--certificate-oidc-issuer https://token.actions.githubusercontent.com --certificate-identity
        "${COSIGN_IDENTITY:?Set it to the workflow at its tag: https://github.com/OWNER/kae/.github/workflows/release.yml@refs/tags/v0.0.0}")
    cosign verify-blob "${judge[@]}" --bundle dist/SHA256SUMS.sigstore.json dist/SHA256SUMS
    (cd dist && sha256sum --check --strict --quiet SHA256SUMS)
    while read -r image; do
        cosign verify "${judge[@]}" "$image" >/dev/null
        cosign verify-attestation "${judge[@]}" --type slsaprovenance1 "${image/:$version@/@}" >/dev/null
    done <dist/images.txt
    for name in "${images[@]}"; do
        for architecture in "${architectures[@]}"; do
            cosign verify-attestation "${judge[@]}" --type cyclonedx \
                "$REGISTRY/$name@$(digest "$name-$architecture")" >/dev/null
        done
    done
    echo "All of release $version is signed, and nothing has changed since."
}

for step in "$@"; do "step_$step"; done
