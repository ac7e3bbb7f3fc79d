// Builds elements. Text is always a text node: there is no way to give it markup.

const SVG = "http://www.w3.org/2000/svg";
const SAFE_LINK = /^(?:https?:\/\/|\/(?!\/)|#|\?)/i;

// An element with attributes and children. `on…` attributes take functions; null, undefined and false are left out.
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

// The same in the SVG namespace.
export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) {
      if (typeof value !== "function") throw new TypeError(`${name} takes a function`);
      element.addEventListener(name.slice(2), value);
    } else if (name === "style" || name === "srcdoc") {
      throw new TypeError(`${name} is not set by attribute`);
    } else if ((name === "href" || name === "src") && !SAFE_LINK.test(value)) {
      throw new TypeError(`not a safe address: ${value}`);
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  add(element, children);
  return element;
}

// Appends text and nodes; lists are flattened.
export function add(element, children) {
  for (const child of [children].flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === true) continue;
    element.append(child instanceof Node ? child : document.createTextNode(child.rawJSON ?? String(child)));
  }
  return element;
}

export function replace(element, ...children) {
  element.replaceChildren();
  return add(element, children);
}

// Whether text from outside may stand in a link.
export function isWebAddress(text) {
  return typeof text === "string" && /^https?:\/\/[^\s]+$/i.test(text);
}
