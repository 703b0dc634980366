"""From the source's acknowledgement to the record readable at the destination, against a bare copier.

One batch of 1 KiB at each tick; a real, warm Kafka; a fetch always waiting. Both sides note when each batch is in
their file (the mirror: appended and below the high watermark), by the clock the producer uses. Copier and mirror
take turns of equal length.
"""
import os
import statistics
import subprocess
import time

from . import mirror_kafka
from .cluster import Client, batch_of
from .figure import Row, empty
from .kafka import Kafka

NAME = "added-latency"
WHAT = "acknowledged at the source to readable at the destination, against a bare copier"
RATES = (100, 500, 2000)
SAMPLES = 10000
TURNS = 5
GOALS = {50: 1.2, 99: 1.5}


def percentile(values, percent):
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]


def latencies(acked_file, readable_file):
    """Microseconds from each acknowledgement to the first stamp that covers its offset."""
    with open(readable_file) as file:
        readable = [tuple(map(int, line.split())) for line in file]
    out, at = [], 0
    with open(acked_file) as file:
        for line in file:
            offset, _, acked = map(int, line.split())
            while readable[at][0] <= offset:
                at += 1
            out.append((readable[at][1] - acked) / 1000)
    return out


def turn(bench, node, client, name, number, rate, count):
    """One topic, one follower, `count` batches; the latencies."""
    topic = f"latency-{name}-{rate}-{number}"
    client.create_topic(topic)
    client.wait_for_leaders(topic, 1)
    client.produce(topic, 0, batch_of(1000, int(time.time() * 1000)))  # the follower is asking once this is there
    folder = os.path.join(bench.data, "work")
    os.makedirs(folder, exist_ok=True)
    empty(folder)
    stamps, acks = (os.path.join(folder, each) for each in ("stamps", "acks"))
    command = getattr(mirror_kafka, name)(bench, node, client.topic_id(topic), [count + 1], folder, stamps)
    follower = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 30
        while not os.path.exists(stamps) or os.path.getsize(stamps) == 0:
            if time.monotonic() > end or follower.poll() is not None:
                raise RuntimeError(f"{name} does not begin")
            time.sleep(0.01)
        subprocess.run([os.path.join(bench.binaries, "paced_producer"), node.host, str(node.port), topic,
                        str(rate), str(count), "1024", acks], check=True, timeout=count / rate * 3 + 60)
        if follower.wait(60) != 0:
            raise RuntimeError(f"{name} failed")
    finally:
        follower.kill()
        follower.wait()
    return latencies(acks, stamps)


def measure(bench):
    empty(bench.data)
    samples = 500 if bench.quick else SAMPLES
    turns = 2 if bench.quick else TURNS
    kafka = Kafka(os.path.join(bench.data, "source"))
    rows = []
    try:
        node = kafka.node
        client = Client(node)
        ends = mirror_kafka.fill(client, "warm", 1, 256)
        mirror_kafka.warm(bench, node, client.topic_id("warm"), ends, 256, 1 if bench.quick else 10)
        for name in ("copier", "mirror"):  # produce requests have a compiler to wait for, too
            turn(bench, node, client, name, "warm", 2000, 1000 if bench.quick else 20000)
        for rate in RATES:
            found = {"copier": [], "mirror": []}
            for number in range(turns):
                for name in sorted(found, reverse=number % 2 == 1):
                    found[name].append(turn(bench, node, client, name, number, rate, samples // turns))
            for percent, goal in GOALS.items():
                each = {name: [percentile(values, percent) for values in found[name]] for name in found}
                whole = {name: percentile(sum(found[name], []), percent) for name in found}
                ratios = [mine / theirs for mine, theirs in zip(each["mirror"], each["copier"])]
                ratio = whole["mirror"] / whole["copier"]
                rows.append(Row(f"{NAME}-{rate}-p{percent}", whole["mirror"], whole["copier"], ratio,
                                min(ratios), max(ratios), f"<= {goal}", ratio <= goal, "us"))
            print(f"  {rate} a second: " + "; ".join(
                f"{name} p50 {statistics.median(sum(found[name], [])):.0f} us" for name in found), flush=True)
        client.close()
        return rows
    finally:
        kafka.stop()
        empty(bench.data)
