#!/usr/bin/python3
"""Opens a page of attest report in Chromium and uses it as a reader would.

usage: browser_test.py PAGE TABLES FOLDER ATTEST AXE [--no-vega]
TABLES is the page that --no-charts writes. FOLDER has choices.html, the page of first.jsonl and
second.jsonl (questions.py), scaling.html, energy.html, tokens.html, history.html (history_runs.py),
and layout.html (layout_run.py); screenshots and the PDF are kept there. ATTEST is the
program, AXE the script axe.min.js; if it is not there, that check is left out.
--no-vega: the build had no Vega, so PAGE has tables, too.
Exit code 77 (skipped): python3-selenium, chromium or chromium-driver is not there.
"""
import base64
import csv
import json
import os
import shutil
import sys

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select
except ImportError:
    print("NOT TESTED: no python3-selenium")
    sys.exit(77)

import browser_decide
import browser_layout
from browser_wait import wait


def open_browser():
    driver = shutil.which("chromedriver")
    if not driver or not shutil.which("chromium"):
        print("NOT TESTED: no chromium or chromium-driver")
        sys.exit(77)
    options = Options()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.binary_location = shutil.which("chromium")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(service=Service(driver), options=options)


def requests(browser):
    """The addresses that the page asked for."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [event["params"]["request"]["url"] for event in events
            if event["method"] == "Network.requestWillBeSent"]


def rows(browser, table):
    return browser.find_elements(By.CSS_SELECTOR, f"#{table}-table tbody tr")


def shown_cells(browser, table):
    """The texts of all cells as they are shown, row by row. That of a hidden cell is empty."""
    return browser.execute_script("""
        const rows = document.querySelectorAll(`#${arguments[0]}-table tbody tr`);
        return [...rows].map(row => [...row.querySelectorAll("td")].map(
          cell => cell.checkVisibility() ? cell.innerText.trim() : ""));""", table)


def choose_baseline(browser):
    """The last column of the speed table then has each record's speed-up on the same problem."""
    data = json.loads(browser.execute_script(
        "return document.getElementById('data').textContent"))
    key = lambda record: (record["run"], record["suite"], record["name"], record["spec"])
    timed = [record for record in data["records"] if "time" in record]
    base = {key(r): r["time"]["median"] for r in timed if r["impl"] == "naive"}
    expected = sorted(base[key(r)] / r["time"]["median"] for r in timed if key(r) in base)
    assert max(expected) > 1.1, "the golden results have something faster than naive"
    select = Select(browser.find_element(By.ID, "speed-baseline"))
    select.select_by_value("naive")
    ratios = [row[-1] for row in shown_cells(browser, "speed")]
    shown = sorted(float(ratio.split()[0]) for ratio in ratios if ratio)
    assert len(shown) == len(expected), (shown, expected)
    assert all(abs(a / b - 1) < 0.01 for a, b in zip(shown, expected)), (shown, expected)
    select.select_by_value("")
    head = browser.find_element(By.CSS_SELECTOR, "#speed-table thead").text
    assert "speed-up" not in head, head


def wait_for_charts(browser):
    """How the page shows its charts: "drawn" or "tables"."""
    found = wait(browser).until(
        lambda driver: driver.execute_script("return document.body.dataset.charts || null"))
    return found


def data_of(browser):
    """The page's data, with the rates that its script works out."""
    data = json.loads(browser.execute_script("return document.getElementById('data').textContent"))
    for record in data["records"]:
        if "roofline" in record and "time" in record:
            rate = record["flops"] / record["time"]["median"] * 1e9
            record["roofline"].update(rate=rate, roof=rate / record["roofline"]["share"])
    return data


def chart_of(data, name):
    return next(chart for chart in data["charts"] if chart["id"] == name)


def look_at_memory(browser):
    """The share of free memory, of a record on the host."""
    data = data_of(browser)
    record = next(r for r in data["records"] if "used" in r["memory"] and r["device"] == "cpu")
    taken = record["memory"]["tensors"] + record["memory"]["used"]
    share = taken / data["runs"][record["run"]]["free_bytes"]
    row = next(row for row in rows(browser, "memory") if record["impl"] in row.text)
    cell = row.find_elements(By.TAG_NAME, "td")[-1].text
    assert abs(float(cell.split()[0]) / (share * 100) - 1) < 0.01, (cell, share)


def rows_of(data, chart):
    """The records that have a positive number for each column of the chart."""
    def number(record, path):
        for key in path.split("."):
            record = record.get(key) if isinstance(record, dict) else None
        return record if isinstance(record, (int, float)) and record > 0 else None
    rows = [[number(record, column["from"]) for column in chart["columns"]]
            for record in data["records"]
            if record["verdict"] == "pass" or not chart.get("passing")]
    return [row for row in rows if None not in row]


def points(browser, chart):
    """Label and location of the marks that stand for records."""
    return browser.execute_script("""
        const found = document.querySelectorAll(
          `#chart-${arguments[0]} svg .mark-symbol.role-mark path[aria-label]`);
        return [...found].map(path => {
          const box = path.getBoundingClientRect();
          return {label: path.getAttribute("aria-label"), x: box.x + box.width / 2,
            y: box.y + box.height / 2, width: box.width};
        });""", chart["id"])


# What the axes of each chart show of a record: the column, and where it is in the page's data.
AXES = {
    "deadline": {"x": ("slowest time seen, ms", "time.worst", 1e-6)},
    "time": {"x": ("tokens", "tokens", 1), "y": ("median, ms", "time.median", 1e-6)},
    "memory": {"x": ("tokens", "tokens", 1), "y": ("memory, MiB", "memory.used", 2 ** -20)},
    "roofline": {"x": ("operations a byte", "roofline.intensity", 1),
                 "y": ("GFLOP/s", "roofline.rate", 1e-9)},
    "energy": {"x": ("median, ms", "time.median", 1e-6),
               "y": ("energy of a run, mJ", "energy.run", 1e3)},
    "error": {"x": ("median, ms", "time.median", 1e-6), "y": ("share of the gate", "max_ratio", 1)},
}


def check_places(data, chart, marks):
    """Labels have the record's figures; more is further to the right, or further up."""
    figures = {f"{record['title']} {record['dtype']} {record['impl']}": record
               for record in ({**r, "title": "/".join(filter(None, (r["suite"], r["name"])))}
                              for r in data["records"])}
    for place, (title, path, factor) in AXES[chart["id"]].items():
        def value(mark):
            found = figures[mark["label"].split("; ")[0]]
            for key in path.split("."):
                found = found[key]
            return found
        panels = {}
        for mark in marks:
            said = dict(part.rsplit(": ", 1) for part in mark["label"].split("; ")[1:])
            assert abs(float(said[title]) / (value(mark) * factor) - 1) < 1e-3, mark
            dtype = mark["label"].split("; ")[0].split()[-2]
            panels.setdefault(dtype, []).append((value(mark), mark[place]))
        for found in panels.values():
            ordered = sorted(found)
            for (low, first), (high, second) in zip(ordered, ordered[1:]):
                further = second - first if place == "x" else first - second
                assert abs(further) < 0.5 if low == high else further > 0.5, (path, ordered)


def look_at_charts(browser):
    """Each record with the figures of a chart is a mark with a label, where its figures say."""
    assert wait_for_charts(browser) == "drawn"
    data = data_of(browser)
    assert {chart["id"] for chart in data["charts"]} == set(AXES)
    for chart in data["charts"]:
        if chart["id"] == "energy":
            assert not browser.find_element(By.ID, "energy").is_displayed(), "nothing has energy"
            continue
        rows, marks = rows_of(data, chart), points(browser, chart)
        assert len(rows) > 1, f"the golden results have nothing for the chart {chart['id']}"
        assert len(marks) == len(rows), (chart["id"], len(marks), len(rows))
        for mark in marks:
            assert mark["width"] > 0 and "; " in mark["label"], mark
        check_places(data, chart, marks)
        text = browser.find_element(By.CSS_SELECTOR, f"#chart-{chart['id']} svg").text
        assert "flash_cpu" in text and "NaN" not in text, text

    filtered = Select(browser.find_element(By.ID, "filter-impl"))
    filtered.select_by_value("naive")
    shown = lambda driver: {mark["label"].split("; ")[0].split()[-1]
                            for mark in points(driver, data["charts"][0])} == {"naive"}
    wait(browser).until(shown)
    filtered.select_by_value("")
    wait(browser).until(
        lambda driver: len(points(driver, data["charts"][0])) == len(rows_of(
            data, data["charts"][0])))


def use_chart(browser, folder):
    """What a mark says, the data of a chart as a table and as CSV."""
    data = data_of(browser)
    chart = data["charts"][0]
    figure = browser.find_element(By.ID, "chart-" + chart["id"])
    browser.execute_script("arguments[0].scrollIntoView()", figure)
    mark = figure.find_element(By.CSS_SELECTOR, "svg .mark-symbol.role-mark path[aria-label]")
    ActionChains(browser).move_to_element(mark).perform()
    tip = browser.find_element(By.CSS_SELECTOR, ".tip")
    assert tip.text.split("\n")[0] == mark.get_attribute("aria-label").split("; ")[0], tip.text
    figure.find_element(By.TAG_NAME, "summary").click()
    wait(browser).until(
        lambda _: len(figure.find_elements(By.CSS_SELECTOR, "tbody tr")) ==
        len(rows_of(data, chart)))

    path = os.path.join(folder, f"attest-{chart['id']}.csv")
    if os.path.exists(path):
        os.remove(path)
    browser.execute_cdp_cmd("Browser.setDownloadBehavior",
                            {"behavior": "allow", "downloadPath": os.path.abspath(folder)})
    figure.find_element(By.CSS_SELECTOR, "button.more").click()
    wait(browser).until(lambda _: os.path.exists(path))
    with open(path, newline="", encoding="utf-8") as file:
        lines = list(csv.reader(file))
    assert len(lines) == 1 + len(rows_of(data, chart)), lines
    assert lines[0][:3] == ["case", "dtype", "implementation"], lines[0]


def on_front(data, chart):
    """The records that no other of the same case, dtype and machine beats, in order."""
    pairs = ((record, rows_of({"records": [record]}, chart)) for record in data["records"])
    figures = [(record["run"], record["suite"], record["name"], record["dtype"], row)
               for record, row in pairs if row]
    beats = lambda a, b: a != b and all(x <= y for x, y in zip(a, b))
    return [not any(other[:4] == one[:4] and beats(other[4][0], one[4][0]) for other in figures)
            for one in figures]


def read_tables(browser, page):
    """A page without Vega: the data of each chart stand in its place."""
    browser.get("file://" + page)
    assert wait_for_charts(browser) == "tables"
    assert not browser.find_elements(By.CSS_SELECTOR, "figure svg")
    data = data_of(browser)
    for chart in data["charts"]:
        if chart["id"] == "energy":
            continue
        shown = browser.find_elements(By.CSS_SELECTOR, f"#chart-{chart['id']} tbody tr")
        assert len(shown) == len(rows_of(data, chart)) > 1, (chart["id"], len(shown))
        assert all(row.is_displayed() for row in shown)
        if "front" in chart:
            said = [row.find_elements(By.TAG_NAME, "td")[-1].text == "yes" for row in shown]
            assert said == on_front(data, chart), said
            assert True in said and False in said, "the golden results have both"


def look_at_samples(browser, dialog):
    """The distribution in an open record: a bar for each bin, as high as its count says."""
    record = data_of(browser)["records"][0]
    histogram = dialog.find_element(By.CSS_SELECTOR, "svg.histogram")
    assert histogram.get_attribute("aria-label").startswith(
        f"{record['time']['samples']} samples from "), histogram.get_attribute("aria-label")
    heights = [float(bar.get_attribute("height"))
               for bar in histogram.find_elements(By.TAG_NAME, "rect")]
    counts = record["time"]["histogram"]["counts"]
    assert len(heights) == len(counts) == 64, (len(heights), len(counts))
    assert all(abs(height / 96 - count / max(counts)) < 1e-6
               for height, count in zip(heights, counts)), heights
    assert "the deadline of 10.0" in dialog.text or "deadline 10.0" in dialog.text, dialog.text


def look_at_free_memory(browser):
    """A line across each picture of the memory chart, above all marks; none is taken for one."""
    lines = browser.execute_script("""
        const found = document.querySelectorAll("#chart-memory svg .mark-rule.role-mark line");
        return [...found].map(line => line.getBoundingClientRect().y);""")
    marks = points(browser, chart_of(data_of(browser), "memory"))
    panels = {mark["label"].split("; ")[0].split()[-2] for mark in marks}
    assert len(lines) == len(panels), (lines, panels)
    assert max(lines) < min(mark["y"] for mark in marks), (lines, marks)
    text = browser.find_element(By.CSS_SELECTOR, "#chart-memory svg").text
    assert "free when the run began" in text, text


def look_at_errors(browser, page):
    """The picture of a wrong output: a rectangle for each run of equal cells, over what it says.
    `page` has the records of the open page."""
    records = data_of(browser)["records"]
    number, fill = next((number, fill) for number, record in enumerate(records)
                        for fill in record.get("fills", []) if "map" in fill)
    cells = fill["map"]["cells"]
    browser.get("about:blank")  # else the page is not loaded anew
    browser.get(f"file://{page}#record-{number}")
    picture = browser.find_element(By.CSS_SELECTOR, "dialog svg.errors")
    assert fill["locations"][0] in picture.get_attribute("aria-label")
    shown = [(part.get_attribute("class"), part.get_attribute("textContent"),
              part.rect["width"] / picture.rect["width"])
             for part in picture.find_elements(By.TAG_NAME, "rect")]
    last = len(cells[0]) - 1
    assert cells == ["." * last + "x"] * 2, "the golden results lack the last row of two heads"
    for head in range(2):
        right, wrong = shown[2 * head], shown[2 * head + 1]
        assert right[:2] == (
            "right", f"query 0 to {last - 1}, batch x head {head}: within the gate"), right
        assert wrong[:2] == (
            "wrong", f"query {last}, batch x head {head}: not finite, or beyond all measure"), wrong
        assert abs(right[2] - last / (last + 1)) < 0.02 and wrong[2] < 0.03, shown


def look_at_tokens(browser, page):
    """The sweep of a record, cell by cell, the windows of a grid, and a distance from softmax."""
    assert "distance from softmax" not in browser.find_element(By.ID, "accuracy-table").text
    browser.get("file://" + page)
    heads = [head.text for head in
             browser.find_elements(By.CSS_SELECTOR, "#accuracy-table thead th")]
    shown = [row.find_elements(By.TAG_NAME, "td")[heads.index("distance from softmax")].text
             for row in rows(browser, "accuracy")]
    assert sorted(set(shown)) == ["", "12.5 %"], shown
    data = data_of(browser)
    records = data["records"]
    for kind in ("sweep", "grid"):
        number = next(n for n, r in enumerate(records) if
                      (data["texts"][r["inputs"]] in data["runs"][r["run"]]["tokens"]
                       if kind == "sweep" else "window_height" in r["spec"]))
        browser.get(f"file://{page}#record-{number}")
        browser.refresh()
        view = browser.find_element(By.CSS_SELECTOR, "dialog svg.tokens")
        shown = [[float(part.get_attribute(key)) for key in ("x", "y", "width", "height")] +
                 [part.get_attribute("fill")] for part in view.find_elements(By.TAG_NAME, "rect")]
        label = view.get_attribute("aria-label")
        if kind == "sweep":
            assert label.startswith("2,592 tokens of the sweep from above, 4 x 2 m"), label
            # Patches of 1,296 tokens: the first two cells are of one, the third of another.
            assert [cell[:4] for cell in shown] == [[0, 0, 1, 1], [2, 0, 1, 1], [1, 1, 1, 1]], shown
            assert shown[0][4] == shown[1][4] != shown[2][4], shown
            continue
        # 4 x 6 tokens in windows of 2 x 3, shifted by 1 x 0: the window of the first row is cut.
        assert "4 x 6 tokens in windows of 2 x 3, shifted by 1 x 0" in label, label
        assert len(shown) == 6 and len({cell[4] for cell in shown}) == 4, shown
        colour = {tuple(cell[:4]): cell[4] for cell in shown}
        assert colour[0, 0, 3, 1] == colour[0, 3, 3, 1] != colour[3, 0, 3, 1], shown
    browser.get("file://" + page)
    browser.refresh()


def look_at_roofline(browser):
    """The share of a record, and what binds."""
    record = data_of(browser)["records"][0]
    roofline = record["roofline"]
    heads = [head.text.split(" ▲")[0].split(" ▼")[0] for head in
             browser.find_elements(By.CSS_SELECTOR, "#speed-table thead th")]
    cells = next(row for row in rows(browser, "speed") if record["impl"] in row.text)
    shown = [cells.find_elements(By.TAG_NAME, "td")[heads.index(title)].text
             for title in ("of roofline", "what binds")]
    assert shown[0].split() == [f"{roofline['share'] * 100:.0f}", "%"], shown
    assert shown[1] == roofline["limit"], shown


def look_at_scaling(browser, page):
    """Exponents and crossovers of a page with sweeps; a page without has no such part."""
    assert not browser.find_element(By.ID, "scaling").is_displayed()
    browser.get("file://" + page)
    part = browser.find_element(By.ID, "scaling")
    assert part.is_displayed()
    made = data_of(browser)["scaling"]
    assert len(made) > 1 and "grows as" in str(made[0]["columns"])
    for number, table in enumerate(part.find_elements(By.TAG_NAME, "table")):
        cells = [cell.text for cell in table.find_elements(By.CSS_SELECTOR, "tbody td")]
        assert cells == [cell for row in made[number]["rows"] for cell in row], cells


def look_at_axes(browser):
    """What records vary, pin and never give, and the filter of these."""
    data = data_of(browser)
    states = [axis["state"] for axis in data["axes"]]
    assert {"varied", "never given"} <= set(states), states
    select = Select(browser.find_element(By.ID, "axes-state"))
    select.select_by_value("never given")
    shown = [row[1] for row in shown_cells(browser, "axes")]
    assert shown == [axis["axis"] for axis in data["axes"] if axis["state"] == "never given"], shown
    select.select_by_value("")
    shown = {row[1]: row for row in shown_cells(browser, "axes")}
    assert len(rows(browser, "axes")) == len(states)
    causal = shown["causal" if "causal" in shown else "window_right"]
    assert causal[2] == "never given" and causal[4] == "varied" and causal[5], causal
    assert "linear" in browser.find_element(By.ID, "other-operations").text


def look_at_words(browser):
    """The titles of columns say what they mean."""
    verdict = next(head for head in browser.find_elements(By.CSS_SELECTOR, "#accuracy-table th")
                   if head.text.startswith("verdict"))
    assert "crash" in verdict.get_attribute("title")
    browser.find_element(By.CSS_SELECTOR, "a[href='#words']").click()
    assert browser.find_element(By.CSS_SELECTOR, "#words dl").is_displayed()


def look_at_noise(browser):
    """The link below the warnings shows the records that they are about."""
    noisy = [record for record in data_of(browser)["records"] if "noise" in record]
    assert noisy
    browser.find_element(By.CSS_SELECTOR, "#noisy-link a").click()
    wait(browser).until(lambda _: browser.find_element(
        By.ID, "filter-count").text.startswith(f"{len(noisy)} of "))
    shown = browser.find_element(By.CSS_SELECTOR, "#speed-table tbody").text
    assert all(record["impl"] in shown for record in noisy), shown
    marks = browser.find_elements(By.CSS_SELECTOR, "#matrix-table button span.warn[title]")
    assert [mark.text for mark in marks] == ["noisy"] * len(noisy), [mark.text for mark in marks]
    assert sorted(mark.get_attribute("title") for mark in marks) == sorted(
        "; ".join(record["noise"]) for record in noisy)
    Select(browser.find_element(By.ID, "decide-case")).select_by_visible_text(
        "vit/vit_b_16_224/self f16")
    for row in browser.find_elements(By.CSS_SELECTOR, "#answer tbody tr"):
        name, record = (row.find_elements(By.TAG_NAME, "td")[column].text for column in (0, 4))
        assert ("noisy" in record) == any(
            one["impl"] == name and one["name"] == "vit_b_16_224/self" for one in noisy), record
    browser.find_element(By.ID, "filter-noisy").click()


def look_at_energy(browser, page, folder, axe, has_vega):
    """The part of the page about energy, by the sensor that could be read."""
    browser.get("file://" + page)
    assert wait_for_charts(browser) == ("drawn" if has_vega else "tables")
    assert browser.find_element(By.CSS_SELECTOR, "a[href='#energy']").is_displayed()
    data = data_of(browser)
    chart = chart_of(data, "energy")
    expected = rows_of(data, chart)
    assert len(expected) > 1
    if has_vega:
        marks = points(browser, chart)
        assert len(marks) == len(expected), marks
        check_places(data, chart, marks)
    shown = rows(browser, "energy")
    sensors = [sensor for record in data["records"] if "energy" in record
               for sensor in record["energy"]["sensors"]]
    assert len(shown) == len(sensors) == 2 * len(expected)
    cells = [[cell.text for cell in row.find_elements(By.TAG_NAME, "td")][3:] for row in shown]
    assert cells[0][0] == "rapl (package 0)" and cells[0][2].endswith("mJ"), cells
    assert cells[1][2].split() == ["\u221210.0", "mJ"], cells
    assert chart_of(data, "energy")["columns"][1]["from"] == "energy.run"
    look(browser, page, os.path.join(folder, "energy"))
    check_access(browser, page, axe, ["#energy"])


def look_at_projection(browser):
    """Each projected time says so, and its ink is not that of the measured time beside it."""
    assert browser.find_element(By.CSS_SELECTOR, "a[href='#projection']").is_displayed()
    shown = browser.find_elements(By.CSS_SELECTOR, "#projection > .scroll tbody tr")
    assert len(shown) == 2, len(shown)
    for row in shown:
        measured, projected = row.find_elements(By.TAG_NAME, "td")[2:4]
        assert projected.text.startswith("PROJECTION "), projected.text
        inks = [cell.value_of_css_property("color") for cell in (measured, projected)]
        assert inks[0] != inks[1], inks


def look_at_history(browser, page, folder, axe):
    """The line of the one case that became slower; a page without an index has no such part."""
    link = "a[href='#history']"
    assert not browser.find_elements(By.ID, "history")
    assert not browser.find_element(By.CSS_SELECTOR, link).is_displayed()
    browser.get("file://" + page)
    assert browser.find_element(By.CSS_SELECTOR, link).is_displayed()
    part = browser.find_element(By.ID, "history")
    pictures = part.find_elements(By.CSS_SELECTOR, "svg.history")
    assert [one.get_attribute("aria-label") for one in pictures] == [
        "time of vit/vit_b_16_224/self f16 flash_cpu: 20 runs, 1 steps"], pictures
    heights = [mark.location["y"] for mark in
               pictures[0].find_elements(By.TAG_NAME, "circle")]
    assert len(heights) == 20 and max(heights[11:]) < min(heights[:11]) - 30, heights
    word = pictures[0].find_element(By.TAG_NAME, "text")
    assert word.text == "commit12" and word.is_displayed(), word.text
    assert "+10.0 %" in part.find_element(By.TAG_NAME, "tbody").text
    look_at_projection(browser)
    look(browser, page, os.path.join(folder, "history"))
    check_access(browser, page, axe, ["#history", "#projection"])


def use(browser):
    """Decide, filters, sorting, the dialog of a record."""
    by_id = lambda name: browser.find_element(By.ID, name)
    Select(by_id("decide-case")).select_by_visible_text("vit/vit_b_16_224/self f16")
    assert "Take flash_cpu" in by_id("answer").text, by_id("answer").text
    by_id("decide-error").send_keys("0.1")
    assert "None may be used" in by_id("answer").text, by_id("answer").text
    by_id("decide-error").clear()
    by_id("decide-error").send_keys(Keys.BACKSPACE)
    by_id("decide-deadline").send_keys("10")
    assert "INCONCLUSIVE" in by_id("answer").text, by_id("answer").text

    before = len(rows(browser, "matrix"))
    Select(by_id("filter-suite")).select_by_value("smoke")
    assert 0 < len(rows(browser, "matrix")) < before
    Select(by_id("filter-suite")).select_by_value("")
    by_id("filter-different").click()
    grey = browser.find_elements(By.CSS_SELECTOR, "#matrix-table tr.context")
    assert len(rows(browser, "matrix")) == before and 0 < len(grey) < before

    sort = "#speed-table th:nth-child(4) button"
    for order in ("ascending", "descending"):
        browser.find_element(By.CSS_SELECTOR, sort).click()
        head = browser.find_element(By.CSS_SELECTOR, "#speed-table th:nth-child(4)")
        assert head.get_attribute("aria-sort") == order
    assert "naive" in rows(browser, "speed")[0].text

    choose_baseline(browser)
    look_at_roofline(browser)
    browser.find_element(By.CSS_SELECTOR, "#matrix-table button.cell").click()
    dialog = browser.find_element(By.CSS_SELECTOR, "dialog[open]")
    assert "attest repro --impl flash_cpu" in dialog.text, dialog.text
    look_at_samples(browser, dialog)
    assert "#record-" in browser.current_url
    dialog.find_element(By.TAG_NAME, "button").click()


def look(browser, page, folder):
    """Screenshots, wide and narrow, light and dark: nothing is wider than the window."""
    os.makedirs(folder, exist_ok=True)
    for width in (1440, 400):
        for scheme in ("light", "dark"):
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
                "features": [{"name": "prefers-color-scheme", "value": scheme}]})
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
                "width": width, "height": 1400, "deviceScaleFactor": 1, "mobile": width < 600})
            browser.get("file://" + page)
            wait_for_charts(browser)
            browser.save_screenshot(os.path.join(folder, f"page_{width}_{scheme}.png"))
            wide = browser.execute_script("return document.documentElement.scrollWidth")
            assert wide <= width, f"{wide} pixels at {width}"


RUN_AXE = """
    const [parts, done] = arguments;
    const words = one => `${one.id} (${one.help}): ${one.nodes.map(node => node.html).join("; ")}`;
    const seen = parts ? {include: parts.map(part => [part])} : document;
    axe.run(seen).then(found => done([found.passes.length, found.violations.map(words)]),
      error => done([0, [String(error)]]));
"""


def check_access(browser, page, axe, parts=None):
    """axe-core finds nothing that keeps a reader from using the page, without and with an open
    record. With parts, it looks at these alone, and then at the record alone. Rules that compare
    parts with each other, as of landmarks, see all only where it looks at the whole document."""
    if not os.path.exists(axe):
        print("NOT TESTED: the check by axe (scripts/axe.sh fetches it)")
        return
    with open(axe, encoding="utf-8") as file:
        script = file.read()
    browser.get("file://" + page)
    wait_for_charts(browser)
    browser.execute_script(script)
    for open_record in (False, True):
        if open_record:
            browser.find_element(By.CSS_SELECTOR, "#matrix-table button.cell").click()
        passes, violations = browser.execute_async_script(
            RUN_AXE, ["dialog[open]"] if parts and open_record else parts)
        assert not violations, violations
        assert passes > 10, f"axe tried {passes} rules only"


def print_page(browser, folder):
    pdf = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    with open(os.path.join(folder, "page.pdf"), "wb") as file:
        file.write(pdf)
    assert pdf.startswith(b"%PDF") and len(pdf) > 10000


def main():
    page, tables = (os.path.abspath(path) for path in sys.argv[1:3])
    folder = sys.argv[3]
    attest, axe = sys.argv[4:6]
    layout = os.path.abspath(os.path.join(folder, "layout.html"))
    has_vega = "--no-vega" not in sys.argv[6:]
    os.makedirs(folder, exist_ok=True)
    browser = open_browser()
    try:
        browser.get("file://" + page)
        assert browser.execute_script("return document.body.dataset.ready") == "yes"
        use(browser)
        if has_vega:
            look_at_charts(browser)
            use_chart(browser, folder)
            look_at_free_memory(browser)
        browser_decide.follow_link(browser, tables)
        browser_decide.refuse_limits(browser, tables)
        look_at_axes(browser)
        look_at_words(browser)
        look_at_noise(browser)
        look_at_memory(browser)
        look_at_errors(browser, tables)
        look(browser, page, folder)
        check_access(browser, page, axe)
        print_page(browser, folder)
        browser_layout.look_at_layout(browser, page, layout)
        browser_layout.look_at_paper(browser, layout)
        browser_layout.look_at_unended_run(browser, layout)
        if has_vega:
            browser_layout.look_at_pictures(browser, layout)
        read_tables(browser, tables)
        browser_decide.compare_choices(browser, attest, folder)
        choices, scaling, energy, history = (
            os.path.abspath(os.path.join(folder, name))
            for name in ("choices.html", "scaling.html", "energy.html", "history.html"))
        tokens = os.path.abspath(os.path.join(folder, "tokens.html"))
        look_at_scaling(browser, scaling)
        look_at_energy(browser, energy, folder, axe, has_vega)
        look_at_tokens(browser, tokens)
        look_at_history(browser, history, folder, axe)
        allowed = ("file://" + page, "file://" + tables, "data:text/csv", "file://" + choices,
                   "file://" + scaling, "file://" + energy, "file://" + history, "file://" + tokens,
                   "file://" + layout)
        assert all(url.startswith(allowed) for url in requests(browser))
        errors = browser.get_log("browser")
        assert not errors, errors
    finally:
        browser.quit()
    print("page: " + page)


if __name__ == "__main__":
    main()
