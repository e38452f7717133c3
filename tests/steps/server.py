#!/usr/bin/env python3
"""Step 2.7 in another language: one thread, one selector, a state for each client.

It proves that a lab is graded by what a client can see, because it has nothing in common with the
programs of the steps: `make test-step STEP=2.7 SERVER=tests/steps/server.py` has to pass, and
tests/lab_test.sh runs that. It is no model of style for servers.
"""
import collections
import os
import selectors
import socket
import sys
import time

LINE_MAX, LINES_PER_TURN, CLIENTS_MAX = 65536, 64, 50
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

selector = selectors.DefaultSelector()
clients = collections.OrderedDict()  # the first one was silent longest


class Client:
    def __init__(self, connection):
        self.connection, self.input, self.output, self.open = connection, b"", b"", True


def work():
    end = time.process_time() + 0.00002
    while time.process_time() < end:
        pass


def close(client):
    del clients[client]
    selector.unregister(client.connection)
    client.connection.close()
    client.open = False


def receive(client):
    data = client.connection.recv(LINE_MAX - len(client.input))
    client.input += data
    clients.move_to_end(client)
    return data != b""


def answer(client):
    for _ in range(LINES_PER_TURN):
        line, newline, rest = client.input.partition(b"\n")
        if not newline:
            break
        work()
        client.output += line + newline
        client.input = rest


def run(client):
    """Takes a turn. False if the connection is over."""
    if not client.output:
        if b"\n" not in client.input and not receive(client):
            return False
        answer(client)
        if len(client.input) == LINE_MAX and b"\n" not in client.input:
            return False
    client.output = client.output[client.connection.send(client.output):]
    work_left = client.output or b"\n" in client.input
    selector.modify(client.connection, WRITE if work_left else READ, client)
    return True


def accept(listener):
    connection, _ = listener.accept()
    if len(clients) == CLIENTS_MAX:
        close(next(iter(clients)))
    connection.setblocking(False)
    client = Client(connection)
    clients[client] = True
    selector.register(connection, READ, client)


def main():
    listener = socket.create_server(("127.0.0.1", int(sys.argv[2])), backlog=1024)
    listener.setblocking(False)
    selector.register(listener, READ)
    print(f"{os.path.basename(sys.argv[0])}: echo on 127.0.0.1:{listener.getsockname()[1]}", flush=True)
    while True:
        for key, _ in selector.select():
            client = key.data
            try:
                if client is None:
                    accept(listener)
                elif client.open and not run(client):  # or it was closed in this round
                    close(client)
            except BlockingIOError:
                pass
            except OSError:
                if client is not None and client.open:
                    close(client)


main()
