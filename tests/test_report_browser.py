"""Reports in a real browser, opened from disk: no word on the console, no request, no line too wide for a phone."""

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
