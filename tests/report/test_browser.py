"""The page in a real browser, from a file as a reader would open it. Debian: apt-get install chromium chromium-driver."""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest

from hrnn.report.page import PLOTLY, render
from tests.report.browser import Browser
from tests.report.pages import content_of, records, write

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not Browser.there(), reason="no browser: install chromium and chromium-driver"),
    pytest.mark.skipif(importlib.util.find_spec("selenium") is None, reason="no selenium: pip install selenium"),
]

HOSTILE = "<img src=x onerror=document.title='bad'> & <b>bold<\u2215b> %{x} $x$"
LINES = "[...document.querySelectorAll('[data-curves=\"{}\"] .scatterlayer .trace')].length"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Two runs, one of a hostile name, a damaged one, and a study."""
    place = tmp_path_factory.mktemp("page")
    write(place / "runs" / "plain")
    hostile = write(place / "runs" / HOSTILE)
    (hostile / "result.json").write_text(json.dumps({"format": 5, "confusion": [[5, 1], [0, 6]], "classes": ["a", HOSTILE]}))
    write(place / "runs" / "damaged", [{"no": "kind"}])
    path = place / "report.html"
    path.write_text(render(content_of(place / "runs", "copy")), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def wide():
    with Browser(1400, 1000) as browser:
        yield browser


@pytest.fixture
def opened(wide, page):
    wide.console  # noqa: B018  what other tests left
    wide.open(page)
    wide.run("document.getElementById('curves').scrollIntoView()")
    wide.settled()
    return wide


def choose(browser, control, value):
    browser.run(f"const c = document.getElementById('{control}'); c.value = '{value}'; c.dispatchEvent(new Event('change'))")
    browser.settled()


def axis(browser, entry, panel="loss"):
    return browser.get(f"document.querySelector('[data-curves=\"{panel}\"]').layout.{entry}")


def test_it_loads_without_a_word_in_the_console_and_has_curves(opened):
    assert opened.get(LINES.format("loss")) == 4  # two runs, training and validation
    assert opened.get(LINES.format("accuracy")) == 4
    path = opened.get("document.querySelector('[data-curves=loss] .scatterlayer path.js-line').getAttribute('d')")
    assert path.count("L") + path.count("M") >= 5
    assert opened.console == []


def test_runs_are_switched_off_and_on(opened):
    opened.run("document.querySelector('#runs input').click()")
    opened.settled()
    assert opened.get(LINES.format("loss")) == 2
    assert opened.get("document.getElementById('count').textContent") == "(1 of 2 shown)"
    opened.run("document.getElementById('none').click()")
    opened.settled()
    assert opened.get(LINES.format("loss")) == 0
    opened.run("document.getElementById('all').click()")
    opened.settled()
    assert opened.get(LINES.format("loss")) == 4
    assert opened.console == []


def test_axes_are_switched(opened):
    assert axis(opened, "xaxis.title.text") == "updates"
    assert axis(opened, "yaxis.type") == "linear"
    assert axis(opened, "yaxis.type", "local_losses/0") == "log"
    choose(opened, "x", "sequences")
    assert axis(opened, "xaxis.title.text") == "sequences"
    assert opened.get("document.querySelector('[data-curves=loss]').data[0].x.at(-1)") == 200
    choose(opened, "x", "seconds")
    assert opened.get("document.querySelector('[data-curves=loss]').data[0].x.at(-1)") == 32
    choose(opened, "y", "log")
    assert axis(opened, "yaxis.type") == "log"
    choose(opened, "to", "10")
    assert opened.get("document.querySelector('[data-curves=loss]')._fullLayout.xaxis.range[1]") == 10
    assert opened.console == []


def test_hostile_names_are_texts(opened):
    assert "bad" not in opened.get("document.title")
    assert opened.get("document.querySelectorAll('img, main b').length") == 0
    assert HOSTILE in opened.get("[...document.querySelectorAll('#runs span')].map(one => one.textContent)")
    hover = "const d = document.querySelector('[data-curves=loss]'); Plotly.Fx.hover(d, [{curveNumber: %d, pointNumber: 3}])"
    shown = []
    for curve in (0, 2):
        opened.driver.execute_script(hover % curve)
        opened.settled()
        shown.append(opened.get("document.querySelector('[data-curves=loss] .hoverlayer').textContent"))
    assert any(HOSTILE in text for text in shown)
    assert opened.console == []


def test_nothing_on_it_sends_data_away(opened):
    titles = opened.get("[...document.querySelectorAll('.modebar-btn')].map(one => one.dataset.title)")
    assert titles
    assert not [title for title in titles if "hare" in title or "loud" in title]
    assert opened.get("performance.getEntriesByType('resource').length") == 0


def test_pictures_of_a_run(opened):
    opened.run("document.querySelectorAll('.run').forEach(one => { one.open = true })")
    opened.settled()
    opened.run("document.querySelector('[data-confusion]').scrollIntoView()")
    opened.settled()
    assert opened.get("document.querySelectorAll('[data-confusion] .heatmaplayer image').length") == 1
    label = "document.querySelectorAll('[data-confusion] .heatmaplayer text')"
    written = f"[...{label}].map(one => one.textContent)"
    assert sorted(opened.get(written)) == ["0", "1", "5", "6"]
    assert opened.get("document.querySelectorAll('[data-level]').length") == 2
    table = "[...document.querySelectorAll('.pictures figure:first-child tbody tr')].map(row => row.textContent)"
    assert opened.get(table)[:4] == ["10.1", "20.2", "30.3", "4"]
    assert opened.console == []


def test_it_can_be_used_with_the_keyboard(opened):
    from selenium.webdriver.common.keys import Keys

    box = opened.driver.find_element("css selector", "#runs input")
    box.send_keys(Keys.SPACE)
    opened.settled()
    assert opened.get(LINES.format("loss")) == 2
    box.send_keys(Keys.TAB)
    assert opened.get("document.activeElement.dataset.run") == "1"
    unnamed = "[...document.querySelectorAll('input, select')].filter(one => !one.labels.length).length"
    assert opened.get(unnamed) == 0


def test_dark(opened):
    back = "getComputedStyle(document.body).backgroundColor"
    light = opened.get(back)
    choose(opened, "theme", "dark")
    assert opened.get(back) != light
    assert opened.get("document.querySelector('[data-curves=loss]')._fullLayout.font.color") == "#e6e9ed"
    choose(opened, "theme", "")
    assert opened.get(back) == light


@pytest.mark.parametrize(("width", "columns"), [(360, 1), (800, 1), (1400, 2), (2400, 3)])
def test_narrow_and_wide(page, width, columns):
    with Browser(width, 900, dark=width == 800) as browser:
        browser.open(page)
        assert browser.get("document.documentElement.scrollWidth") <= width
        tops = browser.get("[...document.querySelectorAll('#curves ~ .grid figure')].map(one => one.offsetTop)")
        assert tops.count(tops[0]) == columns
        assert browser.get("document.querySelector('details.controls').open") == (width > 960)
        assert browser.console == []


def test_it_prints(opened):
    """Everything is in the print, and the page is as it was afterwards."""
    before = opened.get("document.querySelectorAll('details[open]').length")
    pdf = opened.driver.execute_cdp_cmd("Page.printToPDF", {})["data"]
    opened.settled()
    assert len(pdf) > 20_000
    assert opened.get("document.querySelectorAll('details[open]').length") == before
    assert opened.get("document.querySelectorAll('.plot.js-plotly-plot').length") >= 6
    assert opened.console == []


def test_a_page_that_shares_its_script(wide, tmp_path):
    spec = importlib.util.find_spec("plotly")
    shutil.copy(Path(spec.origin).parent / "package_data" / PLOTLY, tmp_path / PLOTLY)
    (tmp_path / "page.html").write_text(render(content_of("copy"), plotly=PLOTLY))
    wide.open(tmp_path / "page.html")
    wide.run("document.querySelector('[data-study]').scrollIntoView()")
    wide.settled()
    assert wide.get("document.querySelectorAll('[data-study] .scatterlayer .trace').length") > 6
    assert wide.console == []


def test_live(wide, tmp_path):
    """The page follows a run that goes on, and keeps what the reader has chosen."""
    import threading

    from hrnn.report.page_content import gather
    from hrnn.report.page_live import Server
    from hrnn.report.page_runs import Reader

    write(tmp_path / "runs" / "one")
    write(tmp_path / "runs" / "two", seed=1)
    reader = Reader()
    server = Server(0, lambda: render(gather([str(tmp_path / "runs")], reader), plotly=PLOTLY, live=True))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        wide.open(server.address)
        wide.run("document.querySelector('#runs input').click()")
        choose(wide, "x", "sequences")
        with open(tmp_path / "runs" / "two" / "journal.jsonl", "a") as file:
            file.writelines(json.dumps(record) + "\n" for record in records(30)[-6:])
        write(tmp_path / "runs" / "three", seed=2)
        waited = "return new Promise(done => { const look = () => document.querySelectorAll('#runs li').length === 3"
        wide.driver.execute_script(f"{waited} ? done(true) : setTimeout(look, 50); look() }})")
        wide.settled()
        assert "3 runs on pixels" in wide.get("document.querySelector('h1').textContent")
        assert wide.get("[...document.querySelectorAll('#runs input')].map(one => one.checked)") == [False, True, True]
        assert wide.get("document.getElementById('x').value") == "sequences"
        assert axis(wide, "xaxis.title.text") == "sequences"
        assert wide.get("Math.max(...document.querySelector('[data-curves=loss]').data.flatMap(one => one.x))") == 300
        assert wide.console == []
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
