#include "cohort/check/race.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "order.h"

namespace cohort::check {
namespace {

constexpr std::uint32_t kNobody = 0xFFFFFFFF;

// Bytes with one history: who wrote them last, and who has read them since.
struct Segment {
  std::int64_t end = 0;
  std::uint32_t writer = kNobody;
  std::vector<std::uint32_t> readers = {};
};

// The bytes of one tensor, by first byte; segments touch and cover all that was accessed.
using Segments = std::map<std::int64_t, Segment>;

// Makes `at` the start of a segment, if it lies inside one.
void split(Segments& segments, std::int64_t at) {
  auto it = segments.upper_bound(at);
  if (it == segments.begin()) return;
  --it;
  if (it->first == at || it->second.end <= at) return;
  Segment rest = it->second;
  it->second.end = at;
  segments.emplace(at, std::move(rest));
}

// Calls f(segment) for segments that cover exactly `bytes`, making those that aren't there.
template <class F>
void for_each_segment(Segments& segments, const ByteSet& bytes, F f) {
  for (const ByteSet::Interval& interval : bytes.intervals()) {
    split(segments, interval.begin);
    split(segments, interval.end);
    std::int64_t at = interval.begin;
    auto it = segments.lower_bound(at);
    while (at < interval.end) {
      if (it == segments.end() || it->first > at) {
        const std::int64_t end =
            it == segments.end() ? interval.end : std::min(it->first, interval.end);
        it = segments.emplace_hint(it, at, Segment{.end = end});
      }
      f(it->first, it->second);
      at = it->second.end;
      ++it;
    }
  }
}

std::string task_text(const Graph& graph, std::uint32_t task) {
  return fmt::format("task #{} \"{}\"", task, graph.tasks()[task].name);
}

struct Conflict {
  std::uint32_t before;
  std::uint32_t after;
  std::uint32_t tensor;
  auto operator<=>(const Conflict&) const = default;
};

struct Bytes {
  ByteSet set = {};
  bool before_writes = false;
  bool after_writes = false;
};

class RaceProof {
 public:
  RaceProof(const Graph& graph, const GraphRecord& record)
      : graph_(graph), record_(record), order_(graph), segments_(graph.tensors().size()) {}

  Report run() && {
    for (std::uint32_t t = 0; t < record_.tasks.size(); ++t) {
      for (const TensorBytes& bytes : record_.tasks[t].bytes.entries()) {
        accesses_ += bytes.reads.empty() ? 0 : 1;
        accesses_ += bytes.writes.empty() ? 0 : 1;
        read(t, bytes);
        write(t, bytes);
      }
    }
    Report report{.subject = graph_.name()};
    for (const auto& [conflict, bytes] : conflicts_)
      report.findings.push_back(finding(conflict, bytes));
    report.properties.push_back(
        {.name = "every two tasks that share a byte one of them writes are ordered",
         .verdict = conflicts_.empty() ? Verdict::kPass : Verdict::kRace,
         .examined = fmt::format("{} ordered pairs of accesses, {} accesses of {} tasks", queries_,
                                 accesses_, record_.tasks.size())});
    return report;
  }

 private:
  void ask(std::uint32_t before, std::uint32_t after, std::uint32_t tensor, std::int64_t begin,
           std::int64_t end, bool before_writes, bool after_writes) {
    if (before == after) return;
    ++queries_;
    if (order_.has_path({before}, {after})) return;
    Bytes& bytes = conflicts_[{before, after, tensor}];
    bytes.set.add(ByteSet::Interval{begin, end});
    bytes.before_writes |= before_writes;
    bytes.after_writes |= after_writes;
  }

  void read(std::uint32_t task, const TensorBytes& bytes) {
    const std::uint32_t tensor = bytes.tensor->id.value;
    for_each_segment(segments_[tensor], bytes.reads, [&](std::int64_t begin, Segment& s) {
      if (s.writer != kNobody) ask(s.writer, task, tensor, begin, s.end, true, false);
      if (s.readers.empty() || s.readers.back() != task) s.readers.push_back(task);
    });
  }

  void write(std::uint32_t task, const TensorBytes& bytes) {
    const std::uint32_t tensor = bytes.tensor->id.value;
    for_each_segment(segments_[tensor], bytes.writes, [&](std::int64_t begin, Segment& s) {
      if (s.writer != kNobody) ask(s.writer, task, tensor, begin, s.end, true, true);
      for (const std::uint32_t reader : s.readers) {
        ask(reader, task, tensor, begin, s.end, false, true);
      }
      s.writer = task;
      s.readers.clear();
    });
  }

  Finding finding(const Conflict& c, const Bytes& bytes) const {
    const Tensor& tensor = graph_.tensors()[c.tensor];
    const std::string before = task_text(graph_, c.before);
    const std::string after = task_text(graph_, c.after);
    const auto verb = [](bool writes) { return writes ? "writes" : "reads"; };
    Finding f{.verdict = Verdict::kRace, .rule = "race/no-path"};
    f.cause = fmt::format(
        "{} {} bytes of tensor \"{}\" that {} {}, and no path of edges orders them", after,
        verb(bytes.after_writes), tensor.name, before, verb(bytes.before_writes));
    f.evidence = {
        {"tensor", fmt::format("{}{}", tensor.name, tensor.manual_dep ? ", manual_dep" : "")},
        {"bytes", to_string(bytes.set)},
        {"first", before},
        {"second", after}};
    f.advice =
        fmt::format("let {} depend on {} explicitly{}", after, before,
                    tensor.manual_dep ? ", or on a task that follows it: the tensor makes no "
                                        "edges of its own"
                                      : "");
    f.location = fmt::format("graph {}, {}", graph_.name(), after);
    return f;
  }

  const Graph& graph_;
  const GraphRecord& record_;
  Order order_;
  std::vector<Segments> segments_;  // By tensor.
  std::map<Conflict, Bytes> conflicts_;
  std::int64_t queries_ = 0;
  std::int64_t accesses_ = 0;
};

bool conflict(const TensorBytesMap& a, const TensorBytesMap& b) {
  for (const TensorBytes& x : a.entries()) {
    const TensorBytes* y = b.find(x.tensor->id);
    if (y == nullptr) continue;
    if (x.writes.meets(y->writes) || x.writes.meets(y->reads) || x.reads.meets(y->writes))
      return true;
  }
  return false;
}

// Whether a path leads from an edge's producer to its consumer that doesn't take the edge itself.
bool has_detour(const Graph& graph, const Edge& edge) {
  std::set<std::uint32_t> seen;
  std::vector<std::uint32_t> todo = {edge.to.value};
  while (!todo.empty()) {
    const std::uint32_t t = todo.back();
    todo.pop_back();
    for (const Edge& e : graph.edges()) {
      if (e.to.value != t || e.from < edge.from) continue;
      if (e.from == edge.from && t == edge.to.value) continue;
      if (e.from == edge.from) return true;
      if (seen.insert(e.from.value).second) todo.push_back(e.from.value);
    }
  }
  return false;
}

}  // namespace

Report race_proof(const Graph& graph, const GraphRecord& record) {
  return RaceProof(graph, record).run();
}

Report surplus_edges(const Graph& graph, const GraphRecord& record) {
  Report report{.subject = graph.name()};
  std::int64_t examined = 0;
  for (const Edge& edge : graph.edges()) {
    if (edge.hazard != Hazard::kExplicit) continue;
    ++examined;
    const TaskRecord& from = record.tasks[edge.from.value];
    const TaskRecord& to = record.tasks[edge.to.value];
    if (conflict(from.bytes, to.bytes) || !has_detour(graph, edge)) continue;
    Finding f{.verdict = Verdict::kEdgeSurplus, .rule = "race/surplus-edge"};
    f.cause = fmt::format(
        "{} depends on {} explicitly, shares no byte with it, and another path orders "
        "them anyway",
        task_text(graph, edge.to.value), task_text(graph, edge.from.value));
    f.advice = "drop the edge";
    f.location = fmt::format("graph {}, {}", graph.name(), task_text(graph, edge.to.value));
    report.findings.push_back(std::move(f));
  }
  report.properties.push_back(
      {.name = "no explicit edge is surplus",
       .verdict = report.findings.empty() ? Verdict::kPass : Verdict::kEdgeSurplus,
       .examined = fmt::format("{} explicit edges", examined)});
  return report;
}

}  // namespace cohort::check
