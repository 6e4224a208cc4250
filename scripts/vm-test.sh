#!/usr/bin/env bash
# vm-test.sh [RELEASE] - try the reader's virtual machine without Vagrant: `make vm-test` (Debian 13), or 12 by
# `scripts/vm-test.sh bookworm`; `scripts/vm-test.sh --list` only names what is checked.  Needs root, x86-64,
# debootstrap, QEMU, some 8 GiB in TMPDIR (default /var/tmp) and a network.  The processor is emulated, which takes a
# quarter of an hour; ACCEL=kvm where KVM works (a /dev/kvm that is there may still not: then QEMU ends at once).
#
# A Debian is made in a folder and provisioned by scripts/provision.sh --vm, as the Vagrantfile does it, from what is
# committed; a newer kernel is installed afterwards.  Then it boots twice from a disk image under QEMU, without any
# network but the forwarded port: first with Debian's own kernel, then, after a power cut, with the newer one.
# Outside, through the forwarded port: the book's pages, refused without the key and served with it.  Inside:
# scripts/vm-inside.py.  Prints what it found, and where it ends early what it did not come to, and leaves nothing
# behind; status 1 when anything failed.
set -eu
export LC_ALL=C
PATH=$PATH:/usr/sbin:/sbin

release=${1:-trixie}
if [[ $# -gt 1 || ! $release =~ ^([a-z]+|--list)$ ]]; then
    echo "usage: vm-test.sh [RELEASE | --list]      such as bookworm or trixie" >&2
    exit 2
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# ---- what is checked ----------------------------------------------------------------------------------------

# In a dry run the checks only tell their names: for --list, and for a test that ends early.
dry=yes stage='' planned=() tried=0 failed=0 guest=''

say() { [ -n "$dry" ] || printf '%4d s  %s\n' $SECONDS "$*"; }
check() { # what, wanted, and the command that prints what there is
    local what=$1 wanted=$2 got
    shift 2
    if [ -n "$dry" ]; then planned+=("$stage$what"); return; fi
    got=$("$@")
    tried=$((tried + 1))
    if [ "$got" = "$wanted" ]; then say "passed: $what"; else say "FAILED: $what: $got, not $wanted"; failed=1; fi
}
count() { grep -cE "$1" "$work/${2:-log}" || true; } # lines of a file

check_first_provisioning() { check "every chapter was measured to its end" 0 count 'failed; its page'; }
check_second_provisioning() { check "nothing was measured or installed again" 0 count 'Installing|: measuring'; }

boot() { # first or second
    [ -z "$dry" ] || return 0
    say "booting it with $1 kernel"
    # One thread emulates both processors, by turns.  With a thread for each, one may execute an instruction of which
    # the other is just writing the second half: loading probes patches the running kernel, and it crashed of that.
    # clearcpuid=141 (cx16): how QEMU 7.2 emulates that instruction lets kernels crash now and then; NumPy needs it.
    truncate -s 0 "$work/console" "$work/result"
    qemu-system-x86_64 -machine q35 -accel "${ACCEL:-tcg,thread=single}" -cpu max -smp 2 -m 2048 \
        -nodefaults -display none -no-reboot -kernel "$work/$1" \
        -append "console=ttyS0 root=/dev/nvme0n1 rw quiet panic=-1 mitigations=off clearcpuid=141 vm-inside=$1,$port" \
        -drive file="$work/disk",format=raw,if=none,id=disk,cache=unsafe -device nvme,drive=disk,serial=1 \
        -netdev user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:"$port"-:8888 -device virtio-net-pci,netdev=net \
        -serial file:"$work/console" -serial file:"$work/result" >"$work/qemu" 2>&1 &
    guest=$!
}

# shellcheck disable=SC2317 # called by check
status() { # host, path, what else curl is told: the status that is answered
    local host=$1 path=$2
    shift 2
    curl -s -o /dev/null -m 60 -w '%{http_code}' -H "Host: $host" "$@" "http://127.0.0.1:$port$path" || true
}

wait_until() { # seconds after which it hangs, also on a busy machine; what; command...
    [ -z "$dry" ] || return 0
    local end=$((SECONDS + $1)) what=$2
    shift 2
    until "$@"; do
        if [ $SECONDS -gt $end ] || ! kill -0 "$guest" 2>/dev/null; then
            say "FAILED: $what. The console's last lines, and QEMU's:"
            tail -n 30 "$work/console" "$work/qemu" "$work/result"
            exit 1
        fi
        sleep 2
    done
}
# shellcheck disable=SC2317 # called by wait_until
is_served() { [ "$(status "$name" "/book/?token=$token")" = 200 ]; }
# shellcheck disable=SC2317 # called by wait_until
is_over() { grep -q '^over' "$work/result"; }

check_inside() { # first or second
    local what
    if [ -n "$dry" ]; then
        while read -r what; do planned+=("$stage$what"); done < <(python3 "$here/scripts/vm-inside.py" --list "$1")
        return
    fi
    wait_until 9000 "what is tried inside comes to its end" is_over
    sed 's/^/        /; s/\r$//' "$work/result"
    if grep -q '^FAILED' "$work/result"; then failed=1; fi
}

power_cut() {
    [ -z "$dry" ] || return 0
    tried=$((tried + $(count '^(passed|FAILED):' result)))
    kill -KILL "$guest" 2>/dev/null || true
    wait "$guest" 2>/dev/null || true
    guest=''
}

try() { # first or second
    local chapter=/book/notebooks/01-context-switch.html
    stage="$1 boot: "
    boot "$1"
    wait_until 1800 "the book is served" is_served
    check "the page is served with the key that provisioning printed" 200 status "$name" "/book/?token=$token"
    check "without the key it leads to the login" 302 status "$name" /book/
    check "with a wrong key too" 302 status "$name" "/book/?token=wrong"
    check "under another name nothing is served" 403 status elsewhere.example "/book/?token=$token"
    check "the login is accepted" 200 status "$name" "/book/?token=$token" -c "$work/cookies"
    check "after it a chapter needs no key" 200 status "$name" $chapter -b "$work/cookies"
    check "nor does JupyterLab" 200 status "$name" /lab -b "$work/cookies"
    check "the console shows the address" 1 count "localhost:8888/book/\?token=$token" console
    check_inside "$1"
    power_cut
}

work='' port='' token='' name=localhost:8888
check_first_provisioning
check_second_provisioning
try first
try second
dry='' stage=''
if [ "$release" = --list ]; then
    printf '%s\n' "${planned[@]}"
    exit
fi

# ---- what it needs ------------------------------------------------------------------------------------------

[ "$(uname -m)" = x86_64 ] || { echo "vm-test.sh boots x86-64 machines only" >&2; exit 2; }
[ "$(id -u)" -eq 0 ] || { echo "vm-test.sh makes a root file system and needs root" >&2; exit 2; }
for tool in debootstrap qemu-system-x86_64 mkfs.ext4 curl git python3; do
    command -v $tool >/dev/null || { echo "vm-test.sh needs $tool" >&2; exit 2; }
done

work=$(mktemp -d "${TMPDIR:-/var/tmp}/sched-labs-vm.XXXXXX")
root=$work/root
# shellcheck disable=SC2317 # called by the trap
leave() {
    local process
    trap '' INT TERM
    if [ -n "$guest" ]; then power_cut; fi
    if [ "$tried" -lt ${#planned[@]} ]; then
        say "NOT TRIED, or not to its end:"
        printf '        %s\n' "${planned[@]:tried}"
    fi
    # What an interrupted installation left running in there, and nothing else.
    for process in /proc/[0-9]*; do
        if [ "$(readlink "$process/root")" = "$root" ]; then kill -KILL "${process#/proc/}" 2>/dev/null || true; fi
    done
    unbind
    rm -rf --one-file-system "$work"
}
trap leave EXIT
trap 'exit 130' INT TERM

bind() {
    local folder
    for folder in dev proc sys; do
        mount --rbind "/$folder" "$root/$folder"
        mount --make-rslave "$root/$folder" # what is unmounted in there stays mounted here
    done
}
unbind() {
    local folder
    for folder in dev proc sys; do umount -l "$root/$folder" 2>/dev/null || true; done
}
inside() { # run a command in the folder's Debian; of this environment only the way to the network comes along
    chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C HOME=/root \
        DEBIAN_FRONTEND=noninteractive http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" \
        "$@" >"$work/log" 2>&1 || { tail -n 40 "$work/log"; exit 1; }
}

# ---- a Debian in a folder -----------------------------------------------------------------------------------

# The mirror that this machine uses, if it is a Debian.
mirror=${MIRROR:-$(sed -nE 's/^(URIs:|deb( \[[^]]*\])?) +(http[^ ]+).*/\3/p' /etc/apt/sources.list \
    /etc/apt/sources.list.d/* 2>/dev/null | grep -v security | head -n 1)}
mirror=${mirror:-http://deb.debian.org/debian}
say "making a Debian ($release)"
packages=systemd-sysv,udev,dbus,libpam-systemd,iproute2,procps,sudo,ca-certificates,make,linux-image-cloud-amd64
debootstrap --variant=minbase --include=$packages "$release" "$root" "$mirror" >"$work/log" 2>&1 ||
    { tail -n 20 "$work/log"; exit 1; }
bind
cp /etc/resolv.conf "$root/etc/"
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
cp /etc/pip.conf "$root/etc/" 2>/dev/null || true
mkdir "$root/vagrant"
git -C "$here" archive HEAD | tar -C "$root/vagrant" -xf - # what is committed

say "provisioning it, as vagrant would"
inside SCHED_LABS_PROFILE=tiny bash /vagrant/scripts/provision.sh --vm 8888
check_first_provisioning
grep -A 8 'failed; its page' "$work/log" || true
say "provisioning it again"
before=$SECONDS
inside SCHED_LABS_PROFILE=tiny bash /vagrant/scripts/provision.sh --vm 8888
check_second_provisioning
say "the second time took $((SECONDS - before)) s"
token=$(sed -n 's/.*token=//p' "$root/home/reader/.local/share/sched-labs/.jupyter/address")
uname -r >"$root/home/reader/provisioned-with"

say "upgrading its kernel"
first=$(find "$root/boot" -name 'vmlinuz-*')
echo "deb $mirror $release-backports main" >"$root/etc/apt/sources.list.d/backports.list"
inside apt-get update
inside apt-get -y --no-install-recommends -t "$release-backports" \
    install linux-image-cloud-amd64
second=$(find "$root/boot" -name 'vmlinuz-*' | sort -V | tail -n 1)
[ "$first" != "$second" ] || { echo "$release-backports has no newer kernel"; exit 1; }

# ---- a machine without network ------------------------------------------------------------------------------

rm -rf "$root/vagrant" "$root/etc/pip.conf" "$root/etc/resolv.conf"
# As a hypervisor's NAT without a network behind it: there is a route, and it leads nowhere.
cat >"$root/etc/systemd/network/80-nat.network" <<'NETWORK'
[Match]
Name=e*
[Network]
Address=10.0.2.15/24
Gateway=10.0.2.2
NETWORK
wanted=$root/etc/systemd/system
mkdir -p "$wanted/multi-user.target.wants" "$wanted/network-online.target.wants"
ln -sf /lib/systemd/system/systemd-networkd.service "$wanted/multi-user.target.wants/"
ln -sf /lib/systemd/system/systemd-networkd-wait-online.service "$wanted/network-online.target.wants/"
echo sched-labs >"$root/etc/hostname"
echo 127.0.1.1 sched-labs >>"$root/etc/hosts"

cp "$here/scripts/vm-inside.py" "$root/usr/local/lib/"
cat >"$wanted/vm-inside.service" <<'UNIT'
[Unit]
After=sched-labs.service
[Service]
ExecStartPre=/bin/sh -c 'until ss -Hltn sport = :8888 | grep -q .; do sleep 1; done'
ExecStart=/bin/sh -c 'exec /opt/sched-labs/.venv/bin/python /usr/local/lib/vm-inside.py $(sed "s/.*vm-inside=//" /proc/cmdline)'
StandardOutput=file:/dev/ttyS1
StandardError=inherit
TimeoutStartSec=infinity
# As in a login session: beside a group with settings of its own nothing is lent.
TasksMax=infinity
UNIT
ln -sf ../vm-inside.service "$wanted/multi-user.target.wants/"

unbind
cp "$first" "$work/first"
cp "$second" "$work/second"
say "writing its disk"
truncate -s 8G "$work/disk"
mkfs.ext4 -q -d "$root" "$work/disk"
rm -rf --one-file-system "$root"

# ---- boot ---------------------------------------------------------------------------------------------------

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
try first
try second
if [ $failed = 0 ]; then say "all passed"; fi
exit $failed
