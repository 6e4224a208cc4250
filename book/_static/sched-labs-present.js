/* Presenting a chapter: the same page, one heading at a time, in large type.

   Right, Page Down or Space: on.  Left or Page Up: back.  Home, End.  Escape: leave.  D: dark or light.
   Cells stay alive: what is run in a slide shows in that slide. */
"use strict";

(() => {
  const article = document.querySelector(".bd-article");
  if (window.schedLabs.page.chapter === null || !article?.querySelector("h2")) return;

  // A slide is a heading with what follows it up to the next heading.
  const slides = [...article.querySelectorAll("section")]
    .map((section) => [...section.children].filter((child) => child.tagName !== "SECTION"))
    .filter((parts) => parts.length > 1 || parts[0]?.matches("h1, h2"));

  let now = 0;
  const count = document.createElement("p");
  count.className = "sl-count";
  count.setAttribute("role", "status");

  const presenting = () => document.body.classList.contains("sl-presenting");

  const show = (number) => {
    for (const part of slides[now]) part.classList.remove("sl-now");
    now = Math.max(0, Math.min(number, slides.length - 1));
    for (const part of slides[now]) part.classList.add("sl-now");
    count.textContent = `${now + 1} / ${slides.length}`;
    scrollTo(0, 0);
    dispatchEvent(new Event("resize")); // what scrolls sideways may have changed
  };

  const begin = () => {
    // From the heading that the reader is at.
    const at = slides.findLastIndex(([heading]) => heading.getBoundingClientRect().top < innerHeight / 3);
    document.body.classList.add("sl-presenting");
    article.append(count);
    show(Math.max(0, at));
    document.documentElement.requestFullscreen?.().catch(() => {}); // a browser may refuse: then in the window
  };

  const leave = () => {
    document.body.classList.remove("sl-presenting");
    count.remove();
    if (document.fullscreenElement) document.exitFullscreen();
    slides[now][0].scrollIntoView();
  };

  const keys = {
    ArrowRight: () => show(now + 1), PageDown: () => show(now + 1), " ": () => show(now + 1),
    ArrowLeft: () => show(now - 1), PageUp: () => show(now - 1),
    Home: () => show(0), End: () => show(slides.length - 1),
    Escape: leave,
    d: () => {
      const page = document.documentElement;
      page.dataset.theme = page.dataset.theme === "dark" ? "light" : "dark";
    },
  };
  addEventListener("keydown", (event) => {
    if (!presenting() || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select") || (event.key === " " && event.target.closest("button, summary, a"))) return;
    const act = keys[event.key];
    if (act) {
      event.preventDefault();
      act();
    }
  });
  document.addEventListener("fullscreenchange", () => {
    if (!document.fullscreenElement && presenting()) leave(); // Escape reaches the browser first
  });

  const start = document.createElement("button");
  Object.assign(start, { type: "button", className: "sl-run", textContent: "Present" });
  start.addEventListener("click", begin);
  window.schedLabs.tools().append(start);
})();
