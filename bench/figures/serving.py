"""kmirrord and a real Kafka side by side, asked by the same cheap clients: what figures of serving share.

The clients are bench/consume.cc and bench/produce.cc; what counts is the CPU time of the serving process, less
what it uses while nobody asks.
"""
import os
import statistics
import subprocess
import time
from typing import NamedTuple

from .cluster import Broker, Client
from .figure import Row, empty, show
from .kafka import Kafka

GIB = 2**30


class Use(NamedTuple):
    """What one run of a client cost."""
    server: float  # CPU seconds of the serving process
    client: float  # of the client
    wall: float
    bytes: int     # of record batches
    count: int     # answers of a consumer, batches of a producer


class Side:
    """One of the two."""

    def __init__(self, name, node):
        self.name = name
        self.node = node
        self.idle = 0.0  # CPU seconds a second while nobody asks

    def measure_idle(self, seconds):
        before = self.node.cpu_seconds()
        time.sleep(seconds)
        self.idle = (self.node.cpu_seconds() - before) / seconds

    def client(self):
        return Client(self.node)

    def run(self, program, *args):
        before = self.node.cpu_seconds()
        out = subprocess.run([program, self.node.host, str(self.node.port), *map(str, args)], check=True,
                             capture_output=True, text=True, timeout=1200).stdout.split()
        used = self.node.cpu_seconds() - before
        client, wall = float(out[-2]), float(out[-1])
        return out, Use(max(used - self.idle * wall, 0.001), client, wall, 0, 0)


class Pair:
    """Both, on the disk that is measured. Deleted topics leave the disk within seconds."""

    def __init__(self, bench):
        self.bench = bench
        empty(bench.data)
        options = ["log.segment.delete.delay.ms=500"]
        self.kafka = Kafka(os.path.join(bench.data, "kafka"),
                           options=options + ["log.retention.ms=-1", "auto.create.topics.enable=false"])
        try:
            self.kmirrord = Broker(bench.binaries, os.path.join(bench.data, "kmirrord"), options)
        except BaseException:
            self.kafka.stop()
            raise
        self.ours = Side("kmirrord", self.kmirrord)
        self.theirs = Side("Kafka", self.kafka.node)

    @property
    def sides(self):
        return self.ours, self.theirs

    def measure_idle(self):
        for side in self.sides:
            side.measure_idle(1 if self.bench.quick else 4)
        print("  idle: " + ", ".join(f"{side.name} {side.idle * 100:.1f} % of a core" for side in self.sides) +
              "; subtracted", flush=True)

    def consume(self, side, topic, partitions, fetch_kib, partition_kib, mib):
        out, use = side.run(os.path.join(self.bench.binaries, "consume"), topic, partitions, fetch_kib,
                            partition_kib, mib)
        return use._replace(bytes=int(out[0]), count=int(out[1]))

    def produce(self, side, topic, partitions, batch_bytes, count, window):
        out, use = side.run(os.path.join(self.bench.binaries, "produce"), topic, partitions, batch_bytes, count,
                            window)
        return use._replace(bytes=int(out[1]), count=int(out[0]))

    def stop(self):
        self.kmirrord.stop()
        self.kafka.stop()
        empty(self.bench.data)


def in_turn(rounds, sides, measure):
    """Rounds of both sides in changing order, the first one not counted: a list of uses for each side."""
    uses = {side.name: [] for side in sides}
    for number in range(rounds + 1):
        for side in sides if number % 2 else reversed(sides):
            use = measure(side, number)
            if number > 0:
                uses[side.name].append(use)
    return [uses[side.name] for side in sides]


def row(name, sides, uses, goal, per, unit, scale=1.0):
    """Shows both sides, and gives the table's row: `per` is what of a use the CPU seconds are divided by."""
    values = []
    for side, all_of_it in zip(sides, uses):
        costs = [use.server / per(use) * scale for use in all_of_it]
        values.append(costs)
        show(f"{name}, {side.name}", costs, unit)
        rates = [use.bytes / use.wall / 1e9 for use in all_of_it]
        clients = [use.client / use.bytes * GIB for use in all_of_it]
        print(f"    {statistics.median(rates):.2f} GB/s, client {statistics.median(clients):.3f} CPU s/GiB, "
              f"{all_of_it[0].bytes / all_of_it[0].count / 1024:.1f} KiB a round trip or batch", flush=True)
    ours, theirs = values
    ratios = [b / a for a, b in zip(ours, theirs)]
    ratio = statistics.median(ratios)
    return Row(name, statistics.median(ours), statistics.median(theirs), ratio, min(ratios), max(ratios),
               f">= {goal:g}x", ratio >= goal, unit)
