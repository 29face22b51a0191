#include <gtest/gtest.h>

#include "io/safetensors.h"
#include "safetensors_bytes.h"
#include "support/errors.h"
#include "support/files.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

// The error for a file of these bytes, without its path; "" when it is accepted.
std::string verdict(const std::string& bytes) {
  const TemporaryFolder folder;
  const std::string file = folder / "x.safetensors";
  write_file(file, bytes);
  const std::string error = user_error_of([&] { SafetensorsFile::open(file); });
  if (error == "(no error)") return "";
  EXPECT_EQ(error.substr(0, file.size() + 2), file + ": ");
  return error.substr(file.size() + 2);
}

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape, uint64_t begin,
                   uint64_t end) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", name, dtype, shape, begin, end);
}

struct Case {
  std::string header;
  size_t data_bytes;
  std::string error;
};

const std::string kNotJson = "the header is not valid JSON at its byte {}; the file is damaged or of another kind";

std::string not_json_at(int byte) { return fmt::format(fmt::runtime(kNotJson), byte); }

void expect_verdicts(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    EXPECT_EQ(verdict(safetensors_bytes(c.header, std::string(c.data_bytes, 'x'))), c.error) << c.header.substr(0, 200);
  }
}

TEST(MalformedSafetensors, Length) {
  EXPECT_EQ(verdict(""), "has only 0 bytes, too few for a safetensors file; it is cut off or of another kind");
  EXPECT_EQ(verdict("1234567"), "has only 7 bytes, too few for a safetensors file; it is cut off or of another kind");
  EXPECT_EQ(verdict(little_endian(0)), not_json_at(1));
  EXPECT_EQ(verdict(little_endian(0) + "{}"), not_json_at(1));
  EXPECT_EQ(verdict(little_endian(1)), "declares a header of 1 bytes, but only 0 follow; the file is cut off");
  EXPECT_EQ(verdict(little_endian(3) + "{}"), "declares a header of 3 bytes, but only 2 follow; the file is cut off");
  EXPECT_EQ(verdict(little_endian(100'000'000) + "{}"),
            "declares a header of 100000000 bytes, but only 2 follow; the file is cut off");
  for (const uint64_t length :
       {uint64_t{100'000'001}, uint64_t{1} << 32, uint64_t{1} << 63, UINT64_MAX - 7, UINT64_MAX}) {
    EXPECT_EQ(verdict(little_endian(length) + "{}"),
              fmt::format("declares a header of {} bytes, and at most 100000000 are allowed; it is not a safetensors "
                          "file or is damaged",
                          length));
  }
  EXPECT_EQ(verdict(little_endian(1) + "{}"), not_json_at(2));  // the length stops inside
}

TEST(MalformedSafetensors, Json) {
  expect_verdicts({
      {"", 0, not_json_at(1)},
      {"{", 0, not_json_at(2)},
      {"nonsense", 0, not_json_at(2)},
      {"{} {}", 0, not_json_at(4)},
      {"{\"a\":}", 0, not_json_at(6)},
      {"{\"a\xff\":1}", 0, not_json_at(4)},
      {"{\"\\ud800\":1}", 0, not_json_at(9)},
      {"\xEF\xBB\xBF{}", 0, "the header starts with a byte order mark"},
      {std::string("{}\0\0\0\0\0\0", 8), 0,
       "the header holds a NUL byte at its byte 2; the file is damaged or of another kind"},
      {"[]", 0, "the header is a list, and an object is needed"},
      {"7", 0, "the header is a number, and an object is needed"},
      {"\"{}\"", 0, "the header is a string, and an object is needed"},
      {"null", 0, "the header is null, and an object is needed"},
      {std::string(100'000, '['), 0, "the header is a list, and an object is needed"},
      {"{\"a\":" + std::string(100'000, '['), 0, "tensor \"a\" is a list, and an object is needed"},
      {R"({"a":{"x":)" + std::string(100'000, '['), 0, "tensor \"a\": nested deeper than 64 levels"},
  });
}

TEST(MalformedSafetensors, TensorFields) {
  expect_verdicts({
      {R"({"a":null})", 0, "tensor \"a\" is null, and an object is needed"},
      {R"({"a":1})", 0, "tensor \"a\" is a number, and an object is needed"},
      {R"({"a":[]})", 0, "tensor \"a\" is a list, and an object is needed"},
      {R"({"a":{}})", 0, "tensor \"a\": dtype is missing"},
      {R"({"a":{"shape":[],"data_offsets":[0,4]}})", 4, "tensor \"a\": dtype is missing"},
      {R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4, "tensor \"a\": shape is missing"},
      {R"({"a":{"dtype":"F32","shape":[]}})", 4, "tensor \"a\": data_offsets is missing"},
      {R"({"a":{"dtype":"F32","dtype":"F32","shape":[],"data_offsets":[0,4]}})", 4,
       "tensor \"a\": \"dtype\" occurs twice"},
      {R"({"a":{"dtype":32,"shape":[],"data_offsets":[0,4]}})", 4,
       "tensor \"a\": dtype is a number, and a string is needed"},
      {R"({"a":{"dtype":["F32"],"shape":[],"data_offsets":[0,4]}})", 4,
       "tensor \"a\": dtype is a list, and a string is needed"},
      {"{" + tensor("a", "F31", "[]", 0, 4) + "}", 4, "tensor \"a\": the dtype \"F31\" is not known"},
      {"{" + tensor("a", "f32", "[]", 0, 4) + "}", 4, "tensor \"a\": the dtype \"f32\" is not known"},
      {"{" + tensor("a", "", "[]", 0, 4) + "}", 4, "tensor \"a\": the dtype \"\" is not known"},
      {"{" + tensor("a", "F32", "1", 0, 4) + "}", 4, "tensor \"a\": shape is a number, and a list is needed"},
      {"{" + tensor("a", "F32", "null", 0, 4) + "}", 4, "tensor \"a\": shape is null, and a list is needed"},
      {"{" + tensor("a", "F32", "{}", 0, 4) + "}", 4, "tensor \"a\": shape is an object, and a list is needed"},
      {"{" + tensor("a", "F32", "\"1\"", 0, 4) + "}", 4, "tensor \"a\": shape is a string, and a list is needed"},
      {"{" + tensor("a", "F32", "[-1]", 0, 4) + "}", 4,
       "tensor \"a\": shape holds a negative number, and only whole numbers from 0 are allowed"},
      {"{" + tensor("a", "F32", "[1.0]", 0, 4) + "}", 4,
       "tensor \"a\": shape holds a number with a fraction, an exponent or too many digits, and only whole numbers "
       "from 0 are allowed"},
      {"{" + tensor("a", "F32", "[1e30]", 0, 4) + "}", 4,
       "tensor \"a\": shape holds a number with a fraction, an exponent or too many digits, and only whole numbers "
       "from 0 are allowed"},
      {"{" + tensor("a", "F32", "[18446744073709551616]", 0, 4) + "}", 4,
       "tensor \"a\": shape holds a number with a fraction, an exponent or too many digits, and only whole numbers "
       "from 0 are allowed"},
      {"{" + tensor("a", "F32", "[\"1\"]", 0, 4) + "}", 4,
       "tensor \"a\": shape holds a string, and only whole numbers from 0 are allowed"},
      {"{" + tensor("a", "F32", "[[1]]", 0, 4) + "}", 4,
       "tensor \"a\": shape holds a list, and only whole numbers from 0 are allowed"},
      {"{" + tensor("a", "F32", "[true]", 0, 4) + "}", 4,
       "tensor \"a\": shape holds true or false, and only whole numbers from 0 are allowed"},
      {"{" + tensor("a", "F32", "[18446744073709551615]", 0, 4) + "}", 4,
       "tensor \"a\": a dimension of 18446744073709551615 is too large"},
      {R"({"a":{"dtype":"F32","shape":[],"data_offsets":[]}})", 4, "tensor \"a\": data_offsets must be two numbers"},
      {R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0]}})", 4, "tensor \"a\": data_offsets must be two numbers"},
      {R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4,8]}})", 4,
       "tensor \"a\": data_offsets has more than two numbers"},
      {R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,-4]}})", 4,
       "tensor \"a\": data_offsets holds a negative number, and only whole numbers from 0 are allowed"},
      {R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4.5]}})", 4,
       "tensor \"a\": data_offsets holds a number with a fraction, an exponent or too many digits, and only whole "
       "numbers from 0 are allowed"},
      {R"({"a":{"dtype":"F32","shape":[],"data_offsets":"0,4"}})", 4,
       "tensor \"a\": data_offsets is a string, and a list is needed"},
  });
}

TEST(MalformedSafetensors, Layout) {
  const std::string f = "F32";
  expect_verdicts({
      {"{" + tensor("a", f, "[2]", 0, 4) + "}", 4,
       "tensor \"a\": its shape and dtype need 8 bytes, its data_offsets hold 4"},
      {"{" + tensor("a", f, "[0]", 0, 4) + "}", 4,
       "tensor \"a\": its shape and dtype need 0 bytes, its data_offsets hold 4"},
      {"{" + tensor("a", f, "[]", 4, 0) + "}", 4, "tensor \"a\": ends at byte 0, before it begins at 4"},
      {"{" + tensor("a", f, "[]", UINT64_MAX, 3) + "}", 4,
       "tensor \"a\": ends at byte 3, before it begins at 18446744073709551615"},
      {"{" + tensor("a", f, "[]", 4, 8) + "}", 8, "tensor \"a\": begins at byte 4, leaving a hole after byte 0"},
      {"{" + tensor("a", f, "[]", 0, 4) + "," + tensor("b", f, "[]", 8, 12) + "}", 12,
       "tensor \"b\": begins at byte 8, leaving a hole after byte 4"},
      {"{" + tensor("a", f, "[]", 0, 4) + "," + tensor("b", f, "[]", 2, 6) + "}", 6,
       "tensor \"b\": begins at byte 2, inside the tensor before it, which ends at 4"},
      {"{" + tensor("a", f, "[]", 0, 4) + "," + tensor("b", f, "[]", 0, 4) + "}", 4,
       "tensor \"b\": begins at byte 0, inside the tensor before it, which ends at 4"},
      {"{" + tensor("a", f, "[]", 0, 4) + "," + tensor("a", f, "[]", 4, 8) + "}", 8,
       "tensor \"a\" occurs twice in the header"},
      {"{" + tensor("a", f, "[2]", 0, 8) + "}", 7,
       "tensor \"a\": ends at byte 8, but the file holds only 7 bytes of data; it is cut off"},
      {"{" + tensor("a", f, "[2305843009213693952]", 0, uint64_t{1} << 63) + "}", 4,
       "tensor \"a\": the product of its shape overflows"},
      {"{" + tensor("a", f, "[288230376151711744]", 0, uint64_t{1} << 60) + "}", 4,
       "tensor \"a\": ends at byte 1152921504606846976, but the file holds only 4 bytes of data; it is cut off"},
      {"{" + tensor("a", f, "[]", 0, 4) + "}", 5, "has 1 bytes after its last tensor, which the format does not allow"},
      {"{}", 1, "has 1 bytes after its last tensor, which the format does not allow"},
      {"{" + tensor("a", f, "[4294967296,4294967296]", 0, 4) + "}", 4,
       "tensor \"a\": the product of its shape overflows"},
      {"{" + tensor("a", f, "[4294967296,4294967296,0]", 0, 0) + "}", 0,
       "tensor \"a\": the product of its shape overflows"},
      {"{" + tensor("a", "F4", "[3]", 0, 1) + "}", 1, "tensor \"a\": its elements do not fill whole bytes"},
      {"{" + tensor("a\\u0000..", f, "[]", 0, 8) + "}", 8,
       "tensor \"a\\u0000..\": its shape and dtype need 4 bytes, its data_offsets hold 8"},
  });
}

TEST(MalformedSafetensors, MetadataFields) {
  expect_verdicts({
      {R"({"__metadata__":1})", 0, "__metadata__ is a number, and an object is needed"},
      {R"({"__metadata__":["a"]})", 0, "__metadata__ is a list, and an object is needed"},
      {R"({"__metadata__":{"a":1}})", 0, "__metadata__: \"a\" is a number, and only strings are allowed"},
      {R"({"__metadata__":{"a":null}})", 0, "__metadata__: \"a\" is null, and only strings are allowed"},
      {R"({"__metadata__":{"a":{}}})", 0, "__metadata__: \"a\" is an object, and only strings are allowed"},
      {R"({"__metadata__":{"a":["b"]}})", 0, "__metadata__: \"a\" is a list, and only strings are allowed"},
      {R"({"__metadata__":{"a":"1","a":"2"}})", 0, "__metadata__: \"a\" occurs twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", 0, "__metadata__ occurs twice in the header"},
  });
}

TEST(MalformedSafetensors, OddButAllowed) {
  std::string rank_1000 = "[1";
  for (int i = 1; i < 1000; ++i) rank_1000 += ",1";
  expect_verdicts({
      {"{}", 0, ""},
      {"  \n {}   ", 0, ""},
      {R"({"__metadata__":{"format":"pt"}})", 0, ""},
      {"{" + tensor("a", "F32", "[]", 0, 4) + "}", 4, ""},
      {"{" + tensor("", "U8", "[0]", 0, 0) + "," + tensor("b", "U8", "[0,5]", 0, 0) + "}", 0, ""},
      {"{" + tensor("b", "F32", "[]", 4, 8) + "," + tensor("a", "F32", "[]", 0, 4) + "}", 8, ""},
      {"{" + tensor("../../etc/passwd", "F32", "[]", 0, 4) + "}", 4, ""},
      {"{" + tensor("a\\u0000b", "F32", "[]", 0, 4) + "}", 4, ""},
      {"{" + tensor("a", "F32", rank_1000 + "]", 0, 4) + "}", 4, ""},
      {"{" + tensor("a", "F4", "[2]", 0, 1) + "}", 1, ""},
      {R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4],"later":{"x":[1,null]}}})", 4, ""},
  });
}

TEST(MalformedSafetensors, TooManyTensors) {
  std::string header = "{";
  for (size_t i = 0; i <= kMaxTensors; ++i) header += tensor(std::to_string(i), "U8", "[0]", 0, 0) + ",";
  header.back() = '}';
  EXPECT_EQ(verdict(safetensors_bytes(header, "")), "has more than 250000 tensors");
}

TEST(MalformedSafetensors, PickleIsRefusedWithAdvice) {
  const TemporaryFolder folder;
  for (const std::string& magic : {std::string("PK\x03\x04 archive/data.pkl"), std::string("\x80\x02}q")}) {
    for (const char* name : {"model.pt", "pytorch_model.bin", "x"}) {
      write_file(folder / name, magic + "rest of the file");
      const std::string error = user_error_of([&] { SafetensorsFile::open(folder / name); });
      EXPECT_NE(error.find("is a PyTorch pickle file, which can run any code"), std::string::npos) << error;
      EXPECT_NE(error.find("save_file(torch.load("), std::string::npos) << error;
    }
  }
}

TEST(MalformedSafetensors, CutOffWhileBeingRead) {
  const TemporaryFolder folder;
  const std::string file = folder / "x.safetensors";
  const std::string bytes = safetensors_bytes("{" + tensor("a", "U8", "[1000]", 0, 1000) + "}", std::string(1000, 'x'));
  for (int cut = 1; cut <= 100; ++cut) {
    write_file(file, bytes);
    const SafetensorsFile opened = SafetensorsFile::open(file);
    std::filesystem::resize_file(file, bytes.size() - cut * 10);
    std::string into(1000, '\0');
    EXPECT_NE(user_error_of([&] { opened.read(opened.tensors()[0], into.data()); }).find("cut off while being read"),
              std::string::npos);
  }
}

// The low bytes of these header lengths are those of a pickle or a zip archive; what follows them decides.
TEST(MalformedSafetensors, AHeaderLengthIsNoPickle) {
  const TemporaryFolder folder;
  for (const size_t length : {640, 896, 1152, 1408, 19'280}) {
    std::string header = "{" + tensor("a", "U8", "[1]", 0, 1) + "}";
    header.resize(length, ' ');
    write_file(folder / "h.mem", safetensors_bytes(header, "x"));
    EXPECT_EQ(user_error_of([&] { SafetensorsFile::open(folder / "h.mem"); }), "(no error)") << length;
  }
}

TEST(MalformedSafetensors, TooMuchMetadata) {
  std::string header = R"({"__metadata__":{)";
  for (size_t i = 0; i <= kMaxKeys; ++i) header += fmt::format("\"{}\":\"\",", i);
  header.back() = '}';
  EXPECT_EQ(verdict(safetensors_bytes(header + "}", "")), "__metadata__ has more than 10000 keys");
}

TEST(MalformedSafetensors, NamesDoNotReachTheTerminalAsCommands) {
  const std::string error = verdict(safetensors_bytes("{" + tensor("\\u001b]0;owned", "U8", "[9]", 0, 1) + "}", "x"));
  EXPECT_NE(error.find("owned"), std::string::npos) << error;
  EXPECT_EQ(error.find('\x1b'), std::string::npos) << error;
}

}  // namespace
}  // namespace pmnet
