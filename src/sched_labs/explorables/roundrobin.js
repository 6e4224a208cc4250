/* The round robin: threads that never sleep on one CPU, from a recorded sched_switch trace, one wait bracketed.

   data.threads[count] is [[thread, from, to], ...] in ms; -1 is whoever else had the CPU. */

const ms = (value) => `${Math.round(value * 10) / 10} ms`;

// Stints of a thread that only somebody else's moments lie between are one turn.
const turns = (stints, who) => {
  const found = [];
  for (const [thread, from, to] of stints) {
    const last = found.at(-1);
    if (thread === who && last?.open && !last.lost) last.to = to;
    else if (thread === who) found.push({ from, to, open: true, lost: false });
    else if (thread >= 0 && last) last.lost = true;
  }
  return found.map(({ from, to }) => [from, to]);
};

const middle = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

const scene = ({ threads }, data) => {
  const stints = data.threads[threads], count = Number(threads), to = Math.max(...stints.map(([, , end]) => end));
  const lanes = Array.from({ length: count }, (_, who) => turns(stints, who));
  const own = lanes[0], whole = own.filter(([from, end]) => from > 0 && end < to);
  const waits = own.slice(1).map(([from], n) => [own[n][1], from]);
  if (own.at(-1)[1] < to) waits.push([own.at(-1)[1], to]);
  const complete = waits.filter(([, end]) => end < to);
  const shown = complete[Math.floor((complete.length - 1) / 2)];
  return {
    count, lanes, waits, shown, turn: middle(whole.map(([from, end]) => end - from)), wait: middle(complete.map(([from, end]) => end - from)),
    from: 0, to, seconds: 12, still: to,
    moments: [...new Set(lanes.flat(2))].sort((a, b) => a - b),
    clock: ms,
  };
};

const draw = (scene, at, kit) => {
  const { count, lanes, to } = scene, done = at >= to;
  const left = kit.narrow ? 34 : 92, right = kit.width - 8, top = 40;
  const lane = count > 4 ? 18 : 28, gap = 6;
  const x = (time) => left + time / to * (right - left), y = (who) => top + who * (lane + gap) + (who ? 8 : 0);
  const bottom = y(count - 1) + lane;
  const wait = done ? scene.shown : scene.waits.findLast(([from]) => from < at);
  const end = wait && Math.min(wait[1], done ? wait[1] : at);
  let drawn = "";
  for (let who = 0; who < count; who++) {
    const name = who === 0 ? ["this thread", "me"] : [`thread ${who + 1}`, `${who + 1}`];
    drawn += kit.rect(left, y(who), right - left, lane, { fill: kit.colour("floor") })
      + kit.text(left - 8, y(who) + lane / 2 + 5, kit.fit(left - 8, name, kit.size - 1), { anchor: "end", size: kit.size - 1, weight: who ? undefined : 650 });
    for (const [from, until] of lanes[who]) {
      const blamed = who > 0 && wait && from >= wait[0] - 1e-6 && from < end;
      drawn += kit.rect(x(from), y(who), x(until) - x(from) - 1, lane, { fill: kit.colour(who === 0 ? "own" : blamed ? "preempted" : "recorded") });
    }
  }
  if (wait && end > wait[0]) {
    drawn += kit.rect(x(wait[0]), y(0) + 0.75, x(end) - x(wait[0]), lane - 1.5, { fill: "none", stroke: kit.colour("preempted"), strokeWidth: 1.5, strokeDasharray: "4 3" });
    const words = `waits ${ms(end - wait[0])}`, half = kit.room(words) / 2, centre = (x(wait[0]) + x(end)) / 2;
    drawn += kit.bracket(x(wait[0]), x(end), top - 12, "", { stroke: kit.colour("preempted") })
      + kit.text(Math.min(Math.max(centre, left + half), right - half), top - 21, words, { anchor: "middle", weight: 650, fill: kit.colour("preempted") });
  }
  if (!done) drawn += kit.veil(x(at), right, top - 4, bottom);
  kit.height = bottom + 32;
  return drawn + kit.axis(left, right, bottom + 4, 0, to, "ms");
};

const say = ({ count, turn, wait }) =>
  `${count} threads that never sleep share a CPU. Each runs for ${ms(turn)} and then waits for the ${count === 2 ? "turn of the other" : `turns of the ${count - 1} others`}: ${ms(wait)}.`;

export default {
  name: "roundrobin",
  title: "Your wait is the others' turns",
  controls: [{ name: "threads", label: "threads on the CPU", choices: { 2: "2", 4: "4", 8: "8" }, value: "4" }],
  scene, draw, say,
};
