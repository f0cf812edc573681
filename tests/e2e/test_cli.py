"""The command line as a script sees it: output, errors, exit codes."""

import importlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import typer

from relmo import Elmo, __version__
from relmo.cli.main import app
from relmo.layers import choose_layers, parse_layers
from tests.conftest import tiny_config

RELMO = [sys.executable, "-m", "relmo"]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    Elmo.untrained(tiny_config(), seed=1).save_pretrained(folder)
    return folder


def keys(path: Path) -> list[str]:
    with h5py.File(path) as file:
        return sorted((key for key in file if key != "sentence_to_index"), key=int)


def first_line(path: Path) -> np.ndarray:
    """The vectors of line 0 in any format: (layers, tokens, width)."""
    if path.suffix == ".h5":
        with h5py.File(path) as file:
            found = file["0"][...]
    elif path.suffix == ".npz":
        found = np.load(path)["0"]
    elif path.suffix == ".jsonl":
        found = np.array(json.loads(path.read_text().splitlines()[0])["layers"])
    else:
        rows = importlib.import_module("pyarrow.parquet").read_table(path).to_pylist()
        own = sorted((r["layer"], r["position"], r["vector"]) for r in rows if r["line"] == 0)
        found = np.array([vector for _, _, vector in own])
    return np.asarray(found).reshape(-1, 2, 16)


def test_embed_reads_standard_input_and_reports(run, model, tmp_path):
    out = tmp_path / "out.h5"
    text = b"The bank raised rates .\n\nWe sat on the bank .\n" + b"x" * 60 + b"\n"
    found = run("embed", "-", "-o", out, "--model", model, "--json", stdin=text)
    assert found.returncode == 0, found.stderr
    report = json.loads(found.stdout)
    assert (report["sentences"], report["tokens"], report["words_cut"]) == (4, 12, 1)
    assert report["tokens_per_second"] > 0
    assert found.stderr == b""
    assert keys(out) == ["0", "1", "2", "3"]
    with h5py.File(out) as file:
        assert file["0"].shape == (3, 5, 16)
        assert file["1"].shape == (3, 0, 16)
        index = json.loads(file["sentence_to_index"][0])
    assert index["We sat on the bank ."] == "2"


def test_a_report_for_people_is_lines_of_names_and_values(run, model, tmp_path):
    found = run("embed", "-", "-o", tmp_path / "o.npz", "--model", model, stdin=b"a b c\n")
    lines = dict(line.split(None, 1) for line in found.stdout.decode().splitlines())
    assert lines["tokens"] == "3"
    assert lines["time"].endswith(" tokens per second")
    assert not lines.keys() & {"words_cut", "resumed", "lines_with_replacements"}
    assert b"\x1b" not in found.stdout + found.stderr


def test_embed_says_that_it_replaced_an_output(run, model, tmp_path):
    args = ["embed", "-", "-o", tmp_path / "o.npz", "--model", model]
    assert b"replaced" not in run(*args, stdin=b"a\n").stderr
    assert b"o.npz existed and was replaced" in run(*args, stdin=b"a\n").stderr


@pytest.mark.parametrize("suffix", ["h5", "npz", "parquet", "jsonl"])
def test_a_complete_output_is_not_resumed(run, model, tmp_path, suffix):
    pytest.importorskip("pyarrow", reason="pip install 'relmo[parquet]'")
    text, out = tmp_path / "in.txt", tmp_path / f"o.{suffix}"
    text.write_text("a b\n\nc\n")
    args = ["embed", text, "-o", out, "--model", model, "--resume"]
    assert b"there is no interrupted run of" in run(*args).stderr
    before = out.stat().st_ino, out.stat().st_mtime_ns
    found = run(*args, "--json")
    assert (found.returncode, json.loads(found.stdout)["resumed"]) == (0, 3)
    assert found.stderr.decode() == f"relmo: {out} is complete; nothing to resume\n"
    assert (out.stat().st_ino, out.stat().st_mtime_ns) == before
    if suffix in ("h5", "parquet"):
        for other in (["--layers=top"], ["--dtype=float16"], ["--tokenized"]):
            assert b"existed and was replaced" in run(*args, *other).stderr
        run(*args)
    os.utime(text, (time.time() + 9, time.time() + 9))  # edited since
    assert b"existed and was replaced" in run(*args).stderr
    os.utime(text, (0, 0))
    out.write_bytes(b"damaged")
    assert b"existed and was replaced" in run(*args).stderr


@pytest.mark.parametrize("suffix", ["h5", "npz", "parquet", "jsonl"])
@pytest.mark.parametrize("layers", ["all", "mean", "top", "bottom", "0"])
def test_every_format_and_choice_of_layers(run, model, tmp_path, suffix, layers):
    pytest.importorskip("pyarrow", reason="pip install 'relmo[parquet]'")
    out = tmp_path / f"out.{suffix}"
    found = run("embed", "-", "-o", out, "--model", model, "--layers", layers, stdin=b"a b\n\nc\n")
    assert found.returncode == 0, found.stderr
    wanted = choose_layers(Elmo.from_pretrained(model).embed([["a", "b"]])[0], parse_layers(layers))
    np.testing.assert_allclose(first_line(out), wanted.reshape(-1, 2, 16), atol=1e-6)


def test_tokenized_lines_are_split_at_white_space(run, model, tmp_path):
    (tmp_path / "in.txt").write_text("don't  stop\tU.S.!\n")
    for flag, count in (((), 5), (("--tokenized",), 3)):
        found = run(
            "embed",
            tmp_path / "in.txt",
            "-o",
            tmp_path / "o.npz",
            "--model",
            model,
            "--json",
            *flag,
        )
        assert json.loads(found.stdout)["tokens"] == count


def test_several_files_are_numbered_through(run, model, tmp_path):
    (tmp_path / "1.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    (tmp_path / "2.txt").write_bytes(b"three")
    out = tmp_path / "o.h5"
    found = run("embed", tmp_path / "1.txt", tmp_path / "2.txt", "-o", out, "--model", model)
    assert found.returncode == 0
    with h5py.File(out) as file:
        index = json.loads(file["sentence_to_index"][0])
    assert index == {"one": "0", "two": "1", "three": "2"}


def test_an_empty_file_gives_an_empty_output(run, model, tmp_path):
    (tmp_path / "in.txt").write_bytes(b"")
    found = run("embed", tmp_path / "in.txt", "-o", tmp_path / "o.h5", "--model", model, "--json")
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["sentences"] == 0
    assert b"the input is empty, and so is " in found.stderr
    assert keys(tmp_path / "o.h5") == []


@pytest.mark.parametrize("from_pipe", [True, False])
def test_bytes_that_are_not_utf8_are_named_or_replaced(run, model, tmp_path, from_pipe):
    raw = b"good\nba\xffd\ngood\n"
    (tmp_path / "in.txt").write_bytes(raw)
    source, stdin = ("-", raw) if from_pipe else (tmp_path / "in.txt", b"")
    out = tmp_path / "o.h5"
    found = run("embed", source, "-o", out, "--model", model, stdin=stdin)
    assert found.returncode == 1
    assert b"line 2 is not UTF-8 (byte 0xff" in found.stderr
    assert b"Traceback" not in found.stderr
    assert not out.exists()
    found = run("embed", source, "-o", out, "--model", model, "--errors", "replace", stdin=stdin)
    assert found.returncode == 0, found.stderr
    assert keys(out) == ["0", "1", "2"]


def test_odd_bytes_go_through_line_for_line(run, model, tmp_path):
    lines = ["a\x00b", "\x01\x02", "שלום", "👩‍👩‍👧‍👦", "a\u2028b\x85c", "\t\t", "x" * 10_000]
    (tmp_path / "in.txt").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    out = tmp_path / "o.h5"
    found = run("embed", tmp_path / "in.txt", "-o", out, "--model", model)
    assert found.returncode == 0, found.stderr
    assert keys(out) == [str(i) for i in range(len(lines))]


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["embed", "no-such-file", "-o", "o.h5"], 2, "no such file"),
        (["info"], 2, "`relmo models` lists the installed"),
        (["embed", "-", "-"], 2, "output"),
        (["embed", "-", "-", "-o", "o.h5"], 2, "only once"),
        (["embed", "-", "-o", "o.h5", "--model", "nothing"], 2, "no model 'nothing'"),
        (["embed", "-", "-o", "o.xyz"], 2, ".xyz"),
        (["embed", "-", "-o", "o.h5", "--layers", "last"], 2, "choose all, mean, top"),
        (["embed", "-", "-o", "o.h5", "--layers", "9"], 2, "number from 0 to 2"),
        (["embed", "-", "-o", "o.h5", "--precision", "int3"], 2, "int3"),
        (["embed", "-", "-o", "o.h5", "--errors", "maybe"], 2, "maybe"),
        (["embed", "-", "-o", "missing/o.h5"], 2, "not a folder"),
        (["info", "nothing"], 2, "no model 'nothing'"),
        (["convert", "nothing", "out", "--to", "native"], 2, "no model 'nothing'"),
        (["convert", "relmo-untrained", "out", "--to", "native", "--storage", "int4"], 2, "int4"),
        (["convert", "relmo-untrained", "out", "--to", "hdf5", "--storage", "int8"], 2, "float32"),
        (["frobnicate"], 2, "No such command"),
    ],
)
def test_a_wrong_call_is_one_clear_message(run, monkeypatch, tmp_path, args, code, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    found = run(*args)
    assert found.returncode == code, found.stderr
    assert message in found.stderr.decode()
    assert "Traceback" not in found.stderr.decode()
    assert list(tmp_path.iterdir()) == []


def test_embed_says_how_large_the_output_becomes(run, model, tmp_path):
    (tmp_path / "in.txt").write_text("The bank raised rates .\n" * 200)
    found = run("embed", tmp_path / "in.txt", "-o", tmp_path / "out.npz", "--model", model)
    said = found.stderr.decode()
    assert (
        "relmo: output: about 242 kB for 200 lines, about 1,000 tokens, width 16, float32" in said
    )
    assert (tmp_path / "out.npz").stat().st_size == pytest.approx(242_000, rel=0.05)


def test_embed_says_when_the_disk_is_too_small(run, model, tmp_path, monkeypatch):
    (tmp_path / "in.txt").write_text("The bank raised rates .\n")
    full = SimpleNamespace(free=10)
    monkeypatch.setattr("shutil.disk_usage", lambda _: full)
    found = run("embed", tmp_path / "in.txt", "-o", tmp_path / "out.npz", "--model", model)
    assert "only 10 bytes are free on that disk" in found.stderr.decode()
    assert found.returncode == 0  # it is an estimate


def test_embed_stores_half_precision(run, model, tmp_path):
    out = tmp_path / "out.npz"
    args = ["embed", "-", "-o", out, "--model", model, "--dtype", "float16"]
    assert run(*args, stdin=b"The bank .\n").returncode == 0
    with np.load(out) as arrays:
        assert arrays["0"].dtype == np.float16


def test_convert_and_info(run, model, tmp_path):
    found = run("convert", model, tmp_path / "official", "--to", "hdf5", "--json")
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["target_format"] == "hdf5"
    facts = json.loads(run("info", tmp_path / "official", "--json").stdout)
    assert (facts["format"], facts["layers"], facts["width"]) == ("hdf5", 3, 16)
    assert set(facts["files"]) == {"options.json", "weights.hdf5", "SHA256SUMS"}
    lines = run("info", model).stdout.decode()
    assert "parameters" in lines
    assert "licence" in lines
    as_json = json.loads(run("info", model, "--json").stdout)
    assert table(lines.encode())["fingerprint"] == as_json["fingerprint"]


def table(text: bytes) -> dict[str, str]:
    """The lines of a table `name  value`."""
    return dict(line.split(maxsplit=1) for line in text.decode().splitlines())


def test_info_is_a_table_for_people(run):
    shown = table(run("info", "relmo-en-small").stdout)
    assert shown["layers"] == "3 of width 256, the token layer included"
    assert shown["softmax"] == "100,000 words"
    assert shown["trained"].startswith(
        "began from relmo-en-small, 5,569 steps, 547 M tokens, 20.0 minutes, on NVIDIA H200, "
    )
    assert shown["files"].endswith("; checksums match")
    assert not any(character in run("info", "relmo-en-small").stdout.decode() for character in "{[")


def test_info_shows_details_when_asked(run):
    lines = run("info", "relmo-en-small", "--verbose").stdout.decode()
    assert "  recipe.optimizer.learning_rate  " in lines
    assert "  filters          1 × 32, 2 × 32, " in lines
    assert "8cfcf648629900bfbe7fea9a33766c125262a1dda0092fb2be0d9a38b5d1e886  matches" in lines
    assert not any(character in lines for character in "{[")


def test_a_conversion_is_a_table_for_people(run, model, tmp_path):
    found = run("convert", model, tmp_path / "native", "--to", "native")
    shown = table(found.stdout)
    assert shown["converted"] == str(model)
    assert shown["to"] == str(tmp_path / "native")
    assert shown["files"].endswith("; checksums match")
    found = run("convert", model, tmp_path / "official", "--to", "hdf5")
    assert "hdf5 format" in table(found.stdout)["files"]
    assert b"('" not in found.stdout


def test_models_are_listed(run):
    lines = run("models").stdout.decode().splitlines()
    assert lines[0].split() == [
        "model", "language", "layers", "width", "softmax", "size", "licence", "from",
    ]  # fmt: skip
    (row,) = (line.split() for line in lines if line.startswith("relmo-en-small"))
    assert row == [
        "relmo-en-small", "en", "3", "256", "yes", "28.7", "MB", "CC-BY-SA-4.0", "relmo",
    ]  # fmt: skip
    models = json.loads(run("models", "--json").stdout)["models"]
    assert {"relmo-en-small", "relmo-untrained"} <= {each["name"] for each in models}


def test_convert_can_round_to_eight_bits_and_cut_into_shards(run, tmp_path):
    args = ["--to", "native", "--storage", "int8", "--shard-mb", "6", "--json"]
    found = run("convert", "relmo-untrained", tmp_path / "m", *args)
    assert found.returncode == 0, found.stderr
    assert b"8-bit storage rounds the weights" in found.stderr
    assert json.loads((tmp_path / "m/config.json").read_text())["storage"] == "int8"
    sizes = [path.stat().st_size for path in (tmp_path / "m").glob("*.safetensors")]
    assert len(sizes) > 1
    assert max(sizes) <= 6_000_000


def test_info_of_a_damaged_model_fails(run, model, tmp_path):
    for path in model.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    raw = bytearray((tmp_path / "model.safetensors").read_bytes())
    raw[-1] ^= 1
    (tmp_path / "model.safetensors").write_bytes(raw)
    found = run("info", tmp_path)
    assert found.returncode == 1
    assert b"checksums DIFFER: model.safetensors" in found.stdout
    assert b"model.safetensors does not match its checksum; copy the model again" in found.stderr


EVIL = "a\nb\x1b[31mred\u202e"
SHOWN = rb"a\nb\x1b[31mred\u202e"


def test_names_are_shown_and_not_obeyed(run, model, tmp_path):
    """In errors, notes and tables."""
    for args in (["info", EVIL], ["embed", EVIL, "-o", tmp_path / "o.h5"], ["index", EVIL]):
        found = run(*args, *(["--out", tmp_path / "i.relmo"] if args[0] == "index" else []))
        assert found.returncode in (1, 2)
        assert SHOWN in found.stderr
        assert found.stderr.count(b"\n") == 1
        assert b"\x1b" not in found.stderr
    for args in (["convert", model, tmp_path / EVIL, "--to", "native"], ["info", tmp_path / EVIL]):
        found = run(*args)
        assert found.returncode == 0
        assert SHOWN in found.stdout
        assert b"\x1b" not in found.stdout


def test_a_name_that_is_not_utf8_is_shown(run, model, tmp_path):
    name = b"o\xff.npz".decode(errors="surrogateescape")
    assert rb"o\udcff.npz" in run("info", tmp_path / name).stderr
    args = ["embed", "-", "-o", tmp_path / name, "--model", model]
    assert rb"o\udcff.npz" in run(*args, stdin=b"a\n").stdout
    assert json.loads(run(*args, "--json", stdin=b"a\n").stdout)["output"] == str(tmp_path / name)


def test_version(run):
    assert run("--version").stdout.decode() == f"relmo {__version__}\n"


GROUP = typer.main.get_command(app)


@pytest.mark.parametrize("name", sorted(GROUP.commands))
def test_the_help_of_every_command_describes_all_options_and_ends_with_an_example(
    run, monkeypatch, name
):
    monkeypatch.setenv("COLUMNS", "100")
    found = run(name, "--help")
    assert found.returncode == 0
    lines = found.stdout.decode().split("\n")
    assert lines[1].split()[:3] == ["Usage:", "relmo", name]
    (last,) = [line.strip() for line in lines if line.strip()][-1:]
    assert last.startswith("Example: ")
    assert f"relmo {name} " in last
    for param in GROUP.commands[name].params:
        assert param.help, f"{name} {param.name} has no help text"
        text = param.help.partition(r" \[default: ")[0]
        assert text.endswith("."), f"{name} {param.name}: {param.help}"


@pytest.mark.parametrize("name", sorted(GROUP.commands))
def test_every_example_is_a_valid_call(name):
    """Its options exist and its required arguments are there; nothing is run."""
    command = GROUP.commands[name]
    words = shlex.split(command.epilog.rpartition(f"relmo {name} ")[2])
    command.make_context(name, words)


def test_the_help_lists_every_command(run):
    found = run("--help")
    assert found.returncode == 0
    listed = {line.split()[1] for line in found.stdout.decode().splitlines() if "│ " in line}
    assert set(GROUP.commands) <= listed


def test_the_input_is_never_written_over(run, model, tmp_path):
    (tmp_path / "x.jsonl").write_text("text\n")
    found = run("embed", tmp_path / "x.jsonl", "-o", tmp_path / "x.jsonl", "--model", model)
    assert found.returncode == 2
    assert (tmp_path / "x.jsonl").read_text() == "text\n"


def test_replaced_bytes_are_reported(run, model, tmp_path):
    args = ("embed", "-", "-o", tmp_path / "o.npz", "--model", model, "--errors", "replace")
    found = run(*args, "--json", stdin=b"a\xff\nb\n\xfe\n")
    assert json.loads(found.stdout)["lines_with_replacements"] == 2
    assert b"2 lines contain U+FFFD" in found.stderr


def test_closed_and_full_streams_are_no_traceback(model, tmp_path):
    (tmp_path / "in.txt").write_text("a b\n")
    embed = " ".join([*RELMO, "embed", "{}", "-o", str(tmp_path / "o.h5"), "--model", str(model)])
    for source, redirect, code in (
        ("-", "<&-", 2),
        (str(tmp_path / "in.txt"), "> /dev/full", 1),
        (str(tmp_path / "in.txt"), "2>&-", 0),
    ):
        command = embed.format(source) + f" {redirect}"
        found = subprocess.run(command, shell=True, capture_output=True, check=False)
        assert found.returncode == code, (redirect, found.stderr)
        assert b"Traceback" not in found.stderr


def test_an_untrained_model_is_announced(run, tmp_path):
    args = ["embed", "-", "-o", tmp_path / "o.npz", "--model", "relmo-untrained"]
    found = run(*args, stdin=b"a\n")
    assert found.returncode == 0
    assert b"random weights" in found.stderr


def test_the_bundled_model_embeds_where_none_is_named(run, tmp_path):
    found = run(
        "embed", "-", "-o", tmp_path / "o.npz", "--json", stdin=b"The bank raised rates .\n"
    )
    assert found.returncode == 0, found.stderr
    assert np.load(tmp_path / "o.npz")["0"].shape == (3, 5, 256)
    assert b"random" not in found.stderr


@pytest.mark.parametrize("kill_after", [0.0, 0.3, 0.6])
def test_a_killed_run_is_resumed_without_a_lost_or_doubled_row(run, model, tmp_path, kill_after):
    lines = [f"line {i} of a long text" for i in range(1500)]
    (tmp_path / "in.txt").write_text("\n".join(lines))
    out, partial = tmp_path / "o.h5", tmp_path / "o.h5.partial"
    args = ["embed", tmp_path / "in.txt", "-o", out, "--model", model]
    with subprocess.Popen([*RELMO, *map(str, args)], stderr=subprocess.DEVNULL) as process:
        for _ in range(600):
            if partial.exists() and partial.stat().st_size > 1000:
                break
            time.sleep(0.02)
        time.sleep(kill_after)
        process.send_signal(signal.SIGKILL)
    found = run(*args, "--resume", "--json")
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["sentences"] == 1500
    assert keys(out) == [str(i) for i in range(1500)]
    elmo = Elmo.from_pretrained(model)
    with h5py.File(out) as file:
        for i in (0, 700, 1499):
            np.testing.assert_allclose(file[str(i)][...], elmo.embed([lines[i]])[0], atol=1e-5)
    assert not partial.exists()


def test_a_reader_that_goes_away_is_no_traceback(run, model):
    command = " ".join([*RELMO, "info", str(model)]) + " | head -c 1"
    found = subprocess.run(command, shell=True, capture_output=True, check=False)
    assert b"Traceback" not in found.stderr


@pytest.mark.parametrize(
    "args",
    [
        "embed gone.txt -o o.h5",
        "embed - -o o.xyz",
        "embed - -o o.h5 --layers last",
        "pretrain --recipe tinny --data text --output run",
        "perplexity gone.txt",
        "train ner --data gone --output run",
        "evaluate run --data gone.txt",
        "predict run gone.txt",
    ],
)
def test_wrong_arguments_are_found_before_pytorch_is_loaded(args, tmp_path):
    code = f"""if True:
        import sys
        sys.modules["torch"] = None  # importing it is an error
        from relmo.cli.main import main
        main({args.split()!r})
    """
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=False
    )
    assert found.returncode == 2, found.stderr
