#!/usr/bin/env python3
"""Has a conversation with an application on servers, as a script says: `make test-app` calls this.

  usage: tests/app/talk.py SCRIPT NAME SERVER...

A script has one line for each step of its clients, who have names of one letter:

  args --option VALUE    further options for the server; ECHO is the address of a server of lines
  alone                  its conversations do not run beside each other, since they share something
  a> text                a connects, if it has not, and sends a line, in pieces of random size
  a< text                a reads that line; * stands for anything, ? for one character, and # for the conversation's number
  a= text                a sends that line, and reads the same one: no character stands for others
  a nothing              a has been sent nothing that it has not read, when another client has just read something, a
                         line before this, which shows that the server has had its turn
  a>> 80 01c8            a sends those bytes; # is the conversation's number in two of them
  a<< 41                 a reads those bytes
  a half                 a half-closes
  a end                  a reads the end of the stream, and nothing before it
  a reset                a resets its connection
  a close                a closes

The other lines are empty or begin with a %; what stands behind that is said of a step below that fails. First one conversation runs alone, three times, each with other pieces;
then 200 clients at a time (unless `alone`). Each has 20 s for a step (TALK_DEADLINE). A server that refuses the application,
because the stage lacks what it needs, is skipped and counted. After that it has to stop with status 0.
Prints what failed, and "N passed, N failed, N skipped".
"""

import ctypes
import fnmatch
import os
import random
import re
import select
import signal
import socket
import socketserver
import struct
import subprocess
import sys
import threading

DEADLINE = float(os.environ.get('TALK_DEADLINE', '20'))
CLIENTS = 200


class Wrong(Exception):
    pass


class Echo(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 300

    class RequestHandlerClass(socketserver.StreamRequestHandler):
        def handle(self):
            try:
                for line in self.rfile:
                    self.wfile.write(line)
            except OSError:
                pass

    def __init__(self):
        super().__init__(('127.0.0.1', 0), self.RequestHandlerClass)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Client:
    def __init__(self, address, dice):
        self.socket = socket.create_connection(address, DEADLINE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.dice = dice
        self.read = b''

    def send(self, data):
        while data:
            size = self.dice.choice((1, 2, 3, 7, 20, 100, 1000))
            self.socket.sendall(data[:size])
            data = data[size:]

    def more(self):
        try:
            got = self.socket.recv(65536)
        except socket.timeout as error:
            raise Wrong(f'nothing came within {DEADLINE:g} s') from error
        except OSError as error:
            raise Wrong(f'the connection was lost: {error}') from error
        self.read += got
        return got

    def line(self):
        while b'\n' not in self.read:
            if not self.more():
                raise Wrong(f'the stream ended, after {self.read!r}')
        line, self.read = self.read.split(b'\n', 1)
        return line.decode('utf-8', 'replace')

    def bytes(self, count):
        while len(self.read) < count:
            if not self.more():
                raise Wrong(f'the stream ended, after {self.read.hex()}')
        taken, self.read = self.read[:count], self.read[count:]
        return taken

    def end(self):
        if self.read or self.more():
            raise Wrong(f'expected the end of the stream, got {self.read!r}')

    def nothing(self):
        waits = select.poll()
        waits.register(self.socket, select.POLLIN)
        while waits.poll(0):
            if not self.more():
                raise Wrong(f'expected nothing, got the end of the stream, after {self.read!r}')
        if self.read:
            raise Wrong(f'expected nothing, got {self.read!r}')

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        self.socket.close()


def step(clients, address, dice, number, text):
    name, what, rest = re.fullmatch(r'([a-z])(>>|<<|>|<|=| nothing| half| end| reset| close)(?: (.*))?', text).groups()
    rest = (rest or '').replace('#', f'{number:04x}' if what in ('>>', '<<') else str(number))
    if name not in clients:
        clients[name] = Client(address, dice)
    client = clients[name]
    if what == '>':
        client.send(rest.encode() + b'\n')
    elif what == '<':
        line = client.line()
        if not fnmatch.fnmatchcase(line.replace('[', '('), rest.replace('[', '(')):
            raise Wrong(f'got {line!r}')
    elif what == '=':
        client.send(rest.encode() + b'\n')
        line = client.line()
        if line != rest:
            raise Wrong(f'got {line!r}')
    elif what == ' nothing':
        client.nothing()
    elif what == '>>':
        client.send(bytes.fromhex(rest))
    elif what == '<<':
        expected = bytes.fromhex(rest)
        got = client.bytes(len(expected))
        if got != expected:
            raise Wrong(f'got {got.hex()}')
    elif what == ' half':
        client.socket.shutdown(socket.SHUT_WR)
    elif what == ' end':
        client.end()
    elif what == ' reset':
        client.reset()
        del clients[name]
    else:
        client.socket.close()
        del clients[name]


def converse(steps, address, number, failures):
    clients, dice = {}, random.Random(number)
    for line, text, why in steps:
        try:
            step(clients, address, dice, number, text)
        except (Wrong, OSError) as error:
            failures.append(f'line {line}, "{text}": {error}{why}')
            break
    for client in clients.values():
        client.socket.close()


def shows_turn(steps, client):
    """Whether the last step but those that ask for nothing is another client's, and reads."""
    others = [text for _, text, _ in steps if not text.endswith(' nothing')]
    return bool(others) and others[-1][0] != client and others[-1][1:2] in ('<', '=')


def read_script(path):
    options, alone, steps, why = [], False, [], ''
    with open(path, encoding='utf-8') as script:
        for number, line in enumerate(script, 1):
            text = line.rstrip('\n')
            if text.startswith('args '):
                options = text.split()[1:]
            elif text == 'alone':
                alone = True
            elif re.fullmatch(r'[a-z](>|<|=)( .*)?|[a-z](>>|<<)( *(#|[0-9a-f]{2}))+|[a-z] (nothing|half|end|reset|close)', text):
                if text.endswith(' nothing') and not shows_turn(steps, text[0]):
                    sys.exit(f'{path}:{number}: expected another client to read something before "{text}", which shows '
                             'that the server has had its turn')
                steps.append((number, text, why))
            elif text.startswith('%'):
                why = f' ({text[1:].strip()})'
            elif text:
                sys.exit(f'{path}:{number}: expected a step, got {text!r}')
    if not steps:
        sys.exit(f'{path}: expected a step, got none')
    return options, alone, steps


def conversations(steps, alone, address):
    """Yields what each round is called, and what failed in it."""
    for number in range(3):
        failures = []
        converse(steps, address, number, failures)
        yield f'one, pieces {number}', failures
    if alone:
        return
    names = len({text[0] for _, text, _ in steps})
    failures = []
    threads = [threading.Thread(target=converse, args=(steps, address, number, failures))
               for number in range(1000, 1000 + CLIENTS // names)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    yield f'{len(threads) * names} clients', failures


def end_with_parent():
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def serve(server, name, options, steps, alone):
    """Returns passed, failed, skipped."""
    passed = failed = 0
    with subprocess.Popen([server, '--port', '0', '--app', name, '--max-connections', '1000'] + options, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=end_with_parent) as process:
        ready = process.stdout.readline()
        place = re.search(r'on ([0-9.]+):(\d+)', ready)
        if place is None:
            errors = process.stderr.read()
            refused = process.wait() == 2 and 'does not offer' in errors
            print(('skipped: ' if refused else '') + errors.strip())
            return 0, int(not refused), int(refused)
        for what, failures in conversations(steps, alone, (place[1], int(place[2]))):
            passed, failed = passed + (not failures), failed + bool(failures)
            for failure in failures[:3]:
                print(f'{os.path.basename(server)} {" ".join(options)}, {what}: {failure}')
        process.send_signal(signal.SIGTERM)
        try:
            errors = process.communicate(timeout=DEADLINE)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            errors = process.communicate()[1]
        if process.returncode != 0:
            print(f'{os.path.basename(server)}: ended with {process.returncode}:\n{errors}')
        return passed + (process.returncode == 0), failed + (process.returncode != 0), 0


def main():
    path, name, *servers = sys.argv[1:]
    options, alone, steps = read_script(path)
    echo = Echo() if 'ECHO' in options else None
    options = ['127.0.0.1:%d' % echo.server_address[1] if word == 'ECHO' else word for word in options]
    total = [0, 0, 0]
    for server in servers:
        ways = [[]]
        if 'stage5' in server:
            ways = [['--workers', '0', '--dispatchers', '2'], ['--workers', '2']]
        for way in ways:
            total = [sum(pair) for pair in zip(total, serve(server, name, way + options, steps, alone))]
    print('%d passed, %d failed, %d skipped' % tuple(total))
    sys.exit(total[1] != 0)


main()
