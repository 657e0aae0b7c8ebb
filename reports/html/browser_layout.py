"""Looks at how the page uses the width of its window, for browser_test.py, and at the page of
layout_run.py, whose run did not end."""
import json

from selenium.webdriver.common.by import By

from browser_wait import wait

TABLES = """
    return [...document.querySelectorAll(".scroll")].filter(one => one.clientWidth > 0).map(one => {
      one.scrollLeft = 1e6;
      const first = one.querySelector("tbody td").getBoundingClientRect();
      const caption = one.querySelector(".caption").getBoundingClientRect();
      const place = one.getBoundingClientRect(), moved = one.scrollLeft > 0;
      one.scrollLeft = 0;
      return {name: one.getAttribute("aria-label"), moved,
        hint: one.querySelector(".hint").offsetWidth > 0,
        shaded: one.classList.contains("more"), stays: Math.abs(first.left - place.left) < 1.5,
        share: first.width / place.width, cards: one.closest(".cards") !== null,
        caption: [caption.left, caption.right]};
    });"""


def open_at(browser, page, width, scheme="light"):
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
        "features": [{"name": "prefers-color-scheme", "value": scheme}]})
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": 1400, "deviceScaleFactor": 1, "mobile": width < 600})
    browser.get("file://" + page)
    wait(browser).until(
        lambda driver: driver.execute_script("return document.body.dataset.charts || null"))


def tables_at(browser, page, width):
    """What each table does at this width, scrolled to its right end and back."""
    open_at(browser, page, width)
    tables = browser.execute_script(TABLES)
    names = [one["name"] for one in tables]
    assert any(" cases, " in name or " case, " in name for name in names), names
    for one in tables:
        assert one["hint"] == one["shaded"] == one["moved"], one
        assert 0 <= one["caption"][0] and one["caption"][1] <= width, one
    return tables


def look_at_layout(browser, *pages):
    """A wide window has all columns. In a narrow one a table says that it scrolls, and its first
    column stays; the environment's values are seen without."""
    for page in pages:
        wide = tables_at(browser, page, 1300)
        assert not any(one["moved"] for one in wide), wide
        open_at(browser, page, 1440)
        fields = browser.find_elements(By.CSS_SELECTOR, "#decide .controls label > *")
        assert len({field.location["y"] for field in fields}) == 1, "fields in one line"
        assert all(field.rect["width"] < 150 for field in fields if field.tag_name == "input")
        narrow = tables_at(browser, page, 400)
        assert sum(one["moved"] for one in narrow) > 2, narrow
        for one in narrow:
            assert not (one["moved"] and one["cards"]), one
            assert one["cards"] or (one["stays"] and one["share"] <= 0.41), one
        values = browser.find_elements(By.CSS_SELECTOR, "#environment-table td:last-child")
        assert len(values) > 20 and all(
            0 <= value.rect["x"] < 30 and value.rect["x"] + value.rect["width"] <= 400
            for value in values), "values of the environment stand below their names"


def look_at_paper(browser, page):
    """A sheet of A4, landscape, has every column, and no word about scrolling."""
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": 1030, "height": 1400, "deviceScaleFactor": 1, "mobile": False})
    browser.get("file://" + page)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    wide = browser.execute_script("""
        return [...document.querySelectorAll(".scroll")].filter(one => one.offsetWidth + 1 <
          one.querySelector("table").offsetWidth || one.querySelector(".hint").offsetWidth > 0)
          .map(one => one.getAttribute("aria-label"));""")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert not wide, wide


def look_at_unended_run(browser, page):
    """What a run that did not end cannot say, and a relation that was not run."""
    open_at(browser, page, 1440)
    for row in browser.find_elements(By.CSS_SELECTOR, "#coverage-table tbody tr"):
        cell = row.find_elements(By.TAG_NAME, "td")[-1].text
        assert cell == "not known: the run did not end", cell
    browser.find_element(By.CSS_SELECTOR, "#matrix-table button.cell").click()
    dialog = browser.find_element(By.CSS_SELECTOR, "dialog[open]")
    cells = [[cell.text for cell in row.find_elements(By.TAG_NAME, "td")]
             for row in dialog.find_elements(By.CSS_SELECTOR, "tbody tr")]
    ran, skipped = (next(row for row in cells if row[0] == name)
                    for name in ("repetition", "key-permutation"))
    assert ran[1:4] == ["✓ pass", "0.00", "0.00"] and "exactly" in ran[5], ran
    assert skipped[1:] == ["skipped:time", "", "", "", ""], skipped
    dialog.find_element(By.TAG_NAME, "button").click()
    naive = next(button for button in
                 browser.find_elements(By.CSS_SELECTOR, "#matrix-table button.cell")
                 if button.get_attribute("aria-label").endswith(" naive") and
                 button.get_attribute("aria-label").startswith("pass"))
    naive.click()
    assert not dialog.find_elements(By.CSS_SELECTOR, "svg.histogram")
    data = json.loads(browser.execute_script(
        "return document.getElementById('data').textContent"))
    few, = (record["time"]["few"] for record in data["records"]
            if record["impl"] == "naive" and "time" in record)
    shown = next(line for line in dialog.text.split("\n") if line.startswith("Samples: "))
    assert len(few) == 2 and shown.count(" ms") == 2, shown
    dialog.find_element(By.TAG_NAME, "button").click()


def look_at_pictures(browser, page):
    """Few records of a dtype are not drawn beside many, and the page says so. Marks at 100 % lie
    within the frame. On dark ground marks have other colours."""
    fills = []
    for scheme in ("light", "dark"):
        open_at(browser, page, 1440, scheme)
        figure = browser.find_element(By.ID, "chart-deadline")
        said = [line for line in figure.text.split("\n") if line.startswith("Not drawn")]
        assert said == ["Not drawn, because there are fewer than 5 records: f32. The data of this "
                        "chart have them."], said
        labels, tops, frame, colour = browser.execute_script("""
            const marks = [...document.querySelectorAll(
              "#chart-deadline .mark-symbol.role-mark path[aria-label]")];
            const frame = document.querySelector("#chart-deadline .cell path.background");
            return [marks.map(mark => mark.getAttribute("aria-label")),
              marks.map(mark => mark.getBoundingClientRect().top),
              frame.getBoundingClientRect().top, getComputedStyle(marks[0]).fill];""")
        assert len(labels) == 6 and all(" f16 " in label for label in labels), labels
        assert min(tops) > frame, (tops, frame)
        fills.append(colour)
    assert fills[0] == "rgb(0, 114, 178)" and fills[1] == "rgb(111, 234, 214)", fills
    open_at(browser, page, 1440)
