/* The way of a wake-up, near and far, aligned at the sender's system call.

   data.near, data.far: `steps`, in ns after the sender's system call began: waking, wakeup, switch, back (see
   sched_labs.explorables.record.hardware), of the recorded wake-up whose whole length is the median. */

const us = (ns) => `${ns < 9950 ? Math.round(ns / 100) / 10 : Math.round(ns / 1000)} µs`;

// What each stretch is, on the way to a thread on the same CPU and to one on another.
const PARTS = [
  { until: "waking", colour: "alone", words: ["the message is written", "written"] },
  { until: "wakeup", colour: "wakeup", words: ["queued, and an idle CPU interrupted", "queued, CPU interrupted"] },
  { until: "switch", colour: "direct", words: ["the sender gives way, or the CPU leaves idle", "CPU comes free"] },
  { until: "back", colour: "own", words: ["back into the program", "back in the program"] },
];

const scene = ({ scale }, data) => {
  const rows = ["near", "far"].map((name) => {
    let from = 0;
    const parts = PARTS.map(({ until, colour, words }) => {
      const part = { from, to: data[name].steps[until], colour, words };
      from = part.to;
      return part;
    });
    return { name, parts, whole: from, ...data[name] };
  });
  const to = Math.max(...rows.map(({ whole }) => whole));
  return {
    rows, magnified: scale === "own", from: 0, to, seconds: 10,
    moments: [...new Set([0, ...rows.flatMap(({ parts }) => parts.map((part) => part.to))])].sort((a, b) => a - b), clock: us,
  };
};

const draw = (scene, at, kit) => {
  const { rows, to, magnified } = scene, left = 8, right = kit.width - 8, lane = 38;
  let drawn = "", top = 0;
  for (const { name, parts, whole } of rows) {
    const span = magnified ? whole : to, x = (ns) => left + ns / span * (right - left);
    const y = top + 34, later = magnified ? at / to * whole : at;
    drawn += kit.text(left, top + 20, name === "near" ? "to a thread on the same CPU" : kit.fit(kit.width - 70, ["to a thread on another CPU, which is idle", "to an idle CPU"], kit.size + 1), { weight: 650, size: kit.size + 1 })
      + kit.text(right, top + 20, us(whole), { anchor: "end", weight: 700, size: kit.size + 1 })
      + kit.rect(left, y, right - left, lane, { fill: kit.colour("floor") });
    for (const { from, to: until, colour } of parts) {
      const shown = Math.min(until, later);
      if (shown > from) drawn += kit.rect(x(from), y, x(shown) - x(from) - (shown === until ? 1 : 0), lane, { fill: kit.colour(colour) });
    }
    if (later < whole) drawn += kit.line(x(later), y - 4, x(later), y + lane + 4, { stroke: kit.colour("ink"), strokeWidth: 2.5 });
    top = y + lane + 14;
  }
  if (!magnified) {
    drawn += kit.axis(left, right, top - 4, 0, to / 1000, "µs");
    top += 24;
  }
  // What the colours are, and how long each takes.
  const columns = [right - (kit.narrow ? 66 : 130), right];
  ["same CPU", "idle CPU"].forEach((words, n) => { drawn += kit.text(columns[n], top + 20, words, { anchor: "end", size: kit.size - 1, fill: kit.colour("neutral") }); });
  PARTS.forEach(({ colour, words }, n) => {
    const y = top + 44 + 24 * n;
    drawn += kit.rect(left, y - 12, 16, 14, { fill: kit.colour(colour) })
      + kit.text(left + 24, y, kit.fit(columns[0] - left - 100, words) || words[1])
      + rows.map(({ parts }, m) => kit.text(columns[m], y, us(parts[n].to - parts[n].from), { anchor: "end", weight: 600 })).join("");
  });
  kit.height = top + 44 + 24 * PARTS.length - 10;
  return drawn;
};

const say = ({ rows: [near, far] }) => {
  const times = far.whole / near.whole, slowest = far.parts.reduce((a, b) => (b.to - b.from > a.to - a.from ? b : a));
  const others = times > 1.2 ? `${Math.round(times * 10) / 10} times as long` : times < 0.8 ? "sooner" : "about as long";
  return `From the sender's call to the partner's own code: ${us(near.whole)} on one CPU, ${us(far.whole)} to an idle one, ${others}. The longest part of the far way is that ${slowest === far.parts[2] ? "it has to leave its idle state" : "it has to be told"}.`;
};

export default {
  name: "wakeup",
  title: "The way of a wake-up, near and far",
  controls: [{ name: "scale", label: "time", choices: { same: "one scale for both", own: "each as wide as it goes" }, value: "same" }],
  scene, draw, say,
};
