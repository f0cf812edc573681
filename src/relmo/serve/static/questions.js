// Tasks of two texts: a question on the text above, and the relation of two sentences.

import { ApiError, ask } from "./api.js";
import { find, make } from "./elements.js";
import { drawLabels } from "./labels.js";
import { score } from "./marks.js";
import { clear, showErrors } from "./parts.js";

const TITLES = { snli: "Does the second sentence follow from the first?" };
const capital = (word) => word[0].toUpperCase() + word.slice(1);

export const predict = async (task, input) =>
  (await ask(`/predict/${encodeURIComponent(task.name)}`, { inputs: [input] })).results[0];

const problem = (part) => make("p", { id: `${part}-problem`, class: "problem", role: "alert", hidden: "" });

// A field for questions on the text. `read` gives the reading that is asked, `answered` is told of
// its answer, { name, found }, and `showAnswer` leads to it in the text.
export function questionForm(task, title, { read, answered, showAnswer }) {
  const part = `ask-${task.name}`, [first, second] = task.texts;
  const input = make("input", { class: "question", autocomplete: "off" });
  const shown = make("p", { class: "reply", "aria-live": "polite" });
  clear[part] = () => shown.replaceChildren();
  const work = showErrors(part, async () => {
    const question = input.value, reading = read();
    if (!question.trim()) throw new ApiError(0, `Enter a ${first}.`);
    if (!reading) throw new ApiError(0, "Enter a text.");
    shown.setAttribute("aria-busy", "true");
    try {
      const found = await predict(task, { [first]: question, [second]: reading.text });
      return () => {
        if (!answered(reading, task, found)) return; // another text stands there now
        shown.replaceChildren(...(found ? ["Answer: ", make("button", { type: "button", class: "link", onclick: () => showAnswer(task) }, found.text),
          make("span", { class: "number" }, ` ${score(found.score)}`)] : ["No answer found in this text."]));
      };
    } finally {
      shown.removeAttribute("aria-busy");
    }
  });
  const form = make("form", { class: "ask", onsubmit: work },
    make("label", {}, `${title} `, input), make("button", {}, "Ask"), shown, problem(part));
  return { element: form, ask: work, fill: (question) => { input.value = question; }, empty: () => { clear[part](); find(`${part}-problem`).hidden = true; } };
}

// Two fields and the label of the pair.
export function pairSection(task, title) {
  const part = `pair-${task.name}`;
  const fields = task.texts.map((name) => make("textarea", { rows: 2, spellcheck: "false", name }));
  const shown = make("div", { "aria-live": "polite" });
  clear[part] = () => shown.replaceChildren();
  const work = showErrors(part, async () => {
    if (!fields.every(({ value }) => value.trim())) throw new ApiError(0, `Enter a ${task.texts.join(" and a ")}.`);
    const found = await predict(task, Object.fromEntries(fields.map(({ name, value }) => [name, value])));
    return () => shown.replaceChildren(...drawLabels(found));
  });
  const form = make("form", { onsubmit: work, oninput: clear[part] },
    make("div", { class: "pair" }, ...fields.map((field) => make("label", {}, `${capital(field.name)} `, field))),
    make("div", { class: "row" }, make("button", {}, "Compare")));
  const id = `${part}-title`;
  const section = make("section", { "aria-labelledby": id },
    make("h2", { id }, TITLES[task.task] ?? title), form, problem(part), shown);
  return { element: section, ask: work, fill: (texts) => fields.forEach((field, number) => { field.value = texts[number] ?? ""; }) };
}
