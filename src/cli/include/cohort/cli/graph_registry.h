#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "cohort/base/result.h"
#include "cohort/check/audit.h"
#include "cohort/graph/graph.h"
#include "cohort/observe/compare.h"
#include "cohort/tensor/safetensors.h"

namespace cohort::cli {

/// A whole number a graph is built from: a flag `--name`.
struct IntegerParameter {
  std::int64_t initial = 0;
  std::int64_t least = 0;
  std::int64_t most = 0;
  std::vector<std::int64_t> sweep = {};  ///< What --sweep tries; empty: `initial` alone.
};

/// One of a few words.
struct ChoiceParameter {
  std::vector<std::string> choices = {};  ///< The first is the default; --sweep tries all...
  bool is_swept = false;                  ///< ... if asked to.
};

struct Parameter {
  std::string name = {};  ///< "num-tokens"
  std::string help = {};
  std::variant<IntegerParameter, ChoiceParameter> kind = IntegerParameter{};
};

/// What a graph is to be built from.
class BuildRequest {
 public:
  /// Requires: a declared parameter of that kind.
  std::int64_t integer(const std::string& name) const;
  const std::string& choice(const std::string& name) const;
  /// One of the declared variants; empty if none are declared.
  const std::string& variant() const { return variant_; }
  std::uint64_t seed() const { return seed_; }
  /// The file named by --load, or null.
  const SafeTensors* loaded() const { return loaded_; }

  void set(const std::string& name, std::int64_t value) { integers_[name] = value; }
  void set(const std::string& name, const std::string& value) { choices_[name] = value; }
  void set_variant(std::string variant) { variant_ = std::move(variant); }
  void set_seed(std::uint64_t seed) { seed_ = seed; }
  void set_loaded(const SafeTensors* loaded) { loaded_ = loaded; }
  /// "--num-tokens 8 --variant slot": every parameter.
  std::string to_text() const;

 private:
  std::map<std::string, std::int64_t> integers_;
  std::map<std::string, std::string> choices_;
  std::string variant_;
  std::uint64_t seed_ = 0;
  const SafeTensors* loaded_ = nullptr;
};

/// A value that a graph was built with and that a saved run keeps as a tensor.
struct SavedConstant {
  std::string name = {};
  std::vector<float> values = {};
};

/// A graph ready to run, and what is known about it.
struct BuiltGraph {
  std::shared_ptr<Graph> graph = {};
  std::vector<std::string> inputs = {};   ///< Names of tensors that draw() sets.
  std::vector<std::string> outputs = {};  ///< Names of tensors that a run computes.
  /// Sets every input; called on poisoned tensors. Not called for inputs that come from a file.
  std::function<void(std::uint64_t seed)> draw = {};
  /// Refuses inputs that can't be run with; may be null.
  std::function<Status()> validate = {};
  /// Compares the outputs of a finished run with a reference; null if there is none.
  std::function<std::vector<observe::OutputCheck>()> check = {};
  std::vector<check::DeclaredProducers> declared = {};  ///< Edges it promises, for `verify`.
  std::vector<SavedConstant> constants = {};
  std::map<std::string, std::string> metadata = {};  ///< Kept in saved runs.
};

using GraphBuilder = std::function<Result<BuiltGraph>(const BuildRequest& request)>;

/// A graph that the command line knows: built under a name from declared parameters.
class GraphEntry {
 public:
  GraphEntry(std::string name, GraphBuilder builder);

  GraphEntry& help(std::string text);
  /// Declares forms of the graph; the first is the default. One called "unfused" is what the
  /// others' outputs are compared with, bit for bit.
  GraphEntry& variants(std::vector<std::string> names);
  GraphEntry& parameter(std::string name, std::string help, IntegerParameter kind);
  GraphEntry& parameter(std::string name, std::string help, ChoiceParameter kind);

  const std::string& name() const { return name_; }
  const std::string& help() const { return help_; }
  const std::vector<std::string>& variants() const { return variants_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  /// Every parameter at its default.
  BuildRequest defaults() const;
  /// Every combination of swept values and variants, in order of declaration. What is named in
  /// `given` ("variant", or a parameter) stays as it is in `base`, and so does what isn't swept.
  std::vector<BuildRequest> sweep(const BuildRequest& base,
                                  const std::set<std::string>& given) const;
  /// Errors: the builder's, or the graph's refusals.
  Result<BuiltGraph> build(const BuildRequest& request) const;

 private:
  std::string name_;
  std::string help_;
  std::vector<std::string> variants_;
  std::vector<Parameter> parameters_;
  GraphBuilder builder_;
};

/// Adds a graph to those of this program. Requires: a new name.
GraphEntry& register_graph(std::string name, GraphBuilder builder);
/// All of them, by name.
std::vector<const GraphEntry*> registered_graphs();

}  // namespace cohort::cli

/// Makes a graph known to the command line of this program, at namespace scope:
///
///   COHORT_GRAPH("mine", build_mine).help("what it is").variants({"unfused", "counter"});
///
/// A program that links cohort::main has the whole command line for its graphs.
#define COHORT_GRAPH(name, builder)                                            \
  [[maybe_unused]] static const ::cohort::cli::GraphEntry& COHORT_TRY_CONCAT_( \
      cohort_graph_, __LINE__) = ::cohort::cli::register_graph(name, builder)
