"""Draws what the gauges of a server look like when something is wrong, for docs/running.md.

    usage: python3 tests/running/pictures.py FOLDER BUILD      (make running-pictures)

    FOLDER/wrong-handler.svg   a handler blocks
    FOLDER/wrong-workers.svg   there are too few workers
    FOLDER/wrong-reader.svg    a client does not read
    FOLDER/wrong-backlog.svg   the backlog is full

Each picture has the same four rows, with the same scales, so that one sees which row it is that differs. A
scene takes eight seconds, in which SIGUSR1 asks the server ten times a second.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from xml.sax.saxutils import escape

SECONDS, EACH = 8.0, 0.1
BEGIN, END = 2.0, 5.0  # when something goes wrong, and when it is over
ROWS = (("lag_max", "lag of the loop in the last minute, max", "ms", 3000), ("queue", "tasks that wait", "", 30),
        ("output_held", "output held", "KiB", 64), ("backlog", "clients that nobody has accepted", "", 10))
WIDTH, LEFT, RIGHT, TOP, ROW, GAP = 460, 8, 84, 30, 46, 26


# ---- Servers and clients ------------------------------------------------------------------------

class Server:
    def __init__(self, program, *options):
        self.process = subprocess.Popen([program, "--port", "0", *options], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])
        self.begun = time.monotonic()
        self.gauges = dict.fromkeys((row[0] for row in ROWS), 0)
        self.events = []  # (time, what the log says)
        threading.Thread(target=self.listen, daemon=True).start()

    def now(self):
        return time.monotonic() - self.begun

    def listen(self):
        for line in self.process.stderr:
            if event := re.search(r"event=(handler_\w+)", line):
                self.events.append((self.now(), event[1]))
            for name, value in re.findall(r" (lag_max_us|queue|output_held)=(\d+)", line):
                if " helpers: " not in line:
                    self.gauges["lag_max" if name == "lag_max_us" else name] = \
                        int(value) / {"lag_max_us": 1000, "output_held": 1024, "queue": 1}[name]

    def backlog(self):
        """What ss shows as Recv-Q of the listener."""
        with open("/proc/net/tcp", encoding="ascii") as sockets:
            for line in sockets:
                words = line.split()
                if words[1].endswith(f":{self.port:04X}") and words[3] == "0A":
                    return int(words[4].split(":")[1], 16)
        return 0

    def client(self, **options):
        client = socket.socket()
        if "receive" in options:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options["receive"])
        client.connect(("127.0.0.1", self.port))
        return client

    def watch(self, acts):
        """Plays a scene: `acts` are (when, what to do). Returns samples (time, {row: value})."""
        samples, acts = [], sorted(acts, key=lambda act: act[0])
        time.sleep(2 * EACH)  # the first clients are accepted
        self.begun = time.monotonic()
        while (now := self.now()) < SECONDS:
            while acts and acts[0][0] <= now:
                acts.pop(0)[1]()
            self.process.send_signal(signal.SIGUSR1)
            self.gauges["backlog"] = self.backlog()
            samples.append((now, dict(self.gauges)))
            time.sleep(EACH)
        self.process.terminate()
        self.process.wait(30)
        return samples


def handler(build):
    server = Server(f"{build}/stage5-multireactor", "--dispatchers", "1", "--block-ms", "3000", "--cost-for", "slow")
    client = server.client()
    return server, [(BEGIN, lambda: client.sendall(b"slow\n"))]


def workers(build):
    server = Server(f"{build}/stage4-framework", "--workers", "1", "--block-ms", "100")
    clients = [server.client() for _ in range(70)]
    times = [i * 0.25 for i in range(8)] + [BEGIN + i * 0.05 for i in range(60)]
    return server, [(when, lambda client=client: client.sendall(b"a question\n")) for when, client in zip(times, clients)]


def reader(build):
    server = Server(f"{build}/stage5-multireactor", "--dispatchers", "1", "--send-buffer", "8192")
    client = server.client(receive=4096)

    def ask():
        client.setblocking(False)
        try:
            while True:
                client.send(b"I do not read what you answer\n" * 1000)
        except BlockingIOError:
            pass

    def read():
        client.settimeout(1)
        client.shutdown(socket.SHUT_WR)
        threading.Thread(target=lambda: [None for _ in iter(lambda: client.recv(65536), b"")], daemon=True).start()

    return server, [(BEGIN, ask), (BEGIN + 0.3, ask), (END, read)]


def backlog(build):
    server = Server(f"{build}/stage2-single-reactor", "--max-connections", "1", "--overload", "wait")
    clients = [server.client()]

    def leave():
        for client in clients:
            client.close()

    return server, [(BEGIN + i * 0.2, lambda: clients.append(server.client())) for i in range(10)] + [(END, leave)]


SCENES = (("handler", handler, "A handler blocks", f"at {BEGIN:.0f} s a message comes that takes three seconds"),
          ("workers", workers, "Too few workers",
           f"one worker, which manages ten questions per second; from {BEGIN:.0f} to {END:.0f} s twenty come"),
          ("reader", reader, "A client does not read", f"from {BEGIN:.0f} to {END:.0f} s it asks, and does not read"),
          ("backlog", backlog, "The backlog is full",
           f"room for one client; from {BEGIN:.0f} s on ten more connect, at {END:.0f} s all leave"))


# ---- Pictures -----------------------------------------------------------------------------------

STYLE = """  <style>
    text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #1f2226 }
    .axis { font-size: 11px; fill: #5a6068 }
    .grid { fill: none; stroke: #b3b8be }
    .wrong { fill: #f6ead9 }
    .area { fill: #1f6fb5; fill-opacity: 0.25; stroke: #1f6fb5; stroke-width: 1.5 }
    .sign { stroke: #b3541e; stroke-width: 1.5 }
    @media (prefers-color-scheme: dark) {
      text { fill: #e2e2de } .axis { fill: #a3a9b1 } .grid { stroke: #5a6068 } .wrong { fill: #3b3226 }
      .area { fill: #6fb0ea; stroke: #6fb0ea } .sign { stroke: #e8a06a }
    }
  </style>"""


def picture(title, words, samples, events, scales):
    right, height = WIDTH - RIGHT, TOP + len(ROWS) * (ROW + GAP) + 14
    peaks = {row[0]: max(sample[row[0]] for _, sample in samples) for row in ROWS}
    said = "; ".join(f"{what}: at most {peaks[name]:.0f} {unit}".rstrip() for name, what, unit, _ in ROWS)

    def place(when):
        return LEFT + when / SECONDS * (right - LEFT)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
           'role="img" aria-labelledby="title desc">',
           f'  <title id="title">{escape(title)}</title>', f'  <desc id="desc">{escape(words)}. {escape(said)}</desc>',
           STYLE, f'  <path class="wrong" d="M{place(BEGIN):.1f} {TOP - 16}H{place(END):.1f}V{height - 18}H{place(BEGIN):.1f}z"/>']
    for number, (name, what, unit, _) in enumerate(ROWS):
        bottom = TOP + number * (ROW + GAP) + ROW
        points = [(place(when), bottom - sample[name] / scales[name] * ROW) for when, sample in samples]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        out.append(f'  <text class="axis" x="{LEFT}" y="{bottom - ROW - 4}">{escape(what)}</text>'
                   f'<path class="area" d="M{points[0][0]:.1f} {bottom}L{path}L{points[-1][0]:.1f} {bottom}z"/>'
                   f'<path class="grid" d="M{LEFT} {bottom}H{right}"/>'
                   f'<text x="{right + 8}" y="{bottom - 4}">{peaks[name]:,.0f} {unit}</text>')
    for when, event in events:
        x = place(min(when, SECONDS))
        out.append(f'  <path class="sign" d="M{x:.1f} {TOP}v{ROW}"/>'
                   f'<text class="axis" x="{x - 3:.1f}" y="{TOP + ROW - 4}" text-anchor="end">{escape(event)}</text>')
    for second in range(int(SECONDS) + 1):
        out.append(f'  <text class="axis" x="{place(second):.1f}" y="{height - 4}" text-anchor="middle">{second}</text>')
    out.append(f'  <text class="axis" x="{right + 8}" y="{height - 4}">s; at most</text>')
    return "\n".join(out + ["</svg>", ""])


def main():
    folder, build = sys.argv[1:3]
    seen = {}
    for name, scene, _, _ in SCENES:
        server, acts = scene(build)
        seen[name] = server.watch(acts), server.events
    scales = {row[0]: max([row[3]] + [sample[row[0]] for samples, _ in seen.values() for _, sample in samples]) for row in ROWS}
    for name, _, title, words in SCENES:
        path = os.path.join(folder, f"wrong-{name}.svg")
        with open(path, "w", encoding="utf-8") as file:
            file.write(picture(title, words, *seen[name], scales))
        print(path)


if __name__ == "__main__":
    main()
