// The timeline of a watch: a lane for each CPU and for each thread, from seconds down to nanoseconds.
(() => {
  const box = document.getElementById("timeline");
  const canvas = box.querySelector("canvas"), said = box.querySelector("[role=status]");
  const rows = box.querySelector("tbody"), more = box.querySelector("details");
  const given = JSON.parse(document.getElementById("timeline-data").textContent);
  const NARROWEST = 1000, LANE = 26, GAP = 6, TOP = 26, MOST_ROWS = 60;

  // Each span: begins, ends, place of the thread, known; each wait: begins, ends, CPU, place of the waker + 1.
  const lanes = given.cpus.map(([number]) => ({ name: `CPU ${number}`, cpu: number, spans: [], waits: [] }));
  const own = new Map(given.own.map((place) => {
    const lane = { name: given.threads[place][1], tid: given.threads[place][0], spans: [], waits: [] };
    lanes.push(lane);
    return [place, lane];
  }));
  given.cpus.forEach(([cpu, steps, places, follows, waited, wakers], index) => {
    let at = 0;
    const times = steps.map((step) => (at += step));
    times.forEach((begin, i) => {
      const lane = own.get(places[i]);
      if (lane && waited[i]) lane.waits.push([begin - waited[i], begin, cpu, wakers[i]]);
      if (i + 1 === times.length) return;
      const span = [begin, times[i + 1], places[i], follows[i + 1]];
      lanes[index].spans.push(span);
      if (lane && span[3]) lane.spans.push([begin, times[i + 1], cpu, 1]);
    });
  });
  for (const lane of own.values()) {
    lane.spans.sort((a, b) => a[0] - b[0]);
    lane.waits.sort((a, b) => a[0] - b[0]);
  }

  let view = [0, given.end], marked = null, pointer = null;

  const length = (ns) => {
    for (const [size, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]])
      if (ns >= size) return `${+(ns / size).toPrecision(3)} ${unit}`;
    return `${Math.round(ns)} ns`;
  };
  const moment = (ns) => `${(ns / 1e9).toFixed(6)} s`;
  const whose = (span) => {
    const [tid, , mine] = given.threads[span[2]];
    return !span[3] ? "unknown" : tid === 0 ? "idle" : mine ? "own" : "other";
  };
  const named = (place) => {
    const [tid, name] = given.threads[place];
    return tid > 0 ? `${name} (${tid})` : name;
  };
  // The first span that ends after a time.
  const after = (spans, time) => {
    let low = 0, high = spans.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (spans[middle][1] > time) high = middle; else low = middle + 1;
    }
    return low;
  };
  const colour = (name) => getComputedStyle(box).getPropertyValue(`--${name}`).trim();
  const left = () => Math.min(130, canvas.clientWidth * 0.24);
  const scale = () => (canvas.clientWidth - left()) / (view[1] - view[0]);
  const x = (time) => left() + (time - view[0]) * scale();
  const time = (pixel) => view[0] + (pixel - left()) / scale();
  const y = (lane) => TOP + lane * (LANE + GAP);

  function draw() {
    const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth;
    const height = y(lanes.length) + GAP;
    canvas.style.height = `${height}px`;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const pen = canvas.getContext("2d"), from = left();
    const inks = Object.fromEntries(
      ["own", "other", "unknown", "waiting", "ink", "quiet", "grid", "paper"].map((name) => [name, colour(name)]));
    pen.scale(ratio, ratio);
    pen.font = "13px system-ui, sans-serif";
    pen.textBaseline = "middle";
    ticks(pen, inks, from, width, height);
    lanes.forEach((lane, row) => {
      pen.fillStyle = inks.ink;
      pen.fillText(lane.name, 0, y(row) + LANE / 2, from - 8);
      pen.save();
      pen.beginPath();
      pen.rect(from, y(row), width - from, LANE);
      pen.clip();
      // Bars thinner than a pixel share it: where many are drawn, the shade says what part each had.
      const bar = ([begin, end], ink) => {
        pen.fillStyle = ink;
        pen.fillRect(x(begin), y(row), Math.max(x(end) - x(begin), 0.02), LANE);
      };
      for (let i = after(lane.waits, view[0]); i < lane.waits.length && lane.waits[i][0] < view[1]; i++)
        bar(lane.waits[i], inks.waiting);
      for (let i = after(lane.spans, view[0]); i < lane.spans.length && lane.spans[i][0] < view[1]; i++) {
        const span = lane.spans[i], kind = lane.tid === undefined ? whose(span) : "own";
        if (kind === "idle") continue;
        bar(span, inks[kind]);
        const room = Math.min(x(span[1]), width) - Math.max(x(span[0]), from);
        if (room > 3) {
          pen.fillStyle = inks.paper;
          pen.fillRect(x(span[1]) - 0.5, y(row), 0.5, LANE);
        }
        if (lane.tid !== undefined || kind === "unknown" || room < 20) continue;
        const fits = [named(span[2]), given.threads[span[2]][1]].find((one) => pen.measureText(one).width < room - 8);
        pen.fillStyle = kind === "own" ? inks.paper : "#fff";
        if (fits) pen.fillText(fits, Math.max(x(span[0]), from) + 4, y(row) + LANE / 2);
      }
      pen.restore();
    });
    if (marked) {
      pen.strokeStyle = inks.ink;
      pen.setLineDash([4, 3]);
      for (const edge of [marked[2], marked[3]])
        if (edge >= view[0] && edge <= view[1]) {
          pen.beginPath();
          pen.moveTo(x(edge), TOP - 4);
          pen.lineTo(x(edge), height);
          pen.stroke();
        }
    }
    if (more.open) table();
  }

  function ticks(pen, inks, from, width, height) {
    const wide = view[1] - view[0];
    const least = wide * 80 / (width - from), ten = 10 ** Math.floor(Math.log10(least));
    const step = [1, 2, 5, 10].map((one) => one * ten).find((one) => one >= least);
    const zero = marked && wide < given.end / 4 ? marked[2] : 0; // since the wait began, where it is looked at
    for (let tick = Math.ceil((view[0] - zero) / step) * step + zero; tick <= view[1]; tick += step) {
      pen.fillStyle = inks.grid;
      pen.fillRect(x(tick), TOP - 4, 1, height);
      pen.fillStyle = inks.quiet;
      const since = tick - zero, text = since < 0 ? `−${length(-since)}` : since ? length(since) : "0";
      const half = pen.measureText(text).width / 2;
      if (x(tick) - half > from - 20 && x(tick) + half < width) pen.fillText(text, x(tick) - half, TOP / 2);
    }
  }

  // What the view shows, in words: as far as a reader wants to go through it.
  function table() {
    const found = [];
    for (const lane of lanes)
      for (let i = after(lane.spans, view[0]); i < lane.spans.length && lane.spans[i][0] < view[1]; i++)
        if (lane.tid === undefined) found.push([lane.spans[i], lane.name]);
    found.sort((a, b) => a[0][0] - b[0][0]);
    rows.replaceChildren(...found.slice(0, MOST_ROWS).map(([span, cpu]) => {
      const line = document.createElement("tr");
      const who = span[3] ? named(span[2]) : `${named(span[2])}, then not kept`;
      for (const text of [moment(span[0]), cpu, who, length(span[1] - span[0])])
        line.appendChild(document.createElement("td")).textContent = text;
      return line;
    }));
    box.querySelector("caption").textContent = found.length > MOST_ROWS
      ? `The first ${MOST_ROWS} of ${found.length} turns in view.` : `All ${found.length} turns in view.`;
  }

  const say = (text) => { said.textContent = text; };
  function show(begin, end) {
    const wide = Math.min(given.end, Math.max(NARROWEST, end - begin));
    const first = Math.min(Math.max(0, (begin + end - wide) / 2), given.end - wide);
    view = [first, first + wide];
    draw();
  }
  const shown = () => say(`${length(view[1] - view[0])} in view, from ${moment(view[0])} on.`);
  function zoom(factor, around = (view[0] + view[1]) / 2) {
    show(around - (around - view[0]) * factor, around + (view[1] - around) * factor);
    shown();
  }
  function move(part) {
    const by = part * (view[1] - view[0]);
    show(view[0] + by, view[1] + by);
    shown();
  }
  function look(number) {
    marked = given.longest[number];
    const margin = 0.3 * (marked[3] - marked[2]);
    show(marked[2] - margin, marked[3] + margin);
    const buttons = [...box.querySelectorAll("ol button")];
    buttons.forEach((one, i) => one.setAttribute("aria-pressed", String(i === number)));
    say(`Wait ${number + 1}. ${buttons[number].dataset.told}`);
  }
  function pointed(event) {
    const at = time(event.offsetX), row = Math.floor((event.offsetY - TOP) / (LANE + GAP)), lane = lanes[row];
    if (!lane || event.offsetX < left()) return;
    const under = (list) => { const one = list[after(list, at)]; return one && one[0] <= at ? one : null; };
    const span = under(lane.spans), wait = under(lane.waits);
    const lasting = (one) => `${length(one[1] - one[0])}, from ${moment(one[0])} on`;
    if (lane.tid === undefined && span)
      say(`${lane.name}: ${named(span[2])}${span[3] ? "" : ", and what was not kept"}, ${lasting(span)}.`);
    else if (wait)
      say(`${lane.name} (${lane.tid}) waits ${lasting(wait)}; then CPU ${wait[2]}` +
        (wait[3] ? `; woken while ${named(wait[3] - 1)} ran.` : "."));
    else if (span) say(`${lane.name} (${lane.tid}) runs on CPU ${span[2]}, ${lasting(span)}.`);
  }

  const keys = {
    "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2),
    ArrowUp: () => zoom(0.5), ArrowDown: () => zoom(2),
    ArrowLeft: () => move(-0.25), ArrowRight: () => move(0.25),
    Home: () => { show(0, given.end); shown(); },
  };
  canvas.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && document.activeElement !== canvas) return; // the page scrolls until it is chosen
    event.preventDefault();
    zoom(1.0015 ** event.deltaY, time(event.offsetX));
  }, { passive: false });
  const held = new Map(); // fingers, and the mouse's button
  const apart = () => { const [a, b] = [...held.values()]; return Math.abs(a - b); };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    held.set(event.pointerId, event.offsetX);
    pointer = held.size === 2 ? apart() : null;
    pointed(event);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!held.has(event.pointerId)) return pointed(event);
    const before = held.get(event.pointerId);
    held.set(event.pointerId, event.offsetX);
    if (held.size === 1) {
      const by = (before - event.offsetX) / scale();
      show(view[0] + by, view[1] + by);
    } else if (held.size === 2 && pointer) {
      const now = Math.max(10, apart()), [a, b] = [...held.values()];
      zoom(pointer / now, time((a + b) / 2));
      pointer = now;
    }
  });
  for (const over of ["pointerup", "pointercancel"])
    canvas.addEventListener(over, (event) => { held.delete(event.pointerId); pointer = null; });
  canvas.addEventListener("dblclick", (event) => zoom(0.25, time(event.offsetX)));
  box.querySelectorAll("ol button").forEach((one, number) => one.addEventListener("click", () => look(number)));
  const buttons = { in: () => zoom(0.5), out: () => zoom(2), back: () => move(-0.5), on: () => move(0.5), all: keys.Home };
  for (const [name, act] of Object.entries(buttons))
    box.querySelector(`[data-do=${name}]`).addEventListener("click", act);
  more.addEventListener("toggle", draw);
  new ResizeObserver(draw).observe(box);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  if (given.longest.length) look(0); else draw();
})();
