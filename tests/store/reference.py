#!/usr/bin/env python3
"""A store that all eight tasks of docs/build-a-store.md accept: one thread, one selector, a struct for each client.

  usage: tests/store/reference.py --port N

It proves that tests/store/grader.py asks for nothing impossible, and tests/store/mistakes.py makes wrong
programs of it. If you are about to write your own store, do not read it before.
"""
import collections
import heapq
import selectors
import signal
import socket
import sys
import time

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
COMMANDS_PER_TURN = 100       # then another client has its turn
BULK_MAX = 64 << 20           # bytes of one word
WORDS_MAX = 1 << 16           # of one command
OUTPUT_HIGH = 1 << 20         # bytes that wait for a client before no more of its commands are carried out
SUBSCRIBER_MAX = 16 << 20     # bytes that wait for a subscriber before it is disconnected
DRAIN = 3                     # s for clients to take their answers and to close, when the server stops

NULL, NULL_ARRAY, OK, QUEUED = b"$-1\r\n", b"*-1\r\n", b"+OK\r\n", b"+QUEUED\r\n"


class ProtocolError(Exception):
    """What comes is no command, so where the next one begins is not known either."""


class CommandError(Exception):
    pass


def bulk(data):
    return b"$%d\r\n%s\r\n" % (len(data), data)


def integer(number):
    return b":%d\r\n" % number


def array(replies):
    return b"*%d\r\n" % len(replies) + b"".join(replies)


def number_of(word, least):
    try:
        number = int(word)
    except ValueError:
        raise CommandError("value is not an integer or out of range") from None
    if number < least or number >= 1 << 53:
        raise CommandError("value is not an integer or out of range")
    return number


class Client:
    def __init__(self, connection):
        self.connection = connection
        self.input, self.output = bytearray(), bytearray()
        self.wants = READ       # what the selector is asked for
        self.queue = None       # commands since MULTI
        self.refused = False    # one of them was
        self.keys = ()          # that BLPOP waits for
        self.until = None       # when it has waited long enough
        self.channels = {}
        self.at_end = False     # nothing more will come
        self.ends = False       # it is not served any more; what waits for it is still sent


class Store:
    def __init__(self, port):
        self.selector = selectors.DefaultSelector()
        self.clients = set()
        self.again = set()                                     # have commands, and need no event
        self.data, self.deadlines, self.heap = {}, {}, []      # key: value; key: time; (time, key)
        self.waiting = collections.defaultdict(dict)           # key: clients, in the order in which they came
        self.filled = []                                       # keys that got elements
        self.channels = collections.defaultdict(dict)          # channel: clients
        self.stops = None                                      # when to be over, after SIGTERM
        self.listener = socket.create_server(("127.0.0.1", port), backlog=1024)
        self.listener.setblocking(False)
        self.selector.register(self.listener, READ)
        self.signals, end = socket.socketpair()
        end.setblocking(False)
        self.signals.setblocking(False)
        self.end = end
        signal.set_wakeup_fd(end.fileno())
        signal.signal(signal.SIGTERM, lambda *_: None)
        self.selector.register(self.signals, READ)

    # ---- the loop -------------------------------------------------------------------------------------

    def run(self):
        while self.stops is None or (self.clients and time.monotonic() < self.stops):
            again, self.again = self.again, set()
            for key, mask in self.selector.select(0 if again else self.patience()):
                if key.fileobj is self.listener:
                    self.accept()
                elif key.fileobj is self.signals:
                    self.stop()
                else:
                    again.discard(key.data)
                    self.attempt(key.data, mask)
            for client in again:
                self.attempt(client, 0)
            self.expire_keys()
            self.expire_waits()

    def patience(self):
        """Seconds until something has to be done although nothing comes."""
        times = [client.until for client in self.clients if client.until is not None]
        times += [deadline for deadline, _ in self.heap[:1]] + [self.stops] * (self.stops is not None)
        return max(0, min(times) - time.monotonic()) if times else None

    def accept(self):
        try:
            connection, _ = self.listener.accept()
        except OSError:
            return
        connection.setblocking(False)
        client = Client(connection)
        self.clients.add(client)
        self.selector.register(connection, READ, client)

    def attempt(self, client, mask):
        """A turn of one client; what goes wrong is this client's fault only."""
        try:
            if client in self.clients:
                self.turn(client, mask)
        except OSError:
            self.close(client)

    def turn(self, client, mask):
        if mask & READ:
            self.receive(client)
        if not client.ends:
            self.carry_out(client)
        self.settle(client)

    def receive(self, client):
        try:
            data = client.connection.recv(65536)
        except BlockingIOError:
            return
        client.at_end = not data
        if not client.ends:
            client.input += data

    def settle(self, client):
        """Sends what waits, and settles how the client goes on."""
        if client.output:
            self.send(client)
        if client.at_end and (client.ends or client.keys) and not client.output:
            return self.close(client)
        wants = WRITE if client.output else 0
        if not client.at_end and (client.ends or len(client.output) < OUTPUT_HIGH):
            wants |= READ if not client.keys or len(client.input) < 65536 else 0
        if wants != client.wants:
            # A client that nothing is wanted of waits for its turn, which self.again remembers.
            if not client.wants:
                self.selector.register(client.connection, wants, client)
            elif wants:
                self.selector.modify(client.connection, wants, client)
            else:
                self.selector.unregister(client.connection)
            client.wants = wants
        return None

    def send(self, client):
        was_high = len(client.output) >= OUTPUT_HIGH
        try:
            sent = client.connection.send(client.output[:1 << 18])
            del client.output[:sent]
        except BlockingIOError:
            pass
        if not client.output and client.ends and not client.at_end:
            client.connection.shutdown(socket.SHUT_WR)
        elif was_high and len(client.output) < OUTPUT_HIGH:
            self.again.add(client)

    def close(self, client):
        if client in self.clients:
            self.clients.remove(client)
            self.again.discard(client)
            self.wait_no_more(client)
            for channel in list(client.channels):
                self.do_unsubscribe(client, channel)
            if client.wants:
                self.selector.unregister(client.connection)
            client.connection.close()

    def finish(self, client):
        """Serves it no more. What waits is sent, then the end; then it is read from until it closes too."""
        client.ends = True
        client.input.clear()
        self.wait_no_more(client)
        if not client.output and not client.at_end:
            client.connection.shutdown(socket.SHUT_WR)

    def stop(self):
        self.signals.recv(64)
        if self.stops is None:
            self.stops = time.monotonic() + DRAIN
            self.selector.unregister(self.listener)
            self.listener.close()
            for client in list(self.clients):
                try:
                    while not client.keys and self.step(client):
                        pass
                    self.finish(client)
                    self.settle(client)
                except OSError:
                    self.close(client)

    # ---- commands -------------------------------------------------------------------------------------

    def carry_out(self, client):
        """A turn's worth of the commands that have come."""
        for _ in range(COMMANDS_PER_TURN):
            if not self.may_go_on(client):
                return
            if not self.step(client):
                client.ends = client.ends or client.at_end
                return
        self.again.add(client)

    def may_go_on(self, client):
        return not client.keys and len(client.output) < OUTPUT_HIGH

    def step(self, client):
        """Carries out one command. False if there is none that is whole."""
        try:
            words, size = self.parse(client.input)
        except ProtocolError as error:
            client.output += b"-ERR Protocol error: %s\r\n" % str(error).encode()
            self.finish(client)
            return False
        if size == 0:
            return False
        del client.input[:size]
        if words:
            client.output += self.reply(client, words)
            self.serve_waiting()
        return True

    def parse(self, data):
        """The words of the first command, and how many bytes it has; 0 if it is not whole."""
        end = self.line(data, 0, b"*")
        if end < 0:
            return [], 0
        words, at = [], end + 2
        for _ in range(self.size(data[1:end], WORDS_MAX)):
            end = self.line(data, at, b"$")
            if end < 0:
                return [], 0
            size = self.size(data[at + 1:end], BULK_MAX)
            at = end + 2
            if len(data) < at + size + 2:
                return [], 0
            words.append(bytes(data[at:at + size]))
            at += size + 2
        return words, at

    def line(self, data, at, mark):
        if data[at:at + 1] not in (b"", mark):
            raise ProtocolError(f"expected {mark.decode()!r}, got {chr(data[at])!r}")
        end = data.find(b"\r\n", at)
        if (end if end >= 0 else len(data)) - at > 32:
            raise ProtocolError("too big count")
        return end

    def size(self, digits, most):
        if not digits.isdigit() or int(digits) > most:
            raise ProtocolError("invalid length")
        return int(digits)

    def reply(self, client, words):
        name = words[0].lower().decode("latin-1")
        least, most = COMMANDS.get(name, (None, None))
        if least is None:
            reply = b"-ERR unknown command\r\n"
        elif not least <= len(words) - 1 <= most:
            reply = b"-ERR wrong number of arguments for '%s' command\r\n" % name.encode()
        elif client.queue is not None and name not in ("multi", "exec", "discard"):
            return self.enqueue(client, words)
        else:
            return self.execute(client, words)
        if client.queue is not None:
            client.refused = True
        return reply

    def enqueue(self, client, words):
        client.queue.append(words)
        return QUEUED

    def execute(self, client, words):
        try:
            return getattr(self, "do_" + words[0].lower().decode())(client, *words[1:])
        except CommandError as error:
            return b"-ERR %s\r\n" % str(error).encode()

    def do_ping(self, _, message=None):
        return b"+PONG\r\n" if message is None else bulk(message)

    def do_echo(self, _, message):
        return bulk(message)

    # ---- keys -----------------------------------------------------------------------------------------

    def find(self, key):
        if key in self.deadlines and self.deadlines[key] <= time.monotonic():
            self.remove(key)
        return self.data.get(key)

    def remove(self, key):
        self.data.pop(key, None)
        self.deadlines.pop(key, None)

    def expire_keys(self):
        now = time.monotonic()
        while self.heap and self.heap[0][0] <= now:
            deadline, key = heapq.heappop(self.heap)
            if self.deadlines.get(key) == deadline:  # or it has another value since
                self.remove(key)

    def expire_waits(self):
        now = time.monotonic()
        for client in [client for client in self.clients if client.until is not None and client.until <= now]:
            self.pay(client, NULL_ARRAY)

    def do_set(self, _, key, value, *options):
        seconds = None
        if options:
            if len(options) != 2 or options[0].lower() not in (b"ex", b"px"):
                raise CommandError("syntax error")
            seconds = number_of(options[1], 1) / (1 if options[0].lower() == b"ex" else 1000)
        self.remove(key)
        self.data[key] = value
        if seconds is not None:
            self.deadlines[key] = time.monotonic() + seconds
            heapq.heappush(self.heap, (self.deadlines[key], key))
        return OK

    def do_get(self, _, key):
        value = self.find(key)
        if isinstance(value, collections.deque):
            raise CommandError("wrong kind of value")
        return self.value(value)

    def value(self, value):
        return NULL if value is None else bulk(value)

    def do_del(self, _, *keys):
        there = [key for key in dict.fromkeys(keys) if self.find(key) is not None]
        for key in there:
            self.remove(key)
        return integer(len(there))

    def do_pttl(self, _, key):
        if self.find(key) is None:
            return integer(-2)
        if key not in self.deadlines:
            return integer(-1)
        return integer(round((self.deadlines[key] - time.monotonic()) * 1000))

    def do_ttl(self, client, key):
        left = int(self.do_pttl(client, key)[1:])
        return integer(left if left < 0 else (left + 500) // 1000)

    # ---- lists ----------------------------------------------------------------------------------------

    def list(self, key):
        value = self.find(key)
        if isinstance(value, bytes):
            raise CommandError("wrong kind of value")
        return value

    def do_rpush(self, _, key, *elements):
        if self.list(key) is None:
            self.data[key] = collections.deque()
        self.data[key].extend(elements)
        self.filled.append(key)
        return integer(len(self.data[key]))

    def do_lpop(self, _, key):
        elements = self.list(key)
        return self.value(self.pop(key) if elements else None)

    def pop(self, key):
        element = self.data[key].popleft()
        if not self.data[key]:
            self.remove(key)
        return element

    def do_llen(self, _, key):
        return integer(len(self.list(key) or ()))

    def do_blpop(self, client, *words):
        *keys, seconds = words
        try:
            seconds = float(seconds)
        except ValueError:
            seconds = -1
        if not 0 <= seconds < 1 << 31:
            raise CommandError("timeout is not a float or out of range")
        for key in keys:
            if self.list(key):
                return array([bulk(key), bulk(self.pop(key))])
        return self.wait(client, keys, seconds)

    def wait(self, client, keys, seconds):
        if client.queue is not None:  # EXEC waits for nobody
            return NULL_ARRAY
        client.keys = tuple(keys)
        client.until = time.monotonic() + seconds if seconds else None
        for key in keys:
            self.waiting[key][client] = True
        return b""

    def wait_no_more(self, client):
        for key in client.keys:
            self.waiting[key].pop(client, None)
        client.keys, client.until = (), None

    def serve_waiting(self):
        """Gives the elements that have come to those that wait, the first one first."""
        filled, self.filled = self.filled, []
        for key in filled:
            while self.waiting[key] and self.list(key):
                self.pay(next(iter(self.waiting[key])), array([bulk(key), bulk(self.pop(key))]))
            if not self.waiting[key]:
                del self.waiting[key]

    def pay(self, client, reply):
        """Answers one that has waited."""
        self.wait_no_more(client)
        client.output += reply
        self.again.add(client)

    # ---- channels -------------------------------------------------------------------------------------

    def do_subscribe(self, client, *channels):
        replies = []
        for channel in channels:
            client.channels[channel] = self.channels[channel][client] = True
            replies.append(array([bulk(b"subscribe"), bulk(channel), integer(len(client.channels))]))
        return b"".join(replies)

    def do_unsubscribe(self, client, *channels):
        replies = []
        for channel in channels:
            client.channels.pop(channel, None)
            self.channels[channel].pop(client, None)
            replies.append(array([bulk(b"unsubscribe"), bulk(channel), integer(len(client.channels))]))
            if not self.channels[channel]:
                del self.channels[channel]
        return b"".join(replies)

    def do_publish(self, _, channel, message):
        subscribers = list(self.channels.get(channel, ()))
        message = array([bulk(b"message"), bulk(channel), bulk(message)])
        for subscriber in subscribers:
            self.deliver(subscriber, message)
        return integer(len(subscribers))

    def deliver(self, client, message):
        if len(client.output) + len(message) > SUBSCRIBER_MAX:
            self.close(client)
        else:
            client.output += message
            self.again.add(client)

    # ---- transactions ---------------------------------------------------------------------------------

    def do_multi(self, client):
        if client.queue is not None:
            raise CommandError("MULTI calls can not be nested")
        client.queue, client.refused = [], False
        return OK

    def do_discard(self, client):
        if client.queue is None:
            raise CommandError("DISCARD without MULTI")
        client.queue = None
        return OK

    def do_exec(self, client):
        if client.queue is None:
            raise CommandError("EXEC without MULTI")
        if client.refused:
            client.queue = None
            return b"-EXECABORT Transaction discarded because of previous errors.\r\n"
        replies = [self.execute(client, words) for words in client.queue]
        client.queue = None
        return array(replies)


# How many words may follow each name.
COMMANDS = {"ping": (0, 1), "echo": (1, 1), "set": (2, 4), "get": (1, 1), "del": (1, WORDS_MAX), "ttl": (1, 1),
            "pttl": (1, 1), "rpush": (2, WORDS_MAX), "lpop": (1, 1), "llen": (1, 1), "blpop": (2, WORDS_MAX),
            "subscribe": (1, WORDS_MAX), "unsubscribe": (1, WORDS_MAX), "publish": (2, 2), "multi": (0, 0),
            "exec": (0, 0), "discard": (0, 0)}


def main(kind):
    assert sys.argv[-2] == "--port"
    kind(int(sys.argv[-1])).run()


if __name__ == "__main__":
    main(Store)
