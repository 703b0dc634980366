// The durable steps of start, pause, resume and stop, by name. A kill test walks this list and
// kills the process before and after each one; a step that is never reached fails that test.
#pragma once

#include <array>
#include <string_view>

namespace kmirror::coordinator {

inline constexpr std::string_view kStepStartDesired = "start.desired";  // mirror.name stored
inline constexpr std::string_view kStepStartPreparing =
    "start.preparing";                                                  // state PREPARING stored
inline constexpr std::string_view kStepStartEpoch = "start.epoch";      // R27: leader epoch raised
inline constexpr std::string_view kStepStartCutting = "start.cutting";  // Progress 1 stored
inline constexpr std::string_view kStepStartCut = "start.cut";          // log truncated
inline constexpr std::string_view kStepStartMirroring =
    "start.mirroring";  // state MIRRORING stored
inline constexpr std::string_view kStepPauseDesired = "pause.desired";
inline constexpr std::string_view kStepPausePausing = "pause.pausing";
inline constexpr std::string_view kStepPausePaused = "pause.paused";
inline constexpr std::string_view kStepResumeDesired = "resume.desired";
inline constexpr std::string_view kStepResumeMirroring = "resume.mirroring";
inline constexpr std::string_view kStepStopDesired = "stop.desired";
inline constexpr std::string_view kStepStopStopping = "stop.stopping";    // coordinator.md 6.1, 0
inline constexpr std::string_view kStepStopPosition = "stop.position";    // 3 and 4
inline constexpr std::string_view kStepStopEpoch = "stop.epoch";          // 5
inline constexpr std::string_view kStepStopProducers = "stop.producers";  // R9: the id floor
inline constexpr std::string_view kStepStopAbort = "stop.abort";          // 6, once a transaction
inline constexpr std::string_view kStepStopReset = "stop.reset";          // 7
inline constexpr std::string_view kStepStopSync = "stop.sync";            // log tail on disk
inline constexpr std::string_view kStepStopStopped = "stop.stopped";      // 8

inline constexpr std::array kDurableSteps = {
    kStepStartDesired, kStepStartPreparing, kStepStartEpoch,      kStepStartCutting,
    kStepStartCut,     kStepStartMirroring, kStepPauseDesired,    kStepPausePausing,
    kStepPausePaused,  kStepResumeDesired,  kStepResumeMirroring, kStepStopDesired,
    kStepStopStopping, kStepStopPosition,   kStepStopEpoch,       kStepStopProducers,
    kStepStopAbort,    kStepStopReset,      kStepStopSync,        kStepStopStopped};

}  // namespace kmirror::coordinator
