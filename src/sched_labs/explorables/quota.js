/* A quota drains over the lanes of CPUs, and everybody stands until the next period: an exact model, or a measured run.
   Such a run is data.run: quota, period, to and cpus, and `ran` and `stands` [[cpu, from, to], ...] in ms since a refill;
   data.values then says `measured`.

   `simulate` is the model of sched_labs.bandwidth, event by event: see there for what it follows in kernel/sched/fair.c
   and what it leaves out.  A test holds the two equal to the nanosecond.  Times are in µs. */

const KEPT_US = 1000, SLACK_DELAY_US = 5000, TOO_LATE_US = 2000;
const NS = 1e-3, NOTHING = 1e-6, NEVER = -1;

// The earliest chunk first, and of those that end together the one of the first CPU.
class Chunks {
  constructor() { this.all = []; }
  get first() { return this.all.length ? this.all[0][0] : Infinity; }
  add(at, cpu) {
    let place = this.all.length;
    while (place > 0 && (this.all[place - 1][0] > at || (this.all[place - 1][0] === at && this.all[place - 1][1] > cpu))) place--;
    this.all.splice(place, 0, [at, cpu]);
  }
  take() { return this.all.shift(); }
}

// As Python divides: the whole number of times that b goes into a.
const times = (a, b) => Math.round((a - a % b) / b);

/* Runs a group until `end`; arrivals and work as in sched_labs.bandwidth.replay, work Infinity: threads never sleep.
   Besides what the model counts it gives, for a picture, `ran` [cpu, from, to] and `refills` [at, added]. */
const simulate = ({ quota, period, burst = 0, slice = 5000, tick = 0, tickAt = 0, threads, cpus: machine, arrivals = [], work = Infinity, end }) => {
  const cpus = Math.min(threads, machine), spare = tick ? threads - cpus : 0;
  const seen = { nr_periods: 0, nr_throttled: 0, nr_bursts: 0, burst_us: 0, used_us: 0, intervals: [], used_by: [], ran: [], refills: [] };
  let pool = quota + burst, filled = pool;
  let counting = true, untouched = true;
  const local = Array(cpus).fill(0), looked = Array(cpus).fill(0), left = Array(cpus).fill(work);
  const chunk = Array(cpus).fill(0), ends = Array(cpus).fill(NEVER), serves = Array(cpus).fill(-1);
  const finished = Array(arrivals.length).fill(Infinity);
  const coming = [...arrivals, Infinity];
  let arrived = 0, woken = 0;
  const throttled = new Map(); // cpu -> since when, in the order in which they are let go
  const running = new Chunks();
  const idle = work < Infinity ? Array.from({ length: cpus }, (_, cpu) => cpu) : [];
  let now = 0, boundary = period, slack = Infinity, used = 0;
  const round = cpus * slice;
  const begin = (cpu) => {
    let held = local[cpu];
    const wanted = left[cpu];
    if (held <= NOTHING && looked[cpu] <= now) {
      counting = true;
      let taken;
      if (pool > 3 * round) {
        const need = Math.ceil(Math.min(wanted, boundary - now) / slice), most = times(pool, round) - 1;
        taken = slice * Math.min(need, most) - held;
      } else taken = slice - held;
      taken = Math.min(taken, pool);
      if (taken > 0) {
        untouched = false;
        pool -= taken;
        held = local[cpu] = held + taken;
      }
      if (held <= NOTHING) {
        throttled.set(cpu, now);
        return;
      }
    }
    if (held > NOTHING) {
      looked[cpu] = now + held;
      if (tick) looked[cpu] = tick * Math.ceil((now + held - tickAt) / tick) + tickAt;
    }
    const length = chunk[cpu] = Math.min(looked[cpu] - now, wanted);
    ends[cpu] = now + length;
    running.add(ends[cpu], cpu);
  };

  const underWay = (at) => ends.reduce((sum, ending, cpu) => (ending >= at ? sum + chunk[cpu] - (ending - at) : sum), 0);

  for (let cpu = 0; cpu < cpus - idle.length; cpu++) begin(cpu);
  for (;;) {
    let limit = Math.min(boundary, slack, end);
    for (;;) {
      const ending = running.first;
      let cpu;
      if (idle.length && coming[arrived] <= ending) {
        if (coming[arrived] >= limit) break;
        now = coming[arrived];
        cpu = idle.shift();
      } else if (spare && coming[woken] < ending) {
        if (coming[woken] >= limit) break;
        now = coming[woken];
        cpu = woken % cpus; // anywhere
        if (woken - arrived < spare && ends[cpu] >= now) {
          chunk[cpu] -= ends[cpu] - now;
          ends[cpu] = looked[cpu] = now;
          running.add(now, cpu);
        }
        woken++;
        continue;
      } else {
        if (ending >= limit) break;
        [now, cpu] = running.take();
        if (ends[cpu] !== now) continue;
        ends[cpu] = NEVER;
        const done = chunk[cpu];
        seen.ran.push([cpu, now - done, now]);
        used += done;
        local[cpu] -= done;
        left[cpu] -= done;
        if (left[cpu] > NOTHING) {
          begin(cpu);
          continue;
        }
        finished[serves[cpu]] = now;
        if (coming[arrived] > now) {
          idle.push(cpu);
          looked[cpu] = now;
          if (local[cpu] > KEPT_US) {
            pool += local[cpu] - KEPT_US;
            local[cpu] = KEPT_US;
                const soon = boundary - now < SLACK_DELAY_US + TOO_LATE_US;
            if (throttled.size && pool > slice && slack === Infinity && !soon) {
              slack = now + SLACK_DELAY_US;
              limit = Math.min(limit, slack);
            }
          }
          continue;
        }
        if (woken > arrived) looked[cpu] = now; // another thread has it
      }
      serves[cpu] = arrived;
      left[cpu] = work;
      arrived++;
      woken = Math.max(woken, arrived);
      begin(cpu);
    }
    now = limit;
    if (now === boundary) {
      boundary += period;
      seen.used_by.push(used + underWay(now));
      seen.nr_periods += counting;
      seen.nr_throttled += throttled.size > 0;
      if (counting) { // the timer fills the pool up once more before it stops
        pool += quota;
        if (filled > pool) {
          seen.nr_bursts++;
          seen.burst_us += filled - pool;
        }
        const before = pool - quota;
        pool = filled = Math.min(pool, quota + burst);
        seen.refills.push([now, pool - before]);
        counting = throttled.size > 0 || !untouched;
        untouched = !throttled.size;
      }
    }
    if (now === end) break;
    if (now === slack) {
      slack = Infinity;
      if (boundary - now < TOO_LATE_US || pool <= slice) continue;
    }
    for (const [cpu, since] of [...throttled]) {
      if (tick || local[cpu] < 0) {
        const paid = Math.min((tick ? NS : 0) - local[cpu], pool);
        pool -= paid;
        local[cpu] += paid;
      }
      if (local[cpu] < 0 || pool <= 0) break;
      throttled.delete(cpu);
      seen.intervals.push([cpu, since, now]);
      begin(cpu);
    }
  }
  ends.forEach((ending, cpu) => { if (ending >= end) seen.ran.push([cpu, ending - chunk[cpu], end]); });
  for (const [cpu, since] of throttled) seen.intervals.push([cpu, since, end]);
  seen.used_us = used + underWay(end);
  return { ...seen, finished };
};

/* ---- the picture ---- */

const WINDOW_MS = 400;
const ms = (value) => `${Math.round(value * 10) / 10} ms`;
const count = (n, one) => `${n === 1 ? "one" : n} ${one}${n === 1 ? "" : "s"}`;

// Work that comes in bursts needs one and a half quotas, once in two periods: three quarters of what the limit allows.
const bursts = (quota, period, threads, end) => {
  const arrivals = [];
  for (let at = 0; at < end; at += 2 * period) for (let n = 0; n < threads; n++) arrivals.push(at);
  return { arrivals, work: 1.5 * quota / threads };
};

const measured = ({ quota, period, cpus, ran, stands, to }) => {
  const used = Array.from({ length: Math.ceil(to / period) }, (_, n) =>
    ran.reduce((sum, [, from, until]) => sum + Math.max(0, Math.min(until, (n + 1) * period) - Math.max(from, n * period)), 0));
  // Each period begins with a whole quota.
  const refills = used.map((spent, n) => [1000 * (n + 1) * period, 1000 * spent]);
  return {
    measured: true, quota, period, burst: 0, lanes: cpus, busy: cpus, threads: cpus, ran, stands, to, from: 0, seconds: 9,
    left: unspent({ ran: ran.map(([cpu, from, until]) => [cpu, 1000 * from, 1000 * until]), refills }, 1000 * quota, 1000 * to),
    moments: [...new Set([0, ...stands.flatMap(([, from, until]) => [from, until])])].sort((a, b) => a - b),
    clock: ms,
  };
};

const scene = ({ quota, period, burst, threads, cpus, work }, data) => {
  if (data?.run) return measured(data.run);
  if (burst > quota) throw new Error(`The kernel refuses a burst above the quota: ${burst} ms above ${quota} ms.`);
  const end = 1000 * Math.max(WINDOW_MS, 2 * period);
  const load = work === "bursts" ? bursts(1000 * quota, 1000 * period, threads, end) : {};
  const run = simulate({ quota: 1000 * quota, period: 1000 * period, burst: 1000 * burst, threads, cpus, end, ...load });
  const to = end / 1000;
  const stands = run.intervals.map(([cpu, from, until]) => [cpu, from / 1000, until / 1000]).filter(([, from, until]) => until - from > 1e-3);
  return {
    quota, period, burst, threads, cpus, work, load, run, stands,
    lanes: cpus, busy: Math.min(threads, cpus),
    ran: run.ran.map(([cpu, from, until]) => [cpu, from / 1000, until / 1000]),
    left: unspent(run, 1000 * (quota + burst), end),
    from: 0, to, seconds: 9,
    moments: [...new Set([...stands.flatMap(([, from, until]) => [from, until]), ...Array.from({ length: Math.floor(to / period) + 1 }, (_, n) => n * period)])].sort((a, b) => a - b),
    clock: ms,
  };
};

// What is left of quota and burst at every moment at which its slope changes: [at, left] in ms.
const unspent = (run, begin, end) => {
  const changes = [[0, 0, 0]];
  for (const [, from, until] of run.ran) changes.push([from, 1, 0], [until, -1, 0]);
  for (const [at, added] of run.refills) changes.push([at, 0, added]);
  changes.sort((a, b) => a[0] - b[0]);
  const points = [];
  let left = begin, slope = 0, before = 0;
  for (const [at, more, added] of changes) {
    left -= slope * (at - before);
    points.push([at / 1000, left / 1000]);
    if (added && at < end) points.push([at / 1000, (left += added) / 1000]);
    slope += more;
    before = at;
  }
  points.push([end / 1000, (left - slope * (end - before)) / 1000]);
  return points;
};

// Runs and stands that follow one another on a CPU are one bar.
const joined = (parts) => {
  const bars = [];
  for (const [cpu, from, until] of [...parts].sort((a, b) => a[0] - b[0] || a[1] - b[1])) {
    const last = bars.at(-1);
    if (last && last[0] === cpu && from - last[2] < 1e-3) last[2] = Math.max(last[2], until);
    else bars.push([cpu, from, until]);
  }
  return bars;
};

const leftAt = (points, at) => {
  const next = points.findIndex(([time]) => time > at);
  const [[t1, l1], [t2, l2]] = next < 1 ? [points.at(-1), points.at(-1)] : [points[next - 1], points[next]];
  return t2 > t1 ? l1 + (l2 - l1) * (at - t1) / (t2 - t1) : l1;
};

const draw = (scene, at, kit) => {
  const { lanes, busy, period, to } = scene;
  const left = kit.narrow ? 52 : 66, right = kit.width - 8, top = 26;
  const lane = Math.max(12, Math.min(34, 150 / lanes)), gap = lanes > 5 ? 3 : 6;
  const x = (time) => left + time / to * (right - left);
  const bottom = top + lanes * (lane + gap), ground = bottom + 118, full = scene.quota + scene.burst;
  const y = (ms) => ground - ms / full * 84;
  let drawn = "";
  for (let start = 0; start < to - 1e-9; start += period) {
    drawn += kit.line(x(start), top - 6, x(start), ground, { strokeDasharray: "3 4" });
    if (x(period) - x(0) > 60 || start === 0) drawn += kit.text(x(start) + 3, top - 11, start === 0 ? "refill" : kit.fit(x(period) - x(0), ["refill"]), { size: kit.size - 1, fill: kit.colour("neutral") });
  }
  for (let cpu = 0; cpu < lanes; cpu++) {
    const y1 = top + cpu * (lane + gap);
    drawn += kit.rect(left, y1, right - left, lane, { fill: kit.colour("floor") })
      + kit.text(left - 8, y1 + lane / 2 + 5, `CPU ${cpu + 1}`, { anchor: "end", size: Math.min(kit.size, lane + 2) });
    if (cpu >= busy) drawn += kit.text((left + right) / 2, y1 + lane / 2 + 5, "no thread for it", { anchor: "middle", size: Math.min(kit.size, lane + 2), fill: kit.colour("neutral") });
  }
  for (const [cpu, from, until] of joined(scene.ran)) {
    const y1 = top + cpu * (lane + gap), wide = x(until) - x(from);
    drawn += kit.rect(x(from), y1, wide, lane, { fill: kit.colour("own") });
    if (lane >= 14) drawn += kit.text((x(from) + x(until)) / 2, y1 + lane / 2 + 5, kit.fit(wide - 8, [`runs ${ms(until - from)}`, "runs"], Math.min(kit.size, lane)), { anchor: "middle", size: Math.min(kit.size, lane), fill: "#ffffff;stroke:none" });
  }
  const bars = joined(scene.stands);
  for (const [cpu, from, until] of bars) {
    const y1 = top + cpu * (lane + gap), wide = x(until) - x(from);
    drawn += kit.rect(x(from) + 0.75, y1 + 0.75, wide - 1.5, lane - 1.5, { fill: kit.colour("paper"), stroke: kit.colour("throttled"), strokeWidth: 1.5, strokeDasharray: "4 3" });
    if (lane >= 14) drawn += kit.text((x(from) + x(until)) / 2, y1 + lane / 2 + 5, kit.fit(wide - 8, [`stands ${ms(until - from)}`, "stands"], Math.min(kit.size, lane)), { anchor: "middle", size: Math.min(kit.size, lane), fill: kit.colour("throttled") });
  }
  // What is left of the quota.
  const line = scene.left.map(([time, rest]) => [x(time), y(rest)]);
  drawn += kit.path([[left, ground], ...line, [right, ground]], { fill: kit.colour("throttled"), fillOpacity: 0.22 })
    + kit.path(line, { stroke: kit.colour("throttled"), strokeWidth: 2.5 })
    + kit.text(left, bottom + 18, kit.fit(right - left, ["what is left of the quota"]), { fill: kit.colour("throttled"), weight: 600 })
    + kit.text(left - 8, y(full) + 5, `${short(full)}`, { anchor: "end", size: kit.size - 1, fill: kit.colour("neutral") })
    + kit.text(left - 8, ground + 1, "0 ms", { anchor: "end", size: kit.size - 1, fill: kit.colour("neutral") });
  if (at < to) {
    const now = leftAt(scene.left, at);
    const words = `${ms(now)} left`, wide = kit.room(words);
    drawn += kit.veil(x(at), right, top - 8, ground)
      + kit.text(Math.min(x(at) + 6, right - wide), y(now) - 7, words, { weight: 600, fill: kit.colour("throttled") });
  }
  kit.height = ground + 28;
  return drawn + kit.axis(left, right, ground, 0, to, "ms");
};

const short = (value) => String(Math.round(value * 100) / 100);

const sayMeasured = ({ quota, period, threads, stands, to }) => {
  const who = `${count(threads, "thread")} that never sleep${threads === 1 ? "s" : ""}, one on a CPU, under a quota of ${short(quota)} ms in ${short(period)} ms`;
  if (!stands.length) return `Measured: ${who}. Nobody stood in these ${short(to)} ms.`;
  const lengths = stands.map(([, from, until]) => until - from).sort((a, b) => a - b);
  return `Measured: ${who}. In ${short(to)} ms they stood ${stands.length === 1 ? "once" : `${stands.length} times`}, for ${ms(lengths[0])} to ${ms(lengths.at(-1))}.`;
};

const say = (scene) => {
  if (scene.measured) return sayMeasured(scene);
  const { quota, period, burst, threads, cpus, work, load, stands, run, busy, to } = scene;
  const share = quota / period, allowed = `${short(quota)} ms of CPU time in every ${short(period)} ms`;
  if (work === "bursts") {
    const first = load.arrivals.length ? Math.max(...run.finished.slice(threads, 2 * threads).map((at) => at - 2000 * period)) / 1000 : NaN;
    const took = Number.isFinite(first) ? `is done after ${ms(first)}` : "is not done before the picture ends";
    const without = load.work / 1000 * Math.ceil(threads / cpus);
    const saved = burst > 0 ? `A burst of ${short(burst)} ms may be saved up while nobody works` : "What is not used in a period is lost";
    return `${saved}: the work that comes every ${short(2 * period)} ms ${took}; without a limit it would take ${ms(without)}.`;
  }
  const second = stands.filter(([, from]) => from >= 2 * period * (to > 3 * period - 1e-6 ? 1 : 0) - 1e-6 && from < (to > 3 * period - 1e-6 ? 3 : 1) * period - 1e-6).map(([, from]) => from % period);
  if (!second.length) return `${count(threads, "thread")} on ${count(cpus, "CPU")} use${threads === 1 ? "s" : ""} at most ${short(busy)} CPU${busy === 1 ? "" : "s"}; the limit allows ${short(share)}: nobody stands.`.replace(/^o/, "O");
  const [least, most] = [Math.min(...second), Math.max(...second)];
  const after = most - least < 0.05 ? ms(most) : `${short(least)} to ${ms(most)}`;
  const all = busy === 1 ? "One thread uses" : `${busy} threads side by side use`;
  return `${all} up ${short(quota)} ms of quota after ${after}. Then ${busy === 1 ? "it stands" : "all of them stand"} until the next period, on idle CPUs.`;
};

const MODEL = (values) => !values.measured;

export default {
  name: "quota",
  title: "A quota drains, and everybody stands",
  controls: [
    { name: "quota", label: "quota", unit: "ms", min: 5, max: 300, step: 5, value: 100, when: MODEL },
    { name: "period", label: "period", unit: "ms", min: 10, max: 150, step: 10, value: 100, when: MODEL },
    { name: "burst", label: "burst", unit: "ms", min: 0, max: 300, step: 5, value: 0, when: MODEL },
    { name: "threads", label: "threads", min: 1, max: 8, step: 1, value: 4, when: MODEL },
    { name: "cpus", label: "CPUs", min: 1, max: 8, step: 1, value: 4, when: MODEL },
    { name: "work", label: "the threads", choices: { busy: "never sleep", bursts: "work in bursts" }, value: "busy", when: MODEL },
  ],
  scene, draw, say, simulate,
};
