// Tests of decide.js, in the same script: every way in which an implementation is not to be used.
// decide_test.sh runs it.
"use strict";

(function () {
  function record(changes) {
    var made = {impl: "a", threads: 1, family: 7, tokens: 1000, suite: "vit", name: "x", dtype: "f16", machine: "m", verdict: "pass",
      max_ratio: 0.4, memory: {workspace: 0, peak: 100},
      time: {median: 10, low: 9, high: 11, max: 15, cold: 0}};
    for (var key in changes) made[key] = changes[key];
    return made;
  }
  function asked(changes) {
    var made = {suite: "vit", name: "x", dtype: "f16", machine: "m", family: 7,
      tokens: null, deadline_ns: null, memory_bytes: null, max_error_ratio: null};
    for (var key in changes) made[key] = changes[key];
    return made;
  }
  function expect(what, records, question, states, best) {
    var answer = decide(records, asked(question));
    var got = answer.entries.map(function (entry) {
      return entry.impl + " " + entry.state + (entry.why ? " " + entry.why : "");
    }).join(", ");
    var taken = answer.best ? answer.best.impl : null;
    if (got !== states || taken !== best) throw new Error(what + ": " + got + "; best " + taken);
  }
  function time(changes) {
    var made = {median: 10, low: 9, high: 11, max: 15, cold: 0};
    for (var key in changes) made[key] = changes[key];
    return made;
  }
  var b = record({impl: "b", time: time({median: 5, low: 5, max: 6})});

  expect("no records", [], {}, "", null);
  expect("the fastest is best", [record(), b], {}, "b usable, a usable", "b");
  expect("another case, dtype or machine does not count",
    [record({name: "y"}), record({dtype: "f32"}), record({machine: "n"}), record({suite: "w"})],
    {}, "", null);
  expect("the last record counts", [record({verdict: "fail"}), record()], {}, "a usable", "a");
  expect("the last record counts, also if it is bad", [record(), record({verdict: "fail"})], {},
    "a rejected fail", null);
  expect("a wrong one is not used, however fast", [record(), record({impl: "c", verdict: "crash"})],
    {}, "a usable, c rejected crash", "a");
  expect("skipped is not known", [record({verdict: "skipped"})], {}, "a undecided skipped", null);
  expect("unsupported", [record({verdict: "unsupported"})], {}, "a rejected unsupported", null);

  expect("an error at the limit", [record()], {max_error_ratio: 0.4}, "a usable", "a");
  expect("an error above it", [record()], {max_error_ratio: 0.39}, "a rejected accuracy", null);
  expect("an error of NaN", [record({max_ratio: NaN})], {max_error_ratio: 1}, "a rejected accuracy",
    null);

  expect("memory at the limit", [record()], {memory_bytes: 100}, "a usable", "a");
  expect("memory above it", [record()], {memory_bytes: 99}, "a rejected memory", null);
  expect("memory that was not measured", [record({memory: {workspace: 1}})], {memory_bytes: 99},
    "a undecided memory", null);
  expect("a declared workspace above the limit", [record({memory: {workspace: 100}})],
    {memory_bytes: 99}, "a rejected memory", null);
  expect("memory that was counted in part",
    [record({memory: {workspace: 0, peak: 1, unseen: "streams"}})], {memory_bytes: 99},
    "a undecided memory", null);
  expect("a device's pool and workspace", [record({memory: {workspace: 60, pool: 40, peak: 1}})],
    {memory_bytes: 99}, "a rejected memory", null);

  expect("the slowest at the deadline", [record()], {deadline_ns: 15}, "a usable", "a");
  expect("the median meets it, the slowest does not", [record()], {deadline_ns: 14},
    "a undecided deadline", null);
  expect("a cold run misses it", [record({time: time({cold: 20})})], {deadline_ns: 16},
    "a undecided deadline", null);
  expect("the median misses it", [record()], {deadline_ns: 8}, "a rejected deadline", null);
  expect("not timed", [record({time: undefined})], {deadline_ns: 8}, "a undecided time", null);
  expect("a rejection outweighs what is not known", [record({time: undefined})],
    {deadline_ns: 8, memory_bytes: 99}, "a rejected memory", null);
  expect("usable before undecided before rejected",
    [record({impl: "c", verdict: "fail"}), record(), b], {deadline_ns: 14},
    "b usable, a undecided deadline, c rejected fail", "b");

  // At sizes that were not measured.
  function at(tokens, changes) {
    var made = record({name: "n" + tokens, tokens: tokens});
    for (var key in changes) made[key] = changes[key];
    return made;
  }
  function took(ns) { return {time: time({median: ns, low: ns, high: ns, max: ns})}; }
  var sizes = [at(1000, took(10)), at(4000, took(40))];
  expect("a measured size", sizes, {tokens: 1000, deadline_ns: 10}, "a usable", "a");
  expect("another family", [at(1000, {family: 8})], {tokens: 1000}, "", null);
  expect("both sides within", sizes, {tokens: 2000, deadline_ns: 40}, "a usable", "a");
  expect("both sides beyond", sizes, {tokens: 2000, deadline_ns: 9}, "a rejected deadline", null);
  expect("the larger one beyond", sizes, {tokens: 2000, deadline_ns: 30}, "a undecided between",
    null);
  expect("wrong on one side", [at(1000), at(4000, {verdict: "fail"})], {tokens: 2000},
    "a undecided between", null);
  expect("larger than measured", sizes, {tokens: 4001, deadline_ns: 100}, "a undecided range",
    null);
  expect("larger than measured, and too slow at the largest", sizes,
    {tokens: 4001, deadline_ns: 30}, "a rejected deadline", null);
  expect("smaller than measured", sizes, {tokens: 999}, "a undecided range", null);
  expect("smaller than measured, and too slow there", sizes, {tokens: 999, deadline_ns: 1},
    "a undecided range", null);
  expect("a skipped size was not measured",
    [at(1000), at(2000, {verdict: "skipped", time: undefined}), at(4000)], {tokens: 2000},
    "a usable", "a");
  expect("only skipped", [at(2000, {verdict: "skipped"})], {tokens: 2000}, "a undecided skipped",
    null);
  expect("two cases of one size both count", [at(2000), at(2000, {name: "y", verdict: "fail"})],
    {tokens: 2000}, "a undecided between", null);
  expect("the last record of a size counts", [at(2000, {verdict: "fail"}), at(2000)],
    {tokens: 2000}, "a usable", "a");
  expect("threads are told apart", [record({threads: 2, time: time({median: 4})}), record()], {},
    "a usable, a usable", "a");
  print("every question has the right answer");
}());
