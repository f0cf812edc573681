// A map of the occurrences of one word, and the sentences in the same colors.

import { ApiError, ask } from "./api.js";
import { find, make, showNote } from "./elements.js";

const HEIGHT = 320, EDGE = 34, RADIUS = 7;
const LETTER = 8.5, LINE = 18; // size of a label's character, in pixels
const NAMED = 4; // numbers in one label

// Returns a function that draws the answer, so that a late answer can be left undrawn.
export async function readMap() {
  const sentences = find("map-sentences").value.split("\n").map((line) => line.trim()).filter(Boolean);
  const word = find("map-word").value.trim();
  if (!word || !sentences.length) throw new ApiError(0, "Enter a word and some sentences that contain it.");
  const layer = find("map-layer").value;
  const body = { word, sentences };
  if (layer === "senses") body.senses = true;
  else if (layer !== "mean") body.layer = Number(layer);
  const answer = await ask("/word_map", body);
  return () => draw(answer, sentences);
}

function draw({ points, shares, note: remark }, sentences) {
  showNote("map-note", remark);
  const width = Math.max(280, find("map-form").clientWidth); // a unit is a pixel, on phones too
  const place = scale(points, width);
  const percent = (share) => `${Math.round(100 * share)}% of the variance`;
  const svg = make("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "group", "aria-label": "Map of occurrences" });
  if (points.length > 1) svg.append(
    make("text", { x: width / 2, y: HEIGHT - 6, class: "axis", "text-anchor": "middle" }, `→ first principal component: ${percent(shares[0])}`),
    make("text", { x: -HEIGHT / 2, y: 14, class: "axis", "text-anchor": "middle", transform: "rotate(-90)" }, `→ second: ${percent(shares[1])}`));
  const list = make("ul");
  const spots = points.map((point) => place(point));
  points.forEach((point, number) => {
    const sentence = sentences[point.sentence];
    const [x, y] = spots[number];
    const light = (on) => () => {
      circle.classList.toggle("chosen", on);
      row.classList.toggle("chosen", on);
    };
    const events = { onmouseenter: light(true), onmouseleave: light(false), onfocus: light(true), onblur: light(false) };
    const circle = make("circle", {
      cx: x, cy: y, r: RADIUS, class: `fill${point.cluster}`, tabindex: 0, role: "img",
      "aria-label": `${number + 1}: ${sentence}`, ...events,
    }, make("title", {}, sentence));
    const dot = make("span", { class: `dot fill${point.cluster}` });
    const row = make("li", { onmouseenter: events.onmouseenter, onmouseleave: events.onmouseleave },
      dot, `${number + 1}. ${sentence}`);
    svg.append(circle);
    list.append(row);
  });
  svg.append(...labels(spots, width));
  const count = new Set(points.map((point) => point.cluster)).size;
  const isOne = new Set(spots.map(String)).size === 1 && points.length > 1;
  const note = `${points.length} ${points.length === 1 ? "occurrence" : "occurrences"}, ${count} ${count === 1 ? "cluster" : "clusters"}` +
    (isOne ? "; all have the same vector: layer 0 has no context." : "; distances are between the directions of the vectors, without a unit.");
  find("map").replaceChildren(svg, make("p", { class: "hint" }, note), list);
}

// One label for points in the same place; each where it covers no point and no other label, or none.
function labels(spots, width) {
  const groups = [];
  spots.forEach((spot, number) => {
    const group = groups.find((each) => Math.hypot(each.spot[0] - spot[0], each.spot[1] - spot[1]) < 3);
    if (group) group.numbers.push(number + 1);
    else groups.push({ spot, numbers: [number + 1] });
  });
  const taken = groups.map(({ spot: [x, y] }) => [x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS]);
  const fits = (box) => box[0] >= 24 && box[1] >= 0 && box[2] <= width && box[3] <= HEIGHT - 24 &&
    taken.every((other) => box[2] <= other[0] || other[2] <= box[0] || box[3] <= other[1] || other[3] <= box[1]);
  return groups.flatMap(({ spot: [x, y], numbers }) => {
    const text = numbers.slice(0, NAMED).join(", ") + (numbers.length > NAMED ? ` and ${numbers.length - NAMED} more` : "");
    const size = text.length * LETTER, far = RADIUS + 2;
    const corners = [
      [x + far, y - LINE / 2], [x - far - size, y - LINE / 2], [x - size / 2, y - far - LINE], [x - size / 2, y + far],
      [x + far, y - far - LINE / 2], [x + far, y + far - LINE / 2], [x - far - size, y - far - LINE / 2], [x - far - size, y + far - LINE / 2],
    ];
    const box = corners.map(([left, top]) => [left, top, left + size, top + LINE]).find(fits);
    if (!box) return [];
    taken.push(box);
    return [make("text", { x: box[0], y: box[1] + 13, class: "label" }, text)];
  });
}

export function scale(points, width, height = HEIGHT) {
  const bounds = (key) => {
    const values = points.map((point) => point[key]);
    return [Math.min(...values), Math.max(...values)];
  };
  const [left, right] = bounds("x"), [bottom, top] = bounds("y");
  const place = (value, low, high, size) =>
    high - low < 1e-9 ? size / 2 : EDGE + (size - 2 * EDGE) * (value - low) / (high - low);
  return ({ x, y }) => [place(x, left, right, width), height - place(y, bottom, top, height)];
}
