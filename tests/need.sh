#!/bin/sh
# Makes sure that tools or libraries are there, by installing Debian's packages where that is
# possible without asking: as root, or with a sudo that wants no password.
#
#   usage: tests/need.sh NAME CHECK PACKAGE... [-- NAME CHECK PACKAGE...]...
#
# CHECK is a command that succeeds when NAME is there. Exits 1, after one line that says what to
# install for all that is missing, when something is missing and cannot be installed.
set -u

# Sets $names and $packages to what is missing.
look() {
    names='' packages=''
    while [ $# -gt 0 ]; do
        name=$1 check=$2 its=''
        shift 2
        while [ $# -gt 0 ] && [ "$1" != -- ]; do
            its="$its $1"
            shift
        done
        [ $# -eq 0 ] || shift
        sh -c "$check" >/dev/null 2>&1 || names="$names${names:+, }$name" packages="$packages$its"
    done
    [ -n "$names" ]
}

look "$@" || exit 0

if [ "$(id -u)" -eq 0 ]; then
    as_root=
elif sudo -n true 2>/dev/null; then
    as_root=sudo
else
    as_root=none
fi

if [ "$as_root" != none ] && command -v apt-get >/dev/null; then
    echo "missing: $names; installing:$packages"
    install() {
        # shellcheck disable=SC2086 # several words
        $as_root env DEBIAN_FRONTEND=noninteractive \
            apt-get -qq install -y --no-install-recommends $packages </dev/null >/dev/null
    }
    # A machine that never fetched the lists of packages knows none of them.
    install 2>/dev/null || { $as_root apt-get -qq update </dev/null && install; }
    look "$@" || exit 0
fi
echo "missing: $names. Install what is missing and try again; on Debian and Ubuntu: apt-get install$packages" >&2
exit 1
