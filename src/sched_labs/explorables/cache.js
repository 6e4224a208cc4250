/* Cache lines evicted and refilled: two threads take turns on a small cache.

   The cache is a model: 16 sets of 4 lines, and a set that is full gives up the line that was used longest ago (LRU).
   Thread A has walked over its lines and they are all there; B walks over its own; then A walks again.  Each walk goes
   over the lines in an order of its own, always the same.  What a real cache does besides (other replacement rules,
   prefetching, several levels) is left out. */

const SETS = 16, WAYS = 4;

// A fixed shuffle (Park and Miller's generator), so that everybody sees the same walk.
const shuffled = (count, seed) => {
  const order = Array.from({ length: count }, (_, n) => n);
  let state = seed;
  for (let last = count - 1; last > 0; last--) {
    state = state * 48271 % 2147483647;
    const other = state % (last + 1);
    [order[last], order[other]] = [order[other], order[last]];
  }
  return order;
};

class Cache {
  constructor() {
    this.places = Array.from({ length: SETS }, () => Array(WAYS).fill(null)); // which line stands where
    this.used = Array.from({ length: SETS }, () => []); // places of a set, the one used longest ago first
  }

  // Use a line; gives whether it was there, and where it is now.
  use(owner, line) {
    const set = line % SETS, places = this.places[set], used = this.used[set];
    let way = places.findIndex((held) => held?.owner === owner && held.line === line);
    const hit = way >= 0;
    let lost = null;
    if (!hit) {
      way = places.indexOf(null);
      if (way < 0) {
        way = used[0];
        lost = places[way].owner;
      }
      places[way] = { owner, line };
    }
    if (used.includes(way)) used.splice(used.indexOf(way), 1);
    used.push(way);
    return { owner, line, hit, set, way, lost };
  }
}

// A's first walk.
const first = (a) => shuffled(a, 7);

const simulate = ({ a, b }) => {
  const cache = new Cache();
  for (const line of first(a)) cache.use("A", line);
  const before = cache.places.map((set) => set.map((held) => held?.owner ?? null));
  const steps = [...shuffled(b, 11).map((line) => ["B", line]), ...shuffled(a, 23).map((line) => ["A", line])];
  return { before, steps: steps.map(([owner, line]) => cache.use(owner, line)) };
};

const scene = (values) => {
  const { before, steps } = simulate(values), { a, b } = values;
  const evicted = steps.slice(0, b).filter(({ lost }) => lost === "A").length;
  const missed = steps.slice(b).filter(({ hit }) => !hit).length;
  return {
    a, b, before, steps, evicted, missed, from: 0, to: a + b, seconds: 8,
    moments: [0, b, a + b],
    clock: (at) => `read ${Math.floor(at)} of ${a + b}`,
  };
};

const draw = (scene, at, kit) => {
  const { a, b, before, steps } = scene, now = Math.floor(at + 1e-9);
  const left = 8, right = kit.width - 8, gap = 3;
  const cell = Math.min(34, (right - left + gap) / SETS - gap), wide = SETS * (cell + gap) - gap;
  const start = left + (right - left - wide) / 2, top = 34;
  const held = before.map((set) => set.map((owner) => ({ owner, fresh: false })));
  for (const { owner, set, way, hit } of steps.slice(0, now)) if (!hit) held[set][way] = { owner, fresh: owner === "A" };
  const colours = { A: "own", B: "rival" };
  const turn = now < b ? "B runs" : now < a + b ? "A is back" : "A has run again";
  let drawn = kit.text(start, 20, now === 0 ? "A has run: its lines are in the cache" : turn, { weight: 650, size: kit.size + 1 });
  for (let set = 0; set < SETS; set++) {
    for (let way = 0; way < WAYS; way++) {
      const { owner, fresh } = held[set][way], [x, y] = [start + set * (cell + gap), top + way * (cell + gap)];
      drawn += kit.rect(x, y, cell, cell, { rx: 3, fill: kit.colour(owner ? (fresh ? "warmup" : colours[owner]) : "floor") });
      if (owner && cell > 15) drawn += kit.text(x + cell / 2, y + cell / 2 + 5, owner, { anchor: "middle", size: Math.min(15, cell * 0.6), fill: "#ffffff;stroke:none" });
    }
  }
  if (now > 0 && now < a + b) {
    const { set, way } = steps[now - 1];
    drawn += kit.rect(start + set * (cell + gap) - 2, top + way * (cell + gap) - 2, cell + 4, cell + 4, { rx: 4, fill: "none", stroke: kit.colour("ink"), strokeWidth: 2.5 });
  }
  // A's walk when it is back: a stroke for each line, long where it had to be fetched again.
  const under = top + WAYS * (cell + gap) + 26, step = wide / a, back = steps.slice(b, Math.max(b, now));
  const misses = back.filter(({ hit }) => !hit).length;
  drawn += kit.text(start, under, "A's walk when it is back", { size: kit.size })
    + kit.text(start + wide, under, now > b ? `${misses} of ${a} fetched again` : "", { anchor: "end", weight: 650, fill: kit.colour("warmup") })
    + kit.line(start, under + 52, start + wide, under + 52);
  back.forEach(({ hit }, n) => {
    const high = hit ? 9 : 40;
    drawn += kit.rect(start + n * step, under + 52 - high, Math.max(1.5, step - 1.5), high, { fill: kit.colour(hit ? "own" : "warmup") });
  });
  kit.height = under + 62;
  return drawn;
};

const say = ({ a, b, evicted, missed }, at) => {
  if (at < b) return `A is off the CPU, and B walks over ${b} lines of its own. What does not fit beside them pushes out lines of A.`;
  const whole = SETS * WAYS;
  if (!evicted && !missed) return `A's ${a} lines and B's ${b} fit into the ${whole} of the cache together: A comes back and finds everything.`;
  return `B pushed ${evicted} of A's ${a} lines out of a cache of ${whole}. A is back and fetches ${missed} again${missed > evicted ? `, for what it had left was the oldest and made room first` : ""}: the part of a switch that is paid later.`;
};

export default {
  name: "cache",
  title: "What the other thread left of the cache",
  controls: [
    { name: "a", label: "A uses", unit: "lines", min: 4, max: 64, step: 4, value: 40 },
    { name: "b", label: "B uses", unit: "lines", min: 4, max: 96, step: 4, value: 48 },
  ],
  scene, draw, say, simulate, first,
};
