"""The command line. Only the chosen command is imported: `hrnn --help` must not wait for torch."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from hrnn.launch import is_first_process

COMMANDS = {
    "train": "learn a task, in a new run",
    "resume": "continue a run exactly where it stopped",
    "evaluate": "score a run's best weights on validation, test or other data",
    "sample": "continue a prompt with a run on text",
    "runs": "a table of the runs in a folder",
    "plot": "learning curves of runs as PNG or SVG",
    "reproduce": "the paper's tables and figures, beside its own numbers",
    "sweep": "many runs over values of some options, on this machine or on a Ray cluster",
    "demo": "the paper's four models on a small copy task, in minutes",
    "memory": "what a hierarchy and a window need: counted, measured, planned",
}
EXAMPLES = """\
hrnn train copy --hidden-sizes 64 64 --periods 5 --window 60 --start 5 --step 5
hrnn train pixels --data mnist --pool 2 --hidden-sizes 128 128 --periods 14
hrnn train text --data book.txt
hrnn resume runs/copy-ours-0
hrnn plot runs/copy-ours-0 runs/copy-hrnn-0"""
DONE, FAILED, MISTAKE, INTERRUPTED = 0, 1, 2, 130


def overview() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:{width}}  {what}" for name, what in COMMANDS.items())
    examples = "\n".join(f"  {line}" for line in EXAMPLES.splitlines())
    return (
        "usage: hrnn COMMAND [OPTIONS]\n\nHierarchical recurrent networks with restricted gradients.\n\n"
        f"commands:\n{commands}\n\nexamples:\n{examples}\n\nhrnn COMMAND --help says more; hrnn --version the version."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns 0 when done, 1 if it failed, 2 for the user's mistake, 130 if interrupted."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(overview())
        return DONE if arguments else MISTAKE
    if arguments[0] == "--version":
        from hrnn import __version__

        print(__version__)
        return DONE
    name, *rest = arguments
    if name not in COMMANDS:
        return complain(f"hrnn has no command {name!r}; there are {', '.join(COMMANDS)}")
    return run_command(name, rest)


def run_command(name: str, arguments: list[str]) -> int:
    module = importlib.import_module(f"hrnn.commands.{name}")
    # Errors are imported with the command, which needs torch anyway, or not at all.
    from hrnn.errors import DivergedError, LostError, UserError

    try:
        return int(module.main(arguments))
    except UserError as error:
        return complain(str(error))
    except (DivergedError, LostError) as error:
        print(f"hrnn: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("hrnn: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output went away, as `| head` does
        sys.stderr.close()
        return DONE


def complain(sentence: str) -> int:
    if is_first_process():
        print(f"hrnn: {sentence}", file=sys.stderr)
    return MISTAKE
