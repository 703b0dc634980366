// Which APIs kmirrord serves, in which versions, and by whom: the one table of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "broker/server/handlers.h"
#include "kmirror/mirror.h"

namespace kmirror::broker {

struct ApiEntry {
  int16_t key;
  int16_t advertised_min;
  int16_t min_version;
  int16_t max_version;
  Handler handler;
};

// The broker's own APIs, in order of key.
std::span<const ApiEntry> BrokerApis();
const ApiEntry* FindBrokerApi(int16_t key);
// What ApiVersions tells: the broker's own and all of the library's (R35), in order of key.
std::vector<ServedApi> AdvertisedApis();

}  // namespace kmirror::broker
