#!/usr/bin/env python3
"""Carries out the calls of tests/clients/README.md with confluent-kafka, a current librdkafka."""
import time
import warnings

import confluent_kafka
from confluent_kafka import (Consumer, ElectionType, IsolationLevel, KafkaException, Producer,
                             TopicCollection, TopicPartition)
from confluent_kafka.admin import (AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource,
                                   NewPartitions, NewTopic, OffsetSpec)

from driver_calls import (PATIENCE, PATIENCE_MS, BrokerError, Read, Record, check, decode_record,
                          ids, serve, settings, show, text_bytes)

# replace_configs is the call that librdkafka warns about.
warnings.filterwarnings("ignore", category=DeprecationWarning)


def raise_kafka_error(error):
    if error is None:
        return
    # A reset that is not wanted hides the code of the broker.
    if error.name() == "_AUTO_OFFSET_RESET" and "Offset out of range" in error.str():
        raise BrokerError(1, error.str())
    raise BrokerError(error.code(), error.str())


def translated(method):
    def call(*fields):
        try:
            return method(*fields)
        except KafkaException as exception:
            raise_kafka_error(exception.args[0])
    return call


class Confluent:
    def __init__(self):
        self.consumer = None
        self.fetched = []

    def hello(self):
        return [("confluent-kafka " + confluent_kafka.__version__,
                 "librdkafka " + confluent_kafka.libversion()[0])]

    def connect(self, bootstrap):
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def one(self, futures):
        (key, future), = futures.items()
        return future.result(PATIENCE)

    def cluster(self):
        found = self.admin.describe_cluster().result(PATIENCE)
        return [(found.cluster_id, found.controller.id),
                *((node.id, node.host, node.port) for node in found.nodes)]

    def list_topics(self):
        return [(name,) for name in self.admin.list_topics(timeout=PATIENCE).topics]

    def create_topic(self, name, partitions, replication, *configs):
        self.one(self.admin.create_topics([NewTopic(name, int(partitions), int(replication),
                                                    config=settings(configs))]))

    def delete_topic(self, name):
        self.one(self.admin.delete_topics([name]))

    def describe_topic(self, name):
        found = self.one(self.admin.describe_topics(TopicCollection([name])))
        return [(one.id, one.leader.id, ids(node.id for node in one.replicas),
                 ids(node.id for node in one.isr)) for one in found.partitions]

    def describe_configs(self, kind, name):
        found = self.one(self.admin.describe_configs([ConfigResource(kind, name)]))
        return [(entry.name, text_bytes(entry.value),
                 entry.source.value if hasattr(entry.source, "value") else entry.source,
                 int(entry.is_read_only)) for entry in found.values()]

    def alter_configs(self, name, *changes):
        entries = []
        for change in changes:
            key, _, value = change[1:].partition("=")
            kind = AlterConfigOpType.SET if change[0] == "+" else AlterConfigOpType.DELETE
            entries.append(ConfigEntry(key, value or None, incremental_operation=kind))
        self.one(self.admin.incremental_alter_configs(
            [ConfigResource("topic", name, incremental_configs=entries)]))

    def replace_configs(self, name, *configs):
        self.one(self.admin.alter_configs(
            [ConfigResource("topic", name, set_config=settings(configs))]))

    def create_partitions(self, name, total):
        self.one(self.admin.create_partitions([NewPartitions(name, int(total))]))

    def delete_records(self, name, partition, offset):
        found = self.one(self.admin.delete_records([TopicPartition(name, int(partition),
                                                                   int(offset))]))
        return [(found.low_watermark,)]

    def elect_leaders(self, name, partition):
        where = TopicPartition(name, int(partition))
        found = self.admin.elect_leaders(ElectionType.PREFERRED, [where]).result(PATIENCE)
        for error in found.values():
            if error is not None:
                raise_kafka_error(error.args[0] if isinstance(error, KafkaException) else error)

    def offset(self, name, partition, which, isolation):
        spec = {"earliest": OffsetSpec.earliest(), "latest": OffsetSpec.latest()}.get(which)
        found = self.one(self.admin.list_offsets(
            {TopicPartition(name, int(partition)): spec or OffsetSpec.for_timestamp(int(which))},
            isolation_level=IsolationLevel[isolation.upper()]))
        return [(found.offset,)]

    def send(self, producer, name, partition, fields):
        reports = []
        for index, record in enumerate(map(decode_record, fields)):
            producer.produce(name, record.value, record.key, int(partition),
                             on_delivery=lambda error, message, index=index:
                             reports.append((index, error, message)),
                             timestamp=record.timestamp or 0, headers=list(record.headers))
        left = producer.flush(PATIENCE + 5)
        check(left and -1, f"{left} records are still on their way")
        for _, error, _ in sorted(reports, key=lambda report: report[0]):
            raise_kafka_error(error)
        return [(message.offset() if message.offset() is not None else -1,)
                for _, _, message in sorted(reports, key=lambda report: report[0])]

    def make_producer(self, **more):
        return Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 20,
                         "message.max.bytes": 8 << 20, "message.timeout.ms": PATIENCE_MS,
                         "topic.metadata.propagation.max.ms": 3000, **more})

    def produce(self, name, partition, options, *fields):
        options = settings(options.split(","))
        producer = self.make_producer(**{"acks": options["acks"],
                                         "compression.type": options["codec"],
                                         "enable.idempotence": options["idempotent"] == "1"})
        return self.send(producer, name, partition, fields)

    def transaction(self, name, partition, transactional_id, end, *fields):
        producer = self.make_producer(**{"transactional.id": transactional_id,
                                         "transaction.timeout.ms": PATIENCE_MS})
        producer.init_transactions(PATIENCE)
        producer.begin_transaction()
        self.send(producer, name, partition, fields)
        if end == "commit":
            producer.commit_transaction(PATIENCE)
        else:
            producer.abort_transaction(PATIENCE)

    def open(self, name, partition, isolation, reset):
        self.close()
        self.consumer = Consumer({
            "bootstrap.servers": self.bootstrap, "isolation.level": isolation, "check.crcs": True,
            "auto.offset.reset": "error" if reset == "none" else reset,
            "group.id": "not-a-group", "enable.auto.commit": False,
            "enable.auto.offset.store": False})
        self.assigned = TopicPartition(name, int(partition))

    def seek(self, where):
        self.fetched = []
        offset = {"begin": confluent_kafka.OFFSET_BEGINNING,
                  "end": confluent_kafka.OFFSET_END}.get(where)
        self.assigned.offset = int(where) if offset is None else offset
        if self.consumer.assignment():
            self.consumer.seek(self.assigned)
        else:
            self.consumer.assign([self.assigned])

    def fetch(self, seconds):
        end = time.monotonic() + seconds
        for message in self.consumer.consume(500, max(0, end - time.monotonic())):
            raise_kafka_error(message.error())
            kind, timestamp = message.timestamp()
            self.fetched.append(Read(message.offset(), kind - 1, Record(
                message.key(), message.value(), tuple(message.headers() or ()), timestamp)))

    def read(self, count):
        end = time.monotonic() + PATIENCE
        while len(self.fetched) < int(count):
            if time.monotonic() > end:
                raise TimeoutError(f"{len(self.fetched)} of {count} records came")
            self.fetch(0.1)
        found, self.fetched = self.fetched[:int(count)], self.fetched[int(count):]
        return [show(one) for one in found]

    def poll(self, milliseconds):
        self.fetch(int(milliseconds) / 1000)
        found, self.fetched = self.fetched, []
        return [show(one) for one in found]

    def close(self):
        self.fetched = []
        if self.consumer:
            self.consumer.close()
        self.consumer = None


class Translated:
    def __init__(self, driver):
        self.driver = driver

    def __getattr__(self, name):
        return translated(getattr(self.driver, name))


if __name__ == "__main__":
    serve(Translated(Confluent()))
