// What each kind of task model finds in a text, as spans to mark and as a line of the legend.

import { make, plural } from "./elements.js";
import { lineStyle, nameRole, score, tint } from "./marks.js";

const COMMON = ["PER", "LOC", "ORG", "MISC"]; // have the same colors whatever else a model knows
const LISTED = 12; // clusters in the legend
const SHORT = 32, QUOTED = 60; // characters of a cluster's name, and of a mark that is described

// Kinds by the name of their results, in the order of the page.
export const KINDS = {
  entities: { name: "Entities", spans: entities, legend: entityLegend },
  clusters: { name: "Coreference", spans: mentions, legend: clusterLegend },
  frames: { name: "Roles", spans: predicates, legend: (frames) => [frames.length
    ? `${plural(frames.length, "verb or other predicate", "verbs and other predicates")}; select one in the text to see its roles` : "none found"] },
  tokens: { name: "Tags", spans: tokens, legend: () => ["above each word"], isOff: true },
  label: { name: "Label", isWhole: true },
  labels: { name: "Labels", isWhole: true },
};

// The piece of a text that a result of the server names, with offsets into the string.
const place = ({ start, end }, toUnit) => ({ start: toUnit(start), end: toUnit(end) });
const cut = (text, size) => [...text].slice(0, size).join(""); // halves no emoji
const quote = (text) => `“${text.length > QUOTED ? `${cut(text, QUOTED)}…` : text}”`;

function colorOf(label, labels) {
  return [...COMMON, ...labels.filter((each) => !COMMON.includes(each))].indexOf(label);
}

function entities(found, { toUnit, task }) {
  return found.map((entity) => ({
    ...place(entity, toUnit), kind: "entity", label: entity.label, tint: Math.max(0, colorOf(entity.label, task.labels)),
    about: `${quote(entity.text)}: ${entity.label}, ${score(entity.score)}`,
  }));
}

function entityLegend(found, { task }) {
  const counts = new Map();
  for (const { label } of found) counts.set(label, (counts.get(label) ?? 0) + 1);
  const order = [...counts].sort(([a], [b]) => colorOf(a, task.labels) - colorOf(b, task.labels));
  return order.length ? order.map(([label, count]) => make("span", { class: `chip entity ${tint(Math.max(0, colorOf(label, task.labels)))}` },
    label, make("span", { class: "number" }, ` ${count}`))) : ["none found"];
}

function tokens(found, { toUnit }) {
  return found.map((token) => ({
    ...place(token, toUnit), kind: "token", label: token.tag, isWord: /[\p{L}\p{N}]/u.test(token.text), about: `${quote(token.text)}: ${token.tag}, ${score(token.score)}`,
  }));
}

function mentions(found, { toUnit, task }) {
  return found.flatMap(({ mentions: own }, index) => own.map((mention, at) => ({
    ...place(mention, toUnit), kind: "mention", cluster: `${task.name} ${index}`, number: index + 1,
    about: `${quote(mention.text)}: ${at + 1} of ${plural(own.length, "mention")} of ${index + 1} (${nameCluster(own)}), ${score(mention.score)}`,
  })));
}

// The longest mention of a cluster, which is a name rather than a pronoun, cut after some words.
function nameCluster(own) {
  const longest = own.reduce((best, { text }) => (text.length > best.length ? text : best), "").replace(/\s+/g, " ");
  const short = longest.length <= SHORT ? longest : cut(longest, SHORT).replace(/ [^ ]*$/, "");
  return short.replace(/[\s,;:]+$/, "") + (short === longest ? "" : " …");
}

function clusterLegend(found, { task }) {
  if (!found.length) return ["none found"];
  const order = found.map((cluster, index) => ({ ...cluster, index })).sort((a, b) => b.mentions.length - a.mentions.length);
  const chips = order.slice(0, LISTED).map(({ mentions: own, index }) => {
    const name = make("span", { class: `mention ${tint(index)}` }, nameCluster(own));
    name.style.borderBottomStyle = lineStyle(index + 1);
    return make("button", { type: "button", class: "chip", "data-cluster": `${task.name} ${index}` },
      `${index + 1} `, name, make("span", { class: "number" }, ` ${own.length}`));
  });
  return order.length > LISTED ? [...chips, `and ${order.length - LISTED} more`] : chips;
}

function predicates(found, { toUnit }) {
  return found.map((frame) => {
    const { predicate, arguments: own } = frame;
    const labels = [...new Set(own.map(({ label }) => label.replace(/^[CR]-/, "")))];
    const verb = { ...place(predicate, toUnit), kind: "argument", tint: 0, label: "V", about: `${quote(predicate.text)}: predicate, ${score(predicate.score)}` };
    const roles = [verb, ...own.map((argument) => ({
      ...place(argument, toUnit), kind: "argument", label: nameRole(argument.label), tint: 1 + labels.indexOf(argument.label.replace(/^[CR]-/, "")),
      about: `${quote(argument.text)}: ${nameRole(argument.label)}, ${score(argument.score)}`,
    }))];
    const extent = { start: Math.min(...roles.map(({ start }) => start)), end: Math.max(...roles.map(({ end }) => end)) };
    return {
      ...place(predicate, toUnit), kind: "predicate", text: predicate.text, frame, roles, extent,
      about: `${quote(predicate.text)}: ${plural(own.length, "role")}, ${score(predicate.score)}`,
    };
  });
}
