// The machine as it is described by files of other machines, and what must never be told.
#include "core/measure/environment.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

namespace attest::core {
namespace {

TEST(Environment, ReadsCpusOfSeveralKinds) {
  const auto amd = parse_cpuinfo("processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC 9R14\nstepping\t: 1\nflags\t\t: fpu sse4_2 avx2 fma avx512f hypervisor\n");
  EXPECT_EQ(amd.at("model"), "AMD EPYC 9R14");
  EXPECT_EQ(amd.at("model_number"), "17");
  EXPECT_EQ(amd.at("features"), "sse4_2 avx2 fma avx512f");
  EXPECT_EQ(amd.at("virtual"), "yes");
  const auto orin = parse_cpuinfo("processor\t: 0\nFeatures\t: fp asimd fphp asimdhp asimddp\nCPU implementer\t: 0x41\nCPU part\t: 0xd42\n");
  EXPECT_EQ(orin.at("features"), "asimd fphp asimdhp asimddp");
  EXPECT_EQ(orin.at("part"), "0xd42");
  EXPECT_EQ(orin.at("virtual"), "no");
  EXPECT_EQ(parse_cpuinfo("").count("model"), 0u);
}

TEST(Environment, KnowsTheBuild) {
  const Environment environment = read_environment();
  EXPECT_FALSE(environment.at("build").at("compiler").empty());
  EXPECT_FALSE(environment.at("build").at("commit").empty());
  EXPECT_FALSE(environment.at("libraries").at("Google Benchmark").empty());
  EXPECT_FALSE(environment.at("cpu").at("allowed").empty());
}

TEST(Environment, TellsNoNames) {
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  for (const auto& [group, facts] : read_environment()) {
    for (const auto& [key, text] : facts) {
      for (const std::string& secret : {std::string(host), std::string(std::getenv("USER") ? std::getenv("USER") : "")})
        EXPECT_TRUE(secret.size() < 5 || text.find(secret) == text.npos) << key;
      EXPECT_NE(text.substr(0, 1), "/") << group << "." << key << " is a path: " << text;
    }
  }
}

TEST(Environment, DiagnosesWithAdvice) {
  const auto findings = diagnose();
  EXPECT_GE(findings.size(), 6u);
  for (const Finding& finding : findings) {
    EXPECT_FALSE(finding.what.empty() || finding.found.empty()) << finding.what;
    EXPECT_TRUE(finding.kind != Finding::Kind::kMissing || !finding.advice.empty()) << finding.what;
  }
}

}  // namespace
}  // namespace attest::core
