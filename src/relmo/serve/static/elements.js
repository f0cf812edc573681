// Builds elements; strings are always inserted as text, never as markup.

export function make(name, attributes = {}, ...children) {
  const svg = ["svg", "circle", "text", "title"].includes(name);
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
