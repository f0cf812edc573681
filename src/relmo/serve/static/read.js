// The view "Read": a text, what the served task models find in it, and questions on it.

import { ask } from "./api.js";
import { READINGS } from "./examples.js";
import { find, make } from "./elements.js";
import { KINDS } from "./findings.js";
import { drawLabels } from "./labels.js";
import { describe, drawRoles, drawText, score, spanAt } from "./marks.js";
import { explain, onChange } from "./parts.js";
import { pairSection, predict, questionForm } from "./questions.js";
import { unitOffsets } from "./spans.js";

const TYPED = 5_000; // characters of a text that is read while one types
const state = { tasks: [], questions: [], pairs: [], reading: null };

const isOn = (task) => find(`show-${task.name}`).checked;

// ── what is served ───────────────────────────────────────────────────────────────────────────────

// Asks for the served task models; returns a function that builds their controls and says whether
// there are any.
export async function readTasks() {
  const { tasks } = await ask("/tasks");
  const titles = tasks.map(nameTask);
  const named = tasks.map((task, number) => {
    const title = titles[number], isAlone = titles.indexOf(title) === titles.lastIndexOf(title);
    return { ...task, title: isAlone ? title : `${title} (${task.name})` };
  });
  return () => {
    build(named);
    return state.tasks.length + state.questions.length + state.pairs.length > 0;
  };
}

function nameTask({ name, task, result }) {
  const fixed = { pos: "Parts of speech", sst: "Sentiment", "sst-phrases": "Sentiment", squad: "Question", snli: "Entailment" }[task];
  if (fixed) return fixed;
  const [, subject] = /^relmo-.+-(\w+)$/.exec(name) ?? []; // relmo-en-emotion, relmo-en-base-emotion
  if (KINDS[result]?.isWhole && subject) return subject[0].toUpperCase() + subject.slice(1);
  return KINDS[result]?.name ?? name;
}

function build(tasks) {
  const ofOne = tasks.filter(({ texts, result }) => texts.length === 1 && KINDS[result]);
  const ofTwo = tasks.filter(({ texts }) => texts.length === 2);
  state.tasks = Object.keys(KINDS).flatMap((kind) => ofOne.filter(({ result }) => result === kind));
  const areAllOff = state.tasks.every(({ result }) => KINDS[result].isOff);
  find("read-models").textContent = tasks.map(({ name }) => name).join(", ");
  find("read-tasks").replaceChildren(...state.tasks.map((task) => make("label", { title: task.name },
    make("input", { type: "checkbox", id: `show-${task.name}`, onchange: toggle,
      ...(KINDS[task.result].isOff && !areAllOff ? {} : { checked: "" }) }), ` ${task.title}`)));
  find("read-toggles").hidden = !state.tasks.length;
  state.questions = ofTwo.filter(({ result }) => result === "answer")
    .map((task) => questionForm(task, task.title, { read: readText, answered, showAnswer }));
  state.pairs = ofTwo.filter(({ result }) => KINDS[result]?.isWhole).map((task) => pairSection(task, task.title));
  find("read-questions").replaceChildren(...state.questions.map(({ element }) => element));
  find("read-pairs").replaceChildren(...state.pairs.map(({ element }) => element));
  if (!state.isBuilt) wire();
  state.isBuilt = true;
}

function wire() {
  find("read-examples").append(...READINGS.map((example) =>
    make("button", { type: "button", class: "plain", onclick: () => useExample(example) }, example.name)));
  find("read-form").addEventListener("submit", (event) => { event.preventDefault(); readText(); });
  onChange(["read-text"], typeText);
  const shown = find("read-shown");
  shown.addEventListener("click", ({ target }) => choose(target.closest(".predicate")));
  shown.addEventListener("keydown", step);
  for (const part of [shown, find("read-legend")]) {
    part.addEventListener("mouseover", ({ target }) => point(target));
    part.addEventListener("mouseleave", () => point(document.activeElement));
    part.addEventListener("focusin", ({ target }) => point(target));
    part.addEventListener("focusout", () => point(null));
  }
}

// Fills all fields with an example and reads it.
export function useExample({ text, question, pair } = READINGS[0]) {
  find("read-text").value = text;
  readText();
  for (const each of state.questions) { each.fill(question); each.ask(); }
  for (const each of state.pairs) { each.fill(pair); each.ask(); }
}

// Reads what stands in the fields, or an example if nothing does.
export const openReading = () => (find("read-text").value ? readText() : useExample());

// ── reading ──────────────────────────────────────────────────────────────────────────────────────

// Asks the models that are switched on about the text; the reading that collects their answers.
function readText() {
  const text = find("read-text").value;
  if (state.reading?.text !== text) start(text);
  if (!text.trim()) {
    showProblems([["", "Enter a text."]]);
    return null;
  }
  for (const task of state.tasks.filter(isOn)) readTask(state.reading, task);
  draw();
  return state.reading;
}

// What is found goes to the reading for which it was asked, so a late answer changes no other.
function start(text) {
  state.reading = text.trim() ? { text, toUnit: unitOffsets(text), waiting: new Set(), found: {}, problems: {}, answers: new Map(), frame: null } : null;
  for (const each of state.questions) each.empty();
  if (!state.reading) find("read-result").hidden = true;
}

async function readTask(reading, task) {
  const { found, problems, waiting } = reading;
  if (task.name in found || waiting.has(task)) return;
  waiting.add(task);
  delete problems[task.name];
  try {
    found[task.name] = { value: await predict(task, reading.text) };
  } catch (error) {
    problems[task.name] = explain(error);
  }
  waiting.delete(task);
  if (reading === state.reading) draw();
}

// The text follows the field while it is short; a longer one is read by the button.
function typeText() {
  if (find("read-text").value.length <= TYPED) return readText();
  state.reading = null;
  find("read-result").hidden = true;
  showProblems([]);
  for (const each of state.questions) each.empty();
}

function toggle() {
  if (state.reading) readText();
}

function answered(reading, task, found) {
  if (reading !== state.reading) return false;
  reading.answers.set(task, found);
  draw();
  return true;
}

// ── drawing ──────────────────────────────────────────────────────────────────────────────────────

function draw() {
  const { reading } = state;
  const { text, found, waiting, problems } = reading;
  const on = state.tasks.filter(isOn);
  const isNew = on.some(({ name }) => name in found || problems[name]) || reading.answers.size || !waiting.size;
  find("read-result").setAttribute("aria-busy", String(!isNew));
  showProblems(on.filter(({ name }) => problems[name]).map(({ name, title }) => [title, problems[name]]));
  if (!isNew) return; // until then the text before stays, pale
  const marking = on.filter(({ result }) => !KINDS[result].isWhole);
  const context = (task) => ({ task, toUnit: reading.toUnit });
  const spans = [...answerSpans(reading), ...marking.filter(({ name }) => name in found)
    .flatMap((task) => KINDS[task.result].spans(found[task.name].value, context(task)))];
  find("read-legend").replaceChildren(...on.flatMap((task) => {
    const { legend, isWhole } = KINDS[task.result], answer = found[task.name];
    const about = !answer ? [waiting.has(task) ? "reading …" : "–"] : isWhole ? drawLabels(answer.value) : legend(answer.value, context(task));
    return [make("dt", {}, task.title), make("dd", {}, ...about)];
  }));
  find("read-shown").replaceChildren(...drawText(text, spans));
  marks()[0]?.setAttribute("tabindex", "0");
  find("read-hint").hidden = !spans.length;
  find("read-status").textContent = "";
  find("read-result").hidden = false;
  if (reading.frame) showRoles();
}

function answerSpans({ answers, toUnit }) {
  return [...answers].filter(([, found]) => found).map(([task, { start, end, score: value }]) => (
    { start: toUnit(start), end: toUnit(end), kind: "answer", task, about: `Answer, ${score(value)}` }));
}

// Problems by their message, each with the tasks that have it.
function showProblems(problems) {
  const titles = new Map();
  for (const [title, message] of problems) titles.set(message, [...(titles.get(message) ?? []), title]);
  const isOne = titles.size === 1 && problems.length === state.tasks.filter(isOn).length;
  find("read-problem").replaceChildren(...[...titles].map(([message, names]) =>
    make("p", {}, isOne || !names[0] ? message : `${names.join(", ")}: ${message}`)));
  find("read-problem").hidden = !titles.size;
}

// ── moving about ─────────────────────────────────────────────────────────────────────────────────

const marks = () => [...find("read-shown").querySelectorAll("[tabindex]")];

// The text is one stop of the Tab key; arrow keys go from mark to mark.
function step(event) {
  if ((event.key === "Enter" || event.key === " ") && event.target.matches(".predicate")) {
    event.preventDefault();
    return choose(event.target);
  }
  if (!event.target.hasAttribute("tabindex")) return;
  const all = marks(), at = all.indexOf(event.target);
  const next = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
  if (next === undefined) return;
  event.preventDefault();
  all[next]?.focus();
}

// Says what is known of a place, and lights up the mentions of the same thing.
function point(element) {
  const isInside = element && find("read-result").contains(element);
  if (isInside && element === document.activeElement && element.hasAttribute("tabindex")) {
    find("read-shown").querySelector("[tabindex='0']")?.setAttribute("tabindex", "-1");
    element.setAttribute("tabindex", "0");
  }
  const status = find("read-status");
  status.textContent = isInside ? describe(element) : "";
  if (status.textContent) { // it must not cover what it is about
    status.classList.toggle("above", element.getBoundingClientRect().bottom > innerHeight - status.offsetHeight - 8);
  }
  const cluster = isInside ? element.closest("[data-cluster]")?.dataset.cluster : undefined;
  for (const mention of find("read-result").querySelectorAll("[data-cluster]")) {
    mention.classList.toggle("lit", mention.dataset.cluster === cluster);
  }
}

function choose(element) {
  if (!element || find("read-result").ariaBusy === "true") return; // of a text that is no longer there
  const { frame } = spanAt(element);
  state.reading.frame = state.reading.frame === frame ? null : frame;
  element.focus();
  showRoles();
}

function showRoles() {
  const { reading } = state;
  document.querySelectorAll("#read-shown .roles").forEach((panel) => panel.remove());
  for (const element of document.querySelectorAll("#read-shown .predicate")) {
    const span = spanAt(element), isChosen = span.frame === reading.frame;
    element.setAttribute("aria-pressed", String(isChosen));
    if (isChosen && !document.querySelector("#read-shown .roles")) {
      drawRoles(reading.text, span, element, () => { choose(element); });
    }
  }
}

function showAnswer(task) {
  const element = marks().find((mark) => spanAt(mark).task === task);
  element?.scrollIntoView({ block: "center" });
  element?.focus();
}
