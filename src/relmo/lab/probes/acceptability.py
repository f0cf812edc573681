"""Is a sentence acceptable? A threshold on how likely the language models find it.

*train*.tsv     source, 1 or 0, the author's mark, sentence: tab-separated, as CoLA's files are
*.tsv           the same, to be scored

A long sentence is less likely than a short one, and rare words less than frequent ones, whatever
its grammar. So log p(sentence) less the log of its words' frequencies is divided by its number of
words (Pauls and Klein's and Lau, Clark and Lappin's SLOR). Without the counts of the training text
there is nothing to subtract. The threshold is chosen on the training file.
"""

from __future__ import annotations

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
LABELS = {"0": False, "1": True}
Judged = tuple[list[str], NDArray[np.bool_]]
"""Sentences, and which are acceptable."""


def probe_acceptability(inputs: ProbeInputs) -> ProbeResult:
    """Accuracy and Matthews' correlation, in percent, of every file by each direction."""
    files = find_files(inputs.data, "*.tsv")
    trained_on = [path for path in files if "train" in path.name]
    if len(trained_on) != 1 or len(files) < 2:
        raise ConfigError(
            f"{inputs.data}: expected one *train*.tsv and further .tsv files, found "
            f"{', '.join(path.name for path in files) or 'none'}"
        )
    judged = {path: read_judged(path) for path in files}
    found = {path: sentence_scores(inputs.elmo, texts) for path, (texts, _) in judged.items()}
    train, scores, thresholds = trained_on[0], {}, {}
    for way, direction in enumerate(DIRECTIONS):
        threshold = best_threshold(found[train][way], judged[train][1])
        thresholds[direction] = round(threshold, 6)
        for path, (_, gold) in judged.items():
            part, said = path.name.partition(".tsv")[0], found[path][way] >= threshold
            scores[f"{part}_accuracy_{direction}"] = round(100 * float((said == gold).mean()), 4)
            scores[f"{part}_mcc_{direction}"] = round(100 * matthews(said, gold), 4)
    counts = {path.name.partition(".tsv")[0]: {"sentences": len(judged[path][0])} for path in files}
    return ProbeResult(inputs.describe(counts, files), {"thresholds": thresholds}, scores)


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
            raise DataError(
                path, number, "expected four columns: source, 1 or 0, the author's mark, sentence"
            )
        texts.append(cells[3])
        labels.append(LABELS[cells[1]])
    if not texts:
        raise DataError(path, 1, "contains no sentences")
    return texts, np.array(labels)
