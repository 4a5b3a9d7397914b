"""The table of `make matrix`."""

from tests import matrix


def test_a_row_takes_the_place_of_what_its_variant_had(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{matrix.BEGIN}{matrix.END}after\n")
    monkeypatch.setattr(matrix, "PAGE", page)
    for name, row in (("home", "| home | 1 |\n"), ("torch", "| torch | 2 |\n"), ("home", "| home | 3 |\n")):
        matrix.write(name, row)
    table = matrix.HEAD + "| torch | 2 |\n| home | 3 |\n"
    assert page.read_text() == f"before\n{matrix.BEGIN}{table}{matrix.END}after\n"
