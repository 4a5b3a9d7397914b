"""Whatever an option is given on the command line: one sentence that names it, before anything is written."""

from pathlib import Path

from tests.commands.console import complaint

HOSTILE = [
    ("train copy --warmup -5", "--warmup"),
    ("train copy --betas nan", "--betas"),
    ("train copy --seed 18446744073709551616", "--seed"),
    ("train copy --solved nan", "--solved"),
    ("train copy --minutes inf", "--minutes"),
    ("train copy --timeout inf", "--timeout"),
    ("train copy --run " + "x" * 300, "--run"),
    ("train copy --run file/run", "file is not a folder; give another --run"),
    ("train copy --batch " + "9" * 5000, "--batch"),
    ("train copy --model " + "z" * 5000, "--model"),
    ("train copy --hidden-sizes 8 x", "--hidden-sizes"),
    ("train copy --lenght 5", "perhaps you meant --length"),
    ("train copy --length 1000000000", "needs about 3.2 TB"),
    ("train copy --hidden-sizes 1000000 1000000", "smaller --hidden-sizes"),
    ("train needle --steps 1000000000000", "needs about"),
    ("train text --data file --boundaries a{99999999999999}", "--boundaries"),
    ("resume nowhere --epochs inf", "--epochs"),
    ("evaluate nowhere --length 0", "--length"),
    ("sample nowhere --temperature nan", "--temperature"),
    ("sample nowhere --temperature 1e-300", "--temperature"),
    ("sample nowhere --length 1000000000000", "--length"),
    ("memory --budget " + "9" * 400, "--budget"),
    ("memory --window 1000000000000000", "--window"),
    ("memory --hidden-sizes 100000 100000 --window 1000000 --measure", "measuring needs about 40 TB"),
    ("reproduce copy --scale inf", "--scale"),
    ("reproduce copy --seeds -1", "--seeds"),
    ("sweep copy --over learning-rate=nan", "--learning-rate"),
    ("sweep copy --over seed=" + ",".join(map(str, range(2000))), "2,000 values"),
    ("demo --updates 0", "--updates"),
    ("z" * 5000, "no command"),
]


def test_the_command_line_refuses_in_one_line_and_writes_nothing(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("some text")
    for line, expected in HOSTILE:
        sentence = complaint(capsys, *line.split())
        assert expected in sentence, sentence
        assert len(sentence) < 500
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
