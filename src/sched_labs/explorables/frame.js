/* The frame around every explorable: its picture, the time slider, its controls, and one sentence.

   An explorable is a module without imports whose default export has

     title                     what it shows, in a few words
     controls                  [{name, label, unit, min, max, step, value} or {name, label, choices: {key: words}, value}];
                               `when(values)` says whether it is of any use now; data.values may begin with others
     scene(values, data)       the exact model or the recorded trace, laid out; throws an Error with words for a reader
                               where the values make no sense together
     draw(scene, at, kit)      the picture at a moment, as SVG elements; sets kit.height
     say(scene, at)            the one sentence

   A scene has `from` and `to`, the time that can be played, in a unit of its own; `seconds`, how long playing takes;
   `moments`, where something happens; and `clock(at)`, a moment in words.

   Nothing moves before somebody presses a key or a button, and where motion is unwanted "play" is a step from moment
   to moment.  A page and JupyterLab use this same file (sched_labs.explorables). */

const element = (tag, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.setAttribute("data-lm-suppress-shortcuts", ""); // JupyterLab takes keys from whatever has the focus otherwise
  made.append(...children);
  return made;
};

/* ---- what pictures are drawn with: strings, so that they can be drawn without a page ---- */

const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const short = (number) => String(Math.round(number * 100) / 100);

const attributes = (given) => Object.entries(given)
  .filter(([, value]) => value !== undefined && value !== null && value !== false)
  .map(([name, value]) => ` ${name.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`)}="${typeof value === "number" ? short(value) : escaped(value)}"`)
  .join("");

const tag = (name, given, inside = "") => `<${name}${attributes(given)}${inside === "" ? "/>" : `>${inside}</${name}>`}`;

class Kit {
  constructor(width) {
    this.width = width; // CSS pixels, 1:1
    this.height = 100; // a picture sets it
    this.narrow = width < 560;
    this.size = this.narrow ? 13 : 15; // of letters
  }

  colour(name) { return `var(--sl-${name})`; }
  rect(x, y, width, height, more = {}) { return tag("rect", { x, y, width: Math.max(0, width), height, ...more }); }
  line(x1, y1, x2, y2, more = {}) { return tag("line", { x1, y1, x2, y2, stroke: this.colour("neutral"), ...more }); }
  circle(cx, cy, r, more = {}) { return tag("circle", { cx, cy, r, ...more }); }
  path(points, more = {}) { return tag("path", { d: points.map(([x, y], i) => `${i ? "L" : "M"}${short(x)} ${short(y)}`).join(""), fill: "none", ...more }); }
  curve(d, more = {}) { return tag("path", { d, fill: "none", ...more }); }
  group(inside, more = {}) { return tag("g", more, inside || " "); }

  text(x, y, words, { size = this.size, anchor = "start", weight, fill = this.colour("ink"), ...more } = {}) {
    return tag("text", { x, y, "font-size": size, "text-anchor": anchor, "font-weight": weight, style: `fill:${fill}`, ...more }, escaped(words));
  }

  // About how wide words are; the page's own font may differ by a tenth.
  room(words, size = this.size) { return 0.56 * size * String(words).length; }
  // The first of several wordings that fits; none where none does.
  fit(width, wordings, size = this.size) { return wordings.find((words) => this.room(words, size) <= width) ?? ""; }

  // An arrow's head at (x, y), pointing along (dx, dy).
  head(x, y, dx, dy, more = {}) {
    const length = Math.hypot(dx, dy) || 1, [ux, uy] = [7 * dx / length, 7 * dy / length];
    return tag("path", { d: `M${short(x)} ${short(y)}L${short(x - ux - uy / 2)} ${short(y - uy + ux / 2)}L${short(x - ux + uy / 2)} ${short(y - uy - ux / 2)}Z`, ...more });
  }

  // A bracket over a stretch, with its words above: |----- 9 ms -----|
  bracket(x1, x2, y, words, more = {}) {
    const stroke = more.stroke ?? this.colour("ink");
    return this.curve(`M${short(x1)} ${short(y - 5)}V${short(y + 5)}M${short(x1)} ${short(y)}H${short(x2)}M${short(x2)} ${short(y - 5)}V${short(y + 5)}`, { stroke, strokeWidth: 2 })
      + this.text((x1 + x2) / 2, y - 8, words, { anchor: "middle", weight: 600, fill: stroke, ...more.text });
  }

  // A time axis below a picture: round values, the unit once.
  axis(x1, x2, y, from, to, unit, most = this.narrow ? 5 : 9) {
    const rough = (to - from) / most, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((s) => s * power >= rough - 1e-9);
    let drawn = this.line(x1, y, x2, y);
    for (let value = Math.ceil(from / step - 1e-9) * step; value <= to + 1e-9 * step; value += step) {
      const x = x1 + (value - from) / (to - from) * (x2 - x1), last = value + step > to + 1e-9 * step;
      drawn += this.line(x, y, x, y + 5)
        + this.text(x, y + 6 + this.size, `${short(value)}${last ? ` ${unit}` : ""}`, { anchor: last ? "end" : value === from ? "start" : "middle", size: this.size - 1, fill: this.colour("neutral") });
    }
    return drawn;
  }

  // Where the playing has come to: what is later stands pale behind a veil.
  veil(x, right, top, bottom) {
    return x >= right - 0.5 ? "" : this.rect(x, top, right - x, bottom - top, { fill: this.colour("paper"), fillOpacity: 0.72 })
      + this.line(x, top, x, bottom, { stroke: this.colour("ink"), strokeWidth: 2 });
  }
}

// The whole picture as one <svg>; `described` is its text for those who cannot see it.
const picture = (explorable, scene, at, width, described, id = "sl-picture") => {
  const kit = new Kit(width);
  const inside = explorable.draw(scene, at, kit);
  return `<svg xmlns="http://www.w3.org/2000/svg" class="sl-svg" viewBox="0 0 ${width} ${Math.ceil(kit.height)}" role="img" aria-labelledby="${id}-t ${id}-d">`
    + `<title id="${id}-t">${escaped(explorable.title)}</title><desc id="${id}-d">${escaped(described)}</desc>${inside}</svg>`;
};

const given = (explorable, data) => ({ ...Object.fromEntries(explorable.controls.map(({ name, value }) => [name, value])), ...data?.values });

// The picture as it stands before anything was pressed: for print, and for pages without scripts.
const still = (explorable, data, width = 720) => {
  const scene = explorable.scene(given(explorable, data), data);
  const at = scene.still ?? scene.to;
  return { svg: picture(explorable, scene, at, width, explorable.say(scene, at), `sl-${explorable.name}`), sentence: explorable.say(scene, at) };
};

/* ---- in a page ---- */

let mounted = 0;

// Bring an explorable to life inside `host`; gives {values, stop}.
const mount = (host, explorable, data) => {
  const id = `sl-x${++mounted}`;
  const values = given(explorable, data);
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  let scene, at, playing = 0, width = 0;

  const stage = element("div", { className: "sl-x-stage" });
  const sentence = element("p", { className: "sl-x-say" });
  sentence.setAttribute("role", "status");
  const play = element("button", { type: "button", className: "sl-x-play" });
  const back = element("button", { type: "button", className: "sl-x-step", textContent: "‹" });
  back.setAttribute("aria-label", "To the moment before");
  const on = element("button", { type: "button", className: "sl-x-step", textContent: "›" });
  on.setAttribute("aria-label", "To the next moment");
  const slider = element("input", { type: "range", min: 0, max: 1000, step: 1 });
  slider.setAttribute("aria-label", "Time");
  const clock = element("span", { className: "sl-x-clock" });
  const fields = element("div", { className: "sl-x-controls" });

  const show = () => {
    const words = explorable.say(scene, at);
    stage.innerHTML = picture(explorable, scene, at, width || 720, words, id);
    if (!playing && sentence.textContent !== words) sentence.textContent = words; // not sixty times a second
    slider.value = scene.to > scene.from ? 1000 * (at - scene.from) / (scene.to - scene.from) : 1000;
    clock.textContent = scene.clock(at);
    slider.setAttribute("aria-valuetext", clock.textContent);
  };

  const stop = () => {
    cancelAnimationFrame(playing);
    playing = 0;
    play.textContent = "▶ Play";
    play.hidden = calm.matches; // the steps do it
  };

  const go = (moment) => {
    stop();
    at = Math.min(Math.max(moment, scene.from), scene.to);
    show();
  };

  const near = () => (scene.to - scene.from) * 1e-6;
  const next = () => go(scene.moments.find((moment) => moment > at + near()) ?? scene.to);
  const before = () => go(scene.moments.findLast((moment) => moment < at - near()) ?? scene.from);

  const start = () => {
    if (at >= scene.to - near()) at = scene.from;
    const began = performance.now(), first = at;
    const speed = (scene.to - scene.from) / (1000 * scene.seconds);
    play.textContent = "❚❚ Pause";
    const tick = (now) => {
      at = Math.min(first + Math.max(0, now - began) * speed, scene.to);
      if (at >= scene.to) stop();
      show();
      if (playing) playing = requestAnimationFrame(tick);
    };
    playing = requestAnimationFrame(tick);
  };

  // Lay the scene out anew.  What makes no sense together is said, and the picture before it stays.
  const lay = (keep) => {
    stop();
    try {
      const fresh = explorable.scene(values, data);
      const share = scene && keep ? (at - scene.from) / (scene.to - scene.from || 1) : 1;
      scene = fresh;
      at = share >= 1 ? scene.still ?? scene.to : scene.from + share * (scene.to - scene.from);
      sentence.classList.remove("refused");
      show();
    } catch (error) {
      sentence.classList.add("refused");
      sentence.textContent = error.message;
    }
  };

  const places = [];
  const sort = () => { for (const [field, { when }] of places) field.hidden = when ? !when(values) : false; };
  for (const control of explorable.controls) {
    const field = element("label");
    places.push([field, control]);
    if (control.choices) {
      const choice = element("select", { name: control.name });
      for (const [value, words] of Object.entries(control.choices)) choice.append(element("option", { value, textContent: words, selected: value === String(values[control.name]) }));
      choice.addEventListener("change", () => { values[control.name] = choice.value; sort(); lay(false); });
      field.append(element("span", { textContent: control.label }), choice);
    } else {
      const { min, max, step, unit = "" } = control;
      const range = element("input", { type: "range", name: control.name, min, max, step });
      range.value = values[control.name];
      const shown = element("output");
      const tell = () => {
        shown.textContent = `${range.value}${unit && ` ${unit}`}`;
        range.setAttribute("aria-valuetext", shown.textContent);
      };
      tell();
      range.addEventListener("input", () => { values[control.name] = range.valueAsNumber; tell(); lay(true); });
      field.append(element("span", { textContent: control.label }), range, shown);
    }
    fields.append(field);
  }
  sort();

  play.addEventListener("click", () => (playing ? go(at) : start()));
  back.addEventListener("click", before);
  on.addEventListener("click", next);
  slider.addEventListener("input", () => go(scene.from + slider.valueAsNumber / 1000 * (scene.to - scene.from)));
  // In the picture's own row of keys: Space plays, the arrows step.  Sliders and lists keep theirs.
  const keys = { " ": () => (calm.matches ? next() : playing ? go(at) : start()), ArrowRight: next, ArrowLeft: before, Home: () => go(scene.from), End: () => go(scene.to) };
  stage.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation(); // a presentation has these keys too
    keys[event.key]();
  });
  stage.tabIndex = 0;
  stage.setAttribute("role", "group");
  stage.setAttribute("aria-label", `${explorable.title}. Space plays, arrow keys step.`);
  calm.addEventListener("change", stop);

  const time = element("div", { className: "sl-x-time" }, play, back, slider, on, clock);
  host.replaceChildren(element("p", { className: "sl-x-title", textContent: explorable.title }), stage, time, ...(explorable.controls.length ? [fields] : []), sentence);
  lay(false);
  new ResizeObserver(([{ contentRect }]) => {
    const wide = Math.round(Math.min(contentRect.width, 960));
    if (wide > 0 && wide !== width) {
      width = wide;
      show();
    }
  }).observe(stage);
  return { values, stop };
};

// What anywidget calls in JupyterLab: one view of a widget.
const view = (explorable) => ({
  render({ model, el }) {
    el.classList.add("sl-figure", "sl-explorable");
    const draw = () => mount(el, explorable, model.get("data"));
    let living = draw();
    model.on("change:data", () => {
      living.stop();
      living = draw();
    });
    return () => living.stop();
  },
});

export default { mount, still, view };
