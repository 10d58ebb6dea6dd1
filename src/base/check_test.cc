#include "cohort/base/check.h"

#include <stdexcept>

#include <gtest/gtest.h>

#include "cohort/base/result.h"

namespace cohort {
namespace {

class ThrowingChecks : public testing::Test {
 protected:
  void SetUp() override {
    before_ = set_check_handler([](const std::string& m) { throw std::runtime_error(m); });
  }
  void TearDown() override { set_check_handler(before_); }

 private:
  CheckHandler before_ = nullptr;
};

using Check = ThrowingChecks;
using ResultTest = ThrowingChecks;

TEST_F(Check, FailureNamesFileConditionAndReason) {
  try {
    COHORT_CHECK(1 + 1 == 3, "arithmetic");
    FAIL() << "the check passed";
  } catch (const std::runtime_error& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("check_test.cc:"), std::string::npos) << text;
    EXPECT_NE(text.find("CHECK(1 + 1 == 3) failed: arithmetic"), std::string::npos) << text;
  }
}

TEST_F(Check, SuccessDoesNothing) { COHORT_CHECK(true, "never built"); }

Result<int> half(int n) {
  if (n % 2 != 0) return fail(ErrorCode::kInvalidArgument, "odd");
  return n / 2;
}

Result<int> quarter(int n) {
  COHORT_TRY(const int h, half(n));
  return half(h);
}

TEST_F(ResultTest, TryReturnsTheValueOrTheError) {
  EXPECT_EQ(*quarter(8), 2);
  ASSERT_FALSE(quarter(6));
  EXPECT_EQ(quarter(6).error().message, "odd");
  EXPECT_EQ(quarter(3).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(ResultTest, ReadingTheWrongSideIsACheck) {
  EXPECT_THROW((void)*half(1), std::runtime_error);
  EXPECT_THROW((void)half(2).error(), std::runtime_error);
  EXPECT_THROW((void)Status().error(), std::runtime_error);
  EXPECT_THROW(Status(fail(ErrorCode::kIo, "gone")).value(), std::runtime_error);
}

}  // namespace
}  // namespace cohort
