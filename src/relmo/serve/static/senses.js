// The senses of a word in a text, and how the word's use differs between two texts.

import { ApiError, ask } from "./api.js";
import { find, make, plural, showNote } from "./elements.js";
import { scale } from "./map.js";

const WIDTH = 420, HEIGHT = 280, RADIUS = 6;
const COLORS = 5; // senses with a color of their own; the rarer ones share one
const ABOUT = "A point is a place of the word. Near points have contexts that expect the same there (on the two main axes). " +
  "A sense is a cluster of these: a use of the word, not an entry of a dictionary.";
const MEASURES = {
  apd: ["APD", "mean distance between a place before and a place after"],
  prt: ["PRT", "distance between the mean before and the mean after"],
  jsd: ["JSD", "divergence of the senses' shares, in bits (0 to 1)"],
};

export const wantsTwo = () => document.querySelector("input[name=texts]:checked").value === "two";

export async function readSenses() {
  const names = wantsTwo() ? ["before", "after"] : ["text"];
  const word = find("senses-word").value.trim();
  const body = { word };
  for (const name of names) body[name] = find(`senses-${name}`).value;
  if (!word || !names.every((name) => body[name].trim()))
    throw new ApiError(0, wantsTwo() ? "Enter a word and two texts that contain it." : "Enter a word and a text that contains it.");
  find("senses").setAttribute("aria-busy", "true");
  try {
    const answer = await ask(wantsTwo() ? "/change" : "/senses", body);
    return () => {
      showNote("senses-note", answer.note);
      find("senses").replaceChildren(...(answer.jsd ? drawChange(answer) : drawSenses(answer)));
    };
  } finally {
    find("senses").removeAttribute("aria-busy");
  }
}

function drawSenses({ word, places, senses, points }) {
  const items = senses.map(({ share, places: own, substitutes, examples }, number) => make("li", {},
    heading(number, `: ${percent(share)}, ${plural(own, "place")}`), fits(substitutes),
    make("ul", {}, ...examples.map((example) => make("li", {}, ...marked(example))))));
  return [
    make("p", {}, make("strong", {}, plural(senses.length, "sense")), ` of “${word}” at ${plural(places, "place")}.`),
    make("div", { class: "found" }, make("div", {}, cloud(points, points, word, "All places"), make("p", { class: "hint" }, ABOUT)),
      make("ul", { class: "list" }, ...items)),
    allPlaces(points),
  ];
}

function drawChange({ word, before, after, passages_before, passages_after, permutations, senses, points, ...measured }) {
  const rows = Object.entries(MEASURES).map(([key, [name, about]]) => make("tr", {},
    make("th", { scope: "row" }, name, make("span", { class: "hint" }, ` ${about}`)),
    make("td", {}, measured[key].value.toFixed(3)),
    make("td", {}, measured[key].p === null ? "–" : measured[key].p.toFixed(3))));
  const head = ["Measure", "Value", "p"].map((name) => make("th", { scope: "col" }, name));
  const items = senses.map((sense, number) => make("li", {},
    heading(number), ...["before", "after"].map((name) => bar(number, name, sense[name])), fits(sense.substitutes)));
  const part = (text) => points.filter((point) => point.text === text);
  return [
    make("p", {}, `“${word}” at ${plural(before, "place")} before and ${plural(after, "place")} after (in ${passages_before} and ${plural(passages_after, "passage")}), `,
      make("strong", {}, plural(senses.length, "sense")), "."),
    make("table", { class: "measures" }, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows)),
    make("p", { class: "hint" }, `p: how often places assigned to the two texts at random, ${permutations} times, differ as much or more. ` +
      "Passages are assigned as a whole: what stands between blank lines; without these, lines or a twentieth of the text."),
    make("div", { class: "found even" }, cloud(part("before"), points, word, "Before"), cloud(part("after"), points, word, "After")),
    make("p", { class: "hint" }, ABOUT),
    make("ul", { class: "list wide" }, ...items),
    allPlaces(points),
  ];
}

const percent = (share) => `${Math.round(100 * share)}%`;
const fill = (sense) => `fill${Math.min(sense, COLORS)}`;
const dot = (sense) => make("span", { class: `dot ${fill(sense)}` });
const marked = ({ left, word, right }) => [left, make("mark", {}, word), right];
const heading = (number, ...about) => make("p", {}, dot(number), make("strong", {}, `Sense ${number + 1}`), ...about);

function fits(substitutes) {
  return substitutes.length ? make("p", { class: "fits" }, `Fits there: ${substitutes.join(", ")}`)
    : make("p", { class: "hint" }, "No substitutes: this model has no softmax.");
}

function bar(number, name, share) {
  const element = make("i", { class: fill(number) });
  element.style.width = `${Math.round(80 * share)}%`; // the number stands beside it
  return make("div", { class: "share" }, name, make("span", {}, element, percent(share)));
}

// The points of one text, at their places among all.
function cloud(points, all, word, name) {
  const place = scale(all, WIDTH, HEIGHT);
  const circles = points.map((point) => {
    const [cx, cy] = place(point);
    return make("circle", { cx, cy, r: RADIUS, class: fill(point.sense - 1) },
      make("title", {}, `Sense ${point.sense}: ${point.left}[${point.word}]${point.right}`));
  });
  return make("figure", {},
    make("figcaption", {}, make("strong", {}, name), `, ${points.length}`),
    make("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${plural(points.length, "place")} of “${word}”, listed below` }, ...circles));
}

function allPlaces(points) {
  const sorted = [...points].sort((a, b) => a.sense - b.sense);
  return make("details", {}, make("summary", {}, `All ${plural(points.length, "place")}`),
    make("ul", { class: "list all" }, ...sorted.map((point) => make("li", {}, dot(point.sense - 1),
      make("span", { class: "number" }, `${point.sense}${point.text ? `, ${point.text}` : ""} `), ...marked(point)))));
}
