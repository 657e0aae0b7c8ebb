// The rule of Decide, which is also that of `attest choose` (reports/choice/choice.hpp);
// browser_decide.py compares them. It is plain ECMAScript 5, so that any JavaScript engine can test
// it (decide_test.js).
//
// question: {suite, name, dtype, machine, spec, inputs: of the case that is asked about;
//            family, tokens: if tokens is not null, problems of this family at this size instead;
//            deadline_ns, memory_bytes, max_error_ratio: limits, null where there is none}
// records: the oldest first (oldestFirst).
// answer: {best: an entry or null, entries: [{impl, threads, state, why, points, miss, median_ns,
//          worst_ns, multiple}], nearest: an entry or null, others: records,
//          problem: a record or null},
// where state is "usable", "undecided" or "rejected", in this order, the fastest first. points: the
// records that decide, the nearest first. miss: {limit, factor}, by how much an implementation that
// passes misses its limits; nearest: the entry with the smallest. others: a record of each
// implementation that this machine ran on other problems and not on this one; problem: that which
// they are to be measured on. multiple: of why "alignment", the largest power of two that
// all judged sizes are multiples of.
"use strict";

// How far an estimated time may be off (reports/choice/choice.hpp says why).
var estimateFactor = 10;

// Reasons of the table and of a plugin's kernels, which know no tokens.
var codesWithoutTokens = ["unsupported:table", "unsupported:kernel"];

var stateRanks = {usable: 0, undecided: 1, rejected: 2};

/* exported decide, decideOne, nearestPoint, oldestFirst, refusedLimit */
function decide(records, question) {
  var groups = decideGroups(records, question), entries = [], i;
  for (i = 0; i < groups.length; ++i) entries.push(decideGroup(groups[i], question));
  entries.sort(function (a, b) {
    if (a.state !== b.state) return stateRanks[a.state] - stateRanks[b.state];
    var first = a.median_ns === null ? Infinity : a.median_ns;
    var second = b.median_ns === null ? Infinity : b.median_ns;
    if (first !== second) return first < second ? -1 : 1;
    if (a.impl !== b.impl) return a.impl < b.impl ? -1 : 1;
    return a.threads - b.threads;
  });
  var usable = entries.length > 0 && entries[0].state === "usable";
  return {best: usable ? entries[0] : null, entries: entries,
    nearest: usable ? null : nearestMiss(entries), others: decideOthers(records, question),
    problem: problemToMeasure(records, question)};
}

// The records by the times at which their runs were started.
function oldestFirst(records, runs) {
  return records.map(function (record, order) {
    return {record: record, started: runs[record.run].started, order: order};
  }).sort(function (a, b) {
    if (a.started !== b.started) return a.started < b.started ? -1 : 1;
    return a.order - b.order;
  }).map(function (one) { return one.record; });
}

function isAsked(record, question) {
  return question.tokens !== null ? record.family === question.family
    : isOfCase(record, question);
}

// Cases of one name may have other problems: attest run 'softmax ...' names every one problem1.
function isOfCase(record, question) {
  return record.suite === question.suite && record.name === question.name &&
    record.dtype === question.dtype && record.machine === question.machine &&
    record.spec === question.spec && record.inputs === question.inputs;
}

// Of the undecided, which come first, or if they have no miss, of the rejected.
function nearestMiss(entries) {
  var nearest = null, i;
  for (i = 0; i < entries.length; ++i) {
    var one = entries[i];
    if (one.miss && (!nearest || (one.state === nearest.state &&
      one.miss.factor < nearest.miss.factor))) nearest = one;
  }
  return nearest;
}

function decideOthers(records, question) {
  var asked = {}, last = {}, i;
  for (i = 0; i < records.length; ++i) {
    if (isAsked(records[i], question)) asked["impl " + records[i].impl] = true;
    if (records[i].machine === question.machine) last["impl " + records[i].impl] = records[i];
  }
  return Object.keys(last).filter(function (impl) { return !asked[impl]; }).sort()
    .map(function (impl) { return last[impl]; });
}

// The last record of the case, or that of the family with the most similar number of tokens.
function problemToMeasure(records, question) {
  var found = null, i;
  for (i = 0; i < records.length; ++i)
    if (isAsked(records[i], question) && (!found || question.tokens === null ||
      tokensFactor(records[i], question.tokens) < tokensFactor(found, question.tokens)))
      found = records[i];
  return found;
}

// Of the records that decide, that of the size nearest to what is asked, measured if there is one.
function nearestPoint(entries, question) {
  var points = entries.reduce(function (all, entry) { return all.concat(entry.points); }, []);
  var measured = points.filter(function (record) { return !isSkipped(record); });
  return (measured.length ? measured : points).reduce(function (nearest, record) {
    return nearest && (question.tokens === null || tokensFactor(nearest, question.tokens) <=
      tokensFactor(record, question.tokens)) ? nearest : record;
  }, null);
}

// By which factor the record's tokens differ from those asked about.
function tokensFactor(record, tokens) {
  return Math.max(record.tokens, tokens) / Math.min(record.tokens, tokens);
}

function isSkipped(record) { return record.verdict === "skipped"; }

// Which of several records of one problem, the oldest first, counts: the last that was not skipped.
// Where that passes, the last one counts that is wrong and of the same library: what fails at times
// is not to be used.
function countingRecord(records) {
  var last = records[records.length - 1], i;
  for (i = 0; i < records.length; ++i)
    if (!isSkipped(records[i]) || isSkipped(last)) last = records[i];
  if (last.verdict !== "pass" || !last.hash) return last;
  var library = last.hash;
  for (i = 0; i < records.length; ++i)
    if (["fail", "suspect", "crash"].indexOf(records[i].verdict) >= 0 &&
      records[i].hash === library) last = records[i];
  return last;
}

// Each implementation with one number of threads, and its records: the one of each problem that
// counts.
function decideGroups(records, question) {
  var groups = [], found = {}, i;
  var sized = question.tokens !== null;
  for (i = 0; i < records.length; ++i) {
    var record = records[i];
    if (!isAsked(record, question)) continue;
    var key = JSON.stringify([record.impl, record.threads]);
    if (!Object.prototype.hasOwnProperty.call(found, key)) {
      found[key] = {impl: record.impl, threads: record.threads, records: [], at: {}};
      groups.push(found[key]);
    }
    var group = found[key];
    var problem = sized ? JSON.stringify([record.name, record.tokens, record.inputs]) : "case";
    if (!Object.prototype.hasOwnProperty.call(group.at, problem))
      group.at[problem] = group.records.push([]) - 1;
    group.records[group.at[problem]].push(record);
  }
  groups.forEach(function (group) { group.records = group.records.map(countingRecord); });
  return groups;
}

function decideGroup(group, question) {
  var near = question.tokens === null ? null : nearestRecords(group.records, question);
  var points = near && near.points.length ? near.points : [group.records[group.records.length - 1]];
  var finding = near && near.points.length ? decideBetween(near, group.records, question)
    : decideOne(points[0], question);
  var measured = ["range", "between", "alignment"].indexOf(finding.why) < 0;
  return {impl: group.impl, threads: group.threads, state: finding.state, why: finding.why,
    points: points, miss: measured ? missOf(points[0], question) : null,
    median_ns: largest(points, function (time) { return time.median; }),
    worst_ns: largest(points, worstTime), multiple: finding.multiple};
}

// The records at the nearest sizes of which something is known, at or below the tokens and at or
// above; the nearest first, of those the most serious first.
function nearestRecords(all, question) {
  var low = 0, high = 0, tokens = question.tokens, points = [], i;
  function isUnknown(record) {
    return isSkipped(record) && decideOne(record, question).state === "undecided";
  }
  for (i = 0; i < all.length; ++i) {
    if (isUnknown(all[i])) continue;
    var size = all[i].tokens;
    if (size <= tokens) low = Math.max(low, size);
    if (size >= tokens) high = high === 0 ? size : Math.min(high, size);
  }
  for (i = 0; i < all.length; ++i)
    if (!isUnknown(all[i]) && (all[i].tokens === low || all[i].tokens === high))
      points.push({record: all[i], order: i, factor: tokensFactor(all[i], tokens),
        rank: stateRanks[decideOne(all[i], question).state]});
  points.sort(function (a, b) {
    return a.factor - b.factor || b.rank - a.rank || a.order - b.order;
  });
  return {low: low, high: high, points: points.map(function (point) { return point.record; })};
}

// Whether the records of the smallest size are unsupported for one reason that does not depend on
// tokens: its code is one of codesWithoutTokens, or all records have it at another size.
function areUnsupportedAlike(points, all) {
  var first = points[0];
  function isAlike(record) {
    return record.code === first.code && record.reason === first.reason;
  }
  return first.verdict === "unsupported" && points.every(isAlike) &&
    (codesWithoutTokens.indexOf(first.code) >= 0 || all.some(function (record) {
      return isAlike(record) && record.tokens !== first.tokens;
    }));
}

// The largest power of two that the number is a multiple of.
function alignment(number) {
  var power = 1;
  while (number % (2 * power) === 0) power *= 2;
  return power;
}

// The largest power of two that all sizes at which it passed are multiples of.
function judgedMultiple(all) {
  return all.reduce(function (least, record) {
    return record.verdict === "pass" ? Math.min(least, alignment(record.tokens)) : least;
  }, Infinity);
}

// Of several cases of the size the most serious decides. Between two sizes both decide, of an
// implementation with these records. Above the largest size only a rejection holds, and below the
// smallest only that a problem is not supported at any size.
function decideBetween(near, all, question) {
  var first = decideOne(near.points[0], question);
  if (near.low === near.high) return first;
  var agree = near.points.every(function (record) {
    return decideOne(record, question).state === first.state;
  });
  if (near.high === 0 && agree && first.state === "rejected") return first;
  if (near.low === 0 && areUnsupportedAlike(near.points, all)) return first;
  if (near.high === 0 || near.low === 0) return {state: "undecided", why: "range"};
  if (!agree) return {state: "undecided", why: "between"};
  var multiple = judgedMultiple(all);
  if (first.state === "usable" && alignment(question.tokens) < multiple)
    return {state: "undecided", why: "alignment", multiple: multiple};
  return first;
}

// Of the points; null if one was not timed, or is not finite.
function largest(points, value) {
  var most = 0, i;
  for (i = 0; i < points.length; ++i) {
    if (!points[i].time || !isFinite(value(points[i].time))) return null;
    most = Math.max(most, value(points[i].time));
  }
  return most;
}

// The slowest that was seen: what a deadline has to hold against. NaN if one of them is.
function worstTime(time) {
  return Math.max(time.max, time.cold, time.frame === undefined ? 0 : time.frame);
}

// What device and host memory it takes beyond the tensors; null: not measured.
function memoryOf(record) {
  if (record.memory.pool !== undefined) return record.memory.pool + record.memory.workspace;
  return record.memory.peak === undefined ? null : record.memory.peak;
}

// By how much a record that passes exceeds the limit that it exceeds the most.
function missOf(record, question) {
  var most = {limit: "", factor: 1};
  function measure(limit, value, allowed) {
    var factor = value / allowed;
    if (allowed !== null && factor > most.factor && isFinite(factor))
      most = {limit: limit, factor: factor};
  }
  if (record.verdict !== "pass") return null;
  measure("accuracy", record.max_ratio, question.max_error_ratio);
  var used = memoryOf(record);
  measure("memory", used === null ? record.memory.workspace : used, question.memory_bytes);
  if (record.time && question.deadline_ns !== null)
    measure("deadline", record.time.low > question.deadline_ns ? record.time.median
      : worstTime(record.time), question.deadline_ns);
  return most.limit ? most : null;
}

// What is known of a case that was not run: the workspace that the implementation declares, and on
// a CPU its estimated time.
function decideSkipped(record, question) {
  if (question.memory_bytes !== null && record.memory.workspace > question.memory_bytes)
    return {state: "rejected", why: "memory"};
  if (question.deadline_ns !== null && record.device === "cpu" &&
    record.estimated > estimateFactor * question.deadline_ns)
    return {state: "rejected", why: "estimate"};
  return {state: "undecided", why: "skipped"};
}

// Whether outputs were compared with a golden, so that there is an error.
function isCompared(record) {
  return (record.fills || []).some(function (fill) { return fill.exact > 0; });
}

function decideOne(record, question) {
  var finding = {state: "usable", why: ""};
  function set(state, why) {
    if (finding.state === "rejected" || finding.state === state) return;
    finding = {state: state, why: why};
  }
  if (isSkipped(record)) return decideSkipped(record, question);
  if (record.verdict !== "pass") return {state: "rejected", why: record.verdict};
  // An error of NaN is compared so that it rejects.
  if (question.max_error_ratio !== null && !(record.max_ratio <= question.max_error_ratio))
    set("rejected", "accuracy");
  else if (question.max_error_ratio !== null && !isCompared(record))
    set("undecided", "accuracy");
  if (question.memory_bytes !== null) {
    var used = memoryOf(record);
    var least = used === null ? record.memory.workspace : used;
    if (least > question.memory_bytes) set("rejected", "memory");
    else if (used === null || record.memory.unseen !== undefined) set("undecided", "memory");
  }
  if (question.deadline_ns !== null) {
    if (!record.time) set("undecided", "time");
    else if (record.time.low > question.deadline_ns) set("rejected", "deadline");
    // A time of NaN is compared so that it meets no deadline.
    else if (!(record.time.low <= question.deadline_ns) ||
      !(worstTime(record.time) <= question.deadline_ns)) set("undecided", "deadline");
  }
  return finding;
}

// What the command takes of each limit; the fields of the page take more.
var limitRanges = [["tokens", 1, Math.pow(2, 40), "the tokens must be a whole number, at least 1"],
  ["deadline_ns", 1, 1e15, "the deadline must be from 1 ns (0.000001 ms) to 1,000,000 s"],
  ["memory_bytes", 1, Math.pow(2, 60) - 1, "the memory must be at least 1 byte"],
  ["max_error_ratio", 0, 1, "the error must be a share from 0 to 1"]];

// Why the question cannot be asked; empty if it can.
function refusedLimit(question) {
  for (var i = 0; i < limitRanges.length; ++i) {
    var value = question[limitRanges[i][0]];
    if (value !== null && !(value >= limitRanges[i][1] && value <= limitRanges[i][2]))
      return limitRanges[i][3];
  }
  return "";
}
