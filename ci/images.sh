#!/usr/bin/env bash
# Builds the images, with podman, buildah or docker, whichever is there first, git, and nothing else:
#
#   IMAGE_REGISTRY=registry.example.com/team ci/images.sh [--push] [NAME...]
#
# NAME is kae-device-plugin, kae-driver-installer, kae-watcher or kae-compiler; without one it is all of them. `driver` is
# an image of the installer with a driver in it, for which docs/driver-image.md has further variables. Variables:
# TAG (the version of the checkout, with - for +), VERSION and REVISION (what the images say that they are made from),
# BASE_IMAGE, PLATFORM, IMAGE_FLAGS (more flags of the builder), and WHEEL (the wheel for kae-compiler; without one it is
# built in a stage of the image). podman and buildah give every file the time 0, so that the same sources give the same
# layers.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ ${1:-} == --help ]]; then
    sed -n '2,/^set /{s/^# \{0,1\}//;/^set /!p;}' ci/images.sh
    exit
fi
: "${IMAGE_REGISTRY:?Set it to the registry and the path of the images, such as registry.example.com/team.}"

fail() { echo "$*" >&2; exit 1; }

version=${VERSION:-$(sh ci/version.sh)}
# As the version: sources that lie in another repository have not its commit.
revision=${REVISION:-$(if [[ -z $(git rev-parse --show-cdup 2>&1) ]]; then git rev-parse HEAD; else echo unknown; fi)}
tag=${TAG:-${version//+/-}}
context=dist/compiler-image  # The one image that is not built from the root: .dockerignore admits the programs alone.

# The name of a program's image is the title in its Dockerfile.
program() { grep -lsF "org.opencontainers.image.title=\"$1\"" ./*/Dockerfile; }

names=() push=
for argument in "$@"; do
    case $argument in
        --push) push=yes ;;
        -*) fail "'$argument' is no option; --push is the only one." ;;
        kae-compiler | driver) names+=("$argument") ;;
        *) program "$argument" >/dev/null || fail "'$argument' is no image of this repository."
            names+=("$argument") ;;
    esac
done
((${#names[@]})) || names=(kae-device-plugin kae-driver-installer kae-watcher kae-compiler)

for builder in podman buildah docker; do
    ! command -v "$builder" >/dev/null || break
    builder=
done
[[ -n $builder ]] || fail 'podman, buildah or docker is needed.'

flags=(--build-arg "VERSION=$version" --build-arg "REVISION=$revision")
case $builder in
    docker) flags+=(--build-arg SOURCE_DATE_EPOCH=0) ;;
    *) flags+=(--timestamp 0) ;;
esac
[[ -z ${BASE_IMAGE:-} ]] || flags+=(--build-arg "BASE_IMAGE=$BASE_IMAGE")
[[ -z ${PLATFORM:-} ]] || flags+=(--platform "$PLATFORM")
# As make hands it on, and as a shell would read it: with quotes where a flag has blanks.
eval "flags+=(${IMAGE_FLAGS:-})"

compiler_context() {
    rm -rf "$context"
    mkdir -p "$context"
    cp templates/init/ci/requirements.txt LICENSE ci/third_party.py "$context"
    if [[ -n ${WHEEL:-} ]]; then
        cp "$WHEEL" "$context"
    else
        cp -R LICENSE README.md pyproject.toml ci compiler runtime schemas templates "$context"
        find "$context" -name __pycache__ -prune -exec rm -rf {} +
    fi
}

build_driver() {
    local variable
    for variable in KAE DRIVER_VERSION INSTALLER_IMAGE; do
        [[ -n ${!variable:-} ]] || fail "$variable is missing: docs/driver-image.md describes it."
    done
    image=${IMAGE_REGISTRY%/}/kae-driver-installer:$DRIVER_VERSION
    [[ $image != "$INSTALLER_IMAGE" ]] || fail "'$image' is INSTALLER_IMAGE itself: DRIVER_VERSION is the driver's version."
    [[ $("$builder" build --help 2>&1) == *--build-context* ]] ||
        fail "$builder knows no --build-context: docs/driver-image.md says which versions do."
    "$builder" build --tag "$image" "${flags[@]}" \
        --build-context "kae=$KAE" --build-context "packages=${PACKAGES:-installer/driver-image}" \
        --build-arg "INSTALLER_IMAGE=$INSTALLER_IMAGE" --build-arg "BUILD_IMAGE=${BUILD_IMAGE:-$INSTALLER_IMAGE}" \
        --build-arg "DRIVER_VERSION=$DRIVER_VERSION" --build-arg "KERNELS=${KERNELS:-}" \
        --build-arg "LIBRARIES=${LIBRARIES:-}" --build-arg "PACKAGES=${PACKAGES:+yes}" installer/driver-image
}

for name in "${names[@]}"; do
    image=${IMAGE_REGISTRY%/}/$name:$tag
    if [[ $name == driver ]]; then
        build_driver
    elif [[ $name == kae-compiler ]]; then
        compiler_context
        "$builder" build --file ci/compiler.Dockerfile --tag "$image" "${flags[@]}" "$context"
        rm -rf "$context"
    else
        "$builder" build --file "$(program "$name")" --tag "$image" "${flags[@]}" .
    fi
    [[ -z $push ]] || "$builder" push "$image"
done
