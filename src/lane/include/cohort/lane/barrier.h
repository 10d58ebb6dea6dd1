#pragma once

#include <cstdint>

#include "cohort/graph/kernel.h"

namespace cohort {

/// The barrier protocols as they count in the words of a workspace, for executors whose memory is
/// coherent. A hard barrier has no words: its executor counts.
///
/// Requires: the workspace was zero when the grid started, and serves this grid alone.

/// Counts one arrival of `lane`, released to whoever sees it, and returns the value that ends its
/// wait. Source: the soft barriers of PTO-ISA, in the forms described in docs/architecture.md.
std::int32_t arrive(Barrier barrier, std::int32_t* workspace, const BoundMeeting& meeting,
                    std::int64_t lane);

/// Whether everyone has arrived, given what arrive() returned; acquires their arrivals if so.
bool released(Barrier barrier, const std::int32_t* workspace, const BoundMeeting& meeting,
              std::int32_t target);

/// How many arrivals `lane` has counted in the workspace; for reports. Slot barriers only tell
/// lanes apart; a counter gives the arrivals of all.
std::int32_t arrivals(Barrier barrier, const std::int32_t* workspace, const BoundMeeting& meeting,
                      std::int64_t lane);

}  // namespace cohort
