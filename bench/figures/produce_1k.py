"""acks=1 produces of 1 KiB batches, kmirrord against a real, warm Kafka (see produce.py)."""
from .produce import measure_batches

NAME = "produce-1k"
WHAT = "CPU seconds a GiB, and a batch, of acks=1 produces in batches of 1 KiB, against a real Kafka"


def measure(bench):
    if bench.quick:
        return measure_batches(bench, NAME, 1024, 50000, 64)
    return measure_batches(bench, NAME, 1024, 200000, 600)
