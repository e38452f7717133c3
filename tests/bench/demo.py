"""Shows in a minute how the stages differ under the same load.

    usage: python3 tests/bench/demo.py [--build FOLDER]

For figures to quote there is `make bench`; this is for looking at. The sentences below the figures
are made out of them (sayings.py), so they cannot say what was not seen.
"""

import argparse
import contextlib
import socket
import subprocess
import sys
import textwrap
import time

import measure
import sayings
from bench import Programs
from results import STAGE_5

NAMES = {
    "stage 1": "stage 1, a thread for each",
    "stage 2": "stage 2, one reactor",
    "stage 3": "stage 3, reactor and workers",
    "stage 4": "stage 4, the framework",
    "stage 5, 8 workers": "stage 5, dispatchers, workers",
    STAGE_5: "stage 5, handlers in dispatcher",
}


def title(text):
    print(f"\n{text}\n")


def compare(programs, load, say, extra=(), if_shown=None):
    """The same load on all stages, a line each; what was found, by the names of the servers. With if_shown(found),
    the figures are printed only if that is true, when all are there."""
    found, lines = {}, []
    for name, server in programs.with_workers(8).items():
        label = f"  {NAMES.get(name, name):33}"
        if not if_shown:
            print(label, end="", flush=True)
        try:
            found[name] = measure.run_load(programs.tools, load, ["--"] + server + list(extra))
            line = say(found[name])
        except (measure.Failure, subprocess.TimeoutExpired) as failure:
            line = str(failure)
        if if_shown:
            lines.append(label + line)
        else:
            print(line)
    if lines and (if_shown(found) or len(found) < len(lines)):
        print("\n".join(lines))
    return found


def conclude(*saying):
    """A sentence or two below the figures, in lines of a readable length."""
    print()
    print(textwrap.fill(" ".join(saying), 98, initial_indent="  ", subsequent_indent="  "))


@contextlib.contextmanager
def running(server):
    """A server, and the port it listens on."""
    process = subprocess.Popen(server, stdout=subprocess.PIPE, text=True)
    try:
        yield int(process.stdout.readline().rsplit(":", 1)[1])
    finally:
        process.terminate()
        process.wait(timeout=30)


def ask(port, count):
    """Clients that come one after the other and ask one thing each."""
    clients = []
    for number in range(count):
        client = socket.create_connection(("127.0.0.1", port), 5)
        client.sendall(f"client {number + 1}\n".encode())
        clients.append(client)
    return clients


def answer(client, seconds):
    client.settimeout(seconds)
    try:
        return client.recv(100).decode().strip()
    except socket.timeout:
        return None


def show_plain_load(programs):
    title("A hundred clients, each asks again as soon as it has its answer.")
    found = compare(programs, {"connections": 100, "duration": 0.5, "warm_up": 0.1}, lambda found: (
        f"{found['replies_per_second']:8,.0f} replies/s, "
        f"{found['cpu_us_per_reply']:5.1f} us of CPU time each, {found['threads']:4} threads"))
    conclude(sayings.plain_load({name: result["cpu_us_per_reply"]
                                 for name, result in found.items()}))


def show_slow_messages(programs):
    title("Now one message in a hundred takes 10 ms, as if it waited for a database. The others:")
    load = {"connections": 100, "rate": 2000, "duration": 0.7, "warm_up": 0.1, "set_aside": 1}

    def waited(found):
        return {name: result["latency_p90_us"] / 1000 for name, result in found.items()}

    found = compare(programs, load, lambda found: (
        f"half within {found['latency_p50_us'] / 1000:6.2f} ms, "
        f"90 % within {found['latency_p90_us'] / 1000:6.2f} ms"),
        ("--block-ms", "10", "--cost-every", "100"),
        lambda found: sayings.slow_messages_differ(waited(found)))
    conclude(sayings.slow_messages(waited(found)))


def show_silent_clients(programs):
    title("Two thousand clients are connected and say nothing. What they cost:")
    found = compare(programs, {"connections": 1, "idle": 2000, "duration": 0.1, "warm_up": 0},
                    lambda found: (f"{found['threads']:5} threads, "
                                   f"{found['bytes_per_connection']:6,} bytes for each client"))
    conclude(sayings.silent_clients({name: result["threads"] for name, result in found.items()},
                                    2000))


def show_full_pool(programs):
    title("A pool of four threads, and five clients.")
    found = {}
    for name, label, server in (
            ("stage 1", "stage 1 with --threads 4", programs.stage(1, "--threads", "4")),
            ("stage 2", NAMES["stage 2"], programs.stage(2))):
        if server is None:
            continue
        with running(server) as port:
            clients = ask(port, 5)
            answered = sum(answer(client, 0.4) is not None for client in clients)
            line = f"  {label:33}{answered} of 5 answered"
            if answered < 5:
                clients[0].close()
                heard = answer(clients[4], 2)
                line += "; the fifth " + ("was answered when the first had left" if heard
                                          else "still waits")
            print(line)
            found[name] = answered
            for client in clients:
                client.close()
    conclude(sayings.full_pool(found))


def show_full_queue(programs):
    title("One worker, room for one message to wait, four messages at once, 200 ms each.")
    refused = {}
    for number in (3, 4):
        server = programs.stage(number, "--workers", "1", "--queue", "bounded:1",
                                "--block-ms", "200")
        if server is None:
            continue
        name = f"stage {number}"
        with running(server) as port:
            answers = [answer(client, 3) or "nothing" for client in ask(port, 4)]
        print(f"  {NAMES[name]:33}" + ", ".join(sorted(answers)))
        refused[name] = sum(text.startswith("ERR") for text in answers)
    conclude(sayings.full_queue(refused))


def main():
    parser = argparse.ArgumentParser(description="Shows how the stages differ.")
    parser.add_argument("--build", default="build")
    programs = Programs(parser.parse_args().build)
    began = time.monotonic()
    for show in (show_plain_load, show_slow_messages, show_silent_clients, show_full_pool,
                 show_full_queue):
        show(programs)
    print(f"\n{time.monotonic() - began:.0f} seconds. make bench measures all this properly.")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
