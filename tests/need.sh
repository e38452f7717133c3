#!/bin/sh
# Makes sure that a tool or a library is there, by installing Debian's packages where that is
# possible without asking: as root, or with a sudo that wants no password.
#
#   usage: tests/need.sh NAME CHECK PACKAGE...
#
# CHECK is a command that succeeds when NAME is there. Exits 1, after saying what to install, when
# NAME is missing and cannot be installed.
set -u

name=$1 check=$2
shift 2
sh -c "$check" >/dev/null 2>&1 && exit 0

if [ "$(id -u)" -eq 0 ]; then
    as_root=
elif sudo -n true 2>/dev/null; then
    as_root=sudo
else
    as_root=none
fi

if [ "$as_root" != none ] && command -v apt-get >/dev/null; then
    echo "$name is missing, installing: $*"
    install() {
        $as_root env DEBIAN_FRONTEND=noninteractive \
            apt-get -qq install -y --no-install-recommends "$@" </dev/null >/dev/null
    }
    # A machine that never fetched the lists of packages knows none of them.
    install "$@" 2>/dev/null || { $as_root apt-get -qq update </dev/null && install "$@"; }
    sh -c "$check" >/dev/null 2>&1 && exit 0
fi
echo "$name is missing. Install it and try again; on Debian and Ubuntu: apt-get install $*" >&2
exit 1
