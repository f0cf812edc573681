"""Senses found by the bundled model in sentences written for it."""

import pytest

from relmo import Elmo
from relmo.senses.senses import find_senses

PEOPLE = ["the farmers", "my brothers", "her friends", "the soldiers", "his parents", "our guests"]
NOUN = ["They read the {} of the committee in {} .", "The new {} of the agency appeared in {} ."]
VERB = ["{} {} that prices will rise .", "{} {} that nothing was found ."]
MONTHS = ["May", "June", "July", "August", "March", "April"]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    lines = [form.format("report", month) for form in NOUN for month in MONTHS]
    lines += [form.format(who.capitalize(), "report") for form in VERB for who in PEOPLE]
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(lines))
    return path


def test_a_noun_and_a_verb_are_two_senses(text):
    found = find_senses(Elmo.from_pretrained("relmo-en-small"), "report", [text], threshold=0.0)
    by_sense = {(int(label), "that" in place.text) for label, place in
                zip(found.labels, found.places, strict=True)}  # fmt: skip
    assert len(found.senses) >= 2
    assert len(by_sense) == len(found.senses)  # none has both
    assert sum(sense.places for sense in found.senses) == 24
    verb = next(s for s in found.senses if "that" in s.examples[0].text)
    assert {"say", "said", "believe", "think", "reported", "claim", "says"} & set(verb.substitutes)
