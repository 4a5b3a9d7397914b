"""What can be wrong with data of one's own, through the command line: one sentence, exit code 2, nothing half-written."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.commands.console import complaint, hrnn
from tests.data.made import recordings, write_fasta, write_table, write_wav
from tests.series.made import TINY, panel, train, write


def csv(text):
    def made(folder):
        (folder / "t.csv").write_text(text)
        return [folder / "t.csv"]

    return made


def parquet(**columns):
    return lambda folder: [write_table(pa.table(columns), folder / "t.parquet")]


def good(*more):
    return lambda folder: [write_table(panel(), folder / "t.csv"), *more]


def ids_of_two_types(folder):
    tables = [pa.table({"id": ids, "v": [1.0, 2.0]}) for ids in (["a", "b"], [1, 2])]
    return [write_table(table, folder / f"{place}.parquet") for place, table in enumerate(tables)]


def other_rate(folder):
    write_wav(recordings(folder / "r") / "train" / "low" / "odd.wav", rate=16_000)
    return [folder / "r"]


def truncated(folder):
    (folder / "g.fa.gz").write_bytes(gzip.compress(b">one\n" + b"ACGT" * 100)[:-20])
    return [folder / "g.fa.gz"]


def truncated_table(folder):
    content = "id,v\n" + "".join(f"a,{number * 7919 % 1000003}\n" for number in range(5000))
    (folder / "t.csv.gz").write_bytes(gzip.compress(content.encode())[:-500])
    return [folder / "t.csv.gz"]


def newer(folder):
    """Its columns are packed by a method that nobody knows yet: number 40, where Snappy has 1."""
    path = write_table(panel(), folder / "t.parquet")
    content = path.read_bytes()
    at = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    about = content[at:-8].replace(b"\x15\x02\x16", b"\x15\x50\x16")
    assert about != content[at:-8]
    path.write_bytes(content[:at] + about + content[-8:])
    return [path]


def other_end(folder):
    path = write_table(panel(), folder / "t.parquet")
    path.write_bytes(path.read_bytes()[:-4] + b"PARX")
    return [path]


def mixed_ids(folder):
    columns = {"id": [f"s{step % 5}" for step in range(4000)], "v": [float(step % 7) for step in range(4000)]}
    return [write_table(pa.table(columns), folder / "t.parquet")]


def pickled(folder):
    np.save(folder / "x.npy", np.array([[1], [1, 2]], dtype=object), allow_pickle=True)
    return [folder / "x.npy"]


def only_in_test(folder):
    labels = ["a", "b", "a", "b", "c"]
    columns = {
        "id": [f"s{i}" for i in range(5)],
        "v": [1.0, 2, 3, 4, 5],
        "label": labels,
        "split": ["train"] * 3 + ["val", "test"],
    }
    return [write_table(pa.table(columns), folder / "t.parquet")]


def empty_array(folder):
    np.savez(folder / "x.npz", one=np.ones((5, 2)), two=np.ones((0, 2)))
    return [folder / "x.npz"]


def labels_beside_tables(folder):
    write_table(panel(), folder / "t.csv")
    (folder / "labels.csv").write_text("file,label\nt.csv,a\n")
    return [folder]


def table_below(folder):
    (folder / "a").mkdir(exist_ok=True)
    write_table(panel(), folder / "a" / "t.csv")
    return [folder]


def log(folder):
    (folder / "server.log").write_text("GET 200\n" * 100)
    return [folder / "server.log"]


OF_A_RUN = ("--batch", "fewer than a period")  # what hrnn inspect does not ask for
LONG = {"id": [f"s{i // 5}" for i in range(100)], "ds": list(range(5)) * 20, "v": [float(i % 7) for i in range(100)]}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda folder: [], "no data; name files or a folder"),
        (lambda folder: [folder / "none.csv"], "none.csv does not exist"),
        (good("--validation", "none.csv"), "none.csv does not exist"),
        (good("--test", "gone"), "gone does not exist"),
        (good("--target", "lable"), "no column 'lable' for target; did you mean 'label'?"),
        (good("--values", "a", "coed"), "no column 'coed' for values; did you mean 'code'?"),
        (good("--id", "idd"), "no column 'idd' for id; did you mean 'id'?"),
        (csv("id,v\na,1\na,x\n"), "has mixed types: 'x' stands among numbers"),
        (csv("id,ds,v\na,1,1\na,noon,2\n"), "time 'ds'"),
        (parquet(id=["a", "a"], ds=[2, 1], v=[1.0, 2]), "times that are not in order"),
        (parquet(id=["a", "a"], ds=[1, 1], v=[1.0, 2]), "has the same time twice"),
        (ids_of_two_types, "ids in column 'id' are texts in the first file and whole numbers in"),
        (only_in_test, "class 'c' occurs in test only"),
        (parquet(**LONG, label=["x"] * 100), "has one class only ('x')"),
        (lambda folder: [write_fasta(folder / "g.fa", {"one": "ACGT", "two": ""})], "sequence 'two' of"),
        (empty_array, "is empty"),
        (csv("id,v,label\n"), "has no rows"),
        (lambda folder: [*parquet(**LONG, label=["x", "y"] * 50)(folder), "--periods", "7"], "fewer than a period of 7"),
        (parquet(id=[*"abcdefgh"], v=[None] * 8, w=[1.0] * 8), "all values of channel 'v' are missing in the training part"),
        (parquet(id=["a", "b"], v=[1.0, None]), "all values of sequence 'b' are missing"),
        (parquet(id=["a", "b"], v=[1.0, float("inf")]), "has an infinite value"),
        (parquet(id=["a", "b"], v=[1.0, 1e300]), "has a value beyond float32"),
        (parquet(id=["a", "b"], v=[1.0, 2], label=[1.5, float("inf")]), "target 'label'"),
        (other_rate, "16,000"),
        (lambda folder: [write_fasta(folder / "g.fa", {"one": "ACGTXACGT"})], "'X'"),
        (truncated, "truncated"),
        (truncated_table, "truncated or damaged"),
        (newer, "of a newer version of the format than the installed pyarrow knows"),
        (other_end, "cannot be read as Parquet"),
        (lambda folder: [*mixed_ids(folder), "--memory", "10kB"], "rows of different ids are mixed"),
        (pickled, "holds pickled objects"),
        (good("--kind", "bytes", "--id", "id"), "--id is for tables, and --kind is bytes"),
        (good("--labels", "labels.csv"), "--labels is for folders of audio, letters, text or bytes"),
        (labels_beside_tables, "write the label as a column of each table, say targets='sequence' (--targets sequence)"),
        (table_below, "a folder is no class or part of theirs: write the label as a column of each table"),
        (log, "server.log holds is not clear by its name; say kind='bytes' or kind='text' (--kind bytes, --kind text)"),
        (good("--forecast", "3", "--target", "label"), "--forecast 3 learns what comes next"),
        (good("--memory", "lots"), "--memory is 'lots'; give bytes"),
        (good("--memory", "10kB"), "the least that learns anything takes"),
        (good("--batch", "50"), "--batch is 50 and the training part has 16 sequence(s)"),
        (good("--patch", "0"), "--patch"),
    ],
)  # fmt: skip
def test_one_sentence_and_nothing_half_written(tmp_path, capsys, monkeypatch, make, said):
    data, run = tmp_path / "data", tmp_path / "runs" / "r"
    data.mkdir()
    found = complaint(capsys, "train", "series", *make(data), "--updates", "1", "--run", run)
    assert said in found, found
    assert not run.exists()
    assert not list((tmp_path / "runs").glob("**/.*")), "something half-written"
    if not said.startswith(OF_A_RUN):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
        (tmp_path / "temporary").mkdir()
        assert complaint(capsys, "inspect", *make(data)) == found
        assert not list((tmp_path / "temporary").iterdir())


def test_a_full_disk_while_the_cache_is_written(tmp_path, capsys, monkeypatch):
    from hrnn.data import growing

    def full(self, *arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(growing.GrowingArray, "append", full)
    (tmp_path / "data").mkdir()
    (path,) = good()(tmp_path / "data")
    found = complaint(capsys, "train", "series", path, "--updates", "1", "--run", tmp_path / "runs" / "r")
    assert "No space left on device; nothing is left of it" in found
    assert not list((tmp_path / "runs").rglob("*.npy"))
    assert not list((tmp_path / "runs" / "cache").glob(".*"))


@pytest.mark.parametrize("most", [100, 9_000, 20_000])
def test_the_system_lets_no_file_of_the_cache_grow_beyond(tmp_path, capsys, most):
    """Of the steps' files the largest has 32,128 bytes; what is buffered goes to the disk when they are closed."""
    import resource

    data = tmp_path / "data"
    data.mkdir()
    (path,) = mixed_ids(data)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        code, _, err = hrnn(capsys, "train", "series", path, *TINY, "--updates", "1", "--run", tmp_path / "runs" / "r")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert code == 2, err
    assert "File too large; nothing is left of it, make room or give another folder" in err
    assert "Traceback" not in err
    assert not list((tmp_path / "runs").rglob("*.npy"))
    assert not list((tmp_path / "runs" / "cache").glob(".*"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--class-weights", "balanced"), "--class-weights balanced weighs classes, and what is learned here is none"),
        (("--readout", "mean"), "--readout mean is for one target a sequence, and each step has its own"),
        (("--readout", "last", "--forecast", 2), "--readout last is for one target a sequence"),
    ],
)
def test_options_that_would_do_nothing_are_refused(tmp_path, capsys, words, message):
    write_table(pa.table({"y": np.sin(np.arange(300.0))}), tmp_path / "t.csv")
    code, _, err = hrnn(capsys, "train", "series", tmp_path / "t.csv", *words, "--run", tmp_path / "run")
    assert (code, message in err, (tmp_path / "run").exists()) == (2, True, False), err


def test_sequences_shorter_than_a_period_are_a_warning_while_others_are_longer(tmp_path, capsys):
    path = write_table(panel(shortest=5), tmp_path / "t.parquet")
    arguments = ("train", "series", path, "--hidden-sizes", "8", "8", "--periods", "9", "--batch", "4", "--updates", "1")
    code, _, err = hrnn(capsys, *arguments, "--no-tensorboard", "--run", tmp_path / "runs" / "r")
    assert code == 0, err
    assert "sequence(s) of the training part are shorter than a period of 9" in err


def test_what_is_known_to_be_poor_is_said(tmp_path, capsys):
    kinds = write(tmp_path)
    table = pyarrow.parquet.read_table(kinds["class"][0])
    table = table.set_column(2, "a", pa.array((table["a"].to_numpy() * 100).tolist()))
    path = write_table(table, tmp_path / "large.parquet")
    code, _, err = hrnn(
        capsys, "train", "series", path, *TINY, "--updates", "1", "--batch", "4", "--normalise", "none", "--readout", "last",
        "--run", tmp_path / "runs" / "r",
    )  # fmt: skip
    assert code == 0, err
    assert "--normalise none leaves channels at up to" in err
    assert "--readout last has one target at the end" in err
    code, _, err = hrnn(
        capsys, "train", "series", *kinds["audio"], *TINY, "--updates", "1", "--patch", "1", "--run", tmp_path / "a"
    )
    assert code == 0, err
    assert "--patch 1 reads audio sample by sample" in err


def test_evaluating_other_data_and_streams_that_need_more(tmp_path, capsys):
    import hrnn as library
    from hrnn.errors import UserError

    kinds = write(tmp_path)
    run = train(capsys, tmp_path / "runs" / "r", kinds["class"], 1)
    code, out, err = hrnn(capsys, "evaluate", run, "--data", kinds["last"][0])
    assert code == 0, err
    assert "balanced_accuracy" in out
    assert "predicted" in out
    assert "the run learned 'label', one for each sequence, and" in complaint(
        capsys, "evaluate", run, "--data", kinds["panel"][0]
    )
    audio = library.load(train(capsys, tmp_path / "runs" / "a", kinds["audio"], 1))
    with pytest.raises(UserError, match="give mean and scale"):
        audio.stream()
    samples = np.sin(np.arange(99) / 3)
    stream = audio.stream(mean=samples.mean(), scale=samples.std())
    told = [stream.step(sample) for sample in samples]
    assert told[6] is None
    assert told[7] is not None
    found = audio.predict_proba([samples[:, None]])[0]
    assert np.allclose([stream.end()[f"p_{name}"] for name in audio.classes], found, atol=1e-6)
