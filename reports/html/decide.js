// The rule of Decide. It is plain ECMAScript 5, so that any JavaScript engine can test it
// (decide_test.js). Of several records of an implementation, the last one counts.
//
// question: {suite, name, dtype, machine: what is asked about;
//            deadline_ns, memory_bytes, max_error_ratio: limits, null where there is none}
// answer: {best: a name or null, entries: [{impl, state, why, worst_ns, record}]}, where state is
// "usable", "rejected" or "undecided", in this order, the fastest first.
"use strict";

/* exported decide */
function decide(records, question) {
  var last = {}, names = [], i;
  for (i = 0; i < records.length; ++i) {
    var record = records[i];
    if (record.suite !== question.suite || record.name !== question.name) continue;
    if (record.dtype !== question.dtype || record.machine !== question.machine) continue;
    if (!Object.prototype.hasOwnProperty.call(last, record.impl)) names.push(record.impl);
    last[record.impl] = record;
  }
  var entries = [];
  for (i = 0; i < names.length; ++i) entries.push(decideOne(last[names[i]], question));
  var rank = {usable: 0, undecided: 1, rejected: 2};
  entries.sort(function (a, b) {
    if (a.state !== b.state) return rank[a.state] - rank[b.state];
    var first = a.record.time ? a.record.time.median : Infinity;
    var second = b.record.time ? b.record.time.median : Infinity;
    if (first !== second) return first < second ? -1 : 1;
    return a.impl < b.impl ? -1 : a.impl > b.impl ? 1 : 0;
  });
  var usable = entries.length > 0 && entries[0].state === "usable";
  return {best: usable ? entries[0].impl : null, entries: entries};
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
  var entry = {impl: record.impl, record: record, state: "usable", why: ""};
  entry.worst_ns = record.time ? worstTime(record.time) : null;
  function set(state, why) {
    if (entry.state === "rejected" || entry.state === state) return;
    entry.state = state;
    entry.why = why;
  }
  if (record.verdict === "skipped") set("undecided", "skipped");
  else if (record.verdict !== "pass") set("rejected", record.verdict);
  if (record.verdict !== "pass") return entry;
  // An error of NaN is compared so that it rejects.
  if (question.max_error_ratio !== null && !(record.max_ratio <= question.max_error_ratio))
    set("rejected", "error");
  if (question.memory_bytes !== null) {
    var used = memoryOf(record);
    if (used === null && record.memory.workspace > question.memory_bytes) set("rejected", "memory");
    else if (used === null || record.memory.unseen) set("undecided", "memory");
    else if (used > question.memory_bytes) set("rejected", "memory");
  }
  if (question.deadline_ns !== null) {
    if (!record.time) set("undecided", "time");
    else if (record.time.low > question.deadline_ns) set("rejected", "deadline");
    else if (worstTime(record.time) > question.deadline_ns) set("undecided", "deadline");
  }
  return entry;
}
