#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "cohort/litmus/litmus.h"

namespace cohort::litmus {

/// A case as a Promela model for Spin, under sequential consistency: a process a lane, a step of
/// ours an atomic of theirs. Asserts become assertions; a lane that doesn't end is an invalid end
/// state.
///
/// Errors: kInvalidArgument for what Spin isn't told: cores, crash, `finally`, bounded polls,
/// passed(),
///         whole ranges; or as run().
Result<std::string> to_promela(const File& file, const std::string& variant,
                               const std::map<std::string, std::int32_t>& parameters);

}  // namespace cohort::litmus
