"""Inputs that once failed, by target."""

CASES: dict[str, list[bytes]] = {
    "static vectors": [b"the 0.1 0.2\nbank -1.5 999999999999999999999999999999\n"],
    "native model: config.json": [
        b'{"format": "relmo", "format_version": 1, "char_cnn": {"num_highways": 999999999999999}}',
        b'{"format": "relmo", "format_version": 1, "char_cnn": {"filters": [[3, 2147483648]]}}',
    ],
    "official model: options.json": [
        b'{"lstm": {"dim": 24, "projection_dim": 8, "n_layers": 2}, "char_cnn": {"filters": '
        b'[[1e999, 4]], "n_highway": 1, "embedding": {"dim": 4}, "n_characters": 262}}',
    ],
}
