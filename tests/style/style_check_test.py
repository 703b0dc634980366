#!/usr/bin/env python3
"""Plants a violation of each rule in a small tree and expects exactly that rule to answer."""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import style_check  # noqa: E402

CLEAN = {
    "include/kmirror/status.h": '#pragma once\n#include <string>\n#include "kmirror/types.h"\n',
    "src/log/README.md": "Owns the log rules.\n",
    "src/log/batch.h": '#pragma once\n#include "src/base/crc.h"\n// never sleep_for here\n',
    "src/fetcher/README.md": "Owns fetching.\n",
    "src/fetcher/gate.cc": '#include "src/log/batch.h"\n#include "messages/fetch.h"\n',
    "src/net/README.md": "Owns sockets.\n",
    "src/net/loop.cc": "#include <boost/asio.hpp>\nauto t = std::chrono::steady_clock::now();\n",
    "src/facade.cc": '#include "src/coordinator/coordinator.h"\n',
    "broker/storage/README.md": "Owns files.\n",
    "broker/storage/segment.cc": '#include "broker/storage/segment.h"\n'
                                 '#include "src/fetcher/abstract_fetcher_thread.h"\n',
    "broker/mirror_host/README.md": "Implements the seam.\n",
    "broker/mirror_host/host.cc": '#include "kmirror/host/runtime.h"\n'
                                  '#include "broker/storage/segment.h"\n',
    "tests/log/batch_test.cc": "TEST(Batch, Works) {}\n",
    "docs/notes.md": "See src/work/ and https://example.org/home/page.\n",
}

# rule -> files that each break it, one at a time, added to the clean tree.
PLANTED = {
    "include-direction": {
        "src/log/a.cc": '#include "src/fetcher/gate.h"\n',
        "src/log/c.cc": '#include "messages/fetch.h"\n',
        "src/fetcher/a.cc": '#include "src/coordinator/coordinator.h"\n',
        "src/fetcher/b.cc": '#include "src/net/connection.h"\n',
        "broker/storage/a.cc": '#include "src/coordinator/coordinator.h"\n',
        "broker/storage/b.cc": '#include "src/fetcher/mirror_fetcher_thread.h"\n',
        "broker/mirror_host/a.cc": '#include "src/protocol/reader.h"\n',
        "conformance/a.cc": '#include "src/log/batch.h"\n',
        "examples/a.cc": '#include "src/log/batch.h"\n',
        "src/log/b.cc": '#include "broker/storage/segment.h"\n',
    },
    "include-from-root": {"src/log/a.cc": '#include "batch.h"\n'},
    "public-include": {
        "include/kmirror/a.h": "#pragma once\n#include <spdlog/spdlog.h>\n",
        "include/kmirror/b.h": "#pragma once\n#include <absl/time/time.h>\n",
        "include/kmirror/c.h": '#pragma once\n#include "src/base/crc.h"\n',
    },
    "pure-folder": {
        "src/log/a.cc": "#include <boost/asio.hpp>\n",
        "src/log/b.cc": "#include <spdlog/spdlog.h>\n",
    },
    "sleep-in-test": {
        "tests/log/a_test.cc": "std::this_thread::sleep_for(1s);\n",
        "tests/log/b_test.cc": "usleep(10);\n",
    },
    "real-clock": {
        "src/log/a.cc": "auto t = std::chrono::system_clock::now();\n",
        "src/fetcher/a.cc": "auto t = std::chrono::steady_clock::now();\n",
    },
    "environment-read": {"src/log/a.cc": 'auto* p = getenv("X");\n'},
    "global-logger": {"src/fetcher/a.cc": 'spdlog::info("x");\n'},
    "coroutine": {"src/net/a.cc": "co_await x;\n"},
    "skipped-test": {"tests/log/a_test.cc": "GTEST_SKIP();\n"},
    "rdkafka": {"broker/storage/a.cc": "rd_kafka_new(1);\n"},
    "columns": {"src/log/a.cc": "x" * 101 + "\n"},
    "pragma-once": {"src/log/a.h": "int x;\n"},
    "test-file-name": {"tests/log/batch.cc": "TEST(Batch, Works) {}\n"},
    "file-name": {
        "src/log/Batch.cc": "\n",
        "src/log/batch.cpp": "\n",
        "src/log/log_utils.h": "#pragma once\n",
    },
    "machine-path": {"docs/a.md": "see /" + "work/x\n", "scripts/a": 'cd "/' + 'root/x"\n'},
    "registry-host": {"scripts/b": "GOPROXY" + "=x\n", "docs/b.md": "https://artifactory" + ".x/y\n"},
    "area-readme": {
        "src/quota/CMakeLists.txt": "\n",
        "src/log/README.md": "line\n" * 13,
    },
}


def write_tree(root, files):
    for path, text in files.items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)


class StyleCheckTest(unittest.TestCase):
    def rules_of(self, files):
        with tempfile.TemporaryDirectory() as root:
            write_tree(root, files)
            return [(v.rule, v.path) for v in style_check.check_tree(root)[1]]

    def test_a_clean_tree_has_no_violation(self):
        self.assertEqual([], self.rules_of(CLEAN))

    def test_each_planted_violation_is_found_and_nothing_else(self):
        for rule, files in PLANTED.items():
            for path, text in files.items():
                with self.subTest(rule=rule, path=path):
                    found = self.rules_of({**CLEAN, path: text})
                    self.assertEqual([rule], [r for r, _ in found])

    def test_every_banned_word_has_a_planted_case(self):
        self.assertLessEqual({banned[0] for banned in style_check.BANNED}, set(PLANTED))


if __name__ == "__main__":
    unittest.main()
