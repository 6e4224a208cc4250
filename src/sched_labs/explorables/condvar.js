/* A condition variable's four switches against a pipe's two: one round trip each, from a recorded trace.

   data.pipe, data.condvar: `ran` [[thread, from, to], ...] and `switches` [[at, from, to, slept], ...], in
   instructions since the round trip began, or in ns where data.unit says so; thread 0 is A, which hands the turn over
   first, 1 is B. */

const NAMES = ["A", "B"], COLOURS = ["own", "alone"], ON = ["#ffffff;stroke:none", "var(--sl-paper)"];

// What each switch is, in the order in which they come: one side is interrupted by whom it has woken, the other sleeps.
const WHY = {
  pipe: ["A writes: B runs", "B has answered, and waits"],
  condvar: ["A signals: B runs", "the mutex is A's: B sleeps", "A unlocks it: B runs", "B has answered, and waits"],
};

const usual = (name, switches) => WHY[name].length === switches.length && switches.every(([, , , slept], n) => slept === (n % 2 === 1));

const scene = (_, data) => {
  const rows = [["pipe", "by pipe"], ["condvar", "by condition variable"]].map(([name, title]) => ({
    title, ...data[name], usual: usual(name, data[name].switches), why: usual(name, data[name].switches) ? WHY[name] : data[name].switches.map(([, from, to, slept]) => `${NAMES[from]} ${slept ? "sleeps" : "is interrupted"}: ${NAMES[to]} runs`),
  }));
  const to = Math.max(...rows.map(({ length }) => length));
  return { rows, from: 0, to, seconds: 9, moments: [...new Set([0, ...rows.flatMap(({ switches }) => switches.map(([at]) => at))])].sort((a, b) => a - b), clock: (at) => `${Math.round(at).toLocaleString("en")}${data.unit ? ` ${data.unit}` : ""}`, unit: data.unit };
};

const draw = (scene, at, kit) => {
  const { rows, to } = scene, left = 30, right = kit.width - 14, lane = 26;
  const x = (count) => left + count / to * (right - left);
  let drawn = "", top = 0;
  for (const { title, ran, switches, why, length } of rows) {
    const y = (who) => top + 36 + who * (lane + 22), bottom = y(1) + lane;
    drawn += kit.text(8, top + 20, title, { weight: 650, size: kit.size + 1 })
      + kit.text(right, top + 20, `${switches.length} switches`, { anchor: "end", weight: 700, size: kit.size + 1, fill: kit.colour("direct") });
    for (const who of [0, 1]) drawn += kit.rect(left, y(who), x(length) - left, lane, { fill: kit.colour("floor") }) + kit.text(left - 10, y(who) + lane / 2 + 5, NAMES[who], { anchor: "end", weight: 650 });
    for (const [who, from, until] of ran) {
      const shown = Math.min(until, at);
      if (shown <= from) continue;
      drawn += kit.rect(x(from), y(who), x(shown) - x(from), lane, { fill: kit.colour(COLOURS[who]) })
        + kit.text((x(from) + x(shown)) / 2, y(who) + lane / 2 + 5, kit.fit(x(shown) - x(from) - 6, ["runs"], 13), { anchor: "middle", size: 13, fill: ON[who] });
    }
    switches.forEach(([moment, from, come], n) => {
      if (moment > at + 1e-9) return;
      const [y1, y2] = from < come ? [y(0) + lane, y(1)] : [y(1), y(0) + lane], cx = x(moment);
      drawn += kit.line(cx, y1, cx, y2, { stroke: kit.colour("direct"), strokeWidth: 2.5 })
        + kit.circle(cx, (y1 + y2) / 2, 10.5, { fill: kit.colour("direct") })
        + kit.text(cx, (y1 + y2) / 2 + 4.5, n + 1, { anchor: "middle", size: 12.5, weight: 700, fill: "#ffffff;stroke:none" });
    });
    // The reasons, numbered: beside one another where there is room.
    const columns = kit.narrow ? 1 : 2, wide = (right - 8) / columns;
    why.forEach((words, n) => {
      const [cx, cy] = [8 + (n % columns) * wide, bottom + 24 + Math.floor(n / columns) * 22], past = switches[n][0] <= at + 1e-9;
      drawn += kit.text(cx, cy, `${n + 1}`, { weight: 700, fill: kit.colour("direct") }) + kit.text(cx + 16, cy, words, { fill: kit.colour(past ? "ink" : "recorded") });
    });
    top = bottom + 24 + Math.ceil(why.length / columns) * 22 + 4;
  }
  drawn += kit.text(8, top + 8, scene.unit ? `wide as the time it took: ${scene.clock(to)} at most` : "wide as many instructions as were executed", { size: kit.size - 2, fill: kit.colour("neutral") });
  kit.height = top + 14;
  return drawn;
};

const say = ({ rows: [pipe, condvar] }) =>
  `One round trip on one CPU: ${pipe.switches.length} switches by pipe, ${condvar.switches.length} by condition variable.${condvar.usual ? " The signal wakes B while A still holds the mutex, so B only finds that it must sleep again." : ""}`;

export default { name: "condvar", title: "Four switches where two would do", controls: [], scene, draw, say };
