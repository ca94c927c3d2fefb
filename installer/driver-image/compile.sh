#!/bin/sh
# Arranges KAE's source in /kae/image as the driver installer expects it, compiles it for each kernel of KERNELS, and
# compiles LIBRARIES. With PACKAGES=yes it makes a repository of a folder of rpms, too. These and DRIVER_VERSION are the
# Dockerfile's arguments.
set -eu

fail() { echo "$*" >&2; exit 1; }

[ -n "$DRIVER_VERSION" ] || fail 'DRIVER_VERSION is missing: give the version that policies name as driver.version.'
source=/kae/source image=/kae/image
trees=$image/opt/src/kae

for kernel in $KERNELS; do
    expr "x$kernel" : 'x[0-9][0-9]*\.[0-9][A-Za-z0-9._+~-]*$' > /dev/null \
        || fail "'$kernel' is no kernel as 'uname -r' prints it."
done

# missing NAMES: those of the commands and C headers that are not here.
missing() {
    for name in $1; do
        case $name in
        *.h) echo "#include <$name>" | gcc -E -x c - > /dev/null 2>&1 ;;
        *) command -v "$name" > /dev/null ;;
        esac || printf ' %s' "$name"
    done
}

# bring RPMS DEBS: has the distribution install packages. Where it cannot, the check that follows says what is missing.
# shellcheck disable=SC2086
bring() {
    if command -v dnf > /dev/null; then
        dnf install --assumeyes $1 || :
    elif command -v apt-get > /dev/null; then
        apt-get update || :
        DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends $2 || :
    fi >&2
}

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
# What somebody compiled in the checkout is for another kernel.
find "$trees" -type f '(' -name '*.ko' -o -name '*.o' -o -name '*.mod' -o -name '*.mod.c' -o -name '.*.cmd' \
    -o -name Module.symvers -o -name modules.order ')' -exec rm -f {} +
# The driver's source is GPL: whoever has the modules has it, too, with the licence.
licences=$image/usr/share/doc/kae
mkdir -p "$licences"
cp /kae/GPL-2.0.txt "$licences/"

# KAE's libraries, by the names of its build.sh; the default is what the checkout has.
if [ -z "$LIBRARIES" ] && [ -d "$source/uadk" ]; then
    LIBRARIES=uadk
    [ ! -d "$source/KAEOpensslEngine" ] || LIBRARIES='uadk engine'
fi
case $LIBRARIES in
none) LIBRARIES='' ;;
'' | uadk | 'uadk engine') ;;
*) fail "LIBRARIES is '$LIBRARIES': give 'uadk engine', 'uadk' or 'none'." ;;
esac

# compile FOLDER OPTION...: compiles a folder of the checkout that autotools configure, and installs it in this stage;
# $made is what make is told.
compile() {
    folder=$1
    shift
    [ -d "$source/$folder" ] || fail "There is no folder $folder in the checkout of KAE, which LIBRARIES asks for."
    cp -R "$source/$folder" "/kae/$folder"
    cd "/kae/$folder"
    autoreconf --force --install
    # uadk makes errors of warnings, of which newer compilers have more.
    ./configure --prefix=/opt/kae --disable-static CFLAGS='-O2 -Wno-error' "$@"
    # Of what somebody compiled in the checkout.
    make ${made:+"$made"} clean
    make --jobs="$(nproc)" ${made:+"$made"} || fail "The folder $folder does not compile in BUILD_IMAGE: LIBRARIES can leave it out."
    make ${made:+"$made"} install
    mkdir -p "$licences/$folder"
    cp LICENSE "$licences/$folder/"
}

if [ -n "$LIBRARIES" ]; then
    needed='autoreconf gcc libtoolize make pkg-config strip numa.h openssl/engine.h'
    [ -z "$(missing "$needed")" ] || bring \
        'autoconf automake binutils gcc libtool make numactl-devel openssl-devel pkgconf-pkg-config' \
        'autoconf automake binutils gcc libc6-dev libnuma-dev libssl-dev libtool make pkg-config'
    [ -z "$(missing "$needed")" ] || fail "BUILD_IMAGE lacks$(missing "$needed"), which compile LIBRARIES ('none' needs none)."
    # As the installer puts them on the host, and the device plugin into containers.
    export CPATH=/opt/kae/include PKG_CONFIG_PATH=/opt/kae/lib/pkgconfig
    # Its tests and tools are in other folders.
    made=SUBDIRS=.
    compile uadk
    made=''
    case $LIBRARIES in *engine)
        number=$(pkg-config --modversion libcrypto)
        case $number in 1.1.*) engines='engines-1.1' ;; *) engines='engines-3.0' ;; esac
        # With the part for uacce_mode=2.
        compile KAEOpensslEngine --libdir="/opt/kae/lib/$engines" --enable-kae
        wanted=$(grep -o 'libcrypto [<>=][^,]*' configure.ac) || wanted=another
        [ -f "/opt/kae/lib/$engines/kae.so" ] || fail "The engine was not compiled, as BUILD_IMAGE has OpenSSL $number," \
            "and KAE's configure.ac asks for: $wanted. Take another BUILD_IMAGE, or LIBRARIES=uadk." ;;
    esac
    cd /opt/kae/lib
    mkdir -p "$image/opt/kae/lib"
    find . -name '*.so*' -exec cp -a --parents {} "$image/opt/kae/lib/" ';'
    find "$image/opt/kae" -type f -exec strip --strip-unneeded {} +
fi

# headers KERNEL: its build folder, as the packages of openEuler and of Debian have it.
headers() {
    for folder in "/usr/src/kernels/$1" "/usr/src/linux-headers-$1" "/lib/modules/$1/build"; do
        [ ! -f "$folder/Makefile" ] || { echo "$folder"; return; }
    done
}

for kernel in $KERNELS; do
    if [ -z "$(headers "$kernel")" ] || [ -n "$(missing 'find gcc make strip')" ]; then
        bring "binutils findutils gcc make kernel-devel-$kernel" "binutils gcc make linux-headers-$kernel"
    fi
    path=$(headers "$kernel")
    [ -n "$path" ] || fail "There are no headers for kernel $kernel: install them in BUILD_IMAGE, or mount /usr/src."
    [ -z "$(missing 'gcc make strip')" ] || fail "BUILD_IMAGE lacks$(missing 'gcc make strip'), which compile modules."
    number=$(expr "$kernel" : '\([0-9]*\.[0-9]*\)')
    tree=$trees/$number
    [ -d "$tree" ] || tree=$trees
    [ -f "$tree/Makefile" ] || fail "KAE's source has no tree for kernels $number."
    # Of each kernel its own copy, so that no object of another one is in it.
    rm -rf /kae/work
    cp -R "$tree" /kae/work
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

# Whatever the umask of the checkout was.
chmod -R u=rwX,go=rX "$image"
