// SPDX-License-Identifier: Apache-2.0

// The token is kept for this tab only, and sent as a header: a page of another site cannot
// do that, so no cookie has to be protected.
const key = "fencelock-token";
let token = sessionStorage.getItem(key) || "";

export function setToken(value) {
  token = value;
  if (value) sessionStorage.setItem(key, value);
  else sessionStorage.removeItem(key);
}

export const hasToken = () => token !== "";

export class Problem extends Error {
  constructor(p) {
    super(p.detail || p.title);
    this.status = p.status;
    this.code = p.code;
  }
}

function headers(more) {
  return token ? { ...more, Authorization: `Bearer ${token}` } : { ...more };
}

async function answer(response) {
  const body = await response.json().catch(() => ({ status: response.status, code: "network", title: response.statusText }));
  if (!response.ok) throw new Problem(body);
  return body;
}

// get fetches a call with its parameters; those that are empty are left out.
export async function get(path, params, signal) {
  const query = new URLSearchParams(Object.entries(params || {}).filter(([, v]) => v !== "" && v !== undefined && v !== false));
  return answer(await fetch(`${path}?${query}`.replace(/\?$/, ""), { headers: headers(), signal, cache: "no-store" }));
}

export async function post(path, body) {
  return answer(await fetch(path, { method: "POST", headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify(body) }));
}

// follow reads the events until stop is called, and connects again when the stream ends.
// EventSource cannot send a header, so the stream is read here.
export function follow(onEvent, onState) {
  let last = "", ended = false, abort = new AbortController();
  (async () => {
    for (let wait = 500; !ended; wait = Math.min(wait * 2, 10000)) {
      abort = new AbortController();
      try {
        const response = await fetch("/v1/events", { headers: headers(last ? { "Last-Event-ID": last } : {}), signal: abort.signal, cache: "no-store" });
        if (!response.ok) await answer(response);
        onState(true);
        wait = 250;
        const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
        for (let rest = ""; ;) {
          const { value, done } = await reader.read();
          if (done) break;
          const blocks = (rest + value).split("\n\n");
          rest = blocks.pop();
          for (const block of blocks) {
            const event = {};
            for (const line of block.split("\n")) {
              const at = line.indexOf(": ");
              if (at > 0) event[line.slice(0, at)] = line.slice(at + 2);
            }
            if (event.id) last = event.id;
            if (event.event) onEvent(event.event, JSON.parse(event.data));
          }
        }
      } catch (error) {
        if (ended) return;
        onState(false, error);
        if (error.status === 401) return;
      }
      if (!ended) await new Promise((done) => setTimeout(done, wait));
    }
  })();
  return () => { ended = true; abort.abort(); };
}
