#!/usr/bin/env bash
# Makes a Vagrant box for libvirt from Debian packages: Debian 12 for amd64 with what Vagrant requires
# (user vagrant with its well-known key, sudo, rsync), without Trunkline.
#
#   sudo vagrant/make-box.sh trunkline.box
#   vagrant box add --name trunkline/bookworm64 trunkline.box
#   TRUNKLINE_BOX=trunkline/bookworm64 trunkline vm up
#
# It needs: apt-get install --no-install-recommends mmdebstrap extlinux syslinux-common qemu-utils
# e2fsprogs fdisk openssh-client. MIRROR is a Debian mirror; with a snapshot, boxes are reproducible.
# The default is mmdebstrap's own.
set -euo pipefail

BOX=$(realpath "${1:?usage: make-box.sh FILE.box}")
MIRROR=${MIRROR:-}
SIZE_GB=${SIZE_GB:-16}
OFFSET=$((1 << 20))

[ "$(id -u)" = 0 ] || { echo "make-box.sh: needs root" >&2; exit 1; }
for program in mmdebstrap extlinux qemu-img mkfs.ext4 sfdisk; do
    command -v "$program" >/dev/null || { echo "make-box.sh: $program is missing" >&2; exit 1; }
done

work=$(mktemp --directory --tmpdir trunkline-box.XXXXXX)
loop=
finish() {
    mountpoint --quiet "$work/root" && umount "$work/root"
    [ -z "$loop" ] || losetup --detach "$loop"
    rm -rf "$work"
}
trap finish EXIT

mmdebstrap --variant=minbase --aptopt='Acquire::Retries "3"' \
    --include=linux-image-cloud-amd64,systemd-sysv,systemd-resolved,udev,dbus,openssh-server,sudo \
    --include=rsync,iproute2,ca-certificates,locales,python3 \
    bookworm "$work/root.tar" ${MIRROR:+"$MIRROR"}

# The disk has one partition, which extlinux boots.
truncate --size "${SIZE_GB}G" "$work/disk.raw"
echo 'start=2048, type=83, bootable' | sfdisk --quiet "$work/disk.raw"
dd if=/usr/lib/syslinux/mbr/mbr.bin of="$work/disk.raw" bs=440 count=1 conv=notrunc status=none
loop=$(losetup --find --show --offset "$OFFSET" "$work/disk.raw")
mkfs.ext4 -q -L trunkline -O '^64bit,^metadata_csum' "$loop"
mkdir "$work/root"
mount "$loop" "$work/root"
tar --extract --file "$work/root.tar" --directory "$work/root" --numeric-owner
rm "$work/root.tar"

kernel=$(basename "$work"/root/boot/vmlinuz-*)
mkdir "$work/root/boot/extlinux"
extlinux --install "$work/root/boot/extlinux" >/dev/null
cat > "$work/root/boot/extlinux/extlinux.conf" <<CONF
DEFAULT debian
LABEL debian
  LINUX ../$kernel
  INITRD ../${kernel/vmlinuz/initrd.img}
  APPEND root=LABEL=trunkline ro console=ttyS0 net.ifnames=0 quiet
CONF
echo 'LABEL=trunkline / ext4 defaults 0 1' > "$work/root/etc/fstab"
echo trunkline > "$work/root/etc/hostname"
printf '[Match]\nName=e*\n[Network]\nDHCP=ipv4\n' > "$work/root/etc/systemd/network/80-dhcp.network"
for unit in systemd-networkd systemd-resolved; do
    chroot "$work/root" systemctl --quiet enable "$unit"
done
ln -sf /run/systemd/resolve/stub-resolv.conf "$work/root/etc/resolv.conf"

# Every machine must have its own host keys, so they are generated at the first boot.
rm -f "$work"/root/etc/ssh/ssh_host_*
cat > "$work/root/etc/systemd/system/host-keys.service" <<'UNIT'
[Unit]
Before=ssh.service
ConditionPathExists=!/etc/ssh/ssh_host_ed25519_key
[Service]
Type=oneshot
ExecStart=/usr/bin/ssh-keygen -A
[Install]
WantedBy=multi-user.target
UNIT
chroot "$work/root" systemctl --quiet enable host-keys

chroot "$work/root" useradd --create-home --shell /bin/bash vagrant
echo 'vagrant ALL=(ALL) NOPASSWD: ALL' > "$work/root/etc/sudoers.d/vagrant"
chmod 440 "$work/root/etc/sudoers.d/vagrant"
install --directory --mode 700 "$work/root/home/vagrant/.ssh"
# Vagrant's well-known key; `vagrant up` replaces it by a new one.
public=$(find /usr/share /opt -path '*vagrant*/keys/vagrant.pub' -print -quit)
cp "${public:?keys/vagrant.pub is missing: is Vagrant installed?}" \
    "$work/root/home/vagrant/.ssh/authorized_keys"
chroot "$work/root" chown -R vagrant:vagrant /home/vagrant/.ssh

umount "$work/root"
losetup --detach "$loop"
loop=
qemu-img convert -c -O qcow2 "$work/disk.raw" "$work/box.img"
rm "$work/disk.raw"
echo "{\"provider\": \"libvirt\", \"format\": \"qcow2\", \"virtual_size\": $SIZE_GB}" > "$work/metadata.json"
tar --create --file "$BOX" --directory "$work" metadata.json box.img
echo "$BOX: $(stat --format %s "$BOX") bytes"
