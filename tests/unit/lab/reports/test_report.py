"""The report as files: HTML that parses, links that lead somewhere, the same bytes each time."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from relmo.errors import ConfigError, WeightError
from relmo.lab.reports import page as blocks
from relmo.lab.reports.groups import Records
from relmo.lab.reports.render import Html, Markdown
from relmo.lab.reports.report import make_report, sections_of, write_report
from tests.support.sections import missing
from tests.support.toy_runs import BASE, STUDY, Runs, collect, fill

ROOT = Path(__file__).parents[4]
VOID = {"meta", "circle", "rect", "line", "path", "polyline"}


class Page(HTMLParser):
    """Checks that tags are closed in order, and keeps what was seen."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[tuple[str, str]] = []
        """Of Table 1, what is not published: text, and where the link that it stands in leads."""
        self.link = self.caption = ""
        self.feed(text)
        self.close()
        assert self.open == []

    @property
    def is_published(self) -> bool:
        return bool({"i", "small"} & {*self.open})

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        assert len(found) == len(attrs)
        self.tags.append((tag, found))
        self.link = found["href"] or "" if tag == "a" else self.link
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        self.link = "" if tag == "a" else self.link

    def handle_data(self, data):
        if "caption" in self.open:
            self.caption = data
        elif "td" in self.open and self.caption.startswith("Table 1.") and not self.is_published:
            self.cells.append((data, self.link))


def files_of(folder: Path, output: Path) -> dict[str, str]:
    records = Records.read(folder)
    return make_report(records, sections_of(records), output)


@pytest.fixture
def made(full, tmp_path):
    write_report(full.folder, tmp_path / "docs" / "report")
    return tmp_path / "docs" / "report"


@pytest.fixture
def page(made):
    return Page((made / "index.html").read_text())


def test_the_page_is_one_file_without_scripts_or_requests(made, page):
    text = (made / "index.html").read_text()
    assert not re.search(r"https?:|//[a-z]|@import|url\(|<script|<link|<img|<iframe", text)
    assert "prefers-color-scheme: dark" in text
    assert not any(key.startswith("on") for _, attrs in page.tags for key in attrs)


def test_every_picture_and_table_has_a_name(made, page):
    text = (made / "index.html").read_text()
    pictures = re.findall(r"<svg.*?</svg>", text, re.S)
    assert len(pictures) >= 8
    assert all(
        re.search(r"<title[^>]*>[^<]+</title>\s*<desc[^>]*>[^<]+</desc>", p) for p in pictures
    )
    assert text.count("<table>") == text.count("<caption>") == text.count('class="scroll"')
    assert all(attrs.get("scope") for tag, attrs in page.tags if tag == "th")
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_every_link_leads_to_a_record_or_a_section(made, page):
    ids = {attrs["id"] for _, attrs in page.tags if "id" in attrs}
    links = [attrs["href"] for tag, attrs in page.tags if tag == "a"]
    assert len(links) > 60
    for link in links:
        if link.startswith("#"):
            assert link[1:] in ids
        else:
            assert (made / unquote(link)).resolve().name == "run.json"
            assert (made / unquote(link)).is_file()


def test_every_number_of_table_1_is_a_link(page):
    numbers = [(text, link) for text, link in page.cells if re.search(r"\d", text)]
    assert len(numbers) > 20
    for text, link in numbers:
        assert link.endswith("run.json"), text


def test_markdown_has_the_same_numbers_and_its_pictures(made):
    text = (made / "report.md").read_text()
    assert "**[90.50](../../runs/ner-base-0/run.json)**" in text
    assert (
        f"{BASE}: layer 2 above layer 1: **yes**, [67.10](../../runs/wsd/run.json) against" in text
    )
    assert r"[game\|s](" in text
    assert r"\<i\> **[play](" in text
    named = re.findall(r"\]\(([a-z0-9-]+\.svg)\)", text)
    assert sorted(named) == sorted(path.name for path in made.glob("*.svg"))
    for line in text.splitlines():
        if line.startswith("|"):
            assert line.endswith("|")


def test_a_command_that_a_remark_names_is_shown_as_code(runs, tmp_path):
    runs.other("lm", "lm", {"mean": 30.0})
    files = files_of(runs.folder, tmp_path / "out")
    assert "(<code>relmo neighbors</code>)" in files["index.html"]
    assert "(`relmo neighbors`)" in files["report.md"]
    assert "`" not in files["index.html"]
    odd = blocks.Missing("No `a<b` of *x* & `")
    (html,), (markdown,) = (kind(str).blocks([odd]) for kind in (Html, Markdown))
    assert "<li>No <code>a&lt;b</code> of *x* &amp; `</li>" in html
    assert markdown == r"- Missing: No `a<b` of \*x\* & \`"


def test_odd_text_is_escaped(runs, tmp_path):
    near = {"static": [['<b>"&', 0.5]], "context": [["a </table> b", 0.5, 7]]}
    runs.other("odd & old", "neighbors", near, word="<script>", sentence="*a* | _b_")
    text = files_of(runs.folder, tmp_path / "out")["index.html"]
    Page(text)
    assert "&lt;script&gt;" in text
    assert "odd%20%26%20old/run.json" in text


def test_the_same_records_give_the_same_bytes_and_old_pictures_go(made, full):
    before = {path.name: path.read_bytes() for path in made.iterdir()}
    (made / "mix-old.svg").write_text("old")
    report = made / "report.md"
    report.write_text(report.read_text() + "\n![An old picture](mix-old.svg)\n")
    found = write_report(full.folder, made)
    assert {path.name: path.read_bytes() for path in made.iterdir()} == before
    assert found["records"] == 19
    assert 0 < found["findings_that_hold"] < found["findings"]
    assert 0 < found["others_that_hold"] < found["others"]


def test_files_of_others_are_neither_deleted_nor_written_over(full, tmp_path):
    (tmp_path / "mine.svg").write_text("mine")
    write_report(full.folder, tmp_path)
    write_report(full.folder, tmp_path)
    assert (tmp_path / "mine.svg").read_text() == "mine"
    (tmp_path / "report.md").write_text("# My report\n")
    with pytest.raises(ConfigError, match=r"report\.md or index\.html that relmo report did not"):
        write_report(full.folder, tmp_path)
    assert (tmp_path / "report.md").read_text() == "# My report\n"


def test_no_path_of_the_machine_is_written(made, tmp_path):
    for path in made.iterdir():
        assert str(tmp_path) not in path.read_text()


def test_nothing_is_written_if_a_checksum_does_not_match(full, tmp_path):
    path = full.folder / "wsd" / "run.json"
    path.write_text(path.read_text().replace("67.1", "77.1"))
    with pytest.raises(WeightError, match=r"wsd/run.json: its .* does not (hold|match)"):
        write_report(full.folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_records_of_other_things_are_listed(runs, tmp_path):
    runs.other("lm-run", "lm", {"mean": 30.0})
    runs.task("no-test", 80.0, task="chunks")
    text = files_of(runs.folder, tmp_path / "out")["index.html"]
    assert "2 records are not shown" in text
    assert "lm-run (lm)" in text
    assert "no records yet" in text


@pytest.mark.skipif(not (ROOT / "experiments").is_dir(), reason="the records are not here")
def test_the_committed_report_is_what_its_records_give():
    output = ROOT / "docs" / "report"
    made = files_of(ROOT / "experiments", output)
    advice = "run `relmo report --runs experiments --output docs/report`"
    assert {path.name for path in output.iterdir()} == made.keys(), advice
    for name, text in made.items():
        assert (output / name).read_text(encoding="utf-8") == text, f"{name}: {advice}"


def test_a_section_without_records_says_so(runs):
    runs.other("lm", "lm", {"mean": 30.0})
    for section in sections_of(Records.read(runs.folder)):
        assert section.claims == []
        assert missing(section)
        assert not any(isinstance(block, blocks.Table | blocks.Figure) for block in section.blocks)


def test_without_report_toml_there_are_all_sections_with_generic_names(tmp_path):
    runs = Runs(tmp_path / "runs")
    fill(runs)
    runs.task("mine", 91.0, dev=92.0, elmo="my-elmo")
    text = files_of(runs.folder, tmp_path / "out")["report.md"]
    assert "+ my-elmo" in text
    assert "no records yet" not in text
    assert "not run with" not in text  # nobody said what should be run
    assert f"No record of neighbors (`relmo neighbors`) for {BASE}" not in text


def test_without_report_toml_empty_sections_say_so(tmp_path):
    runs = Runs(tmp_path / "runs")
    runs.other("lm", "lm", {"mean": 30.0})
    for section in sections_of(Records.read(runs.folder)):
        assert missing(section), section.name


def test_a_number_from_a_collection_links_to_its_line(full, tmp_path):
    text = files_of(full.folder, tmp_path / "out")["report.md"]
    collect(full.folder, tmp_path / "records" / "toys.jsonl")
    (tmp_path / "records" / "report.toml").write_text(STUDY)
    assert len(Records.read(tmp_path / "records").runs) == 19
    found = files_of(tmp_path / "records", tmp_path / "out")["report.md"]
    assert re.search(r"\*\*\[90\.50\]\(\.\./records/toys\.jsonl#L\d+\)\*\*", found)
    strip = re.compile(r"\(\.\./[^)]*\)")
    assert strip.sub("", found) == strip.sub("", text)
