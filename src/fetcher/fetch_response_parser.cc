#include "src/fetcher/fetch_response_parser.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "kmirror/log/batch.h"
#include "kmirror/log/checksum.h"

namespace kmirror::fetcher {
namespace {

constexpr size_t kElementMaxBytes = 1 << 20;  // a topic name is 32 KiB at most; tags may be longer
constexpr size_t kSpareSets = 4;
constexpr uint32_t kDivergingEpochTag = 0;
constexpr uint32_t kCurrentLeaderTag = 1;
constexpr uint32_t kNodeEndpointsTag = 0;

void AppendPiece(std::vector<ByteView>* pieces, const uint8_t* at, size_t size) {
  if (!pieces->empty() && pieces->back().data() + pieces->back().size() == at) {
    pieces->back() = ByteView(pieces->back().data(), pieces->back().size() + size);
  } else {
    pieces->emplace_back(at, size);
  }
}

void AppendSlab(std::vector<SlabRef>* slabs, const SlabRef& slab) {
  if (slabs->empty() || !(slabs->back() == slab)) slabs->push_back(slab);
}

}  // namespace

// Reads an element from bytes that may end anywhere: `short_of` tells "wait" from "wrong".
class FetchResponseParser::Cursor {
 public:
  Cursor(const uint8_t* at, size_t size) : begin_(at), at_(at), end_(at + size) {}

  size_t taken() const { return static_cast<size_t>(at_ - begin_); }
  size_t left() const { return static_cast<size_t>(end_ - at_); }
  bool is_short() const { return short_; }

  template <typename T>
  bool Int(T* out) {
    if (left() < sizeof(T)) return Short();
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) value = value << 8 | at_[i];
    at_ += sizeof(T);
    *out = static_cast<T>(value);
    return true;
  }
  bool Varint(uint32_t* out) {
    uint64_t value = 0;
    for (int i = 0; i < 5; ++i) {
      if (left() == 0) return Short();
      const uint8_t byte = *at_++;
      value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
      if ((byte & 0x80) == 0) {
        if (value > UINT32_MAX) return Bad();
        *out = static_cast<uint32_t>(value);
        return true;
      }
    }
    return Bad();
  }
  bool Raw(size_t size, const uint8_t** out) {
    if (left() < size) return Short();
    *out = at_;
    at_ += size;
    return true;
  }
  bool Id(Uuid* out) {
    const uint8_t* raw = nullptr;
    if (!Raw(out->bytes.size(), &raw)) return false;
    std::memcpy(out->bytes.data(), raw, out->bytes.size());
    return true;
  }
  bool Text(bool flexible, std::string* out) {
    int32_t size = 0;
    if (flexible) {
      uint32_t plus_one = 0;
      if (!Varint(&plus_one)) return false;
      if (plus_one == 0 || plus_one > 32768) return Bad();
      size = static_cast<int32_t>(plus_one - 1);
    } else {
      int16_t classic = 0;
      if (!Int(&classic)) return false;
      if (classic < 0) return Bad();
      size = classic;
    }
    const uint8_t* raw = nullptr;
    if (!Raw(static_cast<size_t>(size), &raw)) return false;
    out->assign(reinterpret_cast<const char*>(raw), static_cast<size_t>(size));
    return true;
  }
  // Elements of an array; null is 0.
  bool Count(bool flexible, int64_t* out) {
    if (flexible) {
      uint32_t plus_one = 0;
      if (!Varint(&plus_one)) return false;
      *out = plus_one == 0 ? 0 : static_cast<int64_t>(plus_one) - 1;
    } else {
      int32_t count = 0;
      if (!Int(&count)) return false;
      if (count < -1) return Bad();
      *out = std::max(count, 0);
    }
    return true;
  }
  // Calls known(tag, value) for each tag; its false is "bad". Values are bounded by the caller's
  // element limit, since a longer one never arrives whole.
  template <typename Known>
  bool Tags(Known known) {
    uint32_t count = 0;
    if (!Varint(&count)) return false;
    for (uint32_t i = 0; i < count; ++i) {
      uint32_t tag = 0, size = 0;
      const uint8_t* raw = nullptr;
      if (!Varint(&tag) || !Varint(&size)) return false;
      if (size > kElementMaxBytes) return Bad();
      if (!Raw(size, &raw)) return false;
      Cursor value(raw, size);
      if (!known(tag, value)) return Bad();
    }
    return true;
  }
  bool Bad() { return false; }

 private:
  bool Short() {
    short_ = true;
    return false;
  }

  const uint8_t* begin_;
  const uint8_t* at_;
  const uint8_t* end_;
  bool short_ = false;
};

FetchResponseParser::FetchResponseParser(SlabPool* pool, FetchResponseHandler* handler)
    : pool_(pool), handler_(handler) {}

void FetchResponseParser::Begin(int16_t version, size_t body_bytes) {
  Abandon();
  version_ = version;
  body_left_ = body_bytes;
  state_ = State::kPrologue;
  refused_ = {};
  element_.clear();
  endpoints_.clear();
}

void FetchResponseParser::Abandon() {
  DropOpen();
  if (set_ != nullptr) set_->Clear();
  slab_.Reset();
  fill_ = 0;
  state_ = State::kDone;
  body_left_ = 0;
}

std::span<uint8_t> FetchResponseParser::Room(size_t left) {
  if (slab_ && slab_.Unshared())
    fill_ = 0;  // nothing in it is alive: use it again while it is warm
  if (slab_ && fill_ == Slab::kBytes) slab_.Reset();
  if (!slab_) {
    fill_ = 0;
    slab_ = pool_->Acquire();
    if (!slab_) {
      EmitSet();
      handler_->OnMemoryShort();
      slab_ = pool_->Acquire();
    }
    if (!slab_) {
      if (handler_->HoldsSets()) return {};
      slab_ = pool_->AcquireBeyondBound();
    }
  }
  return {slab_.bytes() + fill_, std::min(Slab::kBytes - fill_, left)};
}

Status FetchResponseParser::Received(size_t bytes) {
  const uint8_t* at = slab_.bytes() + fill_;
  fill_ += bytes;
  if (element_.size() + bytes > body_left_) {
    return Malformed("more bytes than the frame's size says");
  }
  return Consume(at, bytes);
}

Status FetchResponseParser::Finish() {
  if (state_ != State::kDone && state_ != State::kSkip) {
    return Malformed("the answer ends too early");
  }
  const Status refused = refused_;
  state_ = State::kDone;
  // An idle fetcher keeps no slab.
  if (slab_ && slab_.Unshared()) slab_.Reset();
  return refused;
}

void FetchResponseParser::Recycle(std::unique_ptr<FetchedSet> set) {
  set->Clear();
  if (spare_sets_.size() < kSpareSets) spare_sets_.push_back(std::move(set));
}

Status FetchResponseParser::Malformed(const std::string& what) {
  state_ = State::kDone;
  DropOpen();
  if (set_ != nullptr) set_->Clear();
  return {ErrorCode::kMalformed, "fetch answer: " + what};
}

Status FetchResponseParser::Consume(const uint8_t* at, size_t size) {
  while (size > 0) {
    if (state_ == State::kRecords) {
      const size_t taken = ConsumeRecords(at, size);
      at += taken;
      size -= taken;
      body_left_ -= taken;
      Settle();
    } else if (state_ == State::kSkip) {
      body_left_ -= size;
      return {};
    } else if (state_ == State::kDone) {
      return Malformed("bytes after its end");
    } else if (Status status = ConsumeElement(at, size); !status.ok()) {
      return status;
    }
  }
  return {};
}

Status FetchResponseParser::ConsumeElement(const uint8_t*& at, size_t& size) {
  const size_t before = element_.size();
  if (before == 0) {
    Cursor in(at, size);
    switch (ParseElement(in)) {
      case Step::kOk:
        at += in.taken();
        size -= in.taken();
        body_left_ -= in.taken();
        Settle();
        return {};
      case Step::kBad: return Malformed(bad_);
      case Step::kShort: break;
    }
    if (size >= body_left_) return Malformed("the answer ends within a field");
    if (size > kElementMaxBytes) return Malformed("a field longer than any may be");
    element_.assign(at, at + size);
    at += size;
    size = 0;
    return {};
  }
  // body_left_ still counts the bytes kept in element_.
  const size_t more = std::min(size, kElementMaxBytes);
  element_.insert(element_.end(), at, at + more);
  Cursor in(element_.data(), element_.size());
  switch (ParseElement(in)) {
    case Step::kOk: {
      const size_t taken = in.taken();
      at += taken - before;
      size -= taken - before;
      body_left_ -= taken;
      element_.clear();
      Settle();
      return {};
    }
    case Step::kBad: return Malformed(bad_);
    case Step::kShort: break;
  }
  if (element_.size() >= body_left_) return Malformed("the answer ends within a field");
  if (element_.size() > kElementMaxBytes) return Malformed("a field longer than any may be");
  at += more;
  size -= more;
  return {};
}

FetchResponseParser::Step FetchResponseParser::ParseElement(Cursor& in) {
  bad_.clear();
  switch (state_) {
    case State::kPrologue: return ParsePrologue(in);
    case State::kTopic: return ParseTopic(in);
    case State::kPartition: return ParsePartition(in);
    case State::kAborted: return ParseAborted(in);
    case State::kRecordsLength: return ParseRecordsLength(in);
    case State::kPartitionTags: return ParsePartitionTags(in);
    case State::kTopicTags: {
      if (!in.Tags([](uint32_t, Cursor&) { return true; })) break;
      state_ = State::kTopic;
      return Step::kOk;
    }
    case State::kEndTags: return ParseEndTags(in);
    case State::kRecords:
    case State::kDone:
    case State::kSkip: break;
  }
  if (in.is_short()) return Step::kShort;
  if (bad_.empty()) bad_ = "tags that do not decode";
  return Step::kBad;
}

FetchResponseParser::Step FetchResponseParser::ParsePrologue(Cursor& in) {
  int32_t throttle = 0, session = 0;
  int16_t error = 0;
  int64_t topics = 0;
  if (!in.Int(&throttle) || !in.Int(&error) || !in.Int(&session) ||
      !in.Count(flexible(), &topics)) {
    bad_ = "its start does not decode";
    return in.is_short() ? Step::kShort : Step::kBad;
  }
  if (topics > static_cast<int64_t>(body_left_)) {
    bad_ = std::to_string(topics) + " topics in " + std::to_string(body_left_) + " bytes";
    return Step::kBad;
  }
  topics_left_ = topics;
  refused_ = handler_->OnPrologue(std::max(throttle, 0), static_cast<ErrorCode>(error), session);
  state_ = refused_.ok() ? State::kTopic : State::kSkip;
  return Step::kOk;
}

FetchResponseParser::Step FetchResponseParser::ParseTopic(Cursor& in) {
  const bool ids = version_ >= kFetchFirstTopicIds;
  int64_t partitions = 0;
  if (!(ids ? in.Id(&partition_.topic_id) : in.Text(flexible(), &partition_.topic)) ||
      !in.Count(flexible(), &partitions)) {
    bad_ = "a topic that does not decode";
    return in.is_short() ? Step::kShort : Step::kBad;
  }
  if (partitions > static_cast<int64_t>(body_left_)) {
    bad_ = std::to_string(partitions) + " partitions in " + std::to_string(body_left_) + " bytes";
    return Step::kBad;
  }
  --topics_left_;
  partitions_left_ = partitions;
  state_ = State::kPartition;
  return Step::kOk;
}

FetchResponseParser::Step FetchResponseParser::ParsePartition(Cursor& in) {
  int16_t error = 0;
  int64_t aborted = 0;
  FetchedPartition& out = partition_;
  if (!in.Int(&out.index) || !in.Int(&error) || !in.Int(&out.high_watermark) ||
      !in.Int(&out.last_stable_offset) || !in.Int(&out.log_start_offset) ||
      !in.Count(flexible(), &aborted)) {
    bad_ = "a partition that does not decode";
    return in.is_short() ? Step::kShort : Step::kBad;
  }
  if (aborted > static_cast<int64_t>(body_left_ / 16)) {
    bad_ = std::to_string(aborted) + " aborted transactions in " + std::to_string(body_left_) +
           " bytes";
    return Step::kBad;
  }
  out.error = static_cast<ErrorCode>(error);
  aborted_left_ = aborted;
  state_ = State::kAborted;
  return Step::kOk;
}

FetchResponseParser::Step FetchResponseParser::ParseAborted(Cursor& in) {
  const uint8_t* ignored = nullptr;  // undecided transactions are mirrored as they are
  if (!in.Raw(16, &ignored) ||
      (flexible() && !in.Tags([](uint32_t, Cursor&) { return true; }))) {
    bad_ = "an aborted transaction that does not decode";
    return in.is_short() ? Step::kShort : Step::kBad;
  }
  --aborted_left_;
  return Step::kOk;
}

FetchResponseParser::Step FetchResponseParser::ParseRecordsLength(Cursor& in) {
  partition_.preferred_read_replica = -1;
  int64_t bytes = 0;
  if ((version_ >= 11 && !in.Int(&partition_.preferred_read_replica)) ||
      !in.Count(flexible(), &bytes)) {
    bad_ = "a records length that does not decode";
    return in.is_short() ? Step::kShort : Step::kBad;
  }
  if (bytes > static_cast<int64_t>(body_left_ - in.taken())) {
    bad_ = "records of " + std::to_string(bytes) + " bytes where " +
           std::to_string(body_left_ - in.taken()) + " are left";
    return Step::kBad;
  }
  partition_.records_bytes = bytes;
  records_left_ = bytes;
  end_ = {};
  previous_last_offset_ = -1;
  skip_records_ = !handler_->OnPartition(partition_);
  state_ = State::kRecords;
  return Step::kOk;
}

FetchResponseParser::Step FetchResponseParser::ParsePartitionTags(Cursor& in) {
  host::EpochEnd diverging;
  int32_t leader_id = -1, leader_epoch = -1;
  const auto known = [&](uint32_t tag, Cursor& value) {
    const auto no_tags = [](uint32_t, Cursor&) { return true; };
    if (tag == kDivergingEpochTag) {
      return value.Int(&diverging.epoch) && value.Int(&diverging.end_offset) && value.Tags(no_tags);
    }
    if (tag == kCurrentLeaderTag) {
      return value.Int(&leader_id) && value.Int(&leader_epoch) && value.Tags(no_tags);
    }
    return true;
  };
  if (!in.Tags(known)) {
    bad_ = "tags of a partition that do not decode";
    return in.is_short() ? Step::kShort : Step::kBad;
  }
  end_.diverging = diverging;
  end_.leader_id = leader_id;
  end_.leader_epoch = leader_epoch;
  EndPartition();
  return Step::kOk;
}

FetchResponseParser::Step FetchResponseParser::ParseEndTags(Cursor& in) {
  std::vector<NodeEndpoint> endpoints;
  const auto known = [&](uint32_t tag, Cursor& value) {
    if (tag != kNodeEndpointsTag || version_ < kFetchFirstEndpoints) return true;
    int64_t count = 0;
    if (!value.Count(true, &count) || count > static_cast<int64_t>(value.left())) return false;
    for (int64_t i = 0; i < count; ++i) {
      NodeEndpoint node;
      uint32_t rack_plus_one = 0;
      const uint8_t* rack = nullptr;
      if (!value.Int(&node.id) || !value.Text(true, &node.address.host) ||
          !value.Int(&node.address.port) || !value.Varint(&rack_plus_one) ||
          (rack_plus_one > 1 && !value.Raw(rack_plus_one - 1, &rack)) ||
          !value.Tags([](uint32_t, Cursor&) { return true; })) {
        return false;
      }
      endpoints.push_back(std::move(node));
    }
    return true;
  };
  if (!in.Tags(known)) {
    bad_ = "tags at its end that do not decode";
    return in.is_short() ? Step::kShort : Step::kBad;
  }
  endpoints_ = std::move(endpoints);
  state_ = State::kDone;
  return Step::kOk;
}

void FetchResponseParser::Settle() {
  for (;;) {
    if (state_ == State::kAborted && aborted_left_ == 0) {
      state_ = State::kRecordsLength;
    } else if (state_ == State::kRecords && records_left_ == 0) {
      // A header that never became whole, or nothing at all.
      if (open_size_ > 0) {
        end_.partial_bytes += static_cast<int64_t>(open_size_);
        DropOpen();
      }
      if (flexible()) {
        state_ = State::kPartitionTags;
      } else {
        EndPartition();
      }
    } else if (state_ == State::kPartition && partitions_left_ == 0) {
      state_ = flexible() ? State::kTopicTags : State::kTopic;
      if (flexible()) return;
    } else if (state_ == State::kTopic && topics_left_ == 0) {
      state_ = flexible() ? State::kEndTags : State::kDone;
      return;
    } else {
      return;
    }
  }
}

void FetchResponseParser::EndPartition() {
  --partitions_left_;
  state_ = State::kPartition;
  // A source that says our epochs diverge sends no records; if it does, they are not for this log.
  if (end_.diverging.end_offset >= 0 && set_ != nullptr) set_->Clear();
  EmitSet();
  handler_->OnPartitionEnd(partition_, end_);
}

// ---- Records.

size_t FetchResponseParser::ConsumeRecords(const uint8_t* at, size_t size) {
  const size_t all =
      static_cast<size_t>(std::min<int64_t>(records_left_, static_cast<int64_t>(size)));
  size_t left = all;
  while (left > 0) {
    size_t taken = 0;
    if (skip_records_) {
      taken = left;
      records_left_ -= static_cast<int64_t>(taken);
    } else if (!in_batch_) {
      taken = ConsumeHeader(at, left);
    } else {
      taken = static_cast<size_t>(std::min<int64_t>(batch_left_, static_cast<int64_t>(left)));
      TakeBytes(at, taken);
      if (batch_left_ == 0) FinishBatch();
    }
    at += taken;
    left -= taken;
  }
  return all;
}

size_t FetchResponseParser::ConsumeHeader(const uint8_t* at, size_t size) {
  ByteView view(at, size);
  if (open_size_ > 0) {
    const size_t more = std::min(header_.size() - open_size_, size);
    std::memcpy(header_.data() + open_size_, at, more);
    view = ByteView(header_.data(), open_size_ + more);
  }
  const log::ParseResult parsed = log::ParseBatchHeader(view, &info_);
  if (parsed == log::ParseResult::kCorrupt) {
    Corrupt("a batch header that cannot be", -1);
    return 0;
  }
  if (parsed == log::ParseResult::kIncomplete) {
    // All that there is goes to the header's buffer; view.size() < 61 here.
    if (open_size_ == 0) std::memcpy(header_.data(), at, std::min(size, header_.size()));
    records_left_ -= static_cast<int64_t>(size);
    AppendPiece(&open_bytes_, at, size);
    AppendSlab(&open_slabs_, slab_);
    open_size_ += size;
    return size;
  }
  if (info_.bytes > static_cast<int64_t>(open_size_) + records_left_) {
    // Cut off by the partition's limit at the source: not ours to judge.
    end_.partial_bytes += static_cast<int64_t>(open_size_) + records_left_;
    DropOpen();
    skip_records_ = true;
    return 0;
  }
  const size_t crc_start = info_.magic >= 2 ? log::kBatchCrcStart : log::kLegacyCrcStart;
  stored_crc_ = log::StoredBatchCrc(view);
  crc_ = 0;
  crc_skip_ = crc_start;
  in_batch_ = true;
  batch_left_ = info_.bytes - static_cast<int64_t>(open_size_);
  if (open_size_ > 0) {
    const size_t skipped = std::min(crc_skip_, open_size_);
    crc_skip_ -= skipped;
    const ByteView covered(header_.data() + skipped, open_size_ - skipped);
    if (!covered.empty()) {
      crc_ = info_.magic >= 2 ? log::Crc32c(crc_, covered) : log::Crc32Ieee(crc_, covered);
    }
  }
  return 0;
}

void FetchResponseParser::TakeBytes(const uint8_t* at, size_t size) {
  records_left_ -= static_cast<int64_t>(size);
  batch_left_ -= static_cast<int64_t>(size);
  if (open_size_ == 0 && batch_left_ == 0) {
    // The common case: the whole batch in one piece, straight into the set.
    AppendPiece(&set().bytes, at, size);
    AppendSlab(&set().slabs, slab_);
  } else {
    AppendPiece(&open_bytes_, at, size);
    AppendSlab(&open_slabs_, slab_);
    open_size_ += size;
  }
  const size_t skipped = std::min(crc_skip_, size);
  crc_skip_ -= skipped;
  const ByteView covered(at + skipped, size - skipped);
  if (covered.empty()) return;
  crc_ = info_.magic >= 2 ? log::Crc32c(crc_, covered) : log::Crc32Ieee(crc_, covered);
}

void FetchResponseParser::FinishBatch() {
  in_batch_ = false;
  const size_t size = static_cast<size_t>(info_.bytes);
  const int64_t base = info_.base_offset;
  if (crc_ != stored_crc_) return Corrupt("checksum mismatch", base);
  if (info_.last_offset <= previous_last_offset_ ||
      (info_.magic >= 2 && base <= previous_last_offset_)) {
    return Corrupt("offsets that do not increase", base);
  }
  FetchedSet& out = set();
  if (info_.IsControl()) {
    std::vector<uint8_t> gathered;
    ByteView whole;
    if (open_size_ == 0) {
      whole = out.bytes.back().last(size);
    } else {
      gathered.reserve(size);
      for (const ByteView piece : open_bytes_) {
        gathered.insert(gathered.end(), piece.begin(), piece.end());
      }
      whole = gathered;
    }
    if (log::ParseControlRecord(whole, &info_) != log::ParseResult::kOk) {
      return Corrupt("a control batch that does not decode", base);
    }
  }
  if (open_size_ > 0) {
    for (const ByteView piece : open_bytes_) AppendPiece(&out.bytes, piece.data(), piece.size());
    for (const SlabRef& slab : open_slabs_) AppendSlab(&out.slabs, slab);
    DropOpen();
  }
  out.size += size;
  out.batches.push_back(info_);
  previous_last_offset_ = info_.last_offset;
  if (out.size >= kSetBytes) EmitSet();
}

void FetchResponseParser::Corrupt(std::string why, int64_t offset) {
  DropOpen();
  if (set_ != nullptr) set_->Clear();
  skip_records_ = true;
  end_.corrupt = true;
  end_.corruption = std::move(why);
  end_.corrupt_offset = offset;
}

void FetchResponseParser::DropOpen() {
  open_bytes_.clear();
  open_slabs_.clear();
  open_size_ = 0;
  in_batch_ = false;
}

FetchedSet& FetchResponseParser::set() {
  if (set_ == nullptr) {
    if (spare_sets_.empty()) {
      set_ = std::make_unique<FetchedSet>();
    } else {
      set_ = std::move(spare_sets_.back());
      spare_sets_.pop_back();
    }
  }
  return *set_;
}

void FetchResponseParser::EmitSet() {
  if (set_ == nullptr || set_->batches.empty()) return;
  handler_->OnSet(std::move(set_));
}

}  // namespace kmirror::fetcher
