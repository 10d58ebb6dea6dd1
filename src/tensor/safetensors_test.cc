#include "cohort/tensor/safetensors.h"

#include <cstring>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cohort/base/random.h"

namespace cohort {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::byte> file_of(const std::string& header, std::size_t data_bytes) {
  std::vector<std::byte> file(8 + header.size() + data_bytes);
  const std::uint64_t length = header.size();
  std::memcpy(file.data(), &length, 8);
  std::memcpy(file.data() + 8, header.data(), header.size());
  for (std::size_t i = 0; i < data_bytes; ++i) file[8 + header.size() + i] = std::byte(i);
  return file;
}

std::string error_of(const std::string& header, std::size_t data_bytes) {
  const std::vector<std::byte> file = file_of(header, data_bytes);
  const Result<SafeTensors> result = SafeTensors::parse(file, "f");
  return result ? "no error" : result.error().message;
}

class SafeTensorsFile : public testing::Test {
 protected:
  SafeTensorsFile()
      : folder(testing::TempDir() + "safetensors_test." + std::to_string(::getpid())) {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directory(folder);
  }
  ~SafeTensorsFile() override { std::filesystem::remove_all(folder); }
  std::string path(const std::string& name) const { return folder + "/" + name; }
  std::vector<std::string> listing() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }
  static std::string contents(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string folder;
};

TEST_F(SafeTensorsFile, RoundTripsEveryTypeAndAwkwardShapes) {
  std::vector<std::byte> bytes(4096);
  Random random(1, 1);
  for (std::byte& b : bytes) b = std::byte(random.next_below(256));
  std::map<std::string, StoredTensor> tensors;
  for (int d = 0; d < kDTypes; ++d) {
    const auto dtype = static_cast<DType>(d);
    const auto size = static_cast<std::size_t>(size_of(dtype));
    tensors["matrix " + std::string(name(dtype))] = {
        dtype, {3, 5}, std::span(bytes).first(15 * size)};
    tensors["scalar " + std::string(name(dtype))] = {dtype, {}, std::span(bytes).first(size)};
    tensors["empty " + std::string(name(dtype))] = {dtype, {0, 7}, {}};
  }
  tensors["\xC3\xA9 \"quoted\" \\ /"] = {DType::kInt8, {1}, std::span(bytes).first(1)};
  const std::map<std::string, std::string> metadata = {{"seed", "7"}, {"note", "a\nb"}};
  ASSERT_TRUE(write_safetensors(path("a"), tensors, metadata));
  ASSERT_TRUE(write_safetensors(path("b"), tensors, metadata));
  EXPECT_EQ(contents(path("a")), contents(path("b")));

  const Result<SafeTensors> read = SafeTensors::open(path("a"));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->metadata(), metadata);
  ASSERT_EQ(read->tensors().size(), tensors.size());
  for (const auto& [key, tensor] : tensors) {
    const StoredTensor& found = read->tensors().at(key);
    EXPECT_EQ(found.dtype, tensor.dtype) << key;
    EXPECT_EQ(found.shape, tensor.shape) << key;
    EXPECT_TRUE(std::ranges::equal(found.bytes, tensor.bytes)) << key;
    const auto address = reinterpret_cast<std::uintptr_t>(found.bytes.data());
    if (!found.bytes.empty()) {
      EXPECT_EQ(address % static_cast<std::uintptr_t>(size_of(found.dtype)), 0u) << key;
    }
  }
}

// The bytes another writer would make: the format, not our own writer, is the reference.
TEST(SafeTensors, ReadsTheFormatAsItIsWritten) {
  const auto file = file_of(
      R"({"__metadata__":{"format":"pt"},"bias":{"dtype":"I16","shape":[2],"data_offsets":[4,8]},)"
      R"("a":{"shape":[1,1],"data_offsets":[0,4],"dtype":"F32"}}   )",
      8);
  const Result<SafeTensors> read = SafeTensors::parse(file, "f");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->metadata().at("format"), "pt");
  EXPECT_EQ(read->tensors().at("a").shape, (Shape{1, 1}));
  EXPECT_EQ(read->tensors().at("bias").bytes.data(), file.data() + file.size() - 4);
  EXPECT_EQ(read->find("biass").error().message,
            "\"f\" has no tensor \"biass\", did you mean 'bias'?");
}

TEST(SafeTensors, ReadsAFileWithoutTensors) {
  EXPECT_EQ(error_of("{}", 0), "no error");
  EXPECT_EQ(error_of("{}", 1), "\"f\": 1 bytes after the start of the data belong to no tensor");
}

TEST(SafeTensors, RefusesHeadersThatLie) {
  const struct {
    const char* header;
    std::size_t data;
    const char* error;
  } kCases[] = {
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7,
       R"("f": tensor "a" is said to be at [0, 8) of 7 bytes of data: the file is cut short or lies)"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8,
       R"("f": tensor "a" is said to be at [8, 0) of 8 bytes of data: the file is cut short or lies)"},
      {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8,
       R"("f": tensor "a", F32 [3], needs 12 bytes and is given 8)"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", 8,
       R"("f": tensor "a" has shape [4294967296, 4294967296]: more than memory can hold)"},
      {R"({"a":{"dtype":"I8","shape":[9223372036854775807,2],"data_offsets":[0,8]}})", 8,
       R"("f": tensor "a" has shape [9223372036854775807, 2]: more than memory can hold)"},
      {R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"I8","shape":[5],"data_offsets":[3,8]}})",
       8, R"("f": tensor "b" starts at byte 3, expected 4, right after "a": they overlap)"},
      {R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"I8","shape":[3],"data_offsets":[5,8]}})",
       8, R"("f": tensor "b" starts at byte 5, expected 4, right after "a": there is a hole)"},
      {R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}})", 8,
       R"("f": 4 bytes after "a" belong to no tensor)"},
      {R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", 8,
       R"("f": tensor "a" has dtype "F33", expected one of F64, F32, F16, BF16, F8_E4M3, F8_E5M2, I64, I32, I16, I8, U8, BOOL)"},
      {R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}})",
       1, R"("f": the header has "a" twice; names are unique)"},
      {R"({"a":{"dtype":"I8","shape":[1],"shape":[1],"data_offsets":[0,1]}})", 1,
       R"("f": the header has "shape" twice; names are unique)"},
      {R"({"__metadata__":{"a":1}})", 0, R"("f": __metadata__ isn't an object of strings)"},
      {R"({"__metadata__":[]})", 0, R"("f": __metadata__ isn't an object of strings)"},
      {R"([1])", 0, R"("f": the header isn't an object of tensors by name)"},
      {R"(7)", 0, R"("f": the header isn't an object of tensors by name)"},
      {R"({"a":{"dtype":"I8","shape":[[[[[1]]]]],"data_offsets":[0,1]}})", 1,
       R"("f": the header isn't an object of tensors by name)"},
  };
  for (const auto& c : kCases) EXPECT_EQ(error_of(c.header, c.data), c.error);
}

TEST(SafeTensors, SaysWhatAnEntryShouldLookLike) {
  const char* kEntries[] = {
      R"(1)",
      R"({"dtype":"I8","shape":[1]})",
      R"({"dtype":7,"shape":[1],"data_offsets":[0,1]})",
      R"({"dtype":"I8","shape":1,"data_offsets":[0,1]})",
      R"({"dtype":"I8","shape":[-1],"data_offsets":[0,1]})",
      R"({"dtype":"I8","shape":[1.0],"data_offsets":[0,1]})",
      R"({"dtype":"I8","shape":[18446744073709551615],"data_offsets":[0,1]})",
      R"({"dtype":"I8","shape":[99999999999999999999999],"data_offsets":[0,1]})",
      R"({"dtype":"I8","shape":[1],"data_offsets":[0]})",
      R"({"dtype":"I8","shape":[1],"data_offsets":[-1,1]})",
      R"({"dtype":"I8","shape":[1],"data_offsets":[0,1],"extra":0})",
      R"({"dtyp":"I8","shape":[1],"data_offsets":[0,1]})",
  };
  for (const char* entry : kEntries) {
    const std::string error = error_of(std::string(R"({"a":)") + entry + "}", 1);
    EXPECT_THAT(error, HasSubstr("\"f\": tensor \"a\": expected ")) << entry;
    EXPECT_THAT(error, HasSubstr("\"data_offsets\": [begin, end]}, found ")) << entry;
  }
}

TEST(SafeTensors, RefusesWhatIsNotAHeader) {
  EXPECT_THAT(error_of("{\"a", 0), HasSubstr("\"f\": the header isn't JSON: "));
  EXPECT_THAT(error_of("", 0), HasSubstr("\"f\": the header isn't JSON: "));
  EXPECT_THAT(error_of("{\"\xFF\": 1}", 0), HasSubstr("\"f\": the header isn't JSON: "));
  EXPECT_THAT(error_of(std::string(100000, '['), 0), HasSubstr("\"f\": the header isn't JSON: "));
  std::string deep(100000, '[');
  deep += std::string(100000, ']');
  EXPECT_EQ(error_of(deep, 0), "\"f\": the header isn't an object of tensors by name");

  std::vector<std::byte> file = file_of("{}", 0);
  EXPECT_EQ(
      SafeTensors::parse(std::span(file).first(7), "f").error().message,
      "\"f\" has 7 bytes, expected a safetensors file: 8 bytes of header length, a header, data");
  EXPECT_EQ(
      SafeTensors::parse(std::span(file).first(9), "f").error().message,
      "\"f\": says its header has 2 bytes, but only 1 follow: the file is cut short or of another "
      "kind");
  std::memset(file.data(), 0xFF, 8);
  EXPECT_EQ(
      SafeTensors::parse(file, "f").error().message,
      "\"f\": says its header has 18446744073709551615 bytes, expected at most 100000000: not a "
      "safetensors file");
}

TEST_F(SafeTensorsFile, RefusesToReadWhatIsNoFile) {
  EXPECT_EQ(SafeTensors::open(path("none")).error().message,
            "can't read \"" + path("none") + "\": No such file or directory");
  EXPECT_EQ(SafeTensors::open(folder).error().message,
            "can't read \"" + folder + "\": it isn't a regular file");
  std::ofstream(path("empty"));
  EXPECT_THAT(SafeTensors::open(path("empty")).error().message,
              HasSubstr(" has 0 bytes, expected"));
}

TEST_F(SafeTensorsFile, WritesWholeOrNotAtAll) {
  const std::byte byte{1};
  const StoredTensor one{DType::kInt8, {1}, {&byte, 1}};
  ASSERT_TRUE(write_safetensors(path("a"), {{"x", one}}));
  const std::string before = contents(path("a"));

  EXPECT_EQ(write_safetensors(path("a"), {{"x", {DType::kInt8, {2}, {&byte, 1}}}}).error().message,
            "tensor \"x\", I8 [2], has 1 bytes, expected 2");
  EXPECT_EQ(write_safetensors(path("a"), {{"__metadata__", one}}).error().message,
            "a tensor can't be called __metadata__: the format keeps that name for itself");
  EXPECT_EQ(write_safetensors(path("a"), {{"\xFF", one}}).error().message,
            "a tensor's name or metadata isn't UTF-8, which safetensors requires");
  EXPECT_EQ(contents(path("a")), before);
  EXPECT_THAT(listing(), testing::ElementsAre("a"));

  ASSERT_TRUE(write_safetensors(path("a"), {{"y", one}}));
  EXPECT_NE(contents(path("a")), before);
  EXPECT_THAT(listing(), testing::ElementsAre("a"));
  struct stat status = {};
  ASSERT_EQ(::stat(path("a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0600u, 0600u);

  EXPECT_EQ(write_safetensors(path("none/a"), {{"x", one}}).error().message,
            "can't write \"" + path("none/a") + "\": No such file or directory");
  EXPECT_EQ(write_safetensors("/dev/null", {{"x", one}}).error().message,
            "can't write \"/dev/null\": it isn't a regular file");
}

}  // namespace
}  // namespace cohort
