/* CFS and EEVDF choosing: who is next, what the kernel chose, and what the rule says.

   data.kernels["6.1"], ["6.12"]: what ran [[who, from, to], ...] in ms, when the sleeper was woken, and every choice with
   all that it rests on (sched_labs.explorables.record.scheduler).  0 is the sleeper, 1 and 2 are the hogs.

   The rules, all weights being equal here:
     CFS    pick_next_entity(): the least virtual runtime.  A woken thread interrupts the one that runs if that one is
            ahead by more than the wake-up granularity (wakeup_preempt_entity()).
     EEVDF  pick_eevdf(): of those whose virtual runtime is at most the average, which are owed time, the one with the
            earliest deadline; but one that runs, is owed time and has a slice left keeps the CPU (RUN_TO_PARITY). */

const NAMES = ["S", "A", "B"], LONG = ["the sleeper", "hog A", "hog B"], SHORT = ["sleeper S", "hog A", "hog B"], COLOURS = ["wakeup", "own", "alone"], ON = ["var(--sl-paper)", "#ffffff;stroke:none", "var(--sl-paper)"];
const ms = (value) => `${Math.round(value * 10) / 10} ms`;

const average = (tasks) => {
  const all = Object.values(tasks);
  return all.reduce((sum, { v }) => sum + v, 0) / all.length;
};

const choose = (scheduler, { kind, tasks, curr, kept, woken }, granularity) => {
  const who = Object.keys(tasks).map(Number), least = (of, key) => of.reduce((best, one) => (tasks[one][key] < tasks[best][key] ? one : best));
  if (scheduler === "cfs") {
    if (kind === "wake") return tasks[curr].v - tasks[woken].v > granularity ? woken : curr;
    return least(who, "v");
  }
  const fair = average(tasks), eligible = who.filter((one) => tasks[one].v <= fair);
  if (curr !== null && kept && eligible.includes(curr)) return curr;
  return least(eligible, "d");
};

// The waits of the sleeper, from each wake-up to its turn.
const waits = ({ woken_ms: woken, ran }) => woken.map((at) => [at, ran.find(([who, from]) => who === 0 && from >= at)?.[1]]).filter(([, to]) => to !== undefined);

const scene = ({ scheduler }, { kernels }) => {
  const rows = [["cfs", "6.1", "CFS, Linux 6.1"], ["eevdf", "6.12", "EEVDF, Linux 6.12"]].map(([name, version, title]) => {
    const { ran, choices, granularity_us: granularity } = kernels[version];
    const judged = choices.map((choice) => ({ ...choice, rule: choose(name, choice, granularity) }));
    return { name, title, ran, waits: waits(kernels[version]), choices: judged, agree: judged.filter(({ rule, chosen }) => rule === chosen).length, granularity };
  });
  const row = rows.find(({ name }) => name === scheduler);
  // How far from the average anybody, or a deadline, is.
  const most = Math.max(...row.choices.flatMap(({ tasks }) => Object.values(tasks).flatMap(({ v, d = v }) => [v, d].map((each) => Math.abs(each - average(tasks)) / 1000)))) + 0.6;
  // The moment to begin with: a woken sleeper that has to wait, where there is one.
  const held = row.choices.find(({ woken, chosen, curr }) => woken === 0 && curr !== null && chosen === curr) ?? row.choices.find(({ woken, curr }) => woken === 0 && curr !== null);
  const moments = row.choices.map(({ at_ms: at }) => at);
  return { rows, row, most, from: 0, to: Math.max(...row.ran.map(([, , end]) => end)), still: held.at_ms, moments, seconds: 25, clock: ms };
};

const choiceAt = ({ row }, at) => row.choices.findLast(({ at_ms: moment }) => moment <= at + 1e-9) ?? row.choices[0];

const draw = (scene, at, kit) => {
  const { rows, row, to } = scene, left = 8, right = kit.width - 8, lane = 26;
  const x = (time) => left + time / to * (right - left);
  let drawn = "", top = 0;
  for (const each of rows) {
    const y = top + 48, mine = each === row, longest = Math.max(...each.waits.map(([from, until]) => until - from));
    drawn += kit.text(left, top + 18, each.title, { weight: mine ? 700 : 500 })
      + kit.text(right, top + 18, longest < 0.1 ? "S runs at once" : `S waits up to ${ms(longest)}`, { anchor: "end", weight: 650, fill: kit.colour("wakeup") });
    for (const [who, from, until] of each.ran) {
      if (who < 0) continue;
      drawn += kit.rect(x(from), y, x(until) - x(from) - 0.6, lane, { fill: kit.colour(COLOURS[who]) });
      if (x(until) - x(from) > 16) drawn += kit.text((x(from) + x(until)) / 2, y + lane / 2 + 5, NAMES[who], { anchor: "middle", size: 13, fill: ON[who] });
    }
    for (const [from, until] of each.waits) {
      drawn += kit.line(x(from), y - 12, x(from), y, { stroke: kit.colour("wakeup"), strokeWidth: 2 });
      if (until - from > 0.1) drawn += kit.curve(`M${x(from)} ${y - 7}H${x(until)}`, { stroke: kit.colour("wakeup"), strokeWidth: 4 });
    }
    if (mine) drawn += kit.curve(`M${x(at)} ${y - 14}V${y + lane + 6}`, { stroke: kit.colour("ink"), strokeWidth: 2.5 });
    top = y + lane + 8;
  }
  drawn += kit.text(left, top + 12, "green stroke: S is woken", { size: kit.size - 2, fill: kit.colour("neutral") });

  // The choice: where each stands, against what would be fair.
  const choice = choiceAt(scene, at), { tasks, curr, chosen } = choice, fair = average(tasks), eevdf = row.name === "eevdf";
  top += 38;
  const field = kit.narrow ? 26 : 90, middle = field + (right - field) * 0.5, most = scene.most, scale = (right - field) / 2 / most;
  const place = (v) => middle + Math.max(-most, Math.min(most, (v - fair) / 1000)) * scale;
  const rowsHigh = 36, bottom = top + 26 + 3 * rowsHigh;
  const under = rows.length && Object.keys(tasks).map(Number);
  if (eevdf) drawn += kit.rect(field, top + 22, middle - field, bottom - top - 22, { fill: kit.colour("wakeup"), fillOpacity: 0.12 });
  drawn += kit.text(middle - 8, top + 14, kit.fit(middle - field, eevdf ? ["◂ owed time: may be chosen", "◂ owed time"] : ["◂ has had less", "◂ less"]), { anchor: "end", fill: kit.colour("neutral") })
    + kit.text(middle + 8, top + 14, kit.fit(right - middle, ["has had more than its share ▸", "has had more ▸"]), { fill: kit.colour("neutral") })
    + kit.line(middle, top + 22, middle, bottom, { strokeWidth: 2 });
  for (const who of [0, 1, 2]) {
    const y = top + 22 + rowsHigh * (who + 0.5) + 2;
    drawn += kit.text(left, y + 5, kit.fit(field - 12, [SHORT[who], NAMES[who]], kit.size - 1), { size: kit.size - 1, fill: kit.colour(under.includes(who) ? "ink" : "neutral") });
    if (!under.includes(who)) {
      drawn += kit.text(field + 8, y + 5, "asleep", { size: kit.size - 1, fill: kit.colour("neutral") });
      continue;
    }
    const { v, d } = tasks[who], cx = place(v);
    if (eevdf) {
      const end = place(d);
      drawn += kit.line(cx, y, end, y, { stroke: kit.colour(COLOURS[who]), strokeWidth: 3 })
        + kit.line(end, y - 10, end, y + 10, { stroke: kit.colour(COLOURS[who]), strokeWidth: 3 });
    }
    drawn += kit.circle(cx, y, 9, { fill: kit.colour(COLOURS[who]) })
      + kit.text(cx, y + 4.5, NAMES[who], { anchor: "middle", size: 12, weight: 700, fill: ON[who] })
      + (who === curr ? kit.circle(cx, y, 12.5, { fill: "none", stroke: kit.colour("ink"), strokeWidth: 2 }) : "");
    if (who === chosen) {
      const after = (eevdf ? Math.max(cx, place(d)) : cx) + 16, words = who === curr ? "stays" : "next";
      drawn += after + kit.room(words) < right ? kit.text(after, y + 5, words, { weight: 700 }) : kit.text(cx - 16, y + 5, words, { weight: 700, anchor: "end" });
    }
  }
  const legend = [eevdf ? "● virtual runtime ─| deadline" : "● virtual runtime", curr === null ? "" : "ringed: has the CPU"].filter(Boolean).join(" · ");
  drawn += kit.text(field, bottom + 18, kit.fit(right - field, [legend, legend.split(" · ")[0]], kit.size - 2), { size: kit.size - 2, fill: kit.colour("neutral") })
    + kit.text(right, bottom + 36, kit.fit(right, [`the rule and the kernel agree in ${row.agree} of ${row.choices.length} choices`, `rule = kernel: ${row.agree} of ${row.choices.length}`], kit.size - 2), { anchor: "end", size: kit.size - 2, fill: kit.colour("neutral") });
  kit.height = bottom + 44;
  return drawn;
};

const capital = (words) => words[0].toUpperCase() + words.slice(1);

const say = (scene, at) => {
  const { row } = scene, { kind, tasks, curr, kept, woken, chosen, at_ms: moment } = choiceAt(scene, at);
  const name = LONG[chosen], fair = average(tasks), just = woken === 0 && curr !== null;
  const when = just ? `At ${ms(moment)} the sleeper wakes.` : curr === null ? `At ${ms(moment)} the one that ran goes to sleep.` : `At ${ms(moment)} the tick asks again.`;
  if (row.name === "cfs") {
    if (just) return `${when} ${capital(LONG[curr])} has had ${ms((tasks[curr].v - tasks[0].v) / 1000)} more: above ${ms(row.granularity / 1000)} the woken one runs at once.`;
    return `${when} CFS takes whoever has had least: ${name}.`;
  }
  const owed = tasks[0] && tasks[0].v <= fair;
  if (just && chosen !== 0) {
    if (kept) return `${when} It is owed time, but ${LONG[curr]} is too, and keeps the CPU until its slice is used up: S waits.`;
    return `${when} It is ${owed ? "owed time, but" : "not owed time;"} ${name} has the earlier deadline: S waits.`;
  }
  return `${when} Of those that are owed time, ${name} has the earliest deadline.`;
};

export default {
  name: "picking",
  title: "Who is next? CFS and EEVDF",
  controls: [{ name: "scheduler", label: "look into", choices: { cfs: "CFS (Linux 6.1)", eevdf: "EEVDF (Linux 6.12)" }, value: "eevdf" }],
  scene, draw, say, choose,
};
