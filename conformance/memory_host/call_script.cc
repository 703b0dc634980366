#include "conformance/memory_host/call_script.h"

#include <algorithm>

namespace kmirror::conformance {

bool CallScript::Matches(const std::string& pattern, const std::string& full) {
  if (pattern.empty() || pattern == full) return true;
  return full.size() > pattern.size() && full.compare(0, pattern.size(), pattern) == 0 &&
         full[pattern.size()] == ':';
}

bool CallScript::Take(const std::string& op, const std::string& full, Planned* planned) {
  for (const std::string* name : {&full, &op}) {
    if (const auto it = next_.find(*name); it != next_.end() && !it->second.empty()) {
      *planned = std::move(it->second.front());
      it->second.pop_front();
      return true;
    }
  }
  for (const std::string* name : {&full, &op}) {
    if (const auto it = always_.find(*name); it != always_.end()) {
      *planned = it->second;
      return true;
    }
  }
  return false;
}

host::Completion CallScript::Deliver(host::Completion done) {
  return [this, generation = generation_, expected = *generation_,
          done = std::move(done)](Status status) {
    if (*generation != expected) return;  // answers to a process that is gone
    if (inline_) {
      done(std::move(status));
      return;
    }
    lane_->Post([generation, expected, done, status = std::move(status)] {
      if (*generation == expected) done(status);
    });
  };
}

void CallScript::Run(std::string_view op, std::string_view detail, Body body,
                     host::Completion done) {
  const std::string name(op);
  const std::string full = detail.empty() ? name : name + ":" + std::string(detail);
  history_.push_back(full);
  host::Completion deliver = Deliver(std::move(done));
  Planned planned{};
  if (!Take(name, full, &planned)) {
    body(std::move(deliver));
    return;
  }
  switch (planned.fault) {
    case Fault::kRefuse: deliver(planned.status); break;
    case Fault::kLoseAnswer:
      body([deliver, status = planned.status](Status) { deliver(status); });
      break;
    case Fault::kHold:
      held_.push_back({full, [body = std::move(body), deliver] { body(deliver); }});
      break;
    case Fault::kHoldAnswer:
      body([this, full, deliver](Status status) {
        held_.push_back({full, [deliver, status = std::move(status)] { deliver(status); }});
      });
      break;
  }
}

Status CallScript::Inline(std::string_view op) {
  const std::string name(op);
  history_.push_back(name);
  Planned planned{};
  return Take(name, name, &planned) ? planned.status : Status::Ok();
}

size_t CallScript::Release(const std::string& op) {
  std::deque<Held> go;
  for (auto it = held_.begin(); it != held_.end();) {
    if (Matches(op, it->op)) {
      go.push_back(std::move(*it));
      it = held_.erase(it);
    } else {
      ++it;
    }
  }
  for (Held& held : go) held.go_on();
  return go.size();
}

size_t CallScript::held(const std::string& op) const {
  return static_cast<size_t>(std::count_if(held_.begin(), held_.end(),
                                           [&](const Held& held) { return Matches(op, held.op); }));
}

size_t CallScript::calls(const std::string& op) const {
  return static_cast<size_t>(
      std::count_if(history_.begin(), history_.end(),
                    [&](const std::string& call) { return Matches(op, call); }));
}

void CallScript::Drop() {
  ++*generation_;
  held_.clear();
}

}  // namespace kmirror::conformance
