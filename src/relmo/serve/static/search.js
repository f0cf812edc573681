// The passages of the served index that answer a query.

import { ApiError, ask } from "./api.js";
import { find, make } from "./elements.js";

const SCORES = { hybrid: "score (BM25 and cosine)", vectors: "cosine", words: "BM25" };

export async function readHits() {
  const query = find("query").value, by = document.querySelector("input[name=by]:checked").value;
  if (!query.trim()) throw new ApiError(0, "Enter a query.");
  const { hits } = await ask("/search", { query, k: 10, by });
  return () => {
    find("hits").replaceChildren(...(hits.length ? hits.map((hit) => drawHit(hit, by)) : [make("li", {}, "No results.")]));
  };
}

function drawHit(hit, by) {
  const place = hit.line ? `${hit.document}:${hit.line}` : hit.document;
  return make("li", {}, `${hit.text ?? ""} `,
    make("span", { class: "number" }, `${place} · ${SCORES[by]} ${hit.score.toFixed(3)}`));
}
