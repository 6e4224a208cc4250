/* One exercise: a number or a word that the reader works out, checked in place.  A page of the book and JupyterLab
   use this same file (sched_labs.reader.exercises), with the words of `guess.js`.

   An exercise is {text, unit, answer, within, why}, or {text, unit: "word", choices, answer, why}.  `answer` is null
   where the run above cannot tell it. */

const element = (tag, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.setAttribute("data-lm-suppress-shortcuts", ""); // JupyterLab takes keys from whatever has the focus otherwise
  made.append(...children);
  return made;
};

// 1,500 and 1500 are the same, and so are 2.5 and 2,5, and the two signs for minus.
const parsed = (text) => {
  const plain = text.trim().replace("\u2212", "-").replace(/,(?=\d{3}(\D|$))/g, "").replace(",", ".");
  return /^-?\d*\.?\d+$|^-?\d+\.$/.test(plain) ? Number(plain) : NaN;
};

let count = 0;

const view = (guess) => {
  // What is said to a try: {right, text}.
  const judged = ({ answer, unit, choices, within }, tried) => {
    if (choices) return tried === answer ? { right: true, text: "Right." } : { text: tried ? "No. Try again." : "Choose one." };
    const value = parsed(tried);
    if (!Number.isFinite(value)) return { text: "Give a number, such as 12.5." };
    if (Math.abs(value - answer) <= within * Math.abs(answer)) return { right: true, text: `Right: ${guess.words(answer, unit)}.` };
    const said = guess.compared(value, answer, unit).text;
    return { text: `${said[0].toUpperCase()}${said.slice(1)}. Try again.` };
  };

  const mount = (host, exercise) => {
    const { text, unit, choices, answer, why } = exercise;
    const name = `exercise-${++count}`;
    const said = element("p", { className: "sl-g-told" });
    said.setAttribute("role", "status");
    if (answer === null) {
      said.textContent = "This run has no number to check it with.";
      host.replaceChildren(element("div", { className: "sl-exercised" }, element("p", { className: "sl-g-asked", textContent: text }), said));
      return;
    }
    const form = element("form", { className: "sl-exercised" });
    if (choices) {
      const field = element("fieldset", {}, element("legend", { textContent: text }));
      for (const choice of choices) field.append(element("label", { className: "sl-g-choice" }, element("input", { type: "radio", name, value: choice }), " ", choice));
      form.append(field);
    } else {
      const input = element("input", { type: "text", id: name, name, inputMode: "decimal", autocomplete: "off", size: 10 });
      form.append(element("label", { htmlFor: name, textContent: text }), element("span", {}, input, ` ${unit}`));
    }
    const tell = (verdict, reason = "") => said.replaceChildren(verdict, ...(reason ? [element("span", { className: "sl-g-why", textContent: ` ${reason}` })] : []));
    const show = element("button", { type: "button", textContent: "Show how" });
    show.addEventListener("click", () => tell(`${choices ? answer : guess.words(answer, unit)}.`, why));
    form.append(element("span", { className: "sl-g-buttons" }, element("button", { type: "submit", textContent: "Check" }), show), said);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const verdict = judged(exercise, new FormData(form).get(name) ?? "");
      tell(verdict.text, verdict.right ? why : "");
    });
    host.replaceChildren(form);
  };

  // What anywidget calls in JupyterLab.
  const render = ({ model, el }) => mount(el, model.get("exercise"));

  return { judged, mount, render };
};

export default { view };
