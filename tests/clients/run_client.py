#!/usr/bin/env python3
"""Runs one client library through all steps of steps.py against one server.

  run_client.py CLIENT real|kmirrord --kafka DIR [--bin DIR] [--driver COMMAND]

--kafka is the folder of a running `scripts/kafka start`: the server, or what kmirrord mirrors from.
--bin has kmirrord and kmirror. The driver comes from scripts/clients; --driver names a program that
was built with everything else. Exit codes: 0 all steps passed, 1 not, 77 this machine lacks what the
client needs (said why).
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import traceback

import steps
from driver_process import Driver, DriverDied, Unsupported

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
TIME_FACTOR = steps.TIME_FACTOR


class Failure(Exception):
    pass


def real_kafka(folder):
    """The one node of the shared Kafka."""
    lines = (folder / "bootstrap").read_text().splitlines()
    host, port = lines[0].split(",")[0].split(":")
    return steps.Server(host, int(port), (folder / "cluster.id").read_text().strip(), 1)


class Kmirrord:
    """A kmirrord of its own in a temporary folder."""

    def __init__(self, programs):
        self.programs = programs

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="kmirror-clients-")
        folder = pathlib.Path(self.folder.name)
        self.log_path = folder / "log"
        config = folder / "server.properties"
        config.write_text(f"node.id=1\nlog.dirs={folder / 'data'}\n"
                          "listeners=PLAINTEXT://127.0.0.1:0\nlog.retention.ms=-1\n"
                          "auto.create.topics.enable=false\n"
                          "mirror.metadata.refresh.interval.ms=1000\n")
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [self.programs / "kmirrord", "--config", config], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=log)
        line = self.process.stdout.readline().decode()  # an end of the process ends this too
        words = line.split()
        if words[:2] != ["kmirrord", "ready"]:
            self.__exit__()
            raise Failure(f"kmirrord did not start: {line}\n{self.log()}")
        host, port = words[2].rsplit(":", 1)
        self.server = steps.Server(host, int(port), words[4], 1)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(timeout=20 * TIME_FACTOR)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.last_log = self.log()
        self.folder.cleanup()

    def log(self):
        if not self.log_path.exists():
            return self.last_log
        return self.log_path.read_text(errors="replace")


class Mirror:
    """The kmirror command line against a kmirrord."""

    def __init__(self, programs, server, source):
        self.programs, self.server, self.source = programs, server, source

    def run(self, *args):
        command = [self.programs / "kmirror", "--bootstrap-server", self.server.bootstrap, *args]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120 * TIME_FACTOR)
        if done.returncode != 0:
            raise AssertionError(f"kmirror {' '.join(args)}: exit {done.returncode}\n"
                                 f"{done.stdout}{done.stderr}")
        return done.stdout

    def start(self, topic, end_offsets):
        """Returns when the partitions of the topic are mirrored up to these offsets."""
        self.run("create", "clients", "--source", self.source.bootstrap)
        self.run("start", "clients", "--topics", topic, "--wait", "60")

        def here():
            rows = json.loads(self.run("describe", "--json"))
            steps.equal({row["partition"]: row["destinationOffset"] for row in rows
                         if row["topic"] == topic}, end_offsets, "end offsets of the mirror")
            return True
        steps.eventually(here, "the topic is mirrored")

    def stop(self, topic):
        self.run("stop", "clients", "--topics", topic, "--wait", "60")


def expected_steps(server):
    return steps.STEPS + (steps.MIRROR_STEPS if server == "kmirrord" else [])


def run_steps(context, todo):
    """Runs the steps in order, goes on after a failure; the names of those that failed."""
    failed = []
    counts = {"ok": 0, "without": 0}
    for step in todo:
        name = step.__name__
        reason = steps.WITHOUT.get(name, {}).get(context.client)
        begin = time.monotonic()
        outcome, detail = "ok", ""
        try:
            step(context)
            if reason is not None:
                outcome, detail = "FAILED", "passed, but steps.py says it cannot: take it off"
        except Unsupported as call:
            outcome, detail = "without", reason
            if reason is None:
                outcome, detail = "FAILED", f"the driver has no {call}, steps.py does not say so"
        except DriverDied as death:
            outcome, detail = "FAILED", str(death)
        except Exception:
            outcome, detail = "FAILED", traceback.format_exc()
        took = time.monotonic() - begin
        print(f"{outcome:8}{took:6.2f} s  {name}" + (f": {detail}" if detail else ""), flush=True)
        if outcome == "FAILED":
            failed.append(name)
            if context.driver.process.poll() is not None:
                failed += [later.__name__ for later in todo[todo.index(step) + 1:]]
                break
        else:
            counts[outcome] += 1
    print(f"{counts['ok']} steps passed, {counts['without']} the library does not have, "
          f"{len(failed)} failed")
    return failed


def driver_command(client):
    """From scripts/clients, which installs and builds what is missing. None: it cannot."""
    done = subprocess.run([SOURCE / "scripts" / "clients", "command", client],
                          stdout=subprocess.PIPE, text=True)
    if done.returncode == SKIPPED:
        print(f"skipped: {done.stdout.strip()}")
        return None
    if done.returncode != 0:
        raise Failure(f"scripts/clients command {client} ended with {done.returncode}\n"
                      f"{done.stdout}")
    return json.loads(done.stdout)


def run(client, server_name, kafka, programs, command):
    source = real_kafka(kafka)
    prefix = f"{client.replace('_', '-')}-{os.getpid()}-{random.randrange(1000000)}"
    with Driver(command) as driver:
        try:
            print("driver:", *driver.call("hello")[0])
            if server_name == "real":
                context = steps.Context(driver, client, source, prefix)
                failed = run_steps(context, expected_steps(server_name))
            else:
                with Kmirrord(programs) as kmirrord:
                    mirror = Mirror(programs, kmirrord.server, source)
                    context = steps.Context(driver, client, kmirrord.server, prefix, source, mirror)
                    failed = run_steps(context, expected_steps(server_name))
                if failed:
                    print("-- end of kmirrord's log\n" + kmirrord.last_log[-6000:])
                if kmirrord.process.returncode != 0:
                    print(f"FAILED  kmirrord ended with {kmirrord.process.returncode}\n"
                          f"{kmirrord.last_log[-6000:]}")
                    failed.append("end of kmirrord")
        finally:
            if sys.exc_info()[0] is not None:
                print("-- the driver's messages\n" + driver.messages())
        if failed:
            print("-- the driver's messages\n" + driver.messages())
            print("failed:", *failed)
        return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, usage=__doc__, add_help=False)
    parser.add_argument("client")
    parser.add_argument("server", choices=["real", "kmirrord"])
    parser.add_argument("--kafka", type=pathlib.Path, required=True)
    parser.add_argument("--bin", type=pathlib.Path)
    parser.add_argument("--driver")
    args = parser.parse_args()
    if args.server == "kmirrord" and args.bin is None:
        parser.error("kmirrord needs --bin")
    try:
        command = [args.driver] if args.driver else driver_command(args.client)
        if command is None:
            return SKIPPED
        return run(args.client, args.server, args.kafka, args.bin, command)
    except (Failure, DriverDied) as failure:
        print(f"FAILED  {failure}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
