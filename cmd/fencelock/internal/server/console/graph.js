// SPDX-License-Identifier: Apache-2.0

// Who waits for whom, as a picture: process → lock that it waits for → process that holds it.
// Blocked processes are on the left, those that block all others on the right.

import { get } from "./api.js";
import { $, h, name, s, visible } from "./dom.js";
import { t } from "./words.js";

let data = null, drawnFor = "", openLock = () => {}, busy = false;

export function start(onOpen) { openLock = onOpen; }

export async function refresh() {
  if (busy) return data?.cycles.length ?? 0;
  busy = true;
  try {
    data = await get("/v1/graph");
  } catch { /* the banner has it */ } finally { busy = false; }
  return data?.cycles.length ?? 0;
}

export function draw(force) {
  if (!data) return;
  const key = JSON.stringify([data.locks, data.cycles]);
  if (!force && key === drawnFor) return; // the reader may be in the middle of it
  drawnFor = key;
  $("cycles").replaceChildren(...data.cycles.map(cycle), ...(data.cycles.length ? [h("p", { class: "note" }, t("cycleHint"))] : []));
  if (!data.locks.length) {
    $("picture").replaceChildren(h("p", { class: "empty" }, t("noWaits")));
    return;
  }
  const { nodes, edges } = build();
  $("picture").replaceChildren(legend(), ...apart(nodes).map((some) => picture(some, edges.filter((e) => some.includes(e.a)))), ...(data.left_out ? [h("p", { class: "note" }, t("leftOut", { n: data.left_out }))] : []));
}

function cycle(steps) {
  return h("div", { class: "card cycle" }, h("h2", {}, "⟳ ", t("deadlock")), h("ol", {}, steps.map((step, i) => h("li", {},
    name(step.holder, { class: "strong" }), ` ${t("holds")} `, lockLink(step.lock), ` → ${t("waitsFor")} `, lockLink(steps[(i + 1) % steps.length].lock)))));
}

const lockLink = (lock) => h("button", { type: "button", class: "link", onclick: () => openLock(lock) }, name(lock));

// build makes nodes and edges of the locks. An edge of a cycle goes from a step to the next.
function build() {
  const nodes = new Map(), edges = [], red = new Set();
  const node = (kind, label) => {
    const id = `${kind} ${label}`;
    if (!nodes.has(id)) nodes.set(id, { id, kind, label, out: [], into: [], red: false });
    return nodes.get(id);
  };
  for (const steps of data.cycles) {
    steps.forEach((step, i) => {
      red.add(`lock ${step.lock}>owner ${step.holder}`);
      red.add(`owner ${step.holder}>lock ${steps[(i + 1) % steps.length].lock}`);
    });
  }
  const edge = (a, b) => {
    if (a.out.includes(b)) return;
    a.out.push(b);
    b.into.push(a);
    const e = { a, b, red: red.has(`${a.id}>${b.id}`) };
    if (e.red) a.red = b.red = true;
    edges.push(e);
  };
  for (const lock of data.locks) {
    const l = node("lock", lock.lock);
    l.more = lock.waiting - lock.waiters.length;
    for (const owner of lock.holders) edge(l, node("owner", owner));
    for (const owner of lock.waiters) edge(node("owner", owner), l);
  }
  return { nodes: [...nodes.values()], edges };
}

// apart splits the nodes into those that hang together with a deadlock, which are drawn first, and the others: a busy lock with many
// waiters must not push a deadlock off the screen.
function apart(nodes) {
  const near = new Set(nodes.filter((n) => n.red));
  for (const n of near) for (const o of [...n.into, ...n.out]) near.add(o); // a set goes on to what is added meanwhile
  return [nodes.filter((n) => near.has(n)), nodes.filter((n) => !near.has(n))].filter((some) => some.length);
}

// layer puts every node to the right of what leads to it. Edges back, of which a cycle has
// one at least, are left out.
function layer(nodes) {
  const state = new Map(), order = [];
  const visit = (n) => {
    state.set(n, 1);
    for (const next of n.out) if (!state.has(next)) visit(next);
    state.set(n, 2);
    order.unshift(n);
  };
  for (const n of nodes) if (!n.into.length && !state.has(n)) visit(n);
  for (const n of nodes) if (!state.has(n)) visit(n);
  const at = new Map(order.map((n, i) => [n, i]));
  for (const n of order) n.layer = 0;
  for (const n of order) for (const next of n.out) if (at.get(next) > at.get(n)) next.layer = Math.max(next.layer, n.layer + 1);
  for (const n of order) if (!n.into.length && n.out.length) n.layer = Math.max(0, Math.min(...n.out.map((o) => o.layer)) - 1); // beside what it waits for
  const layers = [];
  for (const n of order) (layers[n.layer] ||= []).push(n);
  // A few sweeps towards the middle of the neighbors make most crossings go away.
  for (let sweep = 0; sweep < 6; sweep++) {
    for (const l of sweep % 2 ? [...layers].reverse() : layers) {
      l.forEach((n, i) => {
        const near = [...n.into, ...n.out].filter((o) => o.layer !== n.layer && o.row !== undefined);
        n.want = near.length ? near.reduce((sum, o) => sum + o.row, 0) / near.length : i;
      });
      l.sort((a, b) => a.want - b.want || (a.id < b.id ? -1 : 1));
      l.forEach((n, i) => { n.row = i - (l.length - 1) / 2; });
    }
  }
  return layers;
}

const boxWidth = 160, boxHeight = 32, gapX = 50, gapY = 14;

function picture(nodes, edges) {
  const layers = layer(nodes), tall = Math.max(...layers.map((l) => l.length));
  const width = layers.length * (boxWidth + gapX) - gapX + 40, height = tall * (boxHeight + gapY) + 40;
  for (const n of nodes) {
    n.x = 20 + n.layer * (boxWidth + gapX);
    n.y = height / 2 + n.row * (boxHeight + gapY) - boxHeight / 2;
  }
  const locks = nodes.filter((n) => n.kind === "lock").length;
  const top = Math.min(0, ...edges.filter((e) => e.b.layer <= e.a.layer).map((e) => arcTop(e) - 8));
  const svg = s("svg", { class: "graph", viewBox: `0 ${top} ${width} ${height - top}`, role: "group", "aria-label": t("graphLabel", { locks, owners: nodes.length - locks }) },
    s("defs", {}, arrow("arrow"), arrow("arrow-red")));
  svg.style.maxWidth = `${width}px`; // smaller on a small screen, and scrolled below that
  svg.style.minWidth = `${width * 0.8}px`;
  for (const e of edges.sort((a, b) => a.red - b.red)) svg.append(line(e));
  for (const n of nodes) svg.append(box(n));
  return svg;
}

const arrow = (id) => s("marker", { id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 11, markerHeight: 11, markerUnits: "userSpaceOnUse", orient: "auto-start-reverse" }, s("path", { d: "M0 0 8 4 0 8z", class: id }));

// arcTop is how high the arc of an edge back reaches at most.
const arcTop = ({ a, b }) => Math.min(a.y, b.y) - 26 - Math.abs(a.layer - b.layer) * 8;

function line({ a, b, red }) {
  const kind = a.kind === "lock" ? "holds" : "waits", marker = `url(#${red ? "arrow-red" : "arrow"})`;
  const y1 = a.y + boxHeight / 2, y2 = b.y + boxHeight / 2;
  let d;
  if (b.layer > a.layer) {
    const x1 = a.x + boxWidth, x2 = b.x - 2, mid = (x1 + x2) / 2;
    d = `M${x1} ${y1}C${mid} ${y1} ${mid} ${y2} ${x2} ${y2}`;
  } else { // back, in an arc above both
    const x1 = a.x + boxWidth / 2, x2 = b.x + boxWidth / 2, top = arcTop({ a, b });
    d = `M${x1} ${a.y}C${x1} ${top} ${x2} ${top} ${x2} ${b.y - 2}`;
  }
  return s("path", { d, class: `edge ${kind}${red ? " red" : ""}`, "marker-end": marker });
}

function box(n) {
  const text = visible(n.label), cut = text.length > 22 ? `${text.slice(0, 10)}…${text.slice(-11)}` : text;
  const label = `${t(n.kind === "lock" ? "legendLock" : "legendOwner")} ${text}${n.red ? `, ${t("legendCycle")}` : ""}`;
  const g = s("g", { class: `node ${n.kind}${n.red ? " red" : ""}`, transform: `translate(${n.x} ${n.y})` },
    s("rect", { width: boxWidth, height: boxHeight, rx: n.kind === "lock" ? 4 : boxHeight / 2 }),
    s("text", { x: boxWidth / 2, y: boxHeight / 2 + 4, "text-anchor": "middle" }, cut + (n.more > 0 ? ` +${n.more}` : "")), s("title", {}, label));
  if (n.kind === "lock") {
    g.setAttribute("tabindex", "0");
    g.setAttribute("role", "button");
    g.setAttribute("aria-label", label);
    g.addEventListener("click", () => openLock(n.label));
    g.addEventListener("keydown", (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); openLock(n.label); } });
  }
  return g;
}

function legend() {
  const item = (cls, key) => h("span", {}, h("i", { class: `swatch ${cls}` }), t(key));
  return h("p", { class: "legend" }, item("lock", "legendLock"), item("owner", "legendOwner"), item("holds", "holds"), item("waits", "waitsFor"), item("red", "legendCycle"));
}
