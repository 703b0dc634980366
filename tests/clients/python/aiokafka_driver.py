#!/usr/bin/env python3
"""Carries out the calls of tests/clients/README.md with aiokafka."""
import asyncio
import inspect
import time

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from driver_calls import (PATIENCE, PATIENCE_MS, Read, Record, Unsupported, check, decode_record,
                          ids, serve, settings, show, text_bytes)


class AioKafka:
    def __init__(self):
        self.admin = self.consumer = None
        self.fetched = []

    async def hello(self):
        return [("aiokafka", aiokafka.__version__)]

    async def connect(self, bootstrap):
        if self.admin:
            await self.admin.close()
        self.bootstrap = bootstrap
        self.admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await self.admin.start()

    async def cluster(self):
        found = await self.admin.describe_cluster()
        return [(found["cluster_id"], found["controller_id"]),
                *((broker["node_id"], broker["host"], broker["port"])
                  for broker in found["brokers"])]

    async def list_topics(self):
        return [(name,) for name in await self.admin.list_topics()]

    async def create_topic(self, name, partitions, replication, *configs):
        found = await self.admin.create_topics(
            [NewTopic(name, int(partitions), int(replication), topic_configs=settings(configs))])
        for _, code, *rest in found.topic_errors:
            check(code, rest[0] if rest else "")

    async def delete_topic(self, name):
        for _, code in (await self.admin.delete_topics([name])).topic_error_codes:
            check(code)

    async def describe_topic(self, name):
        topic, = await self.admin.describe_topics([name])
        check(topic["error_code"])
        return [(one["partition"], one["leader"], ids(one["replicas"]), ids(one["isr"]))
                for one in topic["partitions"]]

    async def describe_configs(self, kind, name):
        rows = []
        for response in await self.admin.describe_configs(
                [ConfigResource(ConfigResourceType[kind.upper()], name)]):
            for code, message, _, _, entries in response.resources:
                check(code, message)
                for key, value, read_only, source, *_ in entries:
                    rows.append((key, text_bytes(value), source, int(read_only)))
        return rows

    async def replace_configs(self, name, *configs):
        for response in await self.admin.alter_configs(
                [ConfigResource(ConfigResourceType.TOPIC, name, settings(configs))]):
            for code, message, *_ in response.resources:
                check(code, message)

    async def create_partitions(self, name, total):
        await self.admin.create_partitions({name: NewPartitions(int(total))})

    async def delete_records(self, name, partition, offset):
        where = TopicPartition(name, int(partition))
        found = await self.admin.delete_records({where: RecordsToDelete(int(offset))})
        return [(found[where],)]

    async def offset(self, name, partition, which, isolation):
        where = TopicPartition(name, int(partition))
        consumer = self.make_consumer(isolation, "none")
        await consumer.start()
        try:
            consumer.assign([where])
            if which == "earliest":
                return [((await consumer.beginning_offsets([where]))[where],)]
            if which == "latest":
                return [((await consumer.end_offsets([where]))[where],)]
            found = (await consumer.offsets_for_times({where: int(which)}))[where]
            return [(-1 if found is None else found.offset,)]
        finally:
            await consumer.stop()

    async def send(self, producer, name, partition, fields):
        sent = [await producer.send(name, record.value, record.key, int(partition),
                                    record.timestamp, list(record.headers))
                for record in map(decode_record, fields)]
        await producer.flush()
        return [(found.offset if found else -1,) for found in [await one for one in sent]]

    def refuse_nulls(self, fields):
        records = map(decode_record, fields)
        if any(record.key is None and record.value is None for record in records):
            raise Unsupported

    def make_producer(self, **more):
        return AIOKafkaProducer(bootstrap_servers=self.bootstrap, linger_ms=20,
                                max_request_size=8 << 20, max_batch_size=8 << 20,
                                request_timeout_ms=5000, **more)

    async def produce(self, name, partition, options, *fields):
        self.refuse_nulls(fields)
        options = settings(options.split(","))
        codec = options["codec"]
        producer = self.make_producer(acks=options["acks"] if options["acks"] == "all"
                                      else int(options["acks"]),
                                      compression_type=None if codec == "none" else codec,
                                      enable_idempotence=options["idempotent"] == "1")
        await producer.start()
        try:
            return await self.send(producer, name, partition, fields)
        finally:
            await producer.stop()

    async def transaction(self, name, partition, transactional_id, end, *fields):
        producer = self.make_producer(transactional_id=transactional_id)
        await producer.start()
        try:
            await producer.begin_transaction()
            await self.send(producer, name, partition, fields)
            if end == "commit":
                await producer.commit_transaction()
            else:
                await producer.abort_transaction()
        finally:
            await producer.stop()

    def make_consumer(self, isolation, reset):
        return AIOKafkaConsumer(bootstrap_servers=self.bootstrap, isolation_level=isolation,
                                auto_offset_reset=reset, enable_auto_commit=False, group_id=None,
                                request_timeout_ms=PATIENCE_MS)

    async def open(self, name, partition, isolation, reset):
        await self.close()
        self.consumer = self.make_consumer(isolation, reset)
        await self.consumer.start()
        self.assigned = TopicPartition(name, int(partition))
        self.consumer.assign([self.assigned])

    async def seek(self, where):
        self.fetched = []
        if where == "begin":
            await self.consumer.seek_to_beginning(self.assigned)
        elif where == "end":
            await self.consumer.seek_to_end(self.assigned)
        else:
            self.consumer.seek(self.assigned, int(where))

    async def fetch(self, milliseconds):
        found = await self.consumer.getmany(self.assigned, timeout_ms=milliseconds)
        for record in found.get(self.assigned, []):
            self.fetched.append(Read(record.offset, record.timestamp_type, Record(
                record.key, record.value, tuple(record.headers), record.timestamp)))

    async def read(self, count):
        end = time.monotonic() + PATIENCE
        while len(self.fetched) < int(count):
            if time.monotonic() > end:
                raise TimeoutError(f"{len(self.fetched)} of {count} records came")
            await self.fetch(200)
        found, self.fetched = self.fetched[:int(count)], self.fetched[int(count):]
        return [show(one) for one in found]

    async def poll(self, milliseconds):
        await self.fetch(int(milliseconds))
        found, self.fetched = self.fetched, []
        return [show(one) for one in found]

    async def close(self):
        self.fetched = []
        if self.consumer:
            await self.consumer.stop()
        self.consumer = None


class Blocking:
    """Its calls, each run to its end on one event loop."""

    def __init__(self, driver):
        self.driver, self.loop = driver, asyncio.new_event_loop()

    def __getattr__(self, name):
        method = getattr(self.driver, name)
        if not inspect.iscoroutinefunction(method):
            raise AttributeError(name)
        return lambda *fields: self.loop.run_until_complete(method(*fields))


if __name__ == "__main__":
    serve(Blocking(AioKafka()))
