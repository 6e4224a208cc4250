/* A word of the glossary is explained where it first stands on a page: for the mouse, and for the keyboard.

   `schedLabsGlossary` is written by the build, from book/glossary.md. */
"use strict";

(() => {
  const { element } = window.schedLabs;
  const article = document.querySelector(".bd-article");
  if (!article || location.pathname.endsWith("/glossary.html")) return;

  const wanted = new Map(Object.entries(window.schedLabsGlossary).map(([name, text]) => [name.toLowerCase(), text]));
  if (wanted.size === 0) return; // a pattern of no words fits everywhere
  const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const names = [...wanted.keys()].sort((a, b) => b.length - a.length).map(escaped);
  const pattern = new RegExp(`(?<![\\w-])(${names.join("|")})(s|es)?(?![\\w-])`, "i");

  const skipped = "a, code, pre, h1, h2, h3, summary, figure, figcaption, table, button, label, legend, dfn, em, math, .sl-question, .sl-exercise, .sl-tools, .sl-note, .sl-lid, .sl-form";
  const walker = document.createTreeWalker(article, NodeFilter.SHOW_TEXT, {
    acceptNode: (node) => (node.parentElement.closest("p, li") && !node.parentElement.closest(skipped) ? NodeFilter.FILTER_ACCEPT : NodeFilter.FILTER_REJECT),
  });
  const texts = [];
  while (walker.nextNode()) texts.push(walker.currentNode);

  let count = 0;
  for (const first of texts) {
    let node = first;
    for (let found = pattern.exec(node.data); found; found = pattern.exec(node.data)) {
      const name = found[1].toLowerCase();
      const rest = node.splitText(found.index + found[0].length);
      if (wanted.has(name)) {
        const word = node.splitText(found.index);
        const told = element("span", "sl-definition", wanted.get(name));
        told.id = `sl-term-${++count}`;
        told.setAttribute("role", "tooltip");
        const term = element("dfn", "sl-term");
        term.tabIndex = 0;
        term.setAttribute("aria-describedby", told.id);
        word.replaceWith(term);
        term.append(word, told);
        wanted.delete(name); // once on a page
      }
      node = rest;
    }
  }
})();
