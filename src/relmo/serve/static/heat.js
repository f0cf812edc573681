// The heat map of two sentences, and the details of a selected word.

import { ask } from "./api.js";
import { find, make, unsigned } from "./elements.js";
import { cosine, dot, mix, senseVector, table } from "./vectors.js";

const SHOWN = 5;
const FLIP = 0.72; // from here on text is legible in the other color only

export function drawHeat(pair, settings, chosen, choose) {
  const isDot = settings.measure === "dot";
  const vectors = pair.map(({ layers }) => settings.mode === "mix"
    ? mix(layers, settings.s, settings.gamma) : layers[settings.layer]);
  const values = table(vectors[0], vectors[1], isDot ? dot : cosine);
  const flat = values.flat();
  const [low, high] = isDot ? [Math.min(0, ...flat), Math.max(1e-9, ...flat)] : [0, 1];
  const button = (side, place) => make("button", {
    type: "button", title: pair[side].words[place],
    "aria-pressed": String(chosen?.side === side && chosen?.place === place),
    onclick: () => choose({ side, place }),
  }, pair[side].words[place]);
  const head = make("tr", {}, make("td"), ...pair[1].words.map((_, place) =>
    make("th", { scope: "col" }, button(1, place))));
  const rows = values.map((row, place) => make("tr", {},
    make("th", { scope: "row" }, button(0, place)),
    ...row.map((value, at) => {
      const element = cell(value, (value - low) / (high - low));
      if (pair[0].words[place] === pair[1].words[at]) element.className = "same";
      return element;
    })));
  find("heat").replaceChildren(make("thead", {}, head), make("tbody", {}, ...rows));
  find("heat-unit").textContent = isDot
    ? "Dot products of the words' vectors (no unit, no fixed range). Framed: the same word in both sentences."
    : "Cosine similarities of the words' vectors, from −1 to 1. Framed: the same word in both sentences.";
  find("shared").replaceChildren(...describeShared(pair));
}

export function cell(value, share) {
  return shade(make("td", {}, unsigned(Math.abs(value) < 10 ? value.toFixed(2) : value.toFixed(0))), share);
}

// Colors an element by a share, from the lightest at 0 to the strongest at 1.
export function shade(element, share) {
  const percent = Math.round(100 * Math.min(1, Math.max(0, share)));
  element.style.backgroundColor = `color-mix(in oklab, var(--high) ${percent}%, var(--low))`;
  element.style.color = percent > 100 * FLIP ? "var(--on-high)" : "var(--on-low)";
  return element;
}

// The longest word that both sentences contain, through the layers.
function describeShared([first, second]) {
  const both = first.words.filter((word) => second.words.includes(word));
  const word = both.sort((a, b) => b.length - a.length)[0];
  if (!word || word.length < 2) return ["No word is in both sentences."];
  const [a, b] = [first, second].map(({ words }) => words.indexOf(word));
  const steps = first.layers.map((layer, number) =>
    `${cosine(layer[a], second.layers[number][b]).toFixed(2)} in layer ${number}`);
  const senses = [senseVector(first.layers, a), senseVector(second.layers, b)];
  const more = senses.every(Boolean) ? `; ${cosine(...senses).toFixed(2)} with sense vectors` : "";
  return ["Cosine of ", make("strong", {}, word), " and ", make("strong", {}, word),
    `: ${steps.join(", ")}${more}.`];
}

export async function describeWord(pair, { side, place }, canSubstitute) {
  const [own, other] = [pair[side], pair[1 - side]];
  const columns = own.layers.map((layer, number) => {
    const scored = other.words.map((word, at) => [word, cosine(layer[place], other.layers[number][at])]);
    scored.sort((a, b) => b[1] - a[1]);
    return make("div", {}, make("h4", {}, `Layer ${number}, by cosine`),
      make("ol", {}, ...scored.slice(0, SHOWN).map(([word, value]) => item(word, value))));
  });
  const near = make("div", {},
    make("h3", {}, `Nearest to “${own.words[place]}” in the ${side ? "first" : "second"} sentence, by layer`),
    make("div", { class: "columns" }, ...columns));
  const others = make("div", {}, make("h3", {}, "Likely substitutes"));
  find("word").replaceChildren(near, others);
  if (!canSubstitute) {
    others.append(make("p", { class: "hint" }, "Not available: this model has no softmax."));
    return;
  }
  const found = await ask("/substitutes", { sentence: own.words, position: place, k: 8 });
  others.append(make("p", { class: "hint" }, "log p(word | left) + log p(word | right) − log p(word), in nats"),
    make("ol", {}, ...found.substitutes.map(({ word, score }) => item(word, score))));
}

const item = (word, value) =>
  make("li", {}, `${word} `, make("span", { class: "number" }, unsigned(value.toFixed(2))));
