// A map of the occurrences of one word, and the sentences in the same colors.

import { ask } from "./api.js";
import { find, make } from "./elements.js";

const HEIGHT = 320, EDGE = 26;

export async function drawMap() {
  const sentences = find("map-sentences").value.split("\n").map((line) => line.trim()).filter(Boolean);
  const layer = find("map-layer").value;
  const body = { word: find("map-word").value, sentences };
  if (layer !== "mean") body.layer = Number(layer);
  const { points, shares } = await ask("/word_map", body);
  const width = Math.max(280, find("map-form").clientWidth); // a unit is a pixel, on phones too
  const place = scale(points, width);
  const svg = make("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "group", "aria-label": "Map of occurrences" });
  const list = make("ul");
  points.forEach((point, number) => {
    const sentence = sentences[point.sentence];
    const [x, y] = place(point);
    const light = (on) => () => {
      circle.classList.toggle("chosen", on);
      row.classList.toggle("chosen", on);
    };
    const events = { onmouseenter: light(true), onmouseleave: light(false), onfocus: light(true), onblur: light(false) };
    const circle = make("circle", {
      cx: x, cy: y, r: 7, class: `fill${point.cluster}`, tabindex: 0, role: "img",
      "aria-label": `${number + 1}: ${sentence}`, ...events,
    }, make("title", {}, sentence));
    const label = make("text", { x: x + 10, y: y + 3 }, String(number + 1));
    const dot = make("span", { class: `dot fill${point.cluster}` });
    const row = make("li", { onmouseenter: events.onmouseenter, onmouseleave: events.onmouseleave },
      dot, `${number + 1}. ${sentence}`);
    svg.append(circle, label);
    list.append(row);
  });
  const count = new Set(points.map((point) => point.cluster)).size;
  const percent = Math.round(100 * (shares[0] + shares[1]));
  const note = `${points.length} occurrences, ${count} ${count === 1 ? "cluster" : "clusters"}; ` +
    `the plane explains ${percent}% of the variance.`;
  find("map").replaceChildren(svg, make("p", { class: "hint" }, note), list);
}

function scale(points, width) {
  const bounds = (key) => {
    const values = points.map((point) => point[key]);
    return [Math.min(...values), Math.max(...values)];
  };
  const [left, right] = bounds("x"), [bottom, top] = bounds("y");
  const place = (value, low, high, size) =>
    high - low < 1e-9 ? size / 2 : EDGE + (size - 2 * EDGE) * (value - low) / (high - low);
  return ({ x, y }) => [place(x, left, right, width), HEIGHT - place(y, bottom, top, HEIGHT)];
}
