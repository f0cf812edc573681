// The labels of a text, or of two, as small bars.

import { make } from "./elements.js";

const SHOWN = 6; // labels with a bar

// `found` is one label, a list of labels, or null: { label, score, scores: label -> probability }.
export function drawLabels(found) {
  const chosen = [found ?? []].flat();
  if (!chosen.length) return [make("p", { class: "hint" }, found ? "No label fits." : "There are no words to label.")];
  const scores = { ...chosen[0].scores };
  for (const { label, score } of chosen) scores[label] = score;
  const names = new Set(chosen.map(({ label }) => label));
  const order = Object.entries(scores).sort((a, b) => names.has(b[0]) - names.has(a[0]) || b[1] - a[1]);
  const rows = order.slice(0, Math.max(SHOWN, names.size)).map(([label, share]) => bar(label, share, names.has(label)));
  const left = order.length - rows.length;
  return [make("ul", { class: "bars" }, ...rows), ...(left > 0 ? [make("p", { class: "hint" }, `${left} less likely not shown.`)] : [])];
}

function bar(label, share, isChosen) {
  const element = make("i", { class: isChosen ? "fill0" : "fill5" });
  element.style.width = `${Math.round(75 * share)}%`; // the number stands beside it
  const percent = `${Math.round(100 * share)}%`;
  return make("li", { class: isChosen ? "chosen" : "" }, make("span", {}, label), make("span", {}, element, percent));
}
