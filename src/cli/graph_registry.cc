#include "cohort/cli/graph_registry.h"

#include <algorithm>
#include <deque>

namespace cohort::cli {
namespace {

// A deque: references to entries stay valid. Filled before main() begins.
std::deque<GraphEntry>& entries() {
  static std::deque<GraphEntry> all;
  return all;
}

}  // namespace

std::int64_t BuildRequest::integer(const std::string& name) const {
  const auto it = integers_.find(name);
  COHORT_CHECK(it != integers_.end(), "no integer parameter is declared as " + name);
  return it->second;
}

const std::string& BuildRequest::choice(const std::string& name) const {
  const auto it = choices_.find(name);
  COHORT_CHECK(it != choices_.end(), "no choice parameter is declared as " + name);
  return it->second;
}

std::string BuildRequest::to_text() const {
  std::string text;
  const auto add = [&](const std::string& name, const std::string& value) {
    text += (text.empty() ? "--" : " --") + name + " " + value;
  };
  if (!variant_.empty()) add("variant", variant_);
  for (const auto& [name, value] : choices_) add(name, value);
  for (const auto& [name, value] : integers_) add(name, std::to_string(value));
  return text;
}

GraphEntry::GraphEntry(std::string name, GraphBuilder builder)
    : name_(std::move(name)), builder_(std::move(builder)) {}

GraphEntry& GraphEntry::help(std::string text) {
  help_ = std::move(text);
  return *this;
}

GraphEntry& GraphEntry::variants(std::vector<std::string> names) {
  variants_ = std::move(names);
  return *this;
}

GraphEntry& GraphEntry::parameter(std::string name, std::string help, IntegerParameter kind) {
  COHORT_CHECK(kind.least <= kind.initial && kind.initial <= kind.most,
               "the default of --" + name + " is outside its range");
  parameters_.push_back({std::move(name), std::move(help), std::move(kind)});
  return *this;
}

GraphEntry& GraphEntry::parameter(std::string name, std::string help, ChoiceParameter kind) {
  COHORT_CHECK(!kind.choices.empty(), "--" + name + " has nothing to choose from");
  parameters_.push_back({std::move(name), std::move(help), std::move(kind)});
  return *this;
}

BuildRequest GraphEntry::defaults() const {
  BuildRequest request;
  if (!variants_.empty()) request.set_variant(variants_.front());
  for (const Parameter& p : parameters_) {
    if (const auto* integer = std::get_if<IntegerParameter>(&p.kind)) {
      request.set(p.name, integer->initial);
    } else {
      request.set(p.name, std::get<ChoiceParameter>(p.kind).choices.front());
    }
  }
  return request;
}

std::vector<BuildRequest> GraphEntry::sweep(const BuildRequest& base,
                                            const std::set<std::string>& given) const {
  std::vector<BuildRequest> requests = {base};
  const auto multiply = [&](const auto& values, const auto& set) {
    if (values.empty()) return;
    std::vector<BuildRequest> more;
    for (const BuildRequest& request : requests) {
      for (const auto& value : values) {
        more.push_back(request);
        set(more.back(), value);
      }
    }
    requests = std::move(more);
  };
  for (const Parameter& p : parameters_) {
    if (given.contains(p.name)) continue;
    const auto set = [&](BuildRequest& request, const auto& value) { request.set(p.name, value); };
    if (const auto* integer = std::get_if<IntegerParameter>(&p.kind)) {
      multiply(integer->sweep, set);
    } else if (const auto& choice = std::get<ChoiceParameter>(p.kind); choice.is_swept) {
      multiply(choice.choices, set);
    }
  }
  if (!given.contains("variant")) {
    multiply(variants_,
             [](BuildRequest& request, const std::string& v) { request.set_variant(v); });
  }
  return requests;
}

Result<BuiltGraph> GraphEntry::build(const BuildRequest& request) const {
  COHORT_TRY(BuiltGraph built, builder_(request));
  COHORT_CHECK(built.graph != nullptr, "the builder of graph " + name_ + " built none");
  COHORT_TRY_STATUS(built.graph->validate());
  return built;
}

GraphEntry& register_graph(std::string name, GraphBuilder builder) {
  for (const GraphEntry& entry : entries()) {
    COHORT_CHECK(entry.name() != name, "two graphs are registered as " + name);
  }
  return entries().emplace_back(std::move(name), std::move(builder));
}

std::vector<const GraphEntry*> registered_graphs() {
  std::vector<const GraphEntry*> all;
  for (const GraphEntry& entry : entries()) all.push_back(&entry);
  std::sort(all.begin(), all.end(),
            [](const GraphEntry* a, const GraphEntry* b) { return a->name() < b->name(); });
  return all;
}

}  // namespace cohort::cli
