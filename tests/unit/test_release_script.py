"""scripts/release_model.py: a folder that holds together, and a card made from the figures."""

import json
import shutil
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from relmo import Elmo
from relmo.training.run import write_record
from relmo.weights.find import describe_model, read_model
from scripts import measure_model, release_model, sense_test
from tests.support.toy_lm import Corpus, Grammar, toy_recipe

pytest.importorskip("matplotlib", reason="pip install 'relmo[report]'")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run, its model in 8 bits, measures and senses, as the other scripts make them."""
    root = tmp_path_factory.mktemp("release")
    corpus = Corpus(root / "corpus", Grammar(seed=1), documents=60)
    training = {"steps": 6, "log_every": 1, "evaluate_every": 2}
    corpus.train(toy_recipe(model={"name": "relmo-en-toy"}, training=training), root / "run")
    text = root / "toy-text.txt"
    text.write_text("\n".join(" ".join(s) for d in corpus.held_out() for s in d) + "\n")
    measure_model.measure_model(
        root / "run/model", [text], root / "measured", "cpu", shard_bytes=8000
    )
    elmo = Elmo.from_pretrained(root / "measured/model", device="cpu")
    words = sense_test.read_words()[:2]
    names = sense_test.reading_names(elmo.config.num_layers)
    found = sense_test.record(sense_test.run(elmo, words), names, elmo.config.num_layers - 1)
    found |= {"model": "some/path", "fingerprint": elmo.fingerprint()}
    (root / "senses.json").write_text(json.dumps(found))
    return root


def arguments(made, output, **changes):
    given = {
        "run": made / "run",
        "measures": made / "measured/measures.json",
        "senses": made / "senses.json",
        "model": made / "measured/model",
        "output": output,
        **changes,
    }
    return [str(each) for name, path in given.items() for each in (f"--{name}", path)]


@pytest.fixture(scope="module")
def released(made, tmp_path_factory):
    output = tmp_path_factory.mktemp("released") / "model"
    counts = {"documents": 12, "words": 1000, "dropped": 3}
    duplicates = {"max_copied": 0.5, "corpora": {"toy-text": counts}}
    (made / "near_duplicates.json").write_text(json.dumps(duplicates))
    held_out = {"held-out": made / "near_duplicates.json"}
    release_model.main(arguments(made, output, **held_out))
    return output


def test_the_weights_are_those_that_were_measured(made, released):
    for name in json.loads((released / "config.json").read_text())["files"]:
        assert (released / name).read_bytes() == (made / "measured/model" / name).read_bytes()
    facts = describe_model(released)
    assert all(file["matches"] is not False for file in facts["files"].values())
    assert sum(file["matches"] is True for file in facts["files"].values()) >= 4
    assert Elmo.from_pretrained(released).lm


def test_the_record_says_how_it_was_made_and_under_which_licence(made, released):
    config = read_model(released).config
    run = json.loads((made / "run/run.json").read_text())
    assert config.licence == "CC-BY-SA-4.0"
    for key in ("steps", "tokens_seen", "seconds", "hardware", "commit", "versions", "results"):
        assert config.training[key] == run[key]
    assert config.training["recipe"]["lm"] == run["recipe"]["lm"]
    assert "model" not in config.training["recipe"]
    assert "Section 8 -- Interpretation" in (released / "LICENSE").read_text()


def test_no_file_names_a_place_on_this_machine(made, released):
    for name in ("README.md", "config.json", "perplexity.svg"):
        text = (released / name).read_text()
        assert "/tmp" not in text
        assert str(made) not in text
        assert str(Path.home()) not in text


def test_the_card_is_made_from_the_figures(made, released):
    card = (released / "README.md").read_text()
    front, _, rest = card.removeprefix("---\n").partition("\n---\n")
    assert front.splitlines()[:3] == [
        "license: cc-by-sa-4.0",
        "language: en",
        "library_name: relmo",
    ]
    assert rest.startswith("\n# relmo-en-toy\n")
    measures = json.loads((made / "measured/measures.json").read_text())["texts"]["toy-text"]
    for start in ("zero", "stored", "carried"):
        scores = measures["perplexity"]["int8"][start]
        row = next(line for line in rest.splitlines() if line.startswith(f"| toy-text | {start} |"))
        assert (
            f"| {scores['forward']:.2f} | {scores['backward']:.2f} | {scores['mean']:.2f} |" in row
        )
        assert f"| {measures['perplexity']['float32'][start]['mean']:.2f} |" in row
    senses = json.loads((made / "senses.json").read_text())
    assert f"| layer 2 | {senses['percent']['layer 2']:.1f} |" in rest
    run = json.loads((made / "run/run.json").read_text())
    assert f"| tokens seen | {run['tokens_seen']} |" in rest
    assert f"Trained on {run['data']['tokens']['train']:,} tokens" in rest
    for wanted in ("Wikipedia", "CC BY 2.5", "public domain", "English alone", "It comes with"):
        assert wanted in rest
    assert "of their eight-word sequences) were excluded: 3 of 12 in toy-text." in rest
    found = measures["perplexity"]["int8"]
    config = json.loads((released / "config.json").read_text())
    other = {"zero": "stored", "stored": "zero"}[config["start"]]
    cost = f"{found[other]['mean'] / found[config['start']]['mean'] - 1:+.1%}"
    assert f"That changes perplexity by {cost} to {cost}." in rest
    assert "![Held-out perplexity over tokens seen](perplexity.svg)" in rest


def test_the_recipe_on_the_card_is_toml(made, released):
    card = (released / "README.md").read_text()
    recipe = tomllib.loads(card.partition("```toml\n")[2].partition("```")[0])
    run = json.loads((made / "run/run.json").read_text())["recipe"]
    for name, section in recipe.items():
        assert section == {key: value for key, value in run[name].items() if value is not None}


def test_the_curve_is_the_runs(made, released, tmp_path):
    record = json.loads((made / "run/run.json").read_text())
    points = release_model.read_curve(made / "run/metrics.jsonl", record)
    assert [tokens for tokens, _ in points] == [2 * 16, 4 * 16, 6 * 16]
    assert points[-1][1] == record["results"]["held_out_mean"]
    picture = (released / "perplexity.svg").read_text()
    texts = [e.text for e in ElementTree.fromstring(picture).iter() if e.tag.endswith("}text")]
    assert "tokens seen" in texts
    assert f"{points[-1][1]:.1f}" in texts
    release_model.draw_curve(points, tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_text() == picture


def test_a_release_over_another_leaves_no_stale_file_and_keeps_the_package(made, tmp_path):
    home = tmp_path / "relmo_en_toy"
    Elmo.from_pretrained(made / "run/model").save_pretrained(home, shard_bytes=9000)
    (home / "__init__.py").write_text('"""Ours."""\n')
    release_model.main(arguments(made, home))
    files = set(json.loads((home / "config.json").read_text())["files"])
    about = {"config.json", "README.md", "LICENSE", "perplexity.svg", "__init__.py"}
    assert {path.name for path in home.iterdir()} == files | about
    assert (home / "README.md").read_text().startswith("---\nlicense: cc-by-sa-4.0")


def other_run(made, tmp_path):
    record = json.loads((made / "run/run.json").read_text())
    shutil.copytree(made / "run", tmp_path / "other")
    write_record(tmp_path / "other/run.json", {**record, "steps": 99})
    return {"run": tmp_path / "other"}


def changed_run(made, tmp_path):
    shutil.copytree(made / "run", tmp_path / "other")
    text = (made / "run/run.json").read_text()
    (tmp_path / "other/run.json").write_text(text.replace('"steps": 6', '"steps": 7'))
    return {"run": tmp_path / "other"}


def other_senses(made, tmp_path):
    found = json.loads((made / "senses.json").read_text())
    (tmp_path / "senses.json").write_text(json.dumps({**found, "fingerprint": "0"}))
    return {"senses": tmp_path / "senses.json"}


def other_measures(made, tmp_path):
    found = json.loads((made / "measured/measures.json").read_text())
    (tmp_path / "measures.json").write_text(json.dumps({**found, "model": "other"}))
    return {"measures": tmp_path / "measures.json"}


def trained_model(made, tmp_path):
    return {"model": made / "run/model"}


def damaged_model(made, tmp_path):
    shutil.copytree(made / "measured/model", tmp_path / "damaged")
    path = tmp_path / "damaged/vocab.txt"
    path.write_bytes(path.read_bytes()[::-1])
    return {"model": tmp_path / "damaged"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (other_run, "differ in 'steps'; give the run that made it"),
        (changed_run, "its checksum does not match"),
        (other_senses, "the senses belong to another model; run sense_test.py"),
        (other_measures, "the measures belong to 'other', not to 'relmo-en-toy'"),
        (trained_model, "is not stored in 8 bits"),
        (damaged_model, "vocab.txt is not the file that was written"),
    ],
)
def test_what_does_not_belong_together_is_not_released(made, tmp_path, capsys, change, message):
    with pytest.raises(SystemExit):
        release_model.main(arguments(made, tmp_path / "out", **change(made, tmp_path)))
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_numbers_are_said_as_people_say_them():
    found = [release_model.short(value) for value in (0, 96, 20_000, 3e8, 1.5e9)]
    assert found == ["0", "96", "20 k", "300 M", "1.5 B"]


def test_a_model_of_several_runs_names_them_and_all_its_sources(made, released, tmp_path):
    """The weights of a second run that began with those of the first."""
    run = json.loads((made / "run/run.json").read_text())
    first = {key: value for key, value in run.items() if key not in ("seal", "task")}
    first |= {"tokens_seen": 50, "results": {**run["results"], "held_out_mean": 77.5}}
    (tmp_path / "run").mkdir()
    write_record(
        tmp_path / "run/run.json", {k: v for k, v in run.items() if k != "seal"} | {"init": first}
    )
    output = tmp_path / "model"
    given = arguments(made, output, run=tmp_path / "run")
    release_model.main([*given, "--sources", "squad", "goemotions"])
    card, licence = (output / "README.md").read_text(), (output / "LICENSE").read_text()
    total = 50 + run["tokens_seen"]
    assert f"the last of 2 runs; each began with the weights of the one before. {total} tok" in card
    assert "| 1 | " in card
    assert "| 77.50 |" in card
    assert read_model(output).config.training["init"]["tokens_seen"] == 50
    for wanted in ("SQuAD 1.1, questions of the training part", "GoEmotions, comments"):
        assert f"[{wanted}" in card
        assert f"- {wanted}" in licence
    assert "SQuAD" not in (released / "LICENSE").read_text() + (released / "README.md").read_text()


def test_the_record_of_the_model_it_began_with_is_kept(made, released, tmp_path):
    output = tmp_path / "model"
    release_model.main([*arguments(made, output), "--init", str(released)])
    training = read_model(output).config.training
    assert training["init"]["tokens_seen"] == read_model(released).config.training["tokens_seen"]
    assert "the last of 2 runs" in (output / "README.md").read_text()
