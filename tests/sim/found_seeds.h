// Seeds that found something in the product, once. Each stays a test of its own for ever.
//
// A change of the simulation changes what a seed does: then the seed is one more seed, and the unit
// test that came with the fix (named here) keeps the bug out.
#pragma once

#include <array>
#include <cstdint>

namespace kmirror::sim {

struct FoundSeed {
  const char* name;
  uint64_t seed;
};

inline constexpr std::array<FoundSeed, 22> kFoundSeeds = {{
    // The folders above a new data folder had no durable name: after a loss of power everything
    // was formatted anew. PowerLoss.KeepsAFolderThatWasMadeWithItsParents
    {"NewFolderLost", 6},
    // Records of this cluster came back into a mirror: a cut was stored as made and not synced.
    // PowerLoss.DoesNotBringBackWhatWasCut, LeavesAResetLogEmpty
    {"CutCameBack", 19},
    // The same for a cut that a killed process did not live to sync.
    // PowerLoss.TakesNothingAwayThatAStartHasShown
    {"CutOfADeadProcessCameBack", 900},
    // A state record that only the page cache had was replayed, acted upon, and lost.
    {"ReplayedStateLost", 91},
    // The same for mirrored batches under flush.messages=1.
    {"RecoveredTailLost", 93},
    // The same for the last batch of the metadata. PowerLoss.TakesNoMetadataAwayThatAStartHasShown
    {"MetadataLost", 48},
    // A log that was reopened after a failed sync was not on the disk.
    // PowerLoss.AReopenedLogIsOnTheDisk
    {"ReopenedLogLost", 42},
    // An append that was visible answered NO_SPACE: its flush had no room for the epochs' file.
    // PowerLoss.AFlushNeedsNoRoomForDerivedFiles
    {"FlushOnAFullDisk", 84},
    // A segment lost its end, the next one did not: a hole. PowerLoss.LeavesNoHoleBetweenSegments
    {"HoleBetweenSegments", 312},
    // One refused write made the metadata read-only for good.
    // Metadata.ARefusedWriteThatCouldNotBeCutOffIsCutOffLater
    {"MetadataReadOnly", 253},
    // Lag 0, 23 ms old, for a partition whose last answer was OFFSET_OUT_OF_RANGE.
    // MirrorTest.AnErrorOfThePartitionIsNoNewsOfItsLag
    {"LagOfAnError", 956},
    // A topic linked to a mirror that was deleted meanwhile.
    // Admin.AStartAndADeletionOfTheMirrorExcludeEachOther
    {"StartedIntoNothing", 128},
    // Two starts at the same time, both with the permission to discard: the refused one takes it
    // back from the one that was accepted, which then fails and must be started again. That errs on
    // the safe side and was left.
    {"PermissionTakenBack", 1689},
    // A full disk tore an append, its tail was cut and not synced, and the next segment began
    // there:
    // the torn bytes came back with a loss of power, below the recovery point.
    {"TornTailOfAClosedSegment", 8659},
    // The same for a cut whose sync had failed: the log was reopened, synced without an error, and
    // the cut was not on the disk.
    {"CutOfAFailedSync", 9690},
    // The metadata went on in a log whose name a killed process had not made durable.
    // PowerLoss.KeepsMetadataInALogThatADeadProcessMade
    {"LogOfADeadProcessLost", 308},
    // A cut took whole segments and a part of the one before them; the power went, the part was
    // gone and a segment was back. PowerLoss.ACutOverSegmentsLeavesNoHole
    {"SegmentBehindACutCameBack", 536},
    // A raised log start had no space for its checkpoint and had dropped its segments already.
    // RaiseLogStart.KeepsFilesUntilTheCheckpointIsWrittenAndIsAskedForAgain
    {"LogStartWentBack", 1151},
    // The transaction index had no space, the batch was cut off again without a sync, and stood
    // above the position of the stop after a loss of power.
    {"BatchTakenBackCameBack", 3132},
    // The age of the lag began when a slow disk had taken the answer, not when it came.
    {"LagYoungerThanTheAnswer", 3870},
    // A partition new to a session was answered with an error; the round took it for left out,
    // which says that nothing is missing. FetchSessionTest.AnErrorNamesAPartitionToo
    {"ErrorTakenForNoNews", 2679},
    // An answer that the source's quota had emptied renewed the age of every position. Found by
    // reading; this seed finds it since the source throttles.
    // FaultTest.AThrottledAnswerIsNoNewsOfAnyPartition
    {"LagOfAThrottledAnswer", 749},
}};

}  // namespace kmirror::sim
