// A text as elements: its entities, mentions, predicates and tags are marked where they stand.

import { make } from "./elements.js";
import { depth, lines, nest, sentences } from "./spans.js";

export const TINTS = 8;
const LONG = 30; // characters of a word that may be broken
const OUTSIDE = ["answer", "mention", "entity", "token", "predicate"]; // the outer first, of the same words
const LINES = ["solid", "dashed", "dotted"]; // of the clusters that share a color

// PropBank's roles in a word or two; the meaning of ARG2 to ARG5 depends on the verb.
const ROLES = {
  V: "predicate", ARG0: "who or what acts", ARG1: "who or what is affected", ADJ: "adjectival", ADV: "adverbial",
  CAU: "cause", COM: "companion", CXN: "construction", DIR: "direction", DIS: "discourse", EXT: "extent", GOL: "goal",
  LOC: "place", LVB: "light verb", MNR: "manner", MOD: "modal", NEG: "negation", PRD: "secondary predication",
  PRP: "purpose", PRR: "predicating relation", REC: "reciprocal", TMP: "time",
};

const spanOf = new WeakMap(); // element -> the span that it shows
export const score = (value) => `score ${value.toFixed(2)}`;
export const tint = (number) => `tint${number % TINTS}`;
const tag = (name, text) => make(name, { class: "tag" }, text);
const isMention = (span) => span.kind === "mention";

// How a span of each kind is shown; `inside` are its words, or elements of the spans inside it.
const SHOWN = {
  line: ({ span }, inside) => make("div", { class: span.isBlank ? "line blank" : "line", dir: "auto" }, ...inside),
  sentence: (node, inside) => make("span", { class: "sentence" }, ...inside),
  answer: (node, inside) => make("mark", { class: "answer" }, ...inside, ...(node.isLast ? [tag("span", "answer")] : [])),
  entity: (node, inside) => make("mark", { class: `entity ${tint(node.span.tint)}` }, ...inside,
    ...(node.isLast ? [tag("span", node.span.label)] : [])),
  mention: (node, inside) => {
    const { cluster, number } = node.span;
    const element = make("mark", { class: `mention ${tint(number - 1)}`, "data-cluster": cluster }, ...inside,
      ...(node.isLast ? [tag("sup", String(number))] : []));
    element.style.borderBottomStyle = lineStyle(number);
    element.style.paddingBottom = `${2 + 5 * Math.min(3, depth(node, isMention))}px`; // below those inside it
    return element;
  },
  predicate: (node, inside) => make("span", { class: "predicate", role: "button", "aria-pressed": "false" }, ...inside),
  token: ({ span, isLast }, inside) => (span.isWord // punctuation needs no tag
    ? make("ruby", span.end - span.start > LONG ? { class: "long" } : {}, ...inside, ...(isLast ? [tag("rt", span.label)] : []))
    : make("span", span.end - span.start > LONG ? {} : { class: "sign" }, ...inside)),
  argument: (node, inside) => make("mark", { class: `argument ${tint(node.span.tint)}` }, ...inside,
    ...(node.isLast ? [tag("span", node.span.label)] : [])),
};

export const lineStyle = (number) => LINES[Math.floor((number - 1) / TINTS) % LINES.length];

// A text as elements, one of each line, with its spans { kind, start, end, … } marked.
export function drawText(text, spans) {
  const all = lines(text);
  const parts = sentences(text, all, spans.flatMap((span) => [span, ...(span.extent ? [span.extent] : [])]));
  const frame = [...all.map((span) => ({ ...span, kind: "line", level: -2 })), ...parts.map((span) => ({ ...span, kind: "sentence", level: -1 }))];
  const sorted = [...spans].sort((a, b) => OUTSIDE.indexOf(a.kind) - OUTSIDE.indexOf(b.kind));
  return draw(text, nest([...frame, ...sorted]));
}

// The elements of nodes that `nest` has made.
function draw(text, nodes) {
  return nodes.map((node) => {
    const inside = [];
    let done = node.start;
    draw(text, node.inside).forEach((element, number) => {
      const { start, end } = node.inside[number];
      const between = text.slice(done, start);
      // Chromium finds no place to break a line between two words with tags, unless it is told.
      inside.push(between, ...(/\s$/.test(between) && beginsWithToken(node.inside[number]) ? [make("wbr")] : []), element);
      done = end;
    });
    inside.push(text.slice(done, node.end));
    const element = SHOWN[node.span.kind](node, inside.filter((each) => each !== ""));
    spanOf.set(element, node.span);
    if (node.span.about) element.tabIndex = -1;
    return element;
  });
}

const beginsWithToken = ({ span, inside }) => span.kind === "token" || (inside.length > 0 && beginsWithToken(inside[0]));

// Below the sentence of a predicate: the sentence again, with the predicate's roles.
export function drawRoles(text, predicate, element, close) {
  const sentence = element.closest(".sentence");
  const { start, end } = spanOf.get(sentence);
  const shown = draw(text, nest([{ start, end, kind: "sentence", level: -1 }, ...predicate.roles]));
  const panel = make("div", { class: "roles", role: "group", "aria-label": `Roles of “${predicate.text}”` },
    make("div", { class: "row" }, make("strong", {}, `Roles of “${predicate.text}”`),
      make("button", { type: "button", class: "plain", onclick: close }, "Close")),
    make("p", {}, ...shown));
  if (predicate.roles.length === 1) panel.append(make("p", { class: "hint" }, "No roles found."));
  sentence.after(panel);
}

// “ARGM-TMP” -> “ARGM-TMP, time”; a continued one is C-, one that refers back R-.
export function nameRole(label) {
  const [, prefix, role] = /^([CR]-)?(?:ARGM-)?(.*)$/.exec(label);
  const more = { "C-": "continued", "R-": "refers back" }[prefix];
  return [label, ROLES[role], more].filter(Boolean).join(", ");
}

// What is known of the place of an element, the innermost mark first; nothing outside of marks.
export function describe(element) {
  const found = [];
  for (let at = element.closest(".marked [tabindex]"); at; at = at.parentElement.closest(".marked [tabindex]")) {
    found.push(spanOf.get(at).about);
  }
  return found.join(" · ");
}

export const spanAt = (element) => spanOf.get(element);
