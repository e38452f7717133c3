"""Measures real work beside programs that people use: http, a relay, pop3, and ways to send a file.

    usage: python3 tests/bench/real.py [--build FOLDER] [--docs FILE] [--rounds N]

The peers are nginx, HAProxy and dovecot. What is not installed is left out, and the document says so.
"""

import argparse
import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import bench
import measure
import results as figures
import sayings
from measure import Cell

SIZES = {"1 KiB": 1024, "100 KiB": 100 * 1024, "10 MiB": 10 * 1024 * 1024}
PACKAGES = {"nginx": "nginx-light", "nginx, stream": "libnginx-mod-stream", "HAProxy": "haproxy",
            "dovecot": "dovecot-pop3d"}
STREAM_MODULE = "/usr/lib/nginx/modules/ngx_stream_module.so"
SESSIONS, READERS, MAILS, MAIL_BYTES = 200, 40, 25, 10 * 1024


# ---- http and the relay: the load generator's ---------------------------------------------------


def http(programs, folder):
    for name, size in SIZES.items():
        path = os.path.join(folder, f"{size}.txt")
        with open(path, "w", encoding="ascii") as file:
            file.write("".join(f"{i:062d}\r\n" for i in range(size // 64)))
        load = {"traffic": "http", "connections": 10 if size > 1e6 else 100, "path": f"/{size}.txt", "body": path,
                "warm_up": 0.1, "duration": 0.7}
        if shutil.which("nginx"):
            yield Cell("http", "nginx", measure.nginx(folder), load, name)
        for program, server in programs.with_workers(4).items():
            yield Cell("http", program, server + ["--app", "http", "--root", folder], load, name)


NGINX_STREAM = """
load_module {module};
daemon off;
master_process off;
worker_processes 1;
error_log stderr crit;
pid {folder}/nginx.pid;
events {{ worker_connections 20000; }}
stream {{ server {{ listen 127.0.0.1:{port}; proxy_pass 127.0.0.1:{to}; }} }}
"""
HAPROXY = """
global
    nbthread 1
defaults
    mode tcp
    timeout connect 5s
    timeout client 60s
    timeout server 60s
listen relay
    bind 127.0.0.1:{port}
    server echo 127.0.0.1:{to}
"""


def relay(programs, to):
    """A line echo behind each relay; what is counted is the relay's CPU time."""
    load = {"connections": 100, "warm_up": 0.1, "duration": 0.7}
    servers = {}
    if shutil.which("haproxy"):
        servers["HAProxy"] = measure.configured(HAPROXY, lambda path, folder: ["haproxy", "-q", "-db", "-f", path], to=to)
    if shutil.which("nginx") and os.path.exists(STREAM_MODULE):
        servers["nginx, stream"] = measure.configured(
            NGINX_STREAM, lambda path, folder: ["nginx", "-p", folder, "-c", path, "-e", "stderr"], to=to,
            module=STREAM_MODULE)
    for name, server in programs.with_workers(4).items():
        if name.startswith(("stage 4", "stage 5")):
            servers[name] = server + ["--app", "relay", "--to", f"127.0.0.1:{to}"]
    for depth in (1, 16):
        for name, server in servers.items():
            yield Cell("relay", name, server, dict(load, depth=depth), f"depth {depth}")


# ---- pop3: a client of our own --------------------------------------------------------------------

DOVECOT = """
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/log
protocols = pop3
ssl = no
disable_plaintext_auth = no
listen = 127.0.0.1
first_valid_uid = 1
mail_location = maildir:{mail}/%u
auth_mechanisms = plain
passdb {{
  driver = passwd-file
  args = scheme=CRYPT {users}
}}
userdb {{
  driver = static
  args = uid={owner} gid={owner} home={mail}/%u
}}
service pop3-login {{
  inet_listener pop3 {{
    port = {port}
  }}
  inet_listener pop3s {{
    port = 0
  }}
}}
"""


def mailbox(folder, owner):
    """Ann's, with MAILS mails, and a file with her password."""
    inbox = os.path.join(folder, "mail", "ann")
    for name in ("cur", "new", "tmp"):
        os.makedirs(os.path.join(inbox, name))
    line = "x" * 62 + "\n"
    for i in range(MAILS):
        with open(os.path.join(inbox, "cur", f"{i}.mail:2,"), "w", encoding="ascii") as file:
            file.write("Subject: a mail\n\n" + line * (MAIL_BYTES // len(line)))
    users = os.path.join(folder, "users")
    hashed = subprocess.run(["perl", "-e", r'print crypt("secret", "\$5\$rounds=1000\$salt")'], capture_output=True,
                            check=True, text=True).stdout
    with open(users, "w", encoding="ascii") as file:
        file.write(f"ann:{hashed}\n")
    for path, folders, files in os.walk(folder):
        os.chmod(path, 0o755)
        for name in folders + files if os.getuid() == 0 else ():
            os.chown(os.path.join(path, name), owner, owner)
    return os.path.join(folder, "mail"), users


def family(pid):
    """A process and its descendants."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
            parents[int(name)] = int(file.read().rsplit(")", 1)[1].split()[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def cpu_seconds(pid):
    """What a process, its descendants, and those of them that have ended, have used."""
    ticks = 0
    for one in family(pid):
        with contextlib.suppress(OSError), open(f"/proc/{one}/stat", encoding="ascii", errors="replace") as file:
            ticks += sum(map(int, file.read().rsplit(")", 1)[1].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def session(port, mails):
    """Ann logs in, reads so many mails, and leaves. Fails if one of them is not whole."""
    with socket.create_connection(("127.0.0.1", port), 10) as connection, connection.makefile("rb") as replies:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def ask(command):
            if command:
                connection.sendall(command + b"\r\n")
            reply = replies.readline()
            if not reply.startswith(b"+OK"):
                raise measure.Failure(f"{command}: {reply}")

        for command in (b"", b"USER ann", b"PASS secret", b"STAT"):
            ask(command)
        for number in range(mails):
            ask(b"RETR %d" % (number % MAILS + 1))
            size = 0
            for line in replies:
                if line == b".\r\n":
                    break
                size += len(line)
            if size < MAIL_BYTES:
                raise measure.Failure(f"a mail of {size} bytes")
        ask(b"QUIT")


def cost_of_sessions(port, pid, count, mails):
    """Microseconds of CPU time of a session."""
    before = cpu_seconds(pid)
    for _ in range(count):
        session(port, mails)
    time.sleep(0.05)  # processes of a session that are still ending
    return (cpu_seconds(pid) - before) / count * 1e6


def pop3_servers(programs, mail, users, owner):
    if shutil.which("dovecot"):
        yield "dovecot", measure.configured(DOVECOT, lambda path, folder: ["dovecot", "-F", "-c", path], mail=mail,
                                            users=users, owner=owner)
    for name, server in programs.with_workers(4).items():
        yield name, measure.ours(server + ["--app", "pop3", "--mail-dir", mail, "--users", users])


def pop3(programs, folder, number):
    """The rows of a round: what a session costs without mails, and what each mail adds."""
    owner = 65534 if os.getuid() == 0 else os.getuid()
    rows, failures = [], []
    mail, users = mailbox(tempfile.mkdtemp(dir=folder), owner)
    for name, server in pop3_servers(programs, mail, users, owner):
        try:
            with server() as (port, pid):
                session(port, MAILS)
                bare = cost_of_sessions(port, pid, SESSIONS, 0)
                whole = cost_of_sessions(port, pid, READERS, 4 * MAILS)
        except (measure.Failure, OSError) as failure:
            failures.append(f"pop3, {name}: {failure}")
            continue
        for variant, cost in (("a session", bare), ("a mail of 10 KiB", (whole - bare) / (4 * MAILS))):
            rows.append({"experiment": "pop3", "program": name, "variant": variant, "round": number,
                         "connections": 1, "idle": 0, "depth": 1, "rate": 0, "cpu_us_per_reply": cost})
    return rows, failures


# ---- ways to send a file --------------------------------------------------------------------------


def file_ways(programs, rounds):
    """The table, and what happens to a file that gets shorter."""
    costs, ends = {}, {}
    for _ in range(rounds):
        said = subprocess.run(programs.tool("file_ways"), capture_output=True, check=True, text=True, timeout=120).stdout
        for line in map(json.loads, said.splitlines()):
            if "cut" in line:
                ends[line["cut"]] = line["ends"]
            else:
                costs.setdefault((line["way"], line["size"]), []).append((line["cpu_us"], line["faults"]))
    ways = list(dict.fromkeys(way for way, _ in costs))
    lines = [[way] + [", ".join(figures.number(statistics.median(values), digits, unit) for values, digits, unit in zip(
        zip(*costs[way, size]), (1, 0), (" us", " faults"))) for size in SIZES.values()] for way in ways]
    return (figures.table(["way"] + list(SIZES), lines) + "\n\n" + sayings.files(
        {size: {way: [cpu for cpu, _ in costs[way, bytes]] for way in ways} for size, bytes in SIZES.items()}, ends))


# ---- the document ---------------------------------------------------------------------------------


def beside(results, experiment, peers):
    """A line for each program: CPU time and, in parentheses, its ratio to the first peer that is there."""
    programs = results.values("program", experiment=experiment)
    missing = [name for name in peers if name not in programs]
    said = [f"{name} is not installed here ({PACKAGES[name]}), so it was not measured." for name in missing]
    peer = next((name for name in peers if name in programs), None)
    variants = results.values("variant", experiment=experiment)
    lines = []
    for program in programs:
        line = [program]
        for variant in variants:
            here = {"experiment": experiment, "variant": variant, "program": program}
            value = results.median("cpu_us_per_reply", **here)
            ratio = peer and results.ratio("cpu_us_per_reply", here, dict(here, program=peer))
            line.append(figures.number(value, 2, " us") + (f" ({ratio:.2f})" if ratio else ""))
        lines.append(line)
    if peer:
        for variant in variants:
            said.append(sayings.beside(peer, variant, {program: results.ratios(
                "cpu_us_per_reply", {"experiment": experiment, "variant": variant, "program": program},
                {"experiment": experiment, "variant": variant, "program": peer})
                for program in programs if program not in peers}))
    return figures.table(["program"] + variants, lines) + "\n\n" + " ".join(filter(None, said))


def main():
    parser = argparse.ArgumentParser(description="Measures real work beside nginx, HAProxy and dovecot.")
    parser.add_argument("--build", default="build")
    parser.add_argument("--docs")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    programs = bench.Programs(arguments.build)
    about = dict(measure.machine(), rounds=arguments.rounds)
    with tempfile.TemporaryDirectory() as folder, measure.ours(programs.tool("raw_epoll"), -1)() as (to, _):
        os.chmod(folder, 0o755)
        cells = list(http(programs, folder)) + list(relay(programs, to))
        rows, failures = measure.measure_rounds(programs.tools, cells, arguments.rounds)
        for number in range(arguments.rounds):
            more, failed = pop3(programs, folder, number)
            rows, failures = rows + more, failures + failed
    found = figures.Results(about, rows)
    figures.save(found, os.path.join(arguments.build, "bench"), "real")
    parts = {"real": figures.machine_text(about), "http": beside(found, "http", ["nginx"]),
             "relay": beside(found, "relay", ["HAProxy", "nginx, stream"]), "pop3": beside(found, "pop3", ["dovecot"]),
             "files": file_ways(programs, max(3, arguments.rounds))}
    print("\n\n".join(parts.values()))
    for failure in failures:
        print(f"real: FAILED: {failure}", file=sys.stderr)
    if arguments.docs:
        bench.put(arguments.docs, "bench-real", parts)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
