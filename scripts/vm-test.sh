#!/usr/bin/env bash
# vm-test.sh [RELEASE] - try the reader's virtual machine without Vagrant: `make vm-test` (Debian 13), or 12 by
# `scripts/vm-test.sh bookworm`.  Needs root, debootstrap, QEMU, some 4 GiB in TMPDIR and a network; some minutes.
#
# A Debian is made in a folder and provisioned by scripts/provision.sh --vm, exactly as the Vagrantfile does it; then
# it boots from a disk image under QEMU, with Debian's own kernel.  Inside, as the ordinary user `reader`: the
# doctor, one experiment of each chapter, and the helper's BPF probe.  Outside, through the forwarded port: the
# book's page, refused without the key and served with it.  Prints what it found; status 1 when anything failed.
set -eu
export LC_ALL=C
PATH=$PATH:/usr/sbin:/sbin

release=${1:-trixie}
experiments=${EXPERIMENTS:-context_switch.matrix warmup.sweep runqlat.histogram quota.hog}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
[ "$(id -u)" -eq 0 ] || { echo "vm-test.sh makes a root file system and needs root" >&2; exit 2; }
for tool in debootstrap qemu-system-x86_64 mkfs.ext4 curl git; do
    command -v $tool >/dev/null || { echo "vm-test.sh needs $tool" >&2; exit 2; }
done

work=$(mktemp -d "${TMPDIR:-/var/tmp}/sched-labs-vm.XXXXXX")
root=$work/root guest=
# shellcheck disable=SC2317 # called by the trap
leave() {
    [ -z "$guest" ] || kill "$guest" 2>/dev/null || true
    for mounted in dev proc sys; do umount -l "$root/$mounted" 2>/dev/null || true; done
    rm -rf --one-file-system "$work"
}
trap leave EXIT

begin=$SECONDS
say() { printf '%4d s  %s\n' $((SECONDS - begin)) "$*"; }

# ---- a Debian in a folder -----------------------------------------------------------------------------------

# The mirror that this machine uses, if it is a Debian.
mirror=${MIRROR:-$(sed -nE 's/^(URIs:|deb( \[[^]]*\])?) +(http[^ ]+).*/\3/p' /etc/apt/sources.list \
    /etc/apt/sources.list.d/* 2>/dev/null | grep -v security | head -n 1)}
say "making a Debian ($release)"
packages=systemd-sysv,udev,dbus,iproute2,procps,sudo,ca-certificates,make,linux-image-cloud-amd64
debootstrap --variant=minbase --include=$packages "$release" "$root" ${mirror:+"$mirror"} >"$work/log" 2>&1 ||
    { tail -n 20 "$work/log"; exit 1; }
for mounted in dev proc sys; do mount --rbind "/$mounted" "$root/$mounted"; mount --make-rslave "$root/$mounted"; done
cp /etc/resolv.conf "$root/etc/"
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
cp /etc/pip.conf "$root/etc/" 2>/dev/null || true
mkdir "$root/vagrant"
git -C "$here" archive HEAD | tar -C "$root/vagrant" -xf - # what is committed

say "provisioning it, as vagrant would"
chroot "$root" env SCHED_LABS_PROFILE=tiny bash /vagrant/scripts/provision.sh --vm 8888 >"$work/log" 2>&1 ||
    { tail -n 40 "$work/log"; exit 1; }
token=$(sed -n 's/.*token=//p' "$root/home/reader/.local/share/sched-labs/.jupyter/address")
rm -rf "$root/vagrant" # the machine must not need it any more
rm -f "$root/etc/pip.conf" "$root/etc/resolv.conf" # nor a network

# ---- what is tried inside -----------------------------------------------------------------------------------

cat >"$root/etc/systemd/network/80-dhcp.network" <<'NETWORK'
[Match]
Name=e*
[Network]
DHCP=yes
NETWORK
mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
ln -sf /lib/systemd/system/systemd-networkd.service "$root/etc/systemd/system/multi-user.target.wants/"
ln -sf /lib/systemd/system/systemd-networkd-wait-online.service "$root/etc/systemd/system/multi-user.target.wants/"
cat >"$root/usr/local/bin/vm-test" <<INSIDE
#!/bin/bash
# As root; the reader's commands run as the reader.
exec >/dev/ttyS1 2>&1
try() { echo "try \$*"; if timeout 300 "\$@"; then echo "passed \$*"; else echo "failed \$* (\$?)"; fi; }
cd /home/reader
try sched-labs doctor
for name in $experiments; do
    try sched-labs run "\$name" --profile tiny --json "/home/reader/\$name.json"
done
try sched-labs clean
echo "instruments: \$(grep -o '"instruments": *\\[[^]]*\\]' /home/reader/runqlat.histogram.json | tr -d '\\n ')"
stat -fc 'cgroups: %T' /sys/fs/cgroup
echo "kernel: \$(uname -r)"
echo over
INSIDE
chmod 755 "$root/usr/local/bin/vm-test"
cat >"$root/etc/systemd/system/vm-test.service" <<'UNIT'
[Unit]
After=sched-labs.service
[Service]
Type=oneshot
ExecStart=/usr/local/bin/vm-test
UNIT
ln -sf ../vm-test.service "$root/etc/systemd/system/multi-user.target.wants/"
echo sched-labs >"$root/etc/hostname"

# ---- boot ---------------------------------------------------------------------------------------------------

for mounted in dev proc sys; do umount -l "$root/$mounted"; done
kernel=$(find "$root/boot" -name 'vmlinuz-*' | sort | tail -n 1)
cp "$kernel" "$work/vmlinuz"
say "writing its disk"
truncate -s 6G "$work/disk"
mkfs.ext4 -q -d "$root" "$work/disk"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
say "booting it ($(basename "$kernel"))"
# cx16=off: the emulation of that instruction in QEMU 7.2 lets guests crash now and then.
qemu-system-x86_64 -machine q35,accel=kvm:tcg -cpu max,cx16=off -smp 2 -m 2048 -nodefaults -display none -no-reboot \
    -kernel "$work/vmlinuz" -append "console=ttyS0 root=/dev/nvme0n1 rw quiet panic=-1 mitigations=off" \
    -drive file="$work/disk",format=raw,if=none,id=disk,cache=unsafe -device nvme,drive=disk,serial=1 \
    -netdev user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:"$port"-:8888 -device virtio-net-pci,netdev=net \
    -serial file:"$work/console" -serial file:"$work/result" >"$work/qemu" 2>&1 &
guest=$!

failed=0
check() { # what, wanted, got
    if [ "$2" = "$3" ]; then say "passed: $1"; else say "FAILED: $1: $3, not $2"; failed=1; fi
}
status() { curl -s -o /dev/null -m 20 -w '%{http_code}' -H 'Host: localhost:8888' "$@" || true; }

end=$((SECONDS + 600))
until [ "$(status "http://127.0.0.1:$port/book/?token=$token")" = 200 ]; do
    if [ $SECONDS -gt $end ] || ! kill -0 $guest; then
        echo "The book is not served. The console's last lines, and QEMU's:"
        tail -n 30 "$work/console" "$work/qemu"
        exit 1
    fi
    sleep 2
done
say "passed: the page is served with the key"
check "without the key it leads to the login" 302 "$(status "http://127.0.0.1:$port/book/")"
check "under another name nothing is served" 403 "$(curl -s -o /dev/null -w '%{http_code}' -H 'Host: elsewhere.example' "http://127.0.0.1:$port/book/?token=$token")"

end=$((SECONDS + 900))
until grep -q '^over' "$work/result"; do
    if [ $SECONDS -gt $end ] || ! kill -0 $guest; then
        echo "The experiments inside did not end."
        failed=1
        break
    fi
    sleep 2
done
sed 's/^/        /; s/\r$//' "$work/result"
if grep -q '^failed' "$work/result"; then failed=1; fi
check "waits are counted by BPF, as an ordinary user" 1 "$(grep -c 'instruments.*bpf' "$work/result")"
check "cgroup v2" 1 "$(grep -c 'cgroups: cgroup2fs' "$work/result")"
exit $failed
