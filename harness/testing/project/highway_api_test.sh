#!/usr/bin/env bash
# Tests that the sources use nothing that Highway 0.16 lacks, which Ubuntu 22.04 and so JetPack 6
# have, but for what stands behind #if HWY_MAJOR. Then it tests that it finds such names.
# usage: highway_api_test.sh SOURCE_DIR
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What is used, and in the headers of libhwy-dev 0.16.0-1. Enter a name here only after they have
# it. HWY_SVE_256 and HWY_SVE2_128 are not in them: simd/targets.hpp defines both.
known='Abs Add AllFalse AllTrue And BitCast CappedTag Combine Compress ConvertTo CopySign CountTrue
DFromV DemoteTo Div Eq Exp FixedTag Floor GatherIndex Ge GetChosenTarget GetLane Gt
HWY_NAMESPACE Half IfThenElse IfThenElseZero IfThenZeroElse InterleaveLower InterleaveUpper Iota
Lanes Le Load LoadU LowerHalf Lt Mask Max MaxLanes MaxOfLanes Min MinOfLanes Mul MulAdd MulSub
Ne Neg NegMulAdd Not Or Prefetch PromoteTo Rebind RebindMask RebindToSigned RebindToUnsigned
Repartition ScalableTag Set SetSupportedTargetsForTest ShiftLeft ShiftRight Sqrt Store
StoreMaskBits StoreU Sub SumOfLanes SupportedTargets TargetName UpperHalf Vec VecFromMask Zero
float16_t platform'

# uses FOLDER...: each name of Highway in their sources that is not known, with its place. Lines
# behind #if HWY_MAJOR and its #else do not count.
uses() {
  find "$@" -regex '.*\.\(cpp\|hpp\)' -print0 | sort -z | xargs -0 awk -v known="$known" '
    BEGIN { split(known, names, /[ \n]+/); for (i in names) has[names[i]] = 1 }
    FNR == 1 { depth = guarded = 0 }
    /^ *#if/ { depth++; if (!guarded && /HWY_MAJOR/) guarded = depth }
    /^ *#endif/ { if (guarded == depth) guarded = 0; depth-- }
    guarded { next }
    {
      line = $0
      sub(/\/\/.*/, "", line)
      while (match(line, /(hn|hwy)::[A-Za-z][A-Za-z0-9_]*/)) {
        name = substr(line, RSTART, RLENGTH)
        before = RSTART > 1 ? substr(line, RSTART - 1, 1) : ""
        line = substr(line, RSTART + RLENGTH)
        sub(/.*::/, "", name)
        if (!(name in has) && before !~ /[A-Za-z0-9_]/) print FILENAME ":" FNR ": " name
      }
    }'
}

found=$(uses "$source/impls" "$source/harness" "$source/reports")
[[ -z $found ]] || { echo "not in Highway 0.16:"; echo "$found"; exit 1; }

cat >"$work/planted.cpp" <<'PLANTED'
auto f() { return hn::Add(a, hn::IsInf(b)); }  // not hn::Commented
#if HWY_MAJOR >= 1
void g() { hn::LoadInterleaved2(d, p, x, y); }
#else
void g() { hwy::OldCall(); }
#endif
void h() { own_hn::Mine(), hn::LoadInterleaved2(d, p, x, y); }
PLANTED
echo 'inline void f() { hwy::OnlyInAHpp(); }' >"$work/planted.hpp"
[[ $(uses "$work") == "$work/planted.cpp:1: IsInf
$work/planted.cpp:7: LoadInterleaved2
$work/planted.hpp:1: OnlyInAHpp" ]] || { echo "finds something else:"; uses "$work"; exit 1; }
