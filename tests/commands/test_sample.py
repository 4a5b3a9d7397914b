"""hrnn sample: prompts, seeds, temperatures."""

import json

from tests.commands.console import hrnn
from tests.tiny import SENTENCE, literal_boundaries


def test_sampling_continues_a_prompt(text_run, capsys):
    code, out, _ = hrnn(capsys, "sample", text_run, "--prompt", "the ", "--length", 30, "--json")
    assert code == 0
    written = json.loads(out)["text"]
    assert len(written) == 30
    assert set(written) <= set(SENTENCE)
    code, again, _ = hrnn(capsys, "sample", text_run, "--prompt", "the ", "--length", 30)
    assert again == f"the {written}\n"
    code, other, _ = hrnn(capsys, "sample", text_run, "--prompt", "the ", "--length", 30, "--seed", 1)
    assert other != again
    likeliest = {hrnn(capsys, "sample", text_run, "--temperature", 0, "--seed", seed)[1] for seed in (1, 2)}
    assert len(likeliest) == 1


def test_a_sampled_text_has_the_boundaries_it_would_have_in_training():
    from hrnn.tasks.streams import compiled
    from hrnn.training.trained import Boundaries

    text = "a  b. c\n\nd e.\nf"
    for names in (["word"], ["word", "line"], [r"\s+"], [r"\b", "sentence"]):
        whole = literal_boundaries(text, names)
        growing = Boundaries(compiled(names))
        assert [growing.read(character) for character in text] == whole[:-1].tolist()
