/* Guesses: what the reader answers, what stays covered until then, and the page that sets all of them against what
   was measured.

   <div class="sl-question" data-question='{"id": "direct.pipe", "text": ..., "unit": "ns", ...}'>   asks
   <div class="sl-reveal" data-reveal='{"question": "direct.pipe", "measured": 1509}'>figure</div>   answers

   From a question on, the results of its section stay covered until the reader has made a guess or declined to.
   A guess is kept in this browser, and by the reader's own Jupyter server where that serves the page. */
"use strict";

(() => {
  const { server, ask, element } = window.schedLabs;
  const { guess, picture } = window.schedLabsModules;
  const key = (id) => "sched-labs.prediction." + id;
  let fromServer = {};
  const unkept = {}; // where this browser keeps nothing, as long as the page is open

  const kept = (id) => {
    if (fromServer[id]) return fromServer[id];
    if (unkept[id]) return unkept[id];
    try {
      const found = JSON.parse(localStorage.getItem(key(id)));
      return found && (found.declined || ["number", "string"].includes(typeof found.value)) ? found : null;
    } catch {
      return null; // storage may be switched off, or hold something else
    }
  };

  // Keep or forget a decision; resolves to what the reader should know about that, mostly nothing.
  const keep = async ({ id, unit }, decision) => {
    let said = "";
    delete fromServer[id];
    delete unkept[id];
    try {
      if (decision) localStorage.setItem(key(id), JSON.stringify(decision));
      else localStorage.removeItem(key(id));
    } catch {
      if (decision) unkept[id] = decision;
      said = server === null && decision?.value !== undefined ? "This browser keeps nothing for this page; write your guess down." : "";
    }
    if (server === null) return said;
    try {
      await ask("POST", "predictions", { question: id, value: decision?.value ?? null, unit });
    } catch (error) {
      said = decision?.value === undefined ? "" : `Kept in this browser only (${error.message}).`;
    }
    return said;
  };

  const questions = () => [...document.querySelectorAll(".sl-question")];
  const told = (place) => JSON.parse(place.dataset.question);
  const answerTo = (id) => {
    const found = [...document.querySelectorAll(".sl-reveal")].map((place) => JSON.parse(place.dataset.reveal)).findLast(({ question }) => question === id);
    return found ?? {};
  };

  /* ---- what is covered ---- */

  // An experiment is a section of its chapter, or a page of its own.
  const section = (place) => (window.schedLabs.page.cut && place.closest("section:has(> h1)")) || (place.closest("section:has(> h2)") ?? document.querySelector(".bd-article"));

  // The results that follow a question in its section, up to the next question that is asked after an answer.
  const follows = (first, second) => Boolean(first.compareDocumentPosition(second) & Node.DOCUMENT_POSITION_FOLLOWING);
  const results = (place, all) => {
    const answers = [...document.querySelectorAll(".sl-reveal")];
    const next = all.find((other) => follows(place, other) && answers.some((answer) => follows(place, answer) && follows(answer, other)));
    return [...section(place).querySelectorAll(".cell_output")].filter((output) =>
      follows(place, output) && !(next && (output.contains(next) || follows(next, output)))
      && !output.querySelector(".sl-question, .sl-controls, .sl-form"));
  };

  const cover = () => {
    for (const output of document.querySelectorAll(".sl-covered")) output.classList.remove("sl-covered");
    for (const lid of document.querySelectorAll(".sl-lid")) lid.remove();
    const all = questions();
    for (const place of all) {
      const { id } = told(place);
      if (kept(id)) continue;
      const hidden = results(place, all);
      for (const output of hidden) output.classList.add("sl-covered");
      const first = hidden.find((output) => output.querySelector("figure, .sl-reveal")) ?? hidden[0];
      if (!first) continue;
      const link = element("a", "", "Your guess first");
      link.href = `#${place.id}`;
      link.addEventListener("click", (event) => {
        event.preventDefault();
        place.scrollIntoView({ block: "center" });
        place.querySelector("input")?.focus({ preventScroll: true });
      });
      first.before(element("p", "sl-lid", link, ": what was measured shows when you have made it, or declined to."));
    }
    compare();
    dispatchEvent(new Event("resize")); // what scrolls sideways may have changed
  };

  /* ---- the guess, in the figure ---- */

  const SVG = "http://www.w3.org/2000/svg";
  const drawn = (tag, attributes, text = "") => {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.textContent = text;
    return made;
  };

  // Where a value lies on a scale of [value, place], and whether it lies beyond it: -1 below, 1 above.
  const placed = (places, value) => {
    const next = places.findIndex(([each]) => each >= value);
    if (next < 0) return [places.at(-1)[1], 1];
    if (next === 0) return [places[0][1], value < places[0][0] ? -1 : 0];
    const [[low, from], [high, to]] = [places[next - 1], places[next]];
    const share = low > 0 ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
    return [from + (to - from) * share, 0];
  };

  const draft = (svg, { along, box, places }, value, words) => {
    const { width, height } = svg.viewBox.baseVal;
    const [left, top, right, bottom] = box.map((share, n) => share * (n % 2 ? height : width));
    const [share, beyond] = placed(places, value);
    const group = drawn("g", { class: "sl-mine", "aria-hidden": "true" });
    if (along === "x") {
      const x = share * width, late = x > (left + right) / 2;
      const text = beyond > 0 ? `${words} →` : beyond < 0 ? `← ${words}` : words;
      group.append(drawn("line", { x1: x, x2: x, y1: top, y2: bottom }),
        drawn("text", { x: x + (late ? -5 : 5), y: top + 13, "text-anchor": late ? "end" : "start" }, text));
    } else {
      const y = share * height;
      const text = beyond > 0 ? `${words} ↑` : beyond < 0 ? `${words} ↓` : words;
      group.append(drawn("line", { x1: left, x2: right, y1: y, y2: y }),
        drawn("text", { x: left + 6, y: y - 5 < top + 10 ? y + 14 : y - 5 }, text));
    }
    svg.append(group);
  };

  // One line over the figure, and a dashed mark in it where it has an axis for the guess.
  const compare = () => {
    for (const old of document.querySelectorAll(".sl-reveal :is(.sl-mine, .sl-verdict)")) old.remove();
    const asked = Object.fromEntries(questions().map((place) => [told(place).id, told(place)]));
    for (const place of document.querySelectorAll(".sl-reveal")) {
      const { question: id, measured, rulers = [] } = JSON.parse(place.dataset.reveal);
      const mine = kept(id);
      if (!mine || mine.declined || !asked[id]) continue;
      place.prepend(element("p", "sl-verdict", guess.sentence(asked[id], mine, measured)));
      const svg = place.querySelector("svg.sl-svg");
      if (svg) for (const ruler of rulers) draft(svg, ruler, mine.value, `your guess: ${guess.words(mine.value, mine.unit ?? asked[id].unit)}`);
    }
  };

  /* ---- the questions ---- */

  const draw = (place, said = "") => {
    const question = told(place);
    place.id ||= `question-${question.id.replace(/\W/g, "-")}`; // one that is a selector, too
    const state = { ...answerTo(question.id), kept: kept(question.id), picture, said };
    guess.mount(place, question, state, async (decision) => {
      const problem = await keep(question, decision);
      draw(place, problem);
      cover();
      place.querySelector("input, button")?.focus({ preventScroll: true });
    });
  };

  const wake = () => {
    questions().forEach((place) => draw(place));
    cover();
  };

  /* ---- all of them ---- */

  // Rows of the page "My predictions": <tr data-question='...' data-measured='1509'>.
  const overview = () => {
    const rows = [...document.querySelectorAll("tr[data-question]")];
    if (rows.length === 0) return;
    let made = 0, high = 0, low = 0, near = 0;
    const factors = [];
    for (const row of rows) {
      const question = told(row), measured = JSON.parse(row.dataset.measured);
      const mine = kept(question.id);
      const [, guessed, found, verdict] = row.children;
      if (!mine) {
        guessed.textContent = "";
        found.textContent = "";
        verdict.textContent = "no guess yet";
        continue;
      }
      found.textContent = measured === null ? "cannot tell here" : guess.words(measured, question.unit);
      if (mine.declined) {
        guessed.textContent = "none";
        continue;
      }
      guessed.textContent = guess.words(mine.value, question.unit);
      made++;
      if (measured === null) continue;
      const { way, wrong, text } = guess.compared(mine.value, measured, question.unit);
      verdict.textContent = text;
      if (way > 0) high++;
      else if (way < 0) low++;
      else if (!wrong) near++;
      if (typeof measured === "number" && measured > 0 && mine.value > 0) factors.push(Math.log(mine.value / measured));
    }
    const summary = document.querySelector(".sl-predictions-said");
    if (!summary || made === 0) return;
    const middle = factors.sort((a, b) => a - b)[Math.floor(factors.length / 2)];
    const tends = high === low ? "You err in both directions alike." : `You tend to guess ${high > low ? "too high" : "too low"}.`;
    const size = factors.length > 2 && Math.abs(middle) > 0.1 ? ` The middle one of your guesses is ${guess.compared(Math.exp(middle), 1, "times").text}.` : "";
    summary.textContent = `${made} of ${rows.length} guesses made: ${near} right or close, ${high} too high, ${low} too low. ${made > 2 ? tends : ""}${size}`;
  };

  const begin = async () => {
    wake(); // at once with what this browser knows
    overview();
    if (server === null) return;
    fromServer = await ask("GET", "predictions").catch(() => ({}));
    if (Object.keys(fromServer).length === 0) return;
    wake();
    overview();
  };

  window.schedLabs.predictions = { wake, kept, answerTo }; // wake: for new output
  begin();
})();
