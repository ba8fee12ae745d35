// SPDX-License-Identifier: Apache-2.0

// What the store promises, what is wrong with it, and whether it answers.

import { get } from "./api.js";
import { $, h, short } from "./dom.js";
import { clock, t } from "./words.js";

export async function refresh() {
  try {
    draw(await get("/v1/store"));
  } catch { /* the banner has it */ }
}

function draw(d) {
  const g = d.guarantees, yes = (b) => h("b", { class: b ? "good" : "dim" }, t(b ? "yes" : "no"));
  const row = (key, ...value) => [h("dt", {}, t(key)), h("dd", {}, ...value)];
  const worst = { danger: 2, warning: 1, note: 0 };
  const findings = [...d.findings].sort((a, b) => worst[b.severity] - worst[a.severity]);
  $("store-body").replaceChildren(
    h("div", { class: "cards-row" },
      h("div", { class: "card" }, h("h2", {}, d.server, " ", h("b", { class: `state ${d.poll.answers ? "good" : "bad"}` }, t(d.poll.answers ? "answers" : "answersNot"))),
        d.poll.error ? h("p", { class: "bad" }, d.poll.error) : null, d.poll.grace_ms ? h("p", { class: "note" }, t("grace", { time: short(d.poll.grace_ms) })) : null,
        h("dl", {}, row("poll", t("pollText", { every: short(d.poll.every_ms), took: `${d.poll.took_ms.toFixed(1)}ms` })), row("viewers", String(d.poll.viewers)), row("program", d.program))),
      h("div", { class: "card" }, h("h2", {}, t("guarantees")),
        h("dl", {}, row("fencing", h("b", { class: g.fencing === "strict" ? "good" : "bad" }, t(g.fencing === "none" ? "noneFencing" : g.fencing))),
          row("survives", yes(g.survives_crash)), row("fair", yes(g.fair)), row("push", yes(g.push)), row("ttl", short(g.ttl_ms)), row("notice", short(g.notice_ms))))),
    h("div", { class: "card" }, h("h2", {}, t("findings"), d.checked_at ? h("span", { class: "dim" }, ` ${t("checked", { time: clock(d.checked_at) })}`) : ""),
      findings.length ? h("ul", { class: "findings" }, findings.map((f) => h("li", {}, h("b", { class: `severity ${f.severity}` }, t(f.severity)), " ", h("code", {}, f.code), f.node ? ` ${f.node}` : "",
        h("p", {}, f.reason), f.fix ? h("p", { class: "dim" }, t("change", { fix: f.fix })) : null))) : h("p", { class: "note" }, t("noFindings"))),
    h("div", { class: "card" }, h("h2", {}, t("promises")), h("ul", { class: "promises", lang: "en" }, d.promises.map((p) => h("li", {}, p)))));
}
