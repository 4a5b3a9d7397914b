"""The gallery of the site: a page for every committed result, and a link to each."""

import importlib.util
import re

from hrnn.report.committed import FOLDER
from hrnn.report.page import PLOTLY
from tests.docs.documented import ROOT


def test_every_committed_result_has_a_page_and_a_link(tmp_path):
    spec = importlib.util.spec_from_file_location("write_gallery", ROOT / "docs" / "write_gallery.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pages = module.main(tmp_path)
    assert sorted(page.stem for page in pages) == sorted(path.stem for path in FOLDER.glob("*.json"))
    linked = re.findall(r'href="reports/(.*?)"', (ROOT / "docs" / "gallery.md").read_text())
    assert sorted(linked) == sorted(page.name for page in pages)
    assert {path.name for path in tmp_path.iterdir()} == {PLOTLY, *linked}
    assert all(f'src="{PLOTLY}"' in page.read_text() for page in pages)
