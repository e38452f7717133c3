"""A line echo with a fault, for the tests of the card: expects the fault's name, prints where it listens.

    usage: python3 -B tests/card/wrong.py FAULT

none          no fault: a server with one thread for all clients, that stops reading while output waits
cuts          it closes when the client half-closes, whatever is still due
drops         it drops what a socket does not take
never_ends    it does not close after the client's end, and ignores SIGTERM
keeps         it reads on, however much output waits
spins         without descriptors it tries again at once, forever
leaks         it forgets to close a client that was reset
dies          it ends when a client resets
answers_less  every thousandth line has no answer
"""

import contextlib
import os
import selectors
import signal
import socket
import sys
import time

MARK = 65536


class Client:
    def __init__(self, connection):
        self.connection, self.line, self.output, self.over, self.lines = connection, b"", bytearray(), False, 0


class Server:
    def __init__(self, fault):
        self.fault, self.selector, self.listener = fault, selectors.DefaultSelector(), socket.create_server(("127.0.0.1", 0), backlog=500)
        self.listener.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.leaked, self.until, self.clients = [], float("inf"), set()
        self.paused = 0

    def stop(self, *_):
        if self.fault != "never_ends":
            self.until = time.monotonic() + 0.5

    def accept(self):
        try:
            connection, _ = self.listener.accept()
        except BlockingIOError:
            return
        except OSError:
            if self.fault != "spins":  # somebody has to leave first
                self.selector.unregister(self.listener)
                self.paused = 1
            return
        connection.setblocking(False)
        client = Client(connection)
        self.clients.add(client)
        self.selector.register(connection, selectors.EVENT_READ, client)

    def close(self, client, was_reset=False):
        self.selector.unregister(client.connection)
        self.clients.discard(client)
        if was_reset and self.fault == "dies":
            self.listener.close()  # as the system does it, and it may take a while to do the rest
            time.sleep(0.3)
            os._exit(3)
        if was_reset and self.fault == "leaks":
            self.leaked.append(client)
        else:
            client.connection.close()
        if self.paused:
            self.paused = 0
            self.selector.register(self.listener, selectors.EVENT_READ)

    def read(self, client):
        data = client.connection.recv(65536)
        if not data:
            client.over = True
            return
        whole, end, client.line = (client.line + data).rpartition(b"\n")
        if self.fault == "answers_less":
            lines = (whole + end).splitlines(True)
            kept = [line for i, line in enumerate(lines, client.lines + 1) if i % 1000]
            client.lines += len(lines)
            client.output += b"".join(kept)
        else:
            client.output += whole + end

    def serve(self, client, events):
        try:
            if events & selectors.EVENT_READ:
                self.read(client)
            if client.output:
                try:
                    sent = client.connection.send(client.output)
                    del client.output[:sent]
                except BlockingIOError:
                    pass
                if self.fault == "drops":
                    client.output.clear()
        except OSError:
            self.close(client, True)
            return
        if client.over and (not client.output or self.fault == "cuts") and self.fault != "never_ends":
            self.close(client)
            return
        wanted = selectors.EVENT_WRITE if client.output else 0
        if not client.over and (len(client.output) < MARK or self.fault in ("keeps", "cuts")):
            wanted |= selectors.EVENT_READ
        if wanted:
            self.selector.modify(client.connection, wanted, client)
        else:
            self.selector.unregister(client.connection)

    def run(self):
        while time.monotonic() < self.until:
            for key, events in self.selector.select(0.05):
                if key.data is None:
                    self.accept()
                elif key.data in self.clients:
                    self.serve(key.data, events)
        for client in self.clients:
            with contextlib.suppress(OSError):
                client.connection.setblocking(True)
                client.connection.settimeout(1)
                client.connection.sendall(client.output)
                client.connection.shutdown(socket.SHUT_WR)
        for client in self.clients:  # what they still send must not reset what they get
            with contextlib.suppress(OSError):
                while client.connection.recv(65536):
                    pass


def main():
    server = Server(sys.argv[1])
    signal.signal(signal.SIGTERM, server.stop)
    print(f"wrong: {sys.argv[1]} on 127.0.0.1:{server.listener.getsockname()[1]}", flush=True)
    server.run()


if __name__ == "__main__":
    main()
