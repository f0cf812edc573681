// A sentence's words, shaded by how unexpected they are.

import { ApiError, ask } from "./api.js";
import { find, make, showNote } from "./elements.js";
import { shade } from "./heat.js";

const STRONGEST = 16; // bits
const NAMES = { surprisal: "before", surprisal_backward: "after", surprisal_both: "both" };
let words = [];

export async function readSurprisal() {
  const sentence = find("surprisal-sentence").value;
  if (!sentence.trim()) throw new ApiError(0, "Write a sentence.");
  const answer = await ask("/surprisal", { sentence });
  return () => {
    words = answer.words;
    showNote("surprisal-note", answer.note);
    drawSurprisal();
  };
}

export function drawSurprisal() {
  const side = find("surprisal-side").value;
  const items = words.map((word) => {
    const all = Object.entries(NAMES).map(([key, name]) => `${name} ${word[key].toFixed(1)}`).join(", ");
    return shade(make("li", { title: `${word.token}: ${all} bits${word.known ? "" : "; not in the vocabulary"}` },
      make("span", {}, word.token), make("span", { class: "bits" }, word[side].toFixed(1))), word[side] / STRONGEST);
  });
  const mean = words.reduce((sum, word) => sum + word[side], 0) / words.length;
  find("surprisal").replaceChildren(make("ol", {}, ...items),
    make("p", { class: "hint" }, `Numbers are bits, −log₂ p(word); ${mean.toFixed(1)} on average. `,
      make("span", { class: "scale" }, make("span", {}, "0"), make("span", { class: "bar" }), make("span", {}, `${STRONGEST} or more`))));
}
