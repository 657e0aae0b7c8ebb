// Escapes: hostile text stays text.
#include "reports/words/escape.hpp"

#include <gtest/gtest.h>

namespace attest::reports {
namespace {

using namespace std::string_literals;

TEST(Escape, InvalidBytesBecomeTheReplacementCharacter) {
  EXPECT_EQ(valid_utf8("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x92\xa5"),
            "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x92\xa5");
  EXPECT_EQ(valid_utf8("\xff"), "\xef\xbf\xbd");
  EXPECT_EQ(valid_utf8("\xc0\xaf"), "\xef\xbf\xbd\xef\xbf\xbd") << "two bytes for a slash";
  EXPECT_EQ(valid_utf8("\xe2\x82"), "\xef\xbf\xbd\xef\xbf\xbd") << "cut";
  EXPECT_EQ(valid_utf8("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd") << "a surrogate";
  EXPECT_EQ(valid_utf8("\xf4\x90\x80\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd")
      << "beyond the last character";
}

TEST(Escape, NoTextSteersATerminal) { EXPECT_EQ(printable("a\033[31mb\n\xc2\x9b"), "a?[31mb??"); }

TEST(Escape, XmlHasNoMarkupAndOnlyItsCharacters) {
  EXPECT_EQ(xml("<a b=\"c\" d='e'>&]]>"), "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;]]&gt;");
  EXPECT_EQ(xml("a\tb\nc\r"), "a&#9;b&#10;c&#13;") << "attributes keep their line ends";
  EXPECT_EQ(xml("\x01\0"s + "\xef\xbf\xbe"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(Escape, CsvIsNoFormula) {
  for (const char* formula : {"=1+1", "+1", "-1", "@SUM(A1)", " =1+1", "\t=1"})
    EXPECT_NE(csv_text(formula).find("'"), std::string::npos) << formula;
  EXPECT_EQ(csv_text("=a,\"b\""), "\"'=a,\"\"b\"\"\"");
  EXPECT_EQ(csv_text("a=b"), "a=b");
  EXPECT_EQ(csv_text("two\nlines"), "\"two\nlines\"");
}

TEST(Escape, MarkdownHasNoMarkup) {
  EXPECT_EQ(markdown("<b> & a|b `c` *d* [e](f) @g ~h~ $i$ \\ j\nk"),
            "&lt;b> &amp; a\\|b \\`c\\` \\*d\\* [e\\](f) &#64;g \\~h\\~ \\$i\\$ \\\\ j k");
  EXPECT_EQ(markdown("vit_b_16/self"), "vit_b_16/self");
}

TEST(Escape, CodeSpansEndWhereTheyShould) {
  EXPECT_EQ(markdown_code("a"), "`a`");
  EXPECT_EQ(markdown_code("a`b``c"), "```a`b``c```");
  EXPECT_EQ(markdown_code("`a`"), "`` `a` ``");
  EXPECT_EQ(markdown_code("a\nb"), "`a b`");
}

}  // namespace
}  // namespace attest::reports
