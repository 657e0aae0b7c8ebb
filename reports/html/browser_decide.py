"""Uses Decide in a browser, for browser_test.py: its answers are those of attest choose."""
import json
import os

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

import questions
from browser_wait import wait

ASK = """
    const [cases, values] = arguments;
    const set = (id, value) => {
      const element = document.getElementById("decide-" + id);
      element.value = value;
      element.dispatchEvent(new Event(element.type === "number" ? "input" : "change"));
    };
    for (const [id, value] of Object.entries(values)) set(id, value === null ? "" : value);
    return cases.map(value => {
      set("case", value);
      const rows = [...document.querySelectorAll("#answer tbody tr")].map(row => {
        const state = row.querySelector("[data-limit]");
        const [name, threads] = row.cells[0].textContent.split(", ");
        const part = row.querySelector("div.warn");
        return {name, threads: threads ? parseInt(threads) : null, state: state.textContent,
          limit: state.dataset.limit, part: part ? part.textContent : "",
          why: row.cells[2].firstChild.firstChild.textContent, ran: row.cells[3].textContent,
          record: row.querySelector("button.cell").getAttribute("aria-label"),
          command: row.cells[5].textContent};
      });
      const others = [...document.querySelectorAll("#answer [data-other]")].map(other =>
        [other.dataset.other, other.querySelector("code").textContent]);
      return {head: document.querySelector("#answer strong").textContent, rows, others,
        sentence: document.querySelector("#answer p").textContent,
        command: document.querySelector("#answer > p:last-child code").textContent};
    });
"""


def is_near(sentence, nearest, entries):
    """Whether the sentence names the nearest miss, and by how much it misses."""
    if nearest is None:
        return "nearest" not in sentence
    found, = [one for one in entries if [one["impl"], one["threads"]] ==
              [nearest["impl"], nearest["threads"]]]
    factor = found["miss"]["factor"]
    digits = 0 if factor >= 100 else 1 if factor >= 10 else 2
    return (f"the nearest that was measured is {nearest['impl']}" in sentence and
            f" is {factor:.{digits}f} times the " in sentence.replace("takes", "is"))


def plain(text):
    """Without what the page and the command print differently: blanks and commas of numbers."""
    return text.replace("\u00a0", " ").replace(",", "")


def compare_choices(browser, attest, folder):
    """The page and `attest choose` answer 200 questions alike, in the same words."""
    page = os.path.join(folder, "choices.html")
    files = [os.path.join(folder, name + ".jsonl") for name in ("first", "second")]
    browser.get("file://" + os.path.abspath(page))
    values = [option.get_attribute("value") for option in
              Select(browser.find_element(By.ID, "decide-case")).options]
    states = {"✓ yes": "usable", "? cannot tell": "undecided", "✗ no": "rejected"}
    seen = set()
    for limits, cases in questions.questions(values):
        choices = questions.command_answers(attest, files, limits)
        shown = browser.execute_script(ASK, cases, {**limits, "period": ""})
        for case, page_answer in zip(cases, shown):
            answer = questions.answer_for(choices, json.loads(case))
            entries = answer["candidates"]
            best = entries[0]["impl"] if answer["answer"] == "use" else {
                "none": "None may be used", "inconclusive": "INCONCLUSIVE"}[answer["answer"]]
            rows = page_answer["rows"]
            about = (limits, case, page_answer, answer)
            assert page_answer["head"].split(", ")[0] == best, about
            assert is_near(page_answer["sentence"], answer["nearest_miss"], entries), about
            assert page_answer["others"] == [[one["impl"], one["command"]]
                                             for one in answer["not_measured"]], about
            assert len(rows) == len(entries), about
            for row, entry in zip(rows, entries):
                ours = [row["name"], row["threads"] or entry["threads"], states[row["state"]],
                        row["limit"], row["command"], row["ran"], plain(row["why"])]
                assert ours == [entry[key] for key in ("impl", "threads", "usable", "limit",
                                                       "command", "processor")] + [
                    plain(entry["why"])], (ours, entry, limits, case)
                assert f"/{entry['points'][0]['case']} " in row["record"], about
                judged = [point["judged"] for point in entry["points"]]
                in_part = entry["usable"] == "usable" and any(
                    not one["relations"] for one in judged)
                assert in_part == ("without relations" in row["part"]), about
                seen.add((entry["usable"], entry["limit"]))
            if case == cases[0]:
                assert answer == questions.answer_for(
                    questions.run(page_answer["command"], attest, folder), json.loads(case)), about
            seen.add((answer["answer"], "nearest" if answer["nearest_miss"] else "no miss"))
            seen.update([("others", "")] if answer["not_measured"] else [])
    missing = {("usable", ""), ("undecided", "between"), ("undecided", "range"),
               ("undecided", "alignment"),
               ("undecided", "deadline"), ("rejected", "deadline"), ("rejected", "memory"),
               ("undecided", "memory"), ("rejected", "accuracy"), ("undecided", "time"),
               ("rejected", "error"), ("undecided", "skipped"), ("rejected", "estimate"),
               ("rejected", "unsupported"), ("none", "nearest"), ("none", "no miss"),
               ("inconclusive", "nearest"), ("others", "")} - seen
    assert not missing, f"no question has the answer {missing}"


def refuse_limits(browser, page):
    """What the command refuses, the page refuses too, and it answers again once it is gone."""
    browser.get("file://" + page)
    answer = browser.find_element(By.ID, "answer")
    for field, word in (("deadline", "deadline"), ("memory", "memory"), ("tokens", "tokens")):
        typed = browser.find_element(By.ID, "decide-" + field)
        typed.send_keys("0")
        assert answer.text.startswith(f"This cannot be asked: the {word} must be"), answer.text
        typed.send_keys(Keys.BACKSPACE)
        assert "may be used" in answer.text, answer.text


def follow_link(browser, page):
    """A link to a question opens the page with it; a typed deadline replaces the rate."""
    by_id = lambda name: browser.find_element(By.ID, name)
    browser.get("file://" + page)
    assert Select(by_id("decide-period")).first_selected_option.text == "20 Hz"
    Select(by_id("decide-case")).select_by_visible_text("vit/vit_b_16_224/self f16")
    by_id("decide-deadline").send_keys("7")
    assert Select(by_id("decide-period")).first_selected_option.text == "any"
    by_id("decide-error").send_keys("0.5")
    answer, link = by_id("answer").text, by_id("decide-link").get_attribute("href")
    wait(browser).until(lambda _: browser.current_url == link)
    browser.get("about:blank")
    browser.get(link)
    assert by_id("answer").text == answer and "7.00 ms" in answer, by_id("answer").text
    assert "within 7.00 ms a largest error of 0.5 of its gate" in plain(answer), answer
    Select(by_id("decide-period")).select_by_visible_text("10 Hz")
    assert by_id("decide-deadline").get_attribute("value") == ""
    browser.get("about:blank")
    browser.get(link.replace("vit_b_16_224", "not_here"))
    assert "The link asks about vit/not_here/self f16 on" in by_id("decide-missing").text
    by_id("decide-error").send_keys("0.5")
    assert not browser.find_elements(By.ID, "decide-missing")
    for was, wrong, words in (
            ("period=", "period=25", "the link says period=25, which its field"),
            ("error=0.5", "error=half", "the link says error=half, which its field"),
            ("error=0.5", "error=-1", "the error must be a share from 0 to 1")):
        browser.get("about:blank")
        browser.get(link.replace(was, wrong))
        assert by_id("answer").text.startswith(f"This cannot be asked: {words}"), (
            wrong, by_id("answer").text)
    by_id("decide-error").clear()
    by_id("decide-error").send_keys("0.5")
    assert "may be used" in by_id("answer").text, by_id("answer").text
