#!/usr/bin/env bash
# provision.sh - set up a Debian or Ubuntu machine for sched-labs; a second run finds nothing to do.
#
#   scripts/provision.sh            install what is missing, after saying what and why
#   scripts/provision.sh --schedulers   also what compiles and runs schedulers of your own, in guests
#   scripts/provision.sh --tests    also what only the tests need, and all of that
#   scripts/provision.sh --check    say what is missing, change nothing
#   scripts/provision.sh --remove   take away again what this script brought, and only that
#   scripts/provision.sh --user NAME   who may start the privileged programs (default: who runs this)
#   scripts/provision.sh --vm PORT  make this machine the reader's virtual machine, whose host forwards PORT;
#                                   only for a machine that is there for nothing else (see scripts/vm.sh)
#
# `make`, the continuous integration and the reader's virtual machine all use this one script.  It brings
#   - system packages: a C compiler, Python's venv, BCC; their names are kept in /var/lib/sched-labs/packages;
#   - the privileged helper, two programs in /usr/local/lib/sched-labs, owned by root (SECURITY.md);
#   - /var/cache/sched-labs, root's alone, where the helper keeps BPF programs that it has compiled;
#   - one rule for sudo, /etc/sudoers.d/sched-labs: that user may start either, without arguments, as root.
# It uses sudo where it is not root.
#
# Ends with 0 when everything is in place, 3 when something is still missing (it says what that costs; the book
# works without), 2 for a command line that it does not understand.
set -u
export LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source_folder=$here/../src/sched_labs/probes/helper
helper_folder=/usr/local/lib/sched-labs
programs=(sched-labs-probe sched-labs-lend)
kept_folder=/var/cache/sched-labs
rule_file=/etc/sudoers.d/sched-labs
state_folder=/var/lib/sched-labs
package_list=$state_folder/packages

action=install tests=no schedulers=no user='' vm=''
original=("$@")

usage() {
    sed -n '2,/^set -u/{/^set -u/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
}

while [ $# -gt 0 ]; do
    case $1 in
        --tests) tests=yes schedulers=yes ;;
        --schedulers) schedulers=yes ;;
        --check) action=check ;;
        --remove) action=remove ;;
        --user)
            [ $# -gt 1 ] || { echo "--user needs a name" >&2; exit 2; }
            user=$2
            shift
            ;;
        --vm)
            [[ ${2:-} =~ ^[0-9]{2,5}$ ]] || { echo "--vm needs the host's port" >&2; exit 2; }
            vm=$2 user=reader
            shift
            ;;
        -h | --help) usage; exit 0 ;;
        *) echo "$1: unknown option" >&2; usage >&2; exit 2 ;;
    esac
    shift
done

say() { printf '%s\n' "$*"; }

is_root() { [ "$(id -u)" -eq 0 ]; }

# ---- who may start the helper -----------------------------------------------------------------------------

if [ -n "$vm" ]; then
    is_root || { echo "--vm needs root" >&2; exit 2; }
    id -u reader >/dev/null 2>&1 || useradd --create-home --shell /bin/bash reader
fi
# Root needs no rule; `user` stays empty then.
if [ -z "$user" ]; then
    if is_root; then user=${SUDO_USER:-}; else user=$(id -un); fi
fi
if [ -n "$user" ]; then
    uid=$(id -u -- "$user" 2>/dev/null) || { echo "$user: no such user" >&2; exit 2; }
    if [ "$uid" -eq 0 ]; then user=; fi
fi
# Sudo knows users by number as well; a number has no characters that mean something in a rule.
rule_for() { # the user's number
    local commands
    printf -v commands "/usr/bin/python3 -I $helper_folder/%s, " "${programs[@]}"
    say "#$1 ALL=(root) NOPASSWD:NOSETENV: ${commands%, }"
}

# ---- packages: name, alternative names, what it is for ----------------------------------------------------

wanted() {
    cat <<'LIST'
gcc|compiles the workloads; without it no experiment runs
libc6-dev|the C library's headers, for the workloads
make|runs the commands of the README
python3|runs the book and the privileged helper
python3-venv|keeps the book's Python packages to themselves; without it there is no book
python3-bpfcc|BCC: counts every wait in the kernel; without it the book shows sums from /proc instead
LIST
    if [ -n "$user" ]; then
        say 'sudo|lets an ordinary user start the privileged helper, and nothing else'
    fi
    if [ $schedulers = yes ]; then
        case $(uname -m) in
            aarch64) say 'qemu-system-arm|boots other kernels' ;;
            *) say 'qemu-system-x86|boots other kernels' ;;
        esac
        cat <<'LIST'
clang|compiles schedulers of your own for the kernel
libbpf1|loads them into a guest
zstd|unpacks packages of kernels
LIST
    fi
    if [ $tests = yes ]; then
        cat <<'LIST'
sudo|tests the privileged helper as an ordinary user
chromium chromium-browser|tests the built pages in a browser
binutils|strips what the tests' kernels boot with
linux-perf linux-tools-generic|perf, which the benchmarks compare with
libbpf-tools|runqlat, which the benchmarks compare with
rt-tests|cyclictest, which the benchmarks compare with
libboost-context-dev|Boost's stack switch, which the benchmarks compare with
libevent-dev|an event loop that the benchmarks compare with
libuv1-dev|another event loop that the benchmarks compare with
shellcheck|checks this script
LIST
    fi
}

is_installed() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

can_be_had() {
    # Names without a version (virtual, or only referred to) have no candidate.
    apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [^(]'
}

# One `name|purpose` line for each entry of which no alternative is installed.
missing_packages() {
    local names purpose name found
    wanted | while IFS='|' read -r names purpose; do
        found=no
        for name in $names; do
            if is_installed "$name"; then found=yes; fi
        done
        if [ $found = no ]; then say "$names|$purpose"; fi
    done
}

tell() { # what each line of $1 names is for
    local names purpose
    while IFS='|' read -r names purpose; do
        printf '  %-28s %s\n' "${names%% *}" "$purpose"
    done <<<"$1"
}

# ---- the helper and its rule ------------------------------------------------------------------------------

helper_files() {
    find . -type f \( -name 'sched-labs-*' -o -name '*.py' -o -name '*.[ch]' \)
}

# Which files there are, what is in them, and whether only root can change them.
helper_is_current() {
    [ -d $helper_folder ] && [ -d $kept_folder ] &&
        cmp -s <(cd "$source_folder" && helper_files | xargs sha256sum | sort) \
            <(cd $helper_folder && helper_files | xargs -r sha256sum | sort) &&
        [ -z "$(find $helper_folder \( ! -user root -o -perm /022 \) -print -quit)" ]
}

rule_is_there() {
    [ -z "$user" ] && return 0
    if is_root; then
        grep -qxF -- "$(rule_for "$uid")" $rule_file 2>/dev/null
    else
        sudo_allows
    fi
}

sudo_allows() { # what sudo says of both programs; for another user with -U
    local program
    for program in "${programs[@]}"; do
        sudo -n -l "$@" /usr/bin/python3 -I "$helper_folder/$program" >/dev/null 2>&1 || return
    done
}

install_helper() {
    local new=$helper_folder.new old=$helper_folder.old file mode
    rm -rf "$new" "$old"
    install -d -o root -g root -m 0755 /usr/local/lib "$new" || return
    while read -r file; do
        mode=0644
        if [ "${file%/sched-labs-*}" != "$file" ]; then mode=0755; fi
        install -D -o root -g root -m $mode "$source_folder/$file" "$new/$file" || return
    done < <(cd "$source_folder" && helper_files)
    (umask 022 && /usr/bin/python3 -I -m compileall -q "$new") # the programs themselves write nothing there
    find "$new" -type d -exec chmod 0755 {} +
    rm -rf $kept_folder
    install -d -o root -g root -m 0700 $kept_folder || return
    if [ -e $helper_folder ]; then mv $helper_folder "$old" || return; fi
    mv "$new" $helper_folder && rm -rf "$old"
}

# Sudo skips files with a dot in their name, so that the new rules count only once they are checked and moved.
install_rule() {
    local new=$rule_file.new number
    if ! command -v visudo >/dev/null; then
        say "sudo is not installed, so that there is nothing to add a rule to." >&2
        return 1
    fi
    install -d -m 0750 "$(dirname $rule_file)"
    rm -f "$new"
    (
        umask 0337
        {
            say "# Written by scripts/provision.sh of sched-labs; provision.sh --remove takes it away."
            { sed -n 's/^#\([0-9][0-9]*\) .*/\1/p' $rule_file 2>/dev/null; say "$uid"; } | sort -un |
                while read -r number; do rule_for "$number"; done
        } >"$new"
    ) || return
    chmod 0440 "$new"
    if ! visudo -cqf "$new"; then
        rm -f "$new"
        say "visudo does not accept the rule; nothing was changed." >&2
        return 1
    fi
    mv "$new" $rule_file || return
    if ! sudo_allows -U "$user"; then
        say "The rule is in place, but sudo does not read /etc/sudoers.d on this machine." >&2
        return 1
    fi
}

# ---- install ----------------------------------------------------------------------------------------------

all_installed() { dpkg-query -W -f='${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p' | sort -u; }

install_packages() { # of the lines in $1
    local names purpose name chosen=()
    say "Installing system packages:"
    tell "$1"
    apt-get update -q >/dev/null 2>&1 || say "The package lists could not be refreshed; trying with what is there." >&2
    while IFS='|' read -r names purpose; do
        for name in $names; do
            if can_be_had "$name"; then
                chosen+=("$name")
                break
            fi
        done
    done <<<"$1"
    if [ ${#chosen[@]} -eq 0 ] || apt_install "${chosen[@]}" || [ ${#chosen[@]} -eq 1 ]; then return; fi
    # One that cannot be had must not keep the others away.
    for name in "${chosen[@]}"; do apt_install "$name"; done
}

# Installs, and notes what came that was not there before, even when it is broken off.
apt_install() {
    # --no-remove: nothing that was there may go.
    local options=(-q -y --no-install-recommends --no-remove) planned before status
    before=$(all_installed)
    planned=$(apt-get -s "${options[@]}" install "$@" 2>/dev/null | sed -n 's/^Inst \([^ :]*\).*/\1/p' | sort -u)
    trap 'note_packages "$before" "$planned"' EXIT
    DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" install "$@" >>"$log" 2>&1
    status=$?
    trap - EXIT
    note_packages "$before" "$planned"
    return $status
}

note_packages() { # $1: what was there, $2: what apt meant to bring
    local new
    new=$(comm -13 <(say "$1") <(all_installed) | comm -12 - <(say "$2"))
    if [ -n "$new" ]; then
        install -d -m 0755 $state_folder
        { cat $package_list 2>/dev/null; say "$new"; } | sort -u >$package_list.new
        mv $package_list.new $package_list
    fi
}

has_apt() { command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; }

by_hand() {
    say "This is no Debian or Ubuntu. Please install these by hand (names as in Fedora; others are similar):"
    say "  gcc glibc-devel make python3 python3-bcc sudo"
}

report_missing() {
    local packages
    if has_apt; then
        packages=$(missing_packages)
        if [ -n "$packages" ]; then
            say "Missing packages, and what each is for:"
            tell "$packages"
        fi
    else
        packages=unknown
        by_hand
    fi
    if ! helper_is_current; then
        say "The privileged helper is not installed in $helper_folder, or is of another version:"
        say "  without it an ordinary user sees waits as sums from /proc, not every single wait."
    fi
    if ! rule_is_there; then
        say "There is no sudo rule for $user: $user cannot start the privileged helper's programs."
    fi
    [ -z "$packages" ] && helper_is_current && rule_is_there
}

what_remains() { # what the reader has when something is missing
    if python3 -c 'import venv, ensurepip' 2>/dev/null; then
        say "The book works with what is there; the list above says what is missing, and what that costs."
    else
        say "Without python3-venv there is no book, unless another Python is named: make live PYTHON=/path/to/python3"
    fi
}

everything_is_there() { has_apt && [ -z "$(missing_packages)" ] && helper_is_current && rule_is_there; }

become_root() { # run this script again, as root
    local options=(-n)
    if [ -t 0 ] && [ -t 2 ]; then options=(-p "Password of %p, to set up sched-labs: "); fi
    command -v sudo >/dev/null && sudo "${options[@]}" -- "$BASH" "$here/provision.sh" "${original[@]}" "$@"
}

install_all() {
    local packages
    if everything_is_there; then
        say "Everything is in place."
        return 0
    fi
    if ! is_root; then
        report_missing
        say "Installing that needs root, through sudo."
        become_root --user "$user" && return 0
        if everything_is_there; then return 0; fi
        say "Without root nothing was installed. $(what_remains)" >&2
        say "To set it up later, run as a user who may use sudo:  scripts/provision.sh --user $user" >&2
        return 3
    fi
    log=$(mktemp) || { say "No temporary file can be made, so nothing was installed. $(what_remains)" >&2; return 3; }
    if has_apt; then
        packages=$(missing_packages)
        if [ -n "$packages" ]; then install_packages "$packages"; fi
    fi
    if ! helper_is_current; then
        say "Installing the privileged helper in $helper_folder."
        install_helper || say "The helper could not be installed." >&2
    fi
    if ! rule_is_there; then
        say "Allowing $user to start its programs through sudo, without a password or arguments ($rule_file)."
        install_rule || say "The rule could not be installed." >&2
    fi
    if report_missing; then
        rm -f "$log"
        say "Everything is in place. \`scripts/provision.sh --remove\` takes it away again."
        return 0
    fi
    if grep '^E: ' "$log" >&2; then say "That is what apt-get said." >&2; fi
    rm -f "$log"
    say "Not all could be installed. $(what_remains)" >&2
    return 3
}

# ---- remove -----------------------------------------------------------------------------------------------

# Those of our packages that nothing needs which we did not bring: apt knows, once they are no longer wanted for
# their own sake.
removable_packages() {
    local ours name
    ours=$(while read -r name; do if is_installed "$name"; then say "$name"; fi; done <$package_list)
    # Debian's sudo does not go while root has no password: nobody could become root any more.
    if [ "$(passwd -S root 2>/dev/null | cut -d ' ' -f 2)" != P ]; then ours=$(grep -vx sudo <<<"$ours"); fi
    [ -n "$ours" ] || return
    # shellcheck disable=SC2086 # one word for each package
    apt-mark auto $ours >/dev/null
    # That another package merely suggests one of them does not keep it.
    apt-get -s -o APT::AutoRemove::SuggestsImportant=false autoremove 2>/dev/null |
        sed -n 's/^Remv \([^ :]*\).*/\1/p' | sort -u | comm -12 - <(say "$ours" | sort -u)
}

remove_all() {
    local packages name
    if ! is_root; then
        if [ ! -e $helper_folder ] && [ ! -e $kept_folder ] && [ ! -e $state_folder ]; then
            say "There is nothing to remove."
            return 0
        fi
        become_root && return 0
        say "Removing needs root, and sudo does not allow it." >&2
        return 3
    fi
    say "Removing the privileged helper and its sudo rule."
    rm -rf $rule_file $rule_file.new $helper_folder $helper_folder.new $helper_folder.old $kept_folder
    rm -f /run/sched-labs-{probe,lend}.slots
    if [ -s $package_list ] && has_apt; then
        packages=$(removable_packages)
        if [ -n "$packages" ]; then
            say "Removing the packages that this script brought:"
            say "$packages" | tr '\n' ' ' | fold -sw 100
            say
            # shellcheck disable=SC2086 # one word for each package
            DEBIAN_FRONTEND=noninteractive apt-get -q -y -o APT::Get::AutomaticRemove=false purge $packages \
                >/dev/null || { say "apt-get could not remove them; $package_list still names them." >&2; return 3; }
        fi
        packages=$(while read -r name; do if is_installed "$name"; then say "$name"; fi; done <$package_list)
        if [ -n "$packages" ]; then
            say "These stay, because something else needs them:"
            say "$packages" | tr '\n' ' ' | fold -sw 100
            say
        fi
    fi
    rm -rf $state_folder
    say "Removed."
}

# -----------------------------------------------------------------------------------------------------------

log=
case $action in
    check) if report_missing; then say "Everything is in place."; else exit 3; fi ;;
    install)
        status=0
        install_all || status=$?
        if [ -z "$vm" ]; then exit $status; fi # the virtual machine is set up with what is there
        exec bash "$here/vm.sh" "$vm"
        ;;
    remove) remove_all ;;
esac
