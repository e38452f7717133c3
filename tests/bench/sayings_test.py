"""Tests of sayings.py: what is said below the figures of `make demo` is what the figures show.

    usage: python3 tests/bench/sayings_test.py
"""

import unittest

import sayings
from results import STAGE_5

WORKERS = "stage 5, 8 workers"


class SlowMessages(unittest.TestCase):
    def test_one_thread_is_held_up_and_workers_are_not(self):
        said = sayings.slow_messages({"stage 1": 0.1, "stage 2": 5.2, "stage 3": 0.2,
                                      STAGE_5: 4.4})
        self.assertIn(f"In stage 2 and {STAGE_5} quick messages waited for slow ones.", said)
        self.assertIn("In stage 1 and stage 3 they did not.", said)
        self.assertIn("with workers, or a thread for each client, the other threads go on", said)

    def test_figures_that_do_not_differ(self):
        """As on a machine that has other things to do."""
        for waited in ({"stage 2": 9.7, "stage 4": 9.3, WORKERS: 7.0},
                       {"stage 2": 532.0, WORKERS: 83.9, STAGE_5: 9.4},
                       {"stage 2": 2.1, "stage 3": 1.9}):
            said = sayings.slow_messages(waited)
            self.assertIn("do not differ clearly", said)
            self.assertNotIn("did not", said)

    def test_the_reverse_of_what_is_expected_is_said(self):
        said = sayings.slow_messages({"stage 2": 0.3, WORKERS: 83.9, STAGE_5: 0.4})
        self.assertIn(f"In {WORKERS} quick messages waited for slow ones.", said)
        self.assertNotIn("with workers", said)

    def test_nobody_waited(self):
        self.assertIn("in no stage", sayings.slow_messages({"stage 2": 0.3, "stage 3": 0.2}))
        self.assertEqual(sayings.slow_messages({}), "Nothing could be measured.")


class PlainLoad(unittest.TestCase):
    def test_a_selector_is_cheaper_and_workers_are_dearer(self):
        said = sayings.plain_load({"stage 1": 10.0, "stage 2": 5.0, "stage 3": 9.0, "stage 4": 5.1})
        self.assertIn("for 50% of their CPU time", said)
        self.assertIn("costs CPU time (stage 3)", said)

    def test_no_difference(self):
        said = sayings.plain_load({"stage 1": 5.0, "stage 2": 5.0, "stage 3": 5.0})
        self.assertIn("saved no CPU time", said)
        self.assertNotIn("worker", said)

    def test_a_stage_that_is_not_there(self):
        self.assertIn("Too few", sayings.plain_load({"stage 1": 5.0}))


class SilentClients(unittest.TestCase):
    def test_threads(self):
        said = sayings.silent_clients({"stage 1": 2001, "stage 2": 1, "stage 3": 9}, 2000)
        self.assertIn("In stage 1 each client has a thread", said)
        self.assertIn("In stage 2 and stage 3 9 threads or fewer", said)

    def test_no_difference(self):
        self.assertIn("no stage differs", sayings.silent_clients({"stage 2": 900}, 2000))


class Pool(unittest.TestCase):
    def test_what_was_answered(self):
        said = sayings.full_pool({"stage 1": 4, "stage 2": 5})
        self.assertIn("as many clients as it has threads", said)
        self.assertIn("all five", said)
        said = sayings.full_pool({"stage 1": 3, "stage 2": 2})
        self.assertIn("answered 3 clients", said)
        self.assertIn("answered 2 of five", said)

    def test_what_was_refused(self):
        said = sayings.full_queue({"stage 3": 2, "stage 4": 0})
        self.assertIn("In stage 3 a client", said)
        self.assertIn("In stage 4 no message was refused", said)


class Overload(unittest.TestCase):
    def test_who_goes_on_and_who_breaks(self):
        said = sayings.overload({"stage 2": [0.02, 0.05], "abort": [0.95, 0.9], "block": [0.5, 0.9]}, 0.05)
        self.assertIn("at least 90% of it in time, in every round: abort.", said)
        self.assertIn("These answered at most 5% of it in time: stage 2.", said)
        self.assertNotIn("block", said)
        self.assertIn("at most 5% of a processor.", said)

    def test_figures_that_allow_no_verdict(self):
        self.assertNotIn("abort", sayings.overload({"abort": [0.95]}, 0.05))
        self.assertIn("too much for these figures", sayings.overload({"abort": [0.95]}, 0.2))


class RealWork(unittest.TestCase):
    def test_a_verdict_is_the_same_in_every_round(self):
        said = sayings.beside("nginx", "1 KiB", {"stage 2": [0.9, 0.95], "stage 3": [0.9, 1.1], "stage 4": [1.2, 1.1]})
        self.assertIn("For 1 KiB, these cost less than nginx in every round: stage 2. And these cost more", said)
        self.assertTrue(said.endswith("in every round: stage 4."))
        self.assertEqual(sayings.beside("nginx", "1 KiB", {"stage 3": [0.9, 1.1], "stage 4": [1.2]}), "")

    def test_ways_to_send_a_file(self):
        said = sayings.files({"1 KiB": {"read": [1, 2], "mmap": [3, 4]}, "10 MiB": {"read": [1, 3], "mmap": [2, 4]}},
                             {"read": "returns 0", "a look at the map": "SIGBUS"})
        self.assertIn("For a file of 1 KiB, read was the cheapest way in every run.", said)
        self.assertNotIn("10 MiB", said)
        self.assertIn("read returns 0; a look at the map ended by SIGBUS.", said)


class Processors(unittest.TestCase):
    def test_what_follows_for_more_processors(self):
        said = sayings.processors([1.02, 1.01, 1.03], 2, 0.05)
        self.assertIn("(2.0%), it would cost 1.06 with 4 and 1.30 with 16", said)
        self.assertIn("the work of 3.8 and 12.3", said)
        self.assertIn("cost 1.00 with 4", sayings.processors([0.97, 0.99, 1.01], 2, 0.05))

    def test_pairs_that_differ_say_nothing(self):
        self.assertIn("says nothing about 4 or 16", sayings.processors([0.9, 1.0, 1.1], 2, 0.05))

    def test_an_arithmetic_that_is_right_and_one_that_is_not(self):
        self.assertIn("right to 0.03", sayings.bound({"stage 3": 0.03, "stage 4": -0.01}, 2))
        said = sayings.bound({"stage 3": 0.31, "stage 5": 0.02}, 2)
        self.assertIn("wrong (stage 3: +0.31)", said)
        self.assertIn("upper bounds", said)


if __name__ == "__main__":
    unittest.main()
