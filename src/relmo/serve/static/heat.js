// The heat map of two sentences, and the details of a selected word.

import { ask } from "./api.js";
import { find, make } from "./elements.js";
import { cosine, dot, mix, table } from "./vectors.js";

const SHOWN = 5;

export function drawHeat(pair, settings, chosen, choose) {
  const vectors = pair.map(({ layers }) => settings.mode === "mix"
    ? mix(layers, settings.s, settings.gamma) : layers[settings.layer]);
  const values = table(vectors[0], vectors[1], settings.measure === "dot" ? dot : cosine);
  const flat = values.flat();
  const [low, high] = settings.measure === "dot"
    ? [Math.min(0, ...flat), Math.max(1e-9, ...flat)] : [0, 1];
  const button = (side, place) => make("button", {
    type: "button", title: pair[side].words[place],
    "aria-pressed": String(chosen?.side === side && chosen?.place === place),
    onclick: () => choose({ side, place }),
  }, pair[side].words[place]);
  const head = make("tr", {}, make("td"), ...pair[1].words.map((_, place) =>
    make("th", { scope: "col" }, button(1, place))));
  const rows = values.map((row, place) => make("tr", {},
    make("th", { scope: "row" }, button(0, place)),
    ...row.map((value) => cell(value, (value - low) / (high - low)))));
  find("heat").replaceChildren(make("thead", {}, head), make("tbody", {}, ...rows));
}

function cell(value, share) {
  const strength = Math.min(1, Math.max(0, share));
  const element = make("td", {}, Math.abs(value) < 10 ? value.toFixed(2) : value.toFixed(0));
  element.style.backgroundColor =
    `color-mix(in oklab, var(--high) ${Math.round(100 * strength)}%, var(--low))`;
  element.style.color = strength > 0.6 ? "var(--on-high)" : "var(--on-low)";
  return element;
}

export async function describeWord(pair, { side, place }, canSubstitute) {
  const [own, other] = [pair[side], pair[1 - side]];
  const columns = own.layers.map((layer, number) => {
    const scored = other.words.map((word, at) => [word, cosine(layer[place], other.layers[number][at])]);
    scored.sort((a, b) => b[1] - a[1]);
    return make("div", {}, make("h4", {}, `Layer ${number}`),
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
  others.append(make("ol", {}, ...found.substitutes.map(({ word, score }) => item(word, score))));
}

const item = (word, value) =>
  make("li", {}, `${word} `, make("span", { class: "number" }, value.toFixed(2)));
