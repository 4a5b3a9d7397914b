"""hrnn report: a page to look at, as a file or served while runs go on."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import rich.console
import rich.progress
import tyro

from hrnn.commands.options import parse
from hrnn.errors import DONE, UserError, require_extra
from hrnn.limits import at_least, option
from hrnn.report.page import PLOTLY, render
from hrnn.report.page_content import Content, gather
from hrnn.report.page_live import Server
from hrnn.report.page_runs import Reader
from hrnn.report.page_samples import samples_of
from hrnn.training.files import write_atomically

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
    content = gather(options.what, Reader(), tracked)
    if not content:
        raise nothing(content)
    samples = samples_of(content.runs, options.sample, content.problems) if options.sample else {}
    write_atomically(output, render(content, samples=samples).encode())
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
    if options.output is not None or options.sample:
        given = f"--output {options.output}" if options.output is not None else f"--sample {options.sample}"
        raise UserError(f"{given} is for a page in a file; drop it, or --live")
    if gone := [name for name in options.what if not gather([name], Reader()) and not Path(name).is_dir()]:
        raise UserError(f"there is no folder {gone[0]}, and no study of that name; give a folder that is there")
    reader = Reader()
    with Server(
        PORT if options.port is None else options.port,
        lambda: render(gather(options.what, reader), plotly=PLOTLY, live=True),
    ) as server:
        print(f"{server.address} shows {', '.join(options.what)}; Ctrl-C ends it", flush=True)
        server.serve_forever()
    return DONE


def tracked(folders: Sequence[Path]) -> Iterable[Path]:
    """How far reading has come, on a terminal, where there are many."""
    console = rich.console.Console(stderr=True)
    return rich.progress.track(folders, "reading", console=console, transient=True, disable=not console.is_terminal)
