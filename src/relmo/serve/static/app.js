// The page: reads the controls, calls the server, draws. The layers of both sentences are fetched
// once; moving a slider only recomputes the similarities.

import { ApiError, ask, useKey } from "./api.js";
import { find, make } from "./elements.js";
import { drawHeat, describeWord } from "./heat.js";
import { drawMap } from "./map.js";
import { softmax } from "./vectors.js";

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

const state = { pair: null, chosen: null, about: null, asked: 0 };

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
    find(`weight-${number}`).textContent = `s = ${now.s[number].toFixed(1)}, weight ${weight.toFixed(2)}`;
  });
  find("gamma-value").textContent = now.gamma.toFixed(2);
  if (state.pair) drawHeat(state.pair, now, state.chosen, choose);
}

async function choose(chosen) {
  state.chosen = chosen;
  draw();
  const side = chosen.side ? "thead" : "tbody";
  document.querySelectorAll(`#heat ${side} button`)[chosen.place].focus();
  await describeWord(state.pair, chosen, state.about.has_substitutes);
}

async function readPair() {
  const turn = ++state.asked;
  const sentences = [find("first").value, find("second").value];
  if (!sentences.every((text) => text.trim())) return;
  const found = await ask("/embed_tokens", { sentences });
  if (turn !== state.asked) return; // the text has changed since
  state.pair = found.sentences.map(({ tokens, vectors }) => ({
    words: tokens.map((token) => token.text), layers: vectors,
  }));
  state.chosen = null;
  find("word").replaceChildren();
  draw();
}

async function search() {
  const { hits } = await ask("/search", { query: find("query").value, k: 10, hybrid: find("hybrid").checked });
  const place = (hit) => (hit.line ? `${hit.document}:${hit.line}` : hit.document);
  find("hits").replaceChildren(...hits.map((hit) => make("li", {}, `${hit.text ?? ""} `,
    make("span", { class: "number" }, [place(hit), hit.score?.toFixed?.(3)].filter(Boolean).join(" · ")))));
  if (!hits.length) find("hits").replaceChildren(make("li", {}, "No results."));
}

// Shows errors at the top of the page, and the key form if a key is missing.
const showErrors = (work) => async (event) => {
  event?.preventDefault?.();
  find("message").hidden = true;
  try {
    await work(event);
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) find("key-form").hidden = false;
    find("message").textContent = error instanceof ApiError ? error.message : "The server does not respond.";
    find("message").hidden = false;
  }
};

function slider(name, id, low, high, value, attributes = {}) {
  const input = make("input", { type: "range", min: low, max: high, step: 0.05, value, ...attributes, oninput: draw });
  return make("label", {}, `${name} `, input, make("output", { id }));
}

function build({ num_layers, model, has_index }) {
  find("model").textContent = model;
  find("layer").max = find("layer").value = String(num_layers - 1);
  const numbers = [...Array(num_layers).keys()];
  find("mix-controls").replaceChildren(
    ...numbers.map((number) => slider(`Layer ${number}`, `weight-${number}`, -4, 4, 0, { "data-layer": number })),
    slider("γ", "gamma-value", 0.05, 3, 1, { id: "gamma" }),
    make("p", {}, "γ scales every vector: it changes dot products but not cosines."));
  find("map-layer").replaceChildren(make("option", { value: "mean" }, "Mean of all layers"),
    ...numbers.map((number) => make("option", { value: number }, `Layer ${number}`)));
  find("example").replaceChildren(...EXAMPLES.map((pair, number) => make("option", { value: number }, pair.join("  /  "))));
  find("search-section").hidden = !has_index;
}

function useExample() {
  [find("first").value, find("second").value] = EXAMPLES[Number(find("example").value)];
}

async function start() {
  state.about = await ask("/ready");
  build(state.about);
  useExample();
  find("map-word").value = MAP_WORD;
  find("map-sentences").value = MAP_SENTENCES.join("\n");
  let timer;
  for (const id of ["first", "second"]) {
    find(id).addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(showErrors(readPair), 300); });
  }
  find("example").addEventListener("change", showErrors(() => { useExample(); return readPair(); }));
  for (const id of ["layer", "measure"]) find(id).addEventListener("input", draw);
  for (const radio of document.querySelectorAll("input[name=mode]")) radio.addEventListener("change", draw);
  find("map-form").addEventListener("submit", showErrors(drawMap));
  find("search-form").addEventListener("submit", showErrors(search));
  find("key-form").addEventListener("submit", showErrors(async () => {
    useKey(find("key").value);
    await readPair();
    find("key-form").hidden = true;
  }));
  await readPair();
  await drawMap();
}

showErrors(start)();
