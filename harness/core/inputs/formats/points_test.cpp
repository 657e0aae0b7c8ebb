#include "core/inputs/formats/points.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <liblzf/lzf.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <vector>

#include "core/inputs/formats/bytes.hpp"
#include "core/inputs/testing/file_bytes.hpp"

namespace attest::core {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::string pcd_header(std::string_view fields, std::string_view size, std::string_view type,
                       std::string_view points, std::string_view data) {
  std::string text = "# .PCD v0.7\nVERSION 0.7\n";
  text.append("FIELDS ")
      .append(fields)
      .append("\nSIZE ")
      .append(size)
      .append("\nTYPE ")
      .append(type)
      .append("\nWIDTH ")
      .append(points);
  return text.append("\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS ")
      .append(points)
      .append("\nDATA ")
      .append(data)
      .append("\n");
}

std::string xyz_pcd(std::string_view points, const std::string& body) {
  return pcd_header("x y z", "4 4 4", "F F F", points, "binary") + body;
}

std::string packed(const std::string& plain) {
  std::string out(plain.size() + 16, '\0');
  const unsigned size =
      lzf_compress(plain.data(), unsigned(plain.size()), out.data(), unsigned(out.size()));
  out.resize(size);
  return raw(uint32_t(size)) + raw(uint32_t(plain.size())) + out;
}

std::string pcd_error(const std::string& file) {
  return error_of([&] { parse_pcd(as_file(file), "s.pcd"); });
}
std::string ply_error(const std::string& file) {
  return error_of([&] { parse_ply(as_file(file), "s.ply"); });
}
std::string bin_error(const std::string& file) {
  return error_of([&] { parse_bin(as_file(file), "s.bin"); });
}

void expect_two_points(const PointCloud& cloud) {
  EXPECT_THAT(cloud.x, ElementsAre(1.5f, -4));
  EXPECT_THAT(cloud.y, ElementsAre(2, -5));
  EXPECT_THAT(cloud.z, ElementsAre(3, 6));
  EXPECT_EQ(cloud.dropped, 0);
}

TEST(Pcd, AsciiFieldsInAnyOrder) {
  const std::string file =
      pcd_header("intensity z label y x", "4 4 4 4 4", "F F U F F", "2", "ascii") +
      "0.5 3 7 2 +1.5\r\n\n.25  6 8\t-5 -4e0";
  const PointCloud cloud = parse_pcd(as_file(file), "s.pcd");
  expect_two_points(cloud);
  EXPECT_THAT(cloud.intensity, ElementsAre(0.5f, 0.25f));
}

TEST(Pcd, BinarySizesTypesAndCounts) {
  std::string file =
      "FIELDS normal x ring y z\nSIZE 4 8 1 2 4\nTYPE F F U I I\nCOUNT 3 1 2 1 1\nPOINTS 2\nDATA "
      "binary\n";
  for (const auto& [x, y, z] : {std::tuple(1.5, 2, 3), std::tuple(-4.0, -5, 6)})
    file += std::string(12, '\x7f') + raw(double(x)) + "ab" + raw(int16_t(y)) + raw(int32_t(z));
  const PointCloud cloud = parse_pcd(as_file(file), "s.pcd");
  expect_two_points(cloud);
  EXPECT_TRUE(cloud.intensity.empty());
}

TEST(Pcd, CompressedFieldsLieApart) {
  std::string plain = raw(1.5f) + raw(-4.0f) + std::string(4, '\0') + raw(uint8_t(2)) +
                      raw(uint8_t(3)) + raw(int8_t(3)) + raw(int8_t(6));
  // Field `t` has two values a point and lies between x and y; y is moved below zero by its type.
  const std::string file =
      "FIELDS x t y z\nSIZE 4 1 1 1\nTYPE F U I I\nCOUNT 1 2 1 1\nWIDTH 2\nHEIGHT 1\nDATA "
      "binary_compressed\n";
  plain[12] = 2;
  plain[13] = char(-5);
  expect_two_points(parse_pcd(as_file(file + packed(plain)), "s.pcd"));
}

TEST(Pcd, PointsWithoutCoordinatesAreDroppedAndCounted) {
  const PointCloud cloud = parse_pcd(as_file(pcd_header("x y z", "4 4 4", "F F F", "3", "ascii") +
                                             "nan nan nan\n1 2 3\n4 inf 6\n"),
                                     "s.pcd");
  EXPECT_THAT(cloud.x, ElementsAre(1));
  EXPECT_EQ(cloud.dropped, 2);
}

TEST(Pcd, BadHeaders) {
  EXPECT_THAT(pcd_error(""), AllOf(StartsWith("s.pcd"), HasSubstr("empty")));
  EXPECT_THAT(pcd_error("\x89PNG\r\n"), AllOf(StartsWith("s.pcd"), HasSubstr("not a PCD file")));
  EXPECT_THAT(pcd_error("FIELDS x y z\nSIZE 4 4 4\n"), HasSubstr("DATA: missing"));
  EXPECT_THAT(pcd_error("FIELDS x y z\nSIZE 4 4\n"), HasSubstr("SIZE: 2 values for 3 FIELDS"));
  EXPECT_THAT(pcd_error("FIELDS x y z\nSIZE 4 4 3\n"), HasSubstr("1, 2, 4 or 8"));
  EXPECT_THAT(pcd_error("FIELDS x y z\nTYPE F F D\n"), HasSubstr("F, I or U"));
  EXPECT_THAT(pcd_error("FIELDS x y z\nCOUNT 1 1 99999999999999999999\n"),
              HasSubstr("COUNT: '99999999999999999999'"));
  EXPECT_THAT(pcd_error("FIELDS x y z\nCOUNT 1 1 0\n"),
              HasSubstr("COUNT: '0' for field 'z', it is 1 to"));
  EXPECT_THAT(pcd_error(pcd_header("x y z", "2 4 4", "F F F", "1", "binary")),
              HasSubstr("TYPE F, it is 4 or 8"));
  EXPECT_THAT(pcd_error(pcd_header("x y", "4 4", "F F", "1", "ascii") + "1 2"),
              HasSubstr("FIELDS: no field 'z'"));
  EXPECT_THAT(pcd_error(pcd_header("x y z", "4 4 4", "F F F", "1", "zip")),
              HasSubstr("ascii, binary or binary_compressed"));
  EXPECT_THAT(pcd_error(pcd_header("x y z", "4 4 4", "F F F", "-1", "ascii")),
              HasSubstr("WIDTH: '-1' is not a whole number"));
  EXPECT_THAT(pcd_error("FIELDS x y z\nWIDTH 2\nHEIGHT 3\nPOINTS 5\nDATA ascii\n"),
              HasSubstr("POINTS: 5 where WIDTH 2 x HEIGHT 3 makes 6"));
  EXPECT_THAT(pcd_error("FIELDS x y z\nWIDTH 9999999999999\nHEIGHT 9999999999999\nDATA ascii\n"),
              HasSubstr("beyond 64 bits"));
  EXPECT_THAT(pcd_error(xyz_pcd("0", "")), HasSubstr("0 points"));
}

TEST(Pcd, BadBodies) {
  const std::string point = raw(1.0f) + raw(2.0f) + raw(3.0f);
  EXPECT_THAT(
      pcd_error(xyz_pcd("2", point + point.substr(1))),
      AllOf(HasSubstr("promises 2 points of 12 bytes"), HasSubstr("holds 23 bytes, 1 points")));
  EXPECT_THAT(pcd_error(xyz_pcd("18446744073709551615", point)), HasSubstr("truncated"));
  EXPECT_THAT(pcd_error(xyz_pcd("1", raw(kNan) + raw(kNan) + raw(kNan))),
              HasSubstr("all 1 points have NaN"));
  EXPECT_THAT(pcd_error(xyz_pcd("1", raw(1.5f, true) + raw(-2.25f, true) + raw(123.456f, true))),
              HasSubstr("wrong byte order"));
  const auto ascii = [](std::string_view points, const std::string& body) {
    return pcd_error(pcd_header("x y z", "4 4 4", "F F F", points, "ascii") + body);
  };
  EXPECT_THAT(ascii("2", "1.0 2.0 3.0\n"), HasSubstr("promises 2 points, the file holds 1"));
  EXPECT_THAT(ascii("1", "1.0 2.0\n"), HasSubstr("line 11: fewer than 3 values"));
  EXPECT_THAT(ascii("1", "1.0 2.0 3.0f\n"),
              HasSubstr("line 11: '3.0f' for field 'z' is not a number"));
  EXPECT_THAT(ascii("1000000000000", "1 2 3\n"), HasSubstr("truncated"));
  const std::string header = pcd_header("x y z", "4 4 4", "F F F", "4", "binary_compressed");
  const std::string block = packed(point + point + point + point);
  EXPECT_EQ(pcd_error(header + block), "");
  EXPECT_THAT(pcd_error(header + "1234"), HasSubstr("before the two block sizes"));
  EXPECT_THAT(pcd_error(header + block.substr(0, block.size() - 1)), HasSubstr("truncated"));
  EXPECT_THAT(pcd_error(header + packed(point + point + point)), HasSubstr("need another size"));
  EXPECT_THAT(pcd_error(header + raw(uint32_t(0)) + raw(uint32_t(48))), HasSubstr("damaged"));
  EXPECT_THAT(pcd_error(pcd_header("x y z", "4 4 4", "F F F", "300000000", "binary_compressed") +
                        raw(uint32_t(4)) + raw(uint32_t(3600000000u)) + "abcd"),
              HasSubstr("3600000000 bytes cannot come from a block of 4"));
}

std::string ply_header(std::string_view format, std::string_view elements) {
  return std::string("ply\r\nformat ")
      .append(format)
      .append(" 1.0\ncomment by hand\n")
      .append(elements)
      .append("end_header\n");
}

constexpr std::string_view kVertex =
    "element vertex 2\nproperty uchar red\nproperty double x\nproperty float y\nproperty short "
    "z\nproperty float intensity\n";

TEST(Ply, BinaryOfBothByteOrders) {
  for (const bool big : {false, true}) {
    std::string file = ply_header(
        big ? "binary_big_endian" : "binary_little_endian",
        "element camera 1\nproperty list uchar int knots\nproperty int id\n" +
            std::string(kVertex) + "element face 9\nproperty list uchar int vertex_indices\n");
    file += raw(uint8_t(2)) + raw(10, big) + raw(20, big) + raw(30, big);
    file +=
        raw(uint8_t(1)) + raw(1.5, big) + raw(2.0f, big) + raw(int16_t(3), big) + raw(0.5f, big);
    file +=
        raw(uint8_t(1)) + raw(-4.0, big) + raw(-5.0f, big) + raw(int16_t(6), big) + raw(0.25f, big);
    const PointCloud cloud = parse_ply(as_file(file), "s.ply");
    expect_two_points(cloud);
    EXPECT_THAT(cloud.intensity, ElementsAre(0.5f, 0.25f));
  }
}

TEST(Ply, AsciiWithListsBeforeAndWithinTheVertices) {
  const std::string file = ply_header("ascii",
                                      "element camera 2\nproperty list uchar int knots\nelement "
                                      "vertex 2\nproperty list uint8 float32 t\n"
                                      "property float x\nproperty float y\nproperty float z\n") +
                           "2 7 7\n0\n1 9 1.5 2 3\n0 -4 -5 6\n";
  expect_two_points(parse_ply(as_file(file), "s.ply"));
}

TEST(Ply, BadInput) {
  const std::string point = "1 2 3\n",
                    xyz = "property float x\nproperty float y\nproperty float z\n";
  EXPECT_THAT(ply_error(""), HasSubstr("empty"));
  EXPECT_THAT(ply_error("plyx\n"), HasSubstr("the first line must be 'ply'"));
  EXPECT_THAT(ply_error("ply\nformat ascii 1.0\n"), HasSubstr("end_header: missing"));
  EXPECT_THAT(ply_error("ply\nend_header\n"), HasSubstr("format: missing"));
  EXPECT_THAT(ply_error(ply_header("binary", "")),
              HasSubstr("ascii, binary_little_endian or binary_big_endian"));
  EXPECT_THAT(ply_error(ply_header("ascii", "")), HasSubstr("element vertex: missing"));
  EXPECT_THAT(ply_error(ply_header("ascii", "property float x\n")),
              HasSubstr("before any element"));
  EXPECT_THAT(ply_error(ply_header("ascii", "element vertex many\n")),
              HasSubstr("'many' is not a whole number"));
  EXPECT_THAT(ply_error(ply_header("ascii", "element vertex 1\nproperty real x\n")),
              HasSubstr("line 5: property: 'real' is no PLY type"));
  EXPECT_THAT(ply_error(ply_header("ascii", "element vertex 1\nproperty list float int x\n")),
              HasSubstr("must be an integer"));
  EXPECT_THAT(ply_error(ply_header("ascii", "element vertex 1\nproperty float\n")),
              HasSubstr("has no name"));
  EXPECT_THAT(ply_error(ply_header("ascii", "elemental\n")),
              HasSubstr("'elemental' is no PLY header line"));
  EXPECT_THAT(
      ply_error(ply_header("ascii", "element vertex 1\nproperty float x\nproperty float z\n") +
                "1 2\n"),
      HasSubstr("no property 'y'"));
  EXPECT_THAT(ply_error(ply_header("ascii", "element vertex 0\n" + xyz)), HasSubstr("0 points"));
  EXPECT_THAT(ply_error(ply_header("ascii", "element vertex 2\n" + xyz) + point + "\n      \n"),
              HasSubstr("promises 2, the file holds 1: truncated"));
  EXPECT_THAT(ply_error(ply_header("ascii", "element vertex 1\n" + xyz) + "1 2 z\n"),
              HasSubstr("line 9: 'z' for property 'z' is not a number"));
  EXPECT_THAT(ply_error(ply_header("ascii", "element vertex 1\n" + xyz) + "nan 2 3\n"),
              HasSubstr("all 1 points have NaN"));
  for (const char* format : {"ascii", "binary_little_endian"}) {
    EXPECT_THAT(
        ply_error(ply_header(format, "element vertex 18446744073709551615\n" + xyz) + point),
        HasSubstr("truncated"));
    EXPECT_THAT(
        ply_error(ply_header(format, "element e 18446744073709551615\nelement vertex 1\n" + xyz)),
        HasSubstr("truncated"));
    EXPECT_THAT(
        ply_error(
            ply_header(format,
                       "element e 99999999999\nproperty list int int l\nelement vertex 1\n" + xyz) +
            point),
        HasSubstr("element e"));
  }
  const std::string wrong_end = raw(1.5f, true) + raw(-2.25f, true) + raw(123.456f, true);
  EXPECT_THAT(ply_error(ply_header("binary_little_endian", "element vertex 1\n" + xyz) + wrong_end),
              HasSubstr("wrong byte order"));
  EXPECT_THAT(
      ply_error(ply_header("binary_little_endian",
                           "element l 1\nproperty list int int l\nelement vertex 1\n" + xyz) +
                raw(-1) + wrong_end),
      HasSubstr("element l"));
}

/// `count` points of x y z intensity and, with width 5, a ring.
std::string bin_file(int count, int width, bool big_endian = false) {
  std::string file;
  for (int i = 0; i < count; ++i) {
    const float point[5] = {float(i) + 0.25f, -2.5f * float(i), 0.125f * float(i), 0.01f * float(i),
                            float(i % 128)};
    for (int v = 0; v < width; ++v) file += raw(point[v], big_endian);
  }
  return file;
}

TEST(Bin, FourOrFiveValuesAPoint) {
  for (const int width : {4, 5})
    for (const int count : {3, 16, 20, 100}) {
      const PointCloud cloud = parse_bin(as_file(bin_file(count, width)), "s.bin");
      ASSERT_EQ(cloud.size(), size_t(count)) << "width " << width;
      EXPECT_EQ(cloud.x.back(), float(count - 1) + 0.25f);
      EXPECT_EQ(cloud.intensity.back(), 0.01f * float(count - 1));
    }
}

TEST(Bin, BadInput) {
  EXPECT_THAT(bin_error(""), HasSubstr("empty"));
  EXPECT_THAT(bin_error(bin_file(33, 4) + "abc"), HasSubstr("no multiple of 16"));
  EXPECT_THAT(bin_error(bin_file(33, 4) + raw(1.0f)), HasSubstr("no multiple of 16"));
  EXPECT_THAT(bin_error(bin_file(101, 5).substr(0, 16 * 101)), HasSubstr("no multiple of 20"));
  EXPECT_THAT(bin_error(bin_file(100, 4).substr(0, 20 * 79)), HasSubstr("no ring"));
  EXPECT_THAT(bin_error(bin_file(100, 4, true)),
              HasSubstr("wrong byte order"));  // few mantissa bits: all become tiny
  EXPECT_THAT(bin_error(raw(1.1f, true) + raw(2.3f, true) + raw(-7.7f, true) + raw(0.1f, true)),
              HasSubstr("wrong byte order"));  // or huge
  EXPECT_THAT(bin_error(bin_file(101, 5, true)), HasSubstr("byte order"));
  std::string nans;
  for (int i = 0; i < 64; ++i) nans += raw(kNan);
  EXPECT_THAT(bin_error(nans), HasSubstr("all 16 points have NaN"));
}

TEST(ReadPoints, KnowsSweepsByTheirNames) {
  for (const char* file : {"a.pcd", "a.PLY", "a.bin"}) {
    EXPECT_TRUE(is_point_file(file)) << file;
    EXPECT_THAT(std::string(kPointExtensions), ::testing::HasSubstr(lower_extension(file)));
  }
  EXPECT_FALSE(is_point_file("a.png"));
  EXPECT_FALSE(is_point_file("pcd"));
}

TEST(ReadPoints, NamesTheFileAndWhatIsWrong) {
  const auto folder = std::filesystem::temp_directory_path() / "attest_points_test";
  std::filesystem::create_directories(folder);
  const auto write = [&](const char* name, const std::string& content) {
    std::ofstream(folder / name, std::ios::binary) << content;
    return folder / name;
  };
  const auto error = [](const std::filesystem::path& path) {
    return error_of([&] { read_points(path); });
  };
  EXPECT_EQ(read_points(write("a.BIN", bin_file(3, 4))).size(), 3u);
  EXPECT_THAT(error(folder / "none.pcd"), HasSubstr("none.pcd: no such file"));
  EXPECT_THAT(error(write("empty.ply", "")), HasSubstr("empty.ply: the file is empty"));
  EXPECT_THAT(error(write("a.las", "LASF")), HasSubstr("must end in .pcd, .ply or .bin"));
  std::filesystem::create_directories(folder / "folder.pcd");
  EXPECT_THAT(error(folder / "folder.pcd"), HasSubstr("not a file"));
  std::filesystem::remove_all(folder);
}

// A fuzzer that starts from refused files finds little: every seed of the corpora is a sound file.
TEST(ReadPoints, TheFuzzersSeedsAreSound) {
  int files = 0;
  for (const char* format : {"pcd", "ply", "bin"})
    for (const auto& entry : std::filesystem::directory_iterator(
             std::filesystem::path(ATTEST_SOURCE_DIR) / "harness/core/inputs/corpus" / format)) {
      EXPECT_GT(read_points(entry.path()).size(), 0u) << entry.path();
      ++files;
    }
  EXPECT_GE(files, 12);
}

}  // namespace
}  // namespace attest::core
