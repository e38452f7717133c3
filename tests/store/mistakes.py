#!/usr/bin/env python3
"""Wrong stores: for each task the mistakes that people make, each as a few lines on tests/store/reference.py.

  usage: tests/store/mistakes.py NAME --port N        (without a NAME: lists TASK, NAME, TEST of all)

tests/store/store_test.py shows that TEST of tests/store/grader.py catches each of them.
"""
import os
import signal
import sys
import time

import reference
from reference import READ, Store

MISTAKES = []  # task, test, class


def mistake(task, test):
    def add(kind):
        MISTAKES.append((task, test, kind))
        return kind
    return add


# ---- 1: PING ------------------------------------------------------------------------------------------

@mistake(1, "a_command_in_pieces")
class OneReadIsOneCommand(Store):
    def receive(self, client):
        client.input.clear()
        super().receive(client)


@mistake(1, "half_a_command")
class OneClientAtATime(Store):
    def turn(self, client, mask):
        client.connection.setblocking(True)
        while client in self.clients:
            super().turn(client, READ)


@mistake(1, "clients_that_leave")
class ALeaverEndsIt(Store):
    def attempt(self, client, mask):
        if client in self.clients:
            self.turn(client, mask)


@mistake(1, "a_command_that_is_none")
class ClosesForUnknownCommands(Store):
    def reply(self, client, words):
        reply = super().reply(client, words)
        if reply.startswith(b"-ERR unknown"):
            self.finish(client)
        return reply


# ---- 2: SET and GET -----------------------------------------------------------------------------------

@mistake(2, "values_are_bytes")
class ReadsLines(Store):
    def parse(self, data):
        lines = bytes(data).split(b"\r\n")
        count = 2 * self.size(lines[0][1:], 1000) + 1 if len(lines) > 1 else 1
        if len(lines) <= count:
            return [], 0
        return lines[2:count:2], sum(len(line) + 2 for line in lines[:count])


@mistake(2, "lengths_count_bytes")
class CountsCharacters(Store):
    def value(self, value):
        if value is None:
            return super().value(value)
        return b"$%d\r\n%s\r\n" % (len(value.decode("utf-8", "ignore")), value)


@mistake(2, "missing_is_not_empty")
class MissingIsEmpty(Store):
    def value(self, value):
        return super().value(value or b"")


@mistake(2, "lengths_that_nobody_means")
class BelievesEveryLength(Store):
    def size(self, digits, most):
        return int(digits)


@mistake(2, "two_hundred_with_keys")
class OneBufferForAll(Store):
    def receive(self, client):
        client.input = self.__dict__.setdefault("input", client.input)
        super().receive(client)


# ---- 3: pipelining ------------------------------------------------------------------------------------

@mistake(3, "a_thousand_in_one_write")
class OneCommandForARead(Store):
    def carry_out(self, client):
        if not self.step(client):
            client.ends = client.ends or client.at_end


@mistake(3, "one_that_reads_late")
class ForgetsWhatTheSocketDidNotTake(Store):
    def send(self, client):
        super().send(client)
        client.output.clear()


@mistake(3, "a_flood_and_a_question")
class ReadsUntilNothingComes(Store):
    def turn(self, client, mask):
        before = None
        while mask & READ and before != (client.at_end, len(client.input)) and not client.at_end:
            while self.step(client):
                pass
            before = client.at_end, len(client.input)
            self.receive(client)
        super().turn(client, 0)


# ---- 4: expiry ----------------------------------------------------------------------------------------

@mistake(4, "a_new_value_has_no_old_timer")
class TheOldTimerGoesOn(Store):
    def expire_keys(self):
        while self.heap and self.heap[0][0] <= time.monotonic():
            self.remove(self.heap.pop(0)[1])
            self.heap.sort()


@mistake(4, "gone_when_it_is_time")
class SweepsNowAndThen(Store):
    swept = 0

    def find(self, key):
        return self.data.get(key)

    def expire_keys(self):
        if time.monotonic() > self.swept + 5:
            self.swept = time.monotonic()
            super().expire_keys()


@mistake(4, "it_sleeps_until_then")
class LooksAllTheTime(Store):
    def patience(self):
        return 0 if self.heap else super().patience()


# ---- 5: BLPOP -----------------------------------------------------------------------------------------

@mistake(5, "others_go_on")
class WaitsInTheLoop(Store):
    def wait(self, client, keys, seconds):
        end = time.monotonic() + (seconds or 1 << 30)
        while time.monotonic() < end:
            time.sleep(0.01)
        return reference.NULL_ARRAY


@mistake(5, "answers_keep_their_order")
class CommandsBehindOvertake(Store):
    def may_go_on(self, client):
        return True


@mistake(5, "one_that_left_gets_nothing")
class GivesToThoseThatLeft(Store):
    def close(self, client):
        client.keys = ()
        super().close(client)


@mistake(5, "the_first_one_first")
class LastComeFirstServed(Store):
    def wait(self, client, keys, seconds):
        reply = super().wait(client, keys, seconds)
        for key in client.keys:
            self.waiting[key] = {client: True, **self.waiting[key]}
        return reply


@mistake(5, "the_first_one_first")
class ServesThoseThatWaitLater(Store):
    def carry_out(self, client):
        super().carry_out(client)
        super().serve_waiting()

    def serve_waiting(self):
        pass


# ---- 6: a subscriber that does not read ---------------------------------------------------------------

@mistake(6, "one_that_does_not_read")
class WaitsForTheSlowOne(Store):
    def deliver(self, client, message):
        client.connection.setblocking(True)
        client.connection.sendall(message)
        client.connection.setblocking(False)


@mistake(6, "one_that_never_reads")
class KeepsEverything(Store):
    def deliver(self, client, message):
        client.output += message
        self.again.add(client)


@mistake(6, "one_that_reads_late")
class SkipsWhatDoesNotFit(Store):
    def deliver(self, client, message):
        try:
            client.connection.send(message)
        except BlockingIOError:
            pass


# ---- 7: MULTI -----------------------------------------------------------------------------------------

@mistake(7, "each_has_a_queue")
class OneQueueForAll(Store):
    queue, refused = None, False

    def reply(self, client, words):
        client.queue, client.refused = self.queue, self.refused
        reply = super().reply(client, words)
        self.queue, self.refused = client.queue, client.refused
        return reply


@mistake(7, "nothing_happens_before_exec")
class RunsAtOnce(Store):
    def enqueue(self, client, words):
        queue, client.queue = client.queue, []
        queue.append(self.execute(client, words))
        client.queue = queue
        return reference.QUEUED

    def do_exec(self, client):
        if client.queue is None or client.refused:
            return super().do_exec(client)
        replies, client.queue = client.queue, None
        return reference.array(replies)


@mistake(7, "a_refused_command_spoils_it")
class ExecutesTheRest(Store):
    def do_exec(self, client):
        client.refused = False
        return super().do_exec(client)


@mistake(7, "exec_does_not_wait")
class WaitsInsideExec(Store):
    def wait(self, client, keys, seconds):
        queue, client.queue = client.queue, None
        reply = super().wait(client, keys, seconds)
        client.queue = queue
        return reply


# ---- 8: an orderly stop -------------------------------------------------------------------------------

@mistake(8, "it_ends_with_0")
class DiesOfTheSignal(Store):
    def __init__(self, port):
        super().__init__(port)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@mistake(8, "clients_that_send_are_not_reset")
class ClosesAtOnce(Store):
    def stop(self):
        os._exit(0)


@mistake(8, "one_that_stays_does_not_keep_it")
class WaitsForAll(Store):
    def stop(self):
        super().stop()
        self.stops += 1 << 20


def main():
    if len(sys.argv) == 1:
        for task, test, kind in MISTAKES:
            print(task, kind.__name__, test)
    else:
        reference.main({kind.__name__: kind for _, _, kind in MISTAKES}[sys.argv[1]])


if __name__ == "__main__":
    main()
