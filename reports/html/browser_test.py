#!/usr/bin/python3
"""Opens a page of attest report in Chromium and uses it as a reader would.

usage: browser_test.py PAGE FOLDER      screenshots and the PDF are kept in FOLDER
Exit code 77 (skipped): python3-selenium, chromium or chromium-driver is not there.
"""
import base64
import json
import os
import shutil
import sys

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select
except ImportError:
    print("NOT TESTED: no python3-selenium")
    sys.exit(77)


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
    cells = [row.find_elements(By.TAG_NAME, "td")[-1].text for row in rows(browser, "speed")]
    shown = sorted(float(cell.split()[0]) for cell in cells if cell)
    assert len(shown) == len(expected), (shown, expected)
    assert all(abs(a / b - 1) < 0.01 for a, b in zip(shown, expected)), (shown, expected)
    select.select_by_value("")
    head = browser.find_element(By.CSS_SELECTOR, "#speed-table thead").text
    assert "speed-up" not in head, head


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
    browser.find_element(By.CSS_SELECTOR, "#matrix-table button.cell").click()
    dialog = browser.find_element(By.CSS_SELECTOR, "dialog[open]")
    assert "attest repro --impl flash_cpu" in dialog.text, dialog.text
    assert "#record-" in browser.current_url
    dialog.find_element(By.TAG_NAME, "button").click()


def look(browser, page, folder):
    """Screenshots, wide and narrow, light and dark: nothing is wider than the window."""
    for width in (1440, 400):
        for scheme in ("light", "dark"):
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
                "features": [{"name": "prefers-color-scheme", "value": scheme}]})
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
                "width": width, "height": 1400, "deviceScaleFactor": 1, "mobile": width < 600})
            browser.get("file://" + page)
            browser.save_screenshot(os.path.join(folder, f"page_{width}_{scheme}.png"))
            wide = browser.execute_script("return document.documentElement.scrollWidth")
            assert wide <= width, f"{wide} pixels at {width}"


def print_page(browser, folder):
    pdf = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    with open(os.path.join(folder, "page.pdf"), "wb") as file:
        file.write(pdf)
    assert pdf.startswith(b"%PDF") and len(pdf) > 10000


def main():
    page, folder = os.path.abspath(sys.argv[1]), sys.argv[2]
    os.makedirs(folder, exist_ok=True)
    browser = open_browser()
    try:
        browser.get("file://" + page)
        assert browser.execute_script("return document.body.dataset.ready") == "yes"
        use(browser)
        look(browser, page, folder)
        print_page(browser, folder)
        assert all(url.startswith("file://" + page) for url in requests(browser))
        errors = browser.get_log("browser")
        assert not errors, errors
    finally:
        browser.quit()
    print("page: " + page)


main()
