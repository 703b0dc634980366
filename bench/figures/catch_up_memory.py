"""Peak resident memory of a kmirrord that catches up 8 GiB, against the bound and an idle kmirrord.

The bound is what R37 allows: the slabs of its fetchers (`fetch.buffer.bytes`, 8 MiB) and 64 MiB.
"""
import os
import time

from .figure import Row, empty
from .cluster import Broker, Client, batch_of

NAME = "catch-up-memory"
WHAT = "peak memory of kmirrord while it catches up 8 GiB"
SLAB_MIB = 8


def measure(bench):
    empty(bench.data)
    gib = 1 if bench.quick else 8
    source = Broker(bench.binaries, os.path.join(bench.data, "source"))
    idle = Broker(bench.binaries, os.path.join(bench.data, "idle"))
    standby = Broker(bench.binaries, os.path.join(bench.data, "standby"))
    try:
        client = Client(source)
        client.create_topic("t")
        client.produce("t", 0, batch_of(1 << 20, int(time.time() * 1000)), count=gib * 1024)
        client.close()
        standby.cli("create", "m", "--source", source.address)
        cpu, start = standby.cpu_seconds(), time.monotonic()
        standby.cli("start", "m", "--topics", "t", "--wait", "600")
        wall, cpu = time.monotonic() - start, standby.cpu_seconds() - cpu
        peak, base = standby.peak_memory() / 2**20, idle.peak_memory() / 2**20
        copied = sum(os.path.getsize(os.path.join(standby.data, "t-0", name))
                     for name in os.listdir(os.path.join(standby.data, "t-0")) if name.endswith(".log"))
        if copied < gib * 2**30 * 0.99:
            raise RuntimeError(f"only {copied} bytes arrived")
        # One source node: one fetcher for the hot partitions and one for the cold.
        bound = 2 * SLAB_MIB + 64
        print(f"  {gib} GiB in {wall:.1f} s, {cpu / gib:.2f} CPU s a GiB of the whole process; "
              f"an idle kmirrord peaks at {base:.1f} MiB")
        return [Row(NAME, peak, bound, peak / bound, None, None, f"<= {bound} MiB", peak <= bound, "MiB")]
    finally:
        for broker in (source, idle, standby):
            broker.stop()
        empty(bench.data)
