// Arrays for the generated messages: one template instead of a loop a field.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "src/protocol/reader.h"
#include "src/protocol/writer.h"

namespace kmirror::protocol {

// A length that passed Reader::ReadArrayLength may still claim more memory than its bytes are
// worth; past this the vector grows with what was really read.
inline constexpr size_t kArrayReserveMax = 1024;

// element(T*) reads one element; the reader's error names `field` and the index.
template <typename T, typename Element>
bool ReadElements(Reader& r, std::string_view field, size_t count, std::vector<T>* out,
                  Element element) {
  out->clear();
  out->reserve(std::min(count, kArrayReserveMax));
  for (size_t i = 0; i < count; ++i) {
    if (!element(&out->emplace_back())) return r.At(field, i);
  }
  return true;
}

template <typename T, typename Element>
bool ReadArray(Reader& r, std::string_view field, bool flexible, size_t element_bytes,
               std::vector<T>* out, Element element) {
  std::optional<size_t> count;
  if (!r.ReadArrayLength(flexible, false, element_bytes, &count)) return r.At(field);
  return ReadElements(r, field, *count, out, element);
}

template <typename T, typename Element>
bool ReadArray(Reader& r, std::string_view field, bool flexible, bool nullable,
               size_t element_bytes, std::optional<std::vector<T>>* out, Element element) {
  std::optional<size_t> count;
  if (!r.ReadArrayLength(flexible, nullable, element_bytes, &count)) return r.At(field);
  if (!count) {
    out->reset();
    return true;
  }
  return ReadElements(r, field, *count, &out->emplace(), element);
}

// element(const T&) writes one element.
template <typename T, typename Element>
bool PutArray(Writer& w, std::string_view field, bool flexible, const std::vector<T>& in,
              Element element) {
  if (!w.PutArrayLength(flexible, in.size())) return w.At(field);
  for (size_t i = 0; i < in.size(); ++i) {
    if (!element(in[i])) return w.At(field, i);
  }
  return true;
}

template <typename T, typename Element>
bool PutArray(Writer& w, std::string_view field, bool flexible, bool nullable,
              const std::optional<std::vector<T>>& in, Element element) {
  if (in) return PutArray(w, field, flexible, *in, element);
  if (!w.PutNullArray(flexible, nullable)) return w.At(field);
  return true;
}

}  // namespace kmirror::protocol
