# Simulates what a line of the chat costs on many machines, by drawing lines and counting their steps.
#
#   usage: awk -v users=M -v servers=N [-v room=R] [-v layout=one|rooms|sharded] [-v nodes=K]
#              [-v broker=1] [-v lines=L] [-v rate=LINES] [-v bytes=B] -f cost_of_a_line.awk costs.txt
#
# Each line is said by one user of a room of R (0: all users are in one room). Its other members sit on
# servers drawn at random. What happens to the line depends on the layout:
#
#   one      one channel for all rooms: every server gets every line, whether it has listeners or not
#   rooms    a channel for each room: a server gets the lines of rooms that it has members of
#   sharded  the same, and each channel is kept by one of K brokers
#
# A server alone needs no broker; broker=1 counts what it costs if there is one all the same.
#
# The file has what a step costs (microseconds). Prints a line "NAME VALUE" for each figure: steps and
# microseconds of one line, and how full each part is if every user says `rate` lines in a second and a
# line has `bytes` bytes on the wire. A part that is fuller than 1 cannot do it.

BEGIN {
    if (servers == "" || users == "") {
        print "cost_of_a_line: expected users=M and servers=N" >"/dev/stderr"
        status = 2
        exit status
    }
    if (layout == "") layout = "one"
    if (nodes == "" || layout != "sharded") nodes = 1
    if (lines == "") lines = 1000
    if (rate == "") rate = 1 / 60
    if (bytes == "") bytes = 120
    if (room == "" || room == 0 || room > users) room = users
    link = 1.25e9 # bytes in a second: ten gigabits
    seed = 1
}

/^[a-z]/ { cost[$1] = $2 }

# The same numbers with every awk.
function random(below)
{
    seed = (seed * 16807) % 2147483647
    return int(seed / 2147483647 * below)
}

# On how many servers the other members of the speaker's room sit, his own not counted. So many members
# are on every server for certain that only a few need to be drawn.
function other_servers(    i, at, own, seen, count)
{
    if (room > 20 * servers)
        return servers - 1
    own = random(servers)
    for (i = 1; i < room; i++) {
        at = random(servers)
        if (at != own && !(at in seen)) {
            seen[at] = 1
            count++
        }
    }
    return count + 0
}

END {
    if (status) exit status
    for (i = 0; i < lines; i++)
        with_members += other_servers()
    with_members /= lines
    got = layout == "one" ? servers - 1 : with_members
    copies = servers > 1 || broker ? got + 1 : 0 # its own server is subscribed, too
    takes = copies > 0
    sent = room - 1

    own_us = cost["in"] + takes * (cost["pub"] + cost["sub"])
    broker_us = takes * cost["take"] + copies * cost["copy"]
    server_us = own_us + got * cost["sub"] + sent * cost["out"]

    second = users * rate # lines in a second
    printf "copies %.2f\n", copies
    printf "deliveries %.2f\n", sent
    printf "unwanted %.2f\n", got - with_members
    printf "broker_us %.2f\n", broker_us
    printf "servers_us %.2f\n", server_us
    printf "line_us %.2f\n", broker_us + server_us
    if (sent > 0) printf "delivery_us %.3f\n", (broker_us + server_us) / sent
    printf "lines_a_second %.0f\n", second
    printf "broker_full %.4g\n", second * broker_us / 1e6 / nodes
    printf "network_full %.4g\n", second * copies * bytes / link / nodes
    printf "servers_full %.4g\n", second * server_us / 1e6 / servers
}
