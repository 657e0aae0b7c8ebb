#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/vectors/formats/formats.hpp"
#include "core/vectors/formats/npy.hpp"
#include "core/vectors/formats/onnx.hpp"
#include "core/vectors/formats/safetensors.hpp"
#include "core/vectors/testing/files_by_hand.hpp"
#include "testing/shared_data.hpp"

namespace attest::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kSix = packed_values<float>({1, 2, 3, 4, 5, 6.5f});

std::vector<double> values(const FileTensor& tensor) {
  std::vector<double> all;
  for (int64_t i = 0; i < tensor.count(); ++i) all.push_back(tensor.at(i));
  return all;
}

/// Every file cut off anywhere is an Error of one line, and none is read.
template <class Parse>
void expect_no_prefix_is_read(const std::string& file, Parse parse) {
  for (size_t size = 0; size < file.size(); ++size) {
    const std::string cut = file.substr(0, size);
    EXPECT_NE(error_of([&] { parse(as_file(cut)); }), "")
        << size << " of " << file.size() << " bytes were read as a file";
  }
}

TEST(Formats, AreKnownByTheirExtensions) {
  for (const TensorFormat& format : tensor_formats()) {
    const std::string file = "q" + std::string(format.extension);
    EXPECT_EQ(tensor_format(file), &format);
    EXPECT_EQ(holds_cases(file), format.holds_cases);
    EXPECT_NE(kAnyTensorFile.find(format.extension), std::string_view::npos) << file;
    EXPECT_EQ(kFilesOfCases.find(format.extension) != std::string_view::npos, format.holds_cases)
        << file;
  }
  EXPECT_EQ(tensor_format("q.txt"), nullptr);
  EXPECT_FALSE(holds_cases("q"));
}

TEST(Safetensors, ReadsTensorsInTheOrderOfTheirBytes) {
  const std::string file = safetensors_file(
      R"({"__metadata__":{"format":"pt"},"v":{"dtype":"I64","shape":[1],"data_offsets":[24,32]},)"
      R"("q":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("n":{"dtype":"U8","shape":[0],"data_offsets":[32,32]}})",
      kSix + packed_values<int64_t>({-7}));
  const auto tensors = parse_safetensors(as_file(file), "a.safetensors");
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].name, "q");
  EXPECT_EQ(tensors[0].dtype, ATTEST_F32);
  EXPECT_THAT(tensors[0].dims, ElementsAre(2, 3));
  EXPECT_THAT(values(tensors[0]), ElementsAre(1, 2, 3, 4, 5, 6.5));
  EXPECT_THAT(values(tensors[1]), ElementsAre(-7));
  EXPECT_THAT(error_of([&] { usable(tensors[2], "a.safetensors"); }),
              HasSubstr("tensor 'n' is U8"));
  expect_no_prefix_is_read(file, [](auto bytes) { return parse_safetensors(bytes, "a"); });
}

TEST(Safetensors, RefusesWhatIsNotWhole) {
  auto refusal = [](const std::string& header, const std::string& data = kSix) {
    const std::string file = safetensors_file(header, data);
    return error_of([&] { parse_safetensors(as_file(file), "a.safetensors"); });
  };
  EXPECT_EQ(refusal(R"({"q":{"dtype":"F32","shape":[6],"data_offsets":[0,24]}})"), "");
  EXPECT_THAT(refusal(R"({"q":{"dtype":"F33","shape":[6],"data_offsets":[0,24]}})"),
              HasSubstr("a.safetensors: tensor 'q': dtype 'F33' is not known"));
  EXPECT_THAT(refusal(R"({"q":{"dtype":"F32","shape":[5],"data_offsets":[0,24]}})"),
              HasSubstr("24 bytes where [5] F32 take 20"));
  EXPECT_THAT(
      refusal(R"({"q":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,24]}})"),
      HasSubstr("more than memory can address"));
  EXPECT_THAT(refusal(R"({"q":{"dtype":"F32","shape":[6],"data_offsets":[0,48]}})"),
              HasSubstr("data_offsets"));
  EXPECT_THAT(refusal(R"({"q":{"dtype":"F32","shape":[6],"data_offsets":[24,0]}})"),
              HasSubstr("begin and end"));
  EXPECT_THAT(refusal(R"({"q":{"dtype":"F32","shape":[-6],"data_offsets":[0,24]}})"),
              HasSubstr("shape"));
  EXPECT_THAT(refusal(R"({"q":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},)"
                      R"("k":{"dtype":"F32","shape":[4],"data_offsets":[8,24]}})"),
              HasSubstr("overlap"));
  EXPECT_THAT(refusal(R"({"q":{"dtype":"F32","shape":[2],"data_offsets":[16,24]}})"),
              HasSubstr("begins at byte 16 where 0 is right"));
  EXPECT_THAT(refusal(R"({"q":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})"),
              HasSubstr("the file has 24"));
  EXPECT_THAT(refusal(R"({"q":{"dtype":"F32","shape":[6],"data_offsets":[0,24]},)"
                      R"("q":{"dtype":"F32","shape":[6],"data_offsets":[0,24]}})"),
              HasSubstr("twice"));
  EXPECT_THAT(refusal("[1,2]"), HasSubstr("must be an object"));
  const std::string endless = std::string(7, '\xff') + '\x7f' + "{}";
  EXPECT_THAT(error_of([&] { parse_safetensors(as_file(endless), "a"); }),
              HasSubstr("the header is said to have"));
}

TEST(Npy, ReadsEveryTypeAndShape) {
  const std::string file = npy_file(npy_header("'<f4'", "(2, 3)"), kSix);
  const FileTensor tensor = parse_npy(as_file(file), "a.npy");
  EXPECT_EQ(tensor.dtype, ATTEST_F32);
  EXPECT_THAT(tensor.dims, ElementsAre(2, 3));
  EXPECT_THAT(values(tensor), ElementsAre(1, 2, 3, 4, 5, 6.5));
  expect_no_prefix_is_read(file, [](auto bytes) { return parse_npy(bytes, "a"); });
  EXPECT_THAT(
      parse_npy(as_file(npy_file(npy_header("'<f8'", "()"), packed_values<double>({2.5}))), "a")
          .dims,
      IsEmpty());
  EXPECT_THAT(
      values(parse_npy(
          as_file(npy_file(npy_header("'<f2'", "(1,)"), packed_values<uint16_t>({0x3e00}))), "a")),
      ElementsAre(1.5));
  EXPECT_THAT(values(parse_npy(
                  as_file(npy_file(npy_header("'|b1'", "(2,)"), std::string("\1\0", 2))), "a")),
              ElementsAre(1, 0));
  EXPECT_EQ(parse_npy(as_file(npy_file(npy_header("'<f4'", "(0, 3)"), "")), "a").count(), 0);
  EXPECT_EQ(
      parse_npy(as_file(npy_file("{'shape': (6,), 'fortran_order': True, 'descr': '<f4'}", kSix)),
                "a")
          .count(),
      6);  // one dim has no order
}

TEST(Npy, RefusesWithTheKeyAtFault) {
  auto refusal = [](const std::string& header) {
    return error_of([&] { parse_npy(as_file(npy_file(header, kSix)), "a.npy"); });
  };
  EXPECT_THAT(refusal(npy_header("'<f4'", "(2, 3)", true)),
              HasSubstr("a.npy: header: fortran_order: True"));
  EXPECT_THAT(refusal(npy_header("'>f4'", "(2, 3)")), HasSubstr("big-endian"));
  EXPECT_THAT(refusal(npy_header("'|O'", "(2, 3)")), HasSubstr("objects"));
  EXPECT_THAT(refusal(npy_header("[('x', '<f4')]", "(2, 3)")), HasSubstr("records"));
  EXPECT_THAT(refusal(npy_header("'<c8'", "(3,)")), HasSubstr("descr: '<c8' is not known"));
  EXPECT_THAT(refusal(npy_header("'<f4'", "(2, 4)")),
              HasSubstr("shape: [2,4] of <f4 takes 32 bytes, the file has 24"));
  EXPECT_THAT(refusal(npy_header("'<f4'", "(4294967296, 4294967296, 4)")),
              HasSubstr("more than addressable"));
  EXPECT_THAT(refusal(npy_header("'<f4'", "(99999999999999999999,)")), HasSubstr("shape"));
  EXPECT_THAT(refusal(npy_header("'<f4'", "(-6,)")), HasSubstr("shape"));
  EXPECT_THAT(refusal("{'descr': '<f4', 'shape': (6,)}"), HasSubstr("missing"));
  EXPECT_THAT(refusal("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'more': 1}"),
              HasSubstr("key 'more'"));
  EXPECT_THAT(refusal(npy_header("'<f4'", "(2, 3)") + " and more"), HasSubstr("follows"));
  EXPECT_THAT(error_of([] { parse_npy(as_file("\x93NUMPY\x09 and so on"), "a"); }),
              HasSubstr("version 9"));
}

TEST(Npz, ReadsStoredAndDeflatedMembers) {
  const std::string array = npy_file(npy_header("'<f4'", "(2, 3)"), kSix),
                    zeros = npy_file(npy_header("'<f4'", "(1000,)"), std::string(4000, '\0'));
  const std::string file =
      zip_file({{"q.npy", array, false}, {"k.npy", array, true}, {"zeros.npy", zeros, true}});
  const auto tensors = parse_npz(as_file(file), "a.npz");
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].name, "q");
  EXPECT_EQ(tensors[1].name, "k");
  EXPECT_THAT(values(tensors[0]), ElementsAre(1, 2, 3, 4, 5, 6.5));
  EXPECT_EQ(tensors[1].bytes, tensors[0].bytes);
  EXPECT_EQ(tensors[2].count(), 1000);
  expect_no_prefix_is_read(file, [](auto bytes) { return parse_npz(bytes, "a"); });
}

TEST(Npz, RefusesDamagedArchives) {
  const std::string array = npy_file(npy_header("'<f4'", "(2, 3)"), kSix);
  auto refusal = [](const std::string& file) {
    return error_of([&] { parse_npz(as_file(file), "a.npz"); });
  };
  const std::string good = zip_file({{"q.npy", array, true}});
  const size_t entry = good.find("PK\x01\x02");
  auto with = [&](size_t at, const std::string& bytes) {
    return std::string(good).replace(entry + at, bytes.size(), bytes);
  };
  EXPECT_EQ(refusal(good), "");
  EXPECT_THAT(refusal(with(16, "oops")), HasSubstr("a.npz: member 'q.npy': its checksum is wrong"));
  EXPECT_THAT(refusal(with(24, packed_values<uint32_t>({0x7fffffff}))),
              HasSubstr("cannot unpack to 2147483647"));
  EXPECT_THAT(refusal(with(24, packed_values<uint32_t>({100}))), HasSubstr("damaged"));
  EXPECT_THAT(refusal(with(10, packed_values<uint16_t>({12}))), HasSubstr("method 12"));
  EXPECT_THAT(refusal(with(8, packed_values<uint16_t>({1}))), HasSubstr("encrypted"));
  EXPECT_THAT(refusal(with(42, packed_values<uint32_t>({7}))), HasSubstr("does not lie where"));
  EXPECT_THAT(refusal(zip_file({{"q.npy", array}, {"q.npy", array}})), HasSubstr("comes twice"));
  EXPECT_THAT(refusal(array), HasSubstr("not an .npz file"));
}

class Onnx : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!reads_onnx()) GTEST_SKIP() << "this build reads no ONNX files";
  }
};

TEST_F(Onnx, ReadsTensors) {
  const FileTensor raw = parse_onnx_tensor(as_file(tensor_file({2, 3}, 1, kSix, "Q")), "a.pb");
  EXPECT_EQ(raw.name, "Q");
  EXPECT_THAT(raw.dims, ElementsAre(2, 3));
  EXPECT_THAT(values(raw), ElementsAre(1, 2, 3, 4, 5, 6.5));
  // float_data (4), packed; int32_data (5) holds the bits of 16-bit floats; dims packed.
  EXPECT_THAT(values(parse_onnx_tensor(as_file(bytes_field(1, varint(3) + varint(2)) +
                                               number_field(2, 1) + bytes_field(4, kSix)),
                                       "a")),
              ElementsAre(1, 2, 3, 4, 5, 6.5));
  EXPECT_THAT(
      values(parse_onnx_tensor(
          as_file(number_field(1, 1) + number_field(2, 10) + number_field(5, 0x3e00)), "a")),
      ElementsAre(1.5));
  EXPECT_THAT(
      values(parse_onnx_tensor(
          as_file(number_field(1, 1) + number_field(2, 16) + number_field(5, 0x3fc0)), "a")),
      ElementsAre(1.5));
  EXPECT_THAT(
      values(parse_onnx_tensor(as_file(tensor_file({3}, 9, std::string("\1\0\7", 3))), "a")),
      ElementsAre(1, 0, 1));
  EXPECT_THAT(
      values(parse_onnx_tensor(as_file(tensor_file({}, 7, packed_values<int64_t>({-2}))), "a")),
      ElementsAre(-2));
  EXPECT_EQ(parse_onnx_tensor(as_file(tensor_file({2, 0, 3}, 1, "")), "a").count(), 0);
}

TEST_F(Onnx, RefusesTensorsThatAreNotWhole) {
  auto refusal = [](const std::string& file) {
    return error_of([&] { parse_onnx_tensor(as_file(file), "a.pb"); });
  };
  EXPECT_THAT(refusal(tensor_file({2, 4}, 1, kSix)),
              HasSubstr("a.pb: 24 bytes of data where dims [2,4] of FLOAT take 32"));
  EXPECT_THAT(refusal(tensor_file({-2, -3}, 1, kSix)), HasSubstr("negative"));
  EXPECT_THAT(refusal(tensor_file({int64_t{1} << 40, int64_t{1} << 40}, 1, kSix)),
              HasSubstr("more than memory"));
  EXPECT_THAT(refusal(tensor_file({6}, 8, kSix)),
              HasSubstr("data_type: 8 is not known, or not of numbers"));
  EXPECT_THAT(refusal(tensor_file({6}, 1, kSix) + number_field(14, 1)), HasSubstr("another file"));
  EXPECT_THAT(refusal(tensor_file({6}, 1, kSix).substr(0, 20)), HasSubstr("not a TensorProto"));
  EXPECT_THAT(refusal(std::string("\xff\xff\xff", 3)), HasSubstr("damaged"));
}

TEST_F(Onnx, ReadsModels) {
  const OnnxModel model = parse_onnx_model(
      as_file(model_file("Attention", {"Q", "K", "V", "", "past"}, {"Y", "", "present"},
                         {int_attribute("is_causal", 1), float_attribute("scale", 0.5f)}, 24)),
      "m.onnx");
  EXPECT_EQ(model.opset.at(""), 24);
  ASSERT_EQ(model.nodes.size(), 1u);
  EXPECT_EQ(model.nodes[0].op_type, "Attention");
  EXPECT_THAT(model.nodes[0].inputs, ElementsAre("Q", "K", "V", "", "past"));
  EXPECT_THAT(model.nodes[0].outputs, ElementsAre("Y", "", "present"));
  EXPECT_THAT(model.inputs, ElementsAre("Q", "K", "V", "past"));
  EXPECT_EQ(std::get<int64_t>(model.nodes[0].attributes.at("is_causal")), 1);
  EXPECT_EQ(std::get<double>(model.nodes[0].attributes.at("scale")), 0.5);
  const std::string subgraph = bytes_field(1, "score_mod") + number_field(20, 5);
  const OnnxModel flex = parse_onnx_model(
      as_file(model_file("FlexAttention", {"Q"}, {"Y"}, {subgraph}, 26)), "m.onnx");
  EXPECT_EQ(std::get<OnnxOther>(flex.nodes[0].attributes.at("score_mod")).kind, "a subgraph");
}

TEST_F(Onnx, RefusesModelsThatAreNone) {
  auto refusal = [](const std::string& file) {
    return error_of([&] { parse_onnx_model(as_file(file), "m.onnx"); });
  };
  EXPECT_THAT(refusal(number_field(1, 10)), HasSubstr("m.onnx: a model without nodes"));
  EXPECT_THAT(refusal("neither protobuf nor anything"), HasSubstr("m.onnx: "));
  EXPECT_THAT(refusal(model_file("Attention", {"Q"}, {"Y"},
                                 {int_attribute("a", 1), int_attribute("a", 2)}, 24)),
              HasSubstr("attribute 'a' comes twice"));
}

// Wherever a file is cut off, and whichever byte of it is another: a sound result or one line that
// says what is wrong.
TEST_F(Onnx, CutAndChangedFilesAreReadSoundlyOrRefused) {
  const std::string tensor = tensor_file({2, 3}, 1, kSix, "Q");
  const std::string model =
      model_file("Attention", {"Q", "K", "V"}, {"Y"}, {float_attribute("scale", 2)}, 24);
  const auto tried = [](const std::string& file, auto parse) {
    int refused = 0;
    for (size_t at = 0; at < file.size(); ++at) {
      refused += !error_of([&] { parse(as_file(file.substr(0, at))); }).empty();
      for (const char mask : {'\x01', '\x80', '\xff'}) {
        std::string changed = file;
        changed[at] = char(changed[at] ^ mask);
        refused += !error_of([&] { parse(as_file(changed)); }).empty();
      }
    }
    return refused;
  };
  EXPECT_GT(
      tried(tensor,
            [](auto bytes) {
              const FileTensor read = parse_onnx_tensor(bytes, "a.pb");
              EXPECT_TRUE(read.dtype == ATTEST_NONE ||
                          read.bytes.size() == size_t(read.count()) * dtype_bytes(read.dtype));
            }),
      10);
  EXPECT_GT(
      tried(model,
            [](auto bytes) { EXPECT_FALSE(parse_onnx_model(bytes, "m.onnx").nodes.empty()); }),
      10);
}

TEST_F(Onnx, ReadsEveryOpenVector) {
  const std::filesystem::path data = shared_data(ATTEST_SOURCE_DIR);
  ATTEST_SKIP_WITHOUT(data / "onnx");
  int tensors = 0, models = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(data)) {
    const auto path = entry.path();
    if (path.extension() == ".pb") {
      ++tensors;
      EXPECT_GT(parse_onnx_tensor(read_bytes(path), path.string()).dims.size(), 0u);
    } else if (path.extension() == ".onnx") {
      ++models;
      EXPECT_FALSE(parse_onnx_model(read_bytes(path), path.string()).inputs.empty());
    }
  }
  EXPECT_GT(tensors, 400);
  EXPECT_GT(models, 100);
}

}  // namespace
}  // namespace attest::core
