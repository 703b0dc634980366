#!/usr/bin/env python3
"""Carries out the calls of tests/clients/README.md with kafka-python."""
import re
import time

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource
from kafka.protocol.consumer.offsets import OffsetSpec

from driver_calls import (PATIENCE, PATIENCE_MS, BrokerError, Read, Record, Unsupported, check,
                          decode_record, ids, serve, settings, show, text_bytes)

SOURCES = {"DYNAMIC_TOPIC_CONFIG": 1, "DYNAMIC_BROKER_CONFIG": 2,
           "DYNAMIC_DEFAULT_BROKER_CONFIG": 3, "STATIC_BROKER_CONFIG": 4, "DEFAULT_CONFIG": 5}


class KafkaPython:
    def __init__(self):
        self.admin = self.consumer = None
        self.fetched = []

    def hello(self):
        return [("kafka-python", kafka.__version__)]

    def connect(self, bootstrap):
        if self.admin:
            self.admin.close()
        self.bootstrap = bootstrap
        self.admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def cluster(self):
        found = self.admin.describe_cluster()
        return [(found["cluster_id"], found["controller_id"]),
                *((broker["broker_id"], broker["host"], broker["port"])
                  for broker in found["brokers"])]

    def list_topics(self):
        return [(name,) for name in self.admin.list_topics()]

    def create_topic(self, name, partitions, replication, *configs):
        self.admin.create_topics({name: {"num_partitions": int(partitions),
                                         "replication_factor": int(replication),
                                         "configs": settings(configs)}})

    def delete_topic(self, name):
        self.admin.delete_topics([name])

    def describe_topic(self, name):
        topic, = self.admin.describe_topics([name])
        check(topic["error_code"])
        return [(one["partition_index"], one["leader_id"], ids(one["replica_nodes"]),
                 ids(one["isr_nodes"])) for one in topic["partitions"]]

    def describe_topic_pages(self, name, limit):
        rows, cursor = [], None
        while True:
            page = self.admin.describe_topic_partitions([name], int(limit), cursor)
            for topic in page["topics"]:
                check(topic["error_code"])
                if len(topic["partitions"]) > int(limit):
                    raise ValueError(f"{len(topic['partitions'])} partitions in one answer")
                rows += [(one["partition_index"], one["leader_id"], ids(one["replica_nodes"]),
                          ids(one["isr_nodes"])) for one in topic["partitions"]]
            cursor = page["next_cursor"]
            if cursor is None:
                return rows

    def describe_configs(self, kind, name):
        found = self.admin.describe_configs([ConfigResource(kind, name)], config_filter="all")
        configs = found[kind][name]
        if not configs:
            raise Unsupported  # an error of the broker, which the library does not show
        return [(key, text_bytes(config["value"]), SOURCES.get(config["config_source"], 0),
                 int(config["read_only"])) for key, config in configs.items()]

    def change_configs(self, name, configs, incremental):
        found = self.admin.alter_configs([ConfigResource("topic", name, configs)],
                                         raise_on_unknown=False, incremental=incremental)
        result = found["topic"][name]
        if result != "OK":  # the library gives the error as text
            raise BrokerError(int(re.match(r"\[Error (\d+)\]", result).group(1)), result)

    def alter_configs(self, name, *changes):
        configs = {}
        for change in changes:
            key, _, value = change[1:].partition("=")
            configs[key] = ("SET", value) if change[0] == "+" else ("DELETE", None)
        self.change_configs(name, configs, incremental=True)

    def replace_configs(self, name, *configs):
        # Left alone the library would fill in what is set now; an empty value of what it finds is
        # not sent, so ask for the request itself.
        self.admin._add_missing_dynamic_configs = self.nothing_missing
        try:
            self.change_configs(name, settings(configs), incremental=False)
        finally:
            del self.admin._add_missing_dynamic_configs

    async def nothing_missing(self, _):
        pass

    def create_partitions(self, name, total):
        self.admin.create_partitions({name: int(total)})

    def delete_records(self, name, partition, offset):
        where = TopicPartition(name, int(partition))
        found = self.admin.delete_records({where: int(offset)})
        return [(found[where]["low_watermark"],)]

    def describe_log_dirs(self, name):
        rows = []
        for broker in self.admin.describe_log_dirs([name]):
            for folder in broker["log_dirs"]:
                check(folder["error_code"])
                for topic in folder["topics"]:
                    if topic["name"] == name:
                        rows += [(one["partition_index"], one["partition_size"])
                                 for one in topic["partitions"]]
        return rows

    def list_config_resources(self):
        return [(name,) for name in self.admin.list_config_resources(["TOPIC"])["topic"]]

    def elect_leaders(self, name, partition):
        found = self.admin.elect_leaders(0, {name: [int(partition)]}, raise_errors=False)
        check(found.error_code)
        for topic in found.replica_election_results:
            for one in topic.partition_result:
                check(one.error_code, one.error_message)

    def describe_producers(self, name, partition):
        where = TopicPartition(name, int(partition))
        return [(one.producer_id, one.producer_epoch, one.last_sequence)
                for one in self.admin.describe_producers([where])[where].active_producers]

    def offset(self, name, partition, which, isolation):
        where = TopicPartition(name, int(partition))
        spec = {"earliest": OffsetSpec.EARLIEST, "latest": OffsetSpec.LATEST}.get(which)
        found = self.admin.list_partition_offsets(
            {where: int(which) if spec is None else spec}, isolation_level=isolation)
        return [(found[where].offset,)]

    def send(self, producer, name, partition, fields):
        records = [decode_record(field) for field in fields]
        if any(record.key is None and record.value is None or
               any(value is None for _, value in record.headers) for record in records):
            raise Unsupported
        sent = [producer.send(name, record.value, record.key, list(record.headers),
                              int(partition), record.timestamp) for record in records]
        producer.flush(PATIENCE)
        return [(one.get(PATIENCE).offset,) for one in sent]

    def producer(self, **more):
        return KafkaProducer(bootstrap_servers=self.bootstrap, linger_ms=20, max_block_ms=5000,
                             max_request_size=8 << 20, delivery_timeout_ms=PATIENCE_MS,
                             request_timeout_ms=20000, **more)

    def produce(self, name, partition, options, *fields):
        options = settings(options.split(","))
        codec = options["codec"]
        producer = self.producer(acks=options["acks"] if options["acks"] == "all"
                                 else int(options["acks"]),
                                 compression_type=None if codec == "none" else codec,
                                 enable_idempotence=options["idempotent"] == "1")
        try:
            return self.send(producer, name, partition, fields)
        finally:
            producer.close(timeout=5)

    def transaction(self, name, partition, transactional_id, end, *fields):
        producer = self.producer(transactional_id=transactional_id)
        try:
            producer.init_transactions()
            producer.begin_transaction()
            self.send(producer, name, partition, fields)
            producer.commit_transaction() if end == "commit" else producer.abort_transaction()
        finally:
            producer.close(timeout=5)

    def open(self, name, partition, isolation, reset):
        self.close()
        self.consumer = KafkaConsumer(bootstrap_servers=self.bootstrap, isolation_level=isolation,
                                      auto_offset_reset=reset, enable_auto_commit=False,
                                      group_id=None)
        self.assigned = TopicPartition(name, int(partition))
        self.consumer.assign([self.assigned])

    def seek(self, where):
        self.fetched = []
        if where == "begin":
            self.consumer.seek_to_beginning(self.assigned)
        elif where == "end":
            self.consumer.seek_to_end(self.assigned)
        else:
            self.consumer.seek(self.assigned, int(where))

    def fetch(self, milliseconds):
        for record in self.consumer.poll(milliseconds).get(self.assigned, []):
            self.fetched.append(Read(record.offset, record.timestamp_type, Record(
                record.key, record.value, tuple(record.headers), record.timestamp)))

    def read(self, count):
        end = time.monotonic() + PATIENCE
        while len(self.fetched) < int(count):
            if time.monotonic() > end:
                raise TimeoutError(f"{len(self.fetched)} of {count} records came")
            self.fetch(200)
        found, self.fetched = self.fetched[:int(count)], self.fetched[int(count):]
        return [show(one) for one in found]

    def poll(self, milliseconds):
        self.fetch(int(milliseconds))
        found, self.fetched = self.fetched, []
        return [show(one) for one in found]

    def close(self):
        self.fetched = []
        if self.consumer:
            self.consumer.close()
        self.consumer = None


if __name__ == "__main__":
    serve(KafkaPython())
