// The page of a report: reads its data, and draws every part from it. All text of records is set as
// text, never as markup.
"use strict";

(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const kRows = 200;  // of a table, until a reader asks for all
  const kSigns = {pass: "✓", fail: "✗", suspect: "✗", error: "✗", crash: "✗", timeout: "✗",
    unsupported: "–", skipped: "…"};
  const kBad = ["fail", "suspect", "error", "crash", "timeout"];
  for (const record of data.records)
    for (const key of data.shared) record[key] = data.texts[record[key]];
  const machines = new Set(data.records.map(record => record.machine)).size;
  for (const record of data.records) {
    record.max_ratio = number(record.max_ratio);
    record.rms_ratio = number(record.rms_ratio);
    for (const [key, value] of Object.entries(record.time || {}))
      record.time[key] = number(value);
    record.title = [record.suite, record.name].filter(Boolean).join("/");
    // A device has a memory of its own, whose free part records do not have.
    const free = data.runs[record.run].free_bytes;
    if (record.device === "cpu" && free > 0) record.memory.free = free;
    if (record.roofline && record.time) {  // operations a second: reached, and at most
      record.roofline.rate = record.flops / record.time.median * 1e9;
      record.roofline.roof = record.roofline.rate / record.roofline.share;
    }
    record.panel = record.dtype + (machines > 1 ? " on " + record.machine : "");
  }

  function number(value) {
    return typeof value === "string" ? Number(value.replace("inf", "Infinity")) : value;
  }
  function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {}))
      if (name === "onclick") element.addEventListener("click", value);
      else if (value !== null && value !== false) element.setAttribute(name, value);
    element.append(...children.filter(child => child !== null && child !== ""));
    return element;
  }
  function digits(value) {
    if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : "inf";
    return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
  }
  function scaled(value, step, units) {
    let unit = 0;
    while (value >= step * 0.9995 && unit + 1 < units.length) { value /= step; ++unit; }
    return digits(value) + "\u00a0" + units[unit];
  }
  const time = ns => scaled(ns, 1000, ["ns", "us", "ms", "s"]);
  const flops = rate =>
    scaled(rate, 1000, ["FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"]);
  const bytes = value => value < 1 ? "0" : value < 1024 ? value + "\u00a0B"
    : scaled(value / 1024, 1024, ["KiB", "MiB", "GiB", "TiB"]);
  const joules = value => (value < 0 ? "\u2212" : "") +
    scaled(Math.abs(value) * 1e9, 1000, ["nJ", "uJ", "mJ", "J", "kJ"]);
  const ratio = value => Number.isFinite(value)
    ? value < 9.995 ? value.toFixed(2) : value.toPrecision(2) : Number.isNaN(value) ? "nan" : "inf";
  const grouped = count => String(count).replace(/\B(?=(\d{3})+$)/g, ",");
  const unique = values => [...new Set(values)];
  const isBad = record => kBad.includes(record.verdict);
  const compared = record => (record.fills || []).some(fill => fill.exact > 0);
  const judged = record => record.verdict === "pass" || isBad(record);
  const kind = verdict => verdict === "pass" ? "good" : kBad.includes(verdict) ? "bad" : "warn";
  function word(record) {
    const text = kSigns[record.verdict] + " " + record.verdict;
    return make("span", {class: kind(record.verdict)}, text);
  }

  const counted = (count, what) => `${grouped(count)} ${what}${count === 1 ? "" : "s"}`;
  const {broken, watch} = setUpTables({make});

  // A mark on a record whose times are noisy; what happened is under the pointer.
  const noisy = record => record.noise
    ? make("span", {class: "warn", title: record.noise.join("; ")}, " noisy") : "";

  // What titles of columns mean: the words of the page, without what tells two of a name apart.
  const meanings = new Map([...document.querySelectorAll("#words dt")].map(term =>
    [term.textContent.replace(/ \(.*/, ""), term.nextElementSibling.textContent]));
  for (const [title, meaning] of Object.entries({
    "largest error": "The largest error as a share of its gate; at most 1 passes.",
    "rms error": "The root mean square of all errors as a share of its gate.",
    "from": "The lower end of the median's interval of confidence.",
    "to": "The upper end of the median's interval of confidence.",
    "slowest": "The slowest sample.",
    "cold": "The slowest sample that started with emptied caches.",
    "creation": "The time of create, which prepares a problem and is no part of a run.",
    "rate": "The operations that the problem needs, divided by the median.",
    "of roofline": meanings.get("roofline"),
    "what binds": "The limit of the machine that makes the roofline so.",
    "flops a byte": "Operations for each byte that has to be read or written.",
    "measured": "The most memory that create and run took beyond the tensors.",
    "declared workspace": meanings.get("workspace"),
    "declared arithmetic": meanings.get("arithmetic"),
    "features": meanings.get("feature"),
    "machine": "The devices on which records were made, with the CPU beside them.",
  })) meanings.set(title, meaning);

  // A table whose columns sort. columns: {title, about, numeric, kind: "fixed" (in one line) or
  // "long", value(row), text(row)}.
  function table(place, caption, columns, rows, rowClass) {
    let order = null, descending = false, all = false;
    function draw() {
      if (rows.length === 0)
        return void place.replaceChildren(make("p", {class: "soft"}, caption));
      const shown = order === null ? rows.slice() : rows.slice().sort((a, b) => {
        const x = columns[order].value(a), y = columns[order].value(b);
        const missing = v => v === null || v === undefined || Number.isNaN(v);
        if (missing(x) || missing(y)) return missing(x) - missing(y);
        return (x < y ? -1 : x > y ? 1 : 0) * (descending ? -1 : 1);
      });
      const head = make("tr");
      columns.forEach((column, index) => {
        const sorted = order === index ? (descending ? "descending" : "ascending") : "none";
        head.append(make("th", {scope: "col", class: column.numeric ? "number" : null,
          title: column.about || meanings.get(column.title) || null,
          "aria-sort": sorted}, make("button", {type: "button", onclick: () => {
          descending = order === index ? !descending : false;
          order = index;
          draw();
          place.querySelectorAll("th button")[index].focus();
        }}, broken(column.title), order === index ? (descending ? " ▼" : " ▲") : "")));
      });
      const body = make("tbody");
      for (const row of all ? shown : shown.slice(0, kRows)) {
        const line = make("tr", {class: rowClass ? rowClass(row) : null});
        for (const column of columns) {
          const text = column.text ? column.text(row) : column.value(row);
          line.append(make("td", {class: column.numeric ? "number" : column.kind || null,
            "data-title": column.title},
            text === null || text === undefined ? "" : typeof text === "string" && !column.numeric
              ? broken(text) : text));
        }
        body.append(line);
      }
      place.replaceChildren(make("div", {class: "scroll", tabindex: "0", role: "region",
        "aria-label": caption}, make("table", {}, make("caption", {}, caption),
        make("thead", {}, head), body)));
      watch(place.firstChild);
      if (!all && rows.length > kRows)
        place.append(make("button", {type: "button", class: "more", onclick: () => {
          all = true;
          draw();
        }}, "Show all " + rows.length + " rows"));
    }
    draw();
    place.showAll = () => { all = true; draw(); };
  }

  // The record in full.
  const dialog = make("dialog", {"aria-label": "record"});
  document.body.append(dialog);
  dialog.addEventListener("close", () => history.replaceState(null, "", "#matrix"));
  function judgements(list, caption) {
    const place = make("div", {class: "cards"});
    if (!list || list.length === 0) return place;
    const compares = one => one.exact + one.swept > 0 || number(one.max_ratio) !== 0;
    table(place, caption, [
      {title: "inputs or relation", value: one => one.name},
      {title: "verdict", value: one => one.code || "pass",
        text: one => make("span", {class: one.code ? kind(one.code.split(":")[0]) : "good"},
          one.code || "✓ pass")},
      {title: "largest", numeric: true, value: one => number(one.max_ratio),
        text: one => compares(one) ? ratio(number(one.max_ratio)) : ""},
      {title: "rms", numeric: true, value: one => number(one.rms_ratio),
        text: one => compares(one) ? ratio(number(one.rms_ratio)) : ""},
      {title: "worst element", value: one => one.worst ? one.worst.ratio : null,
        text: one => one.worst ? `${one.worst.tensor}[${one.worst.index}] = ${one.worst.got}, ` +
          `expected ${one.worst.expected}` : ""},
      {title: "judged", value: one => one.exact,
        text: one => compares(one)
          ? `${one.exact} exactly, ${one.swept} in range; ${one.method}` : ""},
    ], list);
    return place;
  }
  function shape(tag, attributes, ...children) {  // a part of an SVG picture
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }
  // Where the errors of an output lie: its rows across, batches and heads down.
  function errorMap(fill) {
    const map = fill.map;
    const columns = Math.max(...map.cells.map(line => line.length));
    const width = 640 / columns, height = Math.max(6, Math.min(16, 160 / map.cells.length));
    const start = (cell, cells, all) => Math.ceil(cell * all / cells);  // its least index
    const span = (from, to) => to > from ? `${from} to ${to}` : String(from);
    const words = grade => grade === "." ? "within the gate" : grade === "x"
      ? "not finite, or beyond all measure" : `up to ${grouped(10 ** grade)} times the gate`;
    const picture = shape("svg", {viewBox: `0 0 640 ${height * map.cells.length}`, role: "img",
      "aria-label": "Where the errors lie: " + fill.locations[0], class: "errors"});
    map.cells.forEach((line, y) => {
      for (const run of line.matchAll(/(.)\1*/g)) {  // equal neighbours are drawn as one
        const grade = run[1], length = run[0].length, lines = map.cells.length;
        if (grade === " ") continue;
        const title = `${map.across} ` + span(start(run.index, columns, map.columns),
          start(run.index + length, columns, map.columns) - 1) + (map.down
          ? `, ${map.down} ${span(start(y, lines, map.lines), start(y + 1, lines, map.lines) - 1)}`
          : "") + ": " + words(grade);
        picture.append(shape("rect", {x: run.index * width, y: y * height, width: length * width,
          height: height - 1, class: grade === "." ? "right" : "wrong",
          "fill-opacity": grade === "." || grade === "x" ? 1 : 0.35 + 0.06 * grade},
        shape("title", {}, title)));
      }
    });
    const shared = map.columns > columns || map.lines > map.cells.length
      ? " Neighbours share a cell; the worst is shown." : "";
    return make("figure", {class: "chart"}, make("figcaption", {class: "soft"},
      `Where the errors lie, on ${fill.name}: across, ${map.across} 0 to ${map.columns - 1}` +
      (map.down ? `; down, ${map.down} 0 to ${map.lines - 1}` : "") +
      ". Grey is within the gate. Red is wrong, and the stronger, the further off. Nothing was " +
      "judged where it is blank." + shared), picture);
  }
  // Neighbouring numbers get colours that are far apart.
  const colourOf = index => `hsl(${index * 137.5 % 360} 65% 50%)`;
  const numberIn = (spec, field) => {
    const found = new RegExp(`(?:^| )${field}=(\\d+)`).exec(spec);
    return found ? Number(found[1]) : 0;
  };
  // The tokens of a sweep from above, coloured by patch or by their order along the curve.
  function sweepView(record) {
    const picture = data.runs[record.run].tokens[record.inputs];
    if (!picture) return "";
    const patch = numberIn(record.spec, "patch_size");
    const places = 36 * 36, lines = picture.cells.length, columns = picture.cells[0].length / 2;
    const metres = cells => (cells * picture.cell_metres).toFixed(0);
    const words = `${grouped(picture.tokens)} tokens of the sweep from above, ` +
      `${metres(columns)} x ${metres(lines)} m, ` +
      (patch ? `coloured by patches of ${grouped(patch)} tokens`
        : "coloured by their order along the curve, from blue over green to red");
    const view = shape("svg", {viewBox: `0 0 ${columns} ${lines}`, role: "img", "aria-label": words,
      class: "tokens"});
    picture.cells.forEach((line, y) => {
      for (let x = 0; x < columns; ++x) {
        const place = parseInt(line.slice(2 * x, 2 * x + 2), 36);
        if (Number.isNaN(place)) continue;
        const token = Math.ceil(place * picture.tokens / places);
        const fill = patch ? colourOf(Math.floor(token / patch))
          : `hsl(${230 * (1 - place / places)} 75% 48%)`;
        view.append(shape("rect", {x, y, width: 1, height: 1, fill}));
      }
    });
    return make("figure", {class: "chart"}, make("figcaption", {class: "soft"}, "The inputs: ",
      words, "; a cell shows its first token, and the outermost tokens are left out."), view);
  }
  // A grid of tokens, coloured by window.
  function gridView(record) {
    const field = name => numberIn(record.spec, name);
    const height = field("grid_height"), width = field("grid_width");
    if (!height || !width) return "";
    // Runs of neighbours in one window: [first, end, window].
    const runs = (size, window, shift) => {
      const found = [];
      for (let at = 0; at < size; ++at) {
        const own = Math.floor(((at - shift) % size + size) % size / window);
        if (found.length && found[found.length - 1][2] === own) found[found.length - 1][1] = at + 1;
        else found.push([at, at + 1, own]);
      }
      return found;
    };
    const across = width / field("window_width");
    const words = `a grid of ${height} x ${width} tokens in windows of ` +
      `${field("window_height")} x ${field("window_width")}` + (field("shift_y") || field("shift_x")
      ? `, shifted by ${field("shift_y")} x ${field("shift_x")}: parts of one colour are one window`
      : "");
    const view = shape("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words,
      class: "tokens"});
    for (const [top, bottom, row] of runs(height, field("window_height"), field("shift_y")))
      for (const [left, right, column] of runs(width, field("window_width"), field("shift_x")))
        view.append(shape("rect", {x: left, y: top, width: right - left, height: bottom - top,
          fill: colourOf(row * across + column)}));
    return make("figure", {class: "chart"},
      make("figcaption", {class: "soft"}, "The inputs: ", words), view);
  }
  // The samples' distribution: a bar for each of 64 intervals, and a line at Decide's deadline. A
  // few samples stand for themselves.
  function histogramOf(record) {
    if (record.time && record.time.few)
      return make("p", {}, make("b", {}, "Samples: "), record.time.few.map(time).join(", "));
    const found = record.time && record.time.histogram;
    if (!found || found.to <= found.from) return "";
    const most = Math.max(...found.counts), deadline = asked().deadline_ns;
    const label = `${record.time.samples} samples from ${time(found.from)} to ${time(found.to)}`;
    const picture = shape("svg", {viewBox: "0 0 640 128", role: "img", "aria-label": label,
      class: "histogram"});
    found.counts.forEach((count, bin) => picture.append(shape("rect", {x: bin * 10 + 1, width: 8,
      y: 100 - count / most * 96, height: count / most * 96})));
    picture.append(shape("line", {x1: 0, x2: 640, y1: 100, y2: 100}));
    picture.append(shape("text", {x: 0, y: 122}, time(found.from)),
      shape("text", {x: 640, y: 122, "text-anchor": "end"}, time(found.to)));
    const at = deadline === null ? -1 : (deadline - found.from) / (found.to - found.from) * 640;
    if (at >= 0 && at <= 640)
      picture.append(shape("line", {x1: at, x2: at, y1: 0, y2: 100, class: "deadline"}),
        shape("text", {x: at > 320 ? at - 4 : at + 4, y: 12,
          "text-anchor": at > 320 ? "end" : "start"}, "deadline " + time(deadline)));
    const where = deadline === null || (at >= 0 && at <= 640) ? ""
      : `; the deadline of ${time(deadline)} lies ${at < 0 ? "before" : "beyond"} all of them`;
    return make("figure", {class: "chart"},
      make("figcaption", {class: "soft"}, "Distribution of the samples: " + label + where),
      picture);
  }
  function copied(text) {
    const button = make("button", {type: "button", onclick: () => {
      const done = () => { button.textContent = "Copied"; };
      if (navigator.clipboard && window.isSecureContext)
        navigator.clipboard.writeText(text).then(done, () => select(button.previousSibling));
      else select(button.previousSibling);
    }}, "Copy");
    return make("div", {}, make("pre", {}, text), button);
  }
  // A command, whose words are broken only where they have to be.
  function code(text) {
    return make("code", {}, ...String(text).split(" ").flatMap((word, index) =>
      [index ? " " : "", make("span", {class: "word"}, word)]));
  }
  function select(element) {
    window.getSelection().selectAllChildren(element);
  }
  function open(record) {
    const index = data.records.indexOf(record);
    const run = data.runs[record.run];
    const lines = [];
    const say = (title, text) => {
      if (text) lines.push(make("p", {}, make("b", {}, title + ": "), text));
    };
    say("Reason", record.reason);
    if (record.code && data.reasons[record.code]) say(record.code, data.reasons[record.code]);
    for (const fill of record.fills || []) {
      for (const location of fill.locations || []) say("Where, on " + fill.name, location);
      say("Guess", fill.guess);
    }
    if (compared(record))
      say("Share of the gate", `largest ${ratio(record.max_ratio)}, root mean square ` +
        `${ratio(record.rms_ratio)}; at most 1 passes`);
    if (record.time)
      say("Time", `median ${time(record.time.median)} (${time(record.time.low)} to ` +
        `${time(record.time.high)}), ${record.time.samples} samples from ` +
        `${time(record.time.min)} ` +
        `to ${time(record.time.max)}` +
        (record.time.cold ? `; cold ${time(record.time.cold)}` : ""));
    for (const line of record.lines || []) say("Frames and energy", line);
    say("Declared arithmetic", record.arithmetic);
    say("Problem", record.spec);
    say("Inputs", record.inputs);
    say("Machine", record.own_machine);
    say("Plugin", `${record.plugin} ${record.hash}`);
    say("Run", `${run.file}, ${run.started}, commit ${run.commit}`);
    for (const why of record.noise || []) say("Noisy", why);
    for (const note of record.notes || []) say("Note", note);
    for (const [name, value] of Object.entries(record.unknown || {})) say(name, value);
    dialog.replaceChildren(
      make("button", {type: "button", onclick: () => dialog.close()}, "Close"),
      make("h2", {}, `${record.title} ${record.dtype} ${record.impl}: `, word(record)), ...lines,
      ...[...record.fills || [], ...record.relations || []].filter(one => one.map).map(errorMap),
      histogramOf(record),
      sweepView(record), gridView(record),
      judgements(record.fills, "Inputs"), judgements(record.relations, "Relations between runs"),
      make("h2", {}, "Repeat"), copied(record.repro),
      record.code ? make("p", {}, "What to do: ", make("code", {}, "attest explain " + record.code))
        : "");
    if (!dialog.open) dialog.showModal();
    history.replaceState(null, "", "#record-" + index);
  }
  function cell(record, text) {
    return make("button", {type: "button", class: "cell", "aria-label":
      `${record.verdict}: ${record.title} ${record.dtype} ${record.impl}`,
      onclick: () => open(record)}, text || word(record));
  }

  function options(select, values, chosen) {
    select.replaceChildren(...values.map(value =>
      make("option", {value: value.key, selected: value.key === chosen ? "" : null}, value.text)));
  }
  const byId = id => document.getElementById(id);
  // Texts are read as they are typed.
  function listen(id, call) {
    const typed = ["search", "number"].includes(byId(id).type);
    byId(id).addEventListener(typed ? "input" : "change", call);
  }

  // The records that the filters take.
  function chosen() {
    const filters = ["suite", "dtype", "impl", "verdict"].map(key =>
      [key, byId("filter-" + key).value]).filter(([, value]) => value !== "");
    const search = byId("filter-search").value.toLowerCase();
    const noisy = byId("filter-noisy").checked;
    return data.records.filter(record => filters.every(([key, value]) => record[key] === value) &&
      (!noisy || record.noise) &&
      (!search || [record.title, record.dtype, record.impl, record.code, record.reason,
        record.spec].join(" ").toLowerCase().includes(search)));
  }
  function differs(records) {
    const several = key => unique(records.map(key)).length > 1;
    const spread = key => {
      const values = records.map(key).filter(value => value > 0);
      return values.length > 1 && Math.max(...values) > 1.1 * Math.min(...values);
    };
    return several(r => r.verdict) || several(r => r.code) || several(r => r.reason) ||
      several(r => (r.fills || []).map(fill => fill.outputs).join()) ||
      spread(r => r.time && r.time.median) || spread(r => r.memory.peak) ||
      spread(r => r.max_ratio);
  }
  function matrix(records) {
    const impls = unique(records.map(record => record.impl));
    const rows = new Map();
    for (const record of records) {
      const key = JSON.stringify([record.title, record.dtype, record.machine]);
      if (!rows.has(key)) rows.set(key, {records: [], cells: new Map()});
      rows.get(key).records.push(record);
      rows.get(key).cells.set(record.impl, record);
    }
    const only = byId("filter-different").checked;
    table(byId("matrix-table"), `${counted(rows.size, "case")}, ` +
      `${counted(impls.length, "implementation")}; a cell opens its record`, [
      {title: "case", value: row => row.records[0].title},
      {title: "dtype", value: row => row.records[0].dtype},
      ...(machines > 1 ? [{title: "machine", value: row => row.records[0].machine}] : []),
      ...impls.map(impl => ({title: impl, value: row => {
        const record = row.cells.get(impl);
        return record ? record.verdict : null;
      }, text: row => {
        const record = row.cells.get(impl);
        if (!record) return "";
        return cell(record, make("span", {}, word(record),
          compared(record) ? " " + ratio(record.max_ratio) : "",
          record.time ? ", " + time(record.time.median) : "", noisy(record)));
      }})),
    ], [...rows.values()], row => only && !differs(row.records) ? "context" : null);
  }
  const base = [
    {title: "case", value: record => record.title},
    {title: "dtype", value: record => record.dtype},
    {title: "implementation", value: record => record.impl,
      text: record => cell(record, broken(record.impl))},
    ...(machines > 1 ? [{title: "machine", value: record => record.machine}] : []),
  ];
  const column = (title, value, print) => ({title, numeric: true, value, text: record => {
    const found = value(record);
    return found === null || found === undefined || Number.isNaN(found) ? "" : print(found);
  }});
  const shareOfFree = record => record.memory.free
    ? (record.memory.tensors + memoryOf(record)) / record.memory.free : null;
  const problemOf = record =>
    JSON.stringify([record.run, record.title, record.dtype, record.spec]);
  // Maps each problem to the median of an implementation. Of several records the last one counts.
  function mediansOf(impl) {
    return new Map(data.records.filter(record => record.impl === impl && record.time)
      .map(record => [problemOf(record), record.time.median]));
  }
  function tables(records) {
    const timed = records.filter(record => record.time);
    const baseline = byId("speed-baseline").value;
    const medians = mediansOf(baseline);
    table(byId("speed-table"), `Speed: ${timed.length} of ${records.length} records were timed`, [
      ...base,
      column("median", r => r.time.median, time), column("from", r => r.time.low, time),
      column("to", r => r.time.high, time), column("slowest", r => r.time.max, time),
      column("samples", r => r.time.samples, String),
      column("cold", r => r.time.cold || null, time), column("creation", r => r.time.create, time),
      column("rate", r => r.flops / r.time.median * 1e9, flops),
      ...(timed.some(r => r.roofline) ? [{title: "of roofline", numeric: true,
        value: r => r.roofline ? r.roofline.share : null,
        text: ({roofline}) => !roofline ? "" : make("span",
          {class: roofline.share > 1 ? "bad" : null},
          (roofline.share * 100).toFixed(0) + "\u00a0%" + (roofline.share > 1 ? " (!)" : ""))},
      {title: "what binds", value: r => r.roofline ? r.roofline.limit : null},
      column("flops a byte", r => r.roofline ? r.roofline.intensity : null, digits)] : []),
      ...(timed.some(r => r.counters) ? [
        column("instructions a cycle", r => r.counters ? r.counters.ipc : null, digits),
        column("cache misses a token", r => r.counters ? r.counters.misses : null, digits),
        column("counted, % of the time", r => r.counters ? r.counters.share * 100 : null, digits),
      ] : []),
      ...(baseline ? [column(`speed-up against ${baseline}`,
        r => medians.has(problemOf(r)) ? medians.get(problemOf(r)) / r.time.median : null,
        value => digits(value) + " times")] : []),
    ], timed);
    const measured = records.filter(record => memoryOf(record) !== null);
    table(byId("memory-table"), `Memory beyond the tensors: measured for ${measured.length} of ` +
      `${records.length} records`, [
      ...base, column("measured", memoryOf, bytes),
      column("declared workspace", r => r.memory.workspace, bytes),
      column("tensors", r => r.memory.tensors, bytes),
      column("of free memory", shareOfFree, share => (share * 100).toPrecision(3) + "\u00a0%"),
    ], measured);
    const sensed = records.filter(record => record.energy);
    table(byId("energy-table"), `Energy: measured for ${sensed.length} of ${records.length} ` +
      "records", [
      ...base.map(one => ({...one, value: row => one.value(row.record),
        text: one.text && (row => one.text(row.record))})),
      {title: "sensor", value: ({sensor}) => `${sensor.sensor} (${sensor.covers})`},
      column("a run", ({sensor}) => sensor.run, joules),
      column("without idle", ({sensor}) => sensor.net, joules),
      column("a token", ({sensor}) => sensor.token, joules),
    ], sensed.flatMap(record => record.energy.sensors.map(sensor => ({record, sensor}))));
    const right = records.filter(compared);
    table(byId("accuracy-table"), `Accuracy, as a share of the gate: ${right.length} of ` +
      `${records.length} records were compared with their golden`, [
      ...base, {title: "verdict", value: r => r.verdict, text: word},
      column("largest error", r => r.max_ratio, ratio),
      column("rms error", r => r.rms_ratio, ratio),
      ...(right.some(r => r.softmax_distance !== undefined) ? [
        column("distance from softmax", r => r.softmax_distance,
          value => (value * 100).toPrecision(3) + "\u00a0%")] : []),
      {title: "declared arithmetic", kind: "long", value: r => r.arithmetic},
    ], right);
  }
  function coverage() {
    const rows = unique(data.records.map(record => record.impl)).map(impl => {
      const own = data.records.filter(record => record.impl === impl);
      const tried = own.filter(judged);
      const list = (key, records) =>
        unique(records.flatMap(r => key(r))).filter(Boolean).join(", ");
      return {impl, all: own.length, judged: tried.length,
        dtypes: list(r => [r.dtype], tried), features: list(r => r.features.split("+"), tried),
        never: unique(data.runs.flatMap(run => run.never_judged[impl] || [])).concat(
          own.some(record => !data.runs[record.run].complete)
            ? ["not known: the run did not end"] : []).join("; ")};
    });
    table(byId("coverage-table"), "What was judged of each implementation" +
      (data.left_out ? ", of the records on this page" : ""), [
      {title: "implementation", value: row => row.impl},
      {title: "judged", numeric: true, value: row => row.judged,
        text: row => `${row.judged} of ${row.all}`},
      {title: "dtypes", value: row => row.dtypes}, {title: "features", value: row => row.features},
      {title: "declared, never judged", value: row => row.never},
    ], rows);
  }
  function axes() {
    const states = unique(data.axes.map(axis => axis.state));
    options(byId("axes-state"), [{key: "", text: "all"}].concat(
      states.map(state => ({key: state, text: state}))));
    const list = values => values.length > 12
      ? `${values.slice(0, 12).join(", ")} and ${values.length - 12} more` : values.join(", ");
    const suites = data.axes.some(axis => axis.in_suites);
    document.querySelector("[data-suites]").hidden = !suites;
    byId("other-operations").hidden = data.other_operations.length === 0;
    byId("other-operations").textContent = "Operations of attest's suites of which nothing was " +
      `judged: ${data.other_operations.join(", ")}.`;
    const show = () => {
      const state = byId("axes-state").value;
      const rows = data.axes.filter(axis => !state || axis.state === state);
      const count = kind => data.axes.filter(axis => axis.state === kind).length;
      table(byId("axes-table"), `Axes: ${count("varied")} varied, ${count("pinned")} pinned, ` +
        `${count("never given")} never given`, [
        {title: "operation", value: axis => axis.operation},
        {title: "axis", value: axis => axis.axis},
        {title: "state", value: axis => axis.state, kind: "fixed"},
        {title: "values", value: axis => axis.values.length, text: axis => list(axis.values)},
        ...(suites ? [
          {title: "in all suites", value: axis => axis.in_suites, kind: "fixed"},
          {title: "in suites alone", value: axis => (axis.only_in_suites || []).length,
            text: axis => list(axis.only_in_suites || [])},
        ] : []),
      ], rows);
    };
    listen("axes-state", show);
    show();
  }
  // Tables that attest report made; they are about all records, whatever the filters say.
  function scaling() {
    for (const made of data.scaling) {
      const place = make("div", {"data-table": ""});
      byId("scaling-tables").append(place);
      const file = data.runs.length > 1 ? " of " + data.runs[made.run].file : "";
      table(place, made.title + file, made.columns.map((title, index) =>
        ({title, value: row => row[index]})), made.rows);
    }
  }
  function hideEmptyParts() {
    for (const part of document.querySelectorAll("[data-scaling]"))
      part.hidden = data.scaling.length === 0;
    for (const part of document.querySelectorAll("[data-energy]"))
      part.hidden = !data.records.some(record => record.energy);
    for (const link of document.querySelectorAll("[data-part]"))
      link.hidden = !document.getElementById(link.dataset.part);
  }
  function environment() {
    const rows = data.runs.flatMap(run => Object.entries(run.environment).flatMap(
      ([group, facts]) => Object.entries(facts).map(([name, value]) =>
        ({file: run.file, group, name, value}))));
    const keys = [...(data.runs.length > 1 ? ["file"] : []), "group", "name", "value"];
    table(byId("environment-table"), "Machine, build and run",
      keys.map(key => ({title: key, value: row => row[key]})), rows);
    byId("repeat-lines").replaceChildren(...data.runs.map(run => copied(run.command)));
  }

  function draw() {
    const records = chosen();
    byId("filter-count").textContent = `${records.length} of ${data.records.length} records`;
    matrix(records);
    tables(records);
    drawCharts(records, unique(data.records.map(record => record.impl)));
  }
  let waiting = 0;
  function setUpFilters() {
    for (const key of ["suite", "dtype", "impl", "verdict"]) {
      options(byId("filter-" + key), [{key: "", text: "all"}].concat(
        unique(data.records.map(record => record[key])).filter(Boolean)
          .map(value => ({key: value, text: value}))));
      listen("filter-" + key, draw);
    }
    options(byId("speed-baseline"), [{key: "", text: "none"}].concat(
      unique(data.records.filter(record => record.time).map(record => record.impl))
        .map(impl => ({key: impl, text: impl}))));
    listen("speed-baseline", draw);
    listen("filter-noisy", draw);
    listen("filter-different", draw);
    listen("filter-search", () => {
      clearTimeout(waiting);
      waiting = setTimeout(draw, 80);
    });
  }
  window.addEventListener("beforeprint", () => {
    for (const place of document.querySelectorAll("[data-table]"))
      if (place.showAll) place.showAll();
  });
  const drawCharts = setUpCharts(data.charts, data.chart_config, {make, table});
  const asked = setUpDecide(data, {byId, bytes, cell, code, digits, grouped, listen, make, noisy,
    options, ratio, table, time, unique});
  setUpFilters();
  hideEmptyParts();  // before charts measure how wide their places are
  draw();
  scaling();
  coverage();
  axes();
  environment();
  byId("noisy-link").hidden = !data.records.some(record => record.noise);
  const warnings = document.querySelector(".warnings");
  if (warnings) warnings.after(byId("noisy-link"));
  function follow() {
    if (location.hash === "#words") document.querySelector("#words details").open = true;
    if (location.hash !== "#noisy") return;
    byId("filter-noisy").checked = true;
    draw();
    byId("matrix").scrollIntoView();
  }
  window.addEventListener("hashchange", follow);
  follow();
  const linked = /^#record-(\d+)$/.exec(location.hash);
  if (linked && data.records[Number(linked[1])]) open(data.records[Number(linked[1])]);
  document.body.dataset.ready = "yes";
}());
