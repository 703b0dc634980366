#!/usr/bin/env python3
"""Waiting for MirrorMaker 2: only what its worker says counts. A small HTTP server stands in for the worker."""
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
from figures import mirrormaker  # noqa: E402


class Worker(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        answers = self.server.answers
        code, body = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response(code)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def do_PUT(self):
        self.server.asked.append(self.path)
        self.send_response(202)
        self.end_headers()

    def log_message(self, *args):
        pass


def status(connector, *tasks):
    return 200, {"connector": {"state": connector}, "tasks": [{"state": state, "trace": "why"} for state in tasks]}


class MirrorMakerTest(unittest.TestCase):
    def setUp(self):
        self.worker = http.server.HTTPServer(("127.0.0.1", 0), Worker)
        self.worker.asked = []
        thread = threading.Thread(target=self.worker.serve_forever, args=(0.01,))
        thread.start()
        self.addCleanup(lambda: (self.worker.shutdown(), thread.join(), self.worker.server_close()))
        self.log = tempfile.NamedTemporaryFile("w", suffix=".log")
        self.addCleanup(self.log.close)
        self.log.write("last words")
        self.log.flush()

    def maker(self, *answers, command="read line"):
        """One whose process is a shell that waits for its standard input."""
        self.worker.answers = list(answers)
        maker = mirrormaker.MirrorMaker.__new__(mirrormaker.MirrorMaker)
        maker.port = self.worker.server_address[1]
        maker.log_path = self.log.name
        maker.process = subprocess.Popen(["sh", "-c", command], stdin=subprocess.PIPE)
        self.addCleanup(lambda: (maker.process.stdin.close(), maker.process.wait()))
        return maker

    def test_it_runs_when_the_connector_and_a_task_do(self):
        maker = self.maker((404, {}), status("RUNNING"), status("RUNNING", "UNASSIGNED"), status("RUNNING", "RUNNING"))
        maker.await_state("RUNNING")
        self.assertEqual(len(self.worker.answers), 1)

    def test_a_pause_is_over_when_every_task_holds(self):
        maker = self.maker(status("PAUSED", "RUNNING", "PAUSED"), status("PAUSED", "PAUSED", "PAUSED"))
        maker.pause()
        self.assertEqual(self.worker.asked, ["/connectors/mirror/pause"])
        self.assertEqual(len(self.worker.answers), 1)

    def test_a_failed_task_says_why(self):
        maker = self.maker(status("RUNNING", "FAILED"))
        with self.assertRaisesRegex(RuntimeError, "why"):
            maker.await_state("RUNNING")

    def test_a_process_that_is_gone_is_no_reason_to_wait(self):
        maker = self.maker((404, {}), command="exit 3")
        with self.assertRaisesRegex(RuntimeError, "ended with 3: last words"):
            maker.await_state("RUNNING")

    def test_waiting_ends(self):
        maker = self.maker(status("RUNNING"))
        with self.assertRaisesRegex(RuntimeError, "RUNNING.*last words"):
            maker.await_state("RUNNING", seconds=0.1)


if __name__ == "__main__":
    unittest.main()
