"""Reports in a real browser, opened from disk: no word on the console, no request, no line too wide for a phone."""

import json

import numpy as np
import pandas as pd
import pytest
from browser import CHROMIUM, Browser
from console import command, people

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium was found: apt-get install chromium"),
]
WINDOWS = {
    "desktop": (1000, "light", "screen"),
    "phone": (390, "light", "screen"),
    "dark phone": (390, "dark", "screen"),
    "dark": (1000, "dark", "screen"),
    "A4": (794, "light", "print"),
}
# right ends of the captions of tables, which must not scroll away with wide ones
CAPTIONS = "Math.max(0, ...[...document.querySelectorAll('caption span')].map(e => e.getBoundingClientRect().right))"
COMMANDS = {
    "classes": ["label", "people.csv", "--target", "risk", "--ignore", "cost"],
    "numbers": ["label", "people.csv", "--target", "cost", "--ignore", "risk"],
    "complete": ["complete", "people.csv"],
    "cluster": ["cluster", "people.csv"],
    "embed": ["embed", "people.csv"],
    "denoise": ["denoise", "views.csv", "--views", "0:5,5:8"],
    "forecast": ["forecast", "shop.csv", "--horizon", "6"],
    "score": ["score", "model.skops", "people.csv"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables with names and cells that are hard on a narrow page, and a saved model."""
    folder, rng = tmp_path_factory.mktemp("reports"), np.random.default_rng(0)
    frame, Z = people(80)
    known = rng.random(80) < 0.4
    frame["risk"] = np.where(known, np.where(Z[:, 1] > 0, "high", "low"), "")
    frame["cost"] = np.where(known, (1e5 + 2e4 * Z[:, 1]).round(2).astype(object), "")
    frame["a_name_without_any_place_to_break_it_that_goes_on_and_on"] = Z[:, 0].round(3)
    frame["<b>markup & more</b>"] = Z[:, 1].round(3)
    frame.to_csv(folder / "people.csv", index=False)
    views = rng.normal(size=(60, 1)) @ rng.normal(size=(1, 8)) + 0.5 * rng.normal(size=(60, 8))
    pd.DataFrame(views, columns=[f"v{j}" for j in range(8)]).to_csv(
        folder / "views.csv", index=False
    )
    days = pd.date_range("2024-01-01", periods=90).strftime("%d.%m.%Y")
    shop = pd.DataFrame(
        {"day": days, "sales": 1e6 + 1e5 * np.sin(np.arange(90) / 4) + 1e4 * rng.normal(size=90)}
    )
    shop.to_csv(folder / "shop.csv", index=False)
    assert command("embed", "people.csv", "--save", "model.skops", cwd=folder).code == 0
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.mark.parametrize("name", COMMANDS)
def test_a_report_opens_without_a_word_a_request_or_an_overflow(folder, browser, name):
    words = COMMANDS[name]
    done = command(*words, "--force", cwd=folder)
    assert done.code == 0, done
    table = next(w for w in words if w.endswith(".csv"))
    report = folder / f"{table.removesuffix('.csv')}.{words[0]}.html"
    for window, (width, scheme, media) in WINDOWS.items():
        seen = browser.open(report, width, scheme, media)
        assert browser.value(CAPTIONS) <= width, window
        assert seen.console == [] and seen.outside == [], (window, seen)
        assert seen.width <= seen.room == width, (window, seen)
    assert browser.value("document.querySelector('h1').textContent").startswith(table)


def test_dark_pages_have_light_ink_in_figures_too(folder, browser):
    assert command("cluster", "people.csv", "--force", cwd=folder).code == 0
    light = "[...document.querySelectorAll('p, td, figure svg text')].map(e => getComputedStyle(e)).map(s => "
    for scheme, expected in (("light", False), ("dark", True)):
        browser.open(folder / "people.cluster.html", scheme=scheme)
        texts = browser.value(light + "[s.color, s.fill]).flat().join(';')")
        page = browser.value("getComputedStyle(document.body).backgroundColor")
        assert (brightness(page) < 60) is expected
        inks = {
            brightness(c) for c in texts.split(";") if c.startswith("rgb(") and c != "rgb(0, 0, 0)"
        }
        assert inks and all((ink > 130) is expected for ink in inks), inks


@pytest.fixture
def completed(folder, browser):
    """The report of a completed table on a wide window."""
    assert command("complete", "people.csv", "--force", cwd=folder).code == 0
    browser.open(folder / "people.complete.html")
    return browser


DETAIL = "getComputedStyle(document.querySelector('.looked-up .filled .detail')).clipPath"
FIRST = "document.querySelector('.looked-up')"


def test_limits_are_shown_under_a_pointer_by_keyboard_and_on_paper(completed, folder):
    assert completed.value(DETAIL) != "none"  # out of sight
    place = "document.querySelector('.looked-up .filled')"
    completed.value(f"{place}.scrollIntoView({{block: 'center', inline: 'center'}})")
    box = json.loads(completed.value(f"JSON.stringify({place}.getBoundingClientRect())"))
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    completed.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    assert completed.value(DETAIL) == "none"
    shown = "document.querySelector('.looked-up .filled .detail').getBoundingClientRect()"
    seen = json.loads(completed.value(f"JSON.stringify({shown})"))
    frame = json.loads(
        completed.value(f"JSON.stringify({FIRST}.parentElement.getBoundingClientRect())")
    )
    assert frame["left"] <= seen["left"] and seen["right"] <= frame["right"]
    assert frame["top"] <= seen["top"] and seen["bottom"] <= frame["bottom"]
    completed.ask("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
    assert completed.value(DETAIL) != "none"
    # one stop of the tabulator, from which arrow keys lead to the others
    assert completed.value("document.querySelectorAll('.looked-up td[tabindex=\"0\"]').length") == 1
    completed.value("document.querySelector('.looked-up td[tabindex=\"0\"]').focus()")
    before = completed.value("document.activeElement.textContent")
    press(completed, "ArrowDown")
    after = completed.value("document.activeElement.textContent")
    focused = "document.activeElement.querySelector('.detail')"
    assert after != before and completed.value(f"getComputedStyle({focused}).clipPath") == "none"
    press(completed, "Escape")
    assert completed.value("document.activeElement.tagName") == "BODY"
    completed.value("document.querySelector('.tools input[type=checkbox]').click()")
    assert completed.value(DETAIL) == "none"
    completed.open(folder / "people.complete.html", 794, media="print")
    assert completed.value(DETAIL) == "none"


def press(browser, key):
    for kind in ("keyDown", "keyUp"):
        browser.ask("Input.dispatchKeyEvent", type=kind, key=key)


def test_rows_are_sorted_and_searched(completed):
    rows = f"[...{FIRST}.tBodies[0].rows]"
    heads = completed.value(f"[...{FIRST}.tHead.rows[0].cells].map(h => h.textContent).join('|')")
    assert heads.split("|")[:2] == ["row", "doubt"]
    numbers = f"{rows}.filter(r => !r.hidden).map(r => r.cells[0].textContent).join()"
    first = completed.value(numbers)
    button = f"{FIRST}.tHead.rows[0].cells[0].querySelector('button')"
    for way in ("ascending", "descending"):
        completed.value(f"{button}.click()")
        assert completed.value(f"{FIRST}.tHead.rows[0].cells[0].ariaSort") == way
        found = [int(n) for n in completed.value(numbers).split(",")]
        assert found == sorted(found, reverse=way == "descending")
    assert sorted(map(int, first.split(","))) == sorted(found) and len(found) > 10
    doubts = f"{rows}.map(r => Number(r.cells[1].dataset.key)).join()"
    completed.value(f"{FIRST}.tHead.rows[0].cells[1].querySelector('button').click()")
    by_doubt = [float(n) for n in completed.value(doubts).split(",")]
    assert by_doubt == sorted(by_doubt)
    search = "document.querySelector('.looked-up').parentElement.previousElementSibling"
    completed.value(
        f"(i => {{ i.value = '840.0'; i.dispatchEvent(new Event('input')); }})"
        f"({search}.querySelector('input[type=search]'))"
    )
    assert completed.value(numbers) == "8"
    assert completed.value(f"{search}.querySelector('output').textContent") == (
        f"1 of {len(found)} rows"
    )


def test_a_script_in_a_cell_would_not_run(folder, browser):
    page = (folder / "people.complete.html").read_text(encoding="utf-8")
    assert "</main>" in page
    bad = folder / "bad.html"
    bad.write_text(page.replace("</main>", "<script>document.title = 'run'</script></main>"))
    seen = browser.open(bad)
    assert browser.value("document.title") != "run"
    assert any("Content Security Policy" in line for line in seen.console)


def brightness(color):
    """The mean of red, green and blue in what a browser calls rgb(1, 2, 3)."""
    return float(
        np.mean([float(part) for part in color.partition("(")[2].rstrip(")").split(",")[:3]])
    )


def test_the_browser_would_have_told(tmp_path, browser):
    bad = tmp_path / "bad.html"
    bad.write_text(
        '<meta name="viewport" content="width=device-width"><script>console.error("trouble"); nothing.at.all'
        '</script><img src="http://127.0.0.1:9/picture.png"><div style="width: 999px">.</div>'
    )
    seen = browser.open(bad, 390)
    assert any("trouble" in line for line in seen.console) and any(
        "nothing" in line for line in seen.console
    )
    assert seen.outside == ["http://127.0.0.1:9/picture.png"] and seen.width > 390
