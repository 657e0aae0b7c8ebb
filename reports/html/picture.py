#!/usr/bin/python3
"""Takes the picture of a page that README.md shows: its head, Decide, and deadlines of f16.

usage: picture.py PAGE PICTURE.png
Needs python3-selenium, chromium and chromium-driver.
"""
import base64
import os
import sys

from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from browser_test import open_browser, wait_for_charts

WIDTH = 1100
HIDE = """
    for (const element of document.querySelectorAll(
      "nav, #matrix, #memory, #accuracy, #coverage, #environment, #repeat, #licences, details, " +
      "#decide > p, #speed > :not(#charts-speed), #charts-speed > :not(#chart-deadline), " +
      "button.more"))
      element.style.display = "none";
    return document.querySelector("main").getBoundingClientRect().bottom + scrollY;
"""


def main():
    page, path = sys.argv[1:3]
    browser = open_browser()
    try:
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": WIDTH, "height": 1400, "deviceScaleFactor": 1, "mobile": False})
        browser.get("file://" + os.path.abspath(page))
        if wait_for_charts(browser) != "drawn":
            sys.exit(f"{page}: has no charts; a build with Vega (scripts/charts.sh) makes them")
        browser.execute_script("delete document.body.dataset.charts")  # until they are redrawn
        Select(browser.find_element(By.ID, "filter-dtype")).select_by_value("f16")
        wait_for_charts(browser)
        shot = browser.execute_cdp_cmd("Page.captureScreenshot", {
            "captureBeyondViewport": True,
            "clip": {"x": 0, "y": 0, "width": WIDTH, "height": browser.execute_script(HIDE) + 12,
                     "scale": 1}})
    finally:
        browser.quit()
    with open(path, "wb") as file:
        file.write(base64.b64decode(shot["data"]))


main()
