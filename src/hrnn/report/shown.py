"""The tables of a study as they are shown, from what table.json holds and nothing else: neither runs nor torch are needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hrnn.report.table import Table, mean_and_spread, number
from hrnn.studies import SEEDS
from hrnn.studies.rules import RUNS

Entries = dict[str, Any]
AGAIN = "† missed the first length of the curriculum and was run again from 1 by 1, at the same budget; its first attempt: none"
MEMORY = "Vectors: by the paper's count, per batch row. MB: measured peak of one update. "
MINUTES = "Minutes: of one core, per run"
AT_LEAST = "≥ the budget, or the last length asked for, ended the run, not a length that it failed at"
FRONTIER_NOTES = (
    "Mean ± population standard deviation over the seeds. ≥: the budget ended the run, not a length that it failed at; 0: not "
    "even the first length, 5, was solved in 50,000 sequences.",
    "Knob: steps of truncated, period of restricted, probability of replay, megabytes of checkpointed.",
    "MB: measured peak of one update. Minutes: of one core, a run. Setting: the best of four trials at the middle knob.",
    "* Not trained: its gradients, so its score, are those of full (checkpointed) or restricted (checkpointed top) gradients; "
    "bytes and the seconds of an update are measured, and minutes are theirs times the ratio of these.",
)
TOO_FEW = f"Fewer than {RUNS} finished runs of a row leave undecided what is expected of it."
RULE = "rule, written down before the runs"


def tables_of(entries: Entries) -> list[Table]:
    """All that a study has to show: one table and its verdicts, or a table per task where times to a target were taken or bytes
    and minutes of every method."""
    if "quantities" in entries:
        search = [search_of(entries["search"])] if entries["search"] else []
        return [table_of(entries), *search, *([verdicts_of(entries)] if entries["expectations"] else [])]
    tasks = dict.fromkeys(row["task"] for row in entries["rows"])
    if "frontier" in entries:
        return [frontier_of(task, entries) for task in tasks]
    return [times_of([row for row in entries["rows"] if row["task"] == task]) for task in tasks]


def command_of(entries: Entries) -> str:
    """What trains the rows that a table has, with its seeds."""
    models = f" --models {' '.join(row['name'] for row in entries['rows'])}" if entries.get("missing") else ""
    seeds = sorted({seed for row in entries["rows"] for seed in row.get("seeds", SEEDS)})
    others = f" --seeds {' '.join(map(str, seeds))}" if tuple(seeds) != SEEDS else ""
    data = " --data DATA" if entries["data"] else ""
    scale = f" --scale {entries['scale']:g}" if entries["scale"] != 1 else ""
    return f"hrnn reproduce {entries['called']} --run{models}{others}{data}{scale}"


def trained(entries: Entries) -> list[str]:
    """When, with what and on what the runs were made, each once."""
    found = set()
    for one in entries["environments"]:
        python = f"Python {one['python']}, " if "python" in one else ""
        system = f", {one['system']}" if "system" in one else ""
        processor = one.get("processor") or one["cpu"]
        commit = f"commit {one['commit']}, " if one.get("commit") else ""
        torch = f"torch {one['torch']}, {python}"
        found.add(f"{one['date']}, hrnn {one['hrnn']}, {commit}{torch}{processor}, {one['cores']} cores{system}")
    return sorted(found)


def published_text(cell: Entries | None) -> str:
    """The paper's own digits."""
    if cell is None:
        return ""
    return str(cell["words"]) if cell["mean"] is None else f"{cell['mean']} ± {cell['spread']}"


def run_text(run: Entries, digits: int) -> str:
    if "failure" in run:
        return "unfinished" if run.get("unfinished") else "failed"
    if run["value"] is None:
        return "-"
    whole = float(run["value"]).is_integer() and digits <= 1
    return ("≥" if run["at_least"] else "") + number(run["value"], 0 if whole else digits) + ("†" if run["again"] else "")


def mean_text(cell: Entries, digits: int) -> str:
    if cell["mean"] is not None:
        return mean_and_spread(cell["mean"], cell["spread"], digits)
    return "-" if any(run.get("unfinished") for run in cell["runs"]) else "none"


def table_of(entries: Entries) -> Table:
    """The table as text; the paper's figures where it has some."""
    rows = entries["rows"]
    compared = {one["name"] for one in entries["quantities"] if any(row["cells"][one["name"]]["published"] for row in rows)}
    counted, measured = any(row["published_memory"] for row in rows), with_memory(entries)
    words = ["model", "gradients", "local loss", *(["beta", "rate"] if entries["search"] else [])]
    heads = list(words)
    for quantity in entries["quantities"]:
        heads += [quantity["title"], "every run", *(["published"] if quantity["name"] in compared else [])]
    heads += ["vectors", *(["published"] if counted else []), "MB"] if measured else []
    heads.append("minutes")
    lines = []
    for row in rows:
        line = [row["title"], row["gradients"], "yes" if row["local_loss"] else "no"]
        if entries["search"]:
            betas = row["config"]["model"]["betas"] if row["local_loss"] else []
            line += [", ".join(f"{beta:g}" for beta in betas), f"{row['config']['learning']['learning_rate']:g}"]
        for quantity in entries["quantities"]:
            cell, digits = row["cells"][quantity["name"]], quantity["digits"]
            line += [mean_text(cell, digits), ", ".join(run_text(run, digits) for run in cell["runs"])]
            line += [published_text(cell["published"])] if quantity["name"] in compared else []
        if measured:
            memory = row["memory"]
            line.append(f"{count:,}" if (count := memory.get("paper_count")) is not None else "")
            line += [str(row["published_memory"] or "")] if counted else []
            line.append(f"{memory['measured_bytes'] / 1e6:.1f}" if memory else "")
        lines.append([*line, f"{row['minutes']:.1f}"])
    scaled = f" (scaled: {entries['scale']:g} of the budget, a trial)" if entries["scale"] != 1 else ""
    searched = ", settings searched for each row" if entries["search"] else ""
    title = f"{entries['title']}, profile {entries['profile']}{searched}{scaled}"
    return Table(heads, lines, words, title, notes(entries))


def with_memory(entries: Entries) -> bool:
    """Was the memory of its rows measured?"""
    return any(row["memory"] for row in entries["rows"])


def notes(entries: Entries) -> list[str]:
    """What the signs in the table mean, which seeds were run, what failed, and what was not run."""
    seeds = {tuple(row["seeds"]) for row in entries["rows"]}
    by_row = "; ".join(f"{row['title']}: {' '.join(map(str, row['seeds']))}" for row in entries["rows"])
    shared = f"every run in the order of its seed ({' '.join(map(str, min(seeds)))})"
    which = shared if len(seeds) == 1 else f"seeds of every run: {by_row}"
    lines = [f"Mean ± population standard deviation over the runs; {which}."]
    lines.append(f"{MEMORY if with_memory(entries) else ''}{MINUTES}.")
    runs = [run for row in entries["rows"] for cell in row["cells"].values() for run in cell["runs"]]
    lines += [f"{AT_LEAST}."] if any(run["at_least"] for run in runs) else []
    lines += [f"{AGAIN}."] if any(run["again"] for run in runs) else []
    for row in entries["rows"]:
        lines += [f"{row['title']}, seed {seed}, failed: {why}." for seed, why in row["failures"].items()]
        lines += [f"{row['title']}, seed {seed}, {how_far}." for seed, how_far in row.get("unfinished", {}).items()]
    lines += [f"Not run: {'; '.join(entries['missing'])}."] if entries.get("missing") else []
    return lines


def page(entries: Entries) -> str:
    """The table as a page."""
    table = table_of(entries)
    parts = [f"# {entries['title']}", f"`{command_of(entries)}`: {entries['settings']}."]
    if entries["scale"] != 1:
        parts.append(f"**Scaled: budgets are {entries['scale']:g} times those of the recipe. A trial, not a result.**")
    parts.append(table.markdown())
    parts.append("\n".join(f"- {note}" for note in table.notes))
    if entries["search"]:
        search = search_of(entries["search"])
        parts += [f"## {search.title}", search.markdown()]
    if entries["expectations"]:
        verdicts = [[one["sentence"], f"**{one['verdict']}**", one["rule"]] for one in entries["expectations"]]
        heads = ["expectation", "verdict", RULE]
        parts += ["## What was expected", Table(heads, verdicts).markdown(), *too_few(entries)]
    parts.append("\n".join(f"- {one}" for one in trained(entries)))
    return "\n\n".join(part for part in parts if part) + "\n"


def search_of(search: Entries) -> Table:
    """What was tried for each row, and what was chosen."""
    lines = []
    for row in search["rows"]:
        for trial in row["trials"]:
            values = ", ".join("failed" if value is None else number(value, search["digits"]) for value in trial["values"])
            lines.append([row["title"], trial["setting"], values, "chosen" if trial["setting"] == row["chosen"] else ""])
    seeds = " ".join(map(str, search["seeds"]))
    title = f"Search: the best by {search['quantity']}, on {'seeds' if len(search['seeds']) > 1 else 'seed'} {seeds}"
    return Table(["model", "trial", search["quantity"], ""], lines, ("model", "trial", ""), title)


def verdicts_of(entries: Entries) -> Table:
    rows = [[one["sentence"], one["verdict"], one["rule"]] for one in entries["expectations"]]
    heads = ["expected", "verdict", RULE]
    return Table(heads, rows, heads, notes=too_few(entries))


def too_few(entries: Entries) -> list[str]:
    """Why something is undecided that its rule would decide."""
    cells = [cell for row in entries["rows"] for cell in row["cells"].values()]
    few = any(sum("failure" not in run for run in cell["runs"]) < RUNS for cell in cells) or entries.get("missing")
    return [TOO_FEW] if few and any(one["verdict"] == "undecided" for one in entries["expectations"]) else []


def times_of(entries: Sequence[Entries]) -> Table:
    """The rows of one task of the study of unlocked updates: medians of the seeds, every run behind them."""
    task, target = entries[0]["task"], entries[0]["target"]
    words, last, digits = {
        "copy": (f"length {target:.0f}", "longest length", 0),
        "pixels": (f"{target:.1%} on validation", "best accuracy", 3),
        "text": (f"{target:.3f} bits per character on validation", "best bits", 3),
    }[task]
    first = f"{task}, to {words}"
    heads = [first, "rate", "minutes of CPU: median (runs)", "sequences: median", "moves of the lowest level: median", last]
    rows = []
    for entry in entries:
        minutes = f"{number(entry['median_minutes'], 2)} ({_listed(entry['minutes'], 2)})"
        counts = [number(entry[f"median_{name}"], 0) for name in ("sequences", "moves")]
        rows.append([entry["row"], f"{entry['rate']:g}", minutes, *counts, _listed(entry["best"], digits)])
    return Table(heads, rows, words=[first])


def _listed(values: Sequence[float | None], digits: int) -> str:
    return ", ".join(number(value, digits) for value in values)


def page_of_times(entries: Entries) -> str:
    return "\n".join(f"{table.markdown()}\n" for table in tables_of(entries))


def frontier_of(task: str, entries: Entries) -> Table:
    """Every method on a task at every value of its knob: what it came to, and what it took."""
    digits, title = entries["digits"][task], entries["frontier"][task]
    words = ["method", "knob", "setting"]
    heads = [*words[:2], title, "every run", "MB", "minutes", words[2]]
    rows = []
    for row in (one for one in entries["rows"] if one["task"] == task):
        runs = [
            f"{'≥' if least else ''}{number(score, digits)}"
            for score, least in zip(row["scores"], row["at_least"], strict=True)
        ]
        score = mean_and_spread(row["mean"], row["spread"], digits) + ("*" if row["as"] else "")
        knob = "" if row["knob"] is None else f"{row['knob']:g}"
        size, minutes = f"{row['measured_bytes'] / 1e6:.1f}", f"{row['minutes']:.2f}"
        rows.append([row["title"], knob, score, ", ".join(runs), size, minutes, row["setting"] or ""])
    return Table(heads, rows, words, f"{entries['title']}: {task}", FRONTIER_NOTES)


def page_of_frontier(entries: Entries) -> str:
    """The tables as a page, with every trial behind the settings."""
    parts = [f"# {entries['title']}", f"`{command_of(entries)}`. {entries['settings']}."]
    if entries["scale"] != 1:
        parts.append(f"**Scaled: budgets are {entries['scale']:g} times those of the recipe. A trial, not a result.**")
    for table in tables_of(entries):
        parts += [f"## {table.title.rpartition(': ')[2].capitalize()}", table.markdown()]
    parts.append("\n".join(f"- {note}" for note in FRONTIER_NOTES))
    if entries["missing"]:
        parts.append(f"Not run: {', '.join(entries['missing'])}.")
    lines = [[row["task"], row["title"], words, ", ".join(number(value, entries["digits"][row["task"]]) for value in values),
              "chosen" if words == row["setting"] else ""]
             for row in entries["rows"] for words, values in row["trials"].items()]  # fmt: skip
    seeds = " ".join(map(str, entries["seeds"]))
    parts += [f"## Trials, on seed {seeds}", Table(["task", "method", "trial", "score", ""], lines).markdown()]
    parts.append("\n".join(f"- {one}" for one in trained(entries)))
    return "\n\n".join(parts) + "\n"
