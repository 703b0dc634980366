"""kmirrord against a follower of Kafka itself: CPU seconds for a GiB that is caught up.

Two nodes of a real Kafka. A topic of 1 GiB (15 records of 1 KiB a batch, uncompressed) is on the first alone.
Theirs: the second becomes a replica too; its CPU until it is in sync, less what it uses idle. Ours: kmirrord
mirrors the same topic; the CPU of the whole process from before the order until it has everything, idle CPU
included. Each copy is deleted after its round, and the same data are copied again.
"""
import contextlib
import os
import re
import statistics
import subprocess
import time

from .cluster import Broker, Client, batch_of_records
from .figure import Row, await_gone, empty, log_bytes, show, touch_memory
from .kafka import ORDINARY, SCRIPT, Kafka

NAME = "against-kafka-follower"
WHAT = "CPU seconds a GiB of kmirrord against a Kafka follower that catches up"
GOAL = 5
TOPIC = "t"
RECORDS, VALUE = 15, 1024
PATIENCE_SECONDS = 300
# GiB that the follower copies before the first round that counts: its compilers.
WARM, WARM_QUICK = 6, 2


class Setup:
    def __init__(self, bench, stack):
        self.cluster = Kafka(os.path.join(bench.data, "kafka"), nodes=2, options=ORDINARY)
        stack.callback(self.cluster.stop)
        # The active controller works for both nodes: it is the one that leads the topic.
        self.leader, self.follower = sorted(self.cluster.nodes,
                                            key=lambda node: node.number != controller(self.cluster))
        self.standby = Broker(bench.binaries, os.path.join(bench.data, "standby"),
                              options=["log.segment.delete.delay.ms=0"])
        stack.callback(self.standby.stop)
        self.at_leader, self.at_standby = Client(self.leader), Client(self.standby)
        self.at_leader.create_topic(TOPIC, node=self.leader.number)
        self.at_leader.wait_for_leaders(TOPIC, 1)
        batches = round(2**30 / (RECORDS * VALUE))
        self.at_leader.produce(TOPIC, 0, batch_of_records(RECORDS, VALUE, int(time.time() * 1000)), batches, window=16)
        self.end = batches * RECORDS
        self.bytes = log_bytes(os.path.dirname(self.leader.segment(TOPIC)))
        self.gib = self.end * VALUE / 2**30
        self.idle_seconds = 1.5 if bench.quick else 4
        self.standby.cli("create", "m", "--source", self.cluster.bootstrap)

    def theirs(self):
        """CPU seconds a GiB of the follower, idle subtracted; its idle CPU a second; GB/s."""
        idle_from = self.follower.cpu_seconds()
        time.sleep(self.idle_seconds)
        idle = (self.follower.cpu_seconds() - idle_from) / self.idle_seconds
        touch_memory()
        start, cpu = time.monotonic(), self.follower.cpu_seconds()
        self.at_leader.reassign(TOPIC, [self.leader.number, self.follower.number])
        self.await_replicas(lambda replicas, in_sync: len(in_sync) == 2)
        wall, cpu = time.monotonic() - start, self.follower.cpu_seconds() - cpu
        self.check(os.path.dirname(self.follower.segment(TOPIC)), "the follower")
        self.at_leader.reassign(TOPIC, [self.leader.number])
        self.await_replicas(lambda replicas, in_sync: replicas == in_sync == [self.leader.number])
        await_gone(os.path.join(self.follower.folder, "data"), TOPIC + "-")
        return (cpu - idle * wall) / self.gib, idle, self.bytes / wall / 1e9

    def ours(self):
        """CPU seconds a GiB of kmirrord; GB/s."""
        touch_memory()
        start, cpu = time.monotonic(), self.standby.cpu_seconds()
        self.standby.cli("start", "m", "--topics", TOPIC)
        self.at_standby.await_end(TOPIC, self.end, PATIENCE_SECONDS)
        wall, cpu = time.monotonic() - start, self.standby.cpu_seconds() - cpu
        self.check(os.path.dirname(self.standby.segment(TOPIC)), "kmirrord")
        self.standby.cli("stop", "m", "--topics", TOPIC, "--wait", "60")
        self.at_standby.delete_topic(TOPIC)
        await_gone(self.standby.data, TOPIC + "-")
        return cpu / self.gib, self.bytes / wall / 1e9

    def await_replicas(self, enough):
        patience = time.monotonic() + PATIENCE_SECONDS
        while not enough(*self.at_leader.replicas(TOPIC)):
            if time.monotonic() > patience:
                raise RuntimeError(f"replicas and those in sync are {self.at_leader.replicas(TOPIC)}")
            time.sleep(0.05)

    def check(self, folder, who):
        if log_bytes(folder) != self.bytes:
            raise RuntimeError(f"{who} has {log_bytes(folder)} bytes of {self.bytes}")


def controller(cluster):
    """The number of the active one."""
    done = subprocess.run([SCRIPT, "tool", "metadata-quorum", "--bootstrap-server", cluster.bootstrap, "describe",
                           "--status"], check=True, capture_output=True, text=True, timeout=120)
    return int(re.search(r"LeaderId:\s*(\d+)", done.stdout).group(1))


def measure(bench):
    empty(bench.data)
    theirs, ours = [], []
    with contextlib.ExitStack() as stack:
        setup = Setup(bench, stack)
        warming = [setup.theirs()[0] for _ in range((WARM_QUICK if bench.quick else WARM) - 1)]
        for number in range(bench.rounds + 1):
            turns = [(theirs, setup.theirs), (ours, setup.ours)]
            for values, turn in turns if number % 2 else reversed(turns):
                os.sync()
                values.append(turn())
    empty(bench.data)
    warming.append(theirs[0][0])
    del theirs[0], ours[0]  # the last of the warm-up
    follower, idle, rate = zip(*theirs)
    standby, our_rate = zip(*ours)
    print(f"  {setup.bytes / 2**20:.0f} MiB a run, as much dirty; {RECORDS} records of {VALUE} bytes a batch; warm-up "
          f"of the follower: {', '.join(f'{each:.2f}' for each in warming)} CPU s a GiB")
    show("follower, idle subtracted", follower, "CPU s a GiB")
    show("follower, idle", idle, "CPU s a second")
    show("follower, rate", rate, "GB/s")
    show("kmirrord", standby, "CPU s a GiB")
    show("kmirrord, rate", our_rate, "GB/s")
    ratios = [a / b for a, b in zip(follower, standby)]
    ratio = statistics.median(ratios)
    return [Row(NAME, statistics.median(standby), statistics.median(follower), ratio, min(ratios), max(ratios),
                f">= {GOAL}", ratio >= GOAL, "CPU s a GiB")]
