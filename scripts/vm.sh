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
unit=/etc/systemd/system/sched-labs.service

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

echo "Measuring the chapters on this machine and building the book, as the user reader"
incomplete=no
as_reader make -C $place book PROVISION=no ${SCHED_LABS_PROFILE:+PROFILE=$SCHED_LABS_PROFILE} || incomplete=yes
# A chapter that broke off has a page up to there, and the others are whole: that is served all the same.
[ $incomplete = no ] || [ -f $place/_build/html/index.html ] || exit 1

# For whoever logs in: the reader's own commands, under the reader's name.
cat >/usr/local/bin/sched-labs <<WRAPPER
#!/bin/sh
cd /home/reader
if [ "\$(id -un)" = reader ]; then exec $place/.venv/bin/sched-labs "\$@"; fi
exec sudo -u reader -H $place/.venv/bin/sched-labs "\$@"
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
Environment=PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin
ExecStart=$place/.venv/bin/python -m sched_labs.book serve --root $place --no-browser --forwarded $port
Restart=on-failure
RestartSec=5
# Groups of its own, for the chapter on quotas; the server itself stays out of their way.
Delegate=cpu cpuset memory pids
DelegateSubgroup=server
# Real-time policies, for the chapter on policies; the kernel's throttling of them stays on.
LimitRTPRIO=50
LimitNICE=-10

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
