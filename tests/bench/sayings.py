"""The sentences that demo.py prints below its figures, made out of the figures.

Each function takes what was measured, by the name of the server, and returns what that shows. What a
run does not show, for example on a machine that has other things to do, is not said.
"""

from results import STAGE_5

# A difference is one if the larger figure is at least this many times the smaller one.
CLEAR = 3

# A message that takes longer than this was kept waiting by a message of 10 ms, and not by the machine alone; ms.
HELD_UP = 2


def listed(names):
    """In words: a, b and c."""
    names = list(names)
    if len(names) < 2:
        return "".join(names)
    return ", ".join(names[:-1]) + " and " + names[-1]


def plain_load(cpu):
    """Microseconds of CPU time for a reply."""
    reactor, threads = cpu.get("stage 2"), cpu.get("stage 1")
    said = []
    if reactor and threads:
        if reactor < 0.9 * threads:
            said.append("One thread with a selector did what a hundred threads do, for "
                        f"{reactor / threads:.0%} of their CPU time.")
        else:
            said.append("In this run one thread with a selector saved no CPU time against a hundred "
                        "threads.")
    dearer = [name for name in ("stage 3", "stage 4")
              if reactor and name in cpu and cpu[name] > 1.1 * reactor]
    if dearer:
        said.append(f"Handing each message to a worker costs CPU time ({listed(dearer)}).")
    return " ".join(said) or "Too few stages could be measured to compare them."


def held_up_and_others(waited):
    """The servers in which quick messages waited, and those in which they did not."""
    return ({name: ms for name, ms in waited.items() if ms >= HELD_UP},
            {name: ms for name, ms in waited.items() if ms < HELD_UP})


def slow_messages_differ(waited):
    """Whether the stages differ by more than what a busy machine does to all of them. Figures that do not are not shown."""
    held_up, others = held_up_and_others(waited)
    return not held_up or bool(others) and min(held_up.values()) >= CLEAR * max(others.values())


def slow_messages(waited):
    """Within how many ms nine in ten of the quick messages were answered."""
    held_up, others = held_up_and_others(waited)
    if not waited:
        return "Nothing could be measured."
    if not held_up:
        return "In this run the slow messages held up hardly any of the others, in no stage."
    if not slow_messages_differ(waited):
        return ("In this run the stages do not differ clearly. If the machine has something else to "
                "do, every message waits for that.")
    said = (f"In {listed(held_up)} quick messages waited for slow ones. In {listed(others)} they "
            "did not.")
    one_thread = {"stage 2", STAGE_5}
    if set(held_up) <= one_thread:
        said += (" A thread that runs the handlers itself stops everybody while one of them blocks;"
                 " with workers, or a thread for each client, the other threads go on.")
    return said


def silent_clients(threads, clients):
    """How many threads a server has while that number of clients is connected."""
    many = [name for name, count in threads.items() if count >= clients]
    few = {name: count for name, count in threads.items() if count < clients / 10}
    said = []
    if many:
        said.append(f"In {listed(many)} each client has a thread, and each thread a stack.")
    if few:
        said.append(f"In {listed(few)} {max(few.values())} threads or fewer wait for all of them, "
                    "and a client is a struct.")
    return " ".join(said) or "In this run no stage differs clearly from the others."


def full_pool(answered):
    """How many of five clients were answered at once."""
    pool, reactor = answered.get("stage 1"), answered.get("stage 2")
    said = []
    if pool is not None:
        said.append("A pool serves as many clients as it has threads, however little they say."
                    if pool == 4 else
                    f"In this run the pool of four threads answered {pool} clients at once.")
    if reactor is not None:
        said.append("One reactor answered all five." if reactor == 5 else
                    f"In this run the reactor answered {reactor} of five in time.")
    return " ".join(said)


def full_queue(refused):
    """How many of four messages were answered with an error."""
    some = [name for name, count in refused.items() if count > 0]
    none = [name for name, count in refused.items() if count == 0]
    said = []
    if some:
        said.append(f"In {listed(some)} a client whose message no worker could take was told so. "
                    "--saturation chooses what happens instead.")
    if none:
        said.append(f"In {listed(none)} no message was refused in this run.")
    return " ".join(said)


def overload(served, generator):
    """What each server answered in time at twice the capacity, as parts of it, a figure for each round; and how much of
    a processor the load generator took."""
    said = [f"The load generator took at most {generator:.0%} of a processor" +
            ("." if generator < 0.1 else ", which is too much for these figures.")]
    goes_on = [name for name, parts in served.items() if min(parts) >= 0.7 and len(parts) > 1]
    breaks = [name for name, parts in served.items() if max(parts) <= 0.3 and len(parts) > 1]
    if goes_on:
        least = min(min(served[name]) for name in goes_on)
        said.append(f"Offered twice the capacity, these still answered at least {least:.0%} of it in time, in every round: "
                    f"{'; '.join(goes_on)}.")
    if breaks:
        most = max(max(served[name]) for name in breaks)
        said.append(f"These answered at most {most:.0%} of it in time: {'; '.join(breaks)}.")
    return " ".join(said)


BOUND_ERROR = 0.05  # of a ratio


def processors(ratios, count, spread):
    """What a message costs with more dispatchers, each on a processor of its own, beside one: a ratio for each pair.
    `spread` is how far the pairs may lie apart."""
    if not ratios or max(ratios) - min(ratios) > spread:
        return ("The pairs lie further apart than the difference that we look for, so this machine says nothing about 4 "
                "or 16 processors. Run `make bench-processors` on one that is idle and has more of them.")
    each = max(0, sorted(ratios)[len(ratios) // 2] - 1) / (count - 1)
    cost = {n: 1 + each * (n - 1) for n in (4, 16)}
    return (f"If each further dispatcher made a message dearer by as much ({each:.1%}), it would cost {cost[4]:.2f} with 4 "
            f"and {cost[16]:.2f} with 16, so they would do the work of {4 / cost[4]:.1f} and {16 / cost[16]:.1f}. That is "
            f"drawn from {count} and not measured, and caches and memory that all processors share can only make it worse.")


def bound(errors, count):
    """How far the arithmetic of the lock is from what was measured on so many processors: of each program."""
    wrong = {name: error for name, error in errors.items() if abs(error) > BOUND_ERROR}
    if not wrong:
        return (f"On {count} processors that is right to {max(map(abs, errors.values()), default=0):.2f}, so the lock may be what "
                "bounds more of them.")
    said = "; ".join(f"{name}: {error:+.2f}" for name, error in wrong.items())
    return (f"On {count} processors that is wrong ({said}): there a message costs something that no lock explains, such as a line of "
            "cache or a wakeup that goes from one processor to another. So the columns for more of them are upper bounds.")


def beside(peer, what, ratios):
    """What programs cost beside one that people use: a ratio for each round, and no verdict on a single one."""
    less = [name for name, values in ratios.items() if len(values) > 1 and max(values) < 1]
    more = [name for name, values in ratios.items() if len(values) > 1 and min(values) > 1]
    said = [f"these cost less than {peer} in every round: {'; '.join(less)}"] if less else []
    said += [f"these cost more than {peer} in every round: {'; '.join(more)}"] if more else []
    return f"For {what}, {'. And '.join(said)}." if said else ""


def files(costs, ends):
    """Which way to send a file was the cheapest in every run, for each size; and how each way meets a shorter file."""
    said = []
    for size, ways in costs.items():
        for way, values in ways.items():
            if all(max(values) < min(other) for name, other in ways.items() if name != way):
                said.append(f"For a file of {size}, {way} was the cheapest way in every run.")
    if not said:
        said.append("No way was the cheapest in every run.")
    said.append("And when the file had been cut off: " +
                "; ".join(f"{way} {'ended by ' if end.isupper() else ''}{end}" for way, end in ends.items()) + ".")
    return " ".join(said)
