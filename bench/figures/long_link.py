"""Throughput over a link of 100 ms round trip and 1 Gbit/s, against the same link without delay.

The source and the standby are kmirrords in two network namespaces; the link between them is bench/link_delay.cc:
real TCP, real windows, packets held for 50 ms each way. The rate is taken between a quarter and three quarters of
the bytes: TCP's slow start and the start of the mirror do not count, nor does the end, when some of several
partitions have nothing left to copy. What an operator of such a link sets is set here as well
(docs/operations.md, "Over a long link").
"""
import os
import random
import statistics
import time

from .cluster import Broker, Client, batch_of
from .figure import Row, empty, show
from .link import Link, inside

NAME = "long-link"
WHAT = "throughput over 100 ms round trip and 1 Gbit/s against the same without delay"
ROUND_TRIP = 0.1
RATE_MBIT = 1000
LINE_RATE = RATE_MBIT * 1e6 / 8 * 1448 / 1538  # of data: what Ethernet, IP and TCP leave of 1,538 bytes
ANSWER_BYTES = 57671680  # the most that a Kafka answers (its fetch.max.bytes)
SETTINGS = [f"fetch.response.max.bytes={ANSWER_BYTES}", f"fetch.max.bytes={ANSWER_BYTES}"]
CASES = [("one partition", 1, 1, 0.8), ("four partitions", 4, 2, 0.95)]
PATIENCE_SECONDS = 300


def stored(standby, topic, partitions):
    total = 0
    for partition in range(partitions):
        folder = os.path.dirname(standby.segment(topic, partition))
        try:
            total += sum(entry.stat().st_size for entry in os.scandir(folder) if entry.name.endswith(".log"))
        except FileNotFoundError:
            pass
    return total


def rate(bench, link, source, topic, partitions, fetchers, size):
    """Bytes a second into a fresh standby: in the middle, and of the whole copy."""
    folder = os.path.join(bench.data, "standby")
    with inside(link.right.namespace):
        standby = Broker(bench.binaries, folder, [f"mirror.num.replica.fetchers={fetchers}"],
                         host=link.right.address)
        try:
            settings = [word for setting in SETTINGS for word in ("--config", setting)]
            standby.cli("create", "m", "--source", source.address, *settings)
            start = time.monotonic()
            standby.cli("start", "m", "--topics", topic)
            begin, first, middle = None, 0, None
            deadline = time.monotonic() + PATIENCE_SECONDS
            while True:
                time.sleep(0.005)
                now, have = time.monotonic(), stored(standby, topic, partitions)
                if begin is None and have >= size / 4:
                    begin, first = now, have
                if middle is None and have >= size * 3 / 4:
                    middle = (have - first) / (now - begin)
                if have >= size:
                    return middle, size / (now - start)
                if now > deadline:
                    raise RuntimeError(f"{topic}: {have} of {size} bytes after {PATIENCE_SECONDS} s")
        finally:
            standby.stop()
            empty_folder(folder)


def empty_folder(folder):
    empty(folder)
    os.rmdir(folder)


def measure(bench):
    empty(bench.data)
    link = Link(bench.binaries, RATE_MBIT)
    source = None
    rows = []
    try:
        with inside(link.left.namespace):
            source = Broker(bench.binaries, os.path.join(bench.data, "source"), host=link.left.address)
            client = Client(source)
            batch = batch_of(1 << 20, int(time.time() * 1000))
            batches = 800 if bench.quick else 1600
            for _, partitions, _, _ in CASES:
                client.create_topic(f"p{partitions}", partitions)
                for partition in range(partitions):
                    client.produce(f"p{partitions}", partition, batch, batches // partitions)
            client.close()
        print(f"  this machine's tcp_rmem ends at {link.maxima[0]}, tcp_wmem at {link.maxima[1]} bytes; "
              "the link has room for 64 MiB")
        rounds = 1 if bench.quick else 5
        for name, partitions, fetchers, goal in CASES:
            size = batches // partitions * partitions * len(batch)
            rates, whole = {0: [], ROUND_TRIP: []}, {0: [], ROUND_TRIP: []}
            for number in range(rounds):
                order = list(rates)
                random.Random(number).shuffle(order)
                for round_trip in order:
                    link.set_delay(round_trip / 2)
                    middle, all_of_it = rate(bench, link, source, f"p{partitions}", partitions, fetchers, size)
                    rates[round_trip].append(middle / 1e6)
                    whole[round_trip].append(all_of_it / 1e6)
            show(f"{name}, no delay", rates[0], "MB/s")
            show(f"{name}, {ROUND_TRIP * 1000:.0f} ms", rates[ROUND_TRIP], "MB/s")
            show("the same from start to end", whole[ROUND_TRIP], "MB/s")
            bare = statistics.median(rates[0])
            if partitions == 1:
                # The next offset is known when an answer has come: the link rests for a round trip.
                bound = ANSWER_BYTES / (ANSWER_BYTES / LINE_RATE + ROUND_TRIP)
                print(f"  bound of one partition: {bound / 1e6:.1f} MB/s, {bound / LINE_RATE:.3f} of the line's "
                      f"{LINE_RATE / 1e6:.1f} (an answer of {ANSWER_BYTES} bytes, then a round trip)")
            ratios = [far / near for far, near in zip(rates[ROUND_TRIP], rates[0])]
            ratio = statistics.median(ratios)
            rows.append(Row(f"{NAME}, {name}", statistics.median(rates[ROUND_TRIP]), bare, ratio, min(ratios),
                            max(ratios), f">= {goal}", ratio >= goal, "MB/s"))
        return rows
    finally:
        if source is not None:
            source.stop()
        dropped = link.stop()
        print(f"  packets dropped on the link: {dropped}")
        empty(bench.data)
