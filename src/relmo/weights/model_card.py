"""README.md of a model folder: what the model is, how to load it, how it came to be."""

from __future__ import annotations

import json

from relmo.config import CharCnnConfig, ElmoConfig

TEMPLATE = """# {name}

An ELMo: {layers} layers of width {width}, {words}, LSTM cells of {cell} per direction.

    from relmo import Elmo
    elmo = Elmo.from_pretrained("path/to/this/folder")

| | |
|---|---|
| licence | {licence} |
| tokenizer | {tokenizer} |
| state before a sentence | {start} |
| softmax of the language models | {softmax} |

## Training

{training}
"""


def model_card(config: ElmoConfig, num_words: int | None) -> str:
    """The card; `num_words` is the size of the softmax, None for a model without one."""
    tokens = config.tokens
    by_letters = isinstance(tokens, CharCnnConfig)
    record = json.dumps(dict(config.training), indent=2, ensure_ascii=False)
    return TEMPLATE.format(
        name=config.name or "ELMo",
        layers=config.num_layers,
        width=config.width,
        words="words read by their characters" if by_letters else "words looked up in a list",
        cell=config.lstm.cell_width,
        licence=config.licence or "not stated",
        tokenizer=config.tokenizer,
        start="stored with the weights" if config.start == "stored" else "zero",
        softmax="none" if num_words is None else f"{num_words:,} words",
        training=f"```json\n{record}\n```" if config.training else "Not recorded.",
    )
