"""What relmo info says of a model's training."""

import pytest

from relmo.cli.model_tables import training_summary


@pytest.mark.parametrize(
    ("seen", "shown"),
    [
        (617_000_000, "617 M"),
        (1_540_000, "1.5 M"),
        (999_400, "999 k"),
        (27_648, "28 k"),
        (512, "512"),
    ],
)
def test_tokens_are_counted_in_a_unit_that_fits(seen, shown):
    assert training_summary({"steps": 27, "tokens_seen": seen}) == f"27 steps, {shown} tokens"


def test_a_tuned_model_names_the_one_it_began_from():
    said = training_summary({"began_from": "relmo-en-small", "steps": 27})
    assert said == "began from relmo-en-small, 27 steps"
