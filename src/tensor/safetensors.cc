#include "cohort/tensor/safetensors.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <tuple>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <sys/stat.h>

#include "safetensors_file.h"

namespace cohort {
namespace {

using nlohmann::json;

// A header's JSON; nesting deeper than the format's is cut off while it is read, and a name that
// appears twice in one object is an error.
Result<json> parse_header(std::string_view text, const std::string& where) {
  constexpr int kMaxDepth = 4;
  std::vector<std::set<std::string>> names;
  std::optional<std::string> repeated;
  bool is_deep = false;
  const auto on_event = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > kMaxDepth) return is_deep = true, false;
    if (event == json::parse_event_t::object_start) names.emplace_back();
    if (event == json::parse_event_t::object_end) names.pop_back();
    if (event == json::parse_event_t::key &&
        !names.back().insert(value.get<std::string>()).second) {
      repeated = value.get<std::string>();
    }
    return true;
  };
  json header;
  try {
    header = json::parse(text, on_event);
  } catch (const json::exception& e) {
    return fail(ErrorCode::kInvalidArgument,
                where + ": the header isn't JSON: " + printable(e.what()));
  }
  if (repeated) {
    return fail(ErrorCode::kInvalidArgument,
                where + ": the header has " + in_quotes(*repeated) + " twice; names are unique");
  }
  if (is_deep || !header.is_object()) {
    return fail(ErrorCode::kInvalidArgument,
                where + ": the header isn't an object of tensors by name");
  }
  return header;
}

struct Extent {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::string name = {};
};

// One header entry: its type and shape, and where its data lies.
class EntryReader {
 public:
  EntryReader(const std::string& file, const std::string& name, const json& entry)
      : where_(file + ": tensor " + in_quotes(name)), name_(name), entry_(entry) {}

  Result<StoredTensor> read(std::span<const std::byte> data, std::vector<Extent>& extents) const {
    if (!entry_.is_object() || entry_.size() != 3) return wrong("an object of three");
    StoredTensor tensor;
    COHORT_TRY(tensor.dtype, dtype());
    COHORT_TRY(tensor.shape, shape());
    COHORT_TRY(const Extent extent, offsets());
    std::uint64_t bytes = 0;
    if (!bytes_of(tensor, bytes)) {
      return fail(ErrorCode::kInvalidArgument,
                  where_ + " has shape " + to_string(tensor.shape) + ": more than memory can hold");
    }
    const std::string range =
        "[" + std::to_string(extent.begin) + ", " + std::to_string(extent.end) + ")";
    if (extent.begin > extent.end || extent.end > data.size()) {
      return fail(ErrorCode::kInvalidArgument, where_ + " is said to be at " + range + " of " +
                                                   std::to_string(data.size()) +
                                                   " bytes of data: the file is cut short or lies");
    }
    if (extent.end - extent.begin != bytes) {
      return fail(ErrorCode::kInvalidArgument,
                  where_ + ", " + std::string(cohort::name(tensor.dtype)) + " " +
                      to_string(tensor.shape) + ", needs " + std::to_string(bytes) +
                      " bytes and is given " + std::to_string(extent.end - extent.begin));
    }
    tensor.bytes = data.subspan(extent.begin, bytes);
    extents.push_back(extent);
    return tensor;
  }

 private:
  Unexpected wrong(const std::string& what) const {
    return fail(
        ErrorCode::kInvalidArgument,
        where_ + ": expected " + what + ", {\"dtype\": \"F32\", \"shape\": [2, 3], " +
            "\"data_offsets\": [begin, end]}, found " +
            printable(entry_.dump(-1, ' ', true, json::error_handler_t::replace)).substr(0, 80));
  }

  Result<DType> dtype() const {
    const auto it = entry_.find("dtype");
    if (it == entry_.end() || !it->is_string()) return wrong("a dtype");
    const auto known = dtype_named(it->get<std::string>());
    if (known) return *known;
    std::string names;
    for (int i = 0; i < kDTypes; ++i) {
      names += (i == 0 ? "" : ", ") + std::string(cohort::name(static_cast<DType>(i)));
    }
    return fail(
        ErrorCode::kInvalidArgument,
        where_ + " has dtype " + in_quotes(it->get<std::string>()) + ", expected one of " + names);
  }

  Result<Shape> shape() const {
    const auto it = entry_.find("shape");
    if (it == entry_.end() || !it->is_array()) return wrong("a shape");
    Shape shape;
    for (const json& extent : *it) {
      if (!extent.is_number_unsigned() || extent.get<std::uint64_t>() > INT64_MAX) {
        return wrong("whole numbers in the shape");
      }
      shape.push_back(extent.get<std::int64_t>());
    }
    return shape;
  }

  Result<Extent> offsets() const {
    const auto it = entry_.find("data_offsets");
    if (it == entry_.end() || !it->is_array() || it->size() != 2 ||
        !(*it)[0].is_number_unsigned() || !(*it)[1].is_number_unsigned()) {
      return wrong("two data_offsets");
    }
    return Extent{(*it)[0].get<std::uint64_t>(), (*it)[1].get<std::uint64_t>(), name_};
  }

  static bool bytes_of(const StoredTensor& tensor, std::uint64_t& bytes) {
    bytes = static_cast<std::uint64_t>(size_of(tensor.dtype));
    for (const std::int64_t extent : tensor.shape) {
      if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) return false;
    }
    return bytes <= INT64_MAX;
  }

  std::string where_;
  const std::string& name_;
  const json& entry_;
};

// The data has neither holes nor bytes that two tensors share.
Status check_extents(std::vector<Extent> extents, std::uint64_t size, const std::string& where) {
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t end = 0;
  std::string before = "the start of the data";
  for (const Extent& extent : extents) {
    if (extent.begin != end) {
      return fail(ErrorCode::kInvalidArgument,
                  where + ": tensor " + in_quotes(extent.name) + " starts at byte " +
                      std::to_string(extent.begin) + ", expected " + std::to_string(end) +
                      ", right after " + before +
                      (extent.begin < end ? ": they overlap" : ": there is a hole"));
    }
    end = extent.end;
    before = in_quotes(extent.name);
  }
  if (end != size) {
    return fail(ErrorCode::kInvalidArgument, where + ": " + std::to_string(size - end) +
                                                 " bytes after " + before + " belong to no tensor");
  }
  return {};
}

std::string header_length_error(const std::string& where, std::uint64_t length, std::size_t size) {
  return where + ": says its header has " + std::to_string(length) + " bytes, but only " +
         std::to_string(size - kLengthBytes) + " follow: the file is cut short or of another kind";
}

}  // namespace

Result<SafeTensors> SafeTensors::parse(std::span<const std::byte> file, const std::string& name) {
  const std::string where = in_quotes(name);
  if (file.size() < kLengthBytes) {
    return fail(
        ErrorCode::kInvalidArgument,
        where + " has " + std::to_string(file.size()) +
            " bytes, expected a safetensors file: 8 bytes of header length, a header, data");
  }
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > kMaxHeader) {
    return fail(ErrorCode::kInvalidArgument,
                where + ": says its header has " + std::to_string(length) +
                    " bytes, expected at most " + std::to_string(kMaxHeader) +
                    ": not a safetensors file");
  }
  if (length > file.size() - kLengthBytes) {
    return fail(ErrorCode::kInvalidArgument, header_length_error(where, length, file.size()));
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  COHORT_TRY(const json header, parse_header(text, where));
  const auto data = file.subspan(kLengthBytes + length);

  SafeTensors result;
  result.file_ = name;
  std::vector<Extent> extents;
  for (const auto& [key, value] : header.items()) {
    if (key == kMetadata) {
      const bool is_text =
          value.is_object() &&
          std::all_of(value.begin(), value.end(), [](const json& v) { return v.is_string(); });
      if (!is_text) {
        return fail(ErrorCode::kInvalidArgument,
                    where + ": " + std::string(kMetadata) + " isn't an object of strings");
      }
      result.metadata_ = value.get<std::map<std::string, std::string>>();
      continue;
    }
    COHORT_TRY(result.tensors_[key], EntryReader(where, key, value).read(data, extents));
  }
  COHORT_TRY_STATUS(check_extents(std::move(extents), data.size(), where));
  return result;
}

Result<SafeTensors> SafeTensors::open(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status = {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) return io_error("read", path);
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorCode::kIo, "can't read " + in_quotes(path) + ": it isn't a regular file");
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return parse({}, path);
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (memory == MAP_FAILED) return io_error("map", path);
  std::shared_ptr<const void> mapping(
      memory, [size](const void* m) { ::munmap(const_cast<void*>(m), size); });
  COHORT_TRY(SafeTensors result, parse({static_cast<const std::byte*>(memory), size}, path));
  result.mapping_ = std::move(mapping);
  return result;
}

Result<StoredTensor> SafeTensors::find(const std::string& name) const {
  if (const auto it = tensors_.find(name); it != tensors_.end()) return it->second;
  std::vector<std::string> names;
  for (const auto& [key, tensor] : tensors_) names.push_back(key);
  return fail(ErrorCode::kNotFound,
              in_quotes(file_) + " has no tensor " + in_quotes(name) + did_you_mean(name, names));
}

}  // namespace cohort
