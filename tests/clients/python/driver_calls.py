"""What the Python drivers share: reading calls, writing answers (see ../README.md)."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from driver_process import (  # noqa: E402,F401
    Read, Record, Unsupported, decode_record, encode_bytes, encode_record)

PATIENCE_MS = 30000
PATIENCE = PATIENCE_MS / 1000


class BrokerError(Exception):
    """For libraries that show an error of the broker as a number or a text."""

    def __init__(self, code, text=""):
        super().__init__(f"{code} {text}")
        self.errno = code


def check(code, text=""):
    if code != 0:
        raise BrokerError(code, text or "")


def settings(fields):
    return dict(field.split("=", 1) for field in fields)


def ids(nodes):
    return ",".join(str(node) for node in nodes)


def show(read):
    return (read.offset, read.timestamp_type, encode_record(read.record))


def text_bytes(text):
    return encode_bytes(None if text is None else text.encode())


def answer(driver, call):
    """The lines of an answer. Calls are methods of the driver that give rows, or None."""
    method = getattr(driver, call[0], None)
    if method is None:
        return ["unsupported"]
    try:
        rows = method(*call[1:]) or []
        return ["row\t" + "\t".join(str(field) for field in row) for row in rows] + ["ok"]
    except Unsupported:
        return ["unsupported"]
    except Exception as error:
        code = getattr(error, "errno", None)
        if not isinstance(code, int) or isinstance(error, OSError):
            code = type(error).__name__
        text = re.sub(r"\s+", " ", f"{type(error).__name__} {error}")
        return [f"error\t{code}\t{text[:2000]}"]


def serve(driver):
    for line in sys.stdin.buffer:
        lines = answer(driver, line.decode().rstrip("\n").split("\t"))
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
