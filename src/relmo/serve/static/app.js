// The page: reads the controls, calls the server, draws. The layers of both sentences are fetched
// once; moving a slider only recomputes the similarities.

import { ApiError, ask, useKey } from "./api.js";
import { find, make, showNote, showOverflow } from "./elements.js";
import { STUDIES } from "./examples.js";
import { drawHeat, describeWord } from "./heat.js";
import { readMap } from "./map.js";
import { abandon, clear, onChange, showErrors } from "./parts.js";
import { openReading, readTasks } from "./read.js";
import { readHits } from "./search.js";
import { readSenses, wantsTwo } from "./senses.js";
import { drawStory } from "./story.js";
import { drawSurprisal, readSurprisal } from "./surprisal.js";
import { softmax } from "./vectors.js";
import { followAddress, offerReading, show } from "./views.js";

const EXAMPLES = [
  ["She opened an account at the bank .", "They sat on the bank of the river ."],
  ["The bank raised its interest rates .", "The bank approved the loan ."],
  ["He hit the ball with a bat .", "A bat flew out of the dark cave ."],
  ["She plays the piano every day .", "We saw a play at the theatre ."],
  ["The spring flowers bloomed early .", "The spring in the mattress broke ."],
];
const MAP_WORD = "bank";
const MAP_SENTENCES = [
  "The bank raised its interest rates .", "She opened an account at the bank .",
  "The bank approved the loan .", "He worked for a bank in London .",
  "They sat on the bank of the river .", "The river burst its bank after the rain .",
  "Trees grow along the south bank of the lake .", "The boat reached the north bank of the river .",
];

const SENTENCE = "She put the letter into a drawer and locked it with a banana .";

const TYPED = 20_000; // characters of texts in which senses are found while one types
const state = { pair: null, chosen: null, about: null, opened: new Set() };

function settings() {
  return {
    mode: document.querySelector("input[name=mode]:checked").value,
    measure: find("measure").value,
    layer: Number(find("layer").value),
    s: [...document.querySelectorAll("#mix-controls [data-layer]")].map((slider) => Number(slider.value)),
    gamma: Number(find("gamma").value),
  };
}

function draw() {
  const now = settings();
  find("layer-controls").hidden = now.mode !== "layer";
  find("mix-controls").hidden = now.mode !== "mix";
  const top = state.about.num_layers - 1;
  const kind = now.layer === 0 ? "characters only, no context" : now.layer === top ? "top" : "middle";
  find("layer-name").textContent = `${now.layer}: ${kind}`;
  softmax(now.s).forEach((weight, number) => {
    find(`weight-${number}`).textContent = `s = ${now.s[number].toFixed(1)}, weight ${Math.round(100 * weight)}%`;
  });
  find("gamma-value").textContent = `factor ${now.gamma.toFixed(2)}`;
  if (state.pair) drawHeat(state.pair, now, state.chosen, choose);
}

async function choose(chosen) {
  state.chosen = chosen;
  draw();
  const side = chosen.side ? "thead" : "tbody";
  document.querySelectorAll(`#heat ${side} button`)[chosen.place].focus();
  await showErrors("word", () => describeWord(state.pair, chosen, state.about.has_substitutes))();
}

async function readPair() {
  const sentences = [find("first").value, find("second").value];
  if (!sentences.every((text) => text.trim())) throw new ApiError(0, "Write both sentences to compare their words.");
  const found = await ask("/embed_tokens", { sentences });
  return () => {
    clear.pair();
    showNote("pair-note", found.note);
    state.pair = found.sentences.map(({ tokens, vectors }) => ({
      words: tokens.map((token) => token.text), layers: vectors,
    }));
    find("pair-result").hidden = false;
    draw();
  };
}

async function findTasks() {
  const build = await readTasks();
  return () => offerReading(build());
}

Object.assign(clear, {
  tasks: () => offerReading(false),
  story: () => { find("story-section").hidden = true; },
  pair: () => {
    state.pair = state.chosen = null;
    find("heat").replaceChildren();
    find("word").replaceChildren();
    find("pair-result").hidden = true;
    showNote("pair-note");
  },
  word: () => find("word").replaceChildren(),
  map: () => { find("map").replaceChildren(); showNote("map-note"); },
  senses: () => { find("senses").replaceChildren(); showNote("senses-note"); },
  surprisal: () => { find("surprisal").replaceChildren(); showNote("surprisal-note"); },
  search: () => find("hits").replaceChildren(),
});

const read = {
  tasks: showErrors("tasks", findTasks),
  story: showErrors("story", drawStory),
  pair: showErrors("pair", readPair),
  map: showErrors("map", readMap),
  senses: showErrors("senses", readSenses),
  surprisal: showErrors("surprisal", readSurprisal),
  search: showErrors("search", readHits),
};

function slider(name, id, low, high, value, attributes = {}) {
  const input = make("input", { type: "range", min: low, max: high, step: 0.05, value, ...attributes, oninput: draw });
  return make("label", {}, `${name} `, input, make("output", { id }));
}

function build({ num_layers, model, has_index, has_substitutes }) {
  find("model").textContent = model;
  find("layer").max = find("layer").value = String(num_layers - 1);
  const numbers = [...Array(num_layers).keys()];
  find("mix-controls").replaceChildren(
    ...numbers.map((number) => slider(`Layer ${number}`, `weight-${number}`, -4, 4, 0, { "data-layer": number })),
    slider("γ", "gamma-value", 0.05, 3, 1, { id: "gamma" }),
    make("p", {}, "γ scales every vector: it changes dot products but not cosines."));
  find("map-layer").replaceChildren(make("option", { value: "senses" }, "Sense vectors"),
    make("option", { value: "mean" }, "Mean of all layers"),
    ...numbers.map((number) => make("option", { value: number }, `Layer ${number}`)));
  find("example").replaceChildren(...EXAMPLES.map((pair, number) => make("option", { value: number }, pair.join("  /  "))));
  find("senses-example").replaceChildren(...STUDIES.map(({ name }, number) => make("option", { value: number }, name)));
  find("search-section").hidden = !has_index;
  find("surprisal-controls").hidden = !has_substitutes;
  if (!has_substitutes) find("surprisal").replaceChildren(make("p", { class: "hint" }, "Not available: this model has no softmax."));
}

function useExample() {
  [find("first").value, find("second").value] = EXAMPLES[Number(find("example").value)];
}

function useStudy() {
  const { word, before, after } = STUDIES[Number(find("senses-example").value)];
  const values = { word, text: `${before}\n${after}`, before, after };
  for (const [name, value] of Object.entries(values)) find(`senses-${name}`).value = value;
}

// Senses follow the fields while the texts are short; of longer ones the button finds them.
function typeSenses() {
  const size = ["text", "before", "after"].reduce((sum, name) => sum + find(`senses-${name}`).value.length, 0);
  if (size <= TYPED) return read.senses();
  abandon("senses");
  clear.senses();
}

function chooseTexts() {
  find("senses-one").hidden = wantsTwo();
  find("senses-two").hidden = !wantsTwo();
  document.querySelector("#senses-form button").textContent = wantsTwo() ? "Compare" : "Find senses";
}

async function readAll() {
  await read.story();
  await read.pair();
  await read.map();
  await read.senses();
  if (state.about.has_substitutes) await read.surprisal();
}

// Reads a view when it is first opened.
async function open(name) {
  if (state.opened.has(name)) return;
  state.opened.add(name);
  await (name === "read" ? openReading() : readAll());
}

async function enter() {
  await read.tasks();
  await show();
}

async function start() {
  state.about = await ask("/ready");
  build(state.about);
  useExample();
  find("map-word").value = MAP_WORD;
  find("map-sentences").value = MAP_SENTENCES.join("\n");
  document.querySelectorAll(".scroll").forEach(showOverflow);
  onChange(["first", "second"], read.pair);
  onChange(["map-word", "map-sentences", "map-layer"], read.map);
  find("example").addEventListener("change", () => { useExample(); return read.pair(); });
  for (const id of ["layer", "measure"]) find(id).addEventListener("input", draw);
  for (const radio of document.querySelectorAll("input[name=mode]")) radio.addEventListener("change", draw);
  find("map-form").addEventListener("submit", read.map);
  useStudy();
  find("surprisal-sentence").value = SENTENCE;
  onChange(["senses-word", "senses-text", "senses-before", "senses-after"], typeSenses);
  onChange(["surprisal-sentence"], read.surprisal);
  find("senses-example").addEventListener("change", () => { useStudy(); return read.senses(); });
  for (const radio of document.querySelectorAll("input[name=texts]")) {
    radio.addEventListener("change", () => { chooseTexts(); return read.senses(); });
  }
  find("senses-form").addEventListener("submit", read.senses);
  find("surprisal-side").addEventListener("change", drawSurprisal);
  find("search-form").addEventListener("submit", read.search);
  for (const radio of document.querySelectorAll("input[name=by]")) {
    radio.addEventListener("change", () => { if (find("query").value.trim()) return read.search(); });
  }
  find("query").addEventListener("input", () => {
    if (find("query").value) return;
    abandon("search");
    clear.search();
  });
  find("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    useKey(find("key").value);
    find("key-form").hidden = find("message").hidden = true;
    state.opened.clear();
    return enter();
  });
  followAddress(open);
  await enter();
}

showErrors("page", start)();
