#include "src/protocol/field_error.h"

namespace kmirror::protocol {

bool FieldError::Fail(std::string reason) {
  if (!failed_) reason_ = std::move(reason);
  failed_ = true;
  return false;
}

bool FieldError::At(std::string_view field) {
  if (path_.empty()) {
    path_ = field;
  } else {
    path_ = std::string(field).append(".").append(path_);
  }
  return false;
}

bool FieldError::At(std::string_view field, size_t index) {
  return At(std::string(field) + "[" + std::to_string(index) + "]");
}

std::string FieldError::text() const { return path_.empty() ? reason_ : path_ + ": " + reason_; }

}  // namespace kmirror::protocol
