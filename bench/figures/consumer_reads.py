"""CPU of kmirrord a GiB of a mirrored topic that consumers read, against the Kafka it was mirrored from.

Both serve the same bytes (16 KiB batches) from the page cache to the same consumer, one fetch at a time. A row a
shape: answers of 64 KiB, 1 and 10 MiB, one partition and eight. Kafka is warm: its compilers have seen 20 GiB of
fetches (--quick: 3, and it is still slow).

Both send with sendfile, so both pay what the system's network path costs. The last rows compare kmirrord with a
bare loop that does nothing else (bench/send_ways.cc): no broker can be cheaper on loopback.
"""
import os
import re
import subprocess

from .figure import Row, touch_memory
from .serving import GIB, Pair, in_turn, row

NAME = "consumer-reads"
WHAT = "CPU seconds a GiB of consumer reads, kmirrord against the real Kafka it mirrors"
GOAL = 3
BATCH = 16384
# Name, topic, partitions, KiB an answer, KiB a partition of it, part of a run's bytes.
SHAPES = [("1 partition, 64 KiB", "one", 1, 64, 64, 8),
          ("1 partition, 1 MiB", "one", 1, 1024, 1024, 1),
          ("1 partition, 10 MiB", "one", 1, 10240, 10240, 1),
          ("8 partitions, 1 MiB each", "eight", 8, 10240, 1024, 1),
          ("8 partitions, 10 MiB", "eight", 8, 10240, 10240, 1)]
LIMITED = {"1 partition, 64 KiB": 64, "1 partition, 1 MiB": 1024, "1 partition, 10 MiB": 10240}  # with the bare loop


def bare_loop(bench, file, answer_kib, mib):
    """Median, least and greatest CPU seconds a GiB of a process that only sends answers of that size, in the
    better of two ways: sendfile, or reading into memory and sending that."""
    rounds = max(3, bench.rounds)
    out = subprocess.run([os.path.join(bench.binaries, "send_ways"), file, str(answer_kib), "2048", str(mib),
                          str(rounds), "sendfile", "read"],
                         check=True, capture_output=True, text=True, timeout=600).stdout
    return min([float(number) for number in each]
               for each in re.findall(r"sender ([\d.]+) \[([\d.]+) \.\. ([\d.]+)\]", out))


def measure(bench):
    mib = 512 if bench.quick else 3072
    warm_gib = 3 if bench.quick else 20
    pair = Pair(bench)
    try:
        client = pair.theirs.client()
        for topic, partitions in (("one", 1), ("eight", 8)):
            client.create_topic(topic, partitions)
            touch_memory()
            size = 512 if bench.quick else 1000
            pair.produce(pair.theirs, topic, partitions, BATCH, size * 64, 16)
        client.close()
        pair.kmirrord.cli("create", "m", "--source", pair.kafka.bootstrap)
        pair.kmirrord.cli("start", "m", "--topics", "one,eight", "--wait", "600")
        # Kafka and its copy, and nothing between them meanwhile.
        pair.kmirrord.cli("pause", "m", "--topics", "one,eight", "--wait", "60")
        os.sync()
        for _, topic, partitions, fetch, partition, part in SHAPES:
            pair.consume(pair.theirs, topic, partitions, fetch, partition, warm_gib * 256 // part)
        print(f"  {BATCH} bytes a batch, {mib} MiB a run, Kafka warmed with {warm_gib} GiB of fetches", flush=True)
        pair.measure_idle()
        rows = []
        for name, topic, partitions, fetch, partition, part in SHAPES:
            uses = in_turn(bench.rounds, pair.sides,
                           lambda side, _: pair.consume(side, topic, partitions, fetch, partition, mib // part))
            shape = row(f"{NAME}: {name}", pair.sides, uses, GOAL, lambda use: use.bytes / GIB, "CPU s/GiB")
            rows.append(shape)
            if name not in LIMITED:
                continue
            bare, least, greatest = bare_loop(bench, pair.kmirrord.segment("one"), LIMITED[name], mib)
            rows.append(Row(f"{shape.figure}, the limit", shape.ours, bare, bare / shape.ours, least / shape.ours,
                            greatest / shape.ours, "a bare loop", None, "CPU s/GiB"))
        return rows
    finally:
        pair.stop()
