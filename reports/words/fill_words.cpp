#include "reports/words/fill_words.hpp"

#include <algorithm>

namespace attest::reports {
namespace {

constexpr FillWords kWords[] = {
    {"random",
     "normal Q, K and V; masks and biases that hide single pairs at random, finite biases that "
     "hide",
     "most mistakes, if the problem is small",
     "all but large gradients that have codebook or repeated; a case that takes tokens has the "
     "fill "
     "tokens in its place"},
    {"tokens", "Q, K and V projected from the points of a sweep or from an image",
     "values that follow a scene", "the cases of suites that take tokens, in place of random"},
    {"codebook", "keys and queries that are taken from a few vectors",
     "one wrong row or one lost key among many",
     "softmax attention, but not with top_k or in 8 bits; gradients whose rows have a closed form, "
     "but not in 8 bits"},
    {"codebook_peaked", "scores of which one leads by 24 in every row",
     "a sum that is not rescaled, or one lost key",
     "softmax attention, but not with top_k or in 8 bits; gradients whose rows have a closed form, "
     "but not in 8 bits"},
    {"huge", "logits near 30,000, near -30,000 or near 0 in a row; hidden keys are NaN",
     "exp without a maximum, a maximum that starts too high, scores that overflow, hidden keys "
     "that are read",
     "softmax attention, but not with top_k or in 8 bits"},
    {"rising", "a maximum that rises late in the row, by little or by much, or in one lane only",
     "a maximum that is not taken over all keys, a sum that is not rescaled in some tile, small "
     "weights that are dropped",
     "softmax attention, but not with top_k or in 8 bits; rising_2 and so on where rows are "
     "few, or where a bias, slopes or rel_bias meet a softcap below 46",
     true},
    {"wide",
     "scores of a row that spread over hundreds, thousands or more; in some rows all are negative",
     "a sum that is not rescaled when the maximum rises by much, an exponent that wraps, a maximum "
     "of negative scores",
     "softmax attention, but not with top_k or in 8 bits"},
    {"subnormal",
     "subnormal numbers of f16 in queries, keys and values, on which the outputs depend",
     "numbers that are flushed to 0 where they are loaded",
     "softmax attention with q, k and v in f16, but not with top_k"},
    {"wild", "a few NaN and infinities in keys, values and queries that rows see",
     "a NaN that a maximum drops, an infinity that is taken for a mask",
     "softmax attention without top_k, linear attention without a query mask, deformable "
     "attention, gradients without top_k, but not large ones that have codebook or repeated; "
     "wild_2 and so on where queries are few",
     true},
    {"cancelling", "values that cancel in every row, so that little but the error is left",
     "less precision than declared",
     "softmax attention, but not with ALiBi, REL_BIAS, shift_bias, top_k or in 8 bits; linear "
     "attention, deformable attention with 3 points or more, gradients, but not large ones that "
     "have codebook or repeated"},
    {"faint", "a normaliser that is small and comes from few keys",
     "a wrong eps, a normaliser that loses small terms, a small phi that is taken for 0",
     "linear attention"},
    {"large", "some keys, queries and values that are some 50 times as large, in linear attention",
     "exp of a large number multiplied by 0, large numbers that are cut", "linear attention"},
    {"borders",
     "points on and beside the edges of the levels and on the centres of pixels, in deformable "
     "attention",
     "an edge that is repeated where zeros belong, a last row or column that is lost, a negative "
     "coordinate that is cut towards 0",
     "deformable attention"},
    {"alone",
     "one level, or points of one place, that have all the weight, in deformable attention",
     "a level that is read at the wrong place, a weight of another point", "deformable attention"},
    {"far", "points far outside of their levels, up to the largest number of the dtype",
     "a coordinate that overflows a whole number", "deformable attention"},
    {"sized",
     "large and small rows of dO, and scores near 90 and near -90, in gradients of softmax "
     "attention",
     "exp without the maximum, gradients that are cut off or flushed to 0",
     "gradients, but not large ones that have codebook or repeated"},
    {"repeated",
     "few distinct keys with their values, and few distinct queries with dO of either sign, in "
     "gradients of softmax attention",
     "some queries or keys that a tile loses, in any row",
     "gradients in which every query sees every key: without a band, patches, a grid, a mask, "
     "biases, slopes, top_k and 8 bits; where the golden judges every row of other inputs, only "
     "with --fill repeated"},
    {"late", "the last keys have large scores, in gradients of softmax attention",
     "a tail of keys that is lost, weights that are large",
     "gradients, but not large ones that have codebook or repeated"},
    {"hidden",
     "NaN in keys that no query sees and in queries that see no key, and biases of some -40,000, "
     "in gradients of softmax attention",
     "what is hidden, multiplied by 0 and added; rows with a large negative LSE, taken for hidden",
     "gradients with a band, a mask, a bias or lengths of sequences, but not large ones that have "
     "codebook or repeated"},
    {"edges", "a heavy key at either end of the row, or beside the edge of a tile",
     "a key that is lost, doubled or displaced at an edge",
     "softmax attention, but not with top_k or in 8 bits; only with --fill edges, or with --fill "
     "all"},
    {"equal", "scores that are all equal in a row", "a wrong sum of the normaliser, ties",
     "softmax attention, but not with top_k or in 8 bits; only with --fill equal, or with --fill "
     "all"},
    {"flat", "scores that differ by little in a row", "a wrong sum of the normaliser",
     "softmax attention, but not with top_k or in 8 bits; only with --fill flat, or with --fill "
     "all"},
    {"tiny", "numbers below the smallest normal one", "numbers that are flushed to 0",
     "softmax attention, but not with top_k or in 8 bits; only with --fill tiny, or with --fill "
     "all"},
    {"f8_bands",
     "numbers in 8 bits of which each channel has those of one binade, so that every code occurs",
     "a decoder with another bias, without subnormal numbers, or with another top exponent",
     "softmax attention and gradients with q, k and v in 8 bits"},
    {"top_k_levels",
     "scores on few levels, so that no rounding moves a key across the edge of top_k",
     "one key too many or too few, the last of equal keys in place of the first, a wrong order of "
     "negative or far scores",
     "softmax attention with top_k, but not in 8 bits; gradients with top_k"},
    {"top_k_close", "scores beside the edge of top_k that differ only by rounding",
     "a choice of keys that no rounding explains",
     "softmax attention with top_k, but not in 8 bits; gradients with top_k, only with --fill "
     "top_k_close"},
    {"top_k_wild", "the scores of top_k_levels with a few NaN and infinities",
     "a NaN or an infinity that is lost, or that shows where its key does not count",
     "softmax attention with top_k, but not in 8 bits, and gradients with top_k, but neither with "
     "ALiBi, shift_bias or a softcap"},
};

// Whether it is "rising_2" or another round of "rising".
bool is_round(std::string_view fill, std::string_view first) {
  if (!fill.starts_with(first) || fill.size() < first.size() + 2 || fill[first.size()] != '_')
    return false;
  const std::string_view number = fill.substr(first.size() + 1);
  return number.find_first_not_of("0123456789") == number.npos && number[0] != '0' && number != "1";
}

}  // namespace

std::span<const FillWords> all_fill_words() { return kWords; }

const FillWords* fill_words(std::string_view fill) {
  const auto names_it = [fill](const FillWords& words) {
    return words.fill == fill || (words.has_rounds && is_round(fill, words.fill));
  };
  const auto* const at = std::ranges::find_if(kWords, names_it);
  return at == std::end(kWords) ? nullptr : at;
}

}  // namespace attest::reports
