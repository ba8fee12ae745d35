// SPDX-License-Identifier: Apache-2.0

// One lock: its holders, its queue, and who held it in the last hour.

import { get } from "./api.js";
import { $, h, name, readAt, s, short, since, visible } from "./dom.js";
import { clock, t } from "./words.js";

const panel = $("detail");
let shown = "", data = null, at = 0, onBreak = null, mayBreak = () => false, closed = () => {}, busy = false;

export function start(options) {
  ({ onBreak, mayBreak, closed } = options);
  setInterval(() => { if (shown && !document.hidden) tick(); }, 1000);
}

export const current = () => shown;

export async function open(lock) {
  if (lock !== shown) data = null;
  shown = lock;
  panel.hidden = false;
  document.body.classList.add("with-detail");
  await refresh();
  panel.querySelector("h2")?.focus({ preventScroll: true });
}

export function close() {
  if (!shown) return;
  shown = "";
  panel.hidden = true;
  document.body.classList.remove("with-detail");
  closed();
}

export async function refresh() {
  if (!shown || busy) return;
  busy = true;
  const lock = shown;
  try {
    const answer = await get("/v1/lock", { name: lock });
    if (lock !== shown) return;
    const same = data && key(data) === key(answer);
    data = answer;
    at = readAt(answer);
    if (same) update();
    else draw();
  } catch (error) {
    if (lock === shown && error.status) panel.replaceChildren(header(), h("p", { class: "note" }, error.message));
  } finally {
    busy = false;
    if (shown && lock !== shown) refresh();
  }
}

function header() {
  return h("div", { class: "head" }, h("h2", { id: "detail-name", tabindex: "-1" }, name(shown)),
    h("button", { type: "button", class: "close", "aria-label": t("close"), onclick: close }, "✕"));
}

// draw replaces the panel and keeps what the reader did with it.
export function draw() {
  if (!data) return;
  const focused = panel.contains(document.activeElement) ? document.activeElement.dataset?.key || "h2" : "";
  const unfolded = panel.querySelector("details")?.open, top = panel.scrollTop;
  const parts = [header(), h("p", { class: "summary" }, h("b", { class: `state ${data.state}` }, t(data.state)),
    data.waiting ? ` · ${data.waiting} ${t("waiting").toLowerCase()}` : "", data.not_renewed ? h("b", { class: "tag", title: t("notRenewedWhy") }, t("notRenewed")) : "")];
  if (data.grace_ms) parts.push(h("p", { class: "note" }, t("grace", { time: short(data.grace_ms) })));
  if (data.holders.length) parts.push(h("h3", {}, t("holders")), ...data.holders.map(holder));
  if (data.more_holders) parts.push(h("p", { class: "note" }, t("andMore", { n: data.more_holders })));
  parts.push(h("h3", {}, `${t("queue")}${data.waiting ? ` (${data.waiting})` : ""}`), queue(), h("h3", {}, t("lastHour")), timeline(), historyList(unfolded));
  panel.replaceChildren(...parts);
  panel.scrollTop = top;
  if (focused === "h2") panel.querySelector("h2").focus({ preventScroll: true });
  else if (focused) panel.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  tick();
}

// key is what is shown of an answer, without times: while it is the same, the reader keeps
// what is selected and focused.
const key = (d) => JSON.stringify([d.state, d.waiting, d.not_renewed, d.grace_ms > 0, d.history.length,
  d.holders.map((w) => [w.owner, w.token, w.reason, w.kept, w.labels]), d.waiters.map((w) => [w.owner, w.session, w.mode, w.reason])]);

// update takes new times into the panel as it is.
function update() {
  const up = [...data.holders, ...data.waiters].map((w) => w.age_ms), down = data.holders.map((w) => w.ends_in_ms);
  panel.querySelectorAll("[data-up]").forEach((el, i) => { el.dataset.up = up[i]; });
  panel.querySelectorAll("[data-down]").forEach((el, i) => { el.dataset.down = down[i]; });
  panel.querySelector(".timeline").replaceWith(timeline());
  tick();
}

// tick lets times go on between two polls.
function tick() {
  const old = since(at);
  for (const el of panel.querySelectorAll("[data-up]")) el.textContent = short(Number(el.dataset.up) + old);
  for (const el of panel.querySelectorAll("[data-down]")) el.textContent = short(Number(el.dataset.down) - old);
}

function holder(who) {
  const line = (key, ...value) => [h("dt", {}, t(key)), h("dd", {}, ...value)];
  return h("div", { class: "card" }, h("dl", {},
    line("holder", name(who.owner, { class: "strong" })),
    who.reason ? line("reason", name(who.reason)) : [],
    line("mode", t(who.mode), who.mode === "shared" && who.weight > 1 ? `, ${t("weight", { n: who.weight })}` : ""),
    line("heldFor", h("span", { "data-up": who.age_ms })),
    line("endsIn", h("span", { "data-down": who.ends_in_ms })),
    who.linger_ms ? line("lingers", t("lingersWhy", { time: short(who.linger_ms) })) : [],
    who.token ? line("token", h("code", {}, who.token), copyButton(who.token)) : [],
    Object.entries(who.labels || {}).sort().map(([k, v]) => [h("dt", {}, name(k)), h("dd", {}, name(v))]),
    who.trace ? line("trace", h("code", {}, name(who.trace))) : [],
    who.session ? line("session", h("code", {}, who.session)) : []),
  !who.kept && who.token && mayBreak(data.lock)
    ? h("button", { type: "button", class: "danger", "data-key": `break-${who.token}`, onclick: () => onBreak(data.lock, who, who.age_ms + since(at)) }, t("breakLock")) : null);
}

function copyButton(text) {
  return h("button", { type: "button", class: "small", "data-key": `copy-${text}`, onclick: async (e) => {
    await navigator.clipboard?.writeText(text).catch(() => {});
    e.target.textContent = t("copied");
  } }, t("copy"));
}

function queue() {
  if (!data.waiting) return h("p", { class: "note" }, t("queueEmpty"));
  const more = data.waiting - data.waiters.length;
  return h("ol", { class: "queue" }, data.waiters.map((w) => h("li", {}, name(w.owner, { class: "strong" }), " ", h("span", { class: "dim" }, t(w.mode), ", ", h("span", { "data-up": w.age_ms })),
    w.reason ? [h("br"), name(w.reason)] : [])), more > 0 ? h("li", { class: "dim" }, t("andMore", { n: more })) : null);
}

const minute = 60e3;

// timeline draws who held the lock when; holders at the same time are below each other.
function timeline() {
  const width = 440, lane = 20, end = Date.parse(data.as_of);
  const spans = data.history.map((span) => ({ ...span, a: Date.parse(span.from), b: Date.parse(span.to) })).filter((span) => span.b >= end - 60 * minute);
  const oldest = Math.min(end, ...spans.map((span) => span.a)); // what is shorter than an hour fills the width
  const range = ([1, 5, 15].find((m) => end - oldest <= m * minute) || 60) * minute;
  const x = (time) => ((Math.max(time, end - range) - (end - range)) / range) * width;
  const lanes = [];
  for (const span of spans) {
    span.lane = lanes.findIndex((free) => free <= span.a);
    if (span.lane < 0) span.lane = lanes.length;
    lanes[span.lane] = span.b;
  }
  const shownLanes = Math.max(1, Math.min(lanes.length, 8)), height = shownLanes * lane + 20;
  const owners = [...new Set(spans.map((span) => span.owner))];
  const svg = s("svg", { class: "timeline", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": t("historyList", { n: spans.length }) });
  for (let i = 0; i <= 4; i++) {
    const at = (i / 4) * width;
    svg.append(s("line", { class: "grid", x1: at, x2: at, y1: 0, y2: height - 16 }),
      s("text", { x: i ? at - (i === 4 ? 3 : 0) : 3, y: height - 4, "text-anchor": ["start", "middle", "middle", "middle", "end"][i] }, i === 4 ? t("now") : `−${short((range * (4 - i)) / 4)}`));
  }
  for (const span of spans.filter((span) => span.lane < shownLanes)) {
    svg.append(s("rect", { class: `span c${owners.indexOf(span.owner) % 6}${span.held ? " held" : ""}`, x: x(span.a), y: span.lane * lane + 2, width: Math.max(2, x(span.b) - x(span.a)), height: lane - 4, rx: 3 },
      s("title", {}, `${visible(span.owner)}, ${clock(span.from)} – ${span.held ? t("now") : clock(span.to)}, ${short(span.b - span.a)}`)));
  }
  return svg;
}

function historyList(unfolded) {
  const spans = data.history.slice(-100).reverse();
  return h("details", unfolded ? { open: true } : {}, h("summary", {}, t("historyList", { n: data.history.length })), h("p", { class: "note" }, t("historyNote")),
    h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ["holder", "from", "heldFor", "reason"].map((k) => h("th", { scope: "col" }, t(k))))),
      h("tbody", {}, spans.map((span) => h("tr", {}, h("td", {}, name(span.owner)), h("td", {}, clock(span.from)),
        h("td", {}, short(Date.parse(span.to) - Date.parse(span.from)) + (span.held ? ` (${t("now")})` : "")), h("td", {}, name(span.reason || "")))))));
}
