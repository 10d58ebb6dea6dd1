#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cohort/base/result.h"
#include "cohort/tensor/tensor.h"

namespace cohort {

/// A tensor as a safetensors file holds it: row-major, little-endian, aligned to nothing.
struct StoredTensor {
  DType dtype = DType::kFloat32;
  Shape shape = {};
  std::span<const std::byte> bytes = {};
};

/// A safetensors file, mapped into memory: tensors are views and cost nothing until they are read.
/// Everything the header says is checked before any of it is used.
///
/// Source: the safetensors format, 8 bytes of header length, a JSON header, then the data without
/// holes.
class SafeTensors {
 public:
  /// The largest header that is read, bytes.
  static constexpr std::uint64_t kMaxHeader = 100'000'000;

  /// Maps a file.
  /// Errors: kIo if it can't be read; kInvalidArgument, naming file, tensor, what was found and
  ///         what was expected, if it isn't a safetensors file whose header tells the truth.
  static Result<SafeTensors> open(const std::string& path);

  /// Reads a file that is in memory already and outlives the result; `name` is for messages.
  /// Errors: as open().
  static Result<SafeTensors> parse(std::span<const std::byte> file, const std::string& name);

  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Errors: kNotFound with the file's name and a suggestion.
  Result<StoredTensor> find(const std::string& name) const;
  /// As given to open() or parse().
  const std::string& file() const { return file_; }

 private:
  std::string file_;
  std::shared_ptr<const void> mapping_;
  std::map<std::string, StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// Writes a safetensors file whole or not at all: to a new file beside `path`, which then takes its
/// place. Data is ordered by size of element, then name, so that every element is aligned.
///
/// Errors: kInvalidArgument if a name or metadata isn't UTF-8, a name is the format's own, or bytes
///         and shape disagree; kIo with the system's text. Nothing is left behind.
/// Determinism: the bytes depend on the arguments alone.
Status write_safetensors(const std::string& path,
                         const std::map<std::string, StoredTensor>& tensors,
                         const std::map<std::string, std::string>& metadata = {});

}  // namespace cohort
