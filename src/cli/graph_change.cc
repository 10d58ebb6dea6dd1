#include "graph_change.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

namespace cohort::cli {
namespace {

// A name that appears several times in a graph gets a number.
std::vector<std::string> unique_names(const Graph& graph) {
  std::map<std::string, int> seen;
  std::vector<std::string> names;
  for (const Task& task : graph.tasks()) {
    const int n = seen[task.name]++;
    names.push_back(n == 0 ? task.name : task.name + "#" + std::to_string(n + 1));
  }
  return names;
}

std::size_t launches_of(const Graph& graph) {
  return static_cast<std::size_t>(
      std::ranges::count_if(graph.tasks(), [](const Task& task) { return !task.is_dummy(); }));
}

std::vector<std::string> without(const std::vector<std::string>& names,
                                 const std::vector<std::string>& others) {
  std::vector<std::string> left;
  for (const std::string& name : names) {
    if (std::ranges::find(others, name) == others.end()) left.push_back(name);
  }
  return left;
}

using Pair = std::pair<std::string, std::string>;

std::set<Pair> pairs_of(const Graph& graph, const std::vector<std::string>& names) {
  std::set<Pair> pairs;
  for (const Edge& edge : graph.edges())
    pairs.emplace(names[edge.from.value], names[edge.to.value]);
  return pairs;
}

std::vector<std::string> texts_without(const std::set<Pair>& pairs, const std::set<Pair>& others) {
  std::vector<std::string> texts;
  for (const auto& pair : pairs) {
    if (!others.contains(pair)) texts.push_back(pair.first + " -> " + pair.second);
  }
  return texts;
}

}  // namespace

GraphChange change_of(const Graph& before, const Graph& after) {
  const std::vector<std::string> old_names = unique_names(before);
  const std::vector<std::string> names = unique_names(after);
  GraphChange change;
  change.gone_tasks = without(old_names, names);
  change.new_tasks = without(names, old_names);
  change.launches_before = launches_of(before);
  change.launches_after = launches_of(after);
  const std::set<Pair> old_pairs = pairs_of(before, old_names);
  const std::set<Pair> pairs = pairs_of(after, names);
  change.edges_before = old_pairs.size();
  change.edges_after = pairs.size();

  std::set<Pair> renamed;
  for (const auto& [from, to] : old_pairs) {
    const auto rename = [&](const std::string& name) {
      const bool is_gone = std::ranges::find(change.gone_tasks, name) != change.gone_tasks.end();
      return is_gone && change.new_tasks.size() == 1 ? change.new_tasks.front() : name;
    };
    const Pair pair(rename(from), rename(to));
    if (pair.first != pair.second) renamed.insert(pair);
  }
  change.gone_edges = texts_without(renamed, pairs);
  change.new_edges = texts_without(pairs, renamed);
  return change;
}

}  // namespace cohort::cli
