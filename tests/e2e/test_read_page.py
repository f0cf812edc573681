"""The page's second view in a real browser: a text, its marks, its roles, and questions on it."""

import shutil
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import canned_tasks
from tests.support.canned_tasks import TASKS
from tests.support.serving import EXTRA, live
from tests.support.toy_tasks import TOYS, train_toy

pytest.importorskip("fastapi", reason=EXTRA)
sync_api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="apt-get install chromium")
ARGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


@pytest.fixture(scope="module")
def url(tiny):
    from relmo.serve.app import create_app

    with live(create_app(tiny)) as url:
        yield url


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        yield browser
        browser.close()


@pytest.fixture
def visit(url, browser):
    """Open the page beside models that give canned answers; nothing may be complained of."""
    contexts, complaints, outside = [], [], []

    def visit(view="#read", tasks=TASKS, width=1280, scheme="light", predict=canned_tasks.predict):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda r: outside.append(r.url) if url not in r.url else None)
        page.route("**/tasks", lambda route: route.fulfill(json={"tasks": tasks}))
        page.route("**/predict/*", lambda route: answer(route, tasks, predict))
        page.goto(url + view)
        return page

    yield SimpleNamespace(page=visit, complaints=complaints)
    for context in contexts:
        context.close()
    assert complaints == []
    assert outside == []


def answer(route, tasks: list[dict[str, Any]], predict) -> None:
    """Answer as POST /predict/NAME does; a string is the message of an error."""
    name = route.request.url.rpartition("/")[2]
    (task,) = [task for task in tasks if task["name"] == name]
    (given,) = route.request.post_data_json["inputs"]
    found = predict(name, given)
    if isinstance(found, str):
        detail = {"message": found, "type": "invalid_request_error", "param": None, "code": None}
        route.fulfill(status=422, json={"error": detail})
    else:
        route.fulfill(json={"model": name, "task": task["task"], "results": [found]})


def only(*kinds: str) -> list[dict[str, Any]]:
    """Some of the tasks."""
    return [task for task in TASKS if task["task"] in kinds]


def words_of(mark) -> str:
    """The words of a mark, without its label or number."""
    return mark.evaluate(
        "mark => { const own = mark.cloneNode(true);"
        " own.querySelectorAll('.tag').forEach((tag) => tag.remove()); return own.textContent; }"
    )


def read(page, text: str) -> None:
    """Put a text into the field and press the button."""
    page.fill("#read-text", text)
    page.click("#read-form .row > button:text-is('Read')")


# ── the two views ───────────────────────────────────────────────────────────────────────────────


def test_without_task_models_there_is_one_view(visit):
    page = visit.page(tasks=[])
    page.wait_for_selector("#heat td")
    assert page.is_hidden("nav")
    assert page.is_hidden("#read-text")
    assert page.title() == "relmo: words in context"


def test_the_views_follow_the_address_and_the_back_button(visit):
    page = visit.page("")
    page.wait_for_selector("#heat td")
    assert page.is_hidden("#read-text")
    page.focus("nav a >> nth=1")
    page.keyboard.press("Enter")
    page.wait_for_selector("#read-shown .entity")
    assert page.url.endswith("#read")
    assert page.title() == "relmo: read a text"
    assert page.is_hidden("#heat")
    assert page.get_attribute("nav a >> nth=1", "aria-current") == "page"
    assert page.get_attribute("nav a >> nth=0", "aria-current") is None
    page.go_back()
    page.wait_for_selector("#heat td")
    assert page.is_hidden("#read-text")
    page.go_forward()
    page.wait_for_selector("#read-shown .entity")


def test_a_link_to_reading_asks_nothing_about_words(visit, url):
    page = visit.page("")
    asked = []
    page.on("request", lambda request: asked.append(request.url.removeprefix(url)))
    page.goto("about:blank")
    page.goto(url + "/#read")
    page.wait_for_selector("#read-shown .entity")
    assert "/embed_tokens" not in asked


def test_models_of_the_same_kind_are_told_apart_by_their_names(visit):
    (english,) = only("ner")
    page = visit.page(tasks=[english, {**english, "name": "my-run"}, *only("pos")])
    page.wait_for_selector("#read-shown .entity .entity")
    titles = page.locator("#read-tasks label").all_inner_texts()
    assert [title.strip() for title in titles] == [
        "Entities (relmo-en-ner)", "Entities (my-run)", "Parts of speech",
    ]  # fmt: skip


# ── marks ───────────────────────────────────────────────────────────────────────────────────────


def test_entities_are_marked_with_their_labels_and_counted(visit):
    page = visit.page(tasks=only("ner"))
    page.wait_for_selector("#read-shown .entity")
    marks = page.locator("#read-shown .entity").all()
    assert [words_of(mark) for mark in marks[:3]] == [
        "European Central Bank", "Maria Keller", "Frankfurt",
    ]  # fmt: skip
    assert page.locator("#read-shown .entity .tag").all_inner_texts()[:3] == ["ORG", "PER", "LOC"]
    assert page.locator("#read-legend .chip").all_inner_texts() == ["PER 3", "LOC 5", "ORG 1"]
    page.hover("#read-shown .entity >> nth=1")
    assert page.inner_text("#read-status") == "“Maria Keller”: PER, score 0.97"


def test_emoji_before_an_entity_do_not_shift_it(visit):
    page = visit.page(tasks=only("ner", "squad"))
    read(page, "🎉🇪🇺👩‍🚀 Paolo Ricci left 𝔅erlin 😀 for Brussels.")
    page.wait_for_selector("#read-shown:has-text('𝔅erlin') .entity:has-text('Brussels')")
    marks = page.locator("#read-shown .entity").all()
    assert [words_of(mark) for mark in marks] == ["Paolo Ricci", "Brussels"]
    page.fill(".question", "Where is he?")
    page.click(".ask button")
    page.wait_for_selector("#read-shown .answer")
    assert words_of(page.locator("#read-shown .answer")) == "Brussels"


def test_markup_and_quotes_stay_text(visit):
    text = (
        """<script>alert(1)</script> "Paolo Ricci" <img src=x onerror='alert("2")'> & <b>it</b>"""
    )

    def predict(name, given):
        found = canned_tasks.predict(name, given)
        if name.endswith("ner"):
            found[0]["label"] = "<i>PER</i>"
        return found

    page = visit.page(tasks=only("ner"), predict=predict)
    read(page, text)
    page.wait_for_selector("#read-shown:has-text('alert') .tag:has-text('<i>PER</i>')")
    assert words_of(page.locator("#read-shown")) == text
    assert page.locator("main script, main img, #read-result b, #read-result i").count() == 0


def test_mentions_inside_mentions_are_numbered_and_light_up_together(visit):
    page = visit.page(tasks=only("coref"))
    page.wait_for_selector("#read-shown .mention .mention")
    inner = page.locator("#read-shown .mention .mention").first
    outer = page.locator("#read-shown .mention:has(.mention)").first
    assert (words_of(inner), words_of(outer)) == ("Its", "Its president, Maria Keller,")
    bottoms = [mark.evaluate("m => m.getClientRects()[0].bottom") for mark in (inner, outer)]
    assert bottoms[0] + 3 <= bottoms[1]  # both lines are seen
    inner.hover()
    lit = page.locator("#read-shown .mention.lit").all()
    assert [words_of(each) for each in lit] == [
        "The European Central Bank", "Its", "the bank", "the bank's",
    ]  # fmt: skip
    status = page.inner_text("#read-status")
    assert "“Its”: 2 of 4 mentions of 1 (The European Central Bank), score 0.88" in status
    assert "of 2 (Its president, Maria Keller)" in status  # of the mention around it too
    page.focus("#read-legend button >> nth=1")
    assert {each.inner_text()[-1] for each in page.locator("#read-shown .lit > sup").all()} == {"2"}


def test_spans_that_cross_are_cut_and_none_is_lost(visit):
    def predict(name, given):
        starts = [(0, 7), (4, 13), (4, 13), (8, 9), (0, 99)]
        return [{"text": given[a:b], "label": f"L{n}", "start": a, "end": b, "score": 0.5}
                for n, (a, b) in enumerate(starts)]  # fmt: skip

    page = visit.page(tasks=only("ner"), predict=predict)
    read(page, "one two three four\nfive")
    page.wait_for_selector("#read-shown:has-text('one two') .tag:has-text('L3')")
    assert words_of(page.locator("#read-shown")) == "one two three four\nfive"
    tags = page.locator("#read-shown .tag").all_inner_texts()
    assert sorted(tags) == ["L0", "L1", "L2", "L3", "L4"]  # once each, after the last piece


def test_tags_stand_with_their_words_once_switched_on(visit):
    page = visit.page(tasks=only("ner", "pos"))
    page.wait_for_selector("#read-shown .entity")
    assert page.locator("#read-shown ruby").count() == 0
    page.check("text=Parts of speech")
    page.wait_for_selector("#read-shown ruby")
    assert page.inner_text("#read-shown ruby:has-text('raised') rt") == "VERB"
    page.uncheck("text=Parts of speech")
    page.wait_for_selector("#read-shown ruby", state="detached")
    assert page.locator("#read-shown .entity").count() == 9


def test_words_with_tags_fill_their_lines(visit):
    page = visit.page(tasks=only("ner", "pos"))
    page.check("text=Parts of speech")
    read(page, f"Ada (Reuters) {'word ' * 60}")
    page.wait_for_function("document.querySelectorAll('#read-shown ruby').length === 62")
    places = page.evaluate(
        "[...document.querySelectorAll('#read-shown ruby')].map((r) => r.getBoundingClientRect().y)"
    )
    assert sum(abs(place - places[0]) < 3 for place in places) > 8


# ── roles ───────────────────────────────────────────────────────────────────────────────────────


def roles(page) -> list[tuple[str, str]]:
    """The pieces of the panel and their labels."""
    found = page.locator(".roles .argument").all()
    return [(words_of(each), each.locator("> .tag").inner_text()) for each in found]


def test_a_verb_shows_its_roles_below_its_sentence(visit):
    page = visit.page(tasks=only("srl"))
    page.click("#read-shown .predicate:text-is('raised')")
    assert roles(page) == [
        ("The European Central Bank", "ARG0, who or what acts"), ("raised", "V"),
        ("its interest rates", "ARG1, who or what is affected"),
        ("on Thursday", "ARGM-TMP, time"),
    ]  # fmt: skip
    before = page.locator(".roles").evaluate("panel => panel.previousElementSibling.textContent")
    assert before.strip().endswith("third time this year.")
    page.hover(".roles .argument >> nth=3")
    assert page.inner_text("#read-status") == "“on Thursday”: ARGM-TMP, time, score 0.91"
    page.click("#read-shown .predicate:text-is('criticized')")
    assert page.locator(".roles").count() == 1
    assert roles(page)[1] == ("criticized", "V")
    page.click(".roles button")
    assert page.locator(".roles").count() == 0
    assert page.evaluate("document.activeElement.textContent") == "criticized"


def test_marks_are_reached_by_the_keyboard(visit):
    page = visit.page(tasks=only("srl", "ner"))
    page.wait_for_selector("#read-shown .predicate")
    page.focus("#read-form .row > button:text-is('Read')")
    page.keyboard.press("Tab")  # the text is one stop, whatever is marked in it
    assert page.inner_text("#read-status").startswith("“European Central Bank”: ORG")
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(outline) == "solid"
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#read-status") == "“raised”: 3 roles, score 0.99"
    assert page.evaluate("document.activeElement.ariaPressed") == "false"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.ariaPressed") == "true"
    assert page.locator(".roles .argument").count() == 4
    page.keyboard.press("ArrowRight")
    assert "ARG0" in page.inner_text("#read-status")
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")  # back to where it was
    assert page.evaluate("document.activeElement.tabIndex") == 0


# ── questions, pairs and labels ─────────────────────────────────────────────────────────────────


def test_the_answer_to_a_question_is_marked_in_the_text(visit):
    page = visit.page(tasks=only("squad"))
    page.wait_for_selector("#read-shown .answer")  # of the example's question
    assert page.inner_text(".reply") == "Answer: Brussels score 0.83"
    page.click(".reply button")
    assert page.evaluate("document.activeElement.className") == "answer"
    page.fill(".question", "Who paid?")
    page.keyboard.press("Enter")
    page.wait_for_selector(".reply:has-text('No answer found in this text.')")
    assert page.locator("#read-shown .answer").count() == 0
    page.fill(".question", " ")
    page.keyboard.press("Enter")
    page.wait_for_selector(".ask .problem:has-text('Enter a question.')")


def test_an_answer_goes_with_its_text(visit):
    page = visit.page(tasks=only("squad", "ner"))
    page.wait_for_selector("#read-shown .answer")
    page.fill("#read-text", "Paolo Ricci left Brussels.")
    page.wait_for_selector("#read-legend:has-text('PER 1')")
    assert page.locator("#read-shown .answer").count() == 0
    assert page.inner_text(".reply") == ""


def test_two_sentences_are_compared(visit):
    page = visit.page(tasks=only("snli"))
    page.wait_for_selector("#read-pairs .bars li")
    assert "follow from the first" in page.inner_text("#read-pairs h2")
    assert page.locator("#read-pairs .bars li").all_inner_texts() == [
        "entailment\n71%", "neutral\n22%", "contradiction\n7%",
    ]  # fmt: skip
    assert page.inner_text("#read-pairs .chosen") == "entailment\n71%"
    page.fill("textarea[name=hypothesis]", "")
    page.click("#read-pairs button")
    page.wait_for_selector("#read-pairs .problem:has-text('Enter a premise and a hypothesis.')")
    assert page.locator("#read-pairs .bars").count() == 0


def test_labels_of_a_text_are_bars(visit):
    page = visit.page(tasks=only("multilabel"))
    page.wait_for_selector("#read-legend .bars")
    assert page.inner_text("#read-legend dt") == "Emotion"
    chosen = page.locator("#read-legend .bars .chosen").all_inner_texts()
    assert chosen == ["negative\n62%", "neutral\n55%"]
    assert page.locator("#read-legend .bars li").count() == 4


@pytest.mark.parametrize(
    ("found", "said"), [(None, "There are no words to label."), ([], "No label fits.")]
)
def test_no_label_is_said_in_words(visit, found, said):
    page = visit.page(tasks=only("multilabel"), predict=lambda name, given: found)
    page.wait_for_selector(f"#read-legend:has-text('{said}')")


@pytest.mark.parametrize("width", [390, 1280])
def test_what_is_said_of_a_verb_does_not_lie_over_it(visit, width):
    page = visit.page(tasks=only("srl"), width=width)
    verb = page.locator("#read-shown .predicate").last
    verb.wait_for()
    for place in ("below", "above"):  # at the lower and at the upper edge of the window
        page.evaluate(
            "([verb, place]) => { const box = verb.getBoundingClientRect(); scrollBy(0,"
            " place === 'below' ? box.bottom - innerHeight + 4 : box.top - 4); }",
            [verb.element_handle(), place],
        )
        verb.hover()
        page.wait_for_selector("#read-status:not(:empty)")
        said, word = page.locator("#read-status").bounding_box(), verb.bounding_box()
        assert said["y"] >= word["y"] + word["height"] or said["y"] + said["height"] <= word["y"]
        page.mouse.down()
        page.mouse.up()
        page.wait_for_function("verb => verb.ariaPressed === 'true'", arg=verb.element_handle())
        page.mouse.down()
        page.mouse.up()


# ── what goes wrong ─────────────────────────────────────────────────────────────────────────────


def test_an_error_of_one_model_is_named_and_the_others_are_shown(visit):
    too_long = "expected at most 100 words, got 101"

    def predict(name, given):
        is_long = name.endswith(("coref", "srl")) and "101" in given
        return too_long if is_long else canned_tasks.predict(name, given)

    page = visit.page(tasks=only("ner", "srl", "coref"), predict=predict)
    page.wait_for_selector("#read-shown .predicate")
    page.fill("#read-text", "Paolo Ricci is 101.")
    page.wait_for_selector(f"#read-problem:has-text('Coreference, Roles: {too_long}')")
    page.wait_for_selector("#read-shown .entity")
    assert page.locator("#read-shown .predicate").count() == 0
    page.fill("#read-text", "Paolo Ricci is 10.")
    page.wait_for_selector("#read-problem", state="hidden")
    visit.complaints[:] = [c for c in visit.complaints if "422" not in c]  # the browser's own


def test_while_one_model_reads_the_error_of_another_is_shown(visit, url):
    page = visit.page(tasks=only("ner", "srl"))
    page.wait_for_selector("#read-shown .predicate")
    waiting = []
    page.route("**/predict/*ner", lambda route: waiting.append(route))
    page.route("**/predict/*srl", lambda route: answer(route, TASKS, lambda *_: "too long"))
    page.fill("#read-text", "Paolo Ricci sang.")
    page.wait_for_selector("#read-problem:has-text('too long')")
    page.wait_for_selector("#read-legend:has-text('reading …')")
    assert page.inner_text("#read-shown") == "Paolo Ricci sang."
    answer(waiting[0], TASKS, canned_tasks.predict)
    page.wait_for_selector("#read-shown .entity")
    visit.complaints[:] = [c for c in visit.complaints if "422" not in c]  # the browser's own


def test_a_server_that_is_down_is_said_once(visit):
    page = visit.page(tasks=only("ner", "srl", "squad"))
    page.wait_for_selector("#read-shown .predicate")
    page.unroute("**/predict/*")
    page.route("**/predict/*", lambda route: route.abort())
    page.fill("#read-text", "Paolo Ricci left.")
    page.wait_for_selector("#read-problem p")
    page.wait_for_function("document.querySelector('#read-legend').textContent.includes('–')")
    assert page.inner_text("#read-problem") == "The server does not respond."
    page.click(".ask button")
    page.wait_for_selector(".ask .problem:has-text('The server does not respond.')")
    page.unroute("**/predict/*")
    page.route("**/predict/*", lambda route: answer(route, TASKS, canned_tasks.predict))
    page.click("#read-form .row > button:text-is('Read')")  # asks again what failed
    page.wait_for_selector("#read-shown .entity")
    assert page.is_hidden("#read-problem")
    visit.complaints[:] = [c for c in visit.complaints if "ERR_FAILED" not in c]


def test_an_emptied_text_leaves_no_picture(visit):
    page = visit.page(tasks=only("ner", "squad"))
    page.wait_for_selector("#read-shown .answer")
    page.fill("#read-text", " \n ")
    page.wait_for_selector("#read-problem:has-text('Enter a text.')")
    assert page.is_hidden("#read-result")
    assert page.inner_text(".reply") == ""


# ── size and looks ──────────────────────────────────────────────────────────────────────────────


def test_five_thousand_words_are_read_on_request(visit):
    page = visit.page(tasks=only("ner", "pos", "coref"), predict=many)
    page.wait_for_selector("#read-shown .entity")
    page.check("text=Parts of speech")
    text = "\n".join(["Ada met Bo and she told him of her day in Rome. " * 25] * 18)  # 5,400 words
    page.fill("#read-text", text)
    page.wait_for_selector("#read-result", state="hidden")
    page.click("#read-form .row > button:text-is('Read')")
    page.wait_for_selector("#read-legend:has-text('and 13 more')")
    page.wait_for_function("document.querySelectorAll('#read-shown ruby').length > 5000")
    assert page.locator("#read-shown .entity").count() == 450
    spent = page.evaluate(
        "() => { const box = document.querySelector('#show-relmo-en-ner');"
        " const from = performance.now(); box.click(); return performance.now() - from; }"
    )
    assert spent < 3000  # milliseconds to draw it all again, on a busy machine
    page.hover("#read-shown .mention >> nth=0")
    assert page.locator("#read-shown .lit").count() == 18


def many(name: str, given: str):
    """Marks all over a text: a name in each sentence, 25 clusters."""
    if name.endswith("pos"):
        return canned_tasks.tag_tokens(given)
    places = [n for n in range(len(given)) if given.startswith("Ada", n)]
    marks = [{"text": "Ada", "start": n, "end": n + 3, "score": 0.9} for n in places]
    if name.endswith("coref"):
        return [{"mentions": marks[n::25]} for n in range(25) if marks[n::25]]
    return [{**mark, "label": "PER"} for mark in marks] or canned_tasks.find_entities(given)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_sticks_out(visit, width, scheme):
    page = visit.page(width=width, scheme=scheme)
    page.wait_for_selector("#read-shown .answer")
    page.check("text=Parts of speech")
    page.wait_for_selector("#read-shown ruby")
    page.click("#read-shown .predicate:has-text('told')")
    page.wait_for_selector(".roles .argument")
    page.wait_for_selector("#read-pairs .bars")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    read(page, "x" * 400 + " " + "Paolo Ricci")
    page.wait_for_selector("#read-shown .line:has-text('xxxx')")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


CONTRASTS = """
() => {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const luminance = (color) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = color;
    context.fillRect(0, 0, 1, 1);
    const rgb = [...context.getImageData(0, 0, 1, 1).data].slice(0, 3).map((value) => value / 255)
      .map((value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    return 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2];
  };
  const contrast = (one, other) => {
    const [a, b] = [luminance(one), luminance(other)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  };
  const behind = (element) => {
    const color = getComputedStyle(element).backgroundColor;
    return /, 0\\)|\\/ 0\\)/.test(color) ? behind(element.parentElement) : color;
  };
  const all = (chosen) => [...document.querySelectorAll(chosen)];
  return {
    texts: all("#read-result .tag, #read-result mark, .predicate, #read-legend *, nav a, .reply *")
      .filter((each) => each.textContent)
      .map((each) => contrast(getComputedStyle(each).color, behind(each))),
    lines: all("#read-shown .mention").map((each) =>
      contrast(getComputedStyle(each).borderBottomColor, behind(each.parentElement))),
  };
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_marks_stand_out_from_their_colors(visit, scheme):
    def predict(name, given):  # a label and a cluster of each color
        found = canned_tasks.predict(name, given)
        if name.endswith("ner"):
            return [{**each, "label": f"L{n}"} for n, each in enumerate(found)]
        if name.endswith("coref"):
            return [{"mentions": [each]} for each in canned_tasks.tag_tokens(given)[:8]]
        return found

    page = visit.page(scheme=scheme, predict=predict)
    page.wait_for_selector("#read-shown .answer")
    page.check("text=Parts of speech")
    page.wait_for_selector("#read-shown ruby")
    page.click("#read-shown .predicate:has-text('told')")
    page.wait_for_selector("#read-shown .mention")
    found = page.evaluate(CONTRASTS)
    assert len(found["lines"]) == 8
    assert min(found["texts"]) >= 4.5
    assert min(found["lines"]) >= 3


# ── spans ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def spans(url, browser):
    """Call a function of spans.js."""
    page = browser.new_page()
    page.route("**/tasks", lambda route: route.fulfill(json={"tasks": []}))
    page.goto(url)

    def call(work: str, *given):
        return page.evaluate(
            f"async (given) => {{ const s = await import('/static/spans.js');"
            f" return ({work})(...given); }}",
            list(given),
        )

    yield call
    page.close()


@pytest.mark.parametrize("text", ["", "plain", "😀", "a😀b", "𝔘𝔫𝔦🇪🇺é", "שלום 🎉 العربية", "👩‍🚀."])
def test_offsets_of_code_points_become_those_of_units(spans, text):
    offsets = list(range(len(text) + 1))
    found = spans("(text, all) => all.map(s.unitOffsets(text))", text, offsets)
    assert found == [len(text[:n].encode("utf-16-le")) // 2 for n in offsets]


def test_offsets_beyond_a_text_are_its_ends(spans):
    assert spans("(text, all) => all.map(s.unitOffsets(text))", "a😀", [-1, 2, 9]) == [0, 3, 3]


NEST = """(pairs) => {
  const plain = (nodes) => nodes.map((node) =>
    [node.span.name, node.start, node.end, node.isFirst, node.isLast, plain(node.inside)]);
  return plain(s.nest(pairs.map(([name, start, end]) => ({ name, start, end }))));
}"""


def test_spans_are_nested_by_their_size_and_then_by_their_order(spans):
    whole = (True, True)  # the first and the last piece of its span
    assert spans(NEST, [["a", 0, 3], ["b", 0, 9], ["c", 0, 3], ["d", 4, 4], ["e", 4, 9]]) == [
        ["b", 0, 9, *whole, [
            ["a", 0, 3, *whole, [["c", 0, 3, *whole, []]]],
            ["e", 4, 9, *whole, []],
        ]],
    ]  # fmt: skip


def test_a_span_across_an_end_is_cut_there(spans):
    assert spans(NEST, [["a", 0, 5], ["b", 3, 8], ["c", 5, 9]]) == [
        ["a", 0, 5, True, True, [["b", 3, 5, True, False, []]]],
        ["c", 5, 9, True, True, [["b", 5, 8, False, True, []]]],
    ]


SENTENCES = "(text, given) => s.sentences(text, s.lines(text), given).map((e) => [e.start, e.end])"


def test_sentences_cut_no_span(spans):
    text = "It rained. Mr. Smith left. He sang.\n\nShe slept."
    free = spans(SENTENCES, text, [])
    assert [text[a:b] for a, b in (free[0], free[-1])] == ["It rained. ", "She slept."]
    kept = spans(SENTENCES, text, [{"start": 11, "end": 20}, {"start": 12, "end": 30}])
    assert [text[a:b].strip() for a, b in kept] == [
        "It rained.", "Mr. Smith left. He sang.", "She slept.",
    ]  # fmt: skip


def test_models_that_are_really_served_mark_a_text(tiny, browser, tmp_path):
    from relmo.serve.app import create_app
    from relmo.serve.task_models import load_tasks

    data = TOYS["ner"].write_parts(tmp_path / "data")
    train_toy("ner", data, tmp_path / "names", tiny, "training.epochs=16")
    tasks = load_tasks([str(tmp_path / "names")], tiny)
    complaints = []
    with live(create_app(tiny, tasks=tasks)) as url:
        page = browser.new_page()
        page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        page.goto(url + "#read")
        page.fill("#read-text", "😀 the ada inc in rome")
        page.wait_for_selector("#read-shown .entity:has-text('ada inc')")
        page.close()
    assert complaints == []
