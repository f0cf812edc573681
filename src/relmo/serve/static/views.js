// The page's two views, chosen by the address: #words (or nothing) and #read. Elements with
// data-view belong to one of them.

let served = false;
let opened = () => {};

export const view = () => (served && location.hash === "#read" ? "read" : "words");

// Calls `open` with the name of a view each time it is shown.
export function followAddress(open) {
  opened = open;
  addEventListener("hashchange", show);
}

// Offers the second view only if there is something to read with.
export function offerReading(isServed) {
  served = isServed;
  document.querySelector("nav").hidden = !served;
}

export function show() {
  const name = view();
  for (const element of document.querySelectorAll("[data-view]")) {
    element.hidden = element.dataset.view !== name;
  }
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = name === "read" ? "relmo: read a text" : "relmo: words in context";
  return opened(name);
}
