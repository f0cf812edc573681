"""Settings of an index are checked, and read back as they were stored."""

import pytest

from relmo.errors import ConfigError
from relmo.search.settings import IndexSettings


@pytest.mark.parametrize(
    "wrong",
    [{"layer": "all"}, {"weighting": "idf"}, {"isotropy": "x"}, {"remove": -1}, {"max_words": 0}],
)
def test_settings_are_checked(wrong):
    with pytest.raises(ConfigError):
        IndexSettings(**wrong)


def test_settings_of_a_newer_relmo_are_rejected():
    kept = IndexSettings().to_json()
    assert IndexSettings.from_json(kept) == IndexSettings()
    with pytest.raises(ConfigError, match="build the index again"):
        IndexSettings.from_json(kept.replace('"version": 3', '"version": 4'))


def test_an_unknown_unit_is_reported_with_the_choices():
    with pytest.raises(ConfigError, match="one of auto, paragraph, sentence, line, window"):
        IndexSettings(passages="page")
    with pytest.raises(ConfigError, match="max_words must be an integer ≥ 1, got 0"):
        IndexSettings(max_words=0)


def test_settings_stored_by_relmo_0_1_are_read():
    stored = (
        '{"model": "relmo-en-small", "fingerprint": "f", "width": 256, "layer": "bottom", '
        '"weighting": "vocabulary", "weight_at": 3e-05, "isotropy": "whiten", "remove": 12, '
        '"passages": "auto", "max_words": 512, "language": "english", "version": 1}'
    )
    read = IndexSettings.from_json(stored)
    assert read == IndexSettings(
        model="relmo-en-small", fingerprint="f", width=256, latent=0, version=1
    )
    assert read.is_old
    assert not IndexSettings().is_old
    assert IndexSettings.from_json(read.to_json()) == read
