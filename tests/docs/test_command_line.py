"""The page about the command line is what the parsers say."""

import runpy

from tests.docs.documented import ROOT


def test_the_page_about_the_command_line_is_up_to_date():
    written = runpy.run_path(str(ROOT / "docs" / "write_command_line.py"))["page"]()
    assert (ROOT / "docs" / "command_line.md").read_text() == written, "run python docs/write_command_line.py"
