// The rules that the model explores: the production functions, each replaceable by a broken one in
// the test that shows that the exploration finds it; and the bounds of an exploration.
#pragma once

#include <string>

#include "src/statemachine/reconcile.h"
#include "src/statemachine/stop_rules.h"
#include "tests/model/world.h"

namespace kmirror::model {

struct Rules {
  decltype(&statemachine::Decide) decide = statemachine::Decide;
  decltype(&statemachine::CheckWrite) check = statemachine::CheckWrite;
  decltype(&statemachine::ApplyWrite) apply = statemachine::ApplyWrite;
  decltype(&statemachine::Reconcile) reconcile = statemachine::Reconcile;
  decltype(&statemachine::EntryAction) entry = statemachine::EntryAction;
  decltype(&statemachine::MustTakeOver) must_take_over = statemachine::MustTakeOver;
  decltype(&statemachine::RetriesByItself) retries = statemachine::RetriesByItself;
  decltype(&statemachine::SourceLossFails) source_loss = statemachine::SourceLossFails;
  decltype(&statemachine::ChooseStartCut) choose_cut = statemachine::ChooseStartCut;
  decltype(&statemachine::CutAfterExchange) cut_after_exchange = statemachine::CutAfterExchange;
  decltype(&statemachine::StopIsOnlyAWrite) only_a_write = statemachine::StopIsOnlyAWrite;
  decltype(&statemachine::StopTakesPosition) takes_position = statemachine::StopTakesPosition;
  decltype(&statemachine::PositionAtEnd) position_at_end = statemachine::PositionAtEnd;
  decltype(&statemachine::StopEpochFloor) stop_floor = statemachine::StopEpochFloor;

  // Faults of a driver rather than of a rule.
  bool acts_before_answer = false;          // believes a state before the shard has answered
  bool skips_replication = false;           // takes the position from what followers do not hold
  bool skips_sync = false;                  // and from what the disk does not hold
  bool skips_abort = false;                 // leaves transactions open
  bool cuts_unannounced = false;            // truncates before CUT_CHOSEN is stored
  bool resends_without_reading = false;     // after a refused write
  bool reads_instead_of_resending = false;  // when a write is not answered and the wish changed
};

struct Scope {
  std::string name;
  int brokers = 1;
  bool power_loss = false;         // a kill takes what was not synced
  bool follow_truncation = false;  // mirror.support.unclean.leader.election
  bool stop_truncates = false;     // stop.uncommitted=truncate
  int max_attempts = 2;            // mirror.failed.retry.max.attempts
  Log source;                      // as the world begins
  Log local;                       // records here before any mirror
  std::array<uint8_t, kBudgets> budget{};
};

}  // namespace kmirror::model
