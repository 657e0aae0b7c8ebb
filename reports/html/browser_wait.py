"""How browser_test.py and its parts wait for the page: they look every 20 ms, not every 500."""
from selenium.webdriver.support.ui import WebDriverWait


def wait(browser):
    return WebDriverWait(browser, 30, poll_frequency=0.02)
