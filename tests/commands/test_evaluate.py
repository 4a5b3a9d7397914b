"""hrnn evaluate: other data, other parts, other checkpoints."""

import json

from tests.commands.console import hrnn
from tests.tiny import TINY, write_mnist


def test_evaluation_on_other_data(tmp_path, capsys, text_run):
    other = tmp_path / "other.txt"
    other.write_text("the dog jumps over the fox\n" * 5)
    code, out, _ = hrnn(capsys, "evaluate", text_run, "--data", other, "--json")
    assert code == 0
    assert json.loads(out)["bits_per_character"] > 0
    (tmp_path / "text.txt").unlink()  # what is evaluated needs no training text
    assert hrnn(capsys, "evaluate", text_run, "--data", other, "--json")[1] == out
    other.write_text("THE DOG\n" * 5)
    code, out, _ = hrnn(capsys, "evaluate", text_run, "--data", other, "--json")
    assert code == 0
    assert json.loads(out)["unknown"] == 5 * len("THEDOG") - 1  # the first character is no target
    code, out, _ = hrnn(capsys, "evaluate", text_run, "--data", other)
    assert "unknown 29\n" in out


def test_evaluation_of_validation_and_of_a_named_checkpoint(tmp_path, capsys):
    data = write_mnist(tmp_path / "mnist", test=20)
    options = (
        "--data",
        data,
        "--pool",
        4,
        "--periods",
        7,
        "--updates",
        4,
        "--validate-every",
        2,
        "--run",
        tmp_path / "run",
    )
    assert hrnn(capsys, "train", "pixels", *TINY, *options)[0] == 0
    code, out, _ = hrnn(capsys, "evaluate", tmp_path / "run", "--part", "validation", "--checkpoint", 2, "--json")
    journal = [json.loads(line) for line in (tmp_path / "run" / "journal.jsonl").read_text().splitlines()]
    recorded = next(record for record in journal if record["kind"] == "validation")
    assert json.loads(out)["loss"] == recorded["loss"]
    code, _, err = hrnn(capsys, "evaluate", tmp_path / "run", "--checkpoint", 3)
    assert code == 2
    assert "--checkpoint is '3'; give best, last, or one of [0, 2" in err


def test_evaluation_of_a_curriculum_that_has_an_end(tmp_path, capsys):
    options = ("--start", 1, "--step", 1, "--until", 3, "--updates", 2, "--test-sequences", 5, "--run", tmp_path / "run")
    assert hrnn(capsys, "train", "copy", *TINY, *options)[0] == 0
    code, out, _ = hrnn(capsys, "evaluate", tmp_path / "run", "--length", 2, "--json")
    assert code == 0
    assert json.loads(out)["recalled_bits_per_character"] > 0
