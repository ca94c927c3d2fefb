#!/bin/sh
# Makes the guest's root disk and its kernels:  image.sh OUT KERNEL_TREE KUNPENG_PCI [KERNEL_TREE KUNPENG_PCI]...
# KERNEL_TREE is an unpacked linux-image package. There is no initramfs: NVMe and ext4 are built into the kernel.
set -eu
out=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
root=$(mktemp -d)
trap 'rm -r "$root"' EXIT
mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,udev,kmod,python3,rpm,procps,iproute2,pciutils,zstd \
    bookworm - | tar -C "$root" -x
while [ $# -gt 0 ]; do
    kernel=$1 bus=$2
    shift 2
    release=$(ls "$kernel/lib/modules")
    # Few of the kernel's modules, as depmod of all of them takes five seconds without KVM.
    (cd "$kernel/lib" && find modules -type f \( -path 'modules/*/modules.[bo]*' -o -name 'virtio.ko' \
        -o -name 'virtio_[nrp]*.ko' -o -name '*failover.ko' -o -name 'uio.ko' -o -name 'uio_pci_generic.ko' \
        -o -name 'libcurve25519*.ko' -o -name 'ecdh_generic.ko' -o -name 'ecc.ko' -o -name 'authenc.ko' \
        -o -name 'bonding.ko' -o -name 'tls.ko' -o -name 'bridge.ko' -o -name 'stp.ko' -o -name 'llc.ko' \
        -o -name '8021q.ko' -o -name 'garp.ko' -o -name 'mrp.ko' -o -name 'fuse.ko' \)) \
        | tar -C "$kernel/lib" -cT - | tar -C "$root/usr/lib" -x
    install -D -m 644 "$bus/kunpeng_pci.ko" "$root/usr/lib/modules/$release/extra/kunpeng_pci.ko"
    depmod -b "$root" "$release"
    cp -L "$kernel"/boot/vmlinuz-* "$out/vmlinuz-$release"
done

# The devices are there early, so that udev finds them as it finds those of a real machine.
echo kunpeng_pci >"$root/etc/modules-load.d/kunpeng_pci.conf"
echo kae-vm >"$root/etc/hostname"
install -m 755 "$here/agent.py" "$root/usr/local/sbin/agent"
cat >"$root/etc/systemd/system/agent.service" <<UNIT
[Unit]
After=systemd-udev-settle.service
Wants=systemd-udev-settle.service
[Service]
ExecStart=/usr/local/sbin/agent
KillMode=process
TasksMax=infinity
[Install]
WantedBy=multi-user.target
UNIT
ln -s /etc/systemd/system/agent.service "$root/etc/systemd/system/multi-user.target.wants/agent.service"
# What a test waits for and does not need.
for unit in getty.target getty-static.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
    e2scrub_reap.service e2scrub_all.timer fstrim.timer systemd-timesyncd.service systemd-networkd-wait-online.service \
    systemd-user-sessions.service systemd-pcrphase.service modprobe@.service; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
printf '[Match]\nName=e*\n[Network]\nDHCP=yes\n' >"$root/etc/systemd/network/any.network"
ln -sf /lib/systemd/system/systemd-networkd.service "$root/etc/systemd/system/multi-user.target.wants/"
# What a run of the tests brings: sources, Python packages, drivers. It is mounted by a command, as a busy machine is late.
mkdir "$root/payload"
echo '/dev/disk/by-label/payload /payload ext4 ro,noauto 0 0' >"$root/etc/fstab"
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/doc "$root"/usr/share/man
mke2fs -q -t ext4 -L root -d "$root" "$out/root.ext4" 1500M
