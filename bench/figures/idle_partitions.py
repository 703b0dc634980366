"""What many mirrored partitions without data cost: us, the busy partition beside them, and their source.

50,000 partitions of four kmirrords as sources (about 12,500 a node), mirrored by one standby. Its CPU is counted
when they have gone cold, over two refreshes of the source's metadata. The busy partition is a topic that is full
when its mirroring starts; its rate is taken between a quarter of the bytes and the last one, in turns with a pair
of brokers that has nothing else. What the idle ones cost a source is counted at a real Kafka: its CPU with the
mirror less its CPU without.
"""
import json
import os
import statistics
import time

from .cluster import Broker, Client, batch_of
from .figure import Row, empty, show
from .kafka import Kafka, Unavailable
from .process import resident_memory

NAME = "idle-partitions"
WHAT = "CPU and memory of many idle mirrored partitions, and the rate of a busy one beside them"
GOAL_PERCENT = 2.0
GOAL_RATIO = 0.9
GOAL_SOURCE_PERCENT = 3.0
SOURCES = 4
PARTITIONS_A_TOPIC = 100
# A partition is cold after 30 s, those of one fetcher within a few seconds of each other.
COLD_SECONDS = 40
PATIENCE_SECONDS = 1800


def create_idle(address_of, prefix, partitions):
    client = Client(address_of)
    for number in range(partitions // PARTITIONS_A_TOPIC):
        client.create_topic(f"{prefix}-{number}", PARTITIONS_A_TOPIC)
    client.close()


def mirroring(standby):
    states = [mirror["states"] for mirror in json.loads(standby.cli("status", "--json"))]
    return sum(state.get("MIRRORING", 0) for state in states)


def await_mirroring(standby, partitions):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (have := mirroring(standby)) < partitions:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{have} of {partitions} partitions mirror after {PATIENCE_SECONDS} s")
        time.sleep(3)  # the question is not cheap


def cpu_percent(process, seconds):
    """Of one core."""
    before, begin = process.cpu_seconds(), time.monotonic()
    time.sleep(seconds)
    return 100 * (process.cpu_seconds() - before) / (time.monotonic() - begin)


def busy_rate(standby, mirror, topic, size):
    """Bytes a second of a topic's copying, from a quarter of it on."""
    path = standby.segment(topic)
    standby.cli("start", mirror, "--topics", topic)
    begin, first = None, 0
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        now = time.monotonic()
        have = os.path.getsize(path) if os.path.exists(path) else 0
        if begin is None and have >= size / 4:
            begin, first = now, have
        if have >= size:
            return (have - first) / (now - begin)
        if now > deadline:
            raise RuntimeError(f"{topic}: {have} of {size} bytes")
        time.sleep(0.001)


def fill(source, topics, batch, count):
    client = Client(source)
    for topic in topics:
        client.create_topic(topic)
        client.produce(topic, 0, batch, count)
    client.close()


def ours(bench):
    partitions = 4000 if bench.quick else 50000
    each = partitions // SOURCES
    rounds = 2 if bench.quick else 5
    topics = [f"busy-{number}" for number in range(rounds + 1)]
    batch = batch_of(1 << 20, int(time.time() * 1000))
    count = 300 if bench.quick else 600
    brokers = []

    def broker(name):
        brokers.append(Broker(bench.binaries, os.path.join(bench.data, name)))
        return brokers[-1]

    try:
        begin = time.monotonic()
        sources = [broker(f"source{number}") for number in range(SOURCES)]
        for number, source in enumerate(sources):
            create_idle(source, f"idle{number}", each)
        print(f"  {partitions} partitions created at {SOURCES} sources in {time.monotonic() - begin:.1f} s")
        alone_source, alone = broker("alone-source"), broker("alone")
        standby = broker("standby")
        bare = resident_memory(standby.process.pid)
        for source in (sources[0], alone_source):
            fill(source, topics, batch, count)
        begin, cpu = time.monotonic(), standby.cpu_seconds()
        for number, source in enumerate(sources):
            standby.cli("create", f"m{number}", "--source", source.address)
            standby.cli("start", f"m{number}", "--topics", f"idle{number}-.*")
        asked = time.monotonic() - begin
        await_mirroring(standby, partitions)
        print(f"  start acknowledged after {asked:.1f} s, every partition mirrors after "
              f"{time.monotonic() - begin:.1f} s, {standby.cpu_seconds() - cpu:.1f} CPU seconds of the standby")
        time.sleep(COLD_SECONDS)
        memory = (resident_memory(standby.process.pid) - bare) / partitions
        print(f"  resident memory: {memory / 1024:.1f} KiB a partition")
        percent = cpu_percent(standby, 30 if bench.quick else 60)
        show(f"CPU of {partitions} idle partitions", [percent], "% of a core")
        alone.cli("create", "m0", "--source", alone_source.address)
        rates = {"beside": [], "alone": []}
        for number, topic in enumerate(topics):
            pairs = [("beside", standby), ("alone", alone)]
            for name, copier in pairs if number % 2 else reversed(pairs):
                measured = busy_rate(copier, "m0", topic, count * len(batch)) / 1e6
                if number > 0:  # the first warms up
                    rates[name].append(measured)
        show("busy partition alone", rates["alone"], "MB/s")
        show("busy partition beside them", rates["beside"], "MB/s")
        ratios = [beside / single for beside, single in zip(rates["beside"], rates["alone"])]
        ratio = statistics.median(ratios)
        return [Row(f"{NAME}, CPU of {partitions}", percent, None, None, None, None,
                    f"<= {GOAL_PERCENT} % of a core", percent <= GOAL_PERCENT, "%"),
                Row(f"{NAME}, busy beside them", statistics.median(rates["beside"]),
                    statistics.median(rates["alone"]), ratio, min(ratios), max(ratios), f">= {GOAL_RATIO}",
                    ratio >= GOAL_RATIO, "MB/s")]
    finally:
        for each_broker in brokers:
            each_broker.stop()
        empty(bench.data)


def at_kafka(bench):
    partitions = 1000 if bench.quick else 10000
    seconds = 20 if bench.quick else 60
    kafka = Kafka(os.path.join(bench.data, "kafka"))
    standby = None
    try:
        create_idle(kafka.node, "idle", partitions)
        standby = Broker(bench.binaries, os.path.join(bench.data, "standby"))
        standby.cli("create", "m", "--source", kafka.bootstrap)
        time.sleep(10 if bench.quick else 60)  # its compilers and its metadata log come to rest
        without = cpu_percent(kafka.node, seconds)
        standby.cli("start", "m", "--topics", "idle-.*")
        await_mirroring(standby, partitions)
        time.sleep(COLD_SECONDS)
        with_mirror = cpu_percent(kafka.node, seconds)
        show(f"Kafka with {partitions} partitions, idle", [without], "% of a core")
        show("the same, mirrored", [with_mirror], "% of a core")
        cost = (with_mirror - without) * 10000 / partitions
        return [Row(f"{NAME}, a Kafka's CPU per 10,000", cost, None, None, None, None,
                    f"<= {GOAL_SOURCE_PERCENT} % of a core", cost <= GOAL_SOURCE_PERCENT, "%")]
    finally:
        if standby is not None:
            standby.stop()
        kafka.stop()
        empty(bench.data)


def measure(bench):
    empty(bench.data)
    rows = ours(bench)
    try:
        return rows + at_kafka(bench)
    except Unavailable as why:
        raise Unavailable(f"what they cost a source: {why}", rows) from why
