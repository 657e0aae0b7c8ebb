// The command `attest choose` that asks what Decide was asked. It is plain ECMAScript 5 like
// decide.js, and decide_test.js tests it too.
"use strict";

/* exported chooseCommand, shellWord */
// One word of a command line: names come from suites and plugins, and may hold anything.
function shellWord(text) {
  return /^[\w./=-]+$/.test(text) ? text : "'" + text.replace(/'/g, "'\\''") + "'";
}

// A glob of this name alone. Commas separate globs, so that one is any character.
function globOf(name) {
  return name.replace(/[*?[\\]/g, "\\$&").replace(/,/g, "?");
}

// The command that answers the same question, of results files.
function chooseCommand(files, question) {
  var words = ["attest choose"].concat(files.map(shellWord));
  function add(option, value, unit) {
    if (value !== null) words.push(option, value + unit);
  }
  var suite = question.suite ? question.suite + "/" : "";
  words.push("--case", shellWord(globOf(suite + question.name)));
  words.push("--dtype", shellWord(globOf(question.dtype)));
  add("--tokens", question.tokens, "");
  add("--deadline", question.deadline_ns === null ? null : question.deadline_ns / 1e6, "ms");
  add("--memory", question.memory_bytes, "B");
  add("--max-error-ratio", question.max_error_ratio, "");
  return words.join(" ");
}
