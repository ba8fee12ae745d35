// SPDX-License-Identifier: Apache-2.0

// Ties the views together: which is shown, what is fetched after a poll, and how the page
// stands with the server and the store.

import { follow, get, hasToken, setToken } from "./api.js";
import * as breaking from "./breaklock.js";
import * as detail from "./detail.js";
import { $, freeze, h, put } from "./dom.js";
import * as graph from "./graph.js";
import * as sessions from "./sessions.js";
import * as store from "./store.js";
import * as table from "./table.js";
import { clock, switchLanguage, t, translate } from "./words.js";

const views = ["locks", "graph", "sessions", "store"];
let view = "locks", me = null, stop = null, connected = false, asOf = null, storeError = "", cyclesBefore = 0, paused = false, attempt = 0;

const openLock = (lock) => { location.hash = `lock=${encodeURIComponent(lock)}`; };

// decoded is a part of an address. One that was cut or typed wrong stays as it is.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// route shows what the address asks for, so that links and the back button work.
function route() {
  const hash = location.hash.slice(1);
  if (hash.startsWith("lock=")) {
    const lock = decoded(hash.slice(5));
    table.mark(lock);
    detail.open(lock);
  } else {
    detail.close();
    view = views.includes(hash) ? hash : "locks";
  }
  for (const v of views) {
    $(`view-${v}`).hidden = v !== view;
    const link = document.querySelector(`nav a[data-view="${v}"]`);
    if (v === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  refresh(true);
}

// refresh fetches what is on the screen.
async function refresh(force) {
  if (!me) return;
  detail.refresh();
  const cycles = await graph.refresh();
  $("deadlocks").hidden = !cycles;
  put($("deadlocks"), cycles ? String(cycles) : "");
  $("deadlocks").setAttribute("aria-label", t("deadlocks", { n: cycles }));
  if (cycles > cyclesBefore) put($("said"), t("deadlocks", { n: cycles }));
  cyclesBefore = cycles;
  if (document.hidden) return; // since it asked
  if (view === "graph") graph.draw(force);
  if (view === "sessions") sessions.refresh();
  if (view === "store") store.refresh();
  if (view === "locks" && force) table.draw();
}

function onEvent(kind, data) {
  if (kind === "poll") {
    storeError = "";
    asOf = data.as_of;
    table.polled(data.revision);
    refresh();
  } else if (kind === "store") {
    storeError = data.event === "unreachable" ? data.error : "";
    refresh();
  } else if (kind === "missed") {
    table.refresh();
    refresh();
  }
  status();
}

function status() {
  $("live").className = paused ? "" : connected && !storeError ? "good" : "bad";
  put($("live-text"), paused ? t("paused") : connected ? (storeError ? t("answersNot") : t("live")) : t("away"));
  put($("pause"), paused ? "▶" : "❚❚");
  $("pause").title = t(paused ? "goOn" : "pause");
  $("pause").setAttribute("aria-label", $("pause").title);
  $("live").title = asOf ? t("asOf", { time: clock(asOf) }) : "";
  const banner = !connected && me && !paused ? t("serverAway") : storeError ? t("unreachable", { time: asOf ? clock(asOf) : "–", error: storeError }) : "";
  $("banner").hidden = !banner;
  put($("banner"), banner);
}

// connect finds out who the reader is and follows the events. A page that is not seen
// does not follow: it costs nothing while it is in the background. Of several attempts the last one counts.
async function connect() {
  const mine = ++attempt;
  stop?.();
  stop = null;
  if (document.hidden || (paused && me)) return; // visibilitychange or the button connects
  try {
    const answer = await get("/v1/me");
    if (mine !== attempt) return;
    me = answer;
    table.enable(true);
  } catch (error) {
    if (mine !== attempt) return;
    me = null;
    table.enable(false);
    if (error.status === 401) return signIn(hasToken());
    status();
    setTimeout(() => { if (mine === attempt) connect(); }, 2000);
    return;
  }
  $("who").hidden = !me.known || !hasToken();
  put($("who"), t("signOut", { name: me.name }));
  stop = paused ? null : follow(onEvent, (ok, error) => {
    connected = ok;
    status();
    if (error?.status === 401) connect();
  });
  route();
  table.refresh();
}

function signIn(wrong) {
  const dialog = $("dialog"), input = h("input", { type: "password", autocomplete: "off", required: true, "aria-label": t("token") });
  setToken("");
  dialog.replaceChildren(h("form", { method: "dialog", onsubmit: () => {
    // A browser refuses to send other characters in a header, each time anew.
    const typed = input.value.trim();
    if (!/^[\x21-\x7e]+$/.test(typed)) return setTimeout(() => signIn(true));
    setToken(typed);
    connect();
  } },
    h("h2", { id: "dialog-title" }, t("signIn")), h("p", {}, t("signInWhy")), wrong ? h("p", { class: "bad", role: "alert" }, t("wrongToken")) : null, input,
    h("div", { class: "buttons" }, h("button", { class: "primary" }, t("signIn")))));
  dialog.oncancel = (e) => e.preventDefault();
  if (!dialog.open) dialog.showModal();
  input.focus();
}

const themes = ["Auto", "Light", "Dark"];
let theme = localStorage.getItem("fencelock-theme") || "Auto";

function words() {
  document.documentElement.dataset.theme = theme.toLowerCase();
  translate(document);
  put($("theme"), { Auto: "◐", Light: "☀", Dark: "☾" }[theme]);
  $("theme").setAttribute("aria-label", t(`theme${theme}`));
  $("theme").title = t(`theme${theme}`);
  put($("language"), t("language"));
  $("scroll").setAttribute("aria-label", t("keys"));
  if (me) put($("who"), t("signOut", { name: me.name }));
  table.headings();
  table.draw();
  detail.draw();
  status();
  refresh(true);
}

table.start(openLock);
graph.start(openLock);
sessions.start(openLock);
detail.start({ onBreak: (lock, holder, heldFor) => breaking.ask(lock, holder, heldFor, () => detail.refresh()), mayBreak: (lock) => breaking.may(me, lock), closed: () => { if (location.hash.startsWith("#lock=")) history.replaceState(null, "", `#${view}`); if (view === "locks") table.focus(); } });
$("theme").addEventListener("click", () => {
  theme = themes[(themes.indexOf(theme) + 1) % themes.length];
  localStorage.setItem("fencelock-theme", theme);
  words();
});
$("language").addEventListener("click", () => { switchLanguage(); words(); });
$("who").addEventListener("click", () => { setToken(""); connect(); });
$("pause").addEventListener("click", () => {
  paused = !paused;
  freeze(paused);
  if (!paused) return connect();
  stop?.();
  stop = null;
  status();
});
addEventListener("hashchange", route);
addEventListener("keydown", (e) => {
  if ($("dialog").open || e.ctrlKey || e.metaKey || e.altKey) return;
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName);
  if (e.key === "/" && !typing) { e.preventDefault(); location.hash = "locks"; $("text").focus(); }
  if (e.key === "Escape") {
    if (detail.current()) detail.close();
    else if (typing) { document.activeElement.blur(); table.focus(); }
  }
  if (e.key === "ArrowDown" && (document.activeElement === $("text") || document.activeElement === document.body)) { e.preventDefault(); table.focus(); }
});
document.addEventListener("visibilitychange", () => {
  connect();
});
words();
connect();
