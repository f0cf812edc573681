// A part of the page asks the server and draws what came. What all parts do alike is here: errors
// are shown in words, a late answer is not drawn, typing asks after a pause.

import { ApiError } from "./api.js";
import { find } from "./elements.js";

const WAIT = 300; // milliseconds after the last key

// How to empty each part, so that no old picture stands beside a new question.
export const clear = { page: () => {} };
const turns = {};

// Leaves undrawn what a part has asked for and not yet received.
export const abandon = (part) => { turns[part] = (turns[part] ?? 0) + 1; };

// An error in words; a missing key is asked for in the header.
export function explain(error) {
  if (!(error instanceof ApiError)) return "The server does not respond.";
  if (error.status === 401) find("key-form").hidden = false;
  return error.message;
}

// Does the work of one part of the page and draws what it returns, unless it was asked anew
// meanwhile. On an error the part is emptied and says why.
export const showErrors = (part, work) => async (event) => {
  event?.preventDefault?.();
  abandon(part);
  const turn = turns[part];
  const problem = find(`${part === "word" ? "pair" : part}-problem`) ?? find("message");
  try {
    const drawFound = await work();
    if (turn !== turns[part]) return;
    problem.hidden = true;
    drawFound?.();
  } catch (error) {
    if (turn !== turns[part]) return;
    clear[part]();
    const shown = error.status === 401 ? find("message") : problem;
    shown.textContent = explain(error);
    shown.hidden = false;
  }
};

// Reads anew shortly after the last change of a field.
export function onChange(ids, work) {
  let timer;
  for (const id of ids) {
    find(id).addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(work, WAIT); });
  }
}
