/* One switch, zoomed: every instruction from one thread's own code to the other's, as a real kernel executed them.

   data.threads, data.processes: [[step, function, instructions], ...] in the order of execution. */

// The steps of a hand-over, in words, and their colours.
const STEPS = {
  enter: ["into the kernel and out", "recorded"],
  write: ["write the message", "alone"],
  wake: ["wake the partner", "wakeup"],
  choose: ["account, choose who is next", "own"],
  space: ["change the address space", "system"],
  swap: ["swap stacks and six registers", "direct"],
  state: ["vector registers, thread-local", "preempted"],
  finish: ["finish", "own"],
  read: ["read the message", "alone"],
};
const BETWEEN = { threads: "two threads of a process", processes: "two processes" };
const count = (n) => Math.round(n).toLocaleString("en");

// Each strip magnifies a part of the one above it: all, then the switch, then what it swaps.
const ZOOMS = [
  { title: "from A's code to B's", of: Object.keys(STEPS) },
  { title: "the switch in it", of: ["choose", "space", "swap", "state", "finish"] },
  { title: "registers and stacks in that", of: ["swap", "state"] },
];

const scene = ({ between }, data) => {
  let at = 0;
  const calls = data[between].map(([step, name, n]) => ({ step, name, from: at, to: (at += n) }));
  const bars = [];
  for (const { step, from, to } of calls) {
    const last = bars.at(-1);
    if (last && last.step === step) last.to = to;
    else bars.push({ step, from, to });
  }
  const strips = ZOOMS.map(({ title, of }) => {
    const inside = bars.filter(({ step }) => of.includes(step));
    return { title, from: inside[0].from, to: inside.at(-1).to, bars: inside };
  });
  const sums = {};
  for (const { step, from, to } of bars) sums[step] = (sums[step] ?? 0) + to - from;
  return { calls, strips, sums, from: 0, to: at, seconds: 20, moments: bars.map(({ from }) => from), clock: count };
};

const draw = (scene, at, kit) => {
  const { strips, calls, sums, to } = scene, left = 8, right = kit.width - 8, lane = 34;
  let drawn = "", top = 0, above = null;
  for (const strip of strips) {
    const x = (n) => left + (n - strip.from) / (strip.to - strip.from) * (right - left), y = top + 28;
    if (above) {
      // What of the strip above is magnified here; its edges end above the words.
      const words = y - 25;
      const [from, until] = [above.x(strip.from), above.x(strip.to)];
      drawn += kit.curve(`M${from} ${above.y + lane}L${left} ${words}V${y}H${right}V${words}L${until} ${above.y + lane}Z`, { fill: kit.colour("floor"), fillOpacity: 0.7 })
        + kit.line(from, above.y + lane, left, words, { strokeWidth: 1 }) + kit.line(until, above.y + lane, right, words, { strokeWidth: 1 });
    }
    drawn += kit.text(left, y - 9, strip.title, { weight: 650 })
      + kit.text(right, y - 9, `${count(strip.to - strip.from)} instructions`, { anchor: "end", weight: 650 });
    for (const { step, from, to: until } of strip.bars) {
      const wide = x(until) - x(from);
      drawn += kit.rect(x(from), y, Math.max(1, wide - 0.8), lane, { fill: kit.colour(STEPS[step][1]) });
    }
    if (at < to && at >= strip.from && at <= strip.to) drawn += kit.line(x(at), y - 5, x(at), y + lane + 5, { stroke: kit.colour("ink"), strokeWidth: 2.5 });
    above = { x, y };
    top = y + lane + 22;
  }
  const now = at < to ? calls.find(({ to: until }) => until > at) : null;
  drawn += kit.text(left, top, now ? `${STEPS[now.step][0]}: ${now.name}()` : "", { weight: 600, size: kit.size - 1 });
  top += now ? 12 : -8;
  // The steps, and how many instructions each took in all.
  const shown = Object.entries(STEPS).filter(([step]) => sums[step]), columns = kit.narrow ? 1 : 2, wide = (right - left) / columns, rows = Math.ceil(shown.length / columns);
  shown.forEach(([step, [words, colour]], n) => {
    const cx = left + Math.floor(n / rows) * wide, cy = top + 18 + (n % rows) * 23;
    drawn += kit.rect(cx, cy - 12, 16, 14, { fill: kit.colour(colour) })
      + kit.text(cx + 24, cy, words, { weight: step === "swap" ? 700 : undefined })
      + kit.text(cx + wide - (n < rows && columns > 1 ? 34 : 0), cy, count(sums[step]), { anchor: "end", weight: step === "swap" ? 700 : undefined });
  });
  kit.height = top + 18 + rows * 23 - 4;
  return drawn;
};

const say = ({ to, sums }) =>
  `A message through a pipe, from one thread's code to the other's: ${count(to)} instructions. To account for the time and choose who is next takes ${count(sums.choose)} of them; to swap stacks and six registers, which many take for the whole switch, ${count(sums.swap)}.`;

export default {
  name: "switch",
  title: "One switch, zoomed",
  controls: [{ name: "between", label: "between", choices: BETWEEN, value: "threads" }],
  scene, draw, say,
};
