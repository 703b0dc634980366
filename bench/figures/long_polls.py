"""What fetches that wait cost while nothing comes for them, and what they cost those who write elsewhere.

A thousand connections wait for records of as many partitions of one topic. Then producers write to another topic
(1 KiB batches), with nobody waiting and with all of them: the reference is the same kmirrord without the waits.
"""
import os
import statistics
import struct
import time

from .cluster import Broker, Client, string
from .figure import Row, empty, show
from .serving import Side

NAME = "long-polls"
WHAT = "CPU of kmirrord with 1,000 idle long polls, and of a produce beside them"
WAITING = 1000
WAIT_MS = 120000
GOAL_IDLE_PERCENT = 0.5
GOAL_RATIO = 1.1


def fetch_frame(client, topic, partition):
    """Fetch 11 of one partition from its start."""
    body = struct.pack(">iiiibii", -1, WAIT_MS, 1, 1 << 20, 0, 0, -1)
    body += struct.pack(">i", 1) + string(topic) + struct.pack(">i", 1)
    body += struct.pack(">iiqqi", partition, -1, 0, -1, 1 << 20)
    return client.frame(1, 11, body + struct.pack(">i", 0) + string(""))


def measure(bench):
    empty(bench.data)
    broker = Broker(bench.binaries, os.path.join(bench.data, "kmirrord"), ["log.segment.delete.delay.ms=500"])
    side = Side("kmirrord", broker)
    try:
        admin = Client(broker)
        admin.create_topic("idle", WAITING)
        batches = 30000 if bench.quick else 200000
        program = os.path.join(bench.binaries, "produce")

        def produce(name):
            admin.create_topic(name)
            _, use = side.run(program, name, 1, 1024, batches, 5)
            admin.delete_topic(name)
            os.sync()
            return use.server / batches * 1e6

        produce("warm")
        alone, beside, idle = [], [], []
        for number in range(bench.rounds):
            alone.append(produce(f"alone{number}"))
            waiting = [Client(broker) for _ in range(WAITING)]
            for partition, client in enumerate(waiting):
                client.socket.sendall(fetch_frame(client, "idle", partition))
            time.sleep(0.5)  # until all of them wait
            before, seconds = broker.cpu_seconds(), 1.0 if bench.quick else 5.0
            time.sleep(seconds)
            idle.append((broker.cpu_seconds() - before) / seconds * 100)
            beside.append(produce(f"beside{number}"))
            for client in waiting:
                client.close()
        show(f"{WAITING} waiting, nothing comes", idle, "% of a core")
        show("a produce, nobody waiting", alone, "CPU us")
        show(f"a produce, {WAITING} waiting elsewhere", beside, "CPU us")
        ratios = [b / a for a, b in zip(alone, beside)]
        ratio, percent = statistics.median(ratios), statistics.median(idle)
        return [Row(f"{NAME}: idle", percent, None, None, None, None, f"<= {GOAL_IDLE_PERCENT} %",
                    percent <= GOAL_IDLE_PERCENT, "% of a core"),
                Row(f"{NAME}: a produce beside", statistics.median(beside), statistics.median(alone), ratio,
                    min(ratios), max(ratios), f"<= {GOAL_RATIO}", ratio <= GOAL_RATIO, "CPU us")]
    finally:
        broker.stop()
        empty(bench.data)
