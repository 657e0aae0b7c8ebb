#include "core/inputs/formats/image.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/inputs/testing/file_bytes.hpp"

#define STBI_WRITE_NO_STDIO
#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#include <stb/stb_image_write.h>
#pragma GCC diagnostic pop

namespace attest::core {
namespace {

using ::testing::HasSubstr;

void append(void* to, void* data, int size) {
  static_cast<std::string*>(to)->append(static_cast<char*>(data), size_t(size));
}

std::string png_of(const Image& image) {
  std::string file;
  stbi_write_png_to_func(append, &file, image.width, image.height, 3, image.rgb.data(),
                         image.width * 3);
  return file;
}

std::string jpg_of(const Image& image) {
  std::string file;
  stbi_write_jpg_to_func(append, &file, image.width, image.height, 3, image.rgb.data(), 95);
  return file;
}

std::string image_error(const std::string& file) {
  return error_of([&] { parse_image(as_file(file), "i.png"); });
}

TEST(ParseImage, PngRoundTrips) {
  const Image image = synthetic_image(3, 31, 17);
  const Image back = parse_image(as_file(png_of(image)), "i.png");
  EXPECT_EQ(back.width, 31);
  EXPECT_EQ(back.height, 17);
  EXPECT_EQ(back.rgb, image.rgb);
}

TEST(ParseImage, JpgComesNear) {
  const Image image = resize(synthetic_image(3, 8, 8), 64, 48);  // smooth
  const Image back = parse_image(as_file(jpg_of(image)), "i.jpg");
  ASSERT_EQ(back.rgb.size(), image.rgb.size());
  double error = 0;
  for (size_t i = 0; i < image.rgb.size(); ++i)
    error += std::abs(int(back.rgb[i]) - int(image.rgb[i]));
  EXPECT_LT(error / double(image.rgb.size()), 5);
}

TEST(ParseImage, RefusesWhatIsNoWholeImage) {
  const std::string png = png_of(synthetic_image(1, 64, 64)),
                    jpg = jpg_of(synthetic_image(1, 64, 64));
  EXPECT_THAT(image_error(""), HasSubstr("i.png: the file is empty"));
  EXPECT_THAT(image_error("# .PCD v0.7\n"), HasSubstr("not an image: png or jpg"));
  EXPECT_THAT(image_error(png.substr(0, png.size() / 2)), HasSubstr("truncated"));
  EXPECT_THAT(image_error(jpg.substr(0, jpg.size() / 2)), HasSubstr("truncated"));
  EXPECT_THAT(image_error(jpg.substr(0, jpg.size() - 2)), HasSubstr("truncated"));
  std::string huge = png_of(synthetic_image(1, 4, 4));
  huge.replace(16, 8, raw(16000, true) + raw(4000, true));
  EXPECT_THAT(image_error(huge), HasSubstr("promises 16000 x 4000 pixels"));
  huge.replace(16, 8, raw(16000, true) + raw(16000, true));
  EXPECT_THAT(image_error(huge), HasSubstr("16000 x 16000 pixels, at most"));
}

TEST(ParseImage, RefusesAnOverfullHuffmanTable) {
  std::string jpg = jpg_of(synthetic_image(1, 16, 16));
  const size_t table = jpg.find("\xff\xc4");
  ASSERT_NE(table, std::string::npos);
  jpg[table + 5 + 15] = char(250);  // codes of 16 bits; the standard tables have more than 6 others
  EXPECT_THAT(image_error(jpg), HasSubstr("Huffman table"));
  EXPECT_THAT(image_error("\xff\xff" + jpg), HasSubstr("Huffman table"))
      << "fill bytes before the first marker";
}

Image flat(int width, int height, uint8_t value) {
  return {width, height, std::vector<uint8_t>(size_t(width) * height * 3, value)};
}

TEST(Resize, KeepsSizeConstantsAndMeans) {
  const Image image = synthetic_image(5, 40, 30);
  EXPECT_EQ(resize(image, 40, 30).rgb, image.rgb);
  for (const auto& [width, height] : {std::pair{7, 50}, {80, 11}, {1, 1}})
    EXPECT_EQ(resize(flat(40, 30, 201), width, height).rgb, flat(width, height, 201).rgb);
  // A checkerboard of single pixels shrinks to grey, not to one of its colours.
  Image board = flat(64, 64, 0);
  for (int i = 0; i < 64 * 64; ++i)
    for (int c = 0; c < 3; ++c) board.rgb[size_t(i) * 3 + c] = (i + i / 64) % 2 ? 255 : 0;
  const Image grey = resize(board, 16, 16);
  for (const uint8_t value : grey.rgb) EXPECT_NEAR(value, 127, 12);
}

TEST(Resize, DoublesBilinearly) {
  Image two = flat(2, 1, 0);
  std::fill(two.rgb.begin() + 3, two.rgb.end(), uint8_t{100});
  const Image four = resize(two, 4, 1);  // centres at -0.25, 0.25, 0.75, 1.25 of the way
  EXPECT_EQ(four.rgb[0], 0);
  EXPECT_EQ(four.rgb[3], 25);
  EXPECT_EQ(four.rgb[6], 75);
  EXPECT_EQ(four.rgb[9], 100);
}

}  // namespace
}  // namespace attest::core
