// Where in a message a decode or encode went wrong, and why.
//
// The codec returns false up the call chain and each level adds its own name in front, so that the
// good path pays nothing and the text reads "topics[3].partitions[0].records: needs 9 bytes, 4
// left".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kmirror::protocol {

class FieldError {
 public:
  // States the reason. Always false, to be returned. The first reason stays.
  bool Fail(std::string reason);

  // Adds the field (or element of it) the failure happened in. Always false, to be returned.
  bool At(std::string_view field);
  bool At(std::string_view field, size_t index);

  bool failed() const { return failed_; }
  // "path: reason", or the reason alone when it is not inside a field.
  std::string text() const;

 private:
  bool failed_ = false;
  std::string reason_;
  std::string path_;
};

}  // namespace kmirror::protocol
