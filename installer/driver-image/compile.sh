#!/bin/sh
# Arranges KAE's source in /kae/image as the driver installer expects it, and compiles it for each kernel of KERNELS.
# With PACKAGES=yes it makes a repository of a folder of rpms, too. These and DRIVER_VERSION are the Dockerfile's arguments.
set -eu

fail() { echo "$*" >&2; exit 1; }

[ -n "$DRIVER_VERSION" ] || fail 'DRIVER_VERSION is missing: give the version that policies name as driver.version.'
source=/kae/source image=/kae/image
trees=$image/opt/src/kae

# A tree for every kernel, or one for each line of kernels.
for line in "$source"/KAEKernelDriver/KAEKernelDriver-OLK-*/; do
    [ -d "$line" ] || continue
    number=${line%/} number=${number##*-}
    mkdir -p "$trees/$number"
    cp -R "$line" "$trees/$number/KAEKernelDriver"
    cp /kae/Makefile "$trees/$number/"
done
if [ ! -d "$trees" ]; then
    [ -d "$source/KAEKernelDriver" ] || fail 'There is no folder KAEKernelDriver: the context kae is a checkout of KAE.'
    mkdir -p "$trees"
    cp -R "$source/KAEKernelDriver" "$trees/"
    cp /kae/Makefile "$trees/"
fi
# The driver's source is GPL: whoever has the modules has it, too, with the licence.
mkdir -p "$image/usr/share/doc/kae"
cp /kae/GPL-2.0.txt "$image/usr/share/doc/kae/"

# headers KERNEL: its build folder, as the packages of openEuler and of Debian have it.
headers() {
    for folder in "/usr/src/kernels/$1" "/usr/src/linux-headers-$1" "/lib/modules/$1/build"; do
        [ ! -f "$folder/Makefile" ] || { echo "$folder"; return; }
    done
}

for kernel in $KERNELS; do
    if [ -z "$(headers "$kernel")" ] && command -v dnf > /dev/null; then
        dnf install --assumeyes binutils findutils gcc make "kernel-devel-$kernel"
    fi
    path=$(headers "$kernel")
    [ -n "$path" ] || fail "There are no headers for kernel $kernel: install them in BUILD_IMAGE, or mount /usr/src."
    number=$(expr "$kernel" : '\([0-9]*\.[0-9]*\)') || fail "'$kernel' is no kernel as 'uname -r' prints it."
    tree=$trees/$number
    [ -d "$tree" ] || tree=$trees
    [ -f "$tree/Makefile" ] || fail "KAE's source has no tree for kernels $number."
    # Of each kernel its own copy, so that no object of another one is in it.
    rm -rf /kae/work && cp -R "$tree" /kae/work
    make -C /kae/work --jobs="$(nproc)" KERNEL_PATH="$path"
    folder=$image/opt/lib/modules/$kernel
    mkdir -p "$folder"
    find /kae/work -name '*.ko' -exec cp {} "$folder/" ';'
    for name in uacce hisi_qm hisi_hpre hisi_sec2 hisi_zip; do
        [ -f "$folder/$name.ko" ] || fail "The driver's source was compiled for $kernel, and there is no $name.ko."
        strip --strip-debug "$folder/$name.ko"
        grep -aqF "vermagic=$kernel " "$folder/$name.ko" || fail "'$path' is not for kernel $kernel."
    done
done

if [ -n "$PACKAGES" ]; then
    folder=$image/opt/packages
    mkdir -p "$folder"
    find /kae/packages -name '*.rpm' ! -name '*.src.rpm' -exec cp {} "$folder/" ';'
    [ -n "$(ls "$folder")" ] || fail 'There is no rpm in the folder PACKAGES.'
    command -v createrepo_c > /dev/null || dnf install --assumeyes createrepo_c
    # Its index has the times of the files in it.
    touch -d @0 "$folder"/*
    createrepo_c --quiet --no-database --revision 0 --set-timestamp-to-revision "$folder"
fi
