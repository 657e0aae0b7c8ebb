// The charts of the page. With Vega in the page they are drawn as SVG, and their data can be opened
// below; without it their data stand in their places.
//
// setUpCharts(charts, config, {make, table}) makes their places in the page and returns
// draw(records), which fills them and resolves when all are drawn.
"use strict";

/* exported setUpCharts */
function setUpCharts(charts, config, {make, table}) {
  const canDraw = typeof window.vegaEmbed === "function";
  const kCommon = [["title", "case"], ["dtype", "dtype"], ["impl", "implementation"]];
  const tip = make("div", {class: "tip", role: "tooltip", hidden: ""});
  document.body.append(tip);

  const short = value => String(Number(value.toPrecision(4)));
  function labelOf(chart, row) {
    return [`${row.title} ${row.dtype} ${row.impl}`].concat(
      chart.columns.map(column => `${column.title}: ${short(row[column.field])}`)).join("; ");
  }
  function rowsOf(chart, records) {
    const rows = [];
    for (const record of records) {
      if (chart.passing && record.verdict !== "pass") continue;
      const row = {impl: record.impl, title: record.title, dtype: record.dtype,
        panel: record.panel, series: record.impl + " " + record.series};
      const optional = chart.optional || [];  // a record may lack these figures
      for (const {field, from, factor} of [...chart.columns, ...optional]) {
        const value = from.split(".").reduce((at, key) => at && at[key], record);
        row[field] = typeof value === "number" ? value * factor : NaN;
      }
      // The axes are logarithmic.
      if (!chart.columns.every(({field}) => Number.isFinite(row[field]) && row[field] > 0))
        continue;
      row.label = labelOf(chart, row);
      rows.push(row);
    }
    if (chart.front) markFront(chart, rows);
    return rows;
  }

  // A row is on the front of its case if no other row is at most as large in both fields, and less
  // in one.
  function markFront({front: [x, y]}, rows) {
    const cases = new Map();
    for (const row of rows) {
      const key = JSON.stringify([row.panel, row.title]);
      if (!cases.has(key)) cases.set(key, []);
      cases.get(key).push(row);
    }
    const beats = (a, b) => a[x] <= b[x] && a[y] <= b[y] && (a[x] < b[x] || a[y] < b[y]);
    for (const row of rows) {
      const key = JSON.stringify([row.panel, row.title]);
      row.front = !cases.get(key).some(other => beats(other, row));
      row.label += `; Pareto front: ${row.front ? "yes" : "no"}`;
    }
  }

  // CSV as spreadsheets read it; no cell is taken for a formula.
  function csv(chart, rows) {
    const cell = value => {
      let text = typeof value === "number" ? String(value) : value;
      if (typeof value !== "number" && /^ *[=+\-@\t\r\n]/.test(text)) text = "'" + text;
      return /[,"\r\n;]/.test(text) ? `"${text.replace(/"/g, "\"\"")}"` : text;
    };
    const keys = kCommon.concat(chart.columns.map(column => [column.field, column.title]));
    return [keys.map(([, title]) => cell(title)), ...rows.map(row => keys.map(([key]) =>
      cell(row[key])))].map(line => line.join(",") + "\n").join("");
  }
  function save(chart, rows) {
    make("a", {download: `attest-${chart.id}.csv`,
      href: "data:text/csv;charset=utf-8," + encodeURIComponent(csv(chart, rows))}).click();
  }

  // What a mark says of its record, beside the pointer.
  function showTip(handler, event, item, value) {
    tip.hidden = !value;
    if (!value) return;
    tip.replaceChildren(...String(value).split("; ").map(line => make("div", {}, line)));
    const left = event.pageX + 12 + tip.offsetWidth > document.documentElement.clientWidth
      ? Math.max(0, event.pageX - 12 - tip.offsetWidth) : event.pageX + 12;
    tip.style.left = left + "px";
    tip.style.top = event.pageY + 12 + "px";
  }

  // The rows of the pictures: a panel with few records is left to the data, beside one with more.
  const kFew = 5;
  function inPictures(rows) {
    const sizes = new Map();
    for (const {panel} of rows) sizes.set(panel, (sizes.get(panel) || 0) + 1);
    const few = [...sizes].filter(([, size]) => size < kFew).map(([panel]) => panel);
    return few.length === sizes.size ? {rows, few: []}
      : {rows: rows.filter(row => !few.includes(row.panel)), few};
  }

  // The specification for a place of this width: a picture beside another only where both fit.
  function fitted(chart, rows, width, impls) {
    const panels = new Set(rows.map(row => row.panel)).size;
    const most = Math.max(1, Math.min(3, Math.floor(width / 450)));
    const columns = Math.ceil(panels / Math.ceil(panels / most));  // the last line is fullest so
    const spec = JSON.parse(JSON.stringify(chart.spec));
    spec.data.values = rows;
    spec.columns = columns;
    const widest = panels === 1 ? 960 : 620;
    spec.spec.width = Math.max(180, Math.min(widest, Math.floor(width / columns) - 90));
    spec.spec.height = Math.max(180, Math.min(panels === 1 ? 380 : 300, spec.spec.width * 0.6));
    for (const {field} of chart.optional || [])  // a layer of what no record has would be a warning
      if (!rows.some(row => Number.isFinite(row[field])))
        spec.spec.layer = spec.spec.layer.filter(layer =>
          !JSON.stringify(layer).includes(`"field":"${field}"`));
    const scales = spec.spec.layer.filter(layer => layer.encoding)
      .flatMap(layer => [layer.encoding.color, layer.encoding.shape]);
    for (const scale of scales.filter(one => one && one.field === "impl")) {
      scale.scale = {domain: impls};
      scale.legend = {values: impls.filter(impl => rows.some(row => row.impl === impl)),
        columns: Math.max(1, Math.floor(width / 160))};
    }
    return spec;
  }

  function makePlace(chart) {
    const picture = make("div", {class: "picture"});
    const few = make("p", {class: "soft", hidden: ""});
    const data = make("div", {"data-table": ""});
    const details = make("details", {}, make("summary", {}, "Data of this chart"), data);
    const button = make("button", {type: "button", class: "more"}, "Save as CSV");
    const figure = make("figure", {id: "chart-" + chart.id, class: "chart"},
      make("figcaption", {}, make("h3", {}, chart.title), make("p", {class: "soft"}, chart.about)),
      picture, few, canDraw ? details : data, button);
    document.getElementById("charts-" + chart.section).append(figure);
    return {chart, picture, few, data, details, button, rows: [], view: null};
  }

  const nothing = chart => make("p", {class: "soft"},
    "None of these records has the figures of this chart. " + (chart.absent || ""));
  function showData(place) {
    place.details.hidden = place.button.hidden = place.rows.length === 0;
    if (canDraw && !place.details.open) return;
    if (place.rows.length === 0)
      return place.data.replaceChildren(canDraw ? "" : nothing(place.chart));
    table(place.data, place.chart.title, [
      ...kCommon.map(([key, title]) => ({title, value: row => row[key]})),
      ...place.chart.columns.map(column => ({title: column.title, numeric: true,
        value: row => row[column.field], text: row => short(row[column.field])})),
      ...(place.chart.front
        ? [{title: "Pareto front", value: row => row.front ? "yes" : "no"}] : []),
    ], place.rows);
  }

  async function drawOne(place, impls) {
    if (place.rows.length === 0) {
      place.few.hidden = true;
      if (place.view) place.view.finalize();
      place.view = null;
      place.picture.replaceChildren(nothing(place.chart));
      return;
    }
    const {rows, few} = inPictures(place.rows);
    place.few.textContent = `Not drawn, because there are fewer than ${kFew} records: ` +
      `${few.join(", ")}. The data of this chart have them.`;
    place.few.hidden = few.length === 0;
    const panels = [...new Set(rows.map(row => row.panel))].join();  // they shape the picture
    if (place.view && place.panels === panels)
      return void await place.view.data("rows", rows).runAsync();
    if (place.view) place.view.finalize();
    place.panels = panels;
    const target = make("div");
    place.picture.replaceChildren(target);
    const spec = fitted(place.chart, rows, place.picture.clientWidth, impls);
    // The page's policy allows no eval: expressions are interpreted (ast), and no style is added.
    const result = await window.vegaEmbed(target, spec, {mode: "vega-lite", renderer: "svg",
      ast: true, defaultStyle: false, actions: false, tooltip: showTip, config});
    place.view = result.view;
  }

  const places = charts.map(makePlace);
  for (const place of places) {
    place.details.addEventListener("toggle", () => showData(place));
    place.button.addEventListener("click", () => save(place.chart, place.rows));
  }
  let last = 0;
  return async function draw(records, impls) {
    const turn = ++last;
    for (const place of places) {
      place.rows = rowsOf(place.chart, records);
      showData(place);
    }
    for (const place of canDraw ? places : []) {
      await new Promise(resume => setTimeout(resume));  // what is above is shown first
      if (turn !== last) return;
      await drawOne(place, impls);
    }
    document.body.dataset.charts = canDraw ? "drawn" : "tables";
  };
}
