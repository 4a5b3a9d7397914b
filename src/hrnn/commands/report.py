"""hrnn report: a page to look at, as a file or served while runs go on."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hrnn.commands.options import parse, require_folder
from hrnn.errors import DONE, UserError, require_extra
from hrnn.files import make_folder, write_atomically
from hrnn.limits import at_least, option
from hrnn.report.page import PLOTLY, as_bytes, render
from hrnn.report.page_content import Content, gather
from hrnn.report.page_live import Server
from hrnn.report.page_runs import Reader
from hrnn.report.page_samples import bytes_of_updates, samples_of
from hrnn.telling import working

FILE, PORT = Path("report.html"), 8321


@dataclass(frozen=True)
class Report:
    """Write runs, sweeps and studies into one HTML file that any browser opens, without a network.

    It says what was trained and how, and shows curves of every metric, local losses, what decoders recover, memory and time;
    of studies the tables with the paper's figures and the verdicts. Runs that cannot be read are named on the page.

    Examples:
        hrnn report runs/copy-ours-0 runs/copy-hrnn-0 -o copy.html
        hrnn report sweeps/rates --output rates.html
        hrnn report copy mnist -o results.html
        hrnn report runs --live
    """

    what: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Folders of runs, of sweeps, of studies, or with runs below them; or studies that come with hrnn, such as copy."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """Where the page goes; report.html by default."""
    sample: int = option(0, at_least(0, 100_000))
    """So many characters that each run on text writes, from its best checkpoint."""
    measure: bool = False
    """Measure the memory of an update of each run, beside what is predicted: in child processes, with the run's data; it takes
    the memory that it measures, and some seconds for each run."""
    live: bool = False
    """Serve the page to this machine instead, and keep it up to date while the runs go on; Ctrl-C ends it."""
    port: int | None = option(None, at_least(0, 65535))
    """With --live: where; 0 is any that is free. 8321 by default."""


def main(arguments: Sequence[str]) -> int:
    options = parse(Report, "report", arguments)
    require_extra("report", "hrnn report")
    if not options.what:
        raise UserError("a report of what? Name folders of runs, sweeps or studies: hrnn report runs/copy-ours-0")
    if options.live:
        return serve(options)
    if options.port is not None:
        raise UserError(f"--port {options.port} is for --live; give that, or drop it")
    output = options.output or FILE
    if output.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"--output is {output}; give a name that ends with .html")
    require_folder(output.parent, "--output")
    content = gather(options.what, Reader())
    if not content:
        raise nothing(content)
    samples = samples_of(content.runs, options.sample, content.problems) if options.sample else {}
    measured = bytes_of_updates(content.runs, content.problems) if options.measure else {}
    with working("writing the page"):
        make_folder(output.parent)
        write_atomically(output, as_bytes(render(content, samples=samples, measured=measured)))
    for where, why in content.problems.items():
        print(f"skipped {where}: {why}", file=sys.stderr)
    print(output)
    return DONE


def nothing(content: Content) -> UserError:
    if len(content.problems) == 1:
        where, why = next(iter(content.problems.items()))
        return UserError(why if where in why else f"{where}: {why}")
    for where, why in content.problems.items():
        print(f"skipped {where}: {why}", file=sys.stderr)
    return UserError("none of these can be shown")


def serve(options: Report) -> int:
    """Until Ctrl-C, which ends it as it ends any command."""
    given = f"--output {options.output}" if options.output is not None else "--measure" if options.measure else ""
    if given := given or (f"--sample {options.sample}" if options.sample else ""):
        raise UserError(f"{given} is for a page in a file; drop it, or --live")
    if gone := [name for name in options.what if not Path(name).is_dir() and not gather([name], Reader())]:
        raise UserError(f"there is no folder {gone[0]}, and no study of that name; give a folder that is there")
    reader = Reader()
    with Server(
        PORT if options.port is None else options.port,
        lambda: render(gather(options.what, reader), plotly=PLOTLY, live=True),
    ) as server:
        print(f"{server.address} shows {', '.join(options.what)}; Ctrl-C ends it", flush=True)
        server.serve_forever()
    return DONE
