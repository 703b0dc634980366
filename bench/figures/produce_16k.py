"""acks=1 produces of 16 KiB batches, kmirrord against a real, warm Kafka (see produce.py)."""
from .produce import measure_batches

NAME = "produce-16k"
WHAT = "CPU seconds a GiB of acks=1 produces in batches of 16 KiB, against a real Kafka"


def measure(bench):
    if bench.quick:
        return measure_batches(bench, NAME, 16384, 16384, 512)[:1]
    return measure_batches(bench, NAME, 16384, 64000, 4000)[:1]
