// What the command line prints: tables for people, JSON for programs. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "tools/kmirror/mirror_admin.h"

namespace kmirror::tools {

// One mirror and all its partitions.
struct MirrorSummary {
  ListedMirror mirror;
  std::vector<PartitionRow> rows;
  std::map<std::string, int> states;  // partitions a state
  int64_t greatest_lag = -1;          // of those whose lag is known
  int64_t greatest_lag_age_ms = -1;   // how old that knowledge is
  int unknown_lags = 0;               // MIRRORING partitions without a known lag
};
// In the order of `mirrors`. Rows of mirrors that are not listed come as mirrors of their own.
std::vector<MirrorSummary> Summarise(const std::vector<ListedMirror>& mirrors,
                                     const std::vector<PartitionRow>& rows);

// "MIRRORING 10, FAILED 2"; "-" when empty. In the order of a partition's life.
std::string StatesText(const std::map<std::string, int>& states);
// "850 ms", "12.4 s", "3 min 20 s"; "-" when negative.
std::string AgeText(int64_t ms);
// At most `width` columns, cut on the left ("...end of the name").
std::string Fit(const std::string& text, size_t width);

void PrintList(const std::vector<ListedMirror>& mirrors, std::ostream& out);
void PrintDescription(const std::vector<PartitionRow>& rows, std::ostream& out);
void PrintFailed(const std::vector<PartitionRow>& rows, std::ostream& out);
void PrintStatus(const std::vector<MirrorSummary>& summaries, std::ostream& out);

// An array of partitions (describe), or of mirrors with their partitions (list, status).
std::string DescriptionJson(const std::vector<PartitionRow>& rows);
std::string SummaryJson(const std::vector<MirrorSummary>& summaries);

}  // namespace kmirror::tools
