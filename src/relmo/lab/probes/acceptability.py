"""Is a sentence acceptable? A threshold on how likely the language models find it.

*train*.tsv     source, 1 or 0, the author's mark, sentence: tab-separated, as CoLA's files are
*.tsv           the same, to be scored; none has a header

A long sentence is less likely than a short one, and rare words less than frequent ones, whatever
its grammar. So log p(sentence) less the log of its words' frequencies is divided by its number of
words (Pauls and Klein's and Lau, Clark and Lappin's SLOR). Without the counts of the training text
there is nothing to subtract. A word outside the vocabulary has the probability and the frequency of
`<UNK>`. The threshold is the one with the highest accuracy on the training file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from relmo.elmo import Elmo
from relmo.errors import ConfigError, DataError
from relmo.lab.probes.inputs import ProbeInputs, ProbeResult, find_files
from relmo.lab.probes.minimal_pairs import DIRECTIONS
from relmo.lab.probes.wic import best_threshold
from relmo.tasks.data_files import numbered_lines

COLUMNS = 4
EXPECTED = "expected four columns: source, 1 or 0, the author's mark, sentence"
TRAIN = "train"
"""What the name of the training file contains."""
LABELS = {"0": False, "1": True}
Judged = tuple[list[str], NDArray[np.bool_]]
"""Sentences, and which are acceptable."""


def probe_acceptability(inputs: ProbeInputs) -> ProbeResult:
    """Accuracy and Matthews' correlation, in percent, of every file by each direction."""
    files = find_files(inputs.data, "*.tsv")
    trained_on = [path for path in files if TRAIN in path.name]
    if len(trained_on) != 1 or len(files) < 2:
        raise ConfigError(
            f"{inputs.data}: expected one *train*.tsv and further .tsv files, found "
            f"{', '.join(path.name for path in files) or 'none'}"
        )
    parts = {path: path.name.partition(".tsv")[0] for path in files}
    if len(set(parts.values())) < len(parts):
        names = ", ".join(map(str, files))
        raise ConfigError(f"{inputs.data}: expected files of different names, found {names}")
    judged = {path: read_judged(path) for path in files}
    found = {path: sentence_scores(inputs.elmo, texts) for path, (texts, _) in judged.items()}
    train, scores, thresholds = trained_on[0], {}, {}
    for way, direction in enumerate(DIRECTIONS):
        threshold = best_threshold(found[train][way], judged[train][1])
        thresholds[direction] = round(threshold, 6)
        for path, (_, gold) in judged.items():
            part, said = parts[path], found[path][way] >= threshold
            scores[f"{part}_accuracy_{direction}"] = round(100 * float((said == gold).mean()), 4)
            scores[f"{part}_mcc_{direction}"] = round(100 * matthews(said, gold), 4)
    counts = {parts[path]: {"sentences": len(judged[path][0])} for path in files}
    settings = {"threshold_chosen_on": parts[train], "thresholds": thresholds}
    return ProbeResult(inputs.describe(counts, files), settings, scores)


def sentences_in_words(results: Mapping[str, float]) -> str:
    """What to know about the scores, for people."""
    train = next(name.partition("_accuracy_")[0] for name in results if TRAIN in name)
    return f"the threshold is chosen on {train}, whose own score is no test"


def sentence_scores(elmo: Elmo, texts: list[str]) -> NDArray[np.float64]:
    """Per word, how much likelier sentences are than their words alone, (3, N) by direction."""
    sentences = [[token.text for token in elmo.tokens(text)] for text in texts]
    lm = elmo.lm
    frequencies = np.nan_to_num(lm.lexicon.log_frequencies) * np.log(2)
    alone = np.array([frequencies[lm.lexicon.rows(words)].sum() for words in sentences])
    lengths = np.array([max(1, len(words)) for words in sentences])
    scores = lm.score(sentences)
    forward = np.array([score.forward.sum() for score in scores])
    backward = np.array([score.backward.sum() for score in scores])
    gains = np.stack([forward - alone, backward - alone, forward + backward - 2 * alone])
    per_word: NDArray[np.float64] = gains / lengths
    return per_word


def matthews(said: NDArray[np.bool_], gold: NDArray[np.bool_]) -> float:
    """Matthews' correlation coefficient; 0 where one of them is all the same."""
    if said.all() or gold.all() or not said.any() or not gold.any():
        return 0.0
    return float(np.corrcoef(said, gold)[0, 1])


def read_judged(path: Path) -> Judged:
    """The sentences of a file and their labels."""
    texts, labels = [], []
    for number, line in numbered_lines(path):
        cells = line.split("\t")
        if len(cells) != COLUMNS or cells[1] not in LABELS:
            got = f"{cells[1]!r} for 1 or 0" if len(cells) == COLUMNS else f"{len(cells)} columns"
            hint = "; remove this line if it is a header" if number == 1 else ""
            raise DataError(path, number, f"{EXPECTED}; got {got}{hint}")
        if not cells[3].strip():
            raise DataError(path, number, "the sentence is empty")
        texts.append(cells[3])
        labels.append(LABELS[cells[1]])
    if not texts:
        raise DataError(path, 1, "contains no sentences")
    return texts, np.array(labels)
