"""What others measured: Peters et al. 2018 (NAACL), unless said otherwise. Nothing here is ours."""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """A row of Table 1."""

    data: str
    baseline: str
    elmo: str
    reduction: str
    """Of the error, in percent."""


TABLE_1 = {
    "squad": Published("SQuAD 1.1", "81.1", "85.8", "24.9"),
    "snli": Published("SNLI, 549,367 pairs", "88.0", "88.7", "5.8"),
    "srl": Published("CoNLL-2012", "81.4", "84.6", "17.2"),
    "coref": Published("CoNLL-2012", "67.2", "70.4", "9.8"),
    "ner": Published("CoNLL-2003", "90.15", "92.22", "21"),
    "sst": Published("SST-5, all phrases", "51.4", "54.7", "6.8"),
    "sst-phrases": Published("SST-5, all phrases", "51.4", "54.7", "6.8"),
}

TABLE_2 = {
    "squad": {"baseline": "80.8", "top": "84.7", "1": "85.0", "0.001": "85.2"},
    "snli": {"baseline": "88.1", "top": "89.1", "1": "89.3", "0.001": "89.5"},
    "srl": {"baseline": "81.6", "top": "84.1", "1": "84.6", "0.001": "84.8"},
}
"""Development part: baseline, top layer alone, mixes by λ."""

TABLE_3 = {
    "squad": {"input": "85.1", "both": "85.6", "output": "84.8"},
    "snli": {"input": "88.9", "both": "89.5", "output": "88.7"},
    "srl": {"input": "84.7", "both": "84.3", "output": "80.9"},
}
"""Development part, by place."""

NEIGHBOURS = {
    "play": (
        "playing", "game", "games", "played", "players", "plays", "player", "Play", "football",
        "multiplayer",
    ),
}  # fmt: skip
"""Table 4: by GloVe."""

WSD = {
    "WordNet first sense": "65.9",
    "Raganato et al. 2017": "69.9",
    "Iacobacci et al. 2016": "70.1",
    "CoVe, layer 1": "59.4",
    "CoVe, layer 2": "64.7",
}
"""Table 5: F1 on five sets together."""
WSD_LAYERS = {1: "67.4", 2: "69.0"}
"""Table 5: the paper's biLM."""
WSD_SETS = {
    "WordNet first sense": {"senseval2": "66.8", "senseval3": "66.2", "semeval2007": "55.2"},
    "context2vec": {"senseval2": "71.8", "senseval3": "69.1", "semeval2007": "61.3"},
}
"""F1 by set, from Raganato et al. 2017 (EACL), whose sets these are."""

POS = {
    "Collobert et al. 2011": "97.3",
    "Ma and Hovy 2016": "97.6",
    "Ling et al. 2015": "97.8",
    "CoVe, layer 1": "93.3",
    "CoVe, layer 2": "92.8",
}
"""Table 6: accuracy on the Penn Treebank."""
POS_LAYERS = {1: "97.3", 2: "96.8"}
"""Table 6: the paper's biLM."""

PERPLEXITY = {
    "snli": ("72.1", "16.8"),
    "ner": ("103.2", "46.3"),
    "conll2003": ("103.2", "46.3"),
    "squad": ("99.1 and 158.2", "43.5 and 52.0"),
    "squad_context": ("99.1", "43.5"),
    "squad_questions": ("158.2", "52.0"),
    "sst": ("131.5", "78.6"),
}
"""Table 7: before and after an epoch on the task's text; of SQuAD paragraphs and questions."""
