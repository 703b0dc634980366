#include "src/fetcher/fetch_session.h"

#include <cassert>
#include <cstdint>
#include <utility>

namespace kmirror::fetcher {

FetchSession::Request FetchSession::BuildFull(std::vector<SessionPartition> wanted) {
  assert(NeedsFull());
  Request request;
  request.session_id = id_;
  request.session_epoch = kInitialEpoch;
  entries_.clear();
  for (const SessionPartition& partition : wanted) entries_[partition.key] = {partition, 0};
  request.partitions = std::move(wanted);
  last_was_full_ = true;
  return request;
}

FetchSession::Request FetchSession::BuildIncremental(std::vector<SessionPartition> changed,
                                                     const std::vector<TopicIdPartition>& unwanted,
                                                     std::vector<TopicIdPartition>* again) {
  assert(!NeedsFull());
  Request request;
  request.session_id = id_;
  request.session_epoch = epoch_;
  for (const TopicIdPartition& key : unwanted) {
    const auto it = entries_.find(key);
    if (it == entries_.end()) continue;
    request.forgotten.push_back(std::move(it->second.sent));
    entries_.erase(it);
  }
  for (SessionPartition& partition : changed) {
    const auto it = entries_.find(partition.key);
    if (it == entries_.end()) {
      entries_[partition.key] = {partition, 0};
      request.partitions.push_back(std::move(partition));
      continue;
    }
    if (it->second.sent.generation != partition.generation) {
      again->push_back(partition.key);
      request.forgotten.push_back(std::move(it->second.sent));
      entries_.erase(it);
      request.hurry = true;
      continue;
    }
    if (it->second.sent.SameOnWire(partition)) continue;
    it->second.sent = partition;
    request.partitions.push_back(std::move(partition));
  }
  last_was_full_ = false;
  return request;
}

const SessionPartition* FetchSession::Find(const TopicIdPartition& key) const {
  const auto it = entries_.find(key);
  return it == entries_.end() ? nullptr : &it->second.sent;
}

bool FetchSession::Named(const TopicIdPartition& key) const {
  const auto it = entries_.find(key);
  return it != entries_.end() && it->second.seen_round == round_;
}

Status FetchSession::OnPrologue(ErrorCode error, int32_t session_id) {
  ++round_;
  seen_ = 0;
  mismatch_.clear();
  answer_session_id_ = session_id;
  if (error == ErrorCode::kNone) return {};
  if (error == ErrorCode::kFetchSessionIdNotFound) id_ = 0;
  epoch_ = kInitialEpoch;
  return {error, "the source refused the fetch"};
}

Status FetchSession::OnPartition(const TopicIdPartition* key) {
  const auto it = key == nullptr ? entries_.end() : entries_.find(*key);
  if (it == entries_.end()) {
    mismatch_ = "the answer has a partition that was not asked for";
    return {ErrorCode::kInvalidRequest, mismatch_};
  }
  if (it->second.seen_round == round_) {
    mismatch_ = "the answer has a partition twice";
    return {ErrorCode::kInvalidRequest, mismatch_};
  }
  it->second.seen_round = round_;
  ++seen_;
  return {};
}

Status FetchSession::OnEnd(int32_t throttle_ms) {
  if (last_was_full_) {
    if (seen_ == 0 && mismatch_.empty() && throttle_ms > 0 && !entries_.empty()) {
      // The source's quota: an empty answer that opened no session. No error and no progress.
      id_ = 0;
      epoch_ = kInitialEpoch;
      return {};
    }
    if (mismatch_.empty() && seen_ != entries_.size()) {
      mismatch_ = "the answer to a full fetch lacks partitions";
    }
    if (!mismatch_.empty()) {
      id_ = 0;
      epoch_ = kInitialEpoch;
      return {ErrorCode::kInvalidRequest, mismatch_};
    }
  } else if (!mismatch_.empty()) {
    epoch_ = kInitialEpoch;  // same id: the source closes the old session
    return {ErrorCode::kInvalidRequest, mismatch_};
  }
  if (answer_session_id_ == 0) {
    id_ = 0;
    epoch_ = kInitialEpoch;
    return {};
  }
  id_ = answer_session_id_;
  epoch_ = last_was_full_ ? 1 : (epoch_ == INT32_MAX ? 1 : epoch_ + 1);
  return {};
}

}  // namespace kmirror::fetcher
