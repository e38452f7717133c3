#!/usr/bin/env python3
"""Tests talk.py: that it passes a server that is right, and notices each mistake of one that is not.

The servers are this file, which is called again with the name of a mistake. They answer a line with
"NAME: line", where NAME is the client's first line. Prints what failed, and "N passed, N failed".
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading

SCRIPT = """% a name, and what is said under it
a> ann#
a< welcome
b> bob
b< welcome
a nothing
a> hello [you]
a< ann#: hello [you]
b= =what*
b> what
b< *: w*t
a half
a end
b> more
b reset
c> carl
c< welcome
c>> 68 69 0a
c<< 63 61 72 6c 3a 20 68690a
c close
"""

# What talk.py waits for in vain takes its whole deadline.
PATIENCE = {'silent': '1', 'stays open': '1', 'does not stop': '2'}

# The mistake, and what talk.py has to say of it.
MISTAKES = [
    ('none', '5 passed, 0 failed, 0 skipped'),
    ('refuses', '0 passed, 0 failed, 1 skipped'),
    ('refuses options', '0 passed, 1 failed, 0 skipped'),
    ('segments', '(a name, and what is said under it)'),               # takes what one read brings for a line
    ('one name', 'got '),               # keeps the name for all clients together
    ('tells others', '"a nothing": expected nothing, got'),
    ('no echo', '"b= =what*": got'),
    ('silent', 'nothing came within'),
    ('cuts', 'the stream ended'),
    ('stays open', 'nothing came within'),
    ('says more', 'expected the end of the stream'),
    ('status', 'ended with 3'),
    ('does not stop', 'ended with -9'),
]

# What the reader of a script has to refuse.
SCRIPTS = [('a> one\na? two\n', "expected a step, got 'a? two'"), ('a>> 4\n', "expected a step, got 'a>> 4'"), ('% nothing\n', 'expected a step, got none'),
           ('a> one\nb> two\na nothing\n', 'expected another client to read something before "a nothing"'),
           ('a= one\na nothing\n', 'expected another client to read something before "a nothing"')]


def lines_of(connection, mistake):
    read = b''
    while True:
        got = connection.recv(65536)
        if not got:
            return
        read += got
        lines = [read.rstrip(b'\n'), b''] if mistake == 'segments' else read.split(b'\n')
        read = lines.pop()
        yield from lines


def serve_client(connection, mistake, name_of_all, others):
    name = name_of_all if mistake == 'one name' else []
    with connection:
        try:
            for line in lines_of(connection, mistake):
                if mistake == 'silent':
                    continue
                if mistake == 'cuts' and name:
                    return
                if line.startswith(b'=') and mistake != 'no echo':
                    connection.sendall(line + b'\n')
                    continue
                for other in others if mistake == 'tells others' else []:
                    if other is not connection:
                        other.sendall(line + b'\n')
                is_new = not name or (mistake == 'one name' and b' ' not in line)
                connection.sendall(b'welcome\n' if is_new else name[0] + b': ' + line + b'\n')
                if is_new:
                    name[:] = [line]
            if mistake == 'says more':
                connection.sendall(b'more\n')
            if mistake == 'stays open':
                threading.Event().wait()
        except OSError:
            pass  # the client has gone


def serve(mistake):
    if mistake.startswith('refuses'):
        print('test: --app: x ' + ('needs y, which test does not offer' if mistake == 'refuses' else 'is unknown'),
              file=sys.stderr)
        sys.exit(2)
    signal.signal(signal.SIGTERM, signal.SIG_IGN if mistake == 'does not stop' else
                  lambda *_: os._exit(3 if mistake == 'status' else 0))
    listener = socket.create_server(('127.0.0.1', 0), backlog=300)
    print('test: x on 127.0.0.1:%d' % listener.getsockname()[1], flush=True)
    name_of_all, others = [], []
    while True:
        connection, _ = listener.accept()
        others.append(connection)
        threading.Thread(target=serve_client, args=(connection, mistake, name_of_all, others), daemon=True).start()


def talk(script, server, what):
    return subprocess.run([sys.executable, '-B', os.path.join(os.path.dirname(__file__), 'talk.py'), script, 'x', server],
                          env=dict(os.environ, TALK_DEADLINE=PATIENCE.get(what, '20')), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)


def main():
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, 'x.talk')
        for what, expected, text in [(m, e, SCRIPT) for m, e in MISTAKES] + [('none', e, t) for t, e in SCRIPTS]:
            with open(script, 'w', encoding='utf-8') as file:
                file.write(text)
            server = os.path.join(folder, what.replace(' ', '-'))
            with open(server, 'w', encoding='utf-8') as file:
                file.write(f'#!/bin/sh\nexec {sys.executable} -B {os.path.abspath(__file__)} --serve "{what}"\n')
            os.chmod(server, 0o700)
            result = talk(script, server, what)
            is_right = expected in result.stdout and (result.returncode == 0) == (', 0 failed' in expected)
            passed, failed = passed + is_right, failed + (not is_right)
            if not is_right:
                print(f'talk.py, {what}: expected "{expected}", got:\n{result.stdout}')
    print(f'{passed} passed, {failed} failed')
    sys.exit(failed != 0)


if sys.argv[1:2] == ['--serve']:
    serve(sys.argv[2])
main()
