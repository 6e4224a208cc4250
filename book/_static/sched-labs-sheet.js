/* One page with all of a chapter's numbers and the reader's guesses, on the chapter's opening: to print, or as a picture.

   The build says what there is (sched_labs.book.predictions.for_sheet); `picture.js` draws it.  A number whose
   question is still open stays covered here, too. */
"use strict";

(() => {
  const { element, predictions } = window.schedLabs;
  const { guess, picture } = window.schedLabsModules;
  const told = document.querySelector("script.sl-sheet-data");
  if (!told) return;
  const { title, numbers } = JSON.parse(told.textContent);

  const press = (text, act) => {
    const made = Object.assign(element("button", "sl-run", text), { type: "button" });
    made.addEventListener("click", act);
    return made;
  };
  const paper = element("div", "sl-sheet-paper"), said = element("span", "sl-said");
  said.setAttribute("role", "status");
  paper.tabIndex = 0; // it scrolls where the window is small
  const save = (kind) => () => picture.save(paper.innerHTML, `sheet-${window.schedLabs.page.chapter}`, kind)
    .then(() => { said.textContent = "Saved where this browser saves what it downloads."; }, (error) => { said.textContent = `That did not work: ${error.message}.`; });
  const sheet = element("dialog", "sl-sheet",
    element("p", "sl-tools", press("Print", () => print()), press("Save as PNG", save("png")), press("Save as SVG", save("svg")), press("Close", () => sheet.close()), said),
    paper);
  sheet.setAttribute("aria-label", `One page: ${title}`);
  document.body.append(sheet);

  const open = () => {
    // What ran on this page just now is newer than what the page came with.
    const now = numbers.map((one) => ({ ...one, ...predictions.answerTo(one.question.id), question: one.question, kept: predictions.kept(one.question.id) }));
    paper.innerHTML = picture.drawing(guess).sheet(title, now);
    said.textContent = "";
    document.body.classList.add("sl-sheet-open");
    sheet.showModal();
  };
  sheet.addEventListener("close", () => document.body.classList.remove("sl-sheet-open"));
  window.schedLabs.tools().append(press("My sheet", open));
})();
