// SPDX-License-Identifier: Apache-2.0

// Breaking a lock: what it does, why, and a confirmation that a slip of the hand cannot give.

import { post } from "./api.js";
import { $, h, name, short, visible } from "./dom.js";
import { t } from "./words.js";

// may reports whether the reader has the rights that breaking a lock takes.
export function may(me, lock) {
  const has = (right) => me?.rights?.some((g) => lock.startsWith(g.prefix) && g.may.includes(right));
  return has("see") && has("force-unlock");
}

export function ask(lock, holder, heldFor, after) {
  const dialog = $("dialog");
  const reason = h("input", { required: true, maxlength: 500, autocomplete: "off" });
  const typed = h("input", { required: true, autocomplete: "off", spellcheck: "false" });
  const go = h("button", { class: "danger primary", disabled: true }, t("breakDo"));
  const result = h("p", { class: "bad", role: "alert" });
  const check = () => { go.disabled = typed.value !== lock || !reason.value.trim(); };
  reason.addEventListener("input", check);
  typed.addEventListener("input", check);
  dialog.oncancel = null;
  dialog.replaceChildren(h("form", { onsubmit: async (e) => {
    e.preventDefault();
    go.disabled = true;
    result.textContent = "";
    try {
      done(await post("/v1/force-unlock", { lock, token: holder.token, reason: reason.value.trim() }));
      after();
    } catch (error) {
      result.textContent = t("breakFailed", { error: error.message });
      check();
    }
  } },
  h("h2", { id: "dialog-title" }, t("breakTitle", { lock: visible(lock) })),
  h("p", {}, t("breakWhat", { owner: visible(holder.owner), time: short(heldFor) })),
  h("p", { class: "warn" }, t("breakWarn")),
  h("label", {}, h("span", {}, t("token")), h("code", {}, holder.token)),
  h("label", {}, h("span", {}, t("breakReason")), reason),
  h("label", {}, h("span", {}, t("breakConfirm"), ": ", name(lock, { class: "strong" })), typed), result,
  h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => dialog.close() }, t("cancel")), go)));
  dialog.showModal();
  reason.focus();
}

function done(answer) {
  const close = h("button", { class: "primary" }, t("done"));
  $("dialog").replaceChildren(h("form", { method: "dialog" }, h("h2", { id: "dialog-title" }, t("broken", { lock: visible(answer.lock), owner: visible(answer.holder?.owner ?? "–") })),
    h("p", {}, t("fence")), h("p", {}, h("code", { id: "fence" }, answer.fence)), h("div", { class: "buttons" }, close)));
  close.focus();
}
