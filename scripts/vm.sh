#!/usr/bin/env bash
# vm.sh PORT - the second half of `provision.sh --vm PORT`: the book itself, in a machine that is there for it.
#
# A copy of this source goes to /opt/sched-labs and belongs to the ordinary user `reader`, who may start the
# privileged helper and nothing else.  The chapters are measured and built, and a service serves them after every
# boot, on the address at which the host's forwarded PORT arrives.  A second run brings a changed source over;
# what the reader keeps is in the home of `reader` and is not touched.  After the first run no network is needed.
#
# SCHED_LABS_PROFILE=tiny   measures the chapters in seconds, to try the machinery
set -eu
export LC_ALL=C

port=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
place=/opt/sched-labs
own=/home/reader/.local/share/sched-labs # what the reader keeps, and what JupyterLab shows
unit=/etc/systemd/system/sched-labs.service
aside=/usr/local/libexec/sched-labs-aside
path=/usr/local/bin:/usr/bin:/bin:/usr/sbin # what the reader's programs see

as_reader() { runuser -u reader -- env HOME=/home/reader PATH=/usr/local/bin:/usr/bin:/bin "$@"; }

free_mb=$(df --output=avail -m / | tail -n 1)
if [ ! -e $place/.venv ] && [ "$free_mb" -lt 2000 ]; then
    echo "The book needs 2 GB on this machine's disk, and $free_mb MB are free. Give the machine a larger disk." >&2
    exit 1
fi

echo "Copying the book to $place"
install -d -o reader -g reader -m 0755 $place
# What an older copy had and this one has not goes; what was built from it stays.
find $place -mindepth 1 -maxdepth 1 ! -name .venv ! -name _build -exec rm -rf {} +
tar -C "$here" --exclude=./.git --exclude=./.venv --exclude=./_build --exclude=./.vagrant --exclude='./.*_cache' \
    --exclude=__pycache__ --no-same-owner -cf - . | as_reader tar -C $place -xf -

# What the book starts gets control groups of its own, for the chapter on quotas, and real-time policies, for the
# chapter on policies; the kernel's throttling of those stays on.
properties=("Delegate=cpu cpuset memory pids" LimitRTPRIO=50 LimitNICE=-10)

# A group that holds processes cannot hand its controllers on to groups inside it, so that the program steps aside
# before it switches them on. (DelegateSubgroup= does the first half, from systemd 254 on.)
install -d -m 0755 /usr/local/libexec
cat >$aside <<'ASIDE'
#!/bin/sh
group=/sys/fs/cgroup$(cut -d : -f 3 /proc/self/cgroup)
mkdir -p "$group/programs" && echo $$ >"$group/programs/cgroup.procs" &&
    echo +cpu +cpuset +memory +pids >"$group/cgroup.subtree_control"
exec "$@"
ASIDE
chmod 0755 $aside

# Run a command as the reader, with all that; in an image that is being made, without.
as_reader_apart() {
    local setting settings=()
    if [ ! -d /run/systemd/system ]; then as_reader "$@"; return; fi
    for setting in http_proxy https_proxy no_proxy; do
        if [ -n "${!setting:-}" ]; then settings+=("--setenv=$setting"); fi
    done
    trap 'systemctl --quiet stop sched-labs-build 2>/dev/null || true' EXIT # when it is broken off
    systemd-run --quiet --collect --wait --pipe --unit=sched-labs-build --uid=reader "${settings[@]}" \
        --setenv=HOME=/home/reader --setenv=PATH=$path "${properties[@]/#/--property=}" $aside "$@"
}

echo "Measuring the chapters on this machine and building the book, as the user reader"
incomplete=no
as_reader_apart make -C $place book PROVISION=no ${SCHED_LABS_PROFILE:+PROFILE=$SCHED_LABS_PROFILE} || incomplete=yes
# A chapter that broke off has a page up to there, and the others are whole: that is served all the same.
[ $incomplete = no ] || [ -f $place/_build/html/index.html ] || exit 1

# For whoever logs in: the reader's own commands, under the reader's name.
cat >/usr/local/bin/sched-labs <<WRAPPER
#!/bin/sh
if [ "\$(id -un)" = reader ]; then exec $place/.venv/bin/sched-labs "\$@"; fi
# The reader may not write where somebody else is: a file under a plain name goes where JupyterLab shows it.
sudo -u reader mkdir -p $own
if [ ! -d /run/systemd/system ]; then exec sudo -u reader -H env -C $own $place/.venv/bin/sched-labs "\$@"; fi
exec sudo systemd-run --quiet --collect --wait --pipe --pty --uid=reader --working-directory=$own \\
    --setenv=HOME=/home/reader --setenv=PATH=$path \\
    $(printf ' --property="%s"' "${properties[@]}") \\
    $aside $place/.venv/bin/sched-labs "\$@"
WRAPPER
chmod 0755 /usr/local/bin/sched-labs

# Software events of one's own programs (context switches, migrations) need no privilege in a machine of one's own.
echo 'kernel.perf_event_paranoid = 1' >/etc/sysctl.d/60-sched-labs.conf

cat >$unit <<UNIT
[Unit]
Description=sched-labs, the book, live
After=network-online.target
Wants=network-online.target

[Service]
User=reader
WorkingDirectory=-$own
Environment=PATH=$path
ExecStart=$aside $place/.venv/bin/python -m sched_labs.book serve --root $place --no-browser --forwarded $port
Restart=on-failure
RestartSec=5
$(printf '%s\n' "${properties[@]}")

[Install]
WantedBy=multi-user.target
UNIT

# The key is made once, so that the line on the console stays true.
address=$(as_reader $place/.venv/bin/sched-labs url --forwarded "$port")
mkdir -p /etc/issue.d
# Only the console's login reads it, as root; whoever else is in the machine needs no key to the reader's server.
rm -f /etc/issue.d/sched-labs.issue
(umask 0077 && printf '\nThe book, on the computer that runs this machine:\n  %s\n\n' "$address" \
    >/etc/issue.d/sched-labs.issue)

if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    systemctl enable --quiet sched-labs
    sysctl --quiet --load /etc/sysctl.d/60-sched-labs.conf || true # a container may not
    systemctl restart sched-labs
else # an image is being made: it starts with the machine
    mkdir -p /etc/systemd/system/multi-user.target.wants
    ln -sf ../sched-labs.service /etc/systemd/system/multi-user.target.wants/sched-labs.service
fi

if [ $incomplete = yes ]; then printf '\nA chapter is not complete; what went wrong stands above.\n'; fi
printf '\nThe book is served. In a browser on the host:\n\n  %s\n\n' "$address"
