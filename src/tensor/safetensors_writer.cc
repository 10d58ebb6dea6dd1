#include <algorithm>
#include <optional>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "cohort/tensor/safetensors.h"

#include "safetensors_file.h"

namespace cohort {
namespace {

// Writes to a new file beside the target and takes its place; removes it otherwise.
class ReplacingFile {
 public:
  explicit ReplacingFile(std::string path)
      : path_(std::move(path)), temporary_(path_ + ".XXXXXX"), file_(-1) {}
  ~ReplacingFile() {
    if (exists_) ::unlink(temporary_.c_str());
  }

  Status open() {
    struct stat found = {};
    if (::stat(path_.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) {
      return fail(ErrorCode::kIo, "can't write " + in_quotes(path_) + ": it isn't a regular file");
    }
    file_.emplace(::mkostemp(temporary_.data(), O_CLOEXEC));
    if (file_->get() < 0) return io_error("write", path_);
    exists_ = true;
    const mode_t mask = ::umask(0);
    ::umask(mask);
    if (::fchmod(file_->get(), 0666 & ~mask) != 0) return io_error("write", path_);
    return {};
  }

  Status write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(file_->get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return io_error("write", path_);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
    return {};
  }

  Status replace() {
    if (::fsync(file_->get()) != 0 || !file_->close_now() ||
        ::rename(temporary_.c_str(), path_.c_str()) != 0) {
      return io_error("write", path_);
    }
    exists_ = false;
    return {};
  }

 private:
  std::string path_;
  std::string temporary_;
  std::optional<Descriptor> file_;
  bool exists_ = false;
};

}  // namespace

Status write_safetensors(const std::string& path,
                         const std::map<std::string, StoredTensor>& tensors,
                         const std::map<std::string, std::string>& metadata) {
  std::vector<const std::pair<const std::string, StoredTensor>*> order;
  for (const auto& entry : tensors) order.push_back(&entry);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return size_of(a->second.dtype) > size_of(b->second.dtype);
  });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[std::string(kMetadata)] = metadata;
  std::size_t end = 0;
  for (const auto* entry : order) {
    const auto& [name, tensor] = *entry;
    if (name == kMetadata) {
      return fail(ErrorCode::kInvalidArgument,
                  "a tensor can't be called " + name + ": the format keeps that name for itself");
    }
    const std::int64_t expected = elements(tensor.shape) * size_of(tensor.dtype);
    if (static_cast<std::int64_t>(tensor.bytes.size()) != expected) {
      return fail(ErrorCode::kInvalidArgument, "tensor " + in_quotes(name) + ", " +
                                                   std::string(cohort::name(tensor.dtype)) + " " +
                                                   to_string(tensor.shape) + ", has " +
                                                   std::to_string(tensor.bytes.size()) +
                                                   " bytes, expected " + std::to_string(expected));
    }
    header[name] = {{"dtype", cohort::name(tensor.dtype)},
                    {"shape", tensor.shape},
                    {"data_offsets", {end, end + tensor.bytes.size()}}};
    end += tensor.bytes.size();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    return fail(ErrorCode::kInvalidArgument,
                "a tensor's name or metadata isn't UTF-8, which safetensors requires");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();

  ReplacingFile file(path);
  COHORT_TRY_STATUS(file.open());
  COHORT_TRY_STATUS(file.write(std::as_bytes(std::span(&length, 1))));
  COHORT_TRY_STATUS(file.write(std::as_bytes(std::span(text))));
  for (const auto* entry : order) COHORT_TRY_STATUS(file.write(entry->second.bytes));
  return file.replace();
}

}  // namespace cohort
