// Tries to write one record, and shows how a broker refuses it.
#pragma once

#include <iosfwd>
#include <string>

#include "kmirror/status.h"

namespace kmirror::lab {

// Sends one record to partition 0. OK with the broker's words on `out` when it was refused; an
// error when the record was taken.
Status ExpectRefusedProduce(const std::string& bootstrap, const std::string& topic,
                            std::ostream& out);

}  // namespace kmirror::lab
