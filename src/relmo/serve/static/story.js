// The opening: one word in four sentences, first without context, then with it.

import { ask } from "./api.js";
import { find, make } from "./elements.js";
import { cell } from "./heat.js";
import { cosine, senseVector, table } from "./vectors.js";

const WORD = "bank";
const SENTENCES = [
  "The bank raised its interest rates .", "The bank approved the loan .",
  "They sat on the bank of the river .", "Trees grow along the south bank of the lake .",
];
const SENSES = [0, 0, 1, 1]; // money, river
const LOWEST = 0.4; // the lightest color, so that differences near 1 are seen

export async function drawStory() {
  const words = SENTENCES.map((sentence) => sentence.split(" "));
  const { sentences } = await ask("/embed_tokens", { sentences: words });
  const places = words.map((each) => each.indexOf(WORD));
  const top = sentences[0].vectors.length - 1;
  const pick = (vectorOf) => sentences.map(({ vectors }, number) => vectorOf(vectors, places[number]));
  const layers = {
    0: pick((vectors, place) => vectors[0][place]), top: pick((vectors, place) => vectors[top][place]),
    senses: pick(senseVector),
  };
  const pictures = [
    ["Layer 0", "letters only, no context", layers[0]],
    [`Layer ${top}, the top`, "with context", layers.top],
    ["Sense vectors", "with context, and what both sides expect in this place", layers.senses],
  ].map(([name, about, vectors]) => picture(name, about, table(vectors, vectors, cosine)));
  find("story-sentences").replaceChildren(...words.map((each, number) => make("li", {},
    make("span", { class: `dot fill${SENSES[number]}` }),
    ...each.flatMap((word) => [word === "." ? "" : " ", word === WORD ? make("strong", {}, word) : word]))));
  find("story").replaceChildren(...pictures.map(({ element }) => element));
  find("story-summary").textContent = summary(pictures);
  find("story-section").hidden = false;
}

function picture(name, about, values) {
  const numbers = SENTENCES.map((_, number) => number);
  const label = (number, scope) => make("th", { scope }, make("span", { class: `dot fill${SENSES[number]}` }), String(number + 1));
  const rows = numbers.map((row) => make("tr", {}, label(row, "row"),
    ...numbers.map((column) => cell(values[row][column], (values[row][column] - LOWEST) / (1 - LOWEST)))));
  const means = [true, false].map((isSame) => {
    const chosen = numbers.flatMap((row) => numbers.filter((column) =>
      row < column && (SENSES[row] === SENSES[column]) === isSame).map((column) => values[row][column]));
    return chosen.reduce((a, b) => a + b, 0) / chosen.length;
  });
  const element = make("figure", {}, make("figcaption", {}, make("strong", {}, name), `: ${about}`),
    make("table", { class: "heat" }, make("thead", {}, make("tr", {}, make("td"), ...numbers.map((n) => label(n, "col")))),
      make("tbody", {}, ...rows)),
    make("p", { class: "hint" }, `Mean cosine: same meaning ${means[0].toFixed(2)}, different meanings ${means[1].toFixed(2)}.`));
  return { element, means };
}

function summary([{ means: without }, { means: layer }, { means: senses }]) {
  const gap = ([same, different]) => (same - different).toFixed(2);
  const change = Number(gap(layer)) > Number(gap(without)) && Number(gap(senses)) > Number(gap(without));
  return change
    ? `Without context every “${WORD}” is the same (${without[1].toFixed(2)}). With context the two meanings move apart: ` +
      `the same meaning is closer by ${gap(layer)} of cosine in the top layer, and by ${gap(senses)} with sense vectors.`
    : "This model does not separate the two meanings in these sentences.";
}
