#include "order.h"

#include <algorithm>

namespace cohort::check {

Order::Order(const Graph& graph) : first_(graph.tasks().size() + 1), seen_(graph.tasks().size()) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;  // Consumer, producer.
  for (const Edge& edge : graph.edges()) pairs.emplace_back(edge.to.value, edge.from.value);
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  for (const auto& [to, from] : pairs) {
    ++first_[to + 1];
    producers_.push_back(from);
  }
  for (std::size_t t = 1; t < first_.size(); ++t) first_[t] += first_[t - 1];
}

bool Order::has_path(TaskId from, TaskId to) {
  if (from >= to) return false;
  const auto begin = producers_.begin() + first_[to.value];
  const auto end = producers_.begin() + first_[to.value + 1];
  if (std::binary_search(begin, end, from.value)) return true;
  const bool is_walked = walk_ != 0 && walked_from_ == to.value && walked_to_ <= from.value;
  if (!is_walked) {
    ++walk_;
    walked_from_ = to.value;
    walked_to_ = from.value;
    todo_.assign(1, to.value);
    while (!todo_.empty()) {
      const std::uint32_t t = todo_.back();
      todo_.pop_back();
      for (std::uint32_t i = first_[t]; i < first_[t + 1]; ++i) {
        const std::uint32_t p = producers_[i];
        if (p < from.value || seen_[p] == walk_)
          continue;  // Edges go up: none below leads to `from`.
        seen_[p] = walk_;
        todo_.push_back(p);
      }
    }
  }
  return seen_[from.value] == walk_;
}

}  // namespace cohort::check
