#include "broker/storage/decompress.h"

#include <lz4frame.h>
#include <snappy.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "src/log/big_endian.h"

namespace kmirror::broker {
namespace {

using Bytes = std::vector<uint8_t>;

Status Corrupt(const char* codec) {
  return {ErrorCode::kCorruptMessage, std::string(codec) + " data does not unpack"};
}

// Makes room for more output; false at the limit.
bool Grow(Bytes* out, size_t used) {
  if (used < out->size()) return true;
  if (out->size() >= kDecompressedBytesMax) return false;
  out->resize(std::min(kDecompressedBytesMax, std::max<size_t>(out->size() * 2, 65536)));
  return true;
}

Result<Bytes> Gzip(ByteView in) {
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 32) != Z_OK) return Corrupt("gzip");  // gzip or zlib header
  const std::unique_ptr<z_stream, int (*)(z_stream*)> owner(&stream, inflateEnd);
  stream.next_in = const_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  Bytes out;
  size_t used = 0;
  for (int result = Z_OK; result != Z_STREAM_END;) {
    if (!Grow(&out, used)) return Corrupt("gzip");
    stream.next_out = out.data() + used;
    stream.avail_out = static_cast<uInt>(out.size() - used);
    result = inflate(&stream, Z_NO_FLUSH);
    used = out.size() - stream.avail_out;
    if (result != Z_OK && result != Z_STREAM_END) return Corrupt("gzip");
    if (result == Z_OK && stream.avail_in == 0 && stream.avail_out > 0) return Corrupt("gzip");
  }
  out.resize(used);
  return out;
}

// Either Java's framing (magic, two versions, then blocks of length and raw snappy) or a raw block.
Result<Bytes> Snappy(ByteView in) {
  static constexpr uint8_t kMagic[8] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0};
  Bytes out;
  const auto block = [&](ByteView part) {
    const auto* data = reinterpret_cast<const char*>(part.data());
    size_t length = 0;
    if (!snappy::GetUncompressedLength(data, part.size(), &length)) return false;
    if (length > kDecompressedBytesMax - out.size()) return false;
    const size_t before = out.size();
    out.resize(before + length);
    return snappy::RawUncompress(data, part.size(), reinterpret_cast<char*>(out.data() + before));
  };
  if (in.size() < 16 || std::memcmp(in.data(), kMagic, sizeof kMagic) != 0) {
    if (!block(in)) return Corrupt("snappy");
    return out;
  }
  in = in.subspan(16);
  while (!in.empty()) {
    if (in.size() < 4) return Corrupt("snappy");
    const auto length = log::LoadBig<int32_t>(in.data());
    in = in.subspan(4);
    if (length < 0 || static_cast<size_t>(length) > in.size() || !block(in.first(length))) {
      return Corrupt("snappy");
    }
    in = in.subspan(length);
  }
  return out;
}

Result<Bytes> Lz4(ByteView in) {
  LZ4F_dctx* context = nullptr;
  if (LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION))) return Corrupt("lz4");
  const std::unique_ptr<LZ4F_dctx, LZ4F_errorCode_t (*)(LZ4F_dctx*)> owner(
      context, LZ4F_freeDecompressionContext);
  Bytes out;
  size_t used = 0;
  size_t hint = 1;
  while (hint != 0) {
    if (!Grow(&out, used)) return Corrupt("lz4");
    size_t produced = out.size() - used;
    size_t consumed = in.size();
    hint = LZ4F_decompress(context, out.data() + used, &produced, in.data(), &consumed, nullptr);
    if (LZ4F_isError(hint) || (produced == 0 && consumed == 0)) return Corrupt("lz4");
    used += produced;
    in = in.subspan(consumed);
  }
  out.resize(used);
  return out;
}

Result<Bytes> Zstd(ByteView in) {
  const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(),
                                                                   ZSTD_freeDCtx);
  if (context == nullptr) return Corrupt("zstd");
  ZSTD_inBuffer source{in.data(), in.size(), 0};
  Bytes out;
  size_t used = 0;
  for (size_t hint = 1; hint != 0;) {
    if (!Grow(&out, used)) return Corrupt("zstd");
    ZSTD_outBuffer target{out.data(), out.size(), used};
    const size_t before = source.pos;
    hint = ZSTD_decompressStream(context.get(), &target, &source);
    if (ZSTD_isError(hint) || (target.pos == used && source.pos == before)) return Corrupt("zstd");
    used = target.pos;
  }
  out.resize(used);
  return out;
}

}  // namespace

Result<std::vector<uint8_t>> Decompress(int compression_id, ByteView records) {
  switch (compression_id) {
    case 0: return Bytes(records.begin(), records.end());
    case 1: return Gzip(records);
    case 2: return Snappy(records);
    case 3: return Lz4(records);
    case 4: return Zstd(records);
    default:
      return Status(ErrorCode::kUnsupportedCompressionType,
                    "compression " + std::to_string(compression_id));
  }
}

}  // namespace kmirror::broker
