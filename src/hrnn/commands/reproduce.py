"""hrnn reproduce: the paper's tables and figures, beside its own numbers; and our own studies beyond it.

What comes with the package is shown from two small files, without torch; all else is in reproduce_runs.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hrnn.commands.options import console, parse
from hrnn.commands.reproduce_options import Reproduce, check
from hrnn.errors import DONE
from hrnn.report.committed import committed, others
from hrnn.report.shown import command_of, tables_of, trained


def main(arguments: Sequence[str]) -> int:
    options = parse(Reproduce, "reproduce", arguments)
    check(options)
    listed = options.list or (options.name is None and options == Reproduce(profile=options.profile))
    shown = not listed and not options.run
    if shown and (found := committed(options.name or "", options.profile, options.search)) is not None:
        return show(found, options)
    import hrnn.commands.reproduce_runs as runs  # it takes torch

    if listed:
        return runs.list_costs(options) if options.measure else runs.list_experiments(options)
    if shown:
        raise runs.without_results(options)
    return runs.train(options)


def show(found: dict[str, Any], options: Reproduce) -> int:
    """Tables, verdicts and where they come from; or the curves, drawn."""
    entries, called = found["table"], f"hrnn reproduce {found['table']['called']}"
    if options.output is not None:
        from hrnn.report.figure import save  # it takes matplotlib
        from hrnn.report.picture import draw, from_json

        save(draw(from_json(found["curves"])), [options.output])
        print(options.output)
        return DONE
    for table in tables_of(entries):
        console().print(table.terminal())
        print()
    for words in trained(entries):
        console().print(f"Trained {words}.", markup=False, highlight=False)
    data = " --data DATA" if entries["data"] else ""
    runs = "the run that is here" if entries["runs"] == 1 else f"the {entries['runs']} runs that are here"
    if stopped := sum(len(row.get("unfinished", ())) for row in entries["rows"]):
        runs += f", {stopped} of them not to the end,"
    took = f"{runs} took {entries['minutes']:,.0f} minutes of one core; {called} --list --measure{data} measures that"
    print(f"Its curves: {called} --output curves.png (or .svg, .pdf)")
    print(f"To train it yourself: {command_of(entries)}")  # the terminal breaks it: a command is to be copied
    console().print(f"({took})", markup=False, highlight=False)
    if also := others(entries):
        print("\n".join(["More results:", *(f"  {one}" for one in also)]))
    return DONE
