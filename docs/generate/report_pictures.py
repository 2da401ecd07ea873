"""Pictures of reports in Chromium, at the sizes of a phone, a laptop and a sheet of A4.

`python -m docs.generate.report_pictures` makes the tables of docs/cli.md, their reports, and the
pictures of docs/img that show them.
"""

import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib
from PIL import Image

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))  # where the browser and the commands are driven from

from browser import CHROMIUM, Browser  # noqa: E402
from console import command  # noqa: E402

PAGE = ROOT / "docs" / "cli.md"
WINDOWS = {
    "phone": (390, "light", "screen"),
    "laptop": (900, "light", "screen"),
    "dark": (900, "dark", "screen"),
    "print (A4)": (794, "light", "print"),
}
HEIGHT = 1250  # pixels of each picture
COLORS = 48  # of a picture
SCALE = 125  # pixels of a page in an inch of the picture
RESULT = "document.querySelector('.looked-up, figure').closest('section')"
NARROW = "[...document.querySelectorAll('.looked-up .filled')].find(c => c.cellIndex === 2)"


def tables(folder: Path) -> None:
    """Write the tables that the page makes by Python, in a folder."""
    names: dict = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        if "to_csv" in code:
            code = code.replace('to_csv("', f'to_csv("{folder.as_posix()}/')
            exec(compile(code, str(PAGE), "exec"), names)


def pictures(browser: Browser, report: Path, folder: Path, start: str) -> list[Path]:
    """Return a picture of a report in each window, from a place of the page on."""
    found = []
    for name, (width, scheme, media) in WINDOWS.items():
        browser.open(report, width, scheme, media)
        if media == "screen":  # limits of a cell, as a reader sees them
            browser.value(f"({NARROW})?.focus({{preventScroll: true}})")
        top = browser.value(f"{start}.getBoundingClientRect().top + scrollY")
        height = browser.value("document.documentElement.scrollHeight")
        clip = {
            "x": 0,
            "y": max(0, top),
            "width": width,
            "height": min(HEIGHT, height - top),
            "scale": 1,
        }
        path = folder / f"{report.stem}.{len(found)}.png"
        browser.shoot(path, clip)
        found.append(path)
        print(report.name, name, flush=True)
    return found


def compose(paths: list[Path], out: Path) -> None:
    """Draw pictures next to each other under the names of their windows."""
    images = [plt.imread(path) for path in paths]
    widths = [image.shape[1] for image in images]
    figure, axes = plt.subplots(
        1,
        len(images),
        figsize=(sum(widths) / SCALE, HEIGHT / SCALE),
        width_ratios=widths,
        layout="constrained",
    )
    for axis, image, name in zip(axes, images, WINDOWS, strict=True):
        axis.imshow(image)
        axis.set_title(name)
        axis.set_xticks([])
        axis.set_yticks([])
        axis.set_anchor("N")
    figure.savefig(out, dpi=75)
    plt.close(figure)
    Image.open(out).convert("RGB").quantize(COLORS).save(out, optimize=True)


def main() -> None:
    """Make all pictures."""
    if CHROMIUM is None:
        raise SystemExit("no chromium was found: apt-get install chromium")
    with TemporaryDirectory() as name, Browser(Path(name) / "profile") as browser:
        folder = Path(name)
        tables(folder)
        done = command("complete", "people.csv", "--ignore", "risk", cwd=folder)
        assert done.code == 0, done
        done = command("forecast", "sales.csv", "--horizon", "12", cwd=folder)
        assert done.code == 0, done
        forecast = folder / "sales.forecast.html"
        complete = folder / "people.complete.html"
        header = "document.querySelector('h1')"
        images = ROOT / "docs" / "img"
        compose(pictures(browser, forecast, folder, header), images / "report.png")
        compose(pictures(browser, complete, folder, RESULT), images / "report_rows.png")


if __name__ == "__main__":
    main()
