/* Code on a live page, to be changed and run: the fold of each cell gets a field for it.

   What runs is the cell with the reader's text in place of the book's (sched-labs-live.js): by the same kernel and
   behind the same key, after the cells whose names it needs, until its end, a stop or five minutes. */
"use strict";

(() => {
  const { element, live } = window.schedLabs;
  if (!live) return; // a page that stands alone

  const press = (text, act) => {
    const made = Object.assign(element("button", "sl-run", text), { type: "button" });
    made.addEventListener("click", act);
    return made;
  };

  for (const state of live.here) {
    const book = state.cell.querySelector(".cell_input"), original = state.code;
    const open = press("Edit this code", () => {
      const field = Object.assign(element("textarea", "sl-edit"), { value: original, spellcheck: false, rows: original.split("\n").length + 1, wrap: "off" });
      field.setAttribute("aria-label", "Your version of this code. Control and Enter run it.");
      const run = live.button("Run your version", "Run your version of this cell", () => [state]);
      run.title = "Ctrl+Enter";
      const desk = element("div", "sl-desk", field, element("p", "sl-tools", run, press("Back to the book's", () => {
        live.change(state, original, false);
        desk.replaceWith(open);
        book.hidden = false;
        open.focus();
      })));
      field.addEventListener("input", () => live.change(state, field.value, field.value !== original));
      field.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
        event.preventDefault();
        if (!live.busy()) run.click();
      });
      book.hidden = true;
      open.replaceWith(desk);
      field.focus();
    });
    book.after(open);
  }
})();
