// SPDX-License-Identifier: Apache-2.0

// Texts of the store go into the page as text nodes only: nothing here parses markup.

export const $ = (id) => document.getElementById(id);

// h makes an element. Properties that begin with "on" are listeners.
export function h(tag, props, ...children) {
  const el = document.createElement(tag);
  set(el, props);
  el.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return el;
}

// s makes an element of a picture.
export function s(tag, props, ...children) {
  const el = document.createElementNS("http://www.w3.org/2000/svg", tag);
  set(el, props);
  el.append(...children);
  return el;
}

function set(el, props) {
  for (const [key, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) el.addEventListener(key.slice(2), value);
    else if (key === "class") el.setAttribute("class", value);
    else el.setAttribute(key, value === true ? "" : value);
  }
}

// name shows a text that another program wrote: its writing direction stays inside.
export const name = (text, props) => h("bdi", props, visible(text));

// visible replaces characters that would not be seen.
export function visible(text) {
  return String(text ?? "").replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, "\ufffd");
}

// put writes a text only if it changed, so that nothing is drawn again for nothing.
export function put(el, text) {
  if (el.textContent !== text) el.textContent = text;
}

// short writes milliseconds for people, as the command does.
export function short(ms) {
  ms = Math.max(0, ms);
  const sec = ms / 1000, two = (n) => String(Math.floor(n)).padStart(2, "0");
  if (sec < 1) return `${Math.floor(ms)}ms`;
  if (sec < 10) return `${sec.toFixed(1)}s`;
  if (sec < 60) return `${Math.floor(sec)}s`;
  if (sec < 3600) return `${Math.floor(sec / 60)}m${two(sec % 60)}s`;
  if (sec < 86400) return `${Math.floor(sec / 3600)}h${two((sec % 3600) / 60)}m`;
  return `${Math.floor(sec / 86400)}d${two((sec % 86400) / 3600)}h`;
}

// Answers has when an answer was read from the store, by the clock of the page that never
// jumps. The clock of the server is not compared with it.
export const readAt = (answer) => performance.now() - answer.old_ms;
export const since = (at) => Math.max(0, (frozen || performance.now()) - at);

// freeze stops the times that are shown, until it is called with false.
let frozen = 0;
export function freeze(on) { frozen = on ? performance.now() : 0; }
