// SPDX-License-Identifier: Apache-2.0

// A process with node-redlock, driven by lines.
//
// request   id actor VERB kind name [arguments]
// answer    id ok|no|err begin end [value]          begin and end in microseconds since 1970

import { createInterface } from "node:readline";
import { createRequire } from "node:module";

const require = createRequire(process.argv[2] + "/");
const Redis = require("ioredis");
const { default: Redlock, ExecutionError } = require("redlock");

const clients = process.argv[3].split(",").map((addr) => new Redis("redis://" + addr));
const redlock = new Redlock(clients, { retryCount: 0 });
const locks = new Map();
const micros = () => Math.round((performance.timeOrigin + performance.now()) * 1000);

async function act(verb, name, args) {
  switch (verb) {
    case "TRY":
      try {
        locks.set(name, await redlock.acquire([name], Number(args[0])));
        return true;
      } catch (e) {
        if (e instanceof ExecutionError) return false;
        throw e;
      }
    case "UNLOCK":
      await locks.get(name).release();
      return true;
  }
  throw new Error(verb);
}

console.log("ready node-redlock");
for await (const line of createInterface({ input: process.stdin })) {
  const words = line.split(" ");
  const begin = micros();
  let word, value = "";
  try {
    word = (await act(words[2], words[4], words.slice(5))) ? "ok" : "no";
  } catch (e) {
    [word, value] = ["err", String(e)];
  }
  console.log(words[0], word, begin, micros(), value);
}
process.exit(0);
