"""Writes the pages of the gallery, docs/reports/*.html, from the results that come with the package; `make docs` does it, too.

They are what `hrnn report NAME` writes, but for Plotly's script, which they share.
"""

from __future__ import annotations

from pathlib import Path

from hrnn.report.committed import FOLDER
from hrnn.report.page import PLOTLY, plotly_script, render
from hrnn.report.page_content import gather
from hrnn.report.page_runs import Reader

PLACE = Path(__file__).resolve().parent / "reports"


def main(place: Path = PLACE) -> list[Path]:
    place.mkdir(exist_ok=True)
    (place / PLOTLY).write_text(plotly_script(), encoding="utf-8")
    pages = []
    for path in sorted(FOLDER.glob("*.json")):
        page = place / f"{path.stem}.html"
        page.write_text(render(gather([path.stem], Reader()), plotly=PLOTLY), encoding="utf-8")
        pages.append(page)
    return pages


if __name__ == "__main__":
    main()
