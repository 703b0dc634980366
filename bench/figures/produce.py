"""CPU of kmirrord for acks=1 produces, against a real, warm Kafka: what `produce-16k` and `produce-1k` share.

One connection, one prepared batch a request, five requests on the way (what Java's producer does), one partition,
records of 1 KiB without compression. Every run has a new topic, deleted and written back afterwards: dirty pages
stay below what makes the kernel write while it is measured.
"""
import os

from .figure import touch_memory
from .serving import GIB, Pair, in_turn, row

GOAL = 3
WINDOW = 5


def measure_batches(bench, name, batch_bytes, count, warm_mib):
    pair = Pair(bench)
    try:
        def one_run(side, topic, batches):
            client = side.client()
            client.create_topic(topic)
            touch_memory(batches * batch_bytes + (256 << 20))
            use = pair.produce(side, topic, 1, batch_bytes, batches, WINDOW)
            client.delete_topic(topic)
            client.close()
            os.sync()
            return use

        left, number = warm_mib, 0
        while left > 0:
            part = min(left, 1000)
            one_run(pair.theirs, f"warm{number}", (part << 20) // batch_bytes)
            left, number = left - part, number + 1
        print(f"  {batch_bytes} bytes a batch, {count * batch_bytes >> 20} MiB a run, {WINDOW} on the way, "
              f"Kafka warmed with {warm_mib} MiB of produces", flush=True)
        pair.measure_idle()
        uses = in_turn(bench.rounds, pair.sides, lambda side, number: one_run(side, f"t{number}", count))
        rows = [row(name, pair.sides, uses, GOAL, lambda use: use.bytes / GIB, "CPU s/GiB"),
                row(f"{name}: a batch", pair.sides, uses, GOAL, lambda use: use.count, "CPU us", 1e6)]
        return rows
    finally:
        pair.stop()
