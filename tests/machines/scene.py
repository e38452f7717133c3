#!/usr/bin/env python3
"""Five machines in a minute: HAProxy, three servers and redis; one dies, then another, and it heals.

    usage: tests/machines/scene.py

Everything is told in plain words as it happens, and every figure in it is computed from what the
users of this run have said and heard.
"""

import contextlib
import os
import re
import statistics
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import lab as labs  # noqa: E402
from lab import Lab, Missed, User, until  # noqa: E402

EVERY = 0.05  # seconds between two lines of a user
NAMES = ("ann", "bob", "carl", "amy", "ben", "cleo")


class Regular(User):
    """Talks all the time. If he is disconnected he comes again, to the same address, at once."""

    def __init__(self, lab, nick):
        self.said_at = {}
        self.away = []  # from when to when
        self.leaves = threading.Event()
        super().__init__(lab, nick, lab.balancer)
        self.talker = threading.Thread(target=self.talk, daemon=True)
        self.talker.start()

    def connect(self):
        """The name may still belong to a server that has died; then somebody asks again later."""
        nick, self.nick = self.nick, None
        super().connect()
        self.nick = nick
        self.ask_for_name()

    def ask_for_name(self):
        self.send(f"/nick {self.nick}")
        self.has_name = "you are" in self.expect(r"^\* you are|^ERR somebody else")

    def talk(self):
        while not self.leaves.wait(EVERY):
            try:
                if not self.open:
                    raise OSError
                if not self.has_name and self.said % 10 == 0:
                    self.ask_for_name()
                self.said += 1
                self.said_at[self.said] = time.monotonic()
                self.send(f"{self.nick} says {self.said}")
            except OSError:
                self.come_back()

    def come_back(self):
        left = time.monotonic()
        while not self.leaves.is_set():
            with contextlib.suppress(OSError, Missed):
                self.come_again()
                break
            time.sleep(0.05)
        self.away.append((left, time.monotonic()))

    def close(self):
        self.leaves.set()
        self.talker.join(labs.PATIENCE)
        super().close()

    def said_in(self, begin, end):
        said = list(self.said_at.items())
        return [number for number, moment in said if begin <= moment < end]

    def numbers_of(self, other):
        """The numbers that another one said, each with the moment at which it came."""
        with self.came:
            found = ((moment, re.search(rf"\] {other.nick} says (\d+)$", text))
                     for moment, text in self.heard)
            return {int(match.group(1)): moment for moment, match in found if match}


class Scene:
    def __init__(self, lab):
        self.lab = lab
        self.began = time.monotonic()
        self.users = []

    def tell(self, text):
        print(f"{time.monotonic() - self.began:5.1f} s  {text}", flush=True)

    def act(self, text):
        print(f"\n{text}\n", flush=True)

    def seats(self):
        """Who is on which server, as /who says."""
        asks = self.users[0]
        with asks.came:
            asks.seen = len(asks.heard)
        asks.send("/who")
        count = int(re.search(r"\d+", asks.expect(r"^\* \d+ here")).group())
        seats = {server.name: [] for server in self.lab.servers}
        rows = [asks.expect(r"^\* [\w~-]+( on \w+)?$") for _ in range(count)]
        own = self.lab.balancer.server_of(asks)
        for row in rows:
            nick, _, server = row[2:].partition(" on ")
            seats[server or own].append(nick)
        return {server: sorted(nicks) for server, nicks in seats.items()}

    def count(self, begin, end):
        """Of the lines said meanwhile: how many there were, and how many somebody has missed."""
        said = lost = 0
        times = []
        for speaker in self.users:
            numbers = speaker.said_in(begin, end)
            said += len(numbers)
            for hearer in self.users:
                if hearer is not speaker:
                    heard = hearer.numbers_of(speaker)
                    lost += sum(number not in heard for number in numbers)
                    times += [heard[number] - speaker.said_at[number] for number in numbers
                              if number in heard]
        return said, lost, statistics.median(times) * 1000 if times else 0

    def tell_count(self, begin, end):
        time.sleep(0.5)  # what is under way arrives
        said, lost, median = self.count(begin, end)
        due = said * (len(self.users) - 1)
        self.tell(f"In these {end - begin:.0f} s {len(self.users)} users said {said} lines, which is "
                  f"{due} to deliver. {lost or 'None'} did not arrive. Half arrived within "
                  f"{median:.1f} ms.")


def everybody_comes(scene):
    lab = scene.lab
    scene.act("Everybody comes")
    for machine in (lab.balancer, *lab.servers, lab.broker):
        scene.tell(f"{machine.name:8} listens on {machine.at}")
    scene.tell("Users know the address of haproxy only. It gives each to the server with the fewest.")
    for nick in NAMES:
        scene.users.append(lab.add_user(Regular(lab, nick)))
    everybody = lambda: sum(map(len, scene.seats().values())) == len(NAMES)  # noqa: E731
    until(everybody, "everybody sees everybody", pause=0.2)
    for server, nicks in scene.seats().items():
        scene.tell(f"Server {server} has {', '.join(nicks)}.")
    scene.tell("What Ann says goes through haproxy to her server, from there to those beside her and "
               "to redis, from redis to the other servers, and through haproxy to their users.")
    begin = time.monotonic()
    time.sleep(6)
    scene.tell_count(begin, time.monotonic() - 0.5)


def a_server_dies(scene):
    lab = scene.lab
    victim = lab.servers[2]
    scene.act(f"Server {victim.name} dies")
    on_it = [user for user in scene.users if user.nick in scene.seats()[victim.name]]
    stays = next(user for user in scene.users if user not in on_it)
    begin = time.monotonic()
    victim.kill()
    scene.tell(f"Server {victim.name} was killed. "
               f"{' and '.join(user.nick for user in on_it)} were on it.")
    until(lambda: all(user.away and user.open for user in on_it), "they come again")
    back = max(user.away[-1][1] for user in on_it) - begin
    scene.tell(f"They came again to the same address, and after {back:.2f} s all of them "
               "were on another server.")
    lab.balancer.expect_status(victim, "DOWN")
    scene.tell(f"haproxy knows after {time.monotonic() - begin:.1f} s. Until then it tried "
               f"{victim.name}, was refused, and took the next server.")
    until(lambda: all(user.has_name for user in on_it), "they have their names again")
    scene.tell(f"Their names were leased by {victim.name}. The leases have run out after "
               f"{time.monotonic() - begin:.1f} s, so they have their names again.")
    gone = [moment for user in on_it
            if (moment := stays.moment_of(rf"{user.nick} has left", begin)) is not None]
    if gone:
        scene.tell(f"The others read that they had left after {max(gone) - begin:.1f} s.")
    end = time.monotonic()
    time.sleep(0.5)
    for user in on_it:
        missed = sum(number not in user.numbers_of(other) for other in scene.users
                     if other not in on_it for number in other.said_in(begin, end))
        scene.tell(f"{user.nick} has missed {missed} lines of the others.")
    said, lost, _ = count_among(scene, [user for user in scene.users if user not in on_it], begin, end)
    scene.tell(f"The {len(scene.users) - len(on_it)} others said {said} lines, and {lost or 'none'} "
               "of them was missed by one of these.")
    victim.start()
    lab.balancer.expect_status(victim, "UP")
    scene.tell(f"Server {victim.name} was started again. haproxy gives it the next users; those that "
               "are elsewhere stay there.")


def count_among(scene, users, begin, end):
    everybody, scene.users = scene.users, users
    try:
        return scene.count(begin, end)
    finally:
        scene.users = everybody


def a_server_is_drained(scene):
    lab = scene.lab
    first = lab.servers[0]
    scene.act(f"Server {first.name} is taken away")
    lab.balancer.drain(first)
    on_it = [user for user in scene.users if user.nick in scene.seats()[first.name]]
    begin = time.monotonic()
    first.signal(15)
    first.process.wait(labs.PATIENCE)
    until(lambda: all(user.away and user.away[-1][0] > begin and user.open for user in on_it),
          "they come again")
    away = max(after - before for user in on_it for before, after in user.away[-1:])
    told = sum(user.moment_of("come again", begin) is not None for user in on_it)
    scene.tell(f"haproxy sends nobody there any more. Then it was told to end, and {told} of its "
               f"{len(on_it)} users were told to come again. The longest was away for {away:.2f} s.")
    first.start()
    lab.balancer.drain(first, False)
    time.sleep(1)
    for server, nicks in scene.seats().items():
        scene.tell(f"Server {server} has {', '.join(nicks) or 'nobody'}.")


def the_broker_dies(scene):
    lab = scene.lab
    scene.act("The broker dies")
    begin = time.monotonic()
    lab.broker.kill()
    busy = [user for user in scene.users]
    until(lambda: all(user.moment_of("out of reach", begin) for user in busy), "all are told")
    told = max(user.moment_of("out of reach", begin) for user in busy) - begin
    scene.tell(f"redis was killed. After {told:.1f} s everybody has read:")
    for line in sorted({text for user in busy for _, text in user.heard if "out of reach" in text}):
        scene.tell(f"    {line}")
    time.sleep(5)
    dead_until = time.monotonic()
    seats = [users for users in seats_by_hearing(scene, begin, dead_until) if users]
    scene.tell("Each server is a chat of its own now: " +
               "; ".join(" and ".join(sorted(users)) for users in seats) + " hear each other.")
    lab.broker.start()
    started = time.monotonic()
    until(lambda: all(user.moment_of("in reach again", begin) for user in busy), "it heals")
    heals = max(user.moment_of("in reach again", begin) for user in busy) - started
    scene.tell(f"redis was started again, and {heals:.1f} s later the last server was back. "
               "Everybody has read one of:")
    for line in sorted({text for user in busy for moment, text in user.heard
                        if "in reach again" in text and moment > begin}):
        scene.tell(f"    {line}")
    scene.tell_count(begin, dead_until)
    healed = time.monotonic() + 1
    time.sleep(6)
    scene.tell_count(healed, time.monotonic() - 0.5)


def seats_by_hearing(scene, begin, end):
    """Groups of users that have heard each other in the last second of that time."""
    groups = []
    for user in scene.users:
        for group in groups:
            other = group[0]
            if any(end - 1 < moment < end for moment in user.numbers_of(other).values()):
                group.append(user)
                break
        else:
            groups.append([user])
    return [[user.nick for user in group] for group in groups]


def the_end(scene):
    lab = scene.lab
    scene.act("What it cost")
    said = sum(user.said for user in scene.users)
    heard = sum(len(hearer.numbers_of(speaker)) for hearer in scene.users
                for speaker in scene.users)
    for machine in (lab.balancer, *lab.servers, lab.broker):
        scene.tell(f"{machine.name:8} used {machine.cpu_seconds():.2f} s of a processor since it was "
                   "started last.")
    due = said * (len(scene.users) - 1)
    scene.tell(f"{said} lines were said, and {heard} of {due} were delivered: "
               f"{(due - heard) / due:.1%} were lost while a server or the broker was dead.")


def main():
    if labs.missing():
        sys.exit(f"machines: {labs.missing()} is not installed")
    labs.enter()
    with Lab() as lab:
        print(f"Five machines: {lab.network.kind}.")
        scene = Scene(lab)
        try:
            for act in (everybody_comes, a_server_dies, a_server_is_drained, the_broker_dies, the_end):
                act(scene)
        except Missed as fault:
            sys.exit(f"machines: {fault}")
    return 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
