"""A page to look at: runs, sweeps and studies in one HTML file that needs nothing else, neither a network nor a server.

Whatever comes from a file reaches the page as text: through jinja2, which escapes it, or as JSON that cannot end its script.
The page's own policy lets no script run but the two that are written here.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hrnn
from hrnn.errors import require_extra
from hrnn.report.figure import COLOURS, style_of
from hrnn.report.page_content import Content
from hrnn.report.page_facts import differing
from hrnn.report.page_numbers import columns_of, panels_of
from hrnn.report.page_run import script_entries, template_entries
from hrnn.report.page_runs import labels_of
from hrnn.report.series import points_of

if TYPE_CHECKING:  # of the extra
    import jinja2

CELLS = 300_000  # of all pictures of what decoders recover, at most
DASHED = len(COLOURS) ** 2  # with more runs, dashes tell no two apart, and only slow the page down
PLOTLY = "plotly.min.js"
OPEN = 3  # so many runs are shown with all that is known of them; of more, on demand
TEMPLATES = Path(__file__).parent / "templates"


def plotly_script() -> str:
    """Plotly's own script, from its package, which is not imported for it."""
    spec = find_spec("plotly")
    assert spec is not None
    assert spec.origin is not None
    return (Path(spec.origin).parent / "package_data" / PLOTLY).read_text(encoding="utf-8")


def render(
    content: Content,
    *,
    plotly: str | None = None,
    live: bool = False,
    samples: Mapping[Path, str] | None = None,
    measured: Mapping[Path, int] | None = None,
) -> str:
    """The whole page.

    plotly:  the address of Plotly's script; None: it stands in the page
    live:    the page asks its server for a newer one, again and again
    samples: text by the run that wrote it; measured: bytes of an update, by run
    """
    require_extra("report", "hrnn report")
    samples, measured = samples or {}, measured or {}
    labels = labels_of(content.runs)
    options = differing([run.entries for run in content.runs]) if len(content.runs) > 1 else []
    few, points, cells = len(content.runs) <= DASHED, points_of(len(content.runs)), CELLS // max(1, len(content.runs))
    all_columns = [columns_of(run.loaded, 2 * points if few else points) for run in content.runs]
    rows, drawn = [], []
    for run, label, columns in zip(content.runs, labels, all_columns, strict=True):
        rows.append(template_entries(run, label, options, columns, samples.get(run.folder, ""), measured.get(run.folder)))
        drawn.append(script_entries(run, label, columns, cells))
    panels = panels_of([(run.loaded, columns) for run, columns in zip(content.runs, all_columns, strict=True)])
    data = {
        "runs": drawn,
        "panels": panels,
        "studies": [study.panels for study in content.studies],
        "styles": [_style(place, few) for place in range(max(len(drawn), DASHED))],
    }
    script = _script()
    inlined = plotly_script() if plotly is None else ""
    return _template().render(
        content=content,
        title=_title(content),
        runs=rows,
        options=[name.partition(".")[2].replace("_", " ") for name in options],
        panels=panels,
        styles=data["styles"],
        thinned=[label for run, label in zip(content.runs, labels, strict=True) if not run.whole],
        open=len(rows) <= OPEN,
        live=live,
        policy=_policy(inlined, script, live),
        css=(TEMPLATES / "page.css").read_text(encoding="utf-8"),
        data=safe_json(data),
        plotly=plotly,
        inlined=inlined,
        script=script,
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        versions={"hrnn": hrnn.__version__, "plotly": version("plotly")},
    )


@cache
def _template() -> jinja2.Template:
    """It escapes whatever it is given, unless it says otherwise: for our own scripts and styles, and the JSON."""
    import jinja2

    loader = jinja2.FileSystemLoader(TEMPLATES)
    options: dict[str, Any] = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True}
    return jinja2.Environment(loader=loader, undefined=jinja2.StrictUndefined, **options).get_template("page.html")


def _script() -> str:
    """The page's own, in one scope that no other script sees."""
    parts = [(TEMPLATES / name).read_text(encoding="utf-8") for name in ("figures.js", "page.js")]
    return "\n".join(['"use strict";', "(() => {", *parts, "})();"])


def as_bytes(page: str) -> bytes:
    """A name of a file may hold what is no character; it is shown as a number."""
    return page.encode(errors="backslashreplace")


def safe_json(data: Any) -> str:
    """JSON that can stand in a script element, whatever its texts: neither the element nor a line of it ends there."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _policy(inlined: str, script: str, live: bool) -> str:
    """What the page may do: run these scripts and no other, and ask nobody, or when live its own server."""
    sources = [f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in (inlined, script)]
    own = "'self'" if not inlined else ""
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {' '.join(sources)} {own}".strip(),
            "style-src 'unsafe-inline'",
            "img-src data: blob:",
            f"connect-src {own if live else chr(39) + 'none' + chr(39)}",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def _style(place: int, dashed: bool) -> dict[str, Any]:
    """Colour and dashes of the line of a run, as in the pictures that hrnn plot draws."""
    style = style_of(place)
    dashes = ",".join(f"{1.6 * length:g}px" for length in style["dashes"]) if dashed else ""
    return {"colour": style["color"], "dash": dashes or "solid"}


def _title(content: Content) -> str:
    names = [study.title for study in content.studies]
    if content.runs:
        tasks = ", ".join(dict.fromkeys(run.summary.task for run in content.runs))
        names.append(f"{len(content.runs)} runs on {tasks}" if len(content.runs) > 1 else f"A run on {tasks}")
    return "; ".join(names) or "No runs yet"
