#!/usr/bin/env python3
"""How SO_REUSEPORT spreads connections over listening sockets: the figures in docs/measuring.md.

A thousand connections, one after the other, to four sockets that listen on one port. Prints how many
each of them got, and how many are left with it if only one client in four stays.
"""
import select
import socket

CONNECTIONS = 1000
RECEIVERS = 4


def listeners():
    sockets = []
    port = 0
    for _ in range(RECEIVERS):
        receiver = socket.socket()
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        receiver.bind(("127.0.0.1", port))
        port = receiver.getsockname()[1]
        receiver.listen(CONNECTIONS)
        sockets.append(receiver)
    return sockets


def spread():
    receivers = listeners()
    came = [0] * RECEIVERS
    stayed = [0] * RECEIVERS
    kept = []
    for number in range(CONNECTIONS):
        client = socket.create_connection(receivers[0].getsockname())
        ready, _, _ = select.select(receivers, [], [], 10)
        which = receivers.index(ready[0])
        server, _ = ready[0].accept()
        came[which] += 1
        if number % RECEIVERS == 0:
            stayed[which] += 1
            kept += [client, server]
        else:
            client.close()
            server.close()
    for each in kept + receivers:
        each.close()
    return came, stayed


if __name__ == "__main__":
    for _ in range(3):
        print("came %s, stayed %s" % spread())
