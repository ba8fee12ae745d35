// SPDX-License-Identifier: Apache-2.0

// The list of locks. The server sorts and filters; the page has only the rows that are on
// the screen, whatever the number of locks, and fetches blocks of them as they come into view.

import { get } from "./api.js";
import { $, h, name, put, readAt, short, since, visible } from "./dom.js";
import { number, t } from "./words.js";

const block = 100; // rows that are fetched together
const spare = 4; // rows above and below the screen
// Word, class, and the order of a column that can be sorted by.
const columns = [["lock", "lock", "name"], ["holder", "holder"], ["heldFor", "num age", "oldest"], ["endsIn", "num ends", "ending"], ["waiting", "num waiting", "contended"], ["longest", "num longest"], ["reason", "reason"]];

const query = { text: "", waited: false, sort: "contended" };
let blocks = new Map(); // number: {rows, at, revision}
const pending = new Set();
let total = 0, latest = 0, generation = 0, chosen = "", open = () => {};
let first = true, enabled = false;

const scroll = $("scroll"), body = $("table").tBodies[0], head = $("table").tHead.rows[0];
const above = h("tr", { class: "spacer", "aria-hidden": "true" }, h("td"));
const below = above.cloneNode(true);
let rows = new Map(); // index: row of the page

const rowHeight = () => (matchMedia("(max-width: 640px)").matches ? 64 : 36);

export function start(onOpen) {
  open = onOpen;
  body.append(above, below);
  let later = 0;
  $("text").addEventListener("input", () => {
    clearTimeout(later);
    later = setTimeout(() => ask({ text: $("text").value }), 120);
  });
  $("waited").addEventListener("change", () => ask({ waited: $("waited").checked }));
  $("sort").addEventListener("change", () => sortBy($("sort").value));
  scroll.addEventListener("scroll", redraw, { passive: true });
  new ResizeObserver(redraw).observe(scroll);
  body.addEventListener("click", (e) => {
    const tr = e.target.closest("tr[data-lock]");
    if (tr) choose(Number(tr.dataset.index), true);
  });
  scroll.addEventListener("keydown", keys);
  setInterval(() => { if (!document.hidden) redraw(); }, 1000); // ages rise
}

function sortBy(order) {
  $("sort").value = order;
  markSorted();
  ask({ sort: order });
}

function markSorted() {
  columns.forEach(([, , order], i) => {
    if (order && order === $("sort").value) head.cells[i].setAttribute("aria-sort", order === "name" || order === "ending" ? "ascending" : "descending");
    else head.cells[i].removeAttribute("aria-sort");
  });
}

// ask changes what is wanted. Rows of the old question are not shown under the new one.
function ask(change) {
  Object.assign(query, change);
  generation++;
  blocks = new Map();
  pending.clear();
  scroll.scrollTop = 0;
  draw();
}

// polled notes that the store was read again: what is on the screen is fetched again.
export function polled(revision) {
  latest = revision;
  redraw();
}

export function refresh() { latest++; redraw(); }

// mark shows which lock is open, however it was opened.
export function mark(lock) {
  chosen = lock;
  redraw();
}

// enable lets the list be fetched: not before the reader is known, because every failed
// call is one for the audit log.
export function enable(on) { enabled = on; }

async function load(number) {
  if (!enabled || document.hidden || pending.has(number)) return; // connect fetches when the page is seen again
  pending.add(number);
  const mine = generation;
  try {
    const list = await get("/v1/locks", { ...query, offset: number * block || "", limit: block });
    if (mine !== generation) return;
    blocks.set(number, { rows: list.locks, at: readAt(list), revision: list.revision });
    if (blocks.size > 60) blocks.delete(blocks.keys().next().value);
    total = list.total;
    latest = Math.max(latest, list.revision);
    first = false;
    count(list);
  } catch (error) {
    if (error.code === "listing") noListing();
    else if (error.status) first = false;
  } finally {
    if (mine === generation) pending.delete(number);
  }
  redraw();
}

function count(list) {
  const numbers = Object.fromEntries(["total", "held", "contended", "waiting"].map((k) => [k, number(list[k] ?? 0)]));
  const text = t("counts", numbers) + (list.not_renewed ? ` · ${t("notRenewedCount", { n: number(list.not_renewed) })}` : "");
  put($("counts"), text);
  $("table").setAttribute("aria-rowcount", String(list.total + 1));
}

export function headings() {
  head.replaceChildren(...columns.map(([key, cls, order]) => h("th", { scope: "col", role: "columnheader", class: cls },
    order ? h("button", { type: "button", onclick: () => sortBy(order) }, t(key)) : t(key))));
  markSorted();
  for (const row of rows.values()) {
    row.drawn = null;
    row.cells.forEach((cell, i) => { cell.dataset.label = t(columns[i][0]).toLowerCase(); });
  }
}

// redraw draws once before the next frame, however many answers and events come until then.
let asked = false;
function redraw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => { asked = false; draw(); });
}

// draw puts the rows that are on the screen there.
export function draw() {
  const height = rowHeight();
  const from = Math.max(0, Math.floor(scroll.scrollTop / height) - spare);
  const to = Math.min(total, Math.ceil((scroll.scrollTop + scroll.clientHeight) / height) + spare);
  for (let n = Math.floor(from / block); n <= Math.floor(Math.max(from, to - 1) / block); n++) {
    const have = blocks.get(n);
    if (!have || have.revision < latest) load(n);
  }
  // A row that stays on the screen stays in the page; those that leave it are used again.
  const unused = [], now = new Map();
  for (const [index, row] of rows) if (index < from || index >= to) unused.push(row);
  for (let index = to - 1, next = below; index >= from; index--) {
    const row = rows.get(index) || unused.pop() || newRow(), have = blocks.get(Math.floor(index / block));
    fill(row, index, have?.rows[index % block], have?.at);
    if (row.tr.nextSibling !== next) body.insertBefore(row.tr, next);
    next = row.tr;
    now.set(index, row);
  }
  for (const row of unused) row.tr.remove();
  rows = now;
  tabTo([...rows.values()].find((row) => row.tr.classList.contains("chosen")) || rows.get(from));
  above.style.height = `${from * height}px`;
  below.style.height = `${Math.max(0, total - to) * height}px`;
  const empty = $("empty");
  empty.hidden = total > 0;
  if (total === 0 && !empty.dataset.fixed) put(empty, first ? t("reading") : query.text || query.waited ? t("noMatch") : t("none"));
}

// tabTo lets one row be reached with the tab key: a lock that is open may not be in the list.
function tabTo(stop) {
  for (const row of rows.values()) {
    const index = row === stop ? 0 : -1;
    if (row.tab !== index) row.tab = row.tr.tabIndex = index;
  }
}

function newRow() {
  const cells = columns.map(([key, cls]) => h("td", { role: "gridcell", class: cls, "data-label": t(key).toLowerCase() }));
  return { tr: h("tr", { role: "row" }, cells), cells, drawn: null };
}

function fill(row, index, lock, at) {
  const { tr, cells } = row;
  if (!lock) {
    if (row.drawn !== "") { for (const c of cells) put(c, ""); put(cells[0], "…"); delete tr.dataset.lock; tr.className = ""; row.drawn = ""; }
    return;
  }
  const selected = lock.lock === chosen;
  if (row.drawn !== lock || row.index !== index || row.selected !== selected) {
    Object.assign(row, { index, selected });
    tr.dataset.index = index;
    tr.dataset.lock = lock.lock;
    tr.className = (lock.not_renewed ? "troubled" : lock.waiting ? "contended" : lock.state === "kept" ? "kept" : "") + (selected ? " chosen" : "");
    tr.setAttribute("aria-selected", String(selected));
    tr.setAttribute("aria-rowindex", String(index + 2));
  }
  const old = since(at), held = lock.state === "held";
  if (row.drawn !== lock) {
    cells[0].replaceChildren(name(lock.lock));
    const more = lock.holders > 1 ? ` ${t("more", { n: lock.holders - 1 })}` : "";
    cells[1].replaceChildren(lock.holder && held ? name(lock.holder.owner) : h("i", {}, t(lock.state)), more);
    cells[6].replaceChildren(lock.not_renewed ? h("b", { class: "tag", title: t("notRenewedWhy") }, t("notRenewed")) : "", name(lock.holder?.reason || ""));
    put(cells[4], lock.waiting ? String(lock.waiting) : "–");
    tr.title = visible(lock.lock);
    row.drawn = lock;
  }
  put(cells[2], lock.holder ? short(lock.age_ms + old) : "–");
  put(cells[3], lock.holder ? short(lock.ends_in_ms - old) : "–");
  put(cells[5], lock.waiting ? short(lock.waited_ms + old) : "–");
}

// choose marks a row, brings it into view and shows it if wanted.
function choose(index, show) {
  index = Math.max(0, Math.min(total - 1, index));
  const lock = blocks.get(Math.floor(index / block))?.rows[index % block];
  const height = rowHeight(), top = index * height, header = head.offsetHeight;
  if (top < scroll.scrollTop) scroll.scrollTop = top;
  if (top + height + header > scroll.scrollTop + scroll.clientHeight) scroll.scrollTop = top + height + header - scroll.clientHeight;
  if (!lock) return;
  chosen = lock.lock;
  draw();
  body.querySelector("tr.chosen")?.focus({ preventScroll: true });
  if (show) open(chosen);
}

function keys(e) {
  const at = Number(body.querySelector("tr.chosen")?.dataset.index ?? -1);
  const page = Math.floor(scroll.clientHeight / rowHeight()) - 1;
  const move = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: total - 1 }[e.key];
  if (move !== undefined) {
    e.preventDefault();
    choose(move, false);
  } else if (e.key === "Enter" && at >= 0) {
    e.preventDefault();
    choose(at, true);
  }
}

// focus goes to the row that was chosen, or to the first.
export function focus() {
  const row = body.querySelector("tr.chosen") || body.querySelector("tr[data-lock]");
  if (row) choose(Number(row.dataset.index), false);
  else scroll.focus({ preventScroll: true });
}

// noListing is for stores that know their locks by name only.
function noListing() {
  first = false;
  const empty = $("empty");
  if (empty.dataset.fixed) return;
  empty.dataset.fixed = "1";
  const input = h("input", { type: "text", "aria-label": t("lock") });
  empty.replaceChildren(t("noListing"), h("form", { onsubmit: (e) => { e.preventDefault(); if (input.value) open(input.value); } }, input, h("button", {}, t("show"))));
}
