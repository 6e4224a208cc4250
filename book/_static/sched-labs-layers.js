/* What folds on a page opens all at once: with a button, with the key U, and on paper. */
"use strict";

(() => {
  const { element, tools } = window.schedLabs;
  const article = document.querySelector(".bd-article");
  const folds = () => [...(article?.querySelectorAll("details") ?? [])];
  if (folds().length < 2) return;

  let open = false;
  const button = element("button", "sl-run", "Unfold everything");
  button.type = "button";
  button.title = "Key: U";
  button.setAttribute("aria-keyshortcuts", "U");
  const turn = (now) => {
    open = now;
    document.body.classList.toggle("sl-unfolded", now); // the code behind sentences, too
    for (const fold of folds()) fold.open = now;
    button.textContent = now ? "Fold again" : "Unfold everything";
    button.setAttribute("aria-pressed", String(now));
    dispatchEvent(new Event("resize")); // what scrolls sideways may have changed
  };
  button.addEventListener("click", () => turn(!open));
  addEventListener("keydown", (event) => {
    if (event.key !== "u" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    turn(!open);
  });

  let before = [];
  addEventListener("beforeprint", () => {
    before = folds().filter((fold) => !fold.open);
    for (const fold of before) fold.open = true;
  });
  addEventListener("afterprint", () => { for (const fold of before) fold.open = false; });

  tools().append(button);
})();
