// SPDX-License-Identifier: Apache-2.0

// Processes with what they hold and wait for.

import { get } from "./api.js";
import { $, h, name, put, short, visible } from "./dom.js";
import { t } from "./words.js";

const most = 200;
let openLock = () => {}, text = "", busy = false, drawn = "";

export function start(onOpen) {
  openLock = onOpen;
  let later = 0;
  $("session-text").addEventListener("input", () => {
    clearTimeout(later);
    later = setTimeout(() => { text = $("session-text").value; refresh(); }, 120);
  });
}

export async function refresh() {
  if (busy) return;
  busy = true;
  const asked = text;
  try {
    draw(await get("/v1/sessions", { text, limit: most }));
  } catch { /* the banner has it */ } finally {
    busy = false;
    if (asked !== text) refresh();
  }
}

// key is what is shown, without times and in the language of the page: while it is the same, the
// reader keeps the focus.
const key = (list) => JSON.stringify([t("owner"), list.total, list.sessions.map((p) => [p.session, p.owner, p.holds, p.held, p.waits_for, p.waits])]);

function draw(list) {
  const rows = $("session-list").querySelectorAll("tbody tr");
  if (drawn === key(list) && rows.length === list.sessions.length) {
    list.sessions.forEach((p, i) => {
      put(rows[i].cells[3], p.held ? short(p.oldest_ms) : "–");
      put(rows[i].cells[4], p.held ? short(p.ends_in_ms) : "–");
    });
    return;
  }
  drawn = key(list);
  if (!list.total) {
    $("session-list").replaceChildren(h("p", { class: "empty" }, t("noSessions")));
    return;
  }
  const locks = (names, count) => [names.slice(0, 5).map((n, i) => [i ? ", " : "", h("button", { type: "button", class: "link", onclick: () => openLock(n) }, name(n))]).flat(),
    count > 5 ? ` ${t("andMore", { n: count - 5 })}` : ""].flat();
  $("session-list").replaceChildren(h("table", { class: "plain cards" },
    h("thead", {}, h("tr", { "aria-label": t("sessions") }, ["owner", "heldCount", "waitsCount", "oldest", "endsIn", "session"].map((k) => h("th", { scope: "col" }, t(k))))),
    h("tbody", {}, list.sessions.map((p) => h("tr", { class: p.waits ? "contended" : "", "aria-label": visible(p.owner) },
      h("td", { class: "strong" }, name(p.owner)), h("td", { "data-label": t("heldCount") }, p.held ? h("b", {}, `${p.held} `) : "–", ...locks(p.holds, p.held)),
      h("td", { "data-label": t("waitsCount") }, p.waits ? h("b", {}, `${p.waits} `) : "–", ...locks(p.waits_for, p.waits)),
      h("td", { "data-label": t("oldest") }, p.held ? short(p.oldest_ms) : "–"), h("td", { "data-label": t("endsIn") }, p.held ? short(p.ends_in_ms) : "–"),
      h("td", { "data-label": t("session") }, h("code", {}, p.session.slice(0, 12))))))),
  h("p", { class: "note" }, t("shownOf", { shown: list.sessions.length, total: list.total })));
}
