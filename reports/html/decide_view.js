// Decide as a reader sees it: the question that its fields ask, and the answer of decide.js in
// words, which are those of reports/choice/why.cpp.
//
// setUpDecide(data, tools) draws the first answer, or that of the page's address, and returns
// asked(), which gives the question at any time.
"use strict";

/* exported setUpDecide */
function setUpDecide(data, {byId, bytes, cell, code, digits, grouped, listen, make, noisy, options,
  ratio, table, time, unique}) {
  const records = oldestFirst(data.records, data.runs);
  const cases = unique(data.records.map(record =>
    JSON.stringify([record.suite, record.name, record.dtype, record.machine, record.spec,
      record.inputs])));
  const fieldsOf = key => {
    const [suite, name, dtype, machine, spec, inputs] = JSON.parse(key);
    return {suite, name, dtype, machine, spec, inputs};
  };
  const named = ({suite, name, dtype, machine}) => JSON.stringify([suite, name, dtype, machine]);
  const withName = new Map();  // the cases that have one name: their problems tell them apart
  for (const key of cases) {
    const name = named(fieldsOf(key));
    withName.set(name, [...withName.get(name) || [], fieldsOf(key)]);
  }
  // What tells a case from the others of its name: its spec, its inputs, or both.
  const apart = one => ["spec", "inputs"].filter(word =>
    unique(withName.get(named(one)).map(other => other[word])).length > 1);
  const atTokens = record => `at ${grouped(record.tokens)} tokens`;
  const timesOf = (value, limit, what, print) =>
    `${digits(value / limit)} times the ${what} of ${print(limit)}`;
  // What a record says, of a finding (decideOne) that is about it.
  function said(record, finding, question) {
    const deadline = question.deadline_ns, rejected = finding.state === "rejected";
    const seen = record.time
      ? `median ${time(record.time.median)}, slowest ${time(worstTime(record.time))}` : "";
    switch (finding.why) {
      case "": return seen ? seen + ": meets every limit" : "meets every limit; not timed";
      case "accuracy": return !rejected
        ? "its error was not measured: no outputs were compared with a golden"
        : `its largest error is ${ratio(record.max_ratio)} of its gate, the limit is ` +
        question.max_error_ratio;
      case "memory": return saidOfMemory(record, rejected, question.memory_bytes);
      case "time": return "it was not timed";
      case "deadline": return rejected
        ? `${seen}: the median is ${timesOf(record.time.median, deadline, "deadline", time)}`
        : `${seen}: the median ${record.time.median > deadline ? "may meet" : "meets"} the ` +
          `deadline of ${time(deadline)}, the slowest of ${record.time.samples} samples` +
          (record.time.frames === undefined ? "" : ` and ${record.time.frames} frames`) +
          " does not: run it again on a quiet machine" +
          (record.time.frames === undefined ? ", or paced" : "");
      case "estimate": return `estimated, not measured: a run takes ${time(record.estimated)}, ` +
        `${timesOf(record.estimated, deadline, "deadline", time)}; an estimate may be ` +
        `${estimateFactor} times too long`;
      case "skipped": return "not measured, because it was skipped: " + record.reason;
      default: return record.code === "unsupported:query"  // whose words are the implementation's
        ? `unsupported: ${record.impl} says "${record.reason}"`
        : `${finding.why}: ${record.reason}`;
    }
  }
  function saidOfMemory(record, rejected, limit) {
    const memory = memoryOf(record), least = memory === null ? record.memory.workspace : memory;
    return rejected ? `${memory === null ? "declares" : "takes"} ${bytes(least)} beyond the ` +
        `tensors, ${timesOf(least, limit, "limit", bytes)}`
      : memory === null ? "its memory was not measured"
        : `the ${bytes(memory)} that were counted beyond the tensors are within the limit of ` +
          `${bytes(limit)}, but ${record.memory.unseen} is not counted` + (record.device === "cuda"
          ? ": nsys profile --cuda-memory-usage=true with the command shows it" : "");
  }
  // Where the nearest point of an entry is of another size, that comes first.
  const atPoint = ({points: [nearest]}, question, text) =>
    question.tokens === null || question.tokens === nearest.tokens ? text
      : `${atTokens(nearest)}: ${text}`;
  function why(entry, question) {
    const [nearest] = entry.points;
    if (entry.why === "range")
      return "not measured at this size: the " +
        (nearest.tokens < question.tokens ? "largest" : "smallest") +
        ` that was measured has ${grouped(nearest.tokens)} tokens`;
    if (entry.why === "alignment")
      return `only multiples of ${grouped(entry.multiple)} tokens were judged: pad the tokens to ` +
        `one, or measure ${grouped(question.tokens)}`;
    if (entry.why === "between")
      return "its nearest measured sizes disagree: " + entry.points.map(record =>
        `${atTokens(record)}: ${said(record, decideOne(record, question), question)}`).join("; ");
    return atPoint(entry, question, said(nearest, entry, question));
  }
  function limitsWords({deadline_ns, memory_bytes, max_error_ratio}) {
    const parts = [deadline_ns === null ? "" : time(deadline_ns),
      memory_bytes === null ? "" : bytes(memory_bytes) + " beyond the tensors",
      max_error_ratio === null ? "" : `a largest error of ${max_error_ratio} of its gate`]
      .filter(Boolean);
    return parts.length ? " within " + parts.join(", ") : " (no limit was given)";
  }
  // By how much the nearest that was measured misses; empty if no miss was measured.
  function nearestWords(result, question) {
    const entry = result.nearest;
    if (!entry) return "";
    const [record] = entry.points, factor = digits(entry.miss.factor) + " times";
    const slow = record.time && record.time.low > question.deadline_ns;
    const text = {accuracy: () => `its largest error is ${factor} the limit of ` +
        `${question.max_error_ratio} of its gate`,
      memory: () => `it takes ${factor} the limit of ${bytes(question.memory_bytes)}`,
      deadline: () => `its ${slow ? "median" : "slowest time"} of ` +
        `${time(slow ? record.time.median : worstTime(record.time))} is ${factor} the deadline ` +
        `of ${time(question.deadline_ns)}`}[entry.miss.limit]();
    return `; the nearest that was measured is ${nameOf(entry, result)}: ` +
      atPoint(entry, question, text);
  }
  // The command that measures a problem with the implementation of another record.
  const measuring = (problem, record, tokens = "") => {
    const file = ["more", problem.suite, problem.name, problem.suite ? "" : problem.spec,
      problem.dtype, tokens, record.impl, record.threads].filter(part => part !== "").join("_").replace(/[^\w.]/gu, "-");
    return `attest run ${problem.subject} ${record.options} --output ${file}.jsonl`;
  };
  // The same at the size that was asked about, which perhaps no record has.
  function measuringThere({problem}, question, record) {
    const there = question.tokens === null || problem.tokens === question.tokens;
    const spec = problem.spec.split(" ").map(word => word.startsWith("seq_len_") &&
      word.endsWith("=" + problem.tokens) ? word.split("=")[0] + "=" + question.tokens : word);
    return there ? measuring(problem, record)
      : measuring({...problem, subject: shellWord(spec.join(" "))}, record, question.tokens);
  }
  const commandOf = (entry, result, question) => {
    const [nearest] = entry.points;
    return ["range", "alignment"].includes(entry.why) ? measuringThere(result, question, nearest)
      : nearest.verdict === "skipped" ? measuring(nearest, nearest) : nearest.repro;
  };
  function asked() {
    const asked = fieldsOf(byId("decide-case").value);
    const limit = (id, factor) => {
      const value = parseFloat(byId(id).value);
      return Number.isFinite(value) ? value * factor : null;
    };
    const whole = value => value === null ? null : Math.round(value);
    const hertz = byId("decide-period").value;
    const deadline = limit("decide-deadline", 1e6);  // typed in, it counts instead of the rate
    const own = records.filter(record => isOfCase(record, asked));
    const family = own[own.length - 1].family;
    const tokens = family === undefined ? null : whole(limit("decide-tokens", 1));
    return {...asked, family, tokens,
      deadline_ns: whole(deadline !== null ? deadline : hertz ? 1e9 / Number(hertz) : null),
      memory_bytes: whole(limit("decide-memory", 1024 * 1024)),
      max_error_ratio: limit("decide-error", 1)};
  }
  function sentence(result, question) {
    const usable = result.entries.filter(entry => entry.state === "usable").length;
    const undecided = result.entries.filter(entry => entry.state === "undecided").length;
    const all = result.entries.length;
    if (result.best)
      return make("p", {}, "Take ", make("strong", {class: "good"}, nameOf(result.best, result)),
        result.best.median_ns !== null ? ` (median ${time(result.best.median_ns)})` : "",
        `: ${usable} of ${all} implementations may be used here${limitsWords(question)}.`);
    const nearest = limitsWords(question) + nearestWords(result, question) + ".";
    if (!undecided)
      return make("p", {}, make("strong", {class: "bad"}, "None may be used"),
        ` of ${all} implementations${nearest}`);
    return make("p", {}, make("strong", {class: "warn"}, "INCONCLUSIVE"),
      `: the records cannot tell for ${undecided} of ${all} implementations, and none of the ` +
      `others may be used${nearest}`);
  }
  // The number of threads tells apart what is measured with several.
  function nameOf(entry, result) {
    const same = result.entries.filter(other => other.impl === entry.impl).length;
    return same > 1 ? `${entry.impl}, ${entry.threads} thread${entry.threads === 1 ? "" : "s"}`
      : entry.impl;
  }
  function answer() {
    const place = byId("answer");
    const question = asked();
    byId("decide-tokens").disabled = question.family === undefined;
    const refused = refusedLink || refusedLimit(question);
    if (refused) {
      place.replaceChildren(make("p", {class: "bad"}, `This cannot be asked: ${refused}.`));
      return;
    }
    const result = decide(records, question);
    const place2 = make("div", {class: "cards"});
    table(place2, "Implementations for this problem", [
      {title: "implementation", value: entry => nameOf(entry, result)},
      {title: "may be used", value: entry => entry.state, text: entry => make("span",
        {class: entry.state === "usable" ? "good" : entry.state === "rejected" ? "bad" : "warn",
          "data-limit": entry.why},
        {usable: "✓ yes", rejected: "✗ no", undecided: "? cannot tell"}[entry.state])},
      {title: "why", value: entry => why(entry, question), text: entry => make("span", {},
        why(entry, question), ...judgedInPart(entry))},
      {title: "processor", value: entry => entry.points[0].processor},
      {title: "record", value: entry => entry.points[0].verdict, text: entry => make("span", {},
        ...entry.points.map(record => make("div", {}, cell(record), noisy(record))))},
      {title: "command that shows or measures it",
        value: entry => commandOf(entry, result, question),
        text: entry => code(commandOf(entry, result, question))},
    ], result.entries);
    const nearest = nearestPoint(result.entries, question);
    place.replaceChildren(missing ? make("p", {class: "warn", id: "decide-missing"}, missing) : "",
      sentence(result, question), make("p", {class: "soft"},
      nearest ? "Problem: " + nearest.spec : "",
      question.tokens !== null && nearest && nearest.tokens !== question.tokens
        ? `; the nearest ${isSkipped(nearest) ? "that was skipped" : "measured"} to ` +
          `${grouped(question.tokens)} tokens` : ""),
    data.left_out ? make("p", {class: "warn"}, `This page lacks ${grouped(data.left_out)} ` +
      "records; the command below reads all.") : "",
    place2, ...result.others.map(record => make("p", {class: "soft", "data-other": record.impl},
      "Not measured here: ", make("b", {}, record.impl), ". ",
      code(measuringThere(result, question, record)), " measures it.")),
    make("p", {class: "soft"}, "The same on a command line: ",
      code(chooseCommand(data.runs.map(run => run.file), question)), ". ",
      make("a", {href: linkOf(question), id: "decide-link"}, "Link to this question")));
  }
  // Says of an entry that may be used if it was judged in part only.
  function judgedInPart(entry) {
    const record = entry.points.find(point => point.in_part);
    return entry.state === "usable" && record
      ? [make("div", {class: "warn"}, "in part: " + record.in_part)] : [];
  }
  // A page that opens with this question: its case, and what was typed in.
  const fields = ["tokens", "period", "deadline", "memory", "error"];
  function linkOf(question) {
    const {suite, name, dtype, machine} = question;
    const words = new URLSearchParams({suite, case: name, dtype, machine});
    for (const word of apart(question)) words.set(word, question[word]);
    for (const field of fields) words.set(field, byId("decide-" + field).value);
    return "#decide?" + words;
  }
  // Asks the question of the page's address, or says that its case is not here, or which of its
  // values the fields cannot hold: such a field would be empty, and limit nothing.
  let missing = "", refusedLink = "";
  function askLinked() {
    missing = refusedLink = "";
    if (!location.hash.startsWith("#decide?")) return;
    const words = new URLSearchParams(location.hash.slice("#decide?".length));
    const key = cases.find(one => Object.entries(fieldsOf(one)).every(([field, value]) => {
      const word = words.get(field === "name" ? "case" : field);
      // A link has the last two only where they tell the case from others of its name.
      return word === null && ["spec", "inputs"].includes(field) || (word || "") === value;
    }));
    byId("decide").scrollIntoView();
    if (key === undefined) {
      missing = `The link asks about ${[words.get("suite"), words.get("case")].filter(Boolean)
        .join("/")} ${words.get("dtype")} on ${words.get("machine")}, which this page does not ` +
        "have. This is the answer for the case that is chosen above.";
      return;
    }
    byId("decide-case").value = key;
    for (const field of fields.filter(one => words.has(one))) {
      const value = words.get(field), element = byId("decide-" + field);
      // A browser warns of what a number's field cannot hold.
      const holds = element.type !== "number" || Number.isFinite(Number(value));
      element.value = holds ? value : "";
      if (element.value !== value)
        refusedLink = `the link says ${field}=${value}, which its field above does not take`;
    }
  }
  // Puts the link into the page's address once no more is typed: browsers refuse it too often.
  let waiting = 0;
  function showLink() {
    clearTimeout(waiting);
    waiting = setTimeout(() => {  // an open record has put its own there
      if (!document.querySelector("dialog[open]")) history.replaceState(null, "", linkOf(asked()));
    }, 300);
  }
  function setUpQuestion() {
    // Of a rate and a typed deadline, the one that was set last counts.
    listen("decide-deadline", () => {
      if (byId("decide-deadline").value) byId("decide-period").value = "";
    });
    listen("decide-period", () => {
      if (byId("decide-period").value) byId("decide-deadline").value = "";
    });
    for (const field of ["case", ...fields])
      listen("decide-" + field, () => {
        missing = refusedLink = "";
        answer();
        showLink();
      });
    window.addEventListener("hashchange", () => { askLinked(); answer(); });
    askLinked();
    answer();
  }
  const several = unique(data.records.map(record => record.machine)).length > 1;
  options(byId("decide-case"), cases.map(key => {
    const one = fieldsOf(key);
    return {key, text: [one.suite, one.name].filter(Boolean).join("/") + " " + one.dtype +
      apart(one).map((word, n) => (n ? ", " : ": ") + one[word]).join("") +
      (several ? " on " + one.machine : "")};
  }));
  if (cases.length > 0) setUpQuestion();
  else byId("answer").replaceChildren("There are no records to decide on.");
  return asked;
}
