"""The command line. Only the chosen command is imported: `hrnn --help` must not wait for torch."""

from __future__ import annotations

import atexit
import os
import sys

from hrnn.errors import (
    DONE,
    ECHO,
    EXPECTED,
    FAILED,
    INTERRUPTED,
    MISTAKE,
    TERMINATED,
    Terminated,
    UserError,
    failure_code,
    require_extra,
    shortened,
)
from hrnn.signals import command_begins, command_ended, watch
from hrnn.torchrun import is_first_process, launched

TYPE_CHECKING = False  # typing is not imported for it: signals are watched as early as possible
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

COMMANDS = {
    "train": "learn a task, in a new run",
    "resume": "continue a run exactly where it stopped",
    "evaluate": "score a run's best weights on validation, test or other data",
    "inspect": "what data of your own hold, and the command that learns from them",
    "predict": "what a run on series says of other data, or of lines as they come",
    "sample": "continue a prompt with a run on text",
    "runs": "a table of the runs in a folder",
    "export": "a run's model for other programs: ONNX, torch.export",
    "plot": "learning curves of runs as PNG, SVG or PDF",
    "report": "runs, sweeps and studies as one page to look at, in a file or live",
    "reproduce": "the paper's tables and figures, beside its own numbers",
    "sweep": "many runs over values of some options, here or on a Ray cluster",
    "demo": "the paper's four models, and ours by default, on a small copy task",
    "memory": "what a hierarchy and a window need: counted, measured, planned",
}
EXAMPLES = """\
hrnn train copy --hidden-sizes 64 64 --periods 5 --window 60 --start 5 --step 5 --until 15
hrnn train pixels mnist --pool 2 --hidden-sizes 128 128 --periods 14
hrnn train text book.txt
hrnn train series sensors.csv
hrnn resume runs/copy-ours-0
hrnn plot runs/copy-ours-0"""
WHERE = "HRNN_TRACEBACK"  # set to 1 in the environment, it shows where an unexpected error came from
LINE = 1000  # characters of a message


def overview() -> str:
    commands = "\n".join(f"  {name:9}  {what}" for name, what in COMMANDS.items())
    examples = "\n".join(f"  {line}" for line in EXAMPLES.splitlines())
    return (
        "usage: hrnn COMMAND [OPTIONS]\n\nHierarchical recurrent networks with restricted gradients.\n\n"
        f"commands:\n{commands}\n\nexamples:\n{examples}\n\nhrnn COMMAND --help says more; hrnn --version which one it is."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns an exit code of hrnn.errors. Without arguments it is the program: it takes those of the command
    line, and the process's signals."""
    if arguments is not None:
        return guarded(list(arguments))
    watch()
    if is_first_process() and COMMANDS.keys() & sys.argv[1:2]:  # --help and --version need not wait for it
        from hrnn.telling import tell  # not before signals are watched

        tell()
    code = guarded(sys.argv[1:])
    command_ended()
    if launched():  # everything is written; torch's threads may abort the interpreter's own end, as torchrun would then report
        leave(code)
    return code


def leave(code: int) -> NoReturn:
    """Leave the process at once, with what was printed."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def guarded(arguments: list[str]) -> int:
    """The exit code of a command. What is left to print and cannot be printed does not change it at the interpreter's end."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us, as `>&-` does
            silence(name)
    code = exit_code(arguments)
    try:
        sys.stdout.flush()
    except OSError:
        silence("stdout")
    return code


def silence(stream: str) -> None:
    """What could not be written is not tried again, neither by us nor by the interpreter, which flushes at its end."""
    nowhere = open(os.devnull, "w")  # noqa: SIM115
    atexit.register(nowhere.close)
    setattr(sys, stream, nowhere)


def exit_code(arguments: list[str]) -> int:
    """However a command ends. Whatever was not foreseen is one line, too."""
    try:
        code = chosen(arguments)
        sys.stdout.flush()
        return code
    except EXPECTED as error:
        code = failure_code(error)
        return say(str(error), code) if code != MISTAKE or is_first_process() else code
    except Terminated:
        return say("terminated", TERMINATED)
    except KeyboardInterrupt:
        return say("interrupted", INTERRUPTED)
    except SystemExit as stopped:  # tyro's, and that of a process that must leave the others at once
        return stopped.code if isinstance(stopped.code, int) else FAILED if stopped.code else DONE
    except BrokenPipeError:  # the reader of our output went away, as `| head` does
        silence("stdout")
        return DONE
    except Exception as error:
        from hrnn.mishaps import sentence

        if os.environ.get(WHERE):
            import traceback

            traceback.print_exc()
        if isinstance(error, OSError) and error.filename is None:
            silence("stdout")
        return say(sentence(error), FAILED)


def chosen(arguments: list[str]) -> int:
    if hasattr(sys.stdout, "reconfigure"):  # a name or a text may have what the terminal cannot show
        sys.stdout.reconfigure(errors="backslashreplace")
    if not arguments or arguments[0] in ("-h", "--help"):
        print(overview())
        return DONE if arguments else MISTAKE
    if arguments[0] == "--version":
        from hrnn import __version__
        from hrnn.native.engine import engine

        print(__version__)
        print(f"engine: {engine()}")
        return DONE
    name, *rest = arguments
    if name not in COMMANDS:
        raise UserError(f"hrnn has no command {shortened(name)!r}; there are {', '.join(COMMANDS)}")
    import importlib

    require_extra("cli", "the command line")
    module = importlib.import_module(f"hrnn.commands.{name}")
    command_begins()
    return int(module.main(rest))


def say(sentence: str, code: int) -> int:
    """One line on standard error, however long the values in it; returns the code."""
    line = " ".join(word if len(word) <= 2 * ECHO else shortened(word) for word in sentence.replace("\n", " ").split(" "))
    try:
        print(f"hrnn: {shortened(line, LINE)}", file=sys.stderr, flush=True)
    except OSError:  # nobody to tell it to
        silence("stderr")
    return code
