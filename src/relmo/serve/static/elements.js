// Builds elements; strings are always inserted as text, never as markup.

export function make(name, attributes = {}, ...children) {
  const svg = ["svg", "circle", "line", "text", "title"].includes(name);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", name)
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

export const find = (id) => document.getElementById(id);

// A remark of the server on the text; hidden if there is none.
export function showNote(id, note = "") {
  find(id).textContent = note && note[0].toUpperCase() + note.slice(1) + ".";
  find(id).hidden = !note;
}

export const plural = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

export const unsigned = (number) => number.replace(/^-(0\.?0*)$/, "$1").replace("-", "−");

// Shows on which sides a region hides something: a shadow, and a line of text below.
export function showOverflow(region) {
  const frame = region.parentElement;
  const update = () => {
    const hidden = region.scrollWidth - region.clientWidth;
    frame.classList.toggle("more-left", region.scrollLeft > 1);
    frame.classList.toggle("more-right", region.scrollLeft < hidden - 1);
    frame.classList.toggle("overflows", hidden > 1);
  };
  region.addEventListener("scroll", update, { passive: true });
  const observer = new ResizeObserver(update);
  observer.observe(region);
  observer.observe(region.firstElementChild);
}
