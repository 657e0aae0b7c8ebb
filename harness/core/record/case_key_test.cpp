// Keys: everything that makes a record the answer to another question tells them apart.
#include "core/record/case_key.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <vector>

namespace attest::core {
namespace {

Record a_record() {
  Record record;
  record.suite = "vit";
  record.case_name = "a/self";
  record.dtype = "f16";
  record.impl = "flash";
  record.plugin_hash = "0123456789abcdef";
  record.threads = 2;
  return record;
}

TEST(CaseKey, EachPartTellsRecordsApart) {
  const std::vector<std::function<void(Record&)>> changes{
      [](Record& r) { r.suite = "bev"; },        [](Record& r) { r.case_name = "b"; },
      [](Record& r) { r.dtype = "f32"; },        [](Record& r) { r.impl = "naive"; },
      [](Record& r) { r.plugin_hash = "fedc"; }, [](Record& r) { r.threads = 1; }};
  std::set<CaseKey> keys{key_of(a_record())}, questions{question_of(a_record())};
  for (const auto& change : changes) {
    Record record = a_record();
    change(record);
    EXPECT_TRUE(keys.insert(key_of(record)).second);
    questions.insert(question_of(record));
  }
  EXPECT_EQ(questions.size(), 5u);  // another build or number of threads answers the same question
}

TEST(CaseKey, IsNamedAsTheTablePrintsIt) {
  EXPECT_EQ(key_of(a_record()).name(), "vit/a/self f16 flash");
  Record record = a_record();
  record.suite = "";
  EXPECT_EQ(key_of(record).name(), "a/self f16 flash");
}

}  // namespace
}  // namespace attest::core
