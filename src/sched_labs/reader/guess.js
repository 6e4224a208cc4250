/* One guess: the question with a slider (or a choice of words) before, and a ruler with the guess and what was
   measured after.  A page of the book and JupyterLab use this same file (sched_labs.reader.predictions).

   A question is {id, text, unit, low, high} or {id, text, unit: "word", choices}.  What is kept is {value, unit}, or
   {declined: true} of a reader who would rather see at once.  What was measured is a number in the question's unit,
   one of its words, or null where the run cannot tell. */

const element = (tag, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.setAttribute("data-lm-suppress-shortcuts", ""); // JupyterLab takes keys from whatever has the focus otherwise
  made.append(...children);
  return made;
};

/* ---- words ---- */

const FAMILIES = [
  [["ns", 1], ["µs", 1e3], ["ms", 1e6], ["s", 1e9]],
  [["bytes", 1], ["KiB", 1024], ["MiB", 1024 ** 2], ["GiB", 1024 ** 3]],
];

const number = (value) => Number(value.toPrecision(value >= 1000 ? 4 : 3)).toLocaleString("en", { maximumSignificantDigits: 4 });

// 10,000 ns is "10 µs": the unit in which a number is short, whatever the question's own.
const words = (value, unit) => {
  if (typeof value === "string") return value;
  const family = FAMILIES.find((units) => units.some(([name]) => name === unit));
  if (!family) return `${number(value)} ${unit}`;
  const base = value * family.find(([name]) => name === unit)[1];
  const [name, size] = family.findLast(([, size]) => Math.abs(base) >= size * 0.9995) ?? family[0];
  return `${number(base / size)} ${name}`;
};

const SPELT = ["", "", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
const times = (factor) => {
  const round = factor < 3 ? Math.round(factor * 10) / 10 : Math.round(factor);
  return `${SPELT[round] ?? number(round)} times`;
};

// How a guess stands to what was measured: {way: -1, 0 or 1, text}.
const compared = (guess, measured, unit) => {
  if (typeof measured === "string") {
    return measured === guess ? { way: 0, text: "right" } : { way: 0, wrong: true, text: `it was ${measured}` };
  }
  if (guess === measured) return { way: 0, text: "right" };
  const way = guess > measured ? 1 : -1, direction = way > 0 ? "too high" : "too low";
  if (unit === "%") {
    const apart = Math.abs(guess - measured);
    return apart < 3 ? { way: 0, text: "close to it" } : { way, text: `${number(Math.round(apart))} points ${direction}` };
  }
  if (!(measured > 0 && guess > 0)) return { way, text: direction };
  const factor = Math.max(guess / measured, measured / guess);
  if (factor < 1.1) return { way: 0, text: "close to it" };
  if (factor < 1.75) return { way, text: `${Math.round(100 * Math.abs(guess / measured - 1))} % ${direction}` };
  return { way, text: `${times(factor)} ${direction}` };
};

const sentence = (question, kept, measured) => {
  const known = typeof measured === "string" || Number.isFinite(measured);
  const found = known ? `Measured: ${words(measured, question.unit)}.` : "This run cannot tell.";
  if (!kept || kept.declined) return `You made no guess. ${found}`;
  const said = `You guessed ${words(kept.value, question.unit)}`;
  return known ? `${said}: ${compared(kept.value, measured, question.unit).text}. ${found}` : `${said}. ${found}`;
};

/* ---- the slider's scale ---- */

const STEPS = 200;

// Narrow ranges are even, wide ones logarithmic; a step is two significant digits.
const scale = ({ low, high, unit }) => {
  const wide = high / low > 100;
  const digits = (value) => Number(value.toPrecision(2));
  const step = 10 ** Math.floor(Math.log10((high - low) / 50));
  const base = FAMILIES[1].some(([name]) => name === unit) ? 32 : 10; // 1 KiB, 32 KiB, 1 MiB
  const power = (value) => Math.log(value) / Math.log(base), first = Math.ceil(power(low) - 1e-9);
  const middle = (low + high) / 2, round = 10 ** Math.floor(Math.log10(middle)) / 2; // 50 % between 1 and 100, not 50.5
  return {
    value: (place) => Math.min(high, Math.max(low, wide
      ? digits(low * (high / low) ** (place / STEPS))
      : Number((Math.round((low + (high - low) * place / STEPS) / step) * step).toPrecision(6)))),
    share: (value) => (wide ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low)),
    marks: wide
      ? Array.from({ length: Math.floor(power(high) + 1e-9) - first + 1 }, (_, n) => base ** (n + first))
      : [low, Number((Math.round(middle / round) * round).toPrecision(3)), high],
  };
};

const marks = ({ marks: all, share }, unit, extra = []) => {
  const every = Math.ceil(all.length / 6);
  const short = unit.length < 4; // µs, KiB, %: there is room beside each number; the question names the others
  const row = element("span", { className: "sl-g-marks" });
  row.setAttribute("aria-hidden", "true");
  for (const value of all.filter((_, n) => n % every === 0)) {
    const at = share(value);
    const mark = element("span", { className: "sl-g-mark", textContent: short ? words(value, unit) : number(value) });
    mark.style.left = `${100 * at}%`;
    if (at < 0.06) mark.classList.add("first");
    if (at > 0.94) mark.classList.add("last");
    row.append(mark);
  }
  return row;
};

/* ---- before: the question ---- */

const ask = (host, question, decide) => {
  const name = `guess-${question.id}`;
  const keep = element("button", { type: "submit", className: "sl-g-keep", textContent: "That is my guess", disabled: true });
  const decline = element("button", { type: "button", className: "sl-g-decline", textContent: "Show it without a guess" });
  const said = element("p", { className: "sl-g-said" });
  said.setAttribute("role", "status");
  const form = element("form", { className: "sl-guess" });
  let value = null;
  const choose = (now) => {
    value = now;
    keep.disabled = false;
  };
  if (question.choices) {
    const field = element("fieldset", {}, element("legend", { textContent: question.text }));
    for (const choice of question.choices) {
      const radio = element("input", { type: "radio", name, value: choice });
      radio.addEventListener("change", () => choose(choice));
      field.append(element("label", { className: "sl-g-choice" }, radio, " ", choice));
    }
    form.append(field);
  } else {
    const lines = scale(question);
    const range = element("input", { type: "range", id: name, min: 0, max: STEPS, step: 1, value: STEPS / 2, className: "untouched" });
    const shown = element("output", { textContent: "move the slider" });
    shown.htmlFor.add(name);
    range.setAttribute("aria-valuetext", "no guess yet");
    const tell = () => {
      choose(lines.value(range.valueAsNumber));
      range.classList.remove("untouched");
      shown.textContent = words(value, question.unit);
      range.setAttribute("aria-valuetext", shown.textContent);
    };
    range.addEventListener("input", tell);
    range.addEventListener("click", tell); // on the very place where the thumb waits
    form.append(
      element("label", { htmlFor: name, textContent: question.text }), shown,
      element("span", { className: "sl-g-line" }, range, marks(lines, question.unit)),
    );
  }
  form.append(element("span", { className: "sl-g-buttons" }, keep, decline), said);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (value !== null) decide({ value, unit: question.unit });
  });
  decline.addEventListener("click", () => decide({ declined: true }));
  host.replaceChildren(form);
};

/* ---- after: the ruler ---- */

const ruler = (question, kept, measured) => {
  const lines = scale(question);
  const place = (value) => `${100 * Math.min(1, Math.max(0, lines.share(value)))}%`;
  const line = element("span", { className: "sl-g-ruler" });
  line.setAttribute("aria-hidden", "true"); // the sentence says it
  const put = (value, className, label) => {
    if (!(value > 0)) return;
    const mark = element("span", { className }, element("span", { textContent: label }));
    mark.style.left = place(value);
    if (lines.share(value) > 0.8) mark.classList.add("last");
    if (lines.share(value) < 0.2) mark.classList.add("first");
    line.append(mark);
  };
  if (Number.isFinite(measured)) put(measured, "sl-g-measured", "measured");
  if (kept && !kept.declined) put(kept.value, "sl-g-guessed", "your guess");
  return element("span", { className: "sl-g-line" }, line, marks(lines, question.unit));
};

const tell = (host, question, { kept, measured, interval, ends, run, picture }, forget) => {
  const waits = measured === undefined;
  const text = waits
    ? kept.declined ? "You made no guess." : `Your guess: ${words(kept.value, question.unit)}.`
    : sentence(question, kept, measured);
  const said = element("p", { className: "sl-g-told", textContent: text });
  said.setAttribute("role", "status");
  const again = element("button", { type: "button", className: "sl-g-decline", textContent: kept.declined ? "Guess after all" : "Guess again" });
  again.addEventListener("click", forget);
  const buttons = [again];
  if (picture && !waits && !kept.declined) {
    const card = element("button", { type: "button", className: "sl-g-decline", textContent: "Save as a picture" });
    card.addEventListener("click", () => {
      const drawn = picture.drawing({ words, compared }).card({ question, kept, measured, interval, ends, run });
      picture.save(drawn, `guess-${question.id}`).catch((error) => said.append(` It could not be saved: ${error.message}.`));
    });
    buttons.push(card);
  }
  host.replaceChildren(
    element("div", { className: "sl-guessed" },
      element("p", { className: "sl-g-asked", textContent: question.text }),
      ...(question.choices || waits || !(Number.isFinite(measured) || kept.value) ? [] : [ruler(question, kept, measured)]),
      said, element("span", { className: "sl-g-buttons" }, ...buttons)),
  );
};

/* Show a question inside `host`.  `state` is {kept, measured, interval, ends, run, picture, said}: kept is null
   before, measured undefined where nothing has been measured yet; `picture` is the module that saves one.  `decide(kept)` is told what the reader decides, null to forget it. */
const mount = (host, question, state, decide) => {
  if (state.kept) tell(host, question, state, () => decide(null));
  else ask(host, question, decide);
  if (state.said) (host.querySelector(".sl-g-said") ?? host.querySelector(".sl-g-told")).append(` ${state.said}`);
};

// What anywidget calls in JupyterLab; `picture` is the module that saves one.
const view = (picture) => ({ render({ model, el }) {
  const draw = () => {
    const state = { ...model.get("measured"), kept: model.get("kept"), said: model.get("said"), picture };
    mount(el, model.get("question"), state, (kept) => {
      model.set("decided", { kept, count: (model.get("decided").count ?? 0) + 1 });
      model.save_changes();
    });
  };
  for (const name of ["kept", "measured", "said"]) model.on(`change:${name}`, draw);
  draw();
} });

export default { mount, sentence, compared, words, view };
