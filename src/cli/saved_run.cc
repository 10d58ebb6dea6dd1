#include "saved_run.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>

#include "cohort/base/strings.h"

namespace cohort::cli {

Status load_inputs(const BuiltGraph& built, const SafeTensors& file) {
  std::string errors;
  const auto complain = [&](const std::string& what) {
    errors += (errors.empty() ? "" : "\n") + what;
  };
  for (const std::string& name : built.inputs) {
    const Tensor* tensor = built.graph->find_tensor(name);
    COHORT_CHECK(tensor != nullptr, "the graph has no tensor for its input " + name);
    const Result<StoredTensor> stored = file.find(name);
    if (!stored) {
      complain(stored.error().message);
    } else if (stored->dtype != tensor->dtype || stored->shape != tensor->shape) {
      complain(fmt::format("\"{}\": tensor \"{}\" is {} {}, expected {} {}", file.file(), name,
                           cohort::name(stored->dtype), to_string(stored->shape),
                           cohort::name(tensor->dtype), to_string(tensor->shape)));
    }
  }
  if (!errors.empty()) return fail(ErrorCode::kInvalidArgument, errors);
  for (const std::string& name : built.inputs) {
    const auto bytes = file.tensors().at(name).bytes;
    std::copy(bytes.begin(), bytes.end(), built.graph->find_tensor(name)->data);
  }
  return {};
}

Status can_save(const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    return fail(ErrorCode::kIo, fmt::format("can't write \"{}\": {}", printable(path), why));
  };
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const std::string folder = (parent.empty() ? "." : parent.string()) + "/.";
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return refuse(std::strerror(errno));
  std::error_code none;
  if (std::filesystem::exists(path, none) && !std::filesystem::is_regular_file(path, none)) {
    return refuse("it isn't a regular file");
  }
  return {};
}

Status save_run(const BuiltGraph& built, const std::string& path) {
  std::map<std::string, StoredTensor> tensors;
  for (const auto* names : {&built.inputs, &built.outputs}) {
    for (const std::string& name : *names) {
      const Tensor* t = built.graph->find_tensor(name);
      COHORT_CHECK(t != nullptr, "the graph has no tensor " + name);
      tensors[name] = {t->dtype, t->shape, t->memory()};
    }
  }
  for (const SavedConstant& constant : built.constants) {
    tensors[constant.name] = {DType::kFloat32,
                              {static_cast<std::int64_t>(constant.values.size())},
                              std::as_bytes(std::span(constant.values))};
  }
  return write_safetensors(path, tensors, built.metadata);
}

}  // namespace cohort::cli
