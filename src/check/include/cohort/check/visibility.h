#pragma once

#include "cohort/lane/graph_record.h"
#include "cohort/verdict/report.h"

namespace cohort::check {

/// What a lane must do so that others see its writes.
///   kStrict  a load may return anything its line held since this lane last dropped it; a tile
///   store is
///            seen by other lanes once it is drained, its line cleaned, and fenced
///   kDma     tile loads read memory, tile stores are in it once drained and fenced; scalar
///   accesses as
///            in kStrict
enum class MemoryModel : std::uint8_t { kStrict, kDma };

/// Whether every lane of a fused grid sees what other lanes wrote before it, in every interleaving
/// of the recorded sequences. Findings, each with tensor, bytes, both lanes, their phases and
/// blocks, and the step that is missing:
///   stale-read          a write that a barrier orders before a read isn't published, or not
///   acquired race                nothing orders two lanes' accesses to the same bytes foreign-line
///   a clean of lines that other lanes write and this one doesn't lost-update         a write-back,
///   or a drop of a dirty line, may undo bytes that another lane, or
///                       this one, wrote
///   uninitialised-read  bytes of an Out operand that no lane wrote before
///   deadlock            a participant that never comes to a barrier
///   incomplete-barrier  a lane leaves a barrier it isn't a participant of, or hasn't arrived at
///   unknown             addresses may depend on bytes that another lane writes in the same grid
///
/// A completed barrier is one event between all its participants; how its words were touched orders
/// nothing. Source: the two visibility models of docs/memory-model.md.
Report check_visibility(const Graph& graph, const GridRecord& grid, MemoryModel memory);

}  // namespace cohort::check
