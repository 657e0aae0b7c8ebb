// The rule of Decide, which is also that of `attest choose` (reports/choice/choice.hpp); browser_test.py
// compares them. It is plain ECMAScript 5, so that any JavaScript engine can test it
// (decide_test.js).
//
// question: {suite, name, dtype, machine: of the case that is asked about;
//            family, tokens: if tokens is not null, problems of this family at this size instead;
//            deadline_ns, memory_bytes, max_error_ratio: limits, null where there is none}
// answer: {best: an entry or null, entries: [{impl, threads, state, why, points, median_ns,
//          worst_ns}]}, where state is "usable", "undecided" or "rejected", in this order, the
// fastest first. points: the records that decide, the nearest first.
"use strict";

/* exported decide, decideOne */
function decide(records, question) {
  var groups = decideGroups(records, question), entries = [], i;
  for (i = 0; i < groups.length; ++i) entries.push(decideGroup(groups[i], question));
  var rank = {usable: 0, undecided: 1, rejected: 2};
  entries.sort(function (a, b) {
    if (a.state !== b.state) return rank[a.state] - rank[b.state];
    var first = a.median_ns === null ? Infinity : a.median_ns;
    var second = b.median_ns === null ? Infinity : b.median_ns;
    if (first !== second) return first < second ? -1 : 1;
    if (a.impl !== b.impl) return a.impl < b.impl ? -1 : 1;
    return a.threads - b.threads;
  });
  var usable = entries.length > 0 && entries[0].state === "usable";
  return {best: usable ? entries[0] : null, entries: entries};
}

// Each implementation with one number of threads, and its records: the last one of each problem.
function decideGroups(records, question) {
  var groups = [], found = {}, i;
  var sized = question.tokens !== null;
  for (i = 0; i < records.length; ++i) {
    var record = records[i];
    if (sized ? record.family !== question.family
      : record.suite !== question.suite || record.name !== question.name ||
        record.dtype !== question.dtype || record.machine !== question.machine) continue;
    var key = JSON.stringify([record.impl, record.threads]);
    if (!Object.prototype.hasOwnProperty.call(found, key)) {
      found[key] = {impl: record.impl, threads: record.threads, records: [], at: {}};
      groups.push(found[key]);
    }
    var group = found[key];
    var problem = sized ? JSON.stringify([record.name, record.tokens]) : "case";
    if (!Object.prototype.hasOwnProperty.call(group.at, problem))
      group.at[problem] = group.records.length;
    group.records[group.at[problem]] = record;
  }
  return groups;
}

function decideGroup(group, question) {
  var near = question.tokens === null ? null : nearestRecords(group.records, question.tokens);
  var points = near && near.points.length ? near.points : [group.records[group.records.length - 1]];
  var finding = near && near.points.length ? decideBetween(near, question)
    : decideOne(points[0], question);
  return {impl: group.impl, threads: group.threads, state: finding.state, why: finding.why,
    points: points, median_ns: largest(points, function (time) { return time.median; }),
    worst_ns: largest(points, worstTime)};
}

// The records at the nearest sizes that were measured, at or below the tokens and at or above.
function nearestRecords(all, tokens) {
  var low = 0, high = 0, points = [], i;
  for (i = 0; i < all.length; ++i) {
    if (all[i].verdict === "skipped") continue;
    var size = all[i].tokens;
    if (size <= tokens) low = Math.max(low, size);
    if (size >= tokens) high = high === 0 ? size : Math.min(high, size);
  }
  for (i = 0; i < all.length; ++i)
    if (all[i].verdict !== "skipped" && (all[i].tokens === low || all[i].tokens === high))
      points.push({record: all[i], order: i,
        factor: Math.max(all[i].tokens, tokens) / Math.min(all[i].tokens, tokens)});
  points.sort(function (a, b) { return a.factor - b.factor || a.order - b.order; });
  return {low: low, high: high, points: points.map(function (point) { return point.record; })};
}

// Between two sizes both decide. Above the largest size only a rejection holds.
function decideBetween(near, question) {
  var first = decideOne(near.points[0], question);
  var agree = near.points.every(function (record) {
    return decideOne(record, question).state === first.state;
  });
  if (near.high === 0 && agree && first.state === "rejected") return first;
  if (near.high === 0 || near.low === 0) return {state: "undecided", why: "range"};
  return agree ? first : {state: "undecided", why: "between"};
}

function largest(points, value) {
  var most = 0, i;
  for (i = 0; i < points.length; ++i) {
    if (!points[i].time) return null;
    most = Math.max(most, value(points[i].time));
  }
  return most;
}

// The slowest that was seen: what a deadline has to hold against.
function worstTime(time) {
  return Math.max(time.max, time.cold || 0);
}

// What device and host memory it takes beyond the tensors; null: not measured.
function memoryOf(record) {
  if (record.memory.pool !== undefined) return record.memory.pool + record.memory.workspace;
  return record.memory.peak === undefined ? null : record.memory.peak;
}

function decideOne(record, question) {
  var finding = {state: "usable", why: ""};
  function set(state, why) {
    if (finding.state === "rejected" || finding.state === state) return;
    finding = {state: state, why: why};
  }
  if (record.verdict === "skipped") set("undecided", "skipped");
  else if (record.verdict !== "pass") set("rejected", record.verdict);
  if (record.verdict !== "pass") return finding;
  // An error of NaN is compared so that it rejects.
  if (question.max_error_ratio !== null && !(record.max_ratio <= question.max_error_ratio))
    set("rejected", "accuracy");
  if (question.memory_bytes !== null) {
    var used = memoryOf(record);
    var least = used === null ? record.memory.workspace : used;
    if (least > question.memory_bytes) set("rejected", "memory");
    else if (used === null || record.memory.unseen) set("undecided", "memory");
  }
  if (question.deadline_ns !== null) {
    if (!record.time) set("undecided", "time");
    else if (record.time.low > question.deadline_ns) set("rejected", "deadline");
    else if (worstTime(record.time) > question.deadline_ns) set("undecided", "deadline");
  }
  return finding;
}
