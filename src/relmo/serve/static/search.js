// The passages of the served index that answer a query, each with its best sentence and words marked.

import { ApiError, ask } from "./api.js";
import { find, make, plural } from "./elements.js";
import { nest, unitOffsets } from "./spans.js";

const SCORES = { hybrid: "score (BM25 and cosine)", vectors: "cosine", words: "BM25" };
const LONG = 600; // characters of a passage that is shown in part
const BEFORE = 150; // characters shown before its best sentence, about

export async function readHits() {
  const query = find("query").value, by = document.querySelector("input[name=by]:checked").value;
  if (!query.trim()) throw new ApiError(0, "Enter a query.");
  const { hits } = await ask("/search", { query, k: 10, by, explain: true });
  return () => {
    find("hits").replaceChildren(...(hits.length ? hits.map((hit) => drawHit(hit, by)) : [make("li", {}, "No results.")]));
  };
}

function drawHit(hit, by) {
  const { text, explanation } = hit, toUnit = unitOffsets(text);
  const span = ([start, end], kind) => ({ start: toUnit(start), end: toUnit(end), kind });
  const sentence = span(explanation.sentence, "sentence");
  const nodes = nest([sentence, ...explanation.words.map((word) => span(word, "word"))]);
  const passage = make("div", { class: "passage", dir: "auto" });
  const [from, to] = excerpt(text, sentence);
  const item = make("li", {}, passage, make("div", { class: "number" }, describe(hit, by)));
  drawPassage(passage, text, nodes, from, to);
  if (from > 0 || to < text.length) item.lastChild.append(" ", wholePassage(passage, text, nodes));
  return item;
}

// The part of a passage that is shown first: around the best sentence, between words.
function excerpt(text, { start }) {
  if (text.length <= LONG) return [0, text.length];
  const from = start <= BEFORE ? 0 : text.indexOf(" ", start - BEFORE) + 1 || start;
  const to = text.indexOf(" ", from + LONG);
  return [Math.min(from, start), to < 0 ? text.length : to];
}

function drawPassage(passage, text, nodes, from, to) {
  passage.replaceChildren(from > 0 ? "… " : "", ...marked(text, nodes, from, to), to < text.length ? " …" : "");
}

// The text from one offset to another, with elements for the nodes that `nest` has made.
function marked(text, nodes, from, to) {
  const parts = [];
  let done = from;
  for (const { span, start, end, inside } of nodes) {
    const [first, last] = [Math.max(start, from), Math.min(end, to)];
    if (first >= last) continue;
    const name = span.kind === "word" ? "b" : "mark";
    parts.push(text.slice(done, first), make(name, {}, ...marked(text, inside, first, last)));
    done = last;
  }
  return [...parts, text.slice(done, to)];
}

function describe(hit, by) {
  const words = Math.round(100 * hit.explanation.by_words);
  return [
    hit.line ? `${hit.document}:${hit.line}` : hit.document,
    `${SCORES[by]} ${hit.score.toFixed(3)}`,
    ...(by === "hybrid" ? [`${words}% by words, ${100 - words}% by meaning`] : []),
    ...(hit.copies ? [`${plural(hit.copies, "near-copy", "near-copies")} left out`] : []),
  ].join(" · ");
}

function wholePassage(passage, text, nodes) {
  const button = make("button", { type: "button", class: "link", onclick: () => {
    drawPassage(passage, text, nodes, 0, text.length);
    passage.tabIndex = -1; // the focus goes on from here
    passage.focus();
    button.remove();
  } }, "Whole passage");
  return button;
}
