#!/usr/bin/env python3
"""The producer of the figures speaks Kafka's protocol by itself: batches and requests, byte by byte."""
import os
import socket
import struct
import sys
import threading
import types
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
from figures import cluster  # noqa: E402


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


class BatchTest(unittest.TestCase):
    def test_crc32c_of_the_known_text(self):
        self.assertEqual(cluster.crc32c(b"123456789"), 0xE3069283)

    def test_a_batch_of_many_records(self):
        batch = cluster.batch_of_records(15, 1024, 77)
        base, size, epoch, magic, crc = struct.unpack_from(">qiibI", batch)
        self.assertEqual((base, size, epoch, magic), (0, len(batch) - 12, -1, 2))
        self.assertEqual(crc, cluster.crc32c(batch[21:]))
        fields = struct.unpack_from(">hiqqqhii", batch, 21)
        self.assertEqual(fields, (0, 14, 77, 77, -1, -1, -1, 15))
        at = 61
        for offset in range(15):
            size, at = read_varint(batch, at)
            end = at + size
            self.assertEqual(batch[at], 0)
            values = []
            at += 1
            for _ in range(4):  # time delta, offset delta, key, value
                value, at = read_varint(batch, at)
                values.append(value)
            self.assertEqual(values, [0, offset, -1, 1024])
            self.assertEqual(batch[at:at + 1024], bytes(1024))
            headers, at = read_varint(batch, at + 1024)
            self.assertEqual((headers, at), (0, end))
        self.assertEqual(at, len(batch))
        self.assertEqual(len(batch), 61 + 15 * (1024 + 9))

    def test_a_batch_of_one_record_has_about_the_size_asked_for(self):
        for size in (1000, 16384, 1 << 16):
            self.assertAlmostEqual(len(cluster.batch_of(size, 1)), size, delta=20)


class ClientTest(unittest.TestCase):
    """A client against a socket that notes what it gets and answers what it is told."""

    def ask(self, answer, call):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            client = cluster.Client(types.SimpleNamespace(host="127.0.0.1", port=listener.getsockname()[1]))
            server, _ = listener.accept()
            got = []

            def serve():
                size = struct.unpack(">i", server.recv(4, socket.MSG_WAITALL))[0]
                got.append(server.recv(size, socket.MSG_WAITALL))
                server.sendall(struct.pack(">ii", 4 + len(answer), 1) + answer)

            thread = threading.Thread(target=serve)
            thread.start()
            try:
                result = call(client)
            finally:
                thread.join()
                client.close()
                server.close()
        key, version, _ = struct.unpack_from(">hhi", got[0])
        return result, (key, version), got[0][8 + 2 + len("bench"):]

    def test_the_end_of_a_partition(self):
        head = struct.pack(">i", 1) + cluster.string("t") + struct.pack(">i", 1)
        end, api, body = self.ask(head + struct.pack(">ihqq", 3, 0, -1, 4711), lambda c: c.end_offset("t", 3))
        self.assertEqual((end, api), (4711, (2, 1)))
        self.assertEqual(body, struct.pack(">ii", -1, 1) + cluster.string("t") + struct.pack(">iiq", 1, 3, -1))
        for error, expected in ((3, -1), (6, -1)):
            end, _, _ = self.ask(head + struct.pack(">ihqq", 3, error, -1, -1), lambda c: c.end_offset("t", 3))
            self.assertEqual(end, expected)
        with self.assertRaises(RuntimeError):
            self.ask(head + struct.pack(">ihqq", 3, 29, -1, -1), lambda c: c.end_offset("t", 3))

    def test_a_topic_on_one_node(self):
        answer = struct.pack(">ii", 0, 1) + cluster.string("t") + struct.pack(">hh", 0, -1)
        _, api, body = self.ask(answer, lambda c: c.create_topic("t", node=2))
        self.assertEqual(api, (19, 2))
        self.assertEqual(body, struct.pack(">i", 1) + cluster.string("t") +
                         struct.pack(">ihiiiii", -1, -1, 1, 0, 1, 2, 0) + struct.pack(">ib", 30000, 0))

    def test_a_topic_deleted(self):
        answer = struct.pack(">ii", 0, 1) + cluster.string("t") + struct.pack(">h", 0)
        _, api, body = self.ask(answer, lambda c: c.delete_topic("t"))
        self.assertEqual((api, body), ((20, 1), struct.pack(">i", 1) + cluster.string("t") + struct.pack(">i", 30000)))
        with self.assertRaises(RuntimeError):
            self.ask(answer[:-2] + struct.pack(">h", 42), lambda c: c.delete_topic("t"))

    def reassigned(self, error, partition_error):
        answer = b"\0" + struct.pack(">ihB", 0, error, 0)
        answer += b"\2\2t\2" + struct.pack(">ihB", 0, partition_error, 0) + b"\0\0\0"
        return self.ask(answer, lambda c: c.reassign("t", [1, 2]))

    def test_a_reassignment(self):
        _, api, body = self.reassigned(0, 0)
        self.assertEqual(api, (45, 0))
        self.assertEqual(body, b"\0" + struct.pack(">i", 30000) +
                         b"\2\2t\2" + struct.pack(">i", 0) + b"\3" + struct.pack(">ii", 1, 2) + b"\0\0\0")

    def test_a_reassignment_that_is_refused(self):
        for errors in ((29, 0), (0, 39)):
            with self.assertRaisesRegex(RuntimeError, f"error {max(errors)}"):
                self.reassigned(*errors)

    def test_who_has_a_partition(self):
        answer = struct.pack(">i", 2)
        for node in (1, 2):
            answer += struct.pack(">i", node) + cluster.string("127.0.0.1") + struct.pack(">ih", 9092, -1)
        answer += struct.pack(">iih", 1, 1, 0) + cluster.string("t") + struct.pack(">bi", 0, 1)
        answer += struct.pack(">hii", 0, 0, 1) + struct.pack(">iii", 2, 1, 2) + struct.pack(">ii", 1, 1)
        found, api, body = self.ask(answer, lambda c: c.replicas("t"))
        self.assertEqual((found, api), ([[1, 2], [1]], (3, 1)))
        self.assertEqual(body, struct.pack(">i", 1) + cluster.string("t"))


if __name__ == "__main__":
    unittest.main()
