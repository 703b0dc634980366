"""CPU seconds a GiB of a fetcher that mirrors from a real, warm Kafka, against a bare copier from that Kafka.

Batches of 16 KiB, answers of up to 10 MiB, one partition and eight; 1 GiB a run, written to new files by both
(bench/reference/kafka_copier.cc, frozen).
"""
import os
import statistics
import subprocess
import time

from .cluster import Client, batch_of
from .figure import Row, empty, show
from .kafka import Kafka
from .mirror_by_batch import rounds_of

NAME = "mirror-kafka"
WHAT = "CPU seconds a GiB of the fetcher's thread, from a real Kafka, against a bare copier"
GOAL = 0.8
ANSWER_BYTES = 10 << 20
WARM_GIB = 20


def fill(client, topic, partitions, mib):
    """16 KiB batches of one record; the end offset of each partition."""
    client.create_topic(topic, partitions)
    client.wait_for_leaders(topic, partitions)
    batch = batch_of(16 << 10, int(time.time() * 1000))
    count = mib * 64 // partitions
    for partition in range(partitions):
        client.produce(topic, partition, batch, count)
    return [count] * partitions


def copier(bench, node, topic_id, ends, folder, stamps=None):
    command = [os.path.join(bench.binaries, "kafka_copier"), node.host, str(node.port), topic_id,
               ",".join(map(str, ends)), str(ANSWER_BYTES), folder]
    return command + ([stamps] if stamps else [])


def mirror(bench, node, topic_id, ends, folder, stamps=None):
    return [os.path.join(bench.binaries, "mirror_fetch")] + \
        copier(bench, node, topic_id, ends, folder, stamps)[1:]


def warm(bench, node, topic_id, ends, mib, gib):
    """Until Kafka's compilers are done: before that its own work hides in what is measured here."""
    print(f"  warming Kafka with {gib} GiB of fetches", flush=True)
    for _ in range(gib * 1024 // mib):
        subprocess.run(copier(bench, node, topic_id, ends, "-"), check=True, capture_output=True, timeout=300)


def measure(bench):
    mib = 256 if bench.quick else 1024
    empty(bench.data)
    source = os.path.join(bench.data, "source")
    work = os.path.join(bench.data, "work")
    os.mkdir(work)
    kafka = Kafka(source)
    rows = []
    try:
        node = kafka.node
        client = Client(node)
        for number, partitions in enumerate((1, 8)):
            topic = f"bench-{partitions}"
            ends = fill(client, topic, partitions, mib)
            topic_id = client.topic_id(topic)
            if number == 0:
                warm(bench, node, topic_id, ends, mib, 2 if bench.quick else WARM_GIB)
            found = rounds_of({"copier": copier(bench, node, topic_id, ends, work),
                               "mirror": mirror(bench, node, topic_id, ends, work)},
                              bench._replace(data=work))
            costs = {name: [cpu / size * 2**30 for size, cpu in found[name]] for name in found}
            for name in costs:
                show(f"{name}, {partitions} partition(s)", costs[name], "CPU s a GiB")
            # Of speeds, as everywhere: above 1 is faster than the copier.
            ratios = [theirs / ours for ours, theirs in zip(costs["mirror"], costs["copier"])]
            ratio = statistics.median(ratios)
            rows.append(Row(f"{NAME}-{partitions}", statistics.median(costs["mirror"]),
                            statistics.median(costs["copier"]), ratio, min(ratios), max(ratios),
                            f">= {GOAL}", ratio >= GOAL, "CPU s a GiB"))
        client.close()
        return rows
    finally:
        kafka.stop()
        empty(bench.data)
