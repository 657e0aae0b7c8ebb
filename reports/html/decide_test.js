// Tests of decide.js, in the same script: every way in which an implementation is not to be used.
// decide_test.sh runs it.
"use strict";

(function () {
  function record(changes) {
    var made = {impl: "a", threads: 1, family: 7, tokens: 1000, suite: "vit", name: "x",
      dtype: "f16", machine: "m", device: "cpu", verdict: "pass", max_ratio: 0.4,
      fills: [{exact: 10}],
      memory: {workspace: 0, peak: 100},
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
  // Which of several records counts.
  function of(hash, verdict) { return record({hash: hash, verdict: verdict}); }
  expect("the last record counts", [of("2", "pass"), of("1", "fail")], {}, "a rejected fail", null);
  expect("the last record counts, of another build", [of("1", "fail"), of("2", "pass")], {},
    "a usable", "a");
  expect("one library that fails at times", [of("1", "fail"), of("1", "pass")], {},
    "a rejected fail", null);
  expect("it failed before another build", [of("1", "fail"), of("2", "pass"), of("1", "pass")], {},
    "a rejected fail", null);
  expect("an error is no wrong output", [of("1", "error"), of("1", "pass")], {}, "a usable", "a");
  expect("a library that is not known", [of("", "fail"), of("", "pass")], {}, "a usable", "a");
  expect("a skip says less", [of("1", "pass"), of("1", "skipped")], {}, "a usable", "a");
  expect("a skip says less than a fail", [of("1", "fail"), of("1", "skipped")], {},
    "a rejected fail", null);
  expect("measured after a skip", [of("1", "skipped"), of("1", "pass")], {}, "a usable", "a");
  var runs = [{started: "2026-01-02"}, {started: "2026-01-01"}, {started: "2026-01-02"}];
  var ordered = oldestFirst([{run: 0, n: 1}, {run: 1, n: 2}, {run: 2, n: 3}, {run: 1, n: 4}], runs)
    .map(function (one) { return one.n; }).join("");
  if (ordered !== "2413") throw new Error("the oldest first: " + ordered);
  expect("a wrong one is not used, however fast", [record(), record({impl: "c", verdict: "crash"})],
    {}, "a usable, c rejected crash", "a");
  expect("skipped is not known", [record({verdict: "skipped"})], {}, "a undecided skipped", null);
  expect("unsupported", [record({verdict: "unsupported"})], {}, "a rejected unsupported", null);

  expect("an error at the limit", [record()], {max_error_ratio: 0.4}, "a usable", "a");
  expect("an error above it", [record()], {max_error_ratio: 0.39}, "a rejected accuracy", null);
  expect("an error that was not measured", [record({fills: [{exact: 0}], max_ratio: 0}),
    record({impl: "b", fills: undefined, max_ratio: 0})], {max_error_ratio: 0.4},
    "a undecided accuracy, b undecided accuracy", null);
  expect("an error that nobody asks about", [record({fills: undefined})], {}, "a usable", "a");
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
  expect("memory that was counted in part, without words for what is not",
    [record({memory: {workspace: 0, peak: 1, unseen: ""}})], {memory_bytes: 99},
    "a undecided memory", null);
  expect("a device's pool and workspace", [record({memory: {workspace: 60, pool: 40, peak: 1}})],
    {memory_bytes: 99}, "a rejected memory", null);

  expect("the slowest at the deadline", [record()], {deadline_ns: 15}, "a usable", "a");
  expect("the median meets it, the slowest does not", [record()], {deadline_ns: 14},
    "a undecided deadline", null);
  expect("a frame misses it", [record({time: time({frames: 3, frame: 20})})], {deadline_ns: 16},
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

  // Times that are not finite.
  [NaN, Infinity].forEach(function (none) {
    expect("the slowest is " + none, [record({time: time({max: none})})], {deadline_ns: 20},
      "a undecided deadline", null);
    expect("a cold time is " + none, [record({time: time({cold: none})})], {deadline_ns: 20},
      "a undecided deadline", null);
    var odd = record({time: time({median: none})});
    var slow = record({impl: "b", time: time({median: 1e9})});
    expect("a median of " + none + " is not the fastest", [odd, slow], {}, "b usable, a usable",
      "b");
    expect("a median of " + none + ", given last", [slow, odd], {}, "b usable, a usable", "b");
  });
  expect("a median from NaN", [record({time: time({low: NaN})})], {deadline_ns: 20},
    "a undecided deadline", null);
  expect("a median from infinity", [record({time: time({low: Infinity})})], {deadline_ns: 20},
    "a rejected deadline", null);

  // Cases of one name.
  expect("another problem of this name does not count",
    [record(), record({impl: "b", spec: "head_dim=32"}), record({impl: "c", inputs: "image"})], {},
    "a usable", "a");
  expect("other inputs of this name", [record(), record({impl: "c", inputs: "image"})],
    {inputs: "image"}, "c usable", "c");

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
    {tokens: 2000}, "a rejected fail", null);
  expect("two cases of one size, and one is not timed",
    [at(2000), at(2000, {name: "y", time: undefined})], {tokens: 2000, deadline_ns: 20},
    "a undecided time", null);
  expect("the last record of a size counts", [at(2000, {verdict: "fail"}), at(2000)],
    {tokens: 2000}, "a usable", "a");
  // The nearest size that decides, of whatever entry.
  function expectNearestSize(what, records, tokens, expected) {
    var question = asked({tokens: tokens});
    var got = nearestPoint(decide(records, question).entries, question).name;
    if (got !== expected) throw new Error(what + ": " + got);
  }
  expectNearestSize("of the slower entry", [at(4000, took(1)), at(16000, {impl: "b"})], 32000,
    "n16000");
  expectNearestSize("a skipped one is not measured", [at(4000),
    at(16000, {impl: "b", verdict: "skipped", time: undefined})], 32000, "n4000");
  // Sizes that are multiples of what the judged ones are multiples of.
  var powers = [at(4096), at(8192)];
  expect("no multiple of 4,096", powers, {tokens: 5001}, "a undecided alignment", null);
  expect("a multiple of 8, as 1,000", powers.concat([at(1000)]), {tokens: 5000}, "a usable", "a");
  expect("a multiple of 4", powers.concat([at(1000)]), {tokens: 5004}, "a undecided alignment",
    null);
  expect("it failed at an odd one", powers.concat([at(1001, {verdict: "fail"})]), {tokens: 5001},
    "a undecided alignment", null);
  expect("too slow on both sides", powers, {tokens: 5001, deadline_ns: 1}, "a rejected deadline",
    null);
  if (decide(powers, asked({tokens: 5001})).entries[0].multiple !== 4096)
    throw new Error("the multiple that was judged");
  // What was skipped has an estimated time.
  function skipped(estimated, changes) {
    var made = record({verdict: "skipped", time: undefined, estimated: estimated,
      memory: {workspace: 50}});
    for (var key in changes) made[key] = changes[key];
    return made;
  }
  expect("an estimate beyond ten times the deadline", [skipped(101)], {deadline_ns: 10},
    "a rejected estimate", null);
  expect("an estimate of ten times the deadline", [skipped(100)], {deadline_ns: 10},
    "a undecided skipped", null);
  expect("an estimate without a deadline", [skipped(1e9)], {}, "a undecided skipped", null);
  expect("an estimate for a GPU", [skipped(1e9, {device: "cuda"})], {deadline_ns: 10},
    "a undecided skipped", null);
  expect("skipped, with too large a declared workspace", [skipped(1)], {memory_bytes: 49},
    "a rejected memory", null);
  expect("skipped, with a declared workspace at the limit", [skipped(1)], {memory_bytes: 50},
    "a undecided skipped", null);
  var slow = skipped(101, {tokens: 4000, name: "n4000"});
  expect("a size that was estimated to be too slow", [at(1000, took(1)), slow],
    {tokens: 4000, deadline_ns: 10}, "a rejected estimate", null);
  expect("a size beyond it", [at(1000, took(1)), slow], {tokens: 5000, deadline_ns: 10},
    "a rejected estimate", null);
  expect("a size between", [at(1000, took(1)), slow], {tokens: 2000, deadline_ns: 10},
    "a undecided between", null);

  // What does not depend on tokens.
  function refused(tokens, reason, name) {
    return at(tokens, {name: name || "n" + tokens, verdict: "unsupported", reason: reason,
      code: "unsupported:query", time: undefined});
  }
  expect("unsupported at the one larger size", [refused(4000, "at most 2,000")], {tokens: 1000},
    "a undecided range", null);
  expect("unsupported at two larger sizes", [refused(4000, "no f32"), refused(8000, "no f32")],
    {tokens: 1000}, "a rejected unsupported", null);
  expect("unsupported for other reasons at two larger sizes",
    [refused(4000, "no f32"), refused(8000, "no GQA")], {tokens: 1000}, "a undecided range", null);
  var listed = refused(4000, "does not take f32");
  listed.code = "unsupported:table";
  expect("a table has no tokens", [listed], {tokens: 1000}, "a rejected unsupported", null);
  var foreign = refused(4000, "no kernel for sm_87: it has sm_90a");
  foreign.code = "unsupported:kernel";
  expect("a device has no tokens", [foreign], {tokens: 1000}, "a rejected unsupported", null);
  expect("unsupported for two reasons at a larger size",
    [refused(4000, "no f32"), refused(4000, "no GQA", "y"), refused(8000, "no f32")],
    {tokens: 1000}, "a undecided range", null);
  expect("unsupported at the one smaller size", [refused(1000, "no f32")], {tokens: 4000},
    "a rejected unsupported", null);
  expect("unsupported on both sides", [refused(1000, "no f32"), refused(4000, "no f32")],
    {tokens: 2000}, "a rejected unsupported", null);

  // The nearest miss.
  function expectNearest(what, records, question, expected) {
    var one = decide(records, asked(question)).nearest;
    var got = one ? [one.impl, one.miss.limit, one.miss.factor].join(" ") : "none";
    if (got !== expected) throw new Error(what + ": " + got);
  }
  var c = record({impl: "c", time: time({median: 30, low: 28, max: 40})});
  expectNearest("some may be used", [record(), c], {deadline_ns: 20}, "none");
  expectNearest("the fastest that was measured", [c, record(), skipped(200, {impl: "d"})],
    {deadline_ns: 5}, "a deadline 2");
  expectNearest("an undecided one", [c, record()], {deadline_ns: 12}, "a deadline 1.25");
  expectNearest("the undecided first", [record({time: time({max: 80})}),
    record({impl: "c", time: time({median: 22, low: 21})})], {deadline_ns: 20}, "a deadline 4");
  expectNearest("the limit that is exceeded the most", [record()],
    {deadline_ns: 5, memory_bytes: 25, max_error_ratio: 0.2}, "a memory 4");
  expectNearest("an error", [record()], {max_error_ratio: 0.2}, "a accuracy 2");
  expectNearest("no measured one", [skipped(101), record({impl: "b", verdict: "fail"})],
    {deadline_ns: 5}, "none");
  expectNearest("a size that was not measured", sizes, {tokens: 999, deadline_ns: 1}, "none");

  // Implementations without a record of the problem.
  function expectOthers(what, records, question, expected) {
    var answer = decide(records, asked(question));
    var got = answer.others.map(function (one) { return one.impl + one.name; }).join(" ") + " on " +
      (answer.problem ? answer.problem.name : "none");
    if (got !== expected) throw new Error(what + ": " + got);
  }
  expectOthers("all have a record", [record(), b], {}, " on x");
  expectOthers("seen on another case", [b, record(), record({impl: "c", name: "y"}),
    record({impl: "b", name: "z"}), record({impl: "c", name: "z"})], {}, "cz on x");
  expectOthers("another machine", [record(), record({impl: "c", machine: "n", name: "y"})], {},
    " on x");
  expectOthers("measured on the nearest size", [at(1000), at(4000), at(16000),
    record({impl: "c", family: 8, name: "y"})], {tokens: 5000}, "cy on n4000");

  expect("threads are told apart", [record({threads: 2, time: time({median: 4})}), record()], {},
    "a usable, a usable", "a");
  // The command that asks the same.
  function expectCommand(question, expected) {
    var got = chooseCommand(["a.jsonl", "b c.jsonl"], asked(question));
    if (got !== "attest choose a.jsonl 'b c.jsonl' --case " + expected)
      throw new Error("the command " + got);
  }
  expectCommand({}, "vit/x --dtype f16");
  expectCommand({tokens: 4096, deadline_ns: 12500000, memory_bytes: 1572864, max_error_ratio: 0.5},
    "vit/x --dtype f16 --tokens 4096 --deadline 12.5ms --memory 1572864B --max-error-ratio 0.5");
  expectCommand({suite: "", name: "a*b,c?[d]\\e'f", dtype: "f16; g"},
    "'a\\*b?c\\?\\[d]\\\\e'\\''f' --dtype 'f16; g'");

  // What the command refuses.
  function expectRefused(question, expected) {
    var got = refusedLimit(asked(question));
    if (got.indexOf(expected) !== 0 || (got === "") !== (expected === ""))
      throw new Error("refused: " + got);
  }
  expectRefused({}, "");
  expectRefused({tokens: 1, deadline_ns: 1, memory_bytes: 1, max_error_ratio: 0}, "");
  expectRefused({tokens: 0}, "the tokens");
  expectRefused({deadline_ns: 0}, "the deadline");
  expectRefused({deadline_ns: -5}, "the deadline");
  expectRefused({memory_bytes: 0}, "the memory");
  expectRefused({max_error_ratio: 1.5}, "the error");

  print("every question has the right answer");
}());
