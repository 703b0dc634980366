// Why a mirror has up to three fetchers for one number and source broker: each holds a fetch of its
// own at the source, and a partition belongs to the one whose fetch suits it (decisions 0006,
// 0012).
#pragma once

#include <cstdint>

namespace kmirror::fetcher {

enum class FetcherRole : uint8_t {
  kHot,       // waits at the source for `fetch.wait.max.ms`
  kNewcomer,  // hardly waits: partitions begin here while the hot fetch is under way, and leave for
              // the hot fetcher once they have caught up
  kCold,      // waits long: many partitions without data
};

// What a fetcher's name says of it.
inline const char* SuffixOf(FetcherRole role) {
  switch (role) {
    case FetcherRole::kHot: return "";
    case FetcherRole::kNewcomer: return "-new";
    case FetcherRole::kCold: return "-cold";
  }
  return "";
}

}  // namespace kmirror::fetcher
