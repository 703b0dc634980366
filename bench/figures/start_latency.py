"""From `kmirror start` to the first appended batch, on loopback, against a bare `kmirror list`.

Both are whole runs of the command line: a process, a connection, its requests. The first batch is seen in
the segment file of the standby. Topics of one small batch, one after another.
"""
import os
import statistics
import subprocess
import time

from .figure import Row, empty, show
from .cluster import Broker, Client, batch_of

NAME = "start-latency"
WHAT = "time from `start` to the first appended batch"
GOAL_SECONDS = 1.0
PATIENCE_SECONDS = 60


def first_append(standby, topic):
    path = standby.segment(topic)
    start = time.monotonic()
    command = subprocess.Popen([os.path.join(standby.binaries, "kmirror"), "--bootstrap-server", standby.address,
                                "start", "m", "--topics", topic], stdout=subprocess.DEVNULL)
    while True:
        now = time.monotonic()
        try:
            if os.path.getsize(path) > 0:
                break
        except FileNotFoundError:
            pass
        if now - start > PATIENCE_SECONDS:
            raise RuntimeError(f"{topic}: nothing was appended")
        time.sleep(0.0005)
    if command.wait() != 0:
        raise RuntimeError(f"start {topic} failed")
    return now - start


def measure(bench):
    empty(bench.data)
    source = Broker(bench.binaries, os.path.join(bench.data, "source"))
    standby = Broker(bench.binaries, os.path.join(bench.data, "standby"))
    try:
        client = Client(source)
        count = 5 if bench.quick else 20
        for number in range(count):
            client.create_topic(f"t{number}")
            client.produce(f"t{number}", 0, batch_of(1000, int(time.time() * 1000)))
        standby.cli("create", "m", "--source", source.address)
        starts, lists = [], []
        for number in range(count):
            begin = time.monotonic()
            standby.cli("list")
            lists.append(time.monotonic() - begin)
            starts.append(first_append(standby, f"t{number}"))
        show("kmirror list", lists, "s")
        show("start to first append", starts, "s")
        ratios = [ours / theirs for ours, theirs in zip(starts, lists)]
        worst = max(starts)
        return [Row(NAME, statistics.median(starts), statistics.median(lists), statistics.median(ratios),
                    min(ratios), max(ratios), f"every start < {GOAL_SECONDS} s", worst < GOAL_SECONDS, "s")]
    finally:
        source.stop()
        standby.stop()
        empty(bench.data)
