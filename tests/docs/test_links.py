"""Links between pages, and to headings."""

import pkgutil
import re

import pytest

from tests.docs.documented import PAGES, ROOT, text_of


def heading_as_link(line):
    """A heading's anchor, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text()):
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        if anchor:
            headings = re.findall(r"^#+ .+$", text_of(there), re.MULTILINE)
            assert anchor in map(heading_as_link, headings), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_exists(page):
    for path in re.findall(r"`((?:src|tests|benchmarks|docs|results|campaigns)/[\w./-]+)`", text_of(page)):
        assert (ROOT / path).exists(), path


def test_the_architecture_names_every_file_of_the_package():
    text = text_of(ROOT / "docs" / "architecture.md")
    parts = [path for path in (ROOT / "src" / "hrnn").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    names = {path.name + "/" * path.is_dir() for path in parts} - {"__init__.py"}
    assert not {name for name in names if f"`{name}`" not in text}


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "changelog.md"], ids=lambda page: page.name)
def test_every_name_of_the_package_on_a_page_exists(page):
    for name in set(re.findall(r"`(hrnn(?:\.[A-Za-z_]\w*)+)", text_of(page))):
        pkgutil.resolve_name(name)
