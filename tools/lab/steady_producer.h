// A producer that never stops: numbered records at a steady rate, first to one cluster, then, when
// told, to another, as an application behind a switched address would.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "kmirror/status.h"

namespace kmirror::lab {

struct ProduceOptions {
  std::string bootstrap;
  std::string topic;
  int rate = 1000;  // records a second
  int value_bytes = 120;
  std::string journal;  // file that gets one line an acknowledged or re-sent record
};

// Value of record `number`: the number in front, filler behind. Read back by NumberOf.
std::string ValueOf(int64_t number, int bytes);
int64_t NumberOf(const std::string& value);  // -1 when it is none of ours

// Reads commands from `commands`, one a line: "to HOST:PORT" changes over to another cluster and
// sends again there what the first has not acknowledged; "stop", or the end of the input, ends the
// work. After every command and at the end a line is written to `out`.
//
// Journal: "ack CLUSTER NUMBER PARTITION OFFSET" (CLUSTER 0, 1, ...), "again NUMBER".
Status ProduceSteadily(const ProduceOptions& options, int commands_fd, std::ostream& out);

}  // namespace kmirror::lab
