#!/usr/bin/env python3
"""The runner must not be fooled: each driver below lies in one way and must fail."""
import io
import contextlib
import sys
import tempfile
import unittest

import run_client
import steps
from driver_process import (Driver, DriverDied, DriverError, Record, Unsupported, decode_record,
                            encode_record)

FAKE = """
import sys
for line in sys.stdin:
    verb = line.rstrip("\\n").split("\\t")[0]
    if verb == "die":
        sys.exit(3)
    print({"echo": "row\\t" + line.rstrip("\\n").partition("\\t")[2] + "\\nok",
           "refuse": "error\\t42\\tno", "own": "error\\tTimeout\\tlate",
           "skip": "unsupported", "lie": "well done"}.get(verb, "ok"), flush=True)
"""


def fake_driver():
    return Driver([sys.executable, "-c", FAKE])


def step(call, name="a_step"):
    def one(t):
        call(t)
    one.__name__ = name
    return one


class RunStepsTest(unittest.TestCase):
    def run_steps(self, *todo, without=None):
        server = steps.Server("127.0.0.1", 1, "id", 1)
        before = dict(steps.WITHOUT)
        steps.WITHOUT.update(without or {})
        try:
            with fake_driver() as driver, contextlib.redirect_stdout(io.StringIO()) as out:
                context = steps.Context(driver, "lib", server, "p")
                return run_client.run_steps(context, list(todo)), out.getvalue()
        finally:
            steps.WITHOUT.clear()
            steps.WITHOUT.update(before)

    def test_a_step_that_passes(self):
        failed, out = self.run_steps(step(lambda t: steps.equal(t.call("echo", "x"), [["x"]])))
        self.assertEqual(failed, [])
        self.assertIn("1 steps passed", out)

    def test_a_call_left_out_fails(self):
        failed, _ = self.run_steps(step(lambda t: t.call("skip")))
        self.assertEqual(failed, ["a_step"])

    def test_a_call_left_out_with_a_reason_is_counted(self):
        failed, out = self.run_steps(step(lambda t: t.call("skip")),
                                     without={"a_step": {"lib": "it is old"}})
        self.assertEqual(failed, [])
        self.assertIn("it is old", out)
        self.assertIn("0 steps passed, 1 the library does not have", out)

    def test_a_reason_that_is_not_true_any_more_fails(self):
        failed, _ = self.run_steps(step(lambda t: t.call("echo")),
                                   without={"a_step": {"lib": "it is old"}})
        self.assertEqual(failed, ["a_step"])

    def test_an_error_fails_and_the_next_step_runs(self):
        failed, _ = self.run_steps(step(lambda t: t.call("refuse"), "first"),
                                   step(lambda t: t.call("echo"), "second"))
        self.assertEqual(failed, ["first"])

    def test_a_driver_that_dies_fails_this_and_all_later_steps(self):
        failed, _ = self.run_steps(step(lambda t: t.call("die"), "first"),
                                   step(lambda t: t.call("echo"), "second"))
        self.assertEqual(failed, ["first", "second"])

    def test_an_answer_that_is_none_fails(self):
        failed, _ = self.run_steps(step(lambda t: t.call("lie")))
        self.assertEqual(failed, ["a_step"])


class StepsTest(unittest.TestCase):
    def test_names_are_unique_and_reasons_belong_to_steps(self):
        names = [one.__name__ for one in steps.STEPS + steps.MIRROR_STEPS]
        self.assertEqual(len(names), len(set(names)))
        self.assertLessEqual(set(steps.WITHOUT), set(names))
        self.assertTrue(all(one.__doc__ for one in steps.STEPS + steps.MIRROR_STEPS))

    def test_every_step_is_in_a_list(self):
        listed = {one.__name__ for one in steps.STEPS + steps.MIRROR_STEPS}
        with open(steps.__file__, encoding="utf-8") as file:
            defined = {line[4:line.index("(")] for line in file
                       if line.startswith("def ") and line.rstrip().endswith("(t):")}
        self.assertLessEqual(defined, listed)

    def test_an_expected_error_must_come_and_be_that_one(self):
        with fake_driver() as driver:
            steps.fails(42, driver.call, "refuse")
            with self.assertRaises(AssertionError):
                steps.fails(41, driver.call, "refuse")
            with self.assertRaises(AssertionError):
                steps.fails(42, driver.call, "echo")
            with self.assertRaises(AssertionError):
                steps.fails(42, driver.call, "own")

    def test_records_that_differ_in_one_field_are_not_the_same(self):
        wrote = steps.numbered(3)
        read = [steps.Read(i, 0, record) for i, record in enumerate(wrote)]
        steps.same_records(read, wrote)
        for i, changed in enumerate((
                read[0]._replace(offset=7), read[1]._replace(timestamp_type=1),
                read[2]._replace(record=wrote[2]._replace(key=None)),
                read[0]._replace(record=wrote[0]._replace(value=b"")),
                read[1]._replace(record=wrote[1]._replace(headers=())),
                read[2]._replace(record=wrote[2]._replace(timestamp=1)))):
            with self.assertRaises(AssertionError):
                steps.same_records([changed if j == i % 3 else one
                                    for j, one in enumerate(read)], wrote)
        with self.assertRaises(AssertionError):
            steps.same_records(read[:2], wrote)


class DriverTest(unittest.TestCase):
    def test_answers(self):
        with fake_driver() as driver:
            self.assertEqual(driver.call("echo", "a", 1), [["a", "1"]])
            with self.assertRaises(DriverError) as raised:
                driver.call("refuse")
            self.assertEqual(raised.exception.code, 42)
            with self.assertRaises(DriverError) as raised:
                driver.call("own")
            self.assertEqual(raised.exception.code, "Timeout")
            with self.assertRaises(Unsupported):
                driver.call("skip")
            with self.assertRaises(DriverDied):
                driver.call("die")

    def test_records_survive_the_line(self):
        for record in (*steps.shapes(), Record(None, None), Record(b"\t\n;~", b"~", (("~", None),)),
                       Record(b"", b"", (("", b""), (",:;=", b"\xff")), -1)):
            self.assertEqual(decode_record(encode_record(record)), record)


class SkipTest(unittest.TestCase):
    def test_what_the_machine_lacks_is_a_skip_with_its_reason(self):
        with tempfile.TemporaryDirectory() as folder, \
                contextlib.redirect_stdout(io.StringIO()) as out:
            tool = run_client.pathlib.Path(folder) / "scripts" / "clients"
            tool.parent.mkdir()
            tool.write_text("#!/bin/sh\necho no Go here\nexit 77\n")
            tool.chmod(0o755)
            before, run_client.SOURCE = run_client.SOURCE, run_client.pathlib.Path(folder)
            try:
                self.assertIsNone(run_client.driver_command("franz_go"))
            finally:
                run_client.SOURCE = before
        self.assertEqual(out.getvalue(), "skipped: no Go here\n")


if __name__ == "__main__":
    unittest.main()
