#!/usr/bin/env python3
"""Stage 2 in another language: one thread, one selector.

It proves that the grading is honest, because it has nothing in common with the servers of the
repository but what they answer to: `make test-stage2 SERVER=tests/labs/server.py` has to pass.
tests/lab.sh runs that. It is no part of the course and no model of style for servers.
"""
import errno
import os
import re
import resource
import select
import signal
import socket
import sys
import time

NAME = os.path.basename(sys.argv[0])
TURN, ACCEPTS, CHUNK, LINGER, TICK = 64, 16, 65536, 2.0, 0.1
BUSY, TOO_LONG = b"ERR server busy\n", b"ERR line too long\n"


class Bad(Exception):
    pass


# ---- options -----------------------------------------------------------------------------------

def number(least, most):
    def read(text):
        if not re.fullmatch(r"[0-9]{1,19}", text) or not least <= int(text) <= most:
            raise Bad(f"not a number from {least} to {most}")
        return int(text)
    return read


def port(text):
    if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) > 65535:
        raise Bad("not a port number")
    return int(text)


def seconds(text):
    if not re.fullmatch(r"[0-9]+(\.[0-9]*)?|\.[0-9]+", text):
        raise Bad("not a number of seconds")
    return float(text)


def choice(*names):
    def read(text):
        if text not in names:
            raise Bad("not one of " + ", ".join(names))
        return text
    return read


def overload(text):
    if text not in ("reject", "wait") and not re.fullmatch(r"redirect=[^ ]+:[0-9]+", text):
        raise Bad("not one of reject, wait, redirect=HOST:PORT")
    return text


def address(text):
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, text)
            return family, text
        except OSError:
            pass
    raise Bad("not an IP address")


OPTIONS = {
    "--bind": ("ADDR", "127.0.0.1", address), "--port": ("N", "7002", port),
    "--max-line": ("BYTES", "65536", number(1, 1 << 30)),
    "--max-connections": ("N", "0", number(0, 10**9)), "--overload": ("HOW", "reject", overload),
    "--idle-timeout": ("SEC", "0", seconds), "--request-timeout": ("SEC", "0", seconds),
    "--lifetime": ("SEC", "0", seconds), "--progress-timeout": ("SEC", "0", seconds),
    "--drain-timeout": ("SEC", "5", seconds),
    "--output-high-mark": ("BYTES", "65536", number(1, 1 << 30)),
    "--output-low-mark": ("BYTES", "16384", number(0, 1 << 30)),
    "--output-cap": ("BYTES", "1048576", number(1, 1 << 40)),
    "--send-buffer": ("BYTES", "0", number(0, 1 << 30)),
    "--work-us": ("N", "0", number(0, 10**10)), "--block-ms": ("N", "0", number(0, 10**10)),
    "--cost-every": ("N", "1", number(1, 10**10)),
    "--selector": ("NAME", "epoll", choice("epoll", "poll")),
    "--log": ("LEVEL", "warn", choice("error", "warn", "info", "debug")), "--stats": None,
}


def refuse(message):
    print(f"{NAME}: {message}", file=sys.stderr)
    sys.exit(2)


def parse(arguments):
    values = {name: row[2](row[1]) for name, row in OPTIONS.items() if row}
    values["--stats"] = False
    arguments = list(arguments)
    while arguments:
        name, equals, text = arguments.pop(0).partition("=")
        if name == "--help":
            print(f"usage: {NAME} [options]\n")
            for option, row in OPTIONS.items():
                print(f"  {option} {row[0]}  [{row[1]}]" if row else f"  {option}")
            print("  --help\n  --version")
            sys.exit(0)
        if name == "--version":
            print(f"{NAME} 1")
            sys.exit(0)
        if not name.startswith("--"):
            refuse(f"{name}{equals}{text}: unexpected argument (see --help)")
        if name not in OPTIONS:
            refuse(f"{name}: unknown option (see --help)")
        if OPTIONS[name] is None:
            if equals:
                refuse(f"{name}: takes no value")
            values[name] = True
            continue
        if not equals:
            if not arguments:
                refuse(f"{name}: needs a value: {OPTIONS[name][0]}")
            text = arguments.pop(0)
        try:
            values[name] = OPTIONS[name][2](text)
        except Bad as bad:
            refuse(f"{name}: {bad}: {text}")
    return {name[2:].replace("-", "_"): value for name, value in values.items()}


# ---- the selector ------------------------------------------------------------------------------

class Selector:
    """epoll or poll: both speak of descriptors and of IN and OUT, which have the same numbers."""

    def __init__(self, kind):
        self.poller = select.epoll() if kind == "epoll" else select.poll()
        self.scale = 1 if kind == "epoll" else 1000
        self.known = {}

    def interest(self, fd, events):
        if self.known.get(fd, 0) == events:
            return
        if not events:
            self.poller.unregister(fd)
            del self.known[fd]
            return
        (self.poller.modify if fd in self.known else self.poller.register)(fd, events)
        self.known[fd] = events

    def select(self, timeout):
        return self.poller.poll(-1 if timeout is None else timeout * self.scale)


# ---- the server --------------------------------------------------------------------------------

class Client:
    def __init__(self, server, sock):
        self.server, self.sock, self.fd = server, sock, sock.fileno()
        self.input, self.searched = bytearray(), 0
        self.output, self.sent = bytearray(), 0
        self.ended = self.too_long = self.choked = self.lingering = self.more = False
        self.begun = self.active = time.monotonic()
        self.line_since = self.waits_since = None
        self.taken = 0


class Server:
    def __init__(self, options):
        self.options = options
        self.clients = {}
        self.counters = dict.fromkeys(("accepted", "rejected", "closed", "timed_out", "messages",
                                       "too_long", "bytes_in", "bytes_out"), 0)
        self.draining = None
        self.paused_until = 0
        self.served = 0
        self.costs = options["work_us"] > 0 or options["block_ms"] > 0
        self.costs_nothing = False
        self.selector = Selector(options["selector"])
        family, host = options["bind"]
        self.listener = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        shown = f"[{host}]" if family == socket.AF_INET6 else host
        try:
            self.listener.bind((host, options["port"]))
            self.listener.listen(1024)
        except OSError as error:
            print(f"{NAME}: cannot listen on {shown}:{options['port']}: {error.strerror}",
                  file=sys.stderr)
            sys.exit(1)
        self.wake, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        self.stop_asked = self.report_asked = False
        for which in (signal.SIGTERM, signal.SIGINT):
            signal.signal(which, self.on_stop)
        signal.signal(signal.SIGUSR1, self.on_report)
        self.reserve = os.open("/dev/null", os.O_RDONLY)
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.most = options["max_connections"] or limit - len(os.listdir("/proc/self/fd"))
        self.most = max(1, min(self.most, 10**6))
        self.selector.interest(self.wake, select.POLLIN)
        self.watch_listener()
        print(f"{NAME}: echo on {shown}:{self.listener.getsockname()[1]}", flush=True)

    def on_stop(self, which, frame):
        self.stop_asked = True
        signal.signal(which, signal.SIG_DFL)
        other = signal.SIGINT if which == signal.SIGTERM else signal.SIGTERM
        signal.signal(other, signal.SIG_DFL)

    def on_report(self, which, frame):
        self.report_asked = True

    def report(self):
        values = " ".join(f"{name}={value}" for name, value in self.counters.items())
        os.write(2, f"{NAME}: stats {values}\n".encode())

    # ---- accepting ----

    def watch_listener(self):
        full = self.options["overload"] == "wait" and len(self.clients) >= self.most
        listens = self.draining is None and not full and time.monotonic() >= self.paused_until
        if self.listener.fileno() >= 0:
            self.selector.interest(self.listener.fileno(), select.POLLIN if listens else 0)

    def turn_away(self, sock, text):
        self.counters["rejected"] += 1
        try:
            sock.setblocking(False)
            sock.send(text)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(CHUNK):
                pass
        except OSError:
            pass
        sock.close()

    def accept(self):
        for _ in range(ACCEPTS):
            if self.options["overload"] == "wait" and len(self.clients) >= self.most:
                break
            try:
                sock, _ = self.listener.accept()
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE):
                    continue
                os.close(self.reserve)
                try:
                    self.turn_away(self.listener.accept()[0], BUSY)
                except OSError:
                    pass
                try:
                    self.reserve = os.open("/dev/null", os.O_RDONLY)
                except OSError:
                    self.paused_until = time.monotonic() + 0.1
                    break
                continue
            if len(self.clients) >= self.most:
                how = self.options["overload"]
                self.turn_away(sock, BUSY if how == "reject" else
                               b"ERR server busy, try " + how.partition("=")[2].encode() + b"\n")
                continue
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.options["send_buffer"]:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.options["send_buffer"])
            client = Client(self, sock)
            self.clients[client.fd] = client
            self.counters["accepted"] += 1
            self.selector.interest(client.fd, select.POLLIN)
        self.watch_listener()

    # ---- one client ----

    def close(self, client):
        if client.fd not in self.clients:
            return
        self.selector.interest(client.fd, 0)
        del self.clients[client.fd]
        try:
            while client.sock.recv(CHUNK):
                pass
        except OSError:
            pass
        client.sock.close()
        self.counters["closed"] += 1
        self.watch_listener()

    def read(self, client):
        """False if the connection is broken."""
        try:
            data = client.sock.recv(CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        client.active = time.monotonic()
        if not data:
            client.ended = True
        client.input += data
        self.counters["bytes_in"] += len(data)
        return True

    def cost(self):
        self.served += 1
        if self.costs_nothing or (self.served - 1) % self.options["cost_every"]:
            return
        end = time.process_time() + self.options["work_us"] / 1e6
        while time.process_time() < end:
            pass
        # Waits in pieces, so that a second signal, or the drain timeout, finds it awake.
        end, cut = time.monotonic() + self.options["block_ms"] / 1e3, None
        while time.monotonic() < end:
            if self.stop_asked and cut is None:
                cut = time.monotonic() + self.options["drain_timeout"]
            if cut is not None and time.monotonic() >= cut:
                self.costs_nothing = True
                return
            time.sleep(max(0, min(0.02, end - time.monotonic())))

    def process(self, client):
        """Answers the whole lines there are, a turn's worth at the most."""
        client.more = False
        if client.lingering or client.too_long:
            return
        for turn in range(TURN + 1):
            if len(client.output) > self.options["output_high_mark"]:
                client.choked = client.more = True
                break
            end = client.input.find(b"\n", client.searched)
            length = (end if end >= 0 else len(client.input))
            text = length - (1 if client.input[length - 1:length] == b"\r" else 0)
            if text > self.options["max_line"]:
                self.counters["too_long"] += 1
                client.output += TOO_LONG
                client.input.clear()
                client.ended = client.too_long = True
                client.line_since = None
                return
            if end < 0:
                client.searched = len(client.input)
                break
            if turn == TURN:
                client.more = True
                break
            client.line_since = None
            self.counters["messages"] += 1
            if self.costs:
                self.cost()
            client.output += client.input[:end + 1]
            del client.input[:end + 1]
            client.searched = 0
        if client.more or not client.input:
            client.line_since = None
        elif client.line_since is None:
            client.line_since = time.monotonic()

    def write(self, client):
        """False if the connection is broken."""
        while client.output:
            try:
                sent = client.sock.send(memoryview(client.output)[:1 << 18])
            except BlockingIOError:
                break
            except OSError:
                return False
            del client.output[:sent]
            self.counters["bytes_out"] += sent
            client.active = time.monotonic()
            client.taken += sent
            if client.waits_since is not None and client.taken >= 65536:
                client.waits_since, client.taken = client.active, 0
        if not client.output and not client.more:  # lines that are left wait for room, too
            client.waits_since, client.taken = None, 0
        elif client.waits_since is None:
            client.waits_since, client.taken = time.monotonic(), 0
        if client.choked and len(client.output) <= self.options["output_low_mark"]:
            client.choked = False
        return True

    def go_on(self, client, events):
        if client.lingering:
            try:
                for _ in range(16):
                    if not client.sock.recv(CHUNK):
                        self.close(client)
                        return
            except BlockingIOError:
                return
            except OSError:
                self.close(client)
            return
        reads = events & (select.POLLIN | select.POLLHUP | select.POLLERR)
        if reads and not client.ended and not client.choked and not client.more:
            if not self.read(client):
                self.close(client)
                return
        if client.output and not self.write(client):
            self.close(client)
            return
        if not client.choked:
            self.process(client)
        if not self.write(client):
            self.close(client)
            return
        self.rest(client)

    def rest(self, client):
        """What the client waits for now."""
        if client.ended and not client.output and not client.more and not client.choked:
            if not client.too_long:
                self.close(client)
                return
            client.lingering = True
            client.active = time.monotonic()
            try:
                client.sock.shutdown(socket.SHUT_WR)
            except OSError:
                self.close(client)
                return
            self.selector.interest(client.fd, select.POLLIN)
            return
        events = 0
        if not client.ended and not client.choked and not client.more:
            events |= select.POLLIN
        if client.output or client.more:
            events |= select.POLLOUT
        self.selector.interest(client.fd, events)

    # ---- time, and the end ----

    def expired(self, client, now):
        options = self.options
        if options["lifetime"] and now >= client.begun + options["lifetime"]:
            return True
        if options["idle_timeout"] and now >= client.active + options["idle_timeout"]:
            return True
        if options["request_timeout"] and client.line_since is not None \
                and now >= client.line_since + options["request_timeout"]:
            return True
        return bool(options["progress_timeout"] and client.waits_since is not None
                    and now >= client.waits_since + options["progress_timeout"])

    def sweep(self):
        now = time.monotonic()
        for client in list(self.clients.values()):
            if client.lingering:
                if now >= client.active + LINGER:
                    self.close(client)
            elif self.expired(client, now):
                self.counters["timed_out"] += 1
                self.close(client)

    def stop(self):
        self.draining = time.monotonic() + self.options["drain_timeout"]
        self.watch_listener()
        self.listener.close()
        for client in list(self.clients.values()):
            if client.lingering:
                self.close(client)
                continue
            for _ in range(16):
                before = len(client.input)
                if client.ended or not self.read(client) or len(client.input) == before:
                    break
            client.ended = True
            self.go_on(client, 0)

    def run(self):
        timed = any(self.options[name] for name in ("idle_timeout", "request_timeout", "lifetime",
                                                    "progress_timeout"))
        while self.draining is None or (self.clients and time.monotonic() < self.draining):
            lingers = any(client.lingering for client in self.clients.values()) \
                if len(self.clients) < 5000 else True
            watched = timed or lingers or self.draining or self.paused_until > time.monotonic()
            for fd, events in self.selector.select(TICK if watched else None):
                if fd == self.wake:
                    try:
                        os.read(self.wake, 4096)
                    except BlockingIOError:
                        pass
                elif self.draining is None and fd == self.listener.fileno():
                    self.accept()
                elif fd in self.clients:
                    self.go_on(self.clients[fd], events)
            if self.report_asked:
                self.report_asked = False
                self.report()
            if self.stop_asked and self.draining is None:
                self.stop()
            self.sweep()
            if self.paused_until:
                self.watch_listener()
        for client in list(self.clients.values()):
            self.close(client)
        if self.options["stats"]:
            self.report()


if __name__ == "__main__":
    Server(parse(sys.argv[1:])).run()
