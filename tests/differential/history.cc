#include "tests/differential/history.h"

#include <algorithm>

#include "messages/create_topics.h"
#include "tests/differential/deviations.h"

namespace kmirror::test {
namespace {

std::string Kind(const Answer& answer) {
  if (!answer.trouble.empty()) return answer.trouble;
  return answer.closed ? "connection closed" : "no answer wanted";
}

std::string Short(std::string text) {
  constexpr size_t kMax = 400;
  if (text.size() > kMax) text = text.substr(0, kMax) + " ...";
  return text;
}

std::vector<WeightedAction> AllActions() {
  std::vector<WeightedAction> all;
  for (const auto& some : {TopicActions(), DataActions(), FetchActions(), ConfigActions(),
                           DiscoveryActions(), DeviationActions()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace

History::History(uint64_t seed, Side& kafka_side, Side& our_side, Report& report)
    : kafka(kafka_side), ours(our_side), seed_(seed), report_(report), random_(seed) {}

int64_t History::Between(int64_t first, int64_t last) {
  // Not std::uniform_int_distribution: its numbers differ between libraries.
  return first + static_cast<int64_t>(random_() % static_cast<uint64_t>(last - first + 1));
}

bool History::Run(int steps) {
  static const std::vector<WeightedAction> kActions = AllActions();
  int total = 0;
  for (const WeightedAction& each : kActions) total += each.weight;
  Begin();
  while (steps_ < steps && !given_up_) {
    int64_t pick = Between(1, total);
    for (const WeightedAction& each : kActions) {
      pick -= each.weight;
      if (pick > 0) continue;
      each.action(*this);
      break;
    }
  }
  if (!given_up_) End();
  report_.HistoryDone();
  return !given_up_;
}

void History::BothBytes(const std::string& what, int16_t key, int16_t version,
                        const std::vector<uint8_t>& bytes) {
  const Answer theirs = kafka.AskBytes(key, version, bytes);
  const Answer mine = ours.AskBytes(key, version, bytes);
  Judge({what, version, "bytes"}, theirs, mine, {});
}

void History::Must(const Status& status, const char* what) {
  if (status.ok() || given_up_) return;
  given_up_ = true;
  report_.GivenUp(seed_, std::string(what) + ": " + status.ToString());
}

void History::Judge(Step step, const Answer& kafka_answer, const Answer& our_answer,
                    const StepOptions& options) {
  ++steps_;
  std::vector<Difference> differences;
  int64_t fields = 1;
  if (kafka_answer.frame.empty() || our_answer.frame.empty()) {
    const auto shown = [](const Answer& answer) {
      return answer.frame.empty() ? nlohmann::json(Kind(answer)) : answer.body;
    };
    if (kafka_answer.frame.empty() != our_answer.frame.empty() ||
        Kind(kafka_answer) != Kind(our_answer)) {
      differences.push_back({"", shown(kafka_answer), shown(our_answer)});
    }
  } else {
    fields = Compare(NormalForm(kafka_answer.body, kafka, options.normal),
                     NormalForm(our_answer.body, ours, options.normal), &differences);
  }
  report_.Count(step, fields);
  for (const Difference& difference : differences) {
    const Deviation* known = Explain(step.api, difference, options.mark);
    if (known != nullptr) {
      report_.Explained(std::string(known->id));
      continue;
    }
    report_.Unexplained(seed_, steps_, step, difference, trail_);
    given_up_ = true;  // the two may not be alike any more
  }
  trail_.push_back(
      step.api + " v" + std::to_string(step.version) + " " + Short(step.request) + " -> " +
      Short(kafka_answer.frame.empty() ? Kind(kafka_answer) : kafka_answer.body.dump()));
}

TopicView* History::AnyTopic() { return topics.empty() ? nullptr : &AnyOf(topics); }

TopicView* History::Find(const std::string& name) {
  const auto found = std::ranges::find(topics, name, &TopicView::name);
  return found == topics.end() ? nullptr : &*found;
}

void History::AddTopic(const std::string& name, int32_t partitions) {
  Must(kafka.AwaitTopic(name, partitions), "topic");
  Must(ours.AwaitTopic(name, partitions), "topic");
  topics.push_back({name, std::vector<TopicView::Partition>(static_cast<size_t>(partitions))});
}

void History::RemoveTopic(const std::string& name) {
  Must(kafka.AwaitGone(name), "deletion");
  Must(ours.AwaitGone(name), "deletion");
  std::erase_if(topics, [&](const TopicView& each) { return each.name == name; });
  std::erase_if(sequences, [&](const auto& each) { return std::get<0>(each.first) == name; });
}

// The fence, and one topic that works.
void History::Begin() {
  for (const std::string& name : {std::string(kFence), NewTopicName()}) {
    const auto partitions = static_cast<int32_t>(name == kFence ? 1 : Between(1, 3));
    Both<protocol::CreateTopicsResponse>(7, [&](Side& side) {
      protocol::CreateTopicsRequest request;
      auto& topic = request.topics.emplace_back();
      topic.name = side.prefix() + name;
      topic.num_partitions = partitions;
      topic.replication_factor = 1;
      return request;
    });
    AddTopic(name, partitions);
  }
  topics.erase(topics.begin());  // nothing else happens to the fence
}

}  // namespace kmirror::test
