"""Links between pages, and to headings."""

import re

import pytest

from tests.docs.documented import PAGES, text_of


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
