"""The embedding job: lines in, a file of vectors out, resumable."""

import h5py
import numpy as np
import pytest

from relmo.batch import embed_lines, estimate_job
from relmo.errors import ConfigError, Interrupted, OutputError
from relmo.layers import layer_labels, parse_layers
from relmo.progress import Work
from relmo.runtime.runtime import WINDOW_TOKENS

LINES = [f"line {i} of the text ." if i % 5 else "" for i in range(40)]


def vectors(path) -> dict[str, np.ndarray]:
    with h5py.File(path) as file:
        return {name: file[name][...] for name in file if name != "sentence_to_index"}


def test_one_line_is_one_key(tiny, tmp_path):
    report = embed_lines(tiny, LINES, tmp_path / "out.h5", tokenized=True)
    found = vectors(tmp_path / "out.h5")
    assert set(found) == {str(i) for i in range(40)}
    assert found["0"].shape == (3, 0, 16)
    np.testing.assert_allclose(found["7"], tiny.embed([LINES[7].split()])[0], rtol=0, atol=1e-5)
    assert (report.sentences, report.tokens, report.resumed) == (40, 32 * 6, 0)


@pytest.mark.parametrize("stop", [0, 1, 17, 39])
def test_an_interrupted_run_is_resumed_to_the_same_result(tiny, tmp_path, stop, monkeypatch):
    embed_lines(tiny, LINES, tmp_path / "whole.h5")
    monkeypatch.setitem(WINDOW_TOKENS, "cpu", 20)

    def interrupted():
        yield from LINES[:stop]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed_lines(tiny, interrupted(), tmp_path / "out.h5", batch_tokens=5)
    assert not (tmp_path / "out.h5").exists()
    report = embed_lines(tiny, LINES, tmp_path / "out.h5", resume=True)
    assert report.resumed <= stop
    assert report.resumed >= stop - 12
    whole, found = vectors(tmp_path / "whole.h5"), vectors(tmp_path / "out.h5")
    assert whole.keys() == found.keys()
    assert all(np.allclose(whole[k], found[k], rtol=0, atol=1e-5) for k in whole)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.h5", "whole.h5"]


def test_an_interruption_says_how_many_lines_are_safe(tiny, tmp_path, monkeypatch):
    monkeypatch.setitem(WINDOW_TOKENS, "cpu", 20)

    def interrupted():
        yield from LINES
        raise KeyboardInterrupt

    with pytest.raises(Interrupted, match=r"interrupted; \d+ lines are saved in .*out.h5.partial$"):
        embed_lines(tiny, interrupted(), tmp_path / "out.h5", batch_tokens=5)
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        embed_lines(tiny, interrupted(), tmp_path / "other.h5")  # none is done yet


def test_another_job_is_not_resumed(tiny, tmp_path, monkeypatch):
    monkeypatch.setitem(WINDOW_TOKENS, "cpu", 20)

    def interrupted():
        yield from LINES
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed_lines(tiny, interrupted(), tmp_path / "out.h5", layers="top", batch_tokens=20)
    with pytest.raises(OutputError, match="layers"):
        embed_lines(tiny, LINES, tmp_path / "out.h5", layers="all", resume=True)
    changed = ["another first line", *LINES[1:]]
    with pytest.raises(OutputError, match="line"):
        embed_lines(tiny, changed, tmp_path / "out.h5", layers="top", resume=True)
    with pytest.raises(OutputError, match="lines of an interrupted run"):
        embed_lines(tiny, changed, tmp_path / "out.h5", layers="top")


def test_words_cut_are_counted(tiny, tmp_path):
    report = embed_lines(tiny, ["x" * 49 + " short " + "y" * 60], tmp_path / "out.npz")
    assert report.words_cut == 2
    assert report.tokens == 3


def test_choices_of_layers_are_read_and_labelled(tiny):
    assert [parse_layers(text) for text in ("all", "mean", "top", "1")] == ["all", "mean", "top", 1]
    assert [layer_labels(layers, 3) for layers in ("all", "mean", "top", 1)] == [
        [0, 1, 2],
        [-1],
        [2],
        [1],
    ]
    with pytest.raises(ConfigError, match="choose all, mean, top, bottom or a layer number"):
        parse_layers("last")


def test_a_layer_that_is_not_there_fails_before_anything_is_written(tiny, tmp_path):
    with pytest.raises(ConfigError, match="unknown layers 7; choose"):
        embed_lines(tiny, LINES, tmp_path / "out.h5", layers=7)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [".h5", ".npz", ".parquet", ".jsonl"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_size_is_known_before(tiny, tmp_path, suffix, dtype):
    out, lines = tmp_path / f"out{suffix}", LINES * 30
    size = estimate_job(tiny, lines, out, dtype=dtype)
    report = embed_lines(tiny, lines, out, dtype=dtype)
    assert (size.lines, size.tokens) == (report.sentences, report.tokens)
    if suffix != ".parquet":  # which compresses the same lines over and over
        assert size.bytes == pytest.approx(out.stat().st_size, rel=0.35)  # tiny vectors


def test_the_tokens_of_a_large_input_are_estimated_from_some(tiny, tmp_path):
    lines = ["four words a line"] * 5000 + ["word " * 100_000]
    size = estimate_job(tiny, lines, tmp_path / "out.npz", layers="top", tokenized=True)
    assert size.lines == 5001
    assert size.tokens == pytest.approx(120_000, rel=0.25)
    assert size.bytes == pytest.approx(size.tokens * 16 * 4 + 5001 * 250, rel=0.01)


def test_half_precision_is_the_rounded_vectors_and_resumes(tiny, tmp_path, monkeypatch):
    embed_lines(tiny, LINES, tmp_path / "whole.h5")
    monkeypatch.setitem(WINDOW_TOKENS, "cpu", 20)

    def interrupted():
        yield from LINES[:20]
        raise KeyboardInterrupt

    out = tmp_path / "out.h5"
    with pytest.raises(KeyboardInterrupt):
        embed_lines(tiny, interrupted(), out, dtype="float16", batch_tokens=5)
    with pytest.raises(OutputError, match="dtype was 'float16', now 'float32'"):
        embed_lines(tiny, LINES, out, resume=True)
    assert embed_lines(tiny, LINES, out, dtype="float16", resume=True).resumed > 0
    whole, found = vectors(tmp_path / "whole.h5"), vectors(out)
    assert whole.keys() == found.keys()
    for line, layers in whole.items():
        assert found[line].dtype == np.float16
        np.testing.assert_allclose(found[line], layers, rtol=1e-3, atol=1e-5)


def test_an_unknown_dtype_fails_before_anything_is_written(tiny, tmp_path):
    with pytest.raises(ConfigError, match="unknown dtype 'float8'; choose float32, float16"):
        embed_lines(tiny, LINES, tmp_path / "out.h5", dtype="float8")
    assert list(tmp_path.iterdir()) == []


def test_progress_counts_lines_whose_vectors_are_safe(tiny, tmp_path):
    work, lines = Work("lines", 40), [f"word{i} bank" for i in range(40)]

    def interrupted():
        yield from lines[:30]
        assert work.done == 0  # read ahead, not yet embedded
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed_lines(tiny, interrupted(), tmp_path / "out.npz", work=work)
    embed_lines(tiny, lines, tmp_path / "out.npz", work=work, resume=True)
    assert work.done == 40
