#include "tests/differential/batch_text.h"

#include <string>

#include "kmirror/log/batch.h"
#include "kmirror/log/checksum.h"
#include "messages/fetch.h"
#include "tests/differential/side.h"

namespace kmirror::test {
namespace {

using nlohmann::json;

json TextOf(ByteView records, Side& side) {
  json batches = json::array();
  log::BatchWalker walker(records);
  log::BatchInfo info;
  ByteView batch;
  log::BatchWalker::Step step;
  while ((step = walker.Next(&info, &batch)) == log::BatchWalker::kBatch) {
    json text = {{"firstOffset", info.base_offset},
                 {"lastOffset", info.last_offset},
                 {"leaderEpoch", info.leader_epoch},
                 {"magic", info.magic},
                 {"attributes", info.attributes},
                 {"baseTimestamp", info.base_timestamp},
                 {"maxTimestamp", info.max_timestamp},
                 {"producerEpoch", info.producer_epoch},
                 {"baseSequence", info.base_sequence},
                 {"count", info.count},
                 {"bytes", info.bytes},
                 {"crcOk", log::CheckBatchCrc(batch, info)}};
    text["producerId"] =
        info.producer_id < 0 ? json("none") : json(side.ProducerLabel(info.producer_id));
    if (info.IsLogAppendTime()) text["maxTimestamp"] = "the broker's";
    if (info.magic >= 2) text["payload"] = log::Crc32c(0, batch.subspan(log::kBatchHeaderBytes));
    batches.push_back(std::move(text));
  }
  if (step == log::BatchWalker::kCorrupt) batches.push_back("corrupt");
  if (walker.remaining() > 0) batches.push_back("cut, bytes " + std::to_string(walker.remaining()));
  return batches;
}

}  // namespace

void PutBatches(ByteView body, int16_t version, Side& side, json* text) {
  protocol::FetchResponse response;
  if (!protocol::DecodeBody(body, version, &response).ok()) return;
  for (size_t i = 0; i < response.responses.size(); ++i) {
    const auto& partitions = response.responses[i].partitions;
    for (size_t j = 0; j < partitions.size(); ++j) {
      json& partition = (*text)["responses"][i]["partitions"][j];
      if (!partitions[j].records) continue;
      partition.erase("recordsSizeInBytes");
      partition["records"] = TextOf(partitions[j].records->bytes(), side);
    }
  }
}

}  // namespace kmirror::test
