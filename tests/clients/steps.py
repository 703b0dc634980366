"""The one list of steps that every client library goes through, and what it must see.

Nothing here knows which server answers, apart from the mirror steps, which a real Kafka cannot do.
A step is a function with a docstring; STEPS and MIRROR_STEPS have them in order. WITHOUT names what
a library cannot do: such a step must end with "unsupported", any other must pass.
"""
import os
import random
import time
from typing import NamedTuple

from driver_process import (DriverError, Read, Record, decode_bytes, decode_record,
                            encode_record)

TIME_FACTOR = float(os.environ.get("KMIRROR_TEST_TIME_FACTOR") or 1)

# Error codes of Kafka's protocol.
OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
MESSAGE_TOO_LARGE = 10
INVALID_TOPIC_EXCEPTION = 17
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_REPLICATION_FACTOR = 38
INVALID_CONFIG = 40
INVALID_REQUEST = 42
ELECTION_NOT_NEEDED = 84

# Where a config comes from, by the numbers of the protocol.
FROM_TOPIC = 1
FROM_DEFAULTS = (4, 5)  # the broker's file or the built-in value

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BASE_TIME = 1700000000000

NO_PAGES = "it asks for topics with Metadata alone"
WITHOUT = {
    "describe_configs_unknown": {"kafka_python": "it drops the error"},
    "alter_configs": {
        "librdkafka": "IncrementalAlterConfigs came with 2.2",
        "aiokafka": "it has AlterConfigs alone",
    },
    "replace_configs": {"java_4_4": "Kafka 4.0 removed AlterConfigs from the client"},
    "describe_topic_pages": {
        "librdkafka": NO_PAGES, "aiokafka": NO_PAGES, "franz_go": NO_PAGES,
        "franz_go_1_16": NO_PAGES, "confluent": NO_PAGES,
    },
    "record_of_nulls": {
        "kafka_python": "its producer wants a key or a value",
        "aiokafka": "its producer wants a key or a value",
    },
    "record_null_header": {"kafka_python": "its producer wants bytes"},
    "describe_log_dirs": {
        "librdkafka": "no such call", "aiokafka": "no such call", "confluent": "no such call",
    },
    "elect_leaders": {"librdkafka": "no such call", "aiokafka": "no such call"},
    "list_config_resources": {
        "java_3_9": "the call came with 4.1", "librdkafka": "no such call",
        "aiokafka": "no such call", "confluent": "no such call", "franz_go_1_16": "no such call",
    },
    "describe_producers": {
        "librdkafka": "no such call", "aiokafka": "no such call", "confluent": "no such call",
    },
}


class Server(NamedTuple):
    host: str
    port: int
    cluster_id: str
    node_id: int

    @property
    def bootstrap(self):
        return f"{self.host}:{self.port}"


class Context:
    """What a step works with. `mirror` starts and stops mirrors; None where nothing mirrors."""

    def __init__(self, driver, client, server, prefix, source=None, mirror=None):
        self.driver, self.client, self.server = driver, client, server
        self.source, self.mirror = source, mirror
        self.topic = f"{prefix}-a"
        self.codecs_topic = f"{prefix}-codecs"
        self.shapes_topic = f"{prefix}-shapes"
        self.mirrored = f"{prefix}-mirrored"
        self.codec_records = {}

    def call(self, *fields):
        return self.driver.call(*fields)

    # Calls that several steps make.
    def produce(self, topic, partition, records, acks="all", codec="none", idempotent=False):
        options = f"acks={acks},codec={codec},idempotent={int(idempotent)}"
        rows = self.driver.call("produce", topic, partition, options,
                                *(encode_record(record) for record in records))
        return [int(row[0]) for row in rows]

    def read(self, topic, partition, start, count, isolation="read_uncommitted", reset="none"):
        """`count` records from `start` on, with a consumer of its own."""
        self.call("open", topic, partition, isolation, reset)
        try:
            self.call("seek", start)
            return [decode(row) for row in self.call("read", count)]
        finally:
            self.call("close")

    def offset(self, topic, partition, which, isolation="read_uncommitted"):
        return int(self.call("offset", topic, partition, which, isolation)[0][0])

    def ready(self, topic, partitions):
        """Metadata names a new topic before its leaders serve it. A producer that meets such a leader
        sends again, and with two batches on the way and no sequence numbers the second then comes
        before the first: allowed, but not what a step wants to see. ListOffsets waits for the leader."""
        return (len(self.call("describe_topic", topic)) == partitions
                and all(self.offset(topic, p, "latest") >= 0 for p in range(partitions)))

    def configs(self, kind, name):
        """{key: (value, source)}"""
        return {key: (text(value), int(source))
                for key, value, source, _ in self.call("describe_configs", kind, name)}


def decode(row):
    return Read(int(row[0]), int(row[1]), decode_record(row[2]))


def text(field):
    data = decode_bytes(field)
    return None if data is None else data.decode()


def equal(found, wanted, what="answer"):
    if found != wanted:
        raise AssertionError(f"{what}: found {shorten(found)}, wanted {shorten(wanted)}")


def shorten(value):
    shown = repr(value)
    return shown if len(shown) < 1500 else shown[:1200] + f" ... ({len(shown)} characters)"


def true(condition, what):
    if not condition:
        raise AssertionError(what)


def fails(code, call, *args, **kwargs):
    """`call` must end with exactly this error."""
    try:
        found = call(*args, **kwargs)
    except DriverError as error:
        equal(error.code, code, f"error ({error.text})")
        return error
    raise AssertionError(f"expected error {code}, but it answered {shorten(found)}")


def eventually(call, what):
    """Metadata needs a moment; anything else is expected to be true at once."""
    end = time.monotonic() + 20 * TIME_FACTOR
    while True:
        last = None
        try:
            if call():
                return
        except (AssertionError, DriverError) as error:
            last = error
        if time.monotonic() > end:
            raise AssertionError(f"not within 20 s: {what}" + (f" ({last})" if last else ""))
        time.sleep(0.05)


def numbered(count, first=0):
    """Records with all fields set, whose times are a second apart."""
    return [Record(b"k%d" % i, b"v%d" % i, (("n", b"%d" % i),), BASE_TIME + i * 1000)
            for i in range(first, first + count)]


def noise(seed, size):
    return random.Random(seed).randbytes(size)


def same_records(found, records, first_offset=0):
    equal([read.offset for read in found],
          list(range(first_offset, first_offset + len(records))), "offsets")
    for read, record in zip(found, records):
        if read.record != record:
            raise AssertionError(f"offset {read.offset}: found {shorten(read.record)}, "
                                 f"wrote {shorten(record)}")
        equal(read.timestamp_type, 0, f"timestamp type of offset {read.offset}")


# ---- discovery and administration

def connect(t):
    """The cluster's id and its one node, which is the controller, at the address given."""
    t.call("connect", t.server.bootstrap)
    (cluster_id, controller), *nodes = t.call("cluster")
    equal(cluster_id, t.server.cluster_id, "cluster id")
    equal(nodes, [[str(t.server.node_id), t.server.host, str(t.server.port)]], "nodes")
    equal(int(controller), t.server.node_id, "controller")


def create_topic(t):
    """A topic with three partitions and three configs of its own."""
    t.call("create_topic", t.topic, 3, 1, "retention.ms=-1", "segment.bytes=16777216",
           "max.message.bytes=2000000")
    eventually(lambda: t.ready(t.topic, 3), "three partitions")
    eventually(lambda: [t.topic] in t.call("list_topics"), "the topic is listed")


def create_topic_refused(t):
    """What is wrong with a new topic comes back as the error that names it."""
    other = t.topic + "-no"
    fails(TOPIC_ALREADY_EXISTS, t.call, "create_topic", t.topic, 3, 1)
    fails(INVALID_TOPIC_EXCEPTION, t.call, "create_topic", "no/slash", 1, 1)
    fails(INVALID_PARTITIONS, t.call, "create_topic", other, 0, 1)
    fails(INVALID_REPLICATION_FACTOR, t.call, "create_topic", other, 1, 5)
    fails(INVALID_CONFIG, t.call, "create_topic", other, 1, 1, "retention.ms=soon")
    fails(INVALID_CONFIG, t.call, "create_topic", other, 1, 1, "no.such.config=1")
    true([other] not in t.call("list_topics"), "a refused topic exists")


def describe_topic(t):
    """Partitions with leader, replicas and in-sync replicas."""
    node = str(t.server.node_id)
    equal(sorted(t.call("describe_topic", t.topic)), [[str(i), node, node, node] for i in range(3)])


def describe_topic_pages(t):
    """The same in answers of two partitions at most."""
    node = str(t.server.node_id)
    equal(sorted(t.call("describe_topic_pages", t.topic, 2)),
          [[str(i), node, node, node] for i in range(3)])
    fails(UNKNOWN_TOPIC_OR_PARTITION, t.call, "describe_topic_pages", t.topic + "-no", 2)


def describe_configs(t):
    """The topic's own configs and those from above, of the topic and of the broker."""
    found = t.configs("topic", t.topic)
    equal(found.get("retention.ms"), ("-1", FROM_TOPIC), "retention.ms")
    equal(found.get("segment.bytes"), ("16777216", FROM_TOPIC), "segment.bytes")
    equal(found.get("max.message.bytes"), ("2000000", FROM_TOPIC), "max.message.bytes")
    value, source = found.get("cleanup.policy", (None, None))
    equal(value, "delete", "cleanup.policy")
    true(source in FROM_DEFAULTS, f"cleanup.policy comes from {source}")
    node = t.configs("broker", t.server.node_id)
    equal(node.get("node.id", (None,))[0], str(t.server.node_id), "node.id")


def describe_configs_unknown(t):
    """Of a topic that is not there."""
    fails(UNKNOWN_TOPIC_OR_PARTITION, t.call, "describe_configs", "topic", t.topic + "-no")


def alter_configs(t):
    """One config set and one taken back, the third untouched; nothing of a refused change."""
    t.call("alter_configs", t.topic, "+max.message.bytes=1500000", "-segment.bytes")
    changed_configs(t, "1500000")
    fails(INVALID_CONFIG, t.call, "alter_configs", t.topic, "+retention.ms=5",
          "+max.message.bytes=much")
    fails(UNKNOWN_TOPIC_OR_PARTITION, t.call, "alter_configs", t.topic + "-no", "+retention.ms=1")
    changed_configs(t, "1500000")


def replace_configs(t):
    """The whole set of the topic's own configs anew: what is not named is at its default again."""
    t.call("replace_configs", t.topic, "retention.ms=-1", "max.message.bytes=1400000")
    changed_configs(t, "1400000")
    fails(INVALID_CONFIG, t.call, "replace_configs", t.topic, "max.message.bytes=-7")
    changed_configs(t, "1400000")


def changed_configs(t, max_bytes):
    def as_changed():
        found = t.configs("topic", t.topic)
        equal(found["retention.ms"], ("-1", FROM_TOPIC), "retention.ms")
        equal(found["max.message.bytes"], (max_bytes, FROM_TOPIC), "max.message.bytes")
        value, source = found["segment.bytes"]
        equal(value, "1073741824", "segment.bytes")
        true(source in FROM_DEFAULTS, f"segment.bytes comes from {source}")
        return True
    eventually(as_changed, "configs as changed")


# ---- records

def produce_acks_0(t):
    """Records without acknowledgement arrive all the same."""
    t.produce(t.topic, 0, numbered(10), acks="0")
    eventually(lambda: t.offset(t.topic, 0, "latest") == 10, "ten records are there")


def produce_acks_1(t):
    """Acknowledged by the leader, with their offsets."""
    equal(t.produce(t.topic, 0, numbered(10, 10), acks="1"), list(range(10, 20)), "offsets")


def produce_acks_all(t):
    """Acknowledged by all replicas, with their offsets."""
    equal(t.produce(t.topic, 0, numbered(10, 20), acks="all"), list(range(20, 30)), "offsets")


def produce_idempotent(t):
    """By a producer with an id and sequence numbers."""
    equal(t.produce(t.topic, 0, numbered(10, 30), idempotent=True), list(range(30, 40)), "offsets")


def codec(name):
    def step(t):
        partition = CODECS.index(name)
        if partition == 0:
            t.call("create_topic", t.codecs_topic, len(CODECS), 1, "retention.ms=-1")
            eventually(lambda: t.ready(t.codecs_topic, len(CODECS)),
                       "five partitions")
        # Text that shrinks and noise that does not.
        records = numbered(50) + [Record(None, b"again " * 2000, (), BASE_TIME + 50000),
                                  Record(b"noise", noise(name, 20000), (), BASE_TIME + 51000)]
        equal(t.produce(t.codecs_topic, partition, records, codec=name, idempotent=partition % 2),
              list(range(len(records))), "offsets")
        same_records(t.read(t.codecs_topic, partition, "begin", len(records)), records)
    step.__name__ = f"codec_{name}"
    step.__doc__ = f"52 records with {name}: every field comes back as it was written."
    return step


def shapes():
    at = BASE_TIME + 1
    every_byte = bytes(range(256))
    return [
        Record(None, b"no key", (), at),
        Record(b"no value", None, (), at),
        Record(b"", b"", (), at),
        Record(every_byte, every_byte * 3, (), at),
        Record(b"k", b"v", (("a", b"1"), ("b", b"2"), ("a", b"3")), at),
        Record(b"k", b"v", (("empty", b""), ("bytes", every_byte)), at),
        Record(b"k", b"v", (("\u00fcml\u00e4ut", b"x"), ("", b"no name")), at),
        Record(b"time goes back", b"v", (), BASE_TIME - 86400000),
        Record(b"epoch", b"v", (), 1),
    ]


def record_shapes(t):
    """Null and empty keys and values, headers, any byte, times of any order."""
    t.call("create_topic", t.shapes_topic, 4, 1, "retention.ms=-1")
    eventually(lambda: t.ready(t.shapes_topic, 4), "four partitions")
    records = shapes()
    equal(t.produce(t.shapes_topic, 0, records), list(range(len(records))), "offsets")
    same_records(t.read(t.shapes_topic, 0, "begin", len(records)), records)


def record_of_nulls(t):
    """Neither key nor value."""
    records = [Record(None, None, (), BASE_TIME), Record(None, None, (("h", b"1"),), BASE_TIME)]
    equal(t.produce(t.shapes_topic, 2, records), [0, 1], "offsets")
    same_records(t.read(t.shapes_topic, 2, "begin", 2), records)


def record_null_header(t):
    """A header without a value, which is not an empty one."""
    records = [Record(b"k", b"v", (("null", None), ("empty", b"")), BASE_TIME)]
    equal(t.produce(t.shapes_topic, 3, records), [0], "offset")
    same_records(t.read(t.shapes_topic, 3, "begin", 1), records)


def record_of_900_kib(t):
    """A record almost as large as the default allows, plain and compressed."""
    records = [Record(b"large", noise("large", 900 * 1024), (), BASE_TIME)]
    equal(t.produce(t.shapes_topic, 1, records), [0], "offset")
    equal(t.produce(t.shapes_topic, 1, records, codec="lz4"), [1], "offset")
    same_records(t.read(t.shapes_topic, 1, "begin", 2), records * 2)


def record_too_large(t):
    """Beyond max.message.bytes of the topic: refused with the error that says so."""
    fails(MESSAGE_TOO_LARGE, t.produce, t.topic, 2, [Record(b"k", noise("too", 1600000))])
    equal(t.offset(t.topic, 2, "latest"), 0, "end offset")


def read_from_start(t):
    """All records of a partition, assigned by hand, in order."""
    same_records(t.read(t.topic, 0, "begin", 40), numbered(40))


def read_committed(t):
    """The same for a consumer that reads what is committed."""
    same_records(t.read(t.topic, 0, "begin", 40, isolation="read_committed"), numbered(40))


def seek_to_the_middle(t):
    """Forward, back and to the last record with one consumer."""
    t.call("open", t.topic, 0, "read_uncommitted", "none")
    for offset, count in ((25, 15), (5, 10), (39, 1)):
        t.call("seek", offset)
        same_records([decode(row) for row in t.call("read", count)], numbered(count, offset),
                     offset)
    t.call("close")


def wait_for_a_record(t):
    """A consumer that waits at the end gets what is written then."""
    t.call("open", t.topic, 1, "read_uncommitted", "none")
    t.call("seek", 0)
    for i in range(3):
        equal(t.call("poll", 300), [], "records at the end")
        t.produce(t.topic, 1, numbered(1, i))
        same_records([decode(row) for row in t.call("read", 1)], numbered(1, i), i)
    t.call("close")


def seek_to_the_end(t):
    """A consumer that wants what is new gets nothing else."""
    t.call("open", t.topic, 1, "read_uncommitted", "none")
    t.call("seek", "end")
    # Where the end is, the library may ask at any moment from now on.
    equal(t.call("poll", 300), [], "records at the end")
    end, found = 3, []
    while not found and end < 30:
        equal(t.produce(t.topic, 1, numbered(1, end)), [end], "offset")
        end += 1
        found = t.call("poll", 300)
    true(found, "no new record came")
    read = [decode(row) for row in found]
    same_records(read, numbered(len(read), read[0].offset), read[0].offset)
    true(read[0].offset >= 3, f"an old record came: {read[0].offset}")
    t.call("close")


def offsets_beginning_and_end(t):
    """First and next offset of a partition with records and of one without."""
    for isolation in ("read_uncommitted", "read_committed"):
        equal([t.offset(t.topic, p, which, isolation) for p, which in
               ((0, "earliest"), (0, "latest"), (2, "earliest"), (2, "latest"))], [0, 40, 0, 0])


def offsets_by_time(t):
    """The first record at or after a time, also inside of a compressed batch."""
    for partition in range(len(CODECS)):
        for time_ms, offset in ((0, 0), (BASE_TIME + 20000, 20), (BASE_TIME + 20500, 21),
                                (BASE_TIME + 51000, 51)):
            equal(t.offset(t.codecs_topic, partition, time_ms), offset,
                  f"offset at {time_ms} of partition {partition}")
    # Libraries show "none" as -1 or as the end; the broker says -1 in either case.
    true(t.offset(t.codecs_topic, 0, BASE_TIME + 51001) in (-1, 52), "an offset beyond all times")


def read_out_of_range(t):
    """An offset that does not exist: an error, or the start for a consumer that wants it so."""
    t.call("open", t.topic, 0, "read_uncommitted", "none")
    t.call("seek", 1000000)
    fails(OFFSET_OUT_OF_RANGE, t.call, "read", 1)
    t.call("close")
    same_records(t.read(t.topic, 0, 1000000, 40, reset="earliest"), numbered(40))


def describe_producers(t):
    """The producers a partition knows."""
    producers = t.call("describe_producers", t.topic, 0)
    true(any(int(sequence) == 9 and int(epoch) == 0 for _, epoch, sequence in producers),
         f"no producer with epoch 0 and last sequence 9 among {producers}")


def delete_records(t):
    """Records before an offset go; reading starts after them."""
    equal(int(t.call("delete_records", t.topic, 0, 15)[0][0]), 15, "low watermark")
    equal(t.offset(t.topic, 0, "earliest"), 15, "first offset")
    equal(t.offset(t.topic, 0, "latest"), 40, "end offset")
    same_records(t.read(t.topic, 0, "begin", 25), numbered(25, 15), 15)
    same_records(t.read(t.topic, 0, 3, 25, reset="earliest"), numbered(25, 15), 15)
    fails(OFFSET_OUT_OF_RANGE, t.call, "delete_records", t.topic, 0, 41)


def add_partitions(t):
    """Two more partitions, which take records; fewer are refused."""
    t.call("create_partitions", t.topic, 5)
    eventually(lambda: t.ready(t.topic, 5), "five partitions")
    equal(t.produce(t.topic, 4, numbered(3)), [0, 1, 2], "offsets")
    same_records(t.read(t.topic, 4, "begin", 3), numbered(3))
    fails(INVALID_PARTITIONS, t.call, "create_partitions", t.topic, 4)
    fails(UNKNOWN_TOPIC_OR_PARTITION, t.call, "create_partitions", t.topic + "-no", 4)


def unknown_topic(t):
    """Asking for, writing to and deleting a topic that is not there."""
    other = t.topic + "-no"
    fails(UNKNOWN_TOPIC_OR_PARTITION, t.call, "describe_topic", other)
    fails(UNKNOWN_TOPIC_OR_PARTITION, t.call, "delete_topic", other)
    try:
        # Each library gives up in a way of its own, with a code of its own.
        found = t.produce(other, 0, numbered(1))
    except DriverError:
        pass
    else:
        raise AssertionError(f"a record went to an unknown topic: {found}")
    true([other] not in t.call("list_topics"), "the topic exists now")


def describe_log_dirs(t):
    """Where the partitions are, and that they have a size."""
    sizes = {int(partition): int(size) for partition, size in t.call("describe_log_dirs", t.topic)}
    equal(sorted(sizes), [0, 1, 2, 3, 4], "partitions")
    true(sizes[0] > 0, f"partition 0 has {sizes[0]} bytes")
    equal(sizes[2], 0, "size of the empty partition")


def list_config_resources(t):
    """The topic is among the things with configs."""
    true([t.topic] in t.call("list_config_resources"), "the topic is not listed")


def elect_leaders(t):
    """There is nothing to elect where the preferred leader leads."""
    fails(ELECTION_NOT_NEEDED, t.call, "elect_leaders", t.topic, 0)
    fails(UNKNOWN_TOPIC_OR_PARTITION, t.call, "elect_leaders", t.topic + "-no", 0)


def delete_topic(t):
    """The topic goes, and a new one of the same name begins empty."""
    t.call("delete_topic", t.topic)
    eventually(lambda: [t.topic] not in t.call("list_topics"), "the topic is gone")
    fails(UNKNOWN_TOPIC_OR_PARTITION, t.call, "describe_topic", t.topic)

    def again():
        t.call("create_topic", t.topic, 1, 1)
        return True
    eventually(again, "it can be created again")
    eventually(lambda: t.ready(t.topic, 1), "one partition")
    equal(t.produce(t.topic, 0, numbered(2), idempotent=True), [0, 1], "offsets")
    same_records(t.read(t.topic, 0, "begin", 2), numbered(2))


STEPS = [
    connect, create_topic, create_topic_refused, describe_topic, describe_topic_pages,
    describe_configs, describe_configs_unknown, alter_configs, replace_configs,
    produce_acks_0, produce_acks_1, produce_acks_all, produce_idempotent,
    *(codec(name) for name in CODECS),
    record_shapes, record_of_nulls, record_null_header, record_of_900_kib, record_too_large,
    read_from_start, read_committed, seek_to_the_middle, wait_for_a_record, seek_to_the_end,
    offsets_beginning_and_end, offsets_by_time, read_out_of_range, describe_producers,
    delete_records, add_partitions, unknown_topic,
    describe_log_dirs, list_config_resources, elect_leaders, delete_topic,
]


# ---- mirrors: a real Kafka is the source, the server is kmirrord

# Transactions of the source in partition 1: records, and whether they were committed.
TRANSACTIONS = ((5, True), (4, False), (3, True))
COMMITTED = [0, 1, 2, 3, 4, 11, 12, 13]  # 5 is a marker, 6 to 9 are aborted, 10 and 14 are markers
WRITTEN = [0, 1, 2, 3, 4, 6, 7, 8, 9, 11, 12, 13]


def mirror_source(t):
    """The library fills a topic of the real Kafka: codecs, transactions, a start that moved."""
    t.call("connect", t.source.bootstrap)
    t.call("create_topic", t.mirrored, 2, 1, "retention.ms=-1")
    eventually(lambda: t.ready(t.mirrored, 2), "two partitions")
    for i, name in enumerate(CODECS):
        t.produce(t.mirrored, 0, numbered(20, i * 20), codec=name, idempotent=i % 2)
    t.produce(t.mirrored, 0, shapes())
    t.call("delete_records", t.mirrored, 0, 10)
    first = 0
    for count, commit in TRANSACTIONS:
        # An id of its own for each: an end is carried out after it was promised, and the next
        # transaction of one id may be told to come again, which not every library does for long.
        t.call("transaction", t.mirrored, 1, f"{t.mirrored}-{first}",
               "commit" if commit else "abort",
               *(encode_record(record) for record in numbered(count, first)))
        first += count


def mirror_read(t):
    """The mirror topic has the same records at the same offsets, in every field."""
    wanted = t.read(t.mirrored, 0, "begin", 90 + len(shapes()))
    same_records(wanted, (numbered(100) + shapes())[10:], 10)
    t.mirror.start(t.mirrored, {0: 100 + len(shapes()), 1: 15})
    t.call("connect", t.server.bootstrap)
    equal(t.read(t.mirrored, 0, "begin", 90 + len(shapes())), wanted, "records of the mirror")
    equal(len(t.call("describe_topic", t.mirrored)), 2, "partitions")


def mirror_read_committed(t):
    """Aborted records of the source's transactions stay hidden from those who ask for that."""
    committed = t.read(t.mirrored, 1, "begin", len(COMMITTED), isolation="read_committed")
    equal([read.offset for read in committed], COMMITTED, "committed offsets")
    written = t.read(t.mirrored, 1, "begin", len(WRITTEN))
    equal([read.offset for read in written], WRITTEN, "written offsets")
    records = numbered(12)
    equal([read.record for read in written], records, "written records")
    equal([read.record for read in committed], records[:5] + records[9:], "committed records")


def mirror_offsets(t):
    """First, next and timed offsets are the source's."""
    equal([t.offset(t.mirrored, p, which) for p, which in
           ((0, "earliest"), (0, "latest"), (1, "earliest"), (1, "latest"))],
          [10, 100 + len(shapes()), 0, 15])
    equal(t.offset(t.mirrored, 0, BASE_TIME + 70500), 71, "offset by time")


def mirror_follow(t):
    """A consumer that waits at the end of the mirror topic gets what the source gets."""
    end = 100 + len(shapes())
    t.call("open", t.mirrored, 0, "read_uncommitted", "none")
    t.call("seek", end)
    equal(t.call("poll", 100), [], "records at the end")
    t.call("connect", t.source.bootstrap)  # the open consumer stays where it is
    t.produce(t.mirrored, 0, numbered(3, 500))
    t.call("connect", t.server.bootstrap)
    same_records([decode(row) for row in t.call("read", 3)], numbered(3, 500), end)
    t.call("close")


def mirror_read_only(t):
    """A mirror topic refuses records and changes at once, with a final error."""
    end = t.offset(t.mirrored, 0, "latest")
    begin = time.monotonic()
    fails(INVALID_REQUEST, t.produce, t.mirrored, 0, numbered(1))
    fails(INVALID_REQUEST, t.produce, t.mirrored, 0, numbered(1), acks="1")
    fails(INVALID_REQUEST, t.produce, t.mirrored, 0, numbered(1), idempotent=True)
    fails(INVALID_REQUEST, t.call, "delete_records", t.mirrored, 0, 20)
    fails(INVALID_REQUEST, t.call, "create_partitions", t.mirrored, 4)
    fails(INVALID_REQUEST, t.call, "delete_topic", t.mirrored)
    seconds = time.monotonic() - begin
    true(seconds < 15 * TIME_FACTOR, f"the errors took {seconds:.0f} s: they were retried")
    equal(t.offset(t.mirrored, 0, "latest"), end, "end offset")


def mirror_stopped(t):
    """After the stop the topic takes records, which follow those of the source."""
    t.mirror.stop(t.mirrored)
    end = t.offset(t.mirrored, 0, "latest")
    true(end >= 103 + len(shapes()), f"end offset {end}")
    equal(t.produce(t.mirrored, 0, numbered(2)), [end, end + 1], "offsets")
    equal(t.produce(t.mirrored, 0, numbered(2, 2), idempotent=True), [end + 2, end + 3], "offsets")
    same_records(t.read(t.mirrored, 0, end, 4), numbered(4), end)
    tail = t.offset(t.mirrored, 1, "latest")
    equal(t.produce(t.mirrored, 1, numbered(1, 12)), [tail], "offset")
    committed = t.read(t.mirrored, 1, "begin", len(COMMITTED) + 1, isolation="read_committed")
    equal([read.offset for read in committed], COMMITTED + [tail], "committed offsets")
    t.call("create_partitions", t.mirrored, 3)
    eventually(lambda: t.ready(t.mirrored, 3), "three partitions")
    # The new partition comes to STOPPED by itself; producers wait for that, deleting does not.
    true(t.produce(t.mirrored, 2, numbered(1))[0] >= 0, "no offset")
    t.call("delete_topic", t.mirrored)
    eventually(lambda: [t.mirrored] not in t.call("list_topics"), "the topic is gone")


MIRROR_STEPS = [
    mirror_source, mirror_read, mirror_read_committed, mirror_offsets, mirror_follow,
    mirror_read_only, mirror_stopped,
]
