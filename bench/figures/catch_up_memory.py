"""Peak resident memory of a kmirrord that catches up 8 GiB, against the bound, and beside an idle kmirrord.

The bound is what R37 allows: the slabs of its fetchers (`fetch.buffer.bytes`, 8 MiB) and 64 MiB. One partition and
200, answers of at most 1 MiB and 50 MiB.
"""
import os
import time

from .cluster import Broker, Client, batch_of
from .figure import Row, empty

NAME = "catch-up-memory"
WHAT = "peak memory of kmirrord while it catches up 8 GiB"
SLAB_MIB = 8
BATCH_BYTES = 1 << 20
TOPICS = {"one": 1, "many": 200}
ANSWERS_MIB = (1, 50)


def copied(standby, topic, partitions):
    return sum(entry.stat().st_size
               for partition in range(partitions)
               for entry in os.scandir(os.path.join(standby.data, f"{topic}-{partition}"))
               if entry.name.endswith(".log"))


def catch_up(bench, source, topic, partitions, answer_mib, gib, idle_mib):
    limit = answer_mib << 20
    standby = Broker(bench.binaries, os.path.join(bench.data, f"standby-{topic}-{answer_mib}"))
    try:
        standby.cli("create", "m", "--source", source.address,
                    "--config", f"fetch.response.max.bytes={limit}",
                    "--config", f"fetch.max.bytes={limit}")
        cpu, start = standby.cpu_seconds(), time.monotonic()
        standby.cli("start", "m", "--topics", topic, "--wait", "600")
        wall, cpu = time.monotonic() - start, standby.cpu_seconds() - cpu
        peak = standby.peak_memory() / 2**20
        if (arrived := copied(standby, topic, partitions)) < gib * 2**30 * 0.99:
            raise RuntimeError(f"only {arrived} bytes arrived")
    finally:
        standby.stop()
        empty(standby.folder)
    # One source node: a fetcher for the hot partitions and one for the cold.
    bound = 2 * SLAB_MIB + 64
    print(f"  {partitions} partition(s), answers of {answer_mib} MiB: {gib} GiB in {wall:.1f} s, "
          f"{cpu / gib:.2f} CPU s a GiB of the whole process; an idle kmirrord peaks at {idle_mib:.1f} MiB", flush=True)
    return Row(f"{NAME}-{partitions}p-{answer_mib}m", peak, bound, peak / bound, None, None, f"<= {bound} MiB",
               peak <= bound, "MiB")


def measure(bench):
    empty(bench.data)
    gib = 1 if bench.quick else 8
    source = Broker(bench.binaries, os.path.join(bench.data, "source"))
    try:
        idle = source.peak_memory() / 2**20
        client = Client(source)
        batch = batch_of(BATCH_BYTES, int(time.time() * 1000))
        rows = []
        for topic, partitions in TOPICS.items():
            client.create_topic(topic, partitions)
            for partition in range(partitions):
                client.produce(topic, partition, batch, count=-(-gib * 1024 // partitions))
            for answer_mib in ANSWERS_MIB:
                rows.append(catch_up(bench, source, topic, partitions, answer_mib, gib, idle))
        client.close()
        return rows
    finally:
        source.stop()
        empty(bench.data)
