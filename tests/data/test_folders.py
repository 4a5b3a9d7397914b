"""Folders with one file a sequence."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
import soundfile

from hrnn.data import cache, find, folder
from hrnn.errors import UserError
from tests.commands.console import hrnn
from tests.data.made import recordings, write_fasta, write_wav


def labels(sequences, name="target"):
    return [sequences.labels[name][int(code)] for code in sequences.fact(name)]


def test_recordings_by_part_and_class(tmp_path):
    sequences = cache(find(recordings(tmp_path)))
    assert len(sequences) == 12
    assert sequences.layout.rate == 8000
    assert dict(zip(sequences.ids, labels(sequences), strict=True))["test/low/1.wav"] == "low"
    assert labels(sequences, "part").count("test") == 4
    number = list(sequences.ids).index("train/high/3.wav")
    assert sequences.lengths[number] == 120
    expected = (10_000 * np.sin(np.arange(120) * 0.5)).astype("<i2") / 32768
    np.testing.assert_allclose(sequences.read(number)[:, 0], expected, atol=1e-7)


@pytest.mark.parametrize("ending", ["flac", "ogg"])
def test_other_formats_and_a_table_of_labels(tmp_path, ending):
    for name in "ab":
        soundfile.write(tmp_path / f"{name}.{ending}", np.zeros((500, 2)), 16000)
    (tmp_path / "labels.csv").write_text(f"file,label,split,group\na.{ending},1.5,train,x\nb,2,test,y\n")
    sequences = cache(find(tmp_path))
    assert sequences.fact("target").tolist() == [1.5, 2]
    assert labels(sequences, "group") == ["x", "y"]
    assert sequences.read(0).shape == (500, 2)


def test_fasta_records_whatever_the_lines(tmp_path, monkeypatch):
    records = {"one": "ACGTN" * 30, "two": "gattaca", "three": "RYU"}
    tokens = ["ACGTN".index(letter) for letter in "GATTACA"]
    for block in (1 << 18, 7, 1):
        monkeypatch.setattr("hrnn.data.letters.BLOCK", block)
        for name, width in (("a.fa", 7), ("b.fasta.gz", 1000), ("c.fna", 1)):
            sequences = cache(folder(write_fasta(tmp_path / str(block) / name, records, width)))
            assert list(sequences.ids) == ["one", "two", "three"]
            assert sequences.lengths.tolist() == [150, 7, 3]
            assert sequences.read(1).tolist() == tokens
            assert sequences.read(2).tolist() == [4, 4, 3]
            assert sequences.layout.complete


def test_fasta_labelled_by_folder_or_record(tmp_path):
    write_fasta(tmp_path / "cat" / "1.fa", {"r": "ACGT", "s": "GG"})
    write_fasta(tmp_path / "dog" / "1.fa", {"r": "AC"})
    sequences = cache(find(tmp_path))
    assert list(sequences.ids) == ["cat/1.fa/r", "cat/1.fa/s", "dog/1.fa/r"]
    assert labels(sequences) == ["cat", "cat", "dog"]
    (tmp_path / "by_record.csv").write_text("id,label\nr,u\ns,v\n")
    sequences = cache(folder(tmp_path / "cat" / "1.fa", labels=tmp_path / "by_record.csv"))
    assert labels(sequences) == ["u", "v"]


def test_fastq_and_amino_acids(tmp_path):
    (tmp_path / "r.fq.gz").write_bytes(gzip.compress(b"@a x\nACG\n+\n@@@\n@b\nTT\n+b\nII\n"))
    sequences = cache(find(tmp_path / "r.fq.gz"))
    assert (list(sequences.ids), sequences.read(1).tolist()) == (["a", "b"], [3, 3])
    write_fasta(tmp_path / "p.faa", {"p": "MKVLX"})
    with pytest.raises(UserError, match="none of the bases"):
        cache(find(tmp_path / "p.faa"))
    assert cache(find(tmp_path / "p.faa", letters="amino acids")).lengths.tolist() == [5]


def test_bytes_and_text(tmp_path):
    (tmp_path / "x.bin").write_bytes(bytes(range(256)) * 3)
    sequences = cache(folder(tmp_path, "bytes"))
    assert sequences.read(0).tolist() == list(range(256)) * 3
    text = "größe Ω\n" * 3 + "".join(map(chr, range(200, 600)))
    (tmp_path / "t.txt").write_text(text)
    sequences = cache(find(tmp_path / "t.txt"))
    assert "".join(sequences.vocabularies["character"][code] for code in sequences.read(0)) == text
    assert sequences.read(0).dtype == np.uint16


def test_files_of_parts(tmp_path):
    write_wav(tmp_path / "one" / "a.wav")
    write_wav(tmp_path / "two" / "a.wav")
    sequences = cache(folder({"train": tmp_path / "one", "val": tmp_path / "two"}))
    assert list(sequences.ids) == ["one/a.wav", "two/a.wav"]
    assert labels(sequences, "part") == ["training", "validation"]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda p: [write_wav(p / "a.wav"), write_wav(p / "b.wav", rate=16000)],
            "16,000 samples a second and the first file 8,000",
        ),
        (lambda p: [write_wav(p / "a.wav"), write_wav(p / "b.wav", channels=2)], "2 channels and the first file 1"),
        (lambda p: [write_wav(p / "a.wav", samples=0)], "is empty"),
        (lambda p: (p / "a.wav").write_bytes(b"RIFFxxxxWAVE"), "cannot be read as a recording"),
        (lambda p: (p / "a.fa").write_text(">x\nACJT\n"), "has 'J', which is none of the bases"),
        (lambda p: (p / "a.fa").write_text("ACGT\n"), "FASTA begins with >"),
        (lambda p: (p / "a.fa").write_text(">x\n>y\nA\n"), "sequence 'x' of .* is empty"),
        (lambda p: (p / "a.fa").write_text(">x\nA\n>x\nA\n"), "two sequences have the id 'x'"),
        (lambda p: (p / "a.fa").write_text("> \nA\n"), "without a name"),
        (lambda p: (p / "a.fq").write_text("@x\nACG\n+\nII\n"), "is not four lines of FASTQ"),
        (lambda p: (p / "a.fa.gz").write_bytes(gzip.compress(b">x\n" + b"ACGT" * 9999)[:-20]), "truncated or damaged"),
        (lambda p: (p / "a.txt").write_bytes(b"\xff\xfe\xff"), "is not UTF-8"),
        (lambda p: (p / "a.xyz").write_bytes(b"1"), r"a.xyz holds is not clear by its name; say .*--kind bytes"),
        (lambda p: [write_wav(p / "a.wav"), (p / "labels.csv").write_text("file,label\nb.wav,x\n")], "lacks 1 of 1 files"),
        (lambda p: [write_wav(p / "a.wav"), (p / "labels.csv").write_text("file,label\na,x\nb,x\n")], "names 'b'"),
        (lambda p: [write_wav(p / "a.wav"), (p / "labels.csv").write_text("fil,label\na,x\n")], "did you mean 'fil'"),
        (lambda p: [write_wav(p / "a.wav"), (p / "labels.csv").write_text("file,split\na,x\n")], "names the part 'x'"),
        (lambda p: None, "holds no files"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path, make, said):
    make(tmp_path)
    with pytest.raises(UserError, match=said) as caught:
        cache(folder(tmp_path))
    assert "\n" not in str(caught.value)


def tables(folder, count=2, columns="t,x", row="0,1"):
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        (folder / f"{number}.csv").write_text(f"{columns}\n{row}\n")
    return folder


@pytest.mark.parametrize("columns", ["file,label", "Filename,class,minutes", "id,label,split"])
def test_labels_beside_tables_are_refused(tmp_path, columns):
    tables(tmp_path)
    assert len(find(tmp_path).files()) == 2
    labels = tmp_path / "labels.csv"
    labels.write_text(f"{columns}\n" + "1.csv,a,2\n" * 2)
    for data in (tmp_path, [tmp_path / "0.csv", labels]):
        with pytest.raises(UserError, match=r"labels.csv has labels.*write the label as a column of each table, say targets="):
            find(data)
    assert find(labels).files() == [labels]  # by itself it is a table as any other


def test_a_table_that_is_only_called_labels_is_read(tmp_path):
    tables(tmp_path)
    (tmp_path / "labels.csv").write_text("t,x\n0,1\n")
    assert len(find(tmp_path).files()) == 3
    assert len(cache(find(tmp_path))) == 3


def test_a_label_as_a_column_of_each_table(tmp_path):
    for name in "ab":
        tables(tmp_path / name, 1, "t,x,label", f"0,1,{name}")
    files = [(tmp_path / name / "0.csv").rename(tmp_path / f"{name}.csv") for name in "ab"]
    for data in (tmp_path, files):
        sequences = cache(find(data, targets="sequence"))
        assert (list(sequences.ids), labels(sequences)) == (["a.csv", "b.csv"], ["a", "b"])


def test_folders_of_tables_are_no_classes(tmp_path):
    for name in ("cats", "dogs"):
        tables(tmp_path / name)
    (tmp_path / "labels.csv").write_text("file,label\n0.csv,x\n")
    for data in (tmp_path, [tmp_path / "cats", tmp_path / "dogs"], {"train": tmp_path / "cats", "test": tmp_path / "dogs"}):
        with pytest.raises(UserError, match=r"cats holds tables, and a folder is no class .* as a column of each table"):
            find(data)
    (tmp_path / "labels.csv").unlink()
    assert labels(cache(find(tmp_path, kind="text"))) == ["cats", "cats", "dogs", "dogs"]
    write_wav(tmp_path / "dogs" / "1.wav")
    with pytest.raises(UserError, match="and the files beside it hold is not clear by their names"):
        cache(find(tmp_path))


def test_a_folder_of_arrays(tmp_path):
    for number in range(3):
        np.save(tmp_path / f"{number}.npy", np.arange(5.0) + number)
    assert cache(find(tmp_path)).lengths.tolist() == cache(find(sorted(tmp_path.iterdir()))).lengths.tolist()
    (tmp_path / "labels.csv").write_text("file,label\n0.npy,a\n")
    with pytest.raises(UserError, match=r"holds arrays, which have no classes or parts in folders or labels\.csv"):
        cache(find(tmp_path))
    (tmp_path / "labels.csv").unlink()
    (tmp_path / "up").mkdir()
    for number in range(3):
        (tmp_path / f"{number}.npy").rename(tmp_path / "up" / f"{number}.npy")
    with pytest.raises(UserError, match=r"up holds arrays, which have no classes"):
        cache(find(tmp_path))


def test_links_out_of_a_folder_of_data_are_told(tmp_path, capsys):
    folder, outside = tmp_path / "data", tmp_path / "secret.txt"
    folder.mkdir()
    outside.write_text("the quick brown fox jumps over the lazy dog\n" * 20)
    for name in ("a", "b", "c"):
        (folder / f"{name}.txt").write_text(outside.read_text())
    (folder / "d.txt").symlink_to("a.txt")
    (tmp_path / "named").symlink_to(folder)  # which is the user's business
    code, out, err = hrnn(capsys, "inspect", tmp_path / "named")
    assert (code, "is a link to" in out) == (0, False), err
    (folder / "e.txt").symlink_to(outside)
    words = f"{folder}/e.txt is a link to {outside}, outside the folder of the data; is that meant to be read?"
    code, out, err = hrnn(capsys, "inspect", folder)
    assert (code, words in out) == (0, True), err
    (folder / "low").symlink_to(tmp_path)
    with pytest.raises(UserError, match="low is a link to a folder, which is not followed; put the folder there"):
        cache(find(folder))
