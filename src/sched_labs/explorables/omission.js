/* Coordinated omission: due against sent.  An exact model of a server that stands still once, and of two clients; or a
   recorded run of such a pair: data.run has `closed` and `open`, [[sent, took], ...] in ms, and stall and period.

   The server serves one request after the other and stands still from `stallAt` on.  The client that waits sends its
   next request one period after the last one, or when its answer is there, whichever is later, and counts from when it
   sent.  The client that keeps to its schedule counts from when each request was due.  Times are in ms. */

const ms = (value) => `${Math.round(value * 10) / 10} ms`;
const TO = 150, STALL_AT = 40;

// When a request that reaches the server at `at` is answered; the server is busy until `free`.
const answered = (at, free, work, stall) => {
  const begins = Math.max(at, free), halted = (moment) => moment >= STALL_AT && moment < STALL_AT + stall;
  const from = halted(begins) ? STALL_AT + stall : begins;
  return from < STALL_AT && from + work > STALL_AT ? from + work + stall : from + work;
};

const simulate = ({ period, work, stall, waits }) => {
  const requests = [];
  let free = 0, sent = 0;
  for (let due = 0; due < TO; due += period) {
    const at = waits ? sent : due;
    if (at >= TO) break;
    const done = answered(at, free, work, stall);
    requests.push({ at, done, took: done - at });
    free = done;
    sent = Math.max(at + period, done);
  }
  return requests;
};

// What of a run there is to see: a request is slow that took a tenth of the stall longer than a usual one.
const row = (waits, requests, usual, { stall, period }) => ({
  waits, requests, limit: usual + stall / 10,
  slow: requests.filter(({ took }) => took > usual + stall / 10).length,
  missing: waits ? Math.max(0, Math.ceil(TO / period - 1e-9) - requests.length) : 0,
});

const scene = ({ show, period, work, stall }, data) => {
  if (show === "model" && work >= period) throw new Error(`A server that works ${ms(work)} for each request cannot answer one every ${ms(period)}.`);
  const given = show === "run" ? data.run : { stall, period };
  const rows = [true, false].map((waits) => {
    if (show === "model") return row(waits, simulate({ period, work, stall, waits }), work, given);
    const requests = data.run[waits ? "closed" : "open"].map(([at, took]) => ({ at, took, done: at + took }));
    return row(waits, requests, requests.map(({ took }) => took).sort((a, b) => a - b)[Math.floor(requests.length / 2)], given);
  });
  const all = rows.flatMap(({ requests }) => requests);
  return {
    rows, ...given, highest: Math.max(...all.map(({ took }) => took)),
    from: 0, to: TO, seconds: 9,
    moments: [...new Set([0, STALL_AT, STALL_AT + given.stall, ...all.map(({ at }) => at)])].filter((at) => at <= TO).sort((a, b) => a - b),
    clock: ms,
  };
};

const draw = (scene, at, kit) => {
  const { rows, period, stall, highest, to } = scene;
  const left = 8, right = kit.width - 8, room = kit.narrow ? 92 : 104, head = kit.narrow ? 62 : 46;
  const x = (time) => left + time / to * (right - left);
  const wide = Math.max(1, Math.min(9, 0.6 * (x(period) - x(0))));
  let drawn = "", top = 0;
  for (const { waits, requests, slow, missing, limit } of rows) {
    const ground = top + head + room, y = (took) => ground - took / highest * (room - 6);
    const seen = requests.filter((request) => request.at <= at);
    drawn += kit.text(left, top + 20, waits ? "waits for each answer" : "keeps to its schedule", { weight: 650, size: kit.size + 1 })
      + kit.text(kit.narrow ? left : right, top + (kit.narrow ? 38 : 20), `${slow} of ${requests.length} slow${missing ? `, ${missing} never sent` : ""}`, { anchor: kit.narrow ? "start" : "end", weight: 650 })
      + kit.rect(x(STALL_AT), top + head - 12, x(Math.min(to, STALL_AT + stall)) - x(STALL_AT), room + 12, { fill: kit.colour("floor") })
      + kit.text(x(STALL_AT) + 5, top + head + 2, "server stands still", { size: kit.size - 2, fill: kit.colour("neutral") })
      + kit.line(left, ground, right, ground);
    for (const { at: sent, done, took } of seen) {
      const late = took > limit, tip = y(Math.min(done, at) - sent);
      drawn += kit.rect(x(sent), tip, wide, ground - tip, { fill: kit.colour(late ? "rival" : "own") });
    }
    // What was due and was not sent.
    if (waits) {
      for (let due = 0; due < Math.min(at, to); due += period) {
        const near = requests.some(({ at: sent }) => Math.abs(sent - due) < period / 2);
        if (!near && period >= 2 && due > STALL_AT && due < STALL_AT + stall + period) drawn += kit.circle(x(due) + wide / 2, ground - 6, Math.min(4, wide / 2 + 1), { fill: kit.colour("paper"), stroke: kit.colour("neutral"), strokeWidth: 1.5, strokeDasharray: "2 2" });
      }
    }
    top = ground + 14;
  }
  if (at < to) drawn += kit.line(x(at), 30, x(at), top - 14, { stroke: kit.colour("ink"), strokeWidth: 2 });
  kit.height = top + 26;
  return drawn + kit.axis(left, right, top - 6, 0, to, "ms");
};

const requests = (number) => `${number} request${number === 1 ? "" : "s"}`;

const say = ({ rows: [waiting, open], period, stall }) =>
  `A request is due every ${ms(period)}, and the server stands still once, for ${ms(Math.round(stall))}. The client that waits meets that ${waiting.slow === 1 ? "once" : `${waiting.slow} times`} and does not send ${requests(waiting.missing)} meanwhile; users who do not wait for one another send ${requests(open.slow)} that ${open.slow === 1 ? "is" : "are"} slow.`;

const MODEL = ({ show }) => show === "model";

export default {
  name: "omission",
  title: "Who waits for answers does not ask while they are slow",
  controls: [
    { name: "show", label: "show", choices: { model: "the model", run: "a measured run" }, value: "model" },
    { name: "stall", label: "stall", unit: "ms", min: 5, max: 80, step: 5, value: 50, when: MODEL },
    { name: "period", label: "a request every", unit: "ms", min: 2, max: 20, step: 1, value: 5, when: MODEL },
    { name: "work", label: "work for each", unit: "ms", min: 0.5, max: 5, step: 0.5, value: 1, when: MODEL },
  ],
  scene, draw, say, simulate,
};
