// One history: a client's life, made from a seed and lived at both brokers in step.
//
// What is asked next depends on the seed and on what Kafka answered, never on kmirrord or a clock,
// so that a seed always asks the same. For one thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/differential/batch_maker.h"
#include "tests/differential/comparison.h"
#include "tests/differential/normal_form.h"
#include "tests/differential/report.h"
#include "tests/differential/side.h"
#include "tests/protocol/json_text.h"

namespace kmirror::test {

struct StepOptions {
  NormalOptions normal;
  std::string_view mark;     // id of the deviation that this step asks for
  std::string note;          // what the request's text does not show
  bool wants_answer = true;  // a Produce with acks 0 has none
};

// A topic as Kafka was heard to have it.
struct TopicView {
  struct Partition {
    int64_t start = 0;
    int64_t end = 0;
  };
  std::string name;  // without the prefix
  std::vector<Partition> partitions;
};

// An idempotent producer towards one partition.
struct SequenceView {
  int16_t epoch = 0;
  int32_t next = 0;
  std::vector<BatchPlan> sent;  // the last ones, for duplicates
};

class History {
 public:
  History(uint64_t seed, Side& kafka, Side& ours, Report& report);

  // Asks until the steps are used up, the end included; false: given up, the report says why.
  bool Run(int steps);

  // --- Chance
  int64_t Between(int64_t first, int64_t last);  // both included
  bool OneIn(int64_t n) { return Between(1, n) == 1; }
  template <typename T>
  T AnyOf(std::initializer_list<T> choices) {
    return *(choices.begin() + Between(0, static_cast<int64_t>(choices.size()) - 1));
  }
  template <typename T>
  T& AnyOf(std::vector<T>& choices) {
    return choices[static_cast<size_t>(Between(0, static_cast<int64_t>(choices.size()) - 1))];
  }
  int16_t Version(int first, int last) { return static_cast<int16_t>(Between(first, last)); }

  // --- Steps

  // Asks both, compares, and gives what Kafka answered; default-made after a difference in kind.
  // `make` builds the request for a side.
  template <typename Response, typename Make>
  Response Both(int16_t version, Make make, const StepOptions& options = {}) {
    using Request = decltype(make(kafka));
    const Request request = make(kafka);
    const Answer theirs = kafka.Ask(request, version, options.wants_answer);
    const Answer mine = ours.Ask(make(ours), version, options.wants_answer);
    Step step{Request::kName, version, Text(request, version)};
    step.api.resize(step.api.size() - std::string_view("Request").size());
    if (!options.note.empty()) step.request += " // " + options.note;
    Judge(std::move(step), theirs, mine, options);
    Response response{};
    if (theirs.frame.empty()) return response;
    frame = theirs.frame;  // records point into it
    int32_t correlation = 0;
    if (!protocol::DecodeResponseFrame(frame, version, &correlation, &response).ok()) return {};
    return response;
  }
  void BothBytes(const std::string& what, int16_t key, int16_t version,
                 const std::vector<uint8_t>& bytes);

  // Of what the harness itself does; a failure ends the history.
  void Must(const Status& status, const char* what);

  // The element of `topics` with that name, made if need be: a client names a topic once.
  template <typename Topics, typename Name>
  static auto& TopicOf(Topics& topics, Name name_of, const std::string& name) {
    for (auto& topic : topics) {
      if (topic.*name_of == name) return topic;
    }
    topics.emplace_back().*name_of = name;
    return topics.back();
  }

  // --- What is known
  TopicView* AnyTopic();  // one that records may go to; nullptr: none yet
  TopicView* Find(const std::string& name);
  void AddTopic(const std::string& name, int32_t partitions);
  void RemoveTopic(const std::string& name);
  std::string NewTopicName() { return "t" + std::to_string(topics_made_++); }
  std::string UnknownTopic() { return "unknown" + std::to_string(Between(0, 1)); }

  Side& kafka;
  Side& ours;
  std::vector<TopicView> topics;
  std::map<std::tuple<std::string, int32_t, size_t>, SequenceView> sequences;
  int session_epoch = 0;  // of the one fetch session; 0: none
  int16_t session_version = 0;
  std::vector<uint8_t> frame;
  static constexpr const char* kFence = "fence";

 private:
  template <typename Request>
  static std::string Text(const Request& request, int16_t version) {
    protocol::Writer writer;
    std::string text;
    if (!Encode(request, version, writer).ok()) return "(does not encode)";
    const std::vector<uint8_t> body = writer.Flatten();
    const Status ignored = protocol::BodyToJson(Request::kApiKey, version,
                                                protocol::Direction::kRequest, body, false, &text);
    (void)ignored;
    return text;
  }
  void Judge(Step step, const Answer& kafka_answer, const Answer& our_answer,
             const StepOptions& options);
  void Begin();
  void End();

  const uint64_t seed_;
  Report& report_;
  std::mt19937_64 random_;
  int steps_ = 0;
  int topics_made_ = 0;
  bool given_up_ = false;
  std::vector<std::string> trail_;  // what was asked, for the report
};

// --- What a history may do next, by subject: one or a few steps each.
using Action = void (*)(History&);
struct WeightedAction {
  int weight;
  Action action;
};
std::span<const WeightedAction> TopicActions();      // topic_actions.cc
std::span<const WeightedAction> DataActions();       // data_actions.cc
std::span<const WeightedAction> FetchActions();      // fetch_actions.cc
std::span<const WeightedAction> ConfigActions();     // config_actions.cc
std::span<const WeightedAction> DiscoveryActions();  // discovery_actions.cc
std::span<const WeightedAction> DeviationActions();  // deviation_actions.cc

}  // namespace kmirror::test
