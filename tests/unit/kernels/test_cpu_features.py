"""Tiles that cannot be set up are found by what the CPU says of itself."""

import os

import pytest
import torch

from relmo.kernels import cpu_features

CORE = "processor\t: 0\nmodel name\t: A CPU\ncpuid level\t: {}\nflags\t\t: fpu avx512f {}\n\n"


@pytest.mark.parametrize(
    ("level", "flags", "found"),
    [
        (28, "amx_bf16 amx_tile amx_int8", True),
        (29, "amx_bf16 amx_tile amx_int8", False),
        (32, "amx_tile", False),
        (28, "avx512_bf16", False),
        ("?", "amx_tile", False),
    ],
)
def test_tiles_are_hidden_where_the_leaf_that_describes_them_is(level, flags, found):
    later = CORE.format(28, "amx_tile")  # only the first core is asked
    assert cpu_features.hides_tiles(CORE.format(level, flags) + later) is found


def test_no_text_hides_nothing():
    assert not cpu_features.hides_tiles("")


def test_onednn_is_told_and_a_users_word_stands(tmp_path, monkeypatch):
    path = tmp_path / "cpuinfo"
    path.write_text(CORE.format(28, "amx_tile"), encoding="utf-8")
    monkeypatch.setattr(cpu_features, "CPUINFO", path)
    monkeypatch.delenv(cpu_features.ONEDNN_LIMIT, raising=False)
    cpu_features.avoid_hidden_tiles()
    assert os.environ[cpu_features.ONEDNN_LIMIT] == cpu_features.WITHOUT_TILES
    monkeypatch.setenv(cpu_features.ONEDNN_LIMIT, "AVX2")
    cpu_features.avoid_hidden_tiles()
    assert os.environ[cpu_features.ONEDNN_LIMIT] == "AVX2"


def test_a_system_without_that_file_is_left_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(cpu_features, "CPUINFO", tmp_path / "none")
    monkeypatch.delenv(cpu_features.ONEDNN_LIMIT, raising=False)
    cpu_features.avoid_hidden_tiles()
    assert cpu_features.ONEDNN_LIMIT not in os.environ


@pytest.mark.parametrize(
    ("has", "limit", "uses"),
    [
        (True, None, True),
        (True, "AVX512_CORE_AMX", True),
        (True, "default", True),
        (True, cpu_features.WITHOUT_TILES, False),
        (False, None, False),
    ],
)
def test_tiles_are_used_where_they_are_and_nobody_forbids_it(monkeypatch, has, limit, uses):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: has)
    monkeypatch.delenv(cpu_features.ONEDNN_LIMIT, raising=False)
    if limit is not None:
        monkeypatch.setenv(cpu_features.ONEDNN_LIMIT, limit)
    assert cpu_features.uses_tiles() is uses
