#include "cohort/lane/plan.h"

#include <algorithm>

namespace cohort {
namespace {

using PhaseLanes = std::vector<TensorBytesMap>;  // By lane.

// What each lane touches in a phase if its blocks are [0, blocks).
PhaseLanes by_lane(const std::vector<TensorBytesMap>& blocks, std::int64_t count,
                   std::int64_t lanes) {
  PhaseLanes result(static_cast<std::size_t>(lanes));
  for (std::int64_t b = 0; b < count; ++b) {
    result[static_cast<std::size_t>(b % lanes)].add(blocks[static_cast<std::size_t>(b)]);
  }
  return result;
}

ByteSet used(const TensorBytes& bytes) {
  ByteSet all = bytes.reads;
  all.add(bytes.writes);
  return all;
}

// All bytes of `tensor` that lanes other than `lane` write, or use, in a phase.
template <class Pick>
ByteSet of_others(const PhaseLanes& phase, TensorId tensor, std::size_t lane, Pick pick) {
  ByteSet bytes;
  for (std::size_t l = 0; l < phase.size(); ++l) {
    if (l == lane) continue;
    if (const TensorBytes* t = phase[l].find(tensor)) bytes.add(pick(*t));
  }
  return bytes;
}

std::vector<const Tensor*> tensors_of(const std::vector<PhaseLanes>& phases) {
  TensorBytesMap all;
  for (const PhaseLanes& phase : phases) {
    for (const TensorBytesMap& lane : phase) {
      for (const TensorBytes& t : lane.entries()) all.at(*t.tensor);
    }
  }
  std::vector<const Tensor*> tensors;
  for (const TensorBytes& t : all.entries()) tensors.push_back(t.tensor);
  return tensors;
}

// The first pair of phases in which a lane uses bytes of `tensor` that another wrote before.
std::optional<Repartition> repartition_of(const std::vector<PhaseLanes>& phases,
                                          const Tensor& tensor) {
  for (std::size_t p = 0; p < phases.size(); ++p) {
    for (std::size_t q = p + 1; q < phases.size(); ++q) {
      for (std::size_t lane = 0; lane < phases[q].size(); ++lane) {
        const TensorBytes* user = phases[q][lane].find(tensor.id);
        if (user == nullptr) continue;
        const ByteSet written =
            of_others(phases[p], tensor.id, lane, [](const TensorBytes& t) { return t.writes; });
        if (used(*user).meets(written)) return Repartition{&tensor, p, q};
      }
    }
  }
  return std::nullopt;
}

// Lines of `tensor` that at least two lanes write in one phase.
ByteSet lines_written_twice(const PhaseLanes& phase, TensorId tensor) {
  ByteSet seen;
  ByteSet twice;
  for (const TensorBytesMap& lane : phase) {
    const TensorBytes* t = lane.find(tensor);
    if (t == nullptr || t->writes.empty()) continue;
    const ByteSet lines = t->writes.rounded_to_lines();
    twice.add(seen.intersection(lines));
    seen.add(lines);
  }
  return twice;
}

std::string lanes_text(const PhaseLanes& phase, TensorId tensor, const ByteSet& line) {
  std::string text;
  for (std::size_t l = 0; l < phase.size(); ++l) {
    const TensorBytes* t = phase[l].find(tensor);
    if (t == nullptr || !t->writes.meets(line)) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(l);
  }
  return text;
}

ByteSet first_line(const ByteSet& lines) {
  ByteSet line;
  const std::int64_t begin = lines.intervals().front().begin;
  line.add(ByteSet::Interval{begin, begin + kLineBytes});
  return line;
}

Unexpected false_sharing(const BoundKernel& kernel, const PhaseLanes& phase, std::size_t p,
                         const Tensor& tensor, const ByteSet& lines, const std::string& why) {
  const ByteSet line = first_line(lines);
  return fail(ErrorCode::kInvalidArgument,
              "false-sharing: in phase " + std::to_string(p) + " \"" +
                  std::string(kernel.phases[p].body.info.name) + "\", line " +
                  std::to_string(line.intervals().front().begin / kLineBytes) + " of tensor " +
                  tensor.name + " (bytes " + to_string(line) + ") is written by lanes " +
                  lanes_text(phase, tensor.id, line) + ", and " + why +
                  "; give each lane whole lines");
}

// The lines of `tensor` that several lanes write in one phase, or why that can't be made right.
Result<ByteSet> shared_lines_of(const BoundKernel& kernel, const std::vector<PhaseLanes>& phases,
                                const Tensor& tensor) {
  ByteSet shared;
  for (std::size_t p = 0; p < phases.size(); ++p) {
    const ByteSet twice = lines_written_twice(phases[p], tensor.id);
    if (twice.empty()) continue;
    shared.add(twice);
    for (const TensorBytesMap& lane : phases[p]) {
      const TensorBytes* t = lane.find(tensor.id);
      if (t != nullptr && t->cached_writes.meets(twice)) {
        return false_sharing(
            kernel, phases[p], p, tensor, t->cached_writes.rounded_to_lines().intersection(twice),
            "one of them writes it through the data cache, whose write-back is the "
            "whole line");
      }
    }
    for (std::size_t q = p + 1; q < phases.size(); ++q) {
      for (std::size_t lane = 0; lane < phases[q].size(); ++lane) {
        const TensorBytes* user = phases[q][lane].find(tensor.id);
        if (user == nullptr) continue;
        const ByteSet theirs = of_others(phases[p], tensor.id, lane, [](const TensorBytes& t) {
                                 return t.writes;
                               }).intersection(twice);
        const ByteSet lines = used(*user).rounded_to_lines();
        if (lines.meets(theirs)) {
          return false_sharing(
              kernel, phases[p], p, tensor, theirs.intersection(lines).rounded_to_lines(),
              "lane " + std::to_string(lane) + " uses it in phase " + std::to_string(q));
        }
      }
    }
  }
  return shared;
}

std::int64_t lines_of(const std::vector<LineRange>& ranges) {
  std::int64_t lines = 0;
  for (const LineRange& r : ranges) lines += r.lines.lines();
  return lines;
}

struct Derivation {
  const BoundKernel& kernel;
  std::vector<PhaseLanes> capacity = {};  // Over all blocks any num_tokens can ask for.
  std::vector<PhaseLanes> actual = {};    // Over the blocks of this run.
  FusionPlan plan = {};

  bool used_after(std::size_t phase, TensorId tensor) const {
    for (std::size_t q = phase + 1; q < capacity.size(); ++q) {
      for (const TensorBytesMap& lane : capacity[q]) {
        if (lane.find(tensor) != nullptr) return true;
      }
    }
    return false;
  }
  bool written_before(std::size_t last_phase, TensorId tensor) const {
    for (std::size_t p = 0; p <= last_phase; ++p) {
      for (const TensorBytesMap& lane : capacity[p]) {
        const TensorBytes* t = lane.find(tensor);
        if (t != nullptr && !t->writes.empty()) return true;
      }
    }
    return false;
  }
  ByteSet without_shared(ByteSet lines, TensorId tensor) const {
    for (const LineRange& shared : plan.shared_lines) {
      if (shared.tensor->id == tensor) return lines.without(shared.lines);
    }
    return lines;
  }
  bool takes_part(std::size_t barrier, std::size_t lane) const {
    return static_cast<std::int64_t>(lane) < kernel.meetings[barrier].participants;
  }

  LaneMaintenance maintenance(std::size_t barrier, std::size_t lane) const {
    LaneMaintenance m;
    if (!takes_part(barrier, lane)) return m;
    // Phases since the barrier that this lane took part in before, and until the one after.
    std::size_t first = barrier;
    while (first > 0 && !takes_part(first - 1, lane)) --first;
    std::size_t last = barrier + 1;
    while (last < kernel.meetings.size() && !takes_part(last, lane)) ++last;
    for (const Repartition& r : plan.repartitions) {
      ByteSet written;
      for (std::size_t p = first; p <= barrier; ++p) {
        if (const TensorBytes* t = actual[p][lane].find(r.tensor->id)) written.add(t->writes);
      }
      if (!written.empty() && used_after(barrier, r.tensor->id)) {
        m.publish.push_back({r.tensor, without_shared(written.rounded_to_lines(), r.tensor->id)});
      }
      ByteSet read;
      for (std::size_t p = barrier + 1; p <= std::min(last, actual.size() - 1); ++p) {
        if (const TensorBytes* t = actual[p][lane].find(r.tensor->id)) read.add(t->reads);
      }
      if (!read.empty() && written_before(barrier, r.tensor->id)) {
        m.acquire.push_back({r.tensor, without_shared(read.rounded_to_lines(), r.tensor->id)});
      }
    }
    return m;
  }
};

}  // namespace

std::int64_t LaneMaintenance::publish_lines() const { return lines_of(publish); }
std::int64_t LaneMaintenance::acquire_lines() const { return lines_of(acquire); }

Result<FusionPlan> plan_fusion(const BoundKernel& kernel) {
  Derivation d{.kernel = kernel};
  d.plan.lanes = kernel.lanes;
  for (const BoundPhase& phase : kernel.phases) {
    const std::vector<TensorBytesMap> blocks = dry_footprint(phase, kernel.lanes);
    d.capacity.push_back(by_lane(blocks, phase.capacity, kernel.lanes));
    d.actual.push_back(by_lane(blocks, phase.blocks, kernel.lanes));
  }
  for (const Tensor* tensor : tensors_of(d.capacity)) {
    if (const auto r = repartition_of(d.capacity, *tensor)) d.plan.repartitions.push_back(*r);
    COHORT_TRY(const ByteSet shared, shared_lines_of(kernel, d.capacity, *tensor));
    if (!shared.empty()) d.plan.shared_lines.push_back({tensor, shared});
  }
  const auto lanes = static_cast<std::size_t>(kernel.lanes);
  for (std::size_t p = 0; p < kernel.phases.size(); ++p) {
    std::vector<FusionPlan::PhaseLane>& row = d.plan.phases.emplace_back();
    for (std::size_t l = 0; l < lanes; ++l) {
      row.push_back({.blocks = blocks_of_lane(kernel.phases[p].blocks, static_cast<std::int64_t>(l),
                                              kernel.lanes),
                     .bytes = d.actual[p][l]});
    }
  }
  // A barrier without a phase after it (a debug stop) still publishes nothing and acquires nothing.
  for (std::size_t k = 0; k < kernel.meetings.size(); ++k) {
    std::vector<LaneMaintenance>& row = d.plan.barriers.emplace_back();
    for (std::size_t l = 0; l < lanes; ++l) row.push_back(d.maintenance(k, l));
  }
  return std::move(d.plan);
}

Status check_fusion(const BoundKernel& kernel) {
  const Result<FusionPlan> plan = plan_fusion(kernel);
  if (!plan) return fail(plan.error());
  return {};
}

std::string to_text(const FusionPlan& plan, const BoundKernel& kernel) {
  std::string out = std::to_string(plan.lanes) + " lanes\n";
  for (std::size_t p = 0; p < plan.phases.size(); ++p) {
    out += "phase " + std::to_string(p) + " " + std::string(kernel.phases[p].body.info.name) +
           ": " + std::to_string(kernel.phases[p].blocks) + " blocks\n";
    if (p >= plan.barriers.size()) continue;
    std::int64_t published = 0;
    std::int64_t acquired = 0;
    for (const LaneMaintenance& lane : plan.barriers[p]) {
      published += lane.publish_lines();
      acquired += lane.acquire_lines();
    }
    out += "barrier " + std::to_string(p + 1) + ": publishes " +
           std::to_string(published * kLineBytes) + " bytes (" + std::to_string(published) +
           " lines), acquires " + std::to_string(acquired * kLineBytes) + " bytes (" +
           std::to_string(acquired) + " lines)\n";
  }
  for (const Repartition& r : plan.repartitions) {
    out += "repartitioned: " + r.tensor->name + ", written in phase " + std::to_string(r.producer) +
           ", used by other lanes in phase " + std::to_string(r.consumer) + "\n";
  }
  for (const LineRange& s : plan.shared_lines) {
    out += "shared lines, never cleaned: " + std::to_string(s.lines.lines()) + " of " +
           s.tensor->name + "\n";
  }
  return out;
}

}  // namespace cohort
