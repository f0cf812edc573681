"""The page in a real browser: senses apart, controls that move numbers, no word to the outside."""

import re
import shutil
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from relmo import Elmo
from relmo.search import Document, IndexSettings, SemanticIndex
from tests.support.serving import EXTRA, ServerProcess, free_port

pytest.importorskip("fastapi", reason=EXTRA)
sync_api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="apt-get install chromium")
QUIET = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip
KEY = "page-key"
PASSAGES = [
    "The bank lends money to companies .", "Interest rates rose again .",
    "The boat drifted down the river .", "Children play football in the park .",
    "The orchestra played a symphony .", "Rain fell on the mountains all night .",
    "THE ORCHESTRA PLAYED A SYMPHONY !",
    "😀 <img src=x onerror=alert(1)> is no picture . The glacier & its Meltwater are cold .",
    " ".join(["The valley is wide and green ."] * 40) + " A lighthouse stands there .",
]  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[ServerProcess]:
    index = tmp_path_factory.mktemp("index") / "passages.relmo"
    documents = [Document(f"d{i}", "file", text) for i, text in enumerate(PASSAGES)]
    SemanticIndex.build(index, documents, settings=IndexSettings(language="none")).close()
    env = {"RELMO_API_KEY": KEY}
    server = ServerProcess("relmo-en-small", "--index", str(index), port=free_port(), env=env)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture
def visit(server, browser):
    """Open the page with its key; at the end nothing was complained of or asked for outside."""
    contexts, complaints, outside = [], [], []

    def visit(width: int = 1280, scheme: str = "light", key: str | None = KEY, hold=None):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        if key:
            context.add_init_script(f"sessionStorage.setItem('relmo-key', '{key}')")
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda r: outside.append(r.url) if server.url not in r.url else None)
        if hold is not None:
            page.route("**/surprisal", lambda route: hold.append(route), times=1)
        page.goto(server.url)
        if key:
            page.wait_for_selector("#heat td")
            page.wait_for_selector("#map circle")
        return page

    yield SimpleNamespace(page=visit, complaints=complaints)
    for context in contexts:
        context.close()
    assert complaints == []
    assert outside == []


def value(page, first: str, second: str) -> float:
    """What the heat map shows for two words."""
    columns = page.locator("#heat thead button").all_inner_texts()
    rows = page.locator("#heat tbody button").all_inner_texts()
    place = rows.index(first) * (len(columns) + 1) + columns.index(second)
    # each row has its word's cell too, which is a th; td alone are counted
    cell = page.locator("#heat tbody td").nth(place - rows.index(first))
    return float(cell.inner_text().replace("−", "-"))


def test_the_bank_of_money_stands_apart_from_the_bank_of_a_river(visit):
    page = visit.page()
    other_sense = value(page, "bank", "bank")
    page.select_option("#example", "1")
    page.wait_for_selector("#heat button:has-text('loan')")
    same_sense = value(page, "bank", "bank")
    assert other_sense < same_sense - 0.05
    colours = page.locator("#map li .dot").evaluate_all("dots => dots.map(d => d.className)")
    money, river = set(colours[:4]), set(colours[4:])
    assert not money & river


def story(page) -> list[np.ndarray]:
    """The cosines of the opening: without context, at the top, by sense vectors; each (4, 4)."""
    cells = page.locator("#story tbody td").all_inner_texts()
    return list(np.array([float(cell) for cell in cells]).reshape(3, 4, 4))


def test_the_page_opens_with_layer_0_beside_the_top_and_the_sense_vectors(visit):
    page = visit.page()
    elmo = Elmo.from_pretrained("relmo-en-small")
    sentences = page.locator("#story-sentences li").all_inner_texts()
    words = [[token.text for token in elmo.tokens(sentence)] for sentence in sentences]
    places = [each.index("bank") for each in words]
    layers = elmo.embed(words)
    vectors = [
        [found[layer][t] for found, t in zip(layers, places, strict=True)] for layer in (0, 2)
    ]
    vectors.append([f[t] for f, t in zip(elmo.sense_vectors(words), places, strict=True)])
    for shown, wanted in zip(story(page), map(np.stack, vectors), strict=True):
        units = wanted / np.linalg.norm(wanted, axis=1, keepdims=True)
        np.testing.assert_allclose(shown, units @ units.T, atol=0.006)
    static, top, senses = story(page)
    assert (static == 1).all()
    for context in (top, senses):
        assert min(context[0, 1], context[2, 3]) > context[:2, 2:].max() + 0.1
    assert "Without context every “bank” is the same (1.00)" in page.inner_text("#story-summary")
    assert "1.00 in layer 0, 0.95 in layer 1, 0.78 in layer 2" in page.inner_text("#shared")


def test_no_old_picture_stands_beside_an_emptied_field(visit):
    page = visit.page()
    page.click("#heat tbody button >> nth=6")
    page.wait_for_selector("#word li")
    page.fill("#second", " ")
    page.wait_for_selector("#pair-problem:has-text('Write both sentences')")
    assert page.is_hidden("#pair-result")
    assert page.locator("#heat td, #word li").count() == 0
    page.fill("#second", "They sat on the bank .")
    page.wait_for_selector("#heat td")
    assert page.is_hidden("#pair-problem")
    for field in ("#map-word", "#map-sentences"):
        before = page.input_value(field)
        page.fill(field, "")
        page.wait_for_selector("#map-problem:has-text('Enter a word')")
        assert page.locator("#map *").count() == 0
        page.fill(field, before)
        page.wait_for_selector("#map circle")
        assert page.is_hidden("#map-problem")


def test_every_number_has_a_unit(visit):
    page = visit.page()
    assert "cosine similarities, from −1 to 1" in page.inner_text("#story-section")
    assert "Cosine similarities" in page.inner_text("#heat-unit")
    page.select_option("#measure", "dot")
    assert "Dot products" in page.inner_text("#heat-unit")
    page.check("input[value=mix]")
    assert page.inner_text("#weight-0") == "s = 0.0, weight 33%"
    page.click("#heat tbody button >> nth=6")
    page.wait_for_selector("#word > div:nth-child(2) li")
    assert page.inner_text("#word h4 >> nth=0") == "Layer 0, by cosine"
    assert "in nats" in page.inner_text("#word > div:nth-child(2)")
    axes = " ".join(page.locator("#map .axis").all_text_contents())
    assert len(re.findall(r"\d+% of the variance", axes)) == 2


OVERLAPS = """
() => {
  const texts = [...document.querySelectorAll("#map text")];
  const boxes = texts.map((text) => text.getBoundingClientRect());
  return boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) =>
    a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)).length;
}"""


@pytest.mark.parametrize("width", [390, 1280])
def test_labels_of_the_map_do_not_hide_each_other(visit, width):
    page = visit.page(width)
    for layer in ("0", "1", "2", "senses"):
        page.select_option("#map-layer", layer)
        page.click("#map-form button")
        page.wait_for_timeout(400)
        assert page.evaluate(OVERLAPS) == 0
        assert page.locator("#map .label").count() >= (1 if layer == "0" else 6)
    page.fill("#map-sentences", "\n".join(f"The bank number {i} opened ." for i in range(60)))
    page.wait_for_selector("#map p:has-text('60 occurrences')")
    assert page.evaluate(OVERLAPS) == 0


def test_text_of_an_unknown_script_is_remarked_on(visit):
    page = visit.page()
    assert page.locator("#pair-note, #map-note").evaluate_all("all => all.every((p) => p.hidden)")
    page.fill("#first", "은행 이 금리 를 올렸다 .")
    page.wait_for_selector("#pair-note:has-text('The text is in Hangul script')")
    page.fill("#map-word", "은행")
    page.fill("#map-sentences", "은행 이 금리 를 올렸다 .")
    page.wait_for_selector("#map-note:has-text('The text is in Hangul script')")
    assert page.locator("#map .axis").count() == 0  # of one occurrence there is no variance
    page.fill("#first", "The bank approved the loan .")
    page.wait_for_selector("#pair-note", state="hidden")


def test_a_table_that_scrolls_says_so(visit):
    page = visit.page(390)
    frame = page.locator(".frame")
    assert "more-right" in frame.get_attribute("class")
    assert "more-left" not in frame.get_attribute("class")
    assert page.is_visible(".more")
    page.focus(".scroll")
    page.evaluate("document.querySelector('.scroll').scrollLeft = 9999")
    page.wait_for_selector(".frame.more-left:not(.more-right)")
    wide = visit.page(1280)
    assert wide.is_hidden(".more")


CONTRASTS = """
() => {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const luminance = (color) => {
    context.fillStyle = color;
    context.fillRect(0, 0, 1, 1);
    const rgb = [...context.getImageData(0, 0, 1, 1).data].slice(0, 3).map((value) => value / 255)
      .map((value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    return 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2];
  };
  const shaded = document.querySelectorAll("#heat tbody td, #story tbody td, #surprisal li");
  return [...shaded].map((cell) => {
    const style = getComputedStyle(cell);
    const [a, b] = [luminance(style.color), luminance(style.backgroundColor)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  });
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_numbers_stand_out_from_their_colors(visit, scheme):
    page = visit.page(scheme=scheme)
    page.wait_for_selector("#surprisal li")
    found = page.evaluate(CONTRASTS)
    page.focus("#layer")
    page.keyboard.press("Home")
    found += page.evaluate(CONTRASTS)
    assert min(found) >= 4.4  # 4.5 but for the rounding of colors


def test_the_slider_and_the_mix_move_the_numbers(visit):
    page = visit.page()
    top = value(page, "bank", "bank")
    page.focus("#layer")
    page.keyboard.press("Home")
    assert value(page, "bank", "bank") == 1.0 != top  # layer 0 knows no context
    page.check("input[value=mix]")
    mixed = value(page, "bank", "bank")
    assert top < mixed < 1
    page.focus("[data-layer='2']")
    page.keyboard.press("End")
    assert value(page, "bank", "bank") < mixed  # more of the top
    cosine = value(page, "bank", "river")
    page.focus("#gamma")
    page.keyboard.press("End")
    assert value(page, "bank", "river") == cosine  # cosines do not know of gamma
    page.select_option("#measure", "dot")
    before = value(page, "bank", "bank")
    page.focus("#gamma")
    page.keyboard.press("Home")
    assert value(page, "bank", "bank") < before


def test_a_word_is_chosen_by_keyboard_and_told_about(visit):
    page = visit.page()
    page.focus("#heat tbody tr:nth-child(7) button")
    page.keyboard.press("Enter")
    page.wait_for_selector("#word > div:nth-child(2) li")
    assert page.locator("#word .columns > div").count() == 3
    assert "bank" in page.inner_text("#word .columns > div:nth-child(3) li:first-child")
    assert page.locator("#word > div:nth-child(2) li").count() == 8
    assert page.evaluate("document.activeElement.ariaPressed") == "true"  # the focus stays


def test_typing_reads_anew_and_markup_stays_text(visit):
    page = visit.page()
    page.fill("#first", "<img src=x onerror=alert(1)> bank")
    page.wait_for_selector("#heat tbody button:has-text('onerror')")
    assert page.locator("#heat img").count() == 0


def test_a_map_of_another_word(visit):
    page = visit.page()
    page.fill("#map-word", "bat")
    page.fill("#map-sentences", "He swung the bat .\nA bat flew by .\n")
    page.click("#map-form button")
    page.wait_for_selector("#map p:has-text('2 occurrences')")
    page.fill("#map-word", "nowhere")
    page.click("#map-form button")
    page.wait_for_selector("#map-problem:has-text('no sentence contains this word')")
    assert page.locator("#map *").count() == 0  # the picture of the other word is gone
    visit.complaints[:] = [c for c in visit.complaints if "422" not in c]  # the browser's own


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_sticks_out(visit, width, scheme):
    page = visit.page(width, scheme)
    page.check("input[value=mix]")
    page.click("#heat tbody button >> nth=6")
    page.wait_for_selector("#word > div:nth-child(2) li")
    page.wait_for_selector("#surprisal li")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.check("input[value=two]")
    page.wait_for_selector("#senses .measures")
    page.click("#senses summary")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_senses_of_the_example_are_a_noun_and_a_verb(visit):
    page = visit.page()
    page.wait_for_selector("#senses circle")
    assert "at 34 places" in page.inner_text("#senses > p")
    assert page.locator("#senses circle").count() == 34
    senses = page.locator("#senses .found .list > li").all_inner_texts()
    assert f"{len(senses)} senses" in page.inner_text("#senses > p")
    assert "played" in senses[0]
    assert "film" in senses[1]
    shares = [int(re.search(r"(\d+)%", sense)[1]) for sense in senses]
    assert abs(sum(shares) - 100) <= len(shares)
    assert set(page.locator("#senses .found mark").all_inner_texts()) == {"play"}
    assert page.is_hidden("#senses .all")
    page.focus("#senses summary")
    page.keyboard.press("Enter")
    assert page.locator("#senses .all li").count() == 34


def test_change_is_measured_between_two_texts(visit):
    page = visit.page()
    page.wait_for_selector("#senses circle")
    page.focus("input[value=one]")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#senses .measures")
    assert page.is_hidden("#senses-text")
    assert "17 places before and 17 places after" in page.inner_text("#senses > p")
    rows = page.locator(".measures tbody tr").all_inner_texts()
    assert [row[:3] for row in rows] == ["APD", "PRT", "JSD"]
    assert all("0.001" in row for row in rows)
    clouds = page.locator("#senses svg")
    assert [clouds.nth(i).locator("circle").count() for i in (0, 1)] == [17, 17]
    page.select_option("#senses-example", "1")
    page.wait_for_selector("#senses > p:has-text('“plant” at 20 places')")


def test_few_places_are_said_in_words_and_none_clears_the_picture(visit):
    page = visit.page()
    page.wait_for_selector("#senses circle")
    page.fill("#senses-text", "We play cards .\n<b>They</b> play chess .")
    page.wait_for_selector("#senses-note:has-text('2 places say little')")
    assert page.locator("#senses circle").count() == 2
    assert page.locator("#senses b").count() == 0  # markup stays text
    page.fill("#senses-text", "We play cards .\n" * 1300)  # long: only on request
    page.wait_for_selector("#senses circle", state="detached")
    page.click("#senses-form button")
    page.wait_for_selector("#senses circle")
    page.fill("#senses-text", "We play cards .")
    page.wait_for_selector("#senses-note:has-text('1 place says little')")
    page.fill("#senses-word", "nowhere")
    page.wait_for_selector("#senses-problem:has-text('no sentence contains this word')")
    assert page.locator("#senses *").count() == 0
    assert page.is_hidden("#senses-note")
    page.fill("#senses-word", "")
    page.wait_for_selector("#senses-problem:has-text('Enter a word and a text')")
    page.check("input[value=two]")
    page.fill("#senses-word", "play")
    page.fill("#senses-after", "They play .")
    page.wait_for_selector("#senses-problem:has-text('17 and 1 times; at least 5 places')")
    visit.complaints[:] = [c for c in visit.complaints if "422" not in c]  # the browser's own


def bits(page) -> dict[str, float]:
    """What stands under each word."""
    shown = (text.split("\n") for text in page.locator("#surprisal li").all_inner_texts())
    return {word: float(number) for word, number in shown}


def test_unexpected_words_are_shaded_by_their_bits(visit):
    page = visit.page()
    page.wait_for_selector("#surprisal li")
    before = bits(page)
    assert max(before, key=before.get) == "banana"
    assert "bits" in page.inner_text("#surprisal p")
    page.select_option("#surprisal-side", "surprisal_both")
    assert bits(page) != before
    title = page.get_attribute("#surprisal li:has-text('banana')", "title")
    assert f"before {before['banana']}, after" in title
    page.fill("#surprisal-sentence", "")
    page.wait_for_selector("#surprisal-problem:has-text('Write a sentence')")
    assert page.locator("#surprisal *").count() == 0


def test_without_a_softmax_surprisal_is_said_to_be_missing(visit):
    page = visit.page()

    def bare(route):
        found = {**route.fetch().json(), "has_substitutes": False}
        route.fulfill(json=found)

    page.route("**/ready", bare)
    page.reload()
    page.wait_for_selector("#surprisal:has-text('this model has no softmax')")
    assert page.is_hidden("#surprisal-sentence")
    page.wait_for_selector("#senses circle")
    assert page.locator("#surprisal li").count() == 0


def test_the_served_index_is_searched(visit):
    page = visit.page()
    page.fill("#query", "a boat on the river")
    page.keyboard.press("Enter")
    page.wait_for_selector("#hits li")
    assert "drifted down the river" in page.inner_text("#hits li:first-child")
    both = page.inner_text("#hits li:first-child .number")
    assert re.fullmatch(r"\S+:\d+ · score \(BM25 and cosine\) \d\.\d{3} · .*", both)
    page.focus("input[name=by]:checked")
    for unit in ("cosine", "BM25"):
        page.keyboard.press("ArrowRight")  # searches again
        page.wait_for_selector(f"#hits li:first-child .number:has-text('· {unit}')")
        assert "drifted down the river" in page.inner_text("#hits li:first-child")
    page.fill("#query", "nowhere")
    page.keyboard.press("Enter")
    page.wait_for_selector("#hits:has-text('No results.')")
    page.fill("#query", "")
    assert page.locator("#hits li").count() == 0
    page.click("#search-form button")
    page.wait_for_selector("#search-problem:has-text('Enter a query')")


def search(page, query: str) -> str:
    """Search and return the selector of the first hit."""
    page.fill("#query", query)
    page.keyboard.press("Enter")
    page.wait_for_selector("#hits li b")
    return "#hits li:first-child"


def test_a_hit_shows_its_best_sentence_its_words_and_why(visit):
    page = visit.page()
    first = search(page, "the MELTWATER of glacier")
    assert page.locator("#hits img").count() == 0
    assert page.inner_text(f"{first} mark") == "The glacier & its Meltwater are cold ."
    assert page.locator(f"{first} b").all_inner_texts() == ["The", "glacier", "Meltwater"]
    assert page.inner_text(f"{first} .passage").startswith("😀 <img src=x")
    found = re.search(r"(\d+)% by words, (\d+)% by meaning$", page.inner_text(f"{first} .number"))
    assert int(found[1]) + int(found[2]) == 100
    page.check("input[name=by][value=words]")
    page.wait_for_selector("#hits .number:has-text('· BM25')")
    assert "by meaning" not in page.inner_text("#hits")


def test_a_near_copy_is_counted(visit):
    page = visit.page()
    first = search(page, "orchestra symphony")
    assert page.inner_text(f"{first} .number").endswith(" · 1 near-copy left out")
    assert page.inner_text("#hits").lower().count("symphony") == 1


def test_of_a_long_passage_the_best_sentence_is_shown_until_the_whole_is_asked_for(visit):
    page = visit.page(390)
    first = search(page, "lighthouse")
    assert page.inner_text(f"{first} .passage").startswith("… ")
    assert len(page.inner_text(f"{first} .passage")) < 300
    assert page.inner_text(f"{first} mark") == "A lighthouse stands there ."
    page.focus(f"{first} button")
    page.keyboard.press("Enter")
    assert page.inner_text(f"{first} .passage").startswith("The valley is wide and green .")
    assert page.inner_text(f"{first} mark") == "A lighthouse stands there ."
    assert page.locator(f"{first} button").count() == 0
    assert page.evaluate("document.activeElement.className") == "passage"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_hits_fit_and_stand_out_from_their_marks(visit, width, scheme):
    page = visit.page(width, scheme)
    search(page, "the river and a glacier")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert min(page.evaluate(CONTRASTS.replace("#surprisal li", "#hits mark"))) >= 4.4


def test_a_missing_key_is_asked_for(visit):
    page = visit.page(key=None)
    page.wait_for_selector("#key-form:not([hidden])")
    page.fill("#key", KEY)
    page.keyboard.press("Enter")
    page.wait_for_selector("#heat td")
    assert page.is_hidden("#key-form")
    visit.complaints[:] = [c for c in visit.complaints if "401" not in c]  # the browser's own


def test_a_late_refusal_does_not_ask_for_the_key_again(visit):
    held = []
    page = visit.page(key=None, hold=held)
    page.wait_for_selector("#key-form:not([hidden])")
    for _ in range(300):  # the other requests may be refused before this one is sent
        if held:
            break
        page.wait_for_timeout(100)
    page.fill("#key", KEY)
    page.keyboard.press("Enter")
    page.wait_for_selector("#heat td")
    (route,) = held  # sent without the key, answered only now
    assert "authorization" not in route.request.headers
    route.fulfill(status=401, json={"error": {"message": "give the key"}})
    page.wait_for_timeout(300)
    assert page.is_hidden("#key-form")
    visit.complaints[:] = [c for c in visit.complaints if "401" not in c]  # the browser's own
