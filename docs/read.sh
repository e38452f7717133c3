#!/bin/sh
# Serves the site, and says at which address.
#
#   usage: docs/read.sh SERVER PORT OPTION...      (`make read` calls this)
#
# PORT is the server's own, unless the options have --port. With --bind 0.0.0.0, or another address that is not
# this machine's own business, as in a container, the site can be reached from outside.
set -eu

server=$1 port=$2
shift 2
bind=127.0.0.1 before=
for option; do
    case $before in
    --port) port=$option ;;
    --bind) bind=$option ;;
    esac
    case $option in
    --port=*) port=${option#*=} ;;
    --bind=*) bind=${option#*=} ;;
    esac
    before=$option
done
case $bind in
0.0.0.0 | ::)
    echo "read: http://127.0.0.1:$port/ here, and from outside http://$(hostname):$port/ (Ctrl-C ends it)"
    echo 'read: everybody who reaches this machine can read it now, and nothing but it'
    ;;
*:*) echo "read: http://[$bind]:$port/ (Ctrl-C ends it)" ;;
*) echo "read: http://$bind:$port/ (Ctrl-C ends it)" ;;
esac
exec "$server" "$@"
