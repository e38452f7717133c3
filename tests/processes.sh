# shellcheck shell=sh
# Which processes there are, read from /proc, because pgrep and pkill are not installed everywhere: what
# looks for processes with them finds none where they are missing. For scripts that read this with `.`.
# Zombies do not count, because they have ended.

[ -r /proc/self/status ] || {
    echo "$0: /proc is not mounted, so nobody can say which processes there are" >&2
    exit 2
}

# Whether a process of the user with that number is there.
runs_as_user() { # UID
    # shellcheck disable=SC2013 # no name in /proc has a blank in it
    for its_status in $(grep -slE "^Uid:[[:space:]]+$1[[:space:]]" /proc/[0-9]*/status); do
        ! grep -sq '^State:[[:space:]]*[^[:space:]ZX]' "$its_status" || return 0
    done
    return 1
}

# Whether a process is there that has one of these in its command line, words with one blank between them.
runs_command() { # TEXT...
    command_lines=$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' ')
    for text; do
        case $command_lines in *"$text"*) return 0 ;; esac
    done
    return 1
}
