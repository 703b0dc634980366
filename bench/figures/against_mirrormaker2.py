"""kmirrord against MirrorMaker 2: CPU seconds of the destination for a GiB that is copied.

One topic of a real Kafka; MirrorMaker 2 copies it into a second real Kafka, kmirrord mirrors it. Both are paused
while the source gets another GiB (15 records of 1 KiB a batch, uncompressed), then each takes it in turn. So both
sides keep their processes, which have done a GiB before the first round that counts. Theirs is MirrorMaker 2's
process and the Kafka it writes to, counted from the first record of the round that arrives; ours is all of
kmirrord, counted from before the order to resume. Idle CPU is in both (docs/decisions/0013).
"""
import contextlib
import os
import shutil
import statistics
import time

from .cluster import Broker, Client, batch_of_records
from .figure import Row, empty, forget, log_bytes, show, touch_memory
from .kafka import ORDINARY, Kafka, Unavailable
from .mirrormaker import MirrorMaker

NAME = "against-mirrormaker2"
WHAT = "CPU seconds a GiB of kmirrord against MirrorMaker 2 and the Kafka it writes to"
GOAL = 40
TOPIC = "t"
RECORDS, VALUE = 15, 1024  # a batch of 15.3 KiB: what Kafka's producer makes of batch.size=16384
PATIENCE_SECONDS = 600


class Setup:
    """The source, both destinations, and how far they are. Everything is paused between rounds."""

    def __init__(self, bench, stack):
        self.source = started(stack, Kafka(os.path.join(bench.data, "source"), options=ORDINARY))
        self.target = started(stack, Kafka(os.path.join(bench.data, "target"), options=ORDINARY))
        self.standby = started(stack, Broker(bench.binaries, os.path.join(bench.data, "standby")))
        self.at_source, self.at_target, self.at_standby = (
            Client(each) for each in (self.source.node, self.target.node, self.standby))
        self.batch = batch_of_records(RECORDS, VALUE, int(time.time() * 1000))
        self.end = 0
        self.at_source.create_topic(TOPIC)
        self.at_source.wait_for_leaders(TOPIC, 1)
        self.fill(1)
        self.maker = started(stack, MirrorMaker(os.path.join(bench.data, "maker"), self.source.bootstrap,
                                                self.target.bootstrap, [TOPIC]))
        self.at_target.await_end(TOPIC, self.end, seconds=60)
        self.maker.pause()
        self.standby.cli("create", "m", "--source", self.source.bootstrap)
        self.standby.cli("start", "m", "--topics", TOPIC, "--wait", "60")
        self.hold_standby()

    def fill(self, batches):
        self.at_source.produce(TOPIC, 0, self.batch, batches, window=16)
        self.end += batches * RECORDS

    def hold_standby(self):
        self.standby.cli("pause", "m", "--topics", TOPIC, "--wait", "60")

    def theirs(self):
        """CPU seconds a GiB of MirrorMaker 2, of the Kafka it writes to, and of the source; GB/s."""
        processes = (self.maker, self.target.node, self.source.node)
        before = self.at_target.end_offset(TOPIC)
        touch_memory()
        self.maker.resume()
        first = self.at_target.await_end(TOPIC, before + 1, PATIENCE_SECONDS)
        start, cpu = time.monotonic(), [each.cpu_seconds() for each in processes]
        self.at_target.await_end(TOPIC, self.end, PATIENCE_SECONDS, pause=0.1)
        cpu = [each.cpu_seconds() - so_far for each, so_far in zip(processes, cpu)]
        wall = time.monotonic() - start
        self.maker.pause()
        if self.at_target.end_offset(TOPIC) != self.end:
            raise RuntimeError("MirrorMaker 2 copied more than there was")
        size = (self.end - first) * VALUE
        return [each / (size / 2**30) for each in cpu] + [size / wall / 1e9]

    def ours(self):
        """CPU seconds a GiB of kmirrord and of the source; GB/s."""
        processes = (self.standby, self.source.node)
        before = self.at_standby.end_offset(TOPIC)
        touch_memory()
        start, cpu = time.monotonic(), [each.cpu_seconds() for each in processes]
        self.standby.cli("resume", "m", "--topics", TOPIC)
        self.at_standby.await_end(TOPIC, self.end, PATIENCE_SECONDS)
        cpu = [each.cpu_seconds() - so_far for each, so_far in zip(processes, cpu)]
        wall = time.monotonic() - start
        self.hold_standby()
        folders = self.folders()
        if log_bytes(folders["standby"]) != log_bytes(folders["source"]):
            raise RuntimeError("kmirrord's log is not as long as the source's")
        size = (self.end - before) * VALUE
        return [each / (size / 2**30) for each in cpu] + [size / wall / 1e9]

    def idle(self, seconds):
        """CPU seconds a second of their side and of ours while nothing is copied."""
        processes = (self.maker, self.target.node, self.standby)
        cpu = [each.cpu_seconds() for each in processes]
        time.sleep(seconds)
        maker, target, standby = ((each.cpu_seconds() - so_far) / seconds
                                  for each, so_far in zip(processes, cpu))
        return maker + target, standby

    def folders(self):
        return {"source": os.path.dirname(self.source.node.segment(TOPIC)),
                "target": os.path.dirname(self.target.node.segment(TOPIC)),
                "standby": os.path.dirname(self.standby.segment(TOPIC))}

    def forget(self):
        for folder in self.folders().values():
            forget(folder)


def started(stack, thing):
    stack.callback(thing.stop)
    return thing


def measure(bench):
    empty(bench.data)
    mib = 512 if bench.quick else 1024
    needed = 3 * (bench.rounds + 1) * mib / 1024 + 4
    if shutil.disk_usage(bench.data).free < needed * 2**30:
        raise Unavailable(f"it needs {needed:.0f} GiB of disk")
    theirs, ours = [], []
    with contextlib.ExitStack() as stack:
        setup = Setup(bench, stack)
        for number in range(bench.rounds + 1):
            setup.fill(round(mib * 2**20 / (RECORDS * VALUE)))
            turns = [(theirs, setup.theirs), (ours, setup.ours)]
            for values, turn in turns if number % 2 else reversed(turns):
                os.sync()
                values.append(turn())
            setup.forget()
        idle_theirs, idle_ours = setup.idle(2 if bench.quick else 10)
    empty(bench.data)
    del theirs[0], ours[0]  # the warm-up
    maker, target, source, rate = zip(*theirs)
    standby, source_for_us, our_rate = zip(*ours)
    both = [a + b for a, b in zip(maker, target)]
    print(f"  {mib} MiB of records a run, as much dirty; {RECORDS} records of {VALUE} bytes a batch")
    show("MirrorMaker 2's process", maker, "CPU s a GiB")
    show("the Kafka it writes to", target, "CPU s a GiB")
    show("its source", source, "CPU s a GiB")
    show("MirrorMaker 2, rate", rate, "GB/s")
    show("kmirrord", standby, "CPU s a GiB")
    show("its source", source_for_us, "CPU s a GiB")
    show("kmirrord, rate", our_rate, "GB/s")
    # A GiB takes 1.07 / rate seconds, and an idle process is not free for as long.
    net = statistics.median((a - idle_theirs * 1.073741824 / r) / b for a, r, b in zip(both, rate, standby))
    print(f"  idle: theirs {idle_theirs:.3f}, kmirrord {idle_ours:.3f} CPU s a second; "
          f"with theirs subtracted the ratio would be {net:.1f}")
    ratios = [a / b for a, b in zip(both, standby)]
    ratio = statistics.median(ratios)
    return [Row(NAME, statistics.median(standby), statistics.median(both), ratio, min(ratios), max(ratios),
                f">= {GOAL}", ratio >= GOAL, "CPU s a GiB")]
