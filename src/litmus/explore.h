#pragma once

#include "cohort/litmus/litmus.h"

#include "machine.h"
#include "program.h"

namespace cohort::litmus {

/// Visits every state of a program, breadth first, so that a fault's schedule is a shortest one.
Exploration explore(const Program& program, const ExploreOptions& options,
                    Weakening weakening = Weakening::kNone);

/// The schedule of these choices; nothing if one of them isn't possible.
std::optional<std::vector<std::string>> schedule_of(const Program& program,
                                                    const std::vector<std::uint32_t>& choices);

}  // namespace cohort::litmus
