// What a partition's leader does next, given what is wanted and what is stored
// (coordinator.md 1.5).
#pragma once

#include <optional>

#include "src/statemachine/partition_rules.h"

namespace kmirror::statemachine {

// Either an event to decide on, or "re-assert": run the entry action of the stored state again.
struct Next {
  std::optional<PartitionEvent> event;
  bool reassert = false;  // neither: wait
};

// Run after leadership, after each change of the desired state and after every completed
// transition.
Next Reconcile(DesiredState desired, const PartitionRecord& record);

// Does a source that is gone for good (its topic deleted, another cluster at its address) fail the
// partition? Not one whose stop is wanted or under way: it needs no source any more.
bool SourceLossFails(DesiredState desired, const PartitionRecord& record);

}  // namespace kmirror::statemachine
