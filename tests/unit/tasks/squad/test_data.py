"""SQuAD's JSON: answers become spans of tokens, and what is wrong is named."""

import json

import pytest

from relmo.errors import DataError, TextError
from relmo.tasks.squad.data import answer_spans, read_questions, split_by_title

CONTEXT = "Ada's cat, Mo 🐈, sat on the well-known mat in 1843."


def qa(name="q1", text="Mo", start=11, question="Who sat?"):
    return {"id": name, "question": question, "answers": [{"text": text, "answer_start": start}]}


def squad(*qas, context=CONTEXT, title="Cats"):
    return {"data": [{"title": title, "paragraphs": [{"context": context, "qas": list(qas)}]}]}


@pytest.fixture
def write(tmp_path):
    def write(content, encoding="utf-8"):
        path = tmp_path / "squad.json"
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        path.write_bytes(text.encode(encoding))
        return path

    return write


def answer_of(path):
    (question,) = read_questions(path)
    (answer,) = question.answers
    return question, answer


def test_an_answer_is_the_tokens_that_cover_it(write):
    question, answer = answer_of(write(squad(qa(text="on the", start=21))))
    assert question.context.words[answer.first_token : answer.last_token + 1] == ("on", "the")
    assert question.context.span_text(answer.first_token, answer.last_token) == "on the"
    assert (question.id, question.title, question.words) == ("q1", "Cats", ("Who", "sat", "?"))


def test_tokens_after_an_emoji_stand_where_the_text_says(write):
    question, answer = answer_of(write(squad(qa(text="1843", start=CONTEXT.index("1843")))))
    assert question.context.span_text(answer.first_token, answer.last_token) == "1843"


def test_an_answer_inside_a_token_is_the_whole_token(write):
    path = write(squad(qa(text="known mat", start=CONTEXT.index("known"))))
    question, answer = answer_of(path)
    assert question.context.span_text(answer.first_token, answer.last_token) == "well-known mat"
    assert answer.text == "known mat"


def test_white_space_around_an_answer_takes_in_no_other_token(write):
    path = write(squad(qa(text=" sat ", start=CONTEXT.index(" sat "))))
    question, answer = answer_of(path)
    assert question.context.span_text(answer.first_token, answer.last_token) == "sat"


def test_the_start_says_which_of_equal_texts_is_meant(write):
    context = "Mo saw Mo."
    first, second = qa("a", start=0), qa("b", start=7)
    questions = read_questions(write(squad(first, second, context=context)))
    assert [q.answers[0].first_token for q in questions] == [0, 2]


def test_questions_of_a_paragraph_share_its_tokens(write):
    a, b = read_questions(write(squad(qa("a"), qa("b", text="sat", start=17))))
    assert a.context is b.context


def test_all_answers_of_a_question_are_kept_in_order(write):
    question = qa()
    question["answers"].append({"text": "cat", "answer_start": 6})
    (read,) = read_questions(write(squad(question)))
    assert [answer.text for answer in read.answers] == ["Mo", "cat"]


def test_a_byte_order_mark_and_crlf_are_read(write):
    text = json.dumps(squad(qa()), indent=1).replace("\n", "\r\n")
    assert len(read_questions(write(text, "utf-8-sig"))) == 1


def test_a_file_without_articles_has_no_questions(write):
    questions = read_questions(write({"data": []}))
    assert questions == ()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"squad.json, line 1: invalid JSON .* is the file complete"),
        ('{"data":\n [}', r"squad.json, line 2: invalid JSON"),
        ([], "top level: expected an object with 'data', got a list"),
        ({"version": "1.1"}, "top level: expected a list for 'data', which is missing"),
        ({"data": [{"title": 5}]}, r"data\[0\]: expected a string for 'title', got an integer"),
        (
            squad({"question": "?"}),
            r"data\[0\].paragraphs\[0\].qas\[0\]: expected a string for 'id', which is missing",
        ),
        (
            squad({"id": "q7"}),
            "squad.json, question 'q7': expected a string for 'question', which is missing",
        ),
        (
            squad(qa("q7", start=True)),
            "question 'q7': expected an integer for 'answer_start', got True",
        ),
        (squad(qa("q7", start=12)), "question 'q7': 'Mo' is not at character 12"),
        (squad(qa("q7", start=-3)), "question 'q7': 'Mo' is not at character -3"),
        (squad(qa("q7", text="", start=3)), "question 'q7': the answer '' contains no token"),
        (squad(qa("q7", text=" ", start=5)), "question 'q7': the answer ' ' contains no token"),
        (squad(qa("q7"), qa("q7")), "question 'q7': duplicate id"),
        (squad(qa("q7") | {"answers": []}), "question 'q7': no answers; expected SQuAD 1.1"),
    ],
)
def test_what_is_wrong_is_named_by_file_and_place(write, content, message):
    with pytest.raises(DataError, match=message):
        read_questions(write(content))


def test_a_file_that_cannot_be_read_is_named(tmp_path, write):
    with pytest.raises(TextError, match="none.json: cannot be read"):
        read_questions(tmp_path / "none.json")
    with pytest.raises(DataError, match="squad.json, line 2: not UTF-8"):
        read_questions(write('{"data":\n "é"}', "latin-1"))


def articles(num):
    return {"data": [squad(qa(f"q{n}"), title=f"Title {n}")["data"][0] for n in range(num)]}


def test_articles_are_held_out_by_title_alone(write):
    questions = read_questions(write(articles(200)))
    train, held_out = split_by_title(questions, 0.25)
    assert 30 < len(held_out) < 70
    assert {q.id for q in train} | {q.id for q in held_out} == {q.id for q in questions}
    half = split_by_title(questions[:100], 0.25)
    assert half[1] == [q for q in held_out if q in set(questions[:100])]


def test_an_article_is_never_in_both_parts(write):
    twice = articles(50)
    for n, article in enumerate(twice["data"]):
        article["paragraphs"][0]["qas"].append(qa(f"other {n}"))
    train, held_out = split_by_title(read_questions(write(twice)), 0.5)
    assert not {q.title for q in train} & {q.title for q in held_out}


def test_all_or_nothing_can_be_held_out(write):
    questions = read_questions(write(articles(20)))
    assert split_by_title(questions, 0.0) == (list(questions), [])
    assert split_by_title(questions, 1.0) == ([], list(questions))


def test_the_words_of_an_answer_are_found_wherever_they_stand(write):
    context = "Mo Mo sat, Mo Mo sat; Mo sat."
    path = write(squad(qa(text="Mo sat", start=3), context=context))
    (question,) = read_questions(path)
    assert answer_spans(question, everywhere=False) == [(1, 2)]
    assert answer_spans(question, everywhere=True) == [(1, 2), (5, 6), (8, 9)]


def test_an_answer_that_several_people_gave_is_one_span(write):
    given = qa(text="Mo", start=0)
    given["answers"] += [{"text": "Mo", "answer_start": 0}, {"text": "Mo sat", "answer_start": 0}]
    (question,) = read_questions(write(squad(given, context="Mo sat. Mo ran.")))
    assert answer_spans(question, everywhere=False) == [(0, 0), (0, 1)]
    assert answer_spans(question, everywhere=True) == [(0, 0), (3, 3), (0, 1)]
